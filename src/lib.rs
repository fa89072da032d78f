//! rerank-bench: order pools of candidate memories for a query, and measure what that costs.

pub mod error;
pub mod pool;
pub mod pursuit;

pub use error::{Error, Result};
