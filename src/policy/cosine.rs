//! Similarity to the query: what a vector index returns.

use super::{Description, Policy, Selection, vectors};
use crate::error::Result;
use crate::pool::Pool;
use crate::pursuit::{self, Normalize};

/// The candidates nearest to the query, in f64.
#[derive(Debug)]
pub struct Cosine {
    normalize: Normalize,
}

impl Cosine {
    /// Cosine similarity, or plain dot products with [`Normalize::No`].
    pub fn new(normalize: Normalize) -> Self {
        Self { normalize }
    }
}

impl Policy for Cosine {
    fn name(&self) -> &str {
        "cosine"
    }

    fn describe(&self) -> Description {
        Description::selector("f64")
    }

    fn select(&self, pool: &Pool, budget: usize) -> Result<Selection> {
        vectors::select(pool, |query, rows, scratch| {
            pursuit::cosine(query, rows, budget, self.normalize, scratch)
        })
    }
}
