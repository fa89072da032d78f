//! The Qwen3.5 network against f64 logits: alone, in company, continued from a shared beginning.
#![cfg(feature = "neural")]

use std::path::{Path, PathBuf};

use rerank_bench::device::{DeviceChoice, DtypeChoice, place};
use rerank_bench::nn::ops::{Asking, Kernels};
use rerank_bench::nn::{PackedRows, Qwen3_5, Qwen3_5Config};
use rerank_bench::weights::Parameters;
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    vocab: u32,
    probe_ids: Vec<usize>,
    cases: Vec<Case>,
    shared_prefix: Vec<Shared>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    ids: Vec<u32>,
    probe_last_f64: Vec<f64>,
    last_logits_f32: Vec<f64>,
    all_logits_f32: Option<Vec<Vec<f64>>>,
}

#[derive(Deserialize)]
struct Shared {
    name: String,
    prefix: Vec<u32>,
    suffixes: Vec<Suffix>,
}

#[derive(Deserialize)]
struct Suffix {
    suffix: Vec<u32>,
    probe_last_f64: Vec<f64>,
}

const FORMS: [Kernels; 2] = [Kernels::Fused, Kernels::Stock];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn golden(name: &str) -> Golden {
    // The hub layout holds the values of `qwen3_5-tiny`, so its expected logits are those.
    let text = std::fs::read_to_string(folder(name.trim_end_matches("-hub")).join("cases.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The network with its whole vocabulary as answers.
fn load(name: &str, kernels: Kernels) -> Qwen3_5 {
    let vocabulary = golden(name).vocab;
    load_for(name, kernels, &(0..vocabulary).collect::<Vec<_>>())
}

fn load_for(name: &str, kernels: Kernels, answers: &[u32]) -> Qwen3_5 {
    let text = std::fs::read_to_string(folder(name).join("config.json")).unwrap();
    let config = Qwen3_5Config::parse(&text).unwrap();
    let parameters = Parameters::map(name, &[folder(name).join("model.safetensors")]).unwrap();
    let placement = place(DeviceChoice::Cpu, DtypeChoice::Auto).unwrap();
    Qwen3_5::load(&config, &parameters, &placement, kernels, answers).unwrap()
}

/// Logits of `sequences` that continue `prefix`, packed.
fn logits(network: &Qwen3_5, prefix: &[u32], sequences: &[&[u32]], asking: Asking) -> Vec<Vec<f32>> {
    let prefix = network.begin(prefix).unwrap();
    let rows = PackedRows::new(sequences.iter().copied(), prefix.tokens() as u32);
    let rows = network.upload(&rows).unwrap();
    network.forward(&prefix, &rows, asking).unwrap().to_vec2().unwrap()
}

#[track_caller]
fn assert_close(found: &[f32], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!((f64::from(*f) - e).abs() < tolerance, "{what}, logit {i}: {f} instead of {e}");
    }
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn every_model_and_form() -> impl Iterator<Item = (&'static str, Kernels)> {
    let models = ["qwen3_5-tiny", "qwen3_5-tiny-eq", "qwen3_5-tiny-hub"];
    models.into_iter().flat_map(|name| FORMS.map(|kernels| (name, kernels)))
}

#[test]
fn every_golden_sequence_holds_alone_and_in_company() {
    for (name, kernels) in every_model_and_form() {
        let (network, golden) = (load(name, kernels), golden(name));
        assert_eq!(network.config().vocabulary as u32, golden.vocab);
        let all: Vec<&[u32]> = golden.cases.iter().map(|case| case.ids.as_slice()).collect();
        let together = logits(&network, &[], &all, Asking::Last);
        for (case, packed) in golden.cases.iter().zip(&together) {
            let what = format!("{name}, {kernels:?}, {}", case.name);
            let alone = logits(&network, &[], &[&case.ids], Asking::Last).remove(0);
            for found in [&alone, packed] {
                let probed: Vec<f32> = golden.probe_ids.iter().map(|&id| found[id]).collect();
                assert_close(&probed, &case.probe_last_f64, 1e-4, &what);
                assert_close(found, &case.last_logits_f32, 2e-4, &what);
            }
        }
    }
}

/// Of the vocabulary only the answers' rows are multiplied, tied to the embedding or not.
#[test]
fn two_answers_give_two_logits_a_sequence() {
    for (name, kernels) in every_model_and_form() {
        let golden = golden(name);
        let all: Vec<&[u32]> = golden.cases.iter().map(|case| case.ids.as_slice()).collect();
        let found = logits(&load_for(name, kernels, &[42, 137]), &[], &all, Asking::Last);
        for (case, found) in golden.cases.iter().zip(&found) {
            let expected = [case.last_logits_f32[42], case.last_logits_f32[137]];
            assert_close(found, &expected, 2e-4, &format!("{name}, {kernels:?}, {}", case.name));
        }
    }
}

#[test]
fn every_position_holds() {
    let mut seen = 0;
    for (name, kernels) in every_model_and_form() {
        let (network, golden) = (load(name, kernels), golden(name));
        for case in &golden.cases {
            let what = format!("{name}, {kernels:?}, {}", case.name);
            let every = logits(&network, &[], &[&case.ids], Asking::Every);
            assert_eq!(every.len(), case.ids.len(), "{what}");
            assert_close(&every[case.ids.len() - 1], &case.last_logits_f32, 1e-3, &what);
            for (found, expected) in every.iter().zip(case.all_logits_f32.iter().flatten()) {
                assert_close(found, expected, 1e-3, &what);
                seen += 1;
            }
            // Causality: a position's logits are the last ones of the sequence up to there.
            for position in [0, 1, 62, 63, 64, 127, 128, 200].into_iter().filter(|&p| p < case.ids.len()) {
                let last = logits(&network, &[], &[&case.ids[..=position]], Asking::Last).remove(0);
                assert!(distance(&every[position], &last) < 1e-3, "{what}, position {position}");
            }
        }
    }
    assert!(seen >= 4 * 4);
}

#[test]
fn a_shared_beginning_changes_nothing_and_is_not_changed() {
    for (name, kernels) in every_model_and_form() {
        let (network, golden) = (load(name, kernels), golden(name));
        for shared in &golden.shared_prefix {
            let suffixes: Vec<&[u32]> = shared.suffixes.iter().map(|s| s.suffix.as_slice()).collect();
            let backwards: Vec<&[u32]> = suffixes.iter().rev().copied().collect();
            let forked = logits(&network, &shared.prefix, &suffixes, Asking::Last);
            let mut reversed = logits(&network, &shared.prefix, &backwards, Asking::Last);
            reversed.reverse();
            for ((suffix, found), other) in shared.suffixes.iter().zip(&forked).zip(&reversed) {
                let what = format!("{name}, {kernels:?}, {} + {}", shared.name, suffix.suffix.len());
                let probed: Vec<f32> = golden.probe_ids.iter().map(|&id| found[id]).collect();
                assert_close(&probed, &suffix.probe_last_f64, 1e-4, &what);
                assert_eq!(found, other, "{what}: the order of candidates matters");
                let whole = [shared.prefix.as_slice(), &suffix.suffix].concat();
                let unshared = logits(&network, &[], &[&whole], Asking::Last).remove(0);
                assert!(distance(found, &unshared) < 1e-4, "{what}");
            }
        }
    }
}

/// One prefix serves any number of forward passes, whatever ran before.
#[test]
fn a_prefix_is_read_in_place() {
    for kernels in FORMS {
        let network = load("qwen3_5-tiny", kernels);
        let prefix = network.begin(&[5, 6, 7, 8, 9]).unwrap();
        let bytes = prefix.bytes();
        let run = |sequences: &[&[u32]]| -> Vec<Vec<f32>> {
            let rows = network.upload(&PackedRows::new(sequences.iter().copied(), 5)).unwrap();
            network.forward(&prefix, &rows, Asking::Last).unwrap().to_vec2().unwrap()
        };
        let before = run(&[&[10, 11, 12]]);
        let many: Vec<Vec<u32>> = (0..50).map(|i| vec![20 + i; 1 + i as usize % 7]).collect();
        run(&many.iter().map(Vec::as_slice).collect::<Vec<_>>());
        assert_eq!(before, run(&[&[10, 11, 12]]));
        // Six delta layers of [4, 16, 32] with 3 columns of 192; two attention layers of 2 * 2 heads of 32.
        assert_eq!(prefix.bytes(), bytes);
        assert_eq!(bytes, 4 * (6 * (4 * 16 * 32 + 3 * 192) + 2 * 5 * 2 * 2 * 32));
    }
}

#[test]
fn the_result_does_not_depend_on_the_number_of_threads() {
    let (network, golden) = (load("qwen3_5-tiny", Kernels::Fused), golden("qwen3_5-tiny"));
    let all: Vec<&[u32]> = golden.cases.iter().map(|case| case.ids.as_slice()).collect();
    let runs = [1, 2, 5].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| logits(&network, &all[3][..20], &all, Asking::Last))
    });
    assert_eq!(runs[0], runs[1]);
    assert_eq!(runs[0], runs[2]);
}
