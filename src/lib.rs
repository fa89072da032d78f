//! Batch reranking: order pools of candidate memories for a query, and measure honestly what that costs.
//!
//! A [`pool::Pool`] (a query with its candidates) comes in, a [`policy::Policy`] orders it, a clock in
//! [`measure`] times that, and a [`report`] goes out. The selector itself, on plain slices, is in [`pursuit`]
//! and can be used alone.
//!
//! ```
//! use rerank_bench::policy::{Settings, open, resolve};
//! use rerank_bench::pool::synthetic::Synthetic;
//!
//! # fn main() -> rerank_bench::Result<()> {
//! // Three generated pools of 50 candidates; pools from files come from `pool::jsonl::Reader`.
//! let generator = Synthetic { candidates: 50, dimension: 64, ..Synthetic::default() };
//! let pools: Vec<_> = generator.pools().take(3).collect();
//!
//! let mempursuit = open(resolve("mempursuit")?, &Settings::default(), &|_| ())?;
//! for (pool, selection) in pools.iter().zip(mempursuit.select_many(&pools, 10)) {
//!     let selection = selection?;
//!     println!("{}: first {}", pool.id, pool.candidate_id(selection.picks[0].index));
//!     assert_eq!(selection.picks.len(), 10);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Without the default feature `neural` the crate is the selectors alone: no candle, no tokenizers.

pub mod cli;
pub mod device;
pub mod error;
mod journal;
pub mod measure;
#[cfg(feature = "neural")]
pub mod nn;
pub mod policy;
pub mod pool;
pub mod pursuit;
pub mod report;
#[cfg(feature = "neural")]
pub mod rerank;
#[cfg(feature = "neural")]
pub mod weights;
mod work;

pub use error::{Error, Result};
