//! `rank` with selectors, through the binary.

mod common;

use std::io::Write;
use std::process::{Command, Stdio};

use common::{indices, pool_line, program, rank, shared};
use serde_json::{Value, json};

/// A query between two facts; m0 and m1 are near copies, m2 is the other fact, m3 is noise.
fn pool(id: &str) -> String {
    pool_line(
        id,
        &[0.8, 0.6, 0.0, 0.0],
        &[&[1.0, 0.05, 0.0, 0.0], &[1.0, 0.0, 0.05, 0.0], &[0.0, 1.0, 0.0, 0.1], &[0.1, 0.0, 0.0, 1.0]],
    )
}

#[test]
fn each_selector_orders_by_its_own_rule() {
    for (model, order) in [
        ("mempursuit", vec![0, 2, 1]),
        ("mmr", vec![0, 2, 3]),
        ("cosine", vec![0, 1, 2]),
        ("original", vec![0, 1, 2]),
    ] {
        let run = rank(&["--model", model, "--top-k", "3"], &pool("q")).exits(0);
        let lines = run.lines();
        assert_eq!(lines.len(), 1);
        assert_eq!(indices(&lines[0]), order, "{model}");
        assert_eq!(lines[0]["model"], model);
        assert_eq!(lines[0]["selected"], 3);
        assert_eq!((&lines[0]["truncated"], &lines[0]["truncated_tokens"]), (&json!(0), &json!(0)));
    }
}

#[test]
fn a_line_has_the_form_of_the_interface() {
    let run = rank(&["--model", "mempursuit", "--top-k", "2", "--trace"], &pool("q17")).exits(0);
    let line = &run.lines()[0];
    assert_eq!(line["id"], "q17");
    let first = &line["results"][0];
    assert_eq!((&first["rank"], &first["index"], &first["id"]), (&json!(1), &json!(0), &json!("m0")));
    let weights: f64 =
        line["results"].as_array().unwrap().iter().map(|r| r["weight"].as_f64().unwrap()).sum();
    assert!((weights - 1.0).abs() < 1e-12);
    let trace = line["trace"].as_array().unwrap();
    assert_eq!(trace.len(), 2);
    for (i, step) in trace.iter().enumerate() {
        assert_eq!(step["step"], i + 1);
        assert_eq!(step["weights"].as_array().unwrap().len(), i + 1);
        for key in ["index", "score", "residual", "objective", "reduction", "nu", "certificate"] {
            assert!(step[key].is_number(), "{key}");
        }
    }
    assert_eq!(trace[1]["weights"][0], line["results"][0]["weight"]);
}

#[test]
fn results_come_in_input_order_and_do_not_depend_on_threads() {
    let input: String = (0..300).map(|i| pool(&format!("q{i}"))).collect();
    let one = rank(&["--model", "mempursuit", "--threads", "1"], &input).exits(0);
    let two = rank(&["--model", "mempursuit", "--threads", "2"], &input).exits(0);
    assert_eq!(one.stdout, two.stdout);
    let ids: Vec<Value> = one.lines().iter().map(|line| line["id"].clone()).collect();
    assert_eq!(ids, (0..300).map(|i| json!(format!("q{i}"))).collect::<Vec<_>>());
}

#[test]
fn an_empty_file_is_no_pools_and_an_empty_pool_is_no_results() {
    assert_eq!(rank(&["--model", "mempursuit"], "").exits(0).stdout, "");
    let line = json!({"query_embedding": [1.0, 0.0], "candidates": []}).to_string();
    for model in ["mempursuit", "mmr", "cosine", "original"] {
        let run = rank(&["--model", model], &line).exits(0);
        assert_eq!(run.lines()[0]["results"], json!([]), "{model}");
        assert_eq!(run.lines()[0]["id"], "1");
    }
}

#[test]
fn a_budget_above_the_pool_gives_the_pool() {
    let run = rank(&["--model", "mempursuit", "--top-k", "50"], &pool("q")).exits(0);
    assert_eq!(run.lines()[0]["selected"], 4);
}

#[test]
fn candidates_cuts_the_pool_and_questions_the_file() {
    let input = pool("a") + &pool("b") + &pool("c");
    let run = rank(&["--model", "original", "--candidates", "2", "--questions", "2"], &input).exits(0);
    assert_eq!(run.lines().iter().map(indices).collect::<Vec<_>>(), [[0, 1], [0, 1]]);
}

