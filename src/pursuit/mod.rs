//! MemPursuit on vectors: no files, no networks.
//!
//! [`pursue`] selects, from a pool of candidate vectors, a small set whose weighted mean comes close to the
//! query: it picks the candidate best aligned with what is still missing (the residual), refits the weights of
//! everything picked on the simplex, and repeats (Feng & Fan, *Recall What Is Missing*, arXiv 2610.15642).
//! The order is that of float64 arithmetic on the stored values, always; float32 is used to find out quickly
//! which candidates cannot be the best, with a rigorous bound on its error. [`mmr`] and [`cosine`] are the
//! simpler selectors it is compared with. [`Corpus`] answers many questions over one store.
//!
//! ```
//! use rerank_bench::pursuit::{Elements, Options, Rows, Scratch, pursue};
//!
//! // Two memories about a puppy, one about a kitten, one about the weather; the question is about all pets.
//! let memories: [[f32; 4]; 4] =
//!     [[0.9, 0.1, 0.0, 0.1], [0.9, 0.2, 0.0, 0.1], [0.1, 0.9, 0.1, 0.0], [0.0, 0.1, 0.9, 0.3]];
//! let question: [f32; 4] = [0.8, 0.6, 0.0, 0.1];
//!
//! let pool = Rows::dense(Elements::F32(memories.as_flattened()), 4)?;
//! let mut scratch = Scratch::new(); // keep it: the next pool will not have to allocate
//! let options = Options { budget: 2, ..Options::default() };
//! let path = pursue(Elements::F32(&question), &pool, &options, &mut scratch)?;
//!
//! // The second pick is the kitten, although both puppies are closer to the question.
//! assert_eq!(path.order, [1, 2]);
//! assert!((path.weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
//! # Ok::<(), rerank_bench::pursuit::Error>(())
//! ```
//!
//! How cost grows, for P candidates of dimension d, budget K and m columns looked at (at most K and a few more,
//! about 14 where the optimum comes early): one look at all P rows, memory-bound, then at most m·P·d
//! multiply-adds, of which rows that cannot win any more are spared; memory is O(P·K + K·d).
//!
//! Inside: `tile` is the float32 kernel, `exact` the float64 arithmetic, `simplex` the refit, `slots` the vectors
//! compared with, `search` decides which rows to look at, `pursue` is the loop.

mod cache;
mod corpus;
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
