//! MemPursuit on vectors: no files, no networks.

mod cosine;
#[cfg(any(feature = "cuda", feature = "emulator"))]
pub mod cuda;
mod error;
mod exact;
mod mmr;
mod options;
mod path;
mod pool;
mod pursue;
mod rows;
mod scan;
mod simplex;
mod ties;

pub use cosine::cosine;
pub use error::{Error, Value};
pub use mmr::mmr;
pub use options::{Normalize, Options, Stop};
pub use path::{Path, Step};
pub use pursue::{Scratch, pursue};
pub use rows::{Elements, Rows};
