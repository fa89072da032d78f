//! What decides: everything that orders a pool, behind one trait.
//!
//! | name | orders by | reads |
//! |---|---|---|
//! | `mempursuit` | greedy residual pursuit with a simplex refit | embeddings |
//! | `mempursuit-cuda` | the same, on an NVIDIA GPU | embeddings |
//! | `mmr` | relevance against redundancy | embeddings |
//! | `cosine` | similarity to the query | embeddings |
//! | `hybrid` | ranks by cosine and by BM25, fused (RRF) | embeddings, texts |
//! | `original` | the pool's own order | nothing |
//! | cross-encoders | the network's logit | texts |
//!
//! The files beside this one are thin adapters between a [`Pool`] and the rooms that do the work
//! ([`crate::pursuit`], `rerank`). A new policy is one file here and one line in [`SELECTORS`].

mod cosine;
mod hybrid;
mod mempursuit;
#[cfg(any(feature = "cuda", feature = "emulator"))]
mod mempursuit_cuda;
mod mmr;
mod original;
#[cfg(feature = "neural")]
mod reranker;
mod table;
mod vectors;

pub use cosine::Cosine;
pub use hybrid::Hybrid;
pub use mempursuit::MemPursuit;
#[cfg(any(feature = "cuda", feature = "emulator"))]
pub use mempursuit_cuda::MemPursuitCuda;
pub use mmr::Mmr;
pub use original::Original;
#[cfg(feature = "neural")]
pub use reranker::Reranker;
pub use table::{Choice, REFERENCE, SELECTORS, Settings, emulated, on_gpu, open, resolve};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::measure::clock::Stages;
use crate::pool::Pool;
use crate::pursuit;
pub use crate::work::Work;

/// Anything that orders a pool.
///
/// One bad pool spoils no other: [`Policy::select_many`] answers for each pool on its own.
pub trait Policy: Send + Sync {
    /// Name as given on the command line.
    fn name(&self) -> &str;

    /// What the policy is and runs on, for tables and result files.
    fn describe(&self) -> Description;

    /// Orders one pool and keeps the first `budget` of it (all of it, where the pool is smaller).
    ///
    /// Returns only after the device has finished.
    fn select(&self, pool: &Pool, budget: usize) -> Result<Selection>;

    /// Sets how many candidates go into one forward pass, for policies that run passes.
    fn set_batch(&mut self, _batch: usize) {}

    /// A small untimed run over `pool`, for policies whose full pass takes seconds.
    fn warm_up_small(&self, pool: &Pool, budget: usize) -> Result<()> {
        self.select(pool, budget).map(drop)
    }

    /// Orders many pools; the answers come in the order of `pools`.
    fn select_many(&self, pools: &[Pool], budget: usize) -> Vec<Result<Selection>> {
        pools.par_iter().map(|pool| self.select(pool, budget)).collect()
    }

    /// How many pools [`Policy::select_many`] likes to be given at once.
    fn chunk(&self) -> usize {
        128
    }
}

/// The broad kind of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Works on embeddings.
    Selector,
    /// Scores (query, text) pairs with a cross-encoder.
    CrossEncoder,
    /// Scores prompts with a language model.
    LlmScorer,
}

/// What a policy is and runs on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Description {
    pub kind: Kind,
    /// Which implementation of a network runs: `packed` or `candle`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    pub device: String,
    pub dtype: String,
    /// `pretrained`, `random`, or `none` for policies without weights.
    pub weights: String,
    /// Commit of the weights on the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Hash of the prompt around query and document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_hash: Option<String>,
    /// LLM scorers: whether what all prompts of a pool begin with is run once a pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_prefix: Option<bool>,
    /// Candidates in one forward pass; `None` for selectors.
    pub batch: Option<usize>,
    /// What was lowered, replaced or left out when the policy was opened; shown to the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Description {
    /// A selector on the CPU that computes as `dtype` says.
    fn selector(dtype: &str) -> Self {
        Self {
            kind: Kind::Selector,
            engine: None,
            device: "cpu".into(),
            dtype: dtype.into(),
            weights: "none".into(),
            revision: None,
            prompt_hash: None,
            share_prefix: None,
            batch: None,
            notes: Vec::new(),
        }
    }
}

/// One selected candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pick {
    /// Position in the input pool.
    pub index: usize,
    /// Selectors: the value that the step maximised. Rerankers: the raw logit.
    pub score: f64,
    /// MemPursuit: the final refit weight.
    pub weight: Option<f64>,
    /// Rerankers: sigmoid of the score.
    pub probability: Option<f64>,
}

impl Pick {
    /// A pick with a score alone.
    fn scored(index: usize, score: f64) -> Self {
        Self { index, score, weight: None, probability: None }
    }
}

/// A pool's answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selection {
    /// Selected candidates, best (or first selected) first.
    pub picks: Vec<Pick>,
    /// MemPursuit's steps, where they were asked for.
    pub trace: Vec<pursuit::Step>,
    /// Time by stage.
    pub stages: Stages,
    /// What was run for it.
    pub work: Work,
    /// Worth a look: for instance identical scores for different texts.
    pub warnings: Vec<String>,
}
