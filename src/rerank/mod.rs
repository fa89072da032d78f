//! Text to scores: tokenise, truncate, pack, score.
//!
//! [`open`] turns a model's name, folder or hub id into a [`Scorer`]; a scorer takes a query with its candidates'
//! texts and returns one raw logit each, in input order. Nothing here reads a clock: a [`Laps`] is told when a
//! stage ends.

mod candle_engine;
mod checks;
mod cross_encoder;
mod llm_scorer;
mod open;
mod open_llm;
mod pack;
mod prompt;
mod stand_in;
mod tokenize;

pub use llm_scorer::SharePrefix;
pub use open::{Engine, OpenOptions, open};
pub use tokenize::Truncation;

use crate::error::Result;
use crate::weights::{Kind, WeightsSource};
use crate::work::Work;

/// The stages of scoring, in the order in which they end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// Texts to token ids, truncation included.
    Tokenize,
    /// Token ids to packed or padded rows.
    Pack,
    /// Rows to the device.
    Upload,
    /// The network.
    Forward,
    /// Logits from the device.
    ReadBack,
}

impl Stage {
    /// The name used in outputs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tokenize => "tokenize",
            Self::Pack => "pack",
            Self::Upload => "upload",
            Self::Forward => "forward",
            Self::ReadBack => "read_back",
        }
    }
}

/// Is told when a stage ends. A stage may end several times in one call; its times add up.
pub trait Laps {
    /// The work since the last lap belonged to `stage`.
    fn lap(&mut self, stage: Stage);
}

/// For callers that measure nothing.
impl Laps for () {
    fn lap(&mut self, _stage: Stage) {}
}

/// What is known of a loaded model; goes into every result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// As asked for: known name, folder or hub id.
    pub name: String,
    /// Cross-encoder or LLM scorer.
    pub kind: Kind,
    /// Whose network computes.
    pub engine: Engine,
    /// `cpu` or `cuda:N`.
    pub device: String,
    /// `f32`, `tf32`, `f16` or `bf16`.
    pub dtype: String,
    /// Pretrained or random.
    pub weights: WeightsSource,
    /// The hub's commit, for weights from there.
    pub revision: Option<String>,
    /// Hash of the prompt with its instruction, for LLM scorers.
    pub prompt_hash: Option<String>,
    /// Whether what all prompts of a pool begin with is run once a pool, for LLM scorers.
    pub share_prefix: Option<bool>,
    /// Most tokens in one pair or prompt.
    pub max_length: usize,
    /// Number of parameters.
    pub parameters: u64,
    /// What was lowered, replaced or chosen on the user's behalf, a sentence each.
    pub notes: Vec<String>,
}

/// What scoring one pool gave and cost.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scores {
    /// Raw logits, in input order. Never NaN.
    pub logits: Vec<f32>,
    /// What was run for them.
    pub work: Work,
    /// What looks wrong with the scores, a sentence each.
    pub warnings: Vec<String>,
}

/// A neural scorer, loaded.
pub trait Scorer: Send + Sync {
    /// Scores `texts` for `query`, `batch` texts a forward pass.
    ///
    /// # Errors
    /// [`Error::Text`](crate::Error::Text) for an empty query, a text that cannot be tokenised or a NaN logit;
    /// [`Error::Usage`](crate::Error::Usage) for `batch` 0; what the device reports.
    fn score(&self, query: &str, texts: &[&str], batch: usize, laps: &mut dyn Laps) -> Result<Scores>;

    /// Scores finished token sequences, special tokens included.
    ///
    /// # Errors
    /// As [`Scorer::score`]; [`Error::Text`](crate::Error::Text) for a sequence that is empty, too long, or has
    /// an id outside the vocabulary.
    fn score_ids(&self, sequences: &[Vec<u32>], batch: usize, laps: &mut dyn Laps) -> Result<Scores>;

    /// What was loaded.
    fn info(&self) -> &ModelInfo;
}

/// Probability of a raw logit: its sigmoid in f64, so that strong logits stay apart.
pub fn probability(logit: f32) -> f64 {
    1.0 / (1.0 + (-f64::from(logit)).exp())
}
