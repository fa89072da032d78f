//! A memory store: the embeddings that many pools share.

pub use crate::pursuit::Elements;

/// Element type of a store, as kept in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreDtype {
    F32,
    F16,
    Bf16,
}

/// Embeddings of memories `[N, dimension]` and queries `[Q, dimension]`, memory-mapped.
#[derive(Debug)]
pub struct Store {
    dimension: usize,
}

impl Store {
    /// Length of one vector.
    pub fn dimension(&self) -> usize {
        self.dimension
    }
}
