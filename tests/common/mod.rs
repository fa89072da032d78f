//! What the tests of the binary share.
#![allow(dead_code)] // Each test file uses its own part of this.

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

/// The program, away from the user's own cache and settings.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rerank-bench"));
    for variable in
        ["HF_HOME", "HF_HUB_CACHE", "HF_TOKEN", "HF_ENDPOINT", "HF_HUB_OFFLINE", "RAYON_NUM_THREADS"]
    {
        command.env_remove(variable);
    }
    command
}

/// Runs `rank` with these arguments and this standard input.
pub fn rank(arguments: &[&str], input: &str) -> Outcome {
    let mut command = program();
    command.arg("rank").args(arguments).write_stdin(input.to_owned());
    outcome(command)
}

/// What a run gave.
pub struct Outcome {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs the command to its end.
pub fn outcome(mut command: Command) -> Outcome {
    let output = command.output().expect("the program starts");
    Outcome {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).expect("UTF-8 on stdout"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8 on stderr"),
    }
}

impl Outcome {
    /// Each line of stdout as JSON.
    pub fn lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
    }

    /// Asserts the exit code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// Asserts that stderr holds each of these.
    #[track_caller]
    pub fn says(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.stderr.contains(part), "{part:?} is not in: {}", self.stderr);
        }
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }
}

/// A pool line with inline embeddings.
pub fn pool_line(id: &str, query: &[f64], candidates: &[&[f64]]) -> String {
    let candidates: Vec<Value> = candidates
        .iter()
        .enumerate()
        .map(|(i, vector)| serde_json::json!({"id": format!("m{i}"), "text": format!("memory {i}"), "embedding": vector}))
        .collect();
    serde_json::json!({"id": id, "query": "what?", "query_embedding": query, "candidates": candidates})
        .to_string()
        + "\n"
}

/// The indices of a line's results.
pub fn indices(line: &Value) -> Vec<u64> {
    line["results"].as_array().unwrap().iter().map(|entry| entry["index"].as_u64().unwrap()).collect()
}

/// A file of the development data, where it is at hand; the test that asks for it skips itself otherwise.
pub fn shared(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared").join(name);
    if !path.exists() {
        println!("skipped: ../shared/{name} is not here");
        return None;
    }
    Some(path)
}
