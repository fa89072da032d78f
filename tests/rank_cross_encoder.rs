//! Cross-encoders through the binary: a tiny model's folder, and the ways in which a model cannot be had.
#![cfg(feature = "neural")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::{indices, outcome, program, rank};
use serde_json::{Value, json};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/xlmr-tiny")
}

fn model() -> String {
    folder().to_str().unwrap().to_owned()
}

/// A pool line of texts.
fn pool(id: &str, query: &str, texts: &[&str]) -> String {
    let candidates: Vec<Value> = texts.iter().map(|text| json!({ "text": text })).collect();
    json!({"id": id, "query": query, "candidates": candidates}).to_string() + "\n"
}

/// Scores by candidate index.
fn scores(line: &Value) -> Vec<f64> {
    let mut scores = vec![f64::NAN; line["results"].as_array().unwrap().len()];
    for entry in line["results"].as_array().unwrap() {
        scores[entry["index"].as_u64().unwrap() as usize] = entry["score"].as_f64().unwrap();
    }
    scores
}

#[track_caller]
fn assert_close(a: &[f64], b: &[f64]) {
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(b) {
        assert!((a - b).abs() < 1e-5, "{a} {b}");
    }
}

const TEXTS: [&str; 6] = [
    "Andrew adopted a puppy named Toby",
    "The weather was fine",
    "",
    "   ",
    "A long walk along the river, with many words that say little and go on for quite some time before they end",
    "Toby",
];

#[test]
fn batches_and_order_do_not_matter() {
    let query = "Which pets did Andrew adopt?";
    let run = |texts: &[&str], batch: &str| {
        let run = rank(&["--model", &model(), "--batch", batch], &pool("q", query, texts)).exits(0);
        scores(&run.lines()[0])
    };
    let whole = run(&TEXTS, "200");
    assert_eq!(whole.len(), TEXTS.len());
    for batch in ["1", "2", "5"] {
        assert_close(&run(&TEXTS, batch), &whole);
    }
    let reversed: Vec<&str> = TEXTS.iter().rev().copied().collect();
    let mut back = run(&reversed, "3");
    back.reverse();
    assert_close(&back, &whole);
    for (text, score) in TEXTS.iter().zip(&whole) {
        assert_close(&run(&[text], "1"), &[*score]);
    }
}

#[test]
fn a_line_has_the_form_of_the_interface() {
    let run = rank(&["--model", &model(), "--top-k", "4"], &pool("q", "pets", &TEXTS)).exits(0);
    let line = &run.lines()[0];
    let results = line["results"].as_array().unwrap();
    assert_eq!((results.len(), &line["selected"]), (4, &json!(4)));
    assert_eq!(line["weights"], "pretrained");
    for pair in results.windows(2) {
        assert!(pair[0]["score"].as_f64() >= pair[1]["score"].as_f64());
    }
    for entry in results {
        let (score, probability) = (entry["score"].as_f64().unwrap(), entry["probability"].as_f64().unwrap());
        assert!((probability - 1.0 / (1.0 + (-score).exp())).abs() < 1e-7);
    }
    assert_eq!(line["truncated"], 0);
}

#[test]
fn equal_texts_come_in_input_order() {
    let run = rank(&["--model", &model()], &pool("q", "pets", &["b", "same", "a", "same"])).exits(0);
    let order = indices(&run.lines()[0]);
    let place = |index: u64| order.iter().position(|&i| i == index).unwrap();
    assert!(place(1) < place(3));
}

#[test]
fn no_candidates_are_no_results_and_an_empty_query_is_an_error() {
    let run = rank(&["--model", &model()], &pool("q", "pets", &[])).exits(0);
    assert_eq!(run.lines()[0]["results"], json!([]));
    rank(&["--model", &model()], &pool("q9", "", &["a"])).exits(1).says(&["q9", "query is empty"]);
    let line =
        json!({"id": "q8", "query": "x", "candidates": [{"text": "a"}, {"id": "m5", "embedding": [1.0]}]});
    rank(&["--model", &model()], &line.to_string()).exits(1).says(&["q8", "m5", "text"]);
}

