//! `doctor` and `compare` through the binary, on a machine that may have no GPU.

mod common;

use common::{outcome, program};

#[test]
fn it_says_what_is_there_and_what_is_missing() {
    let mut command = program();
    command.arg("doctor");
    let said = outcome(command).exits(0).stdout;
    for name in ["build ", "system ", "processor ", "gpu "] {
        assert!(said.lines().any(|line| line.starts_with(name)), "no {name} in {said}");
    }
}

#[test]
fn the_processors_two_forms_agree() {
    let mut command = program();
    command.args(["doctor", "--self-test", "--device", "cpu"]);
    let said = outcome(command).exits(0).stdout;
    let checks = said.lines().filter(|line| line.starts_with("ok ")).count();
    assert!(checks >= if cfg!(feature = "neural") { 16 } else { 1 }, "{said}");
    assert!(!said.contains("OFF"), "{said}");
}

#[test]
#[cfg(not(feature = "cuda"))]
fn without_a_gpu_there_is_nothing_to_test() {
    let mut command = program();
    command.args(["doctor", "--self-test"]);
    outcome(command).exits(1).says(&["nothing to test", "--features cuda"]);
    let mut command = program();
    command.args(["doctor", "--device", "cpu"]);
    outcome(command).exits(2);
}

#[test]
#[cfg(not(feature = "cuda"))]
fn compare_without_a_gpu_says_so() {
    let mut command = program();
    command.arg("compare");
    let said = outcome(command).exits(1).says(&["cannot be used", "--features cuda"]);
    assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
    assert!(said.stdout.is_empty());
}

/// The kernels on the CPU give the CPU's orders, and nothing is said of their times.
#[test]
#[cfg(feature = "emulator")]
fn compare_emulated_checks_orders_alone() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("compare.json");
    let mut command = program();
    command
        .args(["compare", "--emulated", "--candidates", "24", "--top-k", "6", "--questions", "3", "--json"])
        .arg(&json);
    let said = outcome(command).exits(0).stdout;
    assert!(said.contains("nothing was timed") && !said.contains("ms"), "{said}");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let batches = json["batches"].as_array().unwrap();
    assert!(!batches.is_empty());
    for batch in batches {
        assert_eq!(batch["agreeing"], batch["pools"]);
        assert!(batch["gpu_ms"].is_null());
    }
}
