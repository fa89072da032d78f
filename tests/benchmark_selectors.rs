//! The benchmark and `grid` through the binary, with selectors: structure, not times.

mod common;

use common::{Outcome, outcome, pool_line, program};
use serde_json::Value;

/// Runs the program with `--json` and returns the file's content beside the outcome.
fn run(arguments: &[&str]) -> (Outcome, Value) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut command = program();
    command.args(arguments).arg("--json").arg(file.path());
    let outcome = outcome(command).exits(0);
    let json = serde_json::from_slice(&std::fs::read(file.path()).unwrap()).unwrap();
    (outcome, json)
}

#[test]
fn mempursuit_stands_beside_every_policy() {
    let (run, json) = run(&["--model", "mmr,cosine,mempursuit", "--questions", "12", "--candidates", "40"]);
    let rows = json["rows"].as_array().unwrap();
    let models: Vec<&str> = rows.iter().map(|row| row["model"].as_str().unwrap()).collect();
    assert_eq!(models, ["mempursuit", "mmr", "cosine"]);
    assert_eq!(rows[0]["speedup_median"], 1.0);
    // MemPursuit ran in both interleavings.
    assert_eq!(rows[0]["times_ms"].as_array().unwrap().len(), 24);
    for row in &rows[1..] {
        assert_eq!(row["times_ms"].as_array().unwrap().len(), 12);
        assert_eq!(row["mempursuit_times_ms"].as_array().unwrap().len(), 12);
        let interval = row["speedup_median_ci95"].as_array().unwrap();
        let speedup = row["speedup_median"].as_f64().unwrap();
        assert!(interval[0].as_f64().unwrap() <= speedup && speedup <= interval[1].as_f64().unwrap());
        assert_eq!((&row["kind"], &row["status"]), (&"selector".into(), &"ok".into()));
    }
    let workload = &json["workload"];
    assert_eq!(
        (&workload["questions"], &workload["candidates"], &workload["top_k"]),
        (&12.into(), &40.into(), &20.into())
    );
    assert_eq!(workload["dimension"], 1536);
    for part in
        ["model", "mempursuit", "mmr", "1.00x", "Environment: ", "Workload: generated pools", "Clock: "]
    {
        assert!(run.stdout.contains(part), "{part:?} is not in {}", run.stdout);
    }
    assert!(!run.stdout.contains("Random weights"), "{}", run.stdout);
}

#[test]
fn mempursuit_alone_is_one_row() {
    let (_, json) = run(&["--model", "mempursuit", "--questions", "3", "--candidates", "30", "--top-k", "5"]);
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!((&rows[0]["top_k"], &rows[0]["candidates"]), (&5.into(), &30.into()));
}

#[test]
fn pools_from_a_file_are_cut_and_it_says_so() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let pool = pool_line("q", &[1.0, 0.0], &[&[1.0, 0.1], &[0.9, 0.2], &[0.1, 1.0]]);
    std::fs::write(file.path(), pool.repeat(2)).unwrap();
    let path = file.path().to_str().unwrap();
    let (cut, json) = run(&["--model", "cosine", "--input", path, "--candidates", "2"]);
    assert_eq!((&json["workload"]["candidates"], &json["workload"]["questions"]), (&2.into(), &2.into()));
    assert!(cut.stdout.contains("2 of 2 pools cut to their first 2 candidates"), "{}", cut.stdout);
    assert!(cut.stdout.contains("No 95 % interval below 10 questions"), "{}", cut.stdout);
    let (whole, _) = run(&["--model", "cosine", "--input", path]);
    assert!(!whole.stdout.contains("cut to their first"), "{}", whole.stdout);
}

#[test]
fn csv_and_markdown_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let (csv, markdown) = (folder.path().join("rows.csv"), folder.path().join("table.md"));
    let mut command = program();
    command.args(["--model", "cosine", "--questions", "2", "--candidates", "20", "--csv"]).arg(&csv);
    command.arg("--markdown").arg(&markdown);
    let printed = outcome(command).exits(0);
    assert!(printed.stdout.contains("cosine"));
    assert_eq!(std::fs::read_to_string(csv).unwrap().lines().count(), 3);
    assert!(std::fs::read_to_string(markdown).unwrap().starts_with("| model | "));
}

#[test]
fn mistakes_end_before_any_work() {
    let fails = |arguments: &[&str], code: i32, parts: &[&str]| {
        let mut command = program();
        command.args(arguments);
        let run = outcome(command).exits(code).says(parts);
        assert_eq!(run.stdout, "");
    };
    fails(&["--model", "mmr,no-such-model"], 2, &["no-such-model", "mempursuit", "cosine"]);
    fails(&["--model", "mmr", "--questions", "0"], 2, &["questions"]);
    fails(&["--model", "mmr", "--top-k", "0"], 2, &["top-k"]);
    fails(&["--model", "mmr", "--threads", "0"], 2, &["threads"]);
    fails(&["no-such-command"], 2, &["no-such-command"]);
    fails(&["--model", "mmr", "--csv", "no/such/folder/rows.csv"], 1, &["no/such/folder/rows.csv"]);
    let empty = tempfile::NamedTempFile::new().unwrap();
    fails(&["--model", "mmr", "--input", empty.path().to_str().unwrap()], 1, &["no pools"]);
}

#[test]
fn the_grid_has_a_row_for_each_cell() {
    let (run, json) = run(&["grid", "--candidates", "30,100", "--top-k", "5,10", "--questions", "2"]);
    let cells: Vec<(u64, u64)> = json["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["candidates"].as_u64().unwrap(), row["top_k"].as_u64().unwrap()))
        .collect();
    assert_eq!(cells, [(30, 5), (30, 10), (100, 5), (100, 10)]);
    assert!(run.stdout.contains("paper's median ms") && run.stdout.contains("4.54"), "{}", run.stdout);
}

#[test]
fn help_lists_every_command_and_version_names_the_commit() {
    let text = |arguments: &[&str]| {
        let mut command = program();
        command.args(arguments);
        outcome(command).exits(0).stdout
    };
    let help = text(&["--help"]);
    for word in ["rank", "grid", "--model", "--batch", "--weights", "Exit codes"] {
        assert!(help.contains(word), "{word}");
    }
    assert!(text(&["rank", "--help"]).contains("--keep-going"));
    assert!(text(&["--version"]).starts_with("rerank-bench 0."));
}
