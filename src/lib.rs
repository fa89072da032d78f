//! rerank-bench: order pools of candidate memories for a query, and measure what that costs.

pub mod device;
pub mod error;
#[cfg(feature = "neural")]
pub mod nn;
pub mod pool;
pub mod pursuit;
#[cfg(feature = "neural")]
pub mod rerank;
#[cfg(feature = "neural")]
pub mod weights;

pub use error::{Error, Result};
