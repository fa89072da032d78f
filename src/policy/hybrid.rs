//! Cosine and BM25 fused by reciprocal ranks (RRF): the usual hybrid retrieval, on the pool's own candidates.
//!
//! The paper's hybrid adds a calibration and an entity boost; this is plain RRF, and is called so.

use std::collections::HashMap;

use super::{Description, Pick, Policy, Selection, vectors};
use crate::error::Result;
use crate::pool::Pool;
use crate::pursuit::{self, Normalize};

/// BM25's saturation of term frequency and its normalisation by length (Okapi's usual values).
const K1: f64 = 1.5;
const B: f64 = 0.75;
/// Rank constant of RRF, for ranks from 0.
const RANK_OFFSET: f64 = 61.0;

/// `1/(61 + cosine rank)`, plus `1/(61 + BM25 rank)` where the BM25 score is positive.
#[derive(Debug)]
pub struct Hybrid {
    normalize: Normalize,
}

impl Hybrid {
    /// RRF over cosine similarity (plain dot products with [`Normalize::No`]) and BM25.
    pub fn new(normalize: Normalize) -> Self {
        Self { normalize }
    }
}

impl Policy for Hybrid {
    fn name(&self) -> &str {
        "hybrid"
    }

    fn describe(&self) -> Description {
        Description::selector("f64")
    }

    fn select(&self, pool: &Pool, budget: usize) -> Result<Selection> {
        if pool.is_empty() {
            return Ok(Selection::default());
        }
        let cosine = vectors::select(pool, |query, rows, scratch| {
            pursuit::cosine(query, rows, pool.len(), self.normalize, scratch)
        })?;
        let (query, texts) = pool.texts()?;
        let lexical = bm25(query, &texts);
        let mut fused = vec![0.0; pool.len()];
        for (rank, pick) in cosine.picks.iter().enumerate() {
            fused[pick.index] += 1.0 / (RANK_OFFSET + rank as f64);
        }
        for (rank, index) in descending(&lexical).into_iter().enumerate() {
            if lexical[index] > 0.0 {
                fused[index] += 1.0 / (RANK_OFFSET + rank as f64);
            }
        }
        let picks =
            descending(&fused).into_iter().take(budget).map(|index| Pick::scored(index, fused[index]));
        Ok(Selection { picks: picks.collect(), ..Selection::default() })
    }
}

/// Positions by value, largest first; equal values by position.
fn descending(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
    order
}

/// Okapi BM25 of each text for the query, with the statistics of `texts` alone:
/// `Σ idf(w) f (k1 + 1) / (f + k1 (1 - b + b |text| / mean))` over the query's different words, with
/// `idf = ln(1 + (N - n + ½)/(n + ½))`.
fn bm25(query: &str, texts: &[&str]) -> Vec<f64> {
    let mut wanted: Vec<String> = words(query).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let place: HashMap<&str, usize> = wanted.iter().enumerate().map(|(i, word)| (word.as_str(), i)).collect();
    let mut lengths = vec![0.0_f64; texts.len()];
    let mut counts = vec![0.0_f64; texts.len() * wanted.len()];
    for (text, (length, counts)) in
        texts.iter().zip(lengths.iter_mut().zip(counts.chunks_mut(wanted.len().max(1))))
    {
        for word in words(text) {
            *length += 1.0;
            if let Some(&place) = place.get(word.as_str()) {
                counts[place] += 1.0;
            }
        }
    }
    let total = texts.len() as f64;
    let mean = (lengths.iter().sum::<f64>() / total.max(1.0)).max(f64::MIN_POSITIVE);
    let mut scores = vec![0.0; texts.len()];
    for word in 0..wanted.len() {
        let frequency = |text: usize| counts[text * wanted.len() + word];
        let holders = (0..texts.len()).filter(|&text| frequency(text) > 0.0).count() as f64;
        let idf = (1.0 + (total - holders + 0.5) / (holders + 0.5)).ln();
        for (text, score) in scores.iter_mut().enumerate() {
            let f = frequency(text);
            *score += idf * f * (K1 + 1.0) / (f + K1 * (1.0 - B + B * lengths[text] / mean));
        }
    }
    scores
}

/// Lower-cased runs of `[a-z0-9]`.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|run| !run.is_empty())
        .map(str::to_ascii_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_lower_cased_runs() {
        assert_eq!(words("Toby's 2nd PUPPY - né").collect::<Vec<_>>(), ["toby", "s", "2nd", "puppy", "n"]);
    }

    #[test]
    fn bm25_follows_its_formula() {
        let texts = ["the dog", "the dog and the cat", "nothing here"];
        let scores = bm25("dog dog cat", &texts);
        let mean = 9.0 / 3.0;
        let idf = |n: f64| (1.0 + (3.0 - n + 0.5) / (n + 0.5)).ln();
        let term = |f: f64, length: f64| f * 2.5 / (f + 1.5 * (0.25 + 0.75 * length / mean));
        let expected = [idf(2.0) * term(1.0, 2.0), (idf(2.0) + idf(1.0)) * term(1.0, 5.0), 0.0];
        for (score, expected) in scores.iter().zip(expected) {
            assert!((score - expected).abs() < 1e-12, "{score} {expected}");
        }
    }

    #[test]
    fn no_words_score_nothing() {
        assert_eq!(bm25("?!", &["a", ""]), [0.0, 0.0]);
        assert_eq!(bm25("a", &["", ""]), [0.0, 0.0]);
    }
}
