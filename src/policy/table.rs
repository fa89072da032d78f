//! The names on the command line, and what they open.

use std::path::Path;

use super::{Cosine, Hybrid, MemPursuit, Mmr, Original, Policy};
use crate::device::DeviceChoice;
use crate::error::{Error, Result};
use crate::pursuit;

/// Name of the policy that every other one is measured against.
pub const REFERENCE: &str = "mempursuit";

/// What policies are opened with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// MemPursuit's options; the budget comes with each call.
    pub pursuit: pursuit::Options,
    /// MMR's weight of relevance against redundancy, in [0, 1].
    pub mmr_relevance: f64,
    /// Memory for similarities kept from pool to pool, bytes; 0 meets every pool cold.
    pub cache_bytes: usize,
    /// Candidates in one forward pass.
    pub batch: usize,
    /// Where `mempursuit-cuda` runs.
    pub device: DeviceChoice,
    /// How rerankers are opened.
    #[cfg(feature = "neural")]
    pub reranker: crate::rerank::OpenOptions,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pursuit: pursuit::Options::default(),
            mmr_relevance: 0.5,
            cache_bytes: 0,
            batch: 128,
            device: DeviceChoice::Auto,
            #[cfg(feature = "neural")]
            reranker: crate::rerank::OpenOptions::default(),
        }
    }
}

/// A selector's line in the table.
pub struct Selector {
    pub name: &'static str,
    /// One line for lists.
    pub about: &'static str,
    open: fn(&Settings) -> Result<Box<dyn Policy>>,
}

/// All selectors.
pub const SELECTORS: &[Selector] = &[
    Selector {
        name: REFERENCE,
        about: "greedy residual pursuit with a simplex refit",
        open: |settings| Ok(Box::new(MemPursuit::new(settings.pursuit, settings.cache_bytes))),
    },
    Selector {
        name: "mempursuit-cuda",
        about: "the same on an NVIDIA GPU, many pools in one launch",
        open: on_gpu,
    },
    Selector {
        name: "mmr",
        about: "maximal marginal relevance",
        open: |settings| Ok(Box::new(Mmr::new(settings.mmr_relevance, settings.pursuit.normalize))),
    },
    Selector {
        name: "cosine",
        about: "similarity to the query",
        open: |settings| Ok(Box::new(Cosine::new(settings.pursuit.normalize))),
    },
    Selector {
        name: "hybrid",
        about: "ranks by cosine and by BM25, fused",
        open: |settings| Ok(Box::new(Hybrid::new(settings.pursuit.normalize))),
    },
    Selector { name: "original", about: "the pool's own order", open: |_| Ok(Box::new(Original)) },
];

/// MemPursuit on the GPU that the settings name.
///
/// # Errors
/// The CPU was asked for, or there is no GPU: why, and what to do.
pub fn on_gpu(settings: &Settings) -> Result<Box<dyn Policy>> {
    let ordinal = match settings.device {
        DeviceChoice::Cpu => {
            return Err(Error::Usage("mempursuit-cuda runs on a GPU; use mempursuit on the CPU".into()));
        }
        DeviceChoice::Auto => 0,
        DeviceChoice::Cuda(ordinal) => ordinal,
    };
    #[cfg(feature = "cuda")]
    {
        let gpu = pursuit::cuda::Gpu::open(ordinal)?;
        let device = format!("cuda:{ordinal}");
        Ok(Box::new(super::MemPursuitCuda::new(gpu, device, settings.pursuit)))
    }
    #[cfg(not(feature = "cuda"))]
    Err(Error::Device(format!(
        "GPU {ordinal} cannot be used: this build is without the `cuda` feature; build with --features cuda, or use \
         mempursuit on the CPU"
    )))
}

/// MemPursuit's kernels on the CPU, which test builds can run.
///
/// # Errors
/// This build has no emulator.
pub fn emulated(settings: &Settings) -> Result<Box<dyn Policy>> {
    #[cfg(feature = "emulator")]
    {
        use pursuit::cuda::{Gpu, emulator::ThreadOrder};
        let gpu = Gpu::emulated(ThreadOrder::Shuffled(0));
        Ok(Box::new(super::MemPursuitCuda::new(gpu, "emulated", settings.pursuit)))
    }
    #[cfg(not(feature = "emulator"))]
    {
        let _ = settings;
        Err(Error::Device("this build has no emulator; build with --features emulator".into()))
    }
}

/// A name that was understood, not yet opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// Index into [`SELECTORS`].
    Selector(usize),
    /// A known reranker, a model folder or a hub id, as given.
    Reranker(String),
}

impl Choice {
    /// The name as given.
    pub fn name(&self) -> &str {
        match self {
            Choice::Selector(index) => SELECTORS[*index].name,
            Choice::Reranker(name) => name,
        }
    }
}

/// Understands a name without opening anything: wrong names are found before work begins.
///
/// # Errors
/// [`Error::Usage`] with the known names.
pub fn resolve(name: &str) -> Result<Choice> {
    if let Some(index) = SELECTORS.iter().position(|selector| selector.name == name) {
        return Ok(Choice::Selector(index));
    }
    let known = rerankers().any(|known| known == name);
    let hub_id =
        !name.starts_with(['.', '/']) && name.split('/').filter(|part| !part.is_empty()).count() == 2;
    if known || hub_id || Path::new(name).exists() {
        return match cfg!(feature = "neural") {
            true => Ok(Choice::Reranker(name.to_string())),
            false => Err(Error::Usage(format!(
                "{name} is a reranker, and this build has selectors only; build with the default features"
            ))),
        };
    }
    // A path that is not there is a missing folder, not a misspelt name.
    if name.contains(['/', '\\']) {
        return Err(Error::file(name, "there is no such model folder"));
    }
    let names: Vec<&str> = SELECTORS.iter().map(|selector| selector.name).chain(rerankers()).collect();
    Err(Error::Usage(format!(
        "unknown model {name:?}; known are {}; or give a model folder, or a hub id org/name",
        names.join(", ")
    )))
}

#[cfg(feature = "neural")]
fn rerankers() -> impl Iterator<Item = &'static str> {
    crate::weights::cards().iter().map(|card| card.name)
}

#[cfg(not(feature = "neural"))]
fn rerankers() -> impl Iterator<Item = &'static str> {
    std::iter::empty()
}

/// Opens a policy; `say` tells what takes long.
pub fn open(choice: Choice, settings: &Settings, say: &dyn Fn(&str)) -> Result<Box<dyn Policy>> {
    match choice {
        Choice::Selector(index) => (SELECTORS[index].open)(settings),
        #[cfg(feature = "neural")]
        Choice::Reranker(name) => Ok(Box::new(super::Reranker::open(&name, settings, say)?)),
        #[cfg(not(feature = "neural"))]
        Choice::Reranker(name) => {
            say("this build has selectors only");
            Err(Error::model(name, "this build has selectors only; build with the default features"))
        }
    }
}
