//! What a benchmark run found: the content of `--json`, and what every other output is made from.

use serde::{Deserialize, Serialize};

use super::environment::Environment;
use super::interleave::Times;
use super::plan::Cell;
use super::statistics::{Summary, mean_ratio_interval, median_ratio_interval, quantile};
use crate::policy::{Description, Kind};

/// A whole run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Results {
    /// The command line that gave it, so that it can be repeated.
    pub command: String,
    pub environment: Environment,
    pub workload: Workload,
    pub rows: Vec<Row>,
}

/// What the policies were run on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Workload {
    /// `generated` with its seed, or the file's name.
    pub source: String,
    /// Pools timed.
    pub questions: usize,
    /// Candidates of the largest pool, P.
    pub candidates: usize,
    /// Budget K.
    pub top_k: usize,
    /// Dimension of the embeddings, d.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dimension: Option<usize>,
    /// Tokens of one (query, candidate) pair, special tokens among them, as the first reranker saw them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
}

/// Distribution of pair lengths, tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Tokens {
    pub mean: f64,
    pub p50: f64,
    pub p95: f64,
    pub max: f64,
}

impl Tokens {
    /// Distribution of `lengths`; `None` where there are none.
    pub fn of(lengths: &[u32]) -> Option<Self> {
        let mut sorted: Vec<f64> = lengths.iter().map(|&length| f64::from(length)).collect();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            max: *sorted.last()?,
            mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
            p50: quantile(&sorted, 0.5),
            p95: quantile(&sorted, 0.95),
        })
    }
}

/// How a cell ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Ok,
    OutOfMemory,
    Error,
}

/// One policy on the workload. Times in milliseconds, one a question, in the order of the pools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub model: String,
    #[serde(flatten)]
    pub description: Description,
    /// Candidates of the largest pool, P.
    pub candidates: usize,
    /// Budget, K.
    pub top_k: usize,
    /// Forward passes a question.
    pub passes: usize,
    /// Tokens run over all questions.
    pub real_tokens: usize,
    /// Of those, tokens that all prompts of a pool begin with, run once a pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix_tokens: Option<usize>,
    /// Tokens that a run without sharing would have needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub naive_tokens: Option<usize>,
    /// Wasted slots over all questions.
    pub padded_tokens: usize,
    /// Tokens of one pair or prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// Pairs cut, and the tokens that they lost, over all questions.
    pub truncated: usize,
    pub truncated_tokens: usize,
    pub mean_ms: Option<f64>,
    pub median_ms: Option<f64>,
    pub p95_ms: Option<f64>,
    pub min_ms: Option<f64>,
    pub times_ms: Vec<f64>,
    /// Mean time of each stage a question.
    pub stages_ms: serde_json::Map<String, serde_json::Value>,
    pub speedup_mean: Option<f64>,
    #[serde(default)]
    pub speedup_mean_ci95: Option<[f64; 2]>,
    pub speedup_median: Option<f64>,
    pub speedup_median_ci95: Option<[f64; 2]>,
    /// MemPursuit's times from the interleaving with this row, which its speedups divide by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mempursuit_times_ms: Vec<f64>,
    pub status: Status,
    /// Why, where the status is not `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Row {
    /// The row of `model` from its times. `reference` are MemPursuit's times from the same interleaving; a
    /// row without them is the reference itself, at 1.00x.
    pub fn new(model: &str, description: Description, times: &Times, reference: Option<&[f64]>) -> Self {
        let summary = Summary::of(&times.milliseconds);
        let base = reference.map_or(summary, Summary::of);
        let ratio = |figure: fn(&Summary) -> f64| Some(figure(summary.as_ref()?) / figure(base.as_ref()?));
        let questions = times.milliseconds.len().max(1) as f64;
        let stages = times
            .stages
            .iter()
            .map(|(name, time)| (name.to_string(), serde_json::json!(time.as_secs_f64() * 1e3 / questions)));
        Self {
            model: model.to_string(),
            description,
            candidates: times.candidates,
            top_k: times.top_k,
            passes: times.work.passes,
            real_tokens: times.work.real_tokens,
            prefix_tokens: Some(times.work.prefix_tokens).filter(|&tokens| tokens > 0),
            naive_tokens: Some(times.work.naive_tokens).filter(|&tokens| tokens > times.work.real_tokens),
            padded_tokens: times.work.padded_tokens,
            tokens: Tokens::of(&times.work.token_lengths),
            truncated: times.work.truncated,
            truncated_tokens: times.work.truncated_tokens,
            mean_ms: summary.map(|s| s.mean),
            median_ms: summary.map(|s| s.median),
            p95_ms: summary.map(|s| s.p95),
            min_ms: summary.map(|s| s.min),
            times_ms: times.milliseconds.clone(),
            stages_ms: stages.collect(),
            speedup_mean: ratio(|s| s.mean),
            speedup_mean_ci95: reference.and_then(|base| mean_ratio_interval(&times.milliseconds, base)),
            speedup_median: ratio(|s| s.median),
            speedup_median_ci95: reference.and_then(|base| median_ratio_interval(&times.milliseconds, base)),
            mempursuit_times_ms: reference.map(<[f64]>::to_vec).unwrap_or_default(),
            status: Status::Ok,
            error: None,
            warnings: times.warnings.clone(),
        }
    }

    /// The row of a policy that could not be measured.
    pub fn failed(model: &str, description: Description, error: &crate::Error) -> Self {
        let status = match error {
            crate::Error::OutOfMemory(_) => Status::OutOfMemory,
            _ => Status::Error,
        };
        let mut row = Self::new(model, description, &Times::default(), None);
        (row.status, row.error) = (status, Some(error.to_string()));
        row
    }

    /// The row of a cell whose policy could not even be opened.
    pub fn unopened(cell: &Cell, error: &crate::Error) -> Self {
        let engine = Some(cell.variant.engine.clone()).filter(|engine| !engine.is_empty());
        let description = Description {
            kind: if engine.is_some() { Kind::CrossEncoder } else { Kind::Selector },
            engine,
            device: "-".into(),
            dtype: "-".into(),
            weights: "none".into(),
            revision: None,
            prompt_hash: None,
            share_prefix: cell.variant.unshared.then_some(false),
            batch: Some(cell.batch).filter(|&batch| batch > 0),
            notes: Vec::new(),
        };
        let row = Self::failed(&cell.variant.model, description, error);
        Self { candidates: cell.candidates, top_k: cell.top_k, ..row }
    }

    /// True for rows whose scores mean nothing.
    pub fn random_weights(&self) -> bool {
        self.description.weights == "random"
    }

    /// Median of MemPursuit's times from the interleaving with this row.
    pub fn mempursuit_median_ms(&self) -> Option<f64> {
        Summary::of(&self.mempursuit_times_ms).map(|summary| summary.median)
    }

    /// True for rows that run a network.
    pub fn is_reranker(&self) -> bool {
        self.description.kind != Kind::Selector
    }
}