#[test]
fn long_pairs_are_cut_and_counted() {
    let long = "word ".repeat(400);
    let run = rank(&["--model", &model()], &pool("q", "pets", &[&long, "short"])).exits(0);
    let line = &run.lines()[0];
    assert_eq!(line["truncated"], 1);
    assert!(line["truncated_tokens"].as_u64().unwrap() > 100);
    assert!(scores(line).iter().all(|score| score.is_finite()));
}

#[test]
fn a_folder_without_its_files_is_named() {
    for (missing, part) in [
        ("config.json", "config.json"),
        ("tokenizer.json", "tokenizer.json"),
        ("model.safetensors", "safetensors"),
    ] {
        let copy = tempfile::tempdir().unwrap();
        for file in ["config.json", "tokenizer.json", "model.safetensors"] {
            if file != missing {
                fs::copy(folder().join(file), copy.path().join(file)).unwrap();
            }
        }
        let path = copy.path().to_str().unwrap();
        rank(&["--model", path], &pool("q", "pets", &["a"])).exits(1).says(&[part, path]);
    }
}

#[test]
fn without_network_and_cache_a_known_model_fails_at_once_and_names_the_ways_out() {
    let cache = tempfile::tempdir().unwrap();
    for offline in [true, false] {
        let mut command = program();
        command.args(["--model", "bge-v2-m3", "--batch", "200"]).env("HF_HOME", cache.path());
        // A port where nothing listens stands in for a machine without network.
        command.env("HF_ENDPOINT", "http://127.0.0.1:9");
        if offline {
            command.arg("--offline");
        }
        let start = Instant::now();
        let run = outcome(command).exits(1);
        assert!(start.elapsed() < Duration::from_secs(30));
        assert_eq!(run.stdout, "");
        let path = cache.path().to_str().unwrap().to_owned();
        run.says(&["bge-reranker-v2-m3", "config.json", &path, "--weights random", "folder"]);
    }
}

#[test]
fn devices_and_dtypes_that_are_not_there_are_refused() {
    let input = pool("q", "pets", &["a"]);
    rank(&["--model", &model(), "--dtype", "bf16", "--device", "cpu"], &input)
        .exits(2)
        .says(&["bf16", "CPU"]);
    rank(&["--model", &model(), "--max-length", "3"], &input).exits(2).says(&["max-length"]);
    if !cfg!(feature = "cuda") {
        rank(&["--model", &model(), "--device", "cuda"], &input).exits(1).says(&["cuda"]);
    }
}

#[test]
fn the_benchmark_counts_passes_and_wastes_no_slot() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut command = program();
    command.args(["--model", &model(), "--questions", "2", "--candidates", "10", "--batch", "4", "--json"]);
    command.arg(file.path());
    let run = outcome(command).exits(0);
    let json: Value = serde_json::from_slice(&fs::read(file.path()).unwrap()).unwrap();
    let row = &json["rows"][1];
    assert_eq!((&row["passes"], &row["padded_tokens"], &row["batch"]), (&json!(3), &json!(0), &json!(4)));
    assert_eq!(
        (&row["kind"], &row["engine"], &row["status"]),
        (&json!("cross_encoder"), &json!("packed"), &json!("ok"))
    );
    for stage in ["tokenize", "forward", "sort"] {
        assert!(row["stages_ms"][stage].is_number(), "{stage}: {}", row["stages_ms"]);
    }
    assert!(row["real_tokens"].as_u64().unwrap() > 0);
    assert!(json["workload"]["tokens"]["mean"].is_number());
    assert!(!run.stdout.contains("Random weights"));
}

#[test]
fn models_are_listed_and_shown() {
    let text = |arguments: &[&str]| {
        let mut command = program();
        command.arg("models").args(arguments);
        outcome(command)
    };
    let list = text(&[]).exits(0).stdout;
    for name in ["mempursuit", "bge-base", "bge-large", "bge-v2-m3", "BAAI/bge-reranker-v2-m3"] {
        assert!(list.contains(name), "{name}");
    }
    let shown = text(&["show", "bge-base"]).exits(0).stdout;
    for part in ["BAAI/bge-reranker-base", "licence", "512 tokens"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    text(&["show", "no-such-model"]).exits(2).says(&["no-such-model", "bge-base"]);
}