#[test]
fn shards_together_are_the_whole() {
    let input: String = (0..7).map(|i| pool(&format!("q{i}"))).collect();
    let whole = rank(&["--model", "cosine"], &input).exits(0);
    let mut parts: Vec<String> = Vec::new();
    for shard in ["1/3", "2/3", "3/3"] {
        let run = rank(&["--model", "cosine", "--shard", shard], &input).exits(0);
        parts.extend(run.stdout.lines().map(String::from));
    }
    let mut expected: Vec<String> = whole.stdout.lines().map(String::from).collect();
    parts.sort();
    expected.sort();
    assert_eq!(parts, expected);
    rank(&["--model", "cosine", "--shard", "4/3"], "").exits(2);
}

#[test]
fn sorting_by_time_keeps_the_selection_step() {
    let line = json!({"query_embedding": [1.0, 0.0], "candidates": [
        {"id": "new", "embedding": [1.0, 0.0], "timestamp": "2024-01-02T00:00:00Z"},
        {"id": "undated", "embedding": [0.9, 0.1]},
        {"id": "old", "embedding": [0.5, 0.5], "timestamp": "2023-05-08"},
    ]})
    .to_string();
    let run = rank(&["--model", "cosine", "--sort", "time"], &line).exits(0);
    let listed: Vec<(Value, Value)> = run.lines()[0]["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["id"].clone(), entry["rank"].clone()))
        .collect();
    assert_eq!(listed, [(json!("old"), json!(3)), (json!("new"), json!(1)), (json!("undated"), json!(2))]);
}

#[test]
fn adaptive_stop_selects_fewer_and_the_budget_stays_the_limit() {
    let adaptive = rank(&["--model", "mempursuit", "--adaptive", "--tolerance", "0.5"], &pool("q")).exits(0);
    assert_eq!(adaptive.lines()[0]["selected"], 4.min(adaptive.lines()[0]["selected"].as_u64().unwrap()));
    let patient =
        rank(&["--model", "mempursuit", "--adaptive", "--tolerance", "1", "--patience", "1"], &pool("q"));
    assert_eq!(patient.exits(0).lines()[0]["selected"], 2);
}

#[test]
fn wrong_usage_is_exit_2() {
    for (arguments, part) in [
        (&["--model", "mempursuit", "--top-k", "0"][..], "top-k"),
        (&["--model", "bge-base", "--batch", "0"], "batch"),
        (&["--model", "no-such-model"], "no-such-model"),
        (&["--model", "mmr", "--mmr-relevance", "1.5"], "mmr-relevance"),
        (&["--model", "mempursuit", "--ridge", "-1"], "ridge"),
        (&["--model", "mempursuit", "--device", "tpu"], "tpu"),
        (&["--model", "mempursuit", "--resume"], "output"),
        (&[], "--model"),
    ] {
        rank(arguments, &pool("q")).exits(2).says(&[part]);
    }
}

/// Input lines, what is wrong with the last of them, and the words that the message must hold.
fn bad_lines() -> Vec<(&'static str, String, Vec<&'static str>)> {
    let candidates = |second: Value| {
        json!({"id": "bad", "query_embedding": [1.0, 0.0],
               "candidates": [{"id": "a", "embedding": [1.0, 0.0]}, second]})
        .to_string()
    };
    vec![
        ("unreadable JSON", "{\"id\": \"bad\", ".into(), vec!["line 2"]),
        ("no candidates", json!({"id": "bad", "query": "x"}).to_string(), vec!["bad", "candidates"]),
        (
            "zero vector",
            candidates(json!({"id": "b", "embedding": [0.0, 0.0]})),
            vec!["bad", "\"b\"", "zero"],
        ),
        ("dimension", candidates(json!({"id": "b", "embedding": [1.0]})), vec!["bad", "\"b\"", "1", "2"]),
        (
            "NaN",
            candidates(json!({"id": "b", "embedding": "X"})).replace("\"X\"", "[NaN, 1]"),
            vec!["line 2", "NaN"],
        ),
        ("null number", candidates(json!({"id": "b", "embedding": [null, 1.0]})), vec!["bad", "\"b\""]),
        ("overflow", candidates(json!({"id": "b", "embedding": [1e39, 1.0]})), vec!["bad", "\"b\""]),
        ("twice", candidates(json!({"id": "a", "embedding": [0.0, 1.0]})), vec!["bad", "\"a\""]),
        (
            "missing embedding",
            candidates(json!({"id": "b", "text": "words"})),
            vec!["bad", "\"b\"", "embedding"],
        ),
        ("row without store", candidates(json!({"id": "b", "row": 3})), vec!["bad", "\"b\""]),
        (
            "no query vector",
            json!({"id": "bad", "query": "x", "candidates": [{"embedding": [1.0]}]}).to_string(),
            vec!["bad", "query_embedding"],
        ),
    ]
}

#[test]
fn a_bad_pool_stops_the_run_after_whole_lines() {
    for (what, line, parts) in bad_lines() {
        let run = rank(&["--model", "mempursuit"], &(pool("good") + &line + "\n" + &pool("after")));
        assert_eq!(run.code, 1, "{what}: {}", run.stderr);
        assert_eq!(run.lines().len(), 1, "{what}");
        assert_eq!(run.stderr.trim_end().lines().count(), 1, "one sentence: {}", run.stderr);
        println!("{what}: {}", run.stderr.trim_end());
        run.says(&parts);
    }
}

#[test]
fn keep_going_answers_every_pool_and_says_which_failed() {
    for (what, line, _) in bad_lines() {
        let run =
            rank(&["--model", "mempursuit", "--keep-going"], &(pool("good") + &line + "\n" + &pool("after")));
        assert_eq!(run.code, 3, "{what}: {}", run.stderr);
        let lines = run.lines();
        assert_eq!(lines.len(), 3, "{what}");
        assert!(lines[1]["error"].as_str().is_some_and(|error| !error.is_empty()), "{what}");
        assert!(lines[1].get("results").is_none());
        assert_eq!((&lines[0]["id"], &lines[2]["id"]), (&json!("good"), &json!("after")));
        run.says(&["1 of 3 pools failed"]);
    }
}

#[test]
fn missing_and_unwritable_files_are_named() {
    rank(&["--model", "cosine", "--input", "no/such/pools.jsonl"], "")
        .exits(1)
        .says(&["no/such/pools.jsonl"]);
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    rank(&["--model", "cosine", "--input", path, "--output", "no/such/out.jsonl"], "")
        .exits(1)
        .says(&["no/such"]);
    rank(&["--model", "./no-such-folder", "--input", path], "").exits(1).says(&["no-such-folder"]);
}

#[test]
fn resume_cuts_a_torn_line_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("pools.jsonl"), folder.path().join("orders.jsonl"));
    std::fs::write(&input, (0..5).map(|i| pool(&format!("q{i}"))).collect::<String>()).unwrap();
    let arguments = |extra: &'static [&'static str]| {
        let mut command = program();
        command.args(["rank", "--model", "mempursuit", "--input"]).arg(&input).arg("--output").arg(&output);
        command.args(extra);
        command
    };
    common::outcome(arguments(&[])).exits(0);
    let whole = std::fs::read_to_string(&output).unwrap();
    let third = whole.lines().take(2).map(|line| line.len() + 1).sum::<usize>() + 10;
    std::fs::write(&output, &whole[..third]).unwrap();
    common::outcome(arguments(&["--resume"])).exits(0).says(&["2 ordered pools"]);
    assert_eq!(std::fs::read_to_string(&output).unwrap(), whole);
    common::outcome(arguments(&["--resume"])).exits(0);
    assert_eq!(std::fs::read_to_string(&output).unwrap(), whole);
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rerank-bench"))
        .args(["rank", "--model", "cosine"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    for i in 0..2000 {
        // The program may end while it is still being fed.
        if stdin.write_all(pool(&format!("q{i}")).as_bytes()).is_err() {
            break;
        }
    }
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_slow_producer_gets_each_answer_at_once() {
    use std::io::{BufRead, BufReader};
    let mut child = Command::new(env!("CARGO_BIN_EXE_rerank-bench"))
        .args(["rank", "--model", "mempursuit"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    for i in 0..3 {
        stdin.write_all(pool(&format!("q{i}")).as_bytes()).unwrap();
        stdin.flush().unwrap();
        // Would wait for ever if the program waited for more input first.
        let line: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
        assert_eq!(line["id"], format!("q{i}"));
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn all_locomo_orders_are_the_float64_ones() {
    let (Some(pools), Some(orders)) =
        (shared("data/locomo/pools.jsonl"), shared("data/locomo/mempursuit_orders.json"))
    else {
        return;
    };
    let orders: Value = serde_json::from_slice(&std::fs::read(orders).unwrap()).unwrap();
    let expected: Vec<Vec<u64>> = orders["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| serde_json::from_value(row[1].clone()).unwrap())
        .collect();
    for k in [10, 20] {
        let mut command = program();
        command.args(["rank", "--model", "mempursuit", "--top-k", &k.to_string(), "--input"]).arg(&pools);
        let lines = common::outcome(command).exits(0).lines();
        assert_eq!(lines.len(), expected.len());
        let equal = lines.iter().zip(&expected).filter(|(line, order)| indices(line) == order[..k]).count();
        assert_eq!(equal, expected.len(), "K = {k}");
    }
}
