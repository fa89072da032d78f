//! What users of neighbouring systems ran into, on the tiny model: lengths, batches, ties, empty texts, faults.
#![cfg(feature = "neural")]

mod tiny;

use rerank_bench::rerank::{Engine, Laps, OpenOptions, Stage, Truncation, open, probability};
use rerank_bench::weights::WeightsSource;
use tiny::{Copy, folder, load, refused, words};

fn options() -> OpenOptions {
    OpenOptions::default()
}

#[test]
fn full_and_over_full_pairs_are_scored_cut_and_counted_and_a_short_one_after_them() {
    // The table has 130 rows, two of them reserved: 128 tokens fit, four of them special.
    let scorer = load(&folder(), &options()).unwrap();
    assert_eq!(scorer.info().max_length, 128);
    assert!(scorer.info().notes.iter().any(|n| n.contains("lowered from 512 to 128")));
    let short = scorer.score("w9 w10", &["w11 w12"], 1, &mut ()).unwrap();
    let query = words(60, 1);
    for (passage, tokens, lost) in [(62, 126, 0), (64, 128, 0), (65, 128, 1), (68, 128, 4), (600, 128, 536)] {
        let scores = scorer.score(&query, &[&words(passage, 2)], 1, &mut ()).unwrap();
        assert_eq!(scores.work.token_lengths, [tokens], "{passage} words");
        assert_eq!((scores.work.truncated, scores.work.truncated_tokens), (usize::from(lost > 0), lost));
        assert_eq!(scores.work.real_tokens, tokens as usize);
    }
    assert_eq!(scorer.score("w9 w10", &["w11 w12"], 1, &mut ()).unwrap(), short);
}

#[test]
fn either_rule_of_truncation_can_be_had() {
    let lengths = |truncation, max_length| {
        let options = OpenOptions { truncation, max_length: Some(max_length), ..options() };
        let scorer = load(&folder(), &options).unwrap();
        let scores = scorer.score(&words(100, 1), &[&words(10, 2), &words(90, 3)], 2, &mut ()).unwrap();
        (scores.work.token_lengths, scores.work.truncated, scores.work.truncated_tokens)
    };
    // A query of 100 is cut to 48 of 64; 12 tokens are left for the passage.
    assert_eq!(lengths(Truncation::Passage, 64), (vec![62, 64], 2, 52 + 52 + 78));
    assert_eq!(lengths(Truncation::LongestFirst, 64), (vec![64, 64], 2, 50 + 130));
}

#[test]
fn the_tokenizers_own_truncation_and_padding_are_overridden() {
    // The fixture's tokenizer.json asks for 8 tokens at most, padded to 64.
    let scorer = load(&folder(), &options()).unwrap();
    let scores = scorer.score("w5 w6 w7", &[&words(40, 1), "w8"], 2, &mut ()).unwrap();
    assert_eq!(scores.work.token_lengths, [47, 8]);
}

#[test]
fn texts_through_the_tokenizer_score_as_their_ids_do() {
    let scorer = load(&folder(), &options()).unwrap();
    let by_text = scorer.score("w721", &["w488 w517"], 1, &mut ()).unwrap();
    let by_ids = scorer.score_ids(&[vec![0, 721, 2, 2, 488, 517, 2]], 1, &mut ()).unwrap();
    assert_eq!(by_text.logits, by_ids.logits);
    assert!((by_text.logits[0] - -0.725_220_4).abs() < 1e-5, "the golden value of single_7");
    // Special tokens written out in a text are parsed, as transformers parses them.
    let spelled = scorer.score("w721", &["</s> w5"], 1, &mut ()).unwrap();
    let as_ids = scorer.score_ids(&[vec![0, 721, 2, 2, 2, 5, 2]], 1, &mut ()).unwrap();
    assert_eq!(spelled.logits, as_ids.logits);
}

