//! The packed XLM-RoBERTa against transformers' f64 logits, alone and in company.
#![cfg(feature = "neural")]

use std::path::{Path, PathBuf};

use rerank_bench::nn::ops::Kernels;
use rerank_bench::rerank::{Engine, OpenOptions, Scorer, open};
use serde::Deserialize;

#[derive(Deserialize)]
struct Cases {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    sequences: Vec<Vec<u32>>,
    logits_f64: Vec<f64>,
}

const TOLERANCE: f64 = 1e-5;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/xlmr-tiny")
}

fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(folder().join("cases.json")).unwrap();
    serde_json::from_str::<Cases>(&text).unwrap().cases
}

fn load(options: &OpenOptions) -> Box<dyn Scorer> {
    open(folder().to_str().unwrap(), options, &|_| ()).unwrap()
}

fn assert_close(found: &[f32], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!((f64::from(*f) - e).abs() < TOLERANCE, "{what}, sequence {i}: {f} instead of {e}");
    }
}

#[test]
fn every_golden_case_holds_in_every_engine_and_form() {
    let forms = [
        (Engine::Packed, Kernels::Fused),
        (Engine::Packed, Kernels::Stock),
        (Engine::Candle, Kernels::Fused),
    ];
    for (engine, kernels) in forms {
        let scorer = load(&OpenOptions { engine, kernels, ..OpenOptions::default() });
        for case in cases() {
            for batch in [1, 7, 200] {
                let scores = scorer.score_ids(&case.sequences, batch, &mut ()).unwrap();
                let what = format!("{}, {engine:?}, {kernels:?}, batch {batch}", case.name);
                assert_close(&scores.logits, &case.logits_f64, &what);
                assert_eq!(scores.work.passes, case.sequences.len().div_ceil(batch), "{what}");
            }
        }
    }
}

#[test]
fn packed_rows_pad_nothing_and_padded_ones_say_what_they_waste() {
    let case = cases().into_iter().find(|c| c.name == "uneven_8").unwrap();
    let padded = |engine| {
        let scorer = load(&OpenOptions { engine, ..OpenOptions::default() });
        scorer.score_ids(&case.sequences, 8, &mut ()).unwrap().work.padded_tokens
    };
    let real: usize = case.sequences.iter().map(Vec::len).sum();
    assert_eq!(padded(Engine::Packed), 0);
    assert_eq!(padded(Engine::Candle), 8 * 128 - real);
}

#[test]
fn a_logit_depends_neither_on_company_nor_on_order_nor_on_threads() {
    let scorer = load(&OpenOptions::default());
    let case = cases().into_iter().find(|c| c.name == "rerank_200").unwrap();
    let together = scorer.score_ids(&case.sequences, 200, &mut ()).unwrap().logits;
    let mut reversed = case.sequences.clone();
    reversed.reverse();
    let mut backwards = scorer.score_ids(&reversed, 200, &mut ()).unwrap().logits;
    backwards.reverse();
    assert_eq!(together, backwards);
    let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let unthreaded = one_thread.install(|| scorer.score_ids(&case.sequences, 200, &mut ()).unwrap().logits);
    assert_eq!(together, unthreaded);
    let alone = scorer.score_ids(&case.sequences, 1, &mut ()).unwrap().logits;
    assert_eq!(together, alone);
}

#[test]
fn a_hub_style_configuration_loads_as_well() {
    let copy = tempfile::tempdir().unwrap();
    for file in ["model.safetensors", "tokenizer.json", "cases.json"] {
        std::fs::copy(folder().join(file), copy.path().join(file)).unwrap();
    }
    std::fs::copy(folder().join("config.hub-style.json"), copy.path().join("config.json")).unwrap();
    let scorer = open(copy.path().to_str().unwrap(), &OpenOptions::default(), &|_| ()).unwrap();
    let case = &cases()[1];
    assert_close(
        &scorer.score_ids(&case.sequences, 1, &mut ()).unwrap().logits,
        &case.logits_f64,
        "hub style",
    );
}

#[test]
fn ids_that_would_leave_a_table_are_refused_and_the_model_stays_usable() {
    let scorer = load(&OpenOptions::default());
    let refused = |ids: Vec<u32>| scorer.score_ids(&[vec![0, 2], ids], 2, &mut ()).unwrap_err().to_string();
    assert!(refused(vec![0, 1000, 2]).starts_with("candidate 1: has the token id 1000"));
    assert!(refused(vec![0; 129]).contains("129 tokens, over the limit of 128"));
    assert!(refused(vec![]).contains("no tokens"));
    let case = &cases()[0];
    assert_close(
        &scorer.score_ids(&case.sequences, 1, &mut ()).unwrap().logits,
        &case.logits_f64,
        "afterwards",
    );
}
