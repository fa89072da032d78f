//! MemPursuit on vectors: no files, no networks.

mod cache;
mod corpus;
mod cosine;
mod error;
mod exact;
mod mmr;
mod options;
mod path;
mod pool;
mod pursue;
mod rows;
mod search;
mod simplex;
mod slots;
mod ties;
mod tile;
mod widen;

pub use corpus::{Corpus, Question};
pub use cosine::cosine;
pub use error::{Error, Value};
pub use mmr::mmr;
pub use options::{Normalize, Options, Stop};
pub use path::{Path, Step};
pub use pursue::{Scratch, pursue};
pub use rows::{Elements, Rows};
