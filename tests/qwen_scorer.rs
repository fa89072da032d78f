//! The Qwen3.5 scorer from texts and from ids: sharing, order, limits, refusals.
#![cfg(feature = "neural")]

use std::path::{Path, PathBuf};

use rerank_bench::nn::ops::Kernels;
use rerank_bench::rerank::{Engine, OpenOptions, Scorer, Scores, SharePrefix, open};
use rerank_bench::weights::{Kind, WeightsSource};
use serde_json::Value;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn load(options: &OpenOptions) -> Box<dyn Scorer> {
    open(golden("qwen3_5-tiny").to_str().unwrap(), options, &|_| ()).unwrap()
}

fn refused(options: &OpenOptions) -> rerank_bench::Error {
    match open(golden("qwen3_5-tiny").to_str().unwrap(), options, &|_| ()) {
        Ok(_) => panic!("opened"),
        Err(error) => error,
    }
}

const QUERY: &str = "Which pets did Andrew adopt?";

fn texts() -> Vec<String> {
    let animals = ["puppy", "kitten", "parrot", "Toby 🐶", "", " ", "日本語"];
    (0..21)
        .map(|i| format!("{} {}", animals[i % 7], "and more ".repeat(i * i % 13)).trim_end().to_owned())
        .collect()
}

fn score(scorer: &dyn Scorer, texts: &[String], batch: usize) -> Scores {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    scorer.score(QUERY, &texts, batch, &mut ()).unwrap()
}

#[track_caller]
fn assert_near(a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len());
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() < 1e-4, "score {i}: {a} and {b}");
    }
}

#[test]
fn sharing_saves_tokens_and_changes_no_score() {
    let texts = texts();
    for kernels in [Kernels::Fused, Kernels::Stock] {
        let with = |share_prefix| load(&OpenOptions { share_prefix, kernels, ..OpenOptions::default() });
        let shared = score(with(SharePrefix::On).as_ref(), &texts, 200);
        let whole = score(with(SharePrefix::Off).as_ref(), &texts, 200);
        assert_near(&shared.logits, &whole.logits);
        assert_eq!(shared.work.token_lengths, whole.work.token_lengths);
        assert_eq!((shared.work.naive_tokens, shared.work.padded_tokens), (whole.work.real_tokens, 0));
        assert_eq!((whole.work.prefix_tokens, whole.work.naive_tokens), (0, whole.work.real_tokens));
        assert!(shared.work.prefix_tokens > 50);
        let saved = (texts.len() - 1) * shared.work.prefix_tokens;
        assert_eq!(shared.work.real_tokens + saved, shared.work.naive_tokens);
    }
}

#[test]
fn a_score_depends_neither_on_the_batch_nor_on_the_order() {
    let (scorer, texts) = (load(&OpenOptions::default()), texts());
    let together = score(scorer.as_ref(), &texts, 200);
    assert_eq!(together.work.passes, 1);
    for batch in [1, 2, 8] {
        let batched = score(scorer.as_ref(), &texts, batch);
        assert_near(&batched.logits, &together.logits);
        assert_eq!(batched.work.passes, texts.len().div_ceil(batch));
        assert_eq!(
            batched.work.real_tokens, together.work.real_tokens,
            "the shared beginning is run once a pool"
        );
    }
    let reversed: Vec<String> = texts.iter().rev().cloned().collect();
    let mut backwards = score(scorer.as_ref(), &reversed, 200).logits;
    backwards.reverse();
    assert_near(&backwards, &together.logits);
}

#[test]
fn ids_are_scored_as_the_golden_margins_say() {
    let text = std::fs::read_to_string(golden("qwen3_5-tiny").join("cases.json")).unwrap();
    let cases: Value = serde_json::from_str(&text).unwrap();
    let tokenizer: Value = serde_json::from_str(
        &std::fs::read_to_string(golden("qwen3_5-tiny").join("tokenizer.json")).unwrap(),
    )
    .unwrap();
    let id = |answer: &str| tokenizer["model"]["vocab"][answer].as_u64().unwrap() as usize;
    let cases = cases["cases"].as_array().unwrap();
    let sequences: Vec<Vec<u32>> =
        cases.iter().map(|case| serde_json::from_value(case["ids"].clone()).unwrap()).collect();
    for share_prefix in [SharePrefix::On, SharePrefix::Off] {
        let scorer = load(&OpenOptions { share_prefix, ..OpenOptions::default() });
        let scores = scorer.score_ids(&sequences, 3, &mut ()).unwrap();
        for (case, score) in cases.iter().zip(&scores.logits) {
            let logit = |answer: &str| case["last_logits_f32"][id(answer)].as_f64().unwrap();
            let margin = logit("yes") - logit("no");
            assert!((f64::from(*score) - margin).abs() < 3e-4, "{}: {score}, not {margin}", case["name"]);
        }
    }
}

#[test]
fn what_sequences_have_in_common_is_run_once() {
    let scorer = load(&OpenOptions::default());
    let begin: Vec<u32> = (10..60).collect();
    let sequences: Vec<Vec<u32>> = (0..9).map(|i| [&begin[..], &[70 + i, 80, 90]].concat()).collect();
    let scores = scorer.score_ids(&sequences, 4, &mut ()).unwrap();
    assert_eq!(
        (scores.work.prefix_tokens, scores.work.real_tokens, scores.work.naive_tokens),
        (50, 50 + 27, 9 * 53)
    );
    let alone: Vec<f32> = sequences
        .iter()
        .map(|ids| scorer.score_ids(std::slice::from_ref(ids), 1, &mut ()).unwrap().logits[0])
        .collect();
    assert_near(&scores.logits, &alone);
}

