//! `doctor` through the binary, on a machine that may have no GPU.

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