#[test]
fn wildly_different_lengths_come_back_in_the_callers_order_without_padding() {
    let lengths: Vec<usize> = (0..200).map(|i| if (i * 7) % 4 == 0 { 110 } else { 10 }).collect();
    let texts: Vec<String> = lengths.iter().enumerate().map(|(i, &l)| words(l, i)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let scorer = load(&folder(), &options()).unwrap();
    let together = scorer.score("w5 w6", &texts, 200, &mut ()).unwrap();
    assert_eq!((together.work.passes, together.work.padded_tokens), (1, 0));
    let expected: Vec<u32> = lengths.iter().map(|&l| l as u32 + 6).collect();
    assert_eq!(together.work.token_lengths, expected);
    for batch in [1, 8, 64] {
        let apart = scorer.score("w5 w6", &texts, batch, &mut ()).unwrap();
        assert_eq!(apart.logits, together.logits, "batch {batch}");
        assert_eq!(apart.work.passes, 200_usize.div_ceil(batch));
    }
    let padded = load(&folder(), &OpenOptions { engine: Engine::Candle, ..options() }).unwrap();
    let theirs = padded.score("w5 w6", &texts, 64, &mut ()).unwrap();
    // 50 long pairs, sorted to the front: 14 short ones are padded beside them.
    assert_eq!((theirs.work.passes, theirs.work.padded_tokens), (4, 14 * 100));
    for (ours, theirs) in together.logits.iter().zip(&theirs.logits) {
        assert!((ours - theirs).abs() < 1e-5);
    }
}

#[test]
fn forward_passes_are_as_many_as_batches() {
    #[derive(Default)]
    struct Count(Vec<Stage>);
    impl Laps for Count {
        fn lap(&mut self, stage: Stage) {
            self.0.push(stage);
        }
    }
    let texts: Vec<String> = (0..50).map(|i| words(4, i)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for engine in [Engine::Packed, Engine::Candle] {
        let scorer = load(&folder(), &OpenOptions { engine, ..options() }).unwrap();
        for (batch, passes) in [(1, 50), (20, 3), (50, 1), (200, 1)] {
            let mut count = Count::default();
            let scores = scorer.score("w5", &texts, batch, &mut count).unwrap();
            let forwards = count.0.iter().filter(|s| **s == Stage::Forward).count();
            assert_eq!((scores.work.passes, forwards), (passes, passes), "{engine:?}, batch {batch}");
            assert_eq!((count.0[0], count.0[count.0.len() - 1]), (Stage::Tokenize, Stage::ReadBack));
        }
    }
}

#[test]
fn strong_logits_stay_apart_as_probabilities() {
    for pair in [9.1f32, 9.3, 12.0, 16.0].windows(2) {
        assert!(probability(pair[0]) < probability(pair[1]));
        assert!(probability(-pair[0]) > probability(-pair[1]));
    }
    assert_eq!(probability(0.0), 0.5);
}

#[test]
fn equal_texts_get_equal_scores_and_a_constant_score_draws_a_warning() {
    let scorer = load(&folder(), &options()).unwrap();
    let scores = scorer.score("w5", &["w6", "w7 w8", "w9", "w7 w8", "w10"], 5, &mut ()).unwrap();
    assert_eq!(scores.logits[1], scores.logits[3]);
    assert!(scores.warnings.is_empty());
    assert!(scorer.score("w5", &["w6", "w6"], 2, &mut ()).unwrap().warnings.is_empty());
    let dead =
        Copy::new().tensors(|tensors| tensors.get_mut("classifier.out_proj.weight").unwrap().1.fill(0.0));
    let scores = load(dead.path(), &options()).unwrap().score("w5", &["w6", "w7"], 2, &mut ()).unwrap();
    assert!(scores.warnings[0].contains("all 2 candidates have the same score"), "{:?}", scores.warnings);
}

#[test]
fn empty_and_blank_texts_are_scored_no_texts_give_no_scores_an_empty_query_is_an_error() {
    let scorer = load(&folder(), &options()).unwrap();
    let scores = scorer.score("w5", &["w6", "", "   ", "w7"], 4, &mut ()).unwrap();
    assert_eq!(scores.work.token_lengths, [6, 5, 5, 6]);
    assert_eq!(scores.logits[1], scores.logits[2]);
    assert!(scores.logits.iter().all(|l| l.is_finite()));
    let none = scorer.score("w5", &[], 4, &mut ()).unwrap();
    assert_eq!((none.logits.len(), none.work.passes, none.work.real_tokens), (0, 0, 0));
    for query in ["", "  \n"] {
        let error = scorer.score(query, &["w6"], 4, &mut ()).unwrap_err().to_string();
        assert!(error.starts_with("query: is empty"), "{error}");
    }
}

#[test]
fn a_nan_logit_names_its_candidate() {
    let copy = Copy::new().tensors(|tensors| {
        // The embedding of w77 alone.
        let words = tensors.get_mut("roberta.embeddings.word_embeddings.weight").unwrap();
        words.1[77 * 64..78 * 64].fill(f32::NAN);
    });
    let scorer = load(copy.path(), &options()).unwrap();
    assert!(scorer.score("w5", &["w6", "w7"], 3, &mut ()).is_ok());
    let error = scorer.score("w5", &["w6", "w7", "w8 w77 w9"], 3, &mut ()).unwrap_err();
    assert!(error.to_string().starts_with("candidate 2: its score is NaN"), "{error}");
    assert_eq!(error.exit_code(), 1);
}

#[test]
fn wrong_usage_is_told_apart() {
    let usage = |model: &str, options: &OpenOptions| {
        let error = open(model, options, &|_| ()).err().unwrap();
        assert_eq!(error.exit_code(), 2, "{error}");
        error.to_string()
    };
    let unknown = usage("bge-bse", &options());
    assert!(unknown.contains("bge-base") && unknown.contains("qwen3.5-4b"), "{unknown}");
    let short = OpenOptions { max_length: Some(15), ..options() };
    assert!(refused(&folder(), &short).to_string().contains("at least 16"));
    for dtype in ["bf16", "f16", "tf32"] {
        let options = OpenOptions {
            device: "cpu".parse().unwrap(),
            dtype: dtype.parse().unwrap(),
            weights: WeightsSource::Random,
            ..options()
        };
        let refusal = usage("bge-base", &options);
        assert!(refusal.contains(dtype) && refusal.contains("widened"), "{refusal}");
    }
    assert!("gpu".parse::<rerank_bench::device::DeviceChoice>().is_err());
    let scorer = load(&folder(), &options()).unwrap();
    assert_eq!(scorer.score("w5", &["w6"], 0, &mut ()).unwrap_err().exit_code(), 2);
}
