//! What every scorer refuses or warns of.

use super::Scores;
use crate::error::{Error, Result};

/// Refuses an empty query.
pub(super) fn query(query: &str) -> Result<()> {
    match query.trim().is_empty() {
        true => Err(Error::Text {
            candidate: None,
            message: "is empty; a reranker needs a query to compare texts with".to_owned(),
        }),
        false => Ok(()),
    }
}

/// Refuses a pass of no texts.
pub(super) fn batch(batch: usize) -> Result<()> {
    match batch {
        0 => Err(Error::Usage("--batch 0 scores nothing; it must be at least 1".to_owned())),
        _ => Ok(()),
    }
}

/// Refuses sequences that would index outside a table: longer than `limit`, or with ids from `vocabulary` on.
pub(super) fn ids(sequences: &[Vec<u32>], limit: usize, vocabulary: usize) -> Result<()> {
    let fault = |ids: &Vec<u32>| match ids.iter().find(|&&id| id as usize >= vocabulary) {
        Some(id) => Some(format!("has the token id {id}, and the model has {vocabulary} embedding rows")),
        None if ids.is_empty() => Some("has no tokens".to_owned()),
        None if ids.len() > limit => Some(format!("has {} tokens, over the limit of {limit}", ids.len())),
        None => None,
    };
    let first = sequences.iter().enumerate().find_map(|(index, ids)| Some((index, fault(ids)?)));
    match first {
        Some((index, message)) => Err(Error::Text { candidate: Some(index), message }),
        None => Ok(()),
    }
}

/// Refuses a score that is not a number.
pub(super) fn numbers(scores: Scores) -> Result<Scores> {
    match scores.logits.iter().position(|logit| logit.is_nan()) {
        Some(index) => Err(Error::Text {
            candidate: Some(index),
            message:
                "its score is NaN; the weights are damaged, or the number format overflows (try --dtype \
                      f32)"
                    .to_owned(),
        }),
        None => Ok(scores),
    }
}

/// Warns where different texts all got the same score.
pub(super) fn spread(scores: &mut Scores, texts: &[&str]) {
    let distinct = texts.iter().any(|text| *text != texts[0]);
    if distinct && scores.logits.iter().all(|logit| *logit == scores.logits[0]) {
        scores.warnings.push(format!(
            "all {} candidates have the same score {} though their texts differ; the order says nothing",
            texts.len(),
            scores.logits[0]
        ));
    }
}
