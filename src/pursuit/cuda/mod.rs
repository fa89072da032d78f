//! MemPursuit on an NVIDIA GPU: many pools in one launch, in the float64 order of [`pursue`](super::pursue).
//!
//! ```text
//! Gpu::open ── upload ──> Resident (memories, queries: stay on the device)
//!     └────── pursue(&[Job]) ──> one upload of the tasks, one launch, one read-back ──> Paths
//! ```
//!
//! The kernel is `kernels/pursuit.cu`; `kernels/README.md` says how it works and where its time should go. With the
//! feature `emulator` the same kernel runs on the CPU ([`Gpu::emulated`]), which is how it is tested.
//!
//! One GPU takes one batch at a time: calls from several threads wait for each other.

mod batch;
mod device;
#[cfg(feature = "cuda")]
mod driver;
#[cfg(feature = "emulator")]
pub mod emulator;
mod layout;
mod resident;
mod self_test;

pub use batch::{Batch, Work};
pub use device::Description;
#[cfg(feature = "cuda")]
pub use driver::{NEEDED_CAPABILITY, NEEDED_DRIVER, PTX_TARGET};
pub use layout::{MAX_BUDGET, MAX_CANDIDATES};
pub use resident::Resident;
pub use self_test::Check;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Elements, Options};
use crate::error::Result;
use device::Device;

/// A GPU that is ready to pursue.
#[derive(Debug)]
pub struct Gpu {
    device: Arc<dyn Device>,
    /// Memory reused from launch to launch.
    arena: Mutex<batch::Arena>,
}

/// One pool: its candidates among vectors on the device, and its query.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    pub memories: &'a Resident,
    pub candidates: Candidates<'a>,
    pub query: Query<'a>,
}

/// Which rows of the memories are a pool's candidates.
#[derive(Debug, Clone, Copy)]
pub enum Candidates<'a> {
    /// `count` rows from `first` on.
    Span { first: usize, count: usize },
    /// Candidate `i` is row `index[i]`.
    Rows(&'a [u32]),
}

impl Candidates<'_> {
    /// Number of candidates, P.
    pub fn len(&self) -> usize {
        match self {
            Self::Span { count, .. } => *count,
            Self::Rows(index) => index.len(),
        }
    }

    /// True for a pool without candidates.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A pool's query.
#[derive(Debug, Clone, Copy)]
pub enum Query<'a> {
    /// Given here; travels to the device with the batch.
    Given(Elements<'a>),
    /// A row of float32 vectors on the device.
    Resident(&'a Resident, usize),
}

/// Why the GPU did not order a pool. The pools beside it are not affected.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// What the selector refuses on the CPU too.
    #[error(transparent)]
    Vectors(#[from] super::Error),
    /// A pool beyond [`MAX_CANDIDATES`].
    #[error(
        "{count} candidates are more than the {MAX_CANDIDATES} that the GPU selector takes; cut the pool (--candidates), \
         or use the CPU selector (--model mempursuit)"
    )]
    TooManyCandidates { count: usize },
    /// Vectors of which not one fits into a block's shared memory.
    #[error(
        "vectors of {dimension} dimensions are too long for the GPU selector at this pool size; use the CPU selector \
         (--model mempursuit)"
    )]
    TooLong { dimension: usize },
    /// A query on the device that cannot be read as one.
    #[error("query {row} is not among the {rows} float32 queries on the device")]
    NoSuchQuery { row: usize, rows: usize },
}

/// Where a batch's time went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// On the host: checking, laying out, and turning the answers into paths.
    pub prepare: Duration,
    /// Tasks, indices and given queries to the device.
    pub upload: Duration,
    /// The launch.
    pub compute: Duration,
    /// The answers to the host.
    pub read_back: Duration,
}

/// What the CUDA device with this ordinal is.
///
/// # Errors
/// As [`Gpu::open`].
#[cfg(feature = "cuda")]
pub fn card(ordinal: usize) -> Result<Description> {
    Ok(driver::Cuda::look(ordinal)?.1)
}

impl Gpu {
    /// Opens the CUDA device with this ordinal and loads the kernels.
    ///
    /// # Errors
    /// No driver, one too old for the kernels, no such device, a card below compute capability 8.0: told with what
    /// to do. Never a panic.
    #[cfg(feature = "cuda")]
    pub fn open(ordinal: usize) -> Result<Self> {
        Ok(Self::on(Arc::new(driver::Cuda::open(ordinal)?)))
    }

    /// The kernels on the CPU, threads in this order.
    #[cfg(feature = "emulator")]
    pub fn emulated(order: emulator::ThreadOrder) -> Self {
        Self::emulated_with(order, usize::MAX)
    }

    /// The kernels on the CPU, with `memory` bytes of device memory.
    #[cfg(feature = "emulator")]
    pub fn emulated_with(order: emulator::ThreadOrder, memory: usize) -> Self {
        Self::on(Arc::new(emulator::Emulator::new(order, memory)))
    }

    fn on(device: Arc<dyn Device>) -> Self {
        Self { device, arena: Mutex::default() }
    }

    /// What this device is.
    pub fn description(&self) -> &Description {
        self.device.description()
    }

    /// Brings vectors `[rows, dimension]` to the device.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::Error::OutOfMemory), and what the driver reports.
    pub fn upload(&self, vectors: Elements<'_>, dimension: usize) -> Result<Resident> {
        Resident::upload(&self.device, vectors, dimension)
    }

    /// Brings queries `[rows, dimension]` to the device, for [`Query::Resident`]; widened to float32, exactly.
    ///
    /// # Errors
    /// As [`Gpu::upload`].
    pub fn upload_queries(&self, queries: Elements<'_>, dimension: usize) -> Result<Resident> {
        let mut wide = Vec::new();
        batch::widen(queries, queries.len(), &mut wide);
        Resident::upload(&self.device, Elements::F32(&wide), dimension)
    }

    /// Orders pools, each as [`pursue`](super::pursue) would; the answers come in the order of `jobs`.
    ///
    /// # Errors
    /// Options out of range (a budget beyond [`MAX_BUDGET`] among them), no device memory, a failed launch. What is
    /// wrong with one pool is in its own answer.
    pub fn pursue(&self, jobs: &[Job<'_>], options: &Options) -> Result<Batch> {
        let mut arena = self.arena.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        batch::pursue(&self.device, &mut arena, jobs, options)
    }
}
