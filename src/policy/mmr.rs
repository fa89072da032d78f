//! Maximal marginal relevance.

use super::{Description, Policy, Selection, vectors};
use crate::error::Result;
use crate::pool::Pool;
use crate::pursuit::{self, Normalize};

/// Each step picks the largest `x·cos(q, m) - (1 - x)·max cos(picked, m)`; the first pick is the most relevant.
#[derive(Debug)]
pub struct Mmr {
    relevance: f64,
    normalize: Normalize,
}

impl Mmr {
    /// MMR with weight `relevance` in [0, 1] on the similarity to the query.
    pub fn new(relevance: f64, normalize: Normalize) -> Self {
        Self { relevance, normalize }
    }
}

impl Policy for Mmr {
    fn name(&self) -> &str {
        "mmr"
    }

    fn describe(&self) -> Description {
        Description::selector("f64")
    }

    fn select(&self, pool: &Pool, budget: usize) -> Result<Selection> {
        vectors::select(pool, |query, rows, scratch| {
            pursuit::mmr(query, rows, budget, self.relevance, self.normalize, scratch)
        })
    }
}
