//! `reproduce` through the binary, on a tiny cross-encoder that the hub's cache gives out as `bge-base`.
#![cfg(feature = "neural")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{Outcome, outcome, program};

/// A cache of the hub that holds the tiny fixture under BGE's name.
fn cache() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let model = home.path().join("hub/models--BAAI--bge-reranker-base");
    let snapshot = model.join("snapshots/0123456789012345678901234567890123456789");
    fs::create_dir_all(&snapshot).unwrap();
    fs::create_dir_all(model.join("refs")).unwrap();
    fs::write(model.join("refs/main"), "0123456789012345678901234567890123456789").unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/xlmr-tiny");
    for file in ["config.json", "model.safetensors", "tokenizer.json"] {
        fs::copy(fixture.join(file), snapshot.join(file)).unwrap();
    }
    home
}

fn reproduce(home: &Path, folder: &Path, more: &[&str]) -> Outcome {
    let mut command = program();
    command
        .arg("reproduce")
        .arg("--output")
        .arg(folder)
        .env("HF_HOME", home)
        .env("HF_HUB_OFFLINE", "1")
        .args(more);
    outcome(command)
}

fn lines(folder: &Path) -> usize {
    fs::read_to_string(folder.join("results.jsonl")).unwrap().lines().count()
}

#[test]
fn a_run_writes_the_report_and_a_second_one_measures_nothing_again() {
    let (home, folder) = (cache(), tempfile::tempdir().unwrap());
    let report: PathBuf = folder.path().join("a/report");
    let quick = [
        "--quick",
        "--models",
        "bge-base",
        "--weights",
        "pretrained",
        "--device",
        "cpu",
        "--batches",
        "4,16",
    ];
    let first =
        reproduce(home.path(), &report, &quick).exits(0).says(&["26 cells, 0 of them finished before"]);
    assert!(first.stdout.contains("report.md"), "{}", first.stdout);
    let cells = lines(&report);
    assert_eq!(cells, 26);
    let text = fs::read_to_string(report.join("report.md")).unwrap();
    for part in [
        "| bge-base | 200 / 20 | 200 | 1 | 1 |",
        "| bge-base (candle) | 200 / 20 | 128 | 2 | 1 |",
        "quick run",
    ] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    let json: serde_json::Value =
        serde_json::from_slice(&fs::read(report.join("results.json")).unwrap()).unwrap();
    let revisions = json["findings"].as_array().unwrap().iter().filter_map(|f| f["row"]["revision"].as_str());
    assert!(revisions.clone().count() > 0);
    assert!(revisions.into_iter().all(|revision| revision.starts_with("0123")));
    for file in
        ["table-12.csv", "table-13.csv", "table-14.csv", "table-1.csv", "figure-5.svg", "figure-9.svg"]
    {
        assert!(fs::metadata(report.join(file)).unwrap().len() > 100, "{file}");
    }

    // Nothing is left to do, and the report is the same.
    reproduce(home.path(), &report, &quick).exits(0).says(&["26 cells, 26 of them finished before"]);
    assert_eq!(fs::read_to_string(report.join("report.md")).unwrap(), text);

    // As after an interruption: the last lines are gone, the last one torn.
    let ledger = fs::read_to_string(report.join("results.jsonl")).unwrap();
    let kept: Vec<&str> = ledger.lines().take(20).collect();
    fs::write(report.join("results.jsonl"), kept.join("\n") + "\n{\"context\":{\"en").unwrap();
    reproduce(home.path(), &report, &quick).exits(0).says(&["26 cells, 20 of them finished before"]);
    assert_eq!(lines(&report), 26);
    // Another seed is another measurement.
    let other = [&quick[..], &["--seed", "1"]].concat();
    reproduce(home.path(), &report, &other).exits(0).says(&["26 cells, 0 of them finished before"]);
    assert_eq!(lines(&report), 52);
}

#[test]
fn a_model_that_cannot_be_had_leaves_its_rows_and_spoils_nothing_else() {
    let (home, folder) = (cache(), tempfile::tempdir().unwrap());
    let arguments =
        ["--quick", "--models", "bge-large,bge-base", "--weights", "pretrained", "--device", "cpu"];
    reproduce(home.path(), folder.path(), &arguments)
        .exits(1)
        .says(&["bge-large, P = 200, K = 20, batch 128 failed"]);
    let text = fs::read_to_string(folder.path().join("report.md")).unwrap();
    assert!(text.contains("| bge-large | 200 / 20 | 128 | - | 0 | - | - | - | failed |"), "{text}");
    assert!(text.contains("| bge-base | 16 / 4 | 16 | 1 | 1 |"), "{text}");
}

/// A pool file of 200 candidates: Table 14 does without its larger sizes, and the command can be pasted back.
#[test]
fn pools_from_a_file_bound_the_grid() {
    let (home, folder) = (cache(), tempfile::tempdir().unwrap());
    let candidates: Vec<serde_json::Value> = (0..200)
        .map(|i| {
            let angle = f64::from(i) * 0.3;
            serde_json::json!({"text": format!("w{} w{}", 5 + i, 300 + i), "embedding": [angle.cos(), angle.sin(), 0.5]})
        })
        .collect();
    let pool = serde_json::json!({"id": "a", "query": "w7 w9", "query_embedding": [0.3, 0.8, 0.5], "candidates": candidates});
    let input = folder.path().join("my pools.jsonl");
    fs::write(&input, format!("{pool}\n")).unwrap();
    let report = folder.path().join("report");
    let arguments =
        ["--quick", "--models", "bge-base", "--weights", "pretrained", "--device", "cpu", "--input"];
    reproduce(home.path(), &report, &[&arguments[..], &[input.to_str().unwrap()]].concat()).exits(0);
    let text = fs::read_to_string(report.join("report.md")).unwrap();
    assert!(
        text.contains(
            "Table 14 is without P = 300, 500: the largest pool of my pools.jsonl has 200 candidates."
        ),
        "{text}"
    );
    assert!(text.contains(&format!("--input '{}'", input.display())), "{text}");
    assert!(text.contains("d = 3"));

    fs::write(&input, format!("{}\n", serde_json::json!({"query": "w7", "candidates": [{"text": "w8"}]})))
        .unwrap();
    let small = [&arguments[..], &[input.to_str().unwrap()]].concat();
    reproduce(home.path(), &report, &small).exits(1).says(&["has no pool of 200 candidates"]);
}

#[test]
fn wrong_usage_is_refused_before_anything_is_written() {
    let (home, folder) = (cache(), tempfile::tempdir().unwrap());
    let report = folder.path().join("report");
    for (arguments, said) in [
        (&["--models", "bge-huge"][..], "bge-huge"),
        (&["--batches", "0"], "at least 1"),
        (&["--device", "tpu"], "tpu"),
    ] {
        reproduce(home.path(), &report, arguments).exits(2).says(&[said]);
        assert!(!report.exists());
    }
    fs::write(&report, "a file").unwrap();
    reproduce(home.path(), &report, &["--quick"]).exits(1).says(&["report's folder"]);
}
