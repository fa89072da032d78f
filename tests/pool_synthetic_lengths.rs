//! Generated texts are as long as LoCoMo's, in the word pieces of the BGE cross-encoders.
#![cfg(feature = "neural")]

use std::path::Path;

use rerank_bench::pool::synthetic::Synthetic;
use tokenizers::Tokenizer;

#[test]
fn pairs_have_the_lengths_of_locomo() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/tokenizers/xlm-roberta/tokenizer.json");
    if !path.is_file() {
        println!("skipped: no XLM-R tokenizer beside the checkout");
        return;
    }
    let tokenizer = Tokenizer::from_file(path).unwrap();
    let mut lengths = Vec::new();
    for pool in (Synthetic { dimension: 0, ..Synthetic::default() }).pools().take(50) {
        let (question, texts) = pool.texts().unwrap();
        let pairs: Vec<_> = texts.into_iter().map(|text| (question, text)).collect();
        let encodings = tokenizer.encode_batch(pairs, true).unwrap();
        lengths.extend(encodings.iter().map(|encoding| encoding.len()));
    }
    lengths.sort_unstable();
    let mean = lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
    let quantile = |share: f64| lengths[(share * (lengths.len() - 1) as f64) as usize] as f64;
    // LoCoMo: mean 60.6, median 57, 95th percentile 96.
    for (found, expected) in [(mean, 60.6), (quantile(0.5), 57.0), (quantile(0.95), 96.0)] {
        assert!((found / expected - 1.0).abs() < 0.05, "{found} for {expected}");
    }
}
