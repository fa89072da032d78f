//! Where parameters come from: the hub or its cache, a folder, or a seeded generator.
//!
//! [`hub`] and [`folder`] end in [`ModelFiles`], the paths of one model on this disk; [`Parameters`] reads
//! tensors out of them (memory-mapped), or draws them (`random`), and checks every name and shape.

pub mod card;
pub mod folder;
pub mod hub;
mod parameters;
mod random;

pub use card::{Card, Kind, Prompt, card, cards};
pub use hub::Hub;
pub use parameters::Parameters;
pub(crate) use random::fnv1a;

use std::path::PathBuf;

/// One model's files on this disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFiles {
    /// `config.json`.
    pub config: PathBuf,
    /// The safetensors file, or all shards.
    pub weights: Vec<PathBuf>,
    /// `tokenizer.json`.
    pub tokenizer: PathBuf,
    /// The commit these files belong to, if they came from the hub.
    pub revision: Option<String>,
}

/// `--weights`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WeightsSource {
    /// The model's own weights, from the hub, its cache or a folder.
    #[default]
    Pretrained,
    /// The exact architecture with seeded N(0, 0.02) weights: latencies mean something, scores do not.
    Random,
}

impl WeightsSource {
    /// The name used on the command line and in every output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pretrained => "pretrained",
            Self::Random => "random",
        }
    }
}