#[test]
fn a_5000_token_document_is_cut_and_counted() {
    let scorer = load(&OpenOptions { max_length: Some(512), ..OpenOptions::default() });
    let texts = ["puppy ".repeat(5000), "puppy".to_owned()];
    let scores = score(scorer.as_ref(), &texts, 2);
    assert_eq!(scores.work.token_lengths[0], 512);
    assert_eq!(scores.work.truncated, 1);
    assert!(scores.work.truncated_tokens > 4000);
}

#[test]
fn no_texts_are_no_scores_and_a_repeated_text_repeats_its_score() {
    let scorer = load(&OpenOptions::default());
    let none = scorer.score(QUERY, &[], 8, &mut ()).unwrap();
    assert_eq!((none.logits.len(), none.work.passes, none.work.real_tokens), (0, 0, 0));
    let scores = scorer.score(QUERY, &["a puppy", "a kitten", "a puppy"], 8, &mut ()).unwrap();
    assert_eq!(scores.logits[0], scores.logits[2]);
    assert!(scores.warnings.is_empty());
}

#[test]
fn the_model_says_what_it_is_and_how_it_asks() {
    let scorer = load(&OpenOptions::default());
    let info = scorer.info();
    assert_eq!((info.kind, info.engine), (Kind::LlmScorer, Engine::Packed));
    assert_eq!(info.max_length, 1024, "the position limit of the model");
    let other = load(&OpenOptions { instruct: Some("Find pets".to_owned()), ..OpenOptions::default() });
    assert_ne!(info.prompt_hash, other.info().prompt_hash);
    let texts = texts();
    assert_ne!(score(scorer.as_ref(), &texts, 9).logits, score(other.as_ref(), &texts, 9).logits);
}

#[test]
fn what_cannot_be_is_refused_in_a_sentence() {
    let scorer = load(&OpenOptions::default());
    let error = scorer.score(" ", &["a"], 1, &mut ()).unwrap_err();
    assert!(error.to_string().starts_with("query: is empty"), "{error}");
    assert_eq!(scorer.score(QUERY, &["a"], 0, &mut ()).unwrap_err().exit_code(), 2);
    let error = scorer.score_ids(&[vec![1], vec![512]], 1, &mut ()).unwrap_err();
    assert!(error.to_string().contains("candidate 1: has the token id 512"), "{error}");
    let error = scorer.score_ids(&[vec![1; 1025]], 1, &mut ()).unwrap_err();
    assert!(error.to_string().contains("over the limit of 1024"), "{error}");
    let error = refused(&OpenOptions { max_length: Some(40), ..OpenOptions::default() });
    assert!(error.exit_code() == 2 && error.to_string().contains("too small"), "{error}");
    let error = refused(&OpenOptions { engine: Engine::Candle, ..OpenOptions::default() });
    assert_eq!(error.exit_code(), 2, "{error}");
}

#[test]
fn a_limit_above_the_models_is_lowered_and_said() {
    let scorer = load(&OpenOptions { max_length: Some(5000), ..OpenOptions::default() });
    assert_eq!(scorer.info().max_length, 1024);
    assert!(scorer.info().notes.iter().any(|note| note.contains("lowered from 5000 to 1024")));
}

/// Copies the model's files into a folder of their own, the tokenizer changed by `change`.
fn with_tokenizer(change: impl Fn(&mut Value)) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(golden("qwen3_5-tiny").join(file), copy.path().join(file)).unwrap();
    }
    let text = std::fs::read_to_string(golden("qwen3_5-tiny").join("tokenizer.json")).unwrap();
    let mut tokenizer: Value = serde_json::from_str(&text).unwrap();
    change(&mut tokenizer);
    std::fs::write(copy.path().join("tokenizer.json"), tokenizer.to_string()).unwrap();
    copy
}

#[test]
fn a_tokenizer_without_yes_is_refused() {
    let folder = with_tokenizer(|tokenizer| {
        let merges = tokenizer["model"]["merges"].as_array_mut().unwrap();
        merges.retain(|merge| {
            let parts: Vec<String> = match merge {
                Value::String(merge) => merge.split(' ').map(str::to_owned).collect(),
                pair => serde_json::from_value(pair.clone()).unwrap(),
            };
            parts.concat() != "yes"
        });
    });
    let error = open(folder.path().to_str().unwrap(), &OpenOptions::default(), &|_| ()).err().unwrap();
    assert!(error.to_string().contains("tokens of \"yes\""), "{error}");
}

#[test]
fn random_weights_need_neither_weights_nor_a_tokenizer() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(golden("qwen3_5-tiny-eq").join("config.json"), folder.path().join("config.json")).unwrap();
    let options = OpenOptions { weights: WeightsSource::Random, ..OpenOptions::default() };
    let scorer = open(folder.path().to_str().unwrap(), &options, &|_| ()).unwrap();
    let scores = score(scorer.as_ref(), &texts(), 8);
    assert!(scores.logits.iter().all(|logit| logit.is_finite()));
    assert!(scores.work.prefix_tokens > 50, "the prompt's frame is there: {}", scores.work.prefix_tokens);
    let notes = scorer.info().notes.join("; ");
    assert!(notes.contains("stand-in"), "{notes}");
    assert_eq!(scorer.info().weights, WeightsSource::Random);
}
