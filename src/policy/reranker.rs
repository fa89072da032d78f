//! Neural scorers as policies: score every candidate, sort by the raw logit.

use std::sync::Arc;

use super::{Description, Kind, Pick, Policy, Selection, Settings};
use crate::error::{Error, Result};
use crate::measure::clock::{Clock, Stopwatch, WallClock};
use crate::pool::Pool;
use crate::rerank::{self, Laps, Scorer, Stage, probability};
use crate::weights;

/// Candidates of a small warm-up run.
const SMALL: usize = 4;

/// A cross-encoder or LLM scorer.
pub struct Reranker {
    scorer: Box<dyn Scorer>,
    batch: usize,
    clock: Arc<dyn Clock>,
}

impl Reranker {
    /// Opens the model `name` (a known name, a folder, a hub id).
    ///
    /// # Errors
    /// As [`rerank::open`].
    pub fn open(name: &str, settings: &Settings, say: &dyn Fn(&str)) -> Result<Self> {
        let scorer = rerank::open(name, &settings.reranker, say)?;
        Ok(Self { scorer, batch: settings.batch, clock: Arc::new(WallClock::new()) })
    }

    fn score(&self, pool: &Pool, candidates: usize) -> Result<Selection> {
        let (query, mut texts) = pool.texts()?;
        texts.truncate(candidates);
        let mut watch = Stopwatch::start(self.clock.as_ref());
        let scores = self
            .scorer
            .score(query, &texts, self.batch, &mut StageLaps(&mut watch))
            .map_err(|error| locate(pool, error))?;
        let picks = ranked(&scores.logits);
        watch.lap("sort");
        Ok(Selection {
            picks,
            trace: Vec::new(),
            stages: watch.finish(),
            work: scores.work,
            warnings: scores.warnings,
        })
    }
}

impl Policy for Reranker {
    fn name(&self) -> &str {
        &self.scorer.info().name
    }

    fn describe(&self) -> Description {
        let info = self.scorer.info();
        Description {
            kind: match info.kind {
                weights::Kind::CrossEncoder => Kind::CrossEncoder,
                weights::Kind::LlmScorer => Kind::LlmScorer,
            },
            engine: Some(info.engine.name().into()),
            device: info.device.clone(),
            dtype: info.dtype.clone(),
            weights: info.weights.name().into(),
            revision: info.revision.clone(),
            prompt_hash: info.prompt_hash.clone(),
            share_prefix: info.share_prefix,
            batch: Some(self.batch),
            notes: info.notes.clone(),
        }
    }

    /// Scores all candidates and keeps the best `budget`.
    fn select(&self, pool: &Pool, budget: usize) -> Result<Selection> {
        let mut selection = self.score(pool, pool.len())?;
        selection.picks.truncate(budget);
        Ok(selection)
    }

    fn set_batch(&mut self, batch: usize) {
        self.batch = batch;
    }

    fn warm_up_small(&self, pool: &Pool, _: usize) -> Result<()> {
        self.score(pool, SMALL).map(drop)
    }

    /// One pool after the other: a forward pass uses all threads by itself.
    fn select_many(&self, pools: &[Pool], budget: usize) -> Vec<Result<Selection>> {
        pools.iter().map(|pool| self.select(pool, budget)).collect()
    }

    fn chunk(&self) -> usize {
        1
    }
}

/// Books the scorer's stages on a stopwatch.
struct StageLaps<'a, 'b>(&'a mut Stopwatch<'b>);

impl Laps for StageLaps<'_, '_> {
    fn lap(&mut self, stage: Stage) {
        self.0.lap(stage.name());
    }
}

/// Picks by logit, descending; equal logits by index.
fn ranked(logits: &[f32]) -> Vec<Pick> {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    // Stable, and -0 equals 0: equal scores keep their input order.
    order.sort_by(|&a, &b| logits[b].partial_cmp(&logits[a]).unwrap_or(std::cmp::Ordering::Equal));
    let pick = |index: usize| {
        let logit = logits[index];
        Pick { index, score: f64::from(logit), weight: None, probability: Some(probability(logit)) }
    };
    order.into_iter().map(pick).collect()
}

/// The scorer's fault with the pool's and the candidate's ids.
fn locate(pool: &Pool, error: Error) -> Error {
    match error {
        Error::Text { candidate: Some(index), message } if index < pool.len() => {
            Error::candidate(&pool.id, pool.candidate_id(index), message)
        }
        Error::Text { message, .. } => Error::pool(&pool.id, message),
        Error::OutOfMemory(message) => Error::OutOfMemory(format!("pool {:?}: {message}", pool.id)),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_logits_keep_their_input_order() {
        let order: Vec<usize> =
            ranked(&[1.0, 3.0, 2.0, 3.0, -0.0, 0.0]).iter().map(|pick| pick.index).collect();
        assert_eq!(order, [1, 3, 2, 0, 4, 5]);
    }

    #[test]
    fn saturated_logits_stay_apart() {
        let picks = ranked(&[9.1, 9.3, 12.0, 16.0]);
        assert_eq!(picks.iter().map(|pick| pick.index).collect::<Vec<_>>(), [3, 2, 1, 0]);
        assert!(picks.windows(2).all(|pair| pair[0].probability > pair[1].probability));
    }
}
