//! The pool's own order, cut at the budget: what retrieval alone would give.

use super::{Description, Pick, Policy, Selection};
use crate::error::Result;
use crate::pool::Pool;

/// Keeps the order in which the candidates came.
#[derive(Debug, Default)]
pub struct Original;

impl Policy for Original {
    fn name(&self) -> &str {
        "original"
    }

    fn describe(&self) -> Description {
        Description::selector("none")
    }

    /// The score is the negated position, so that higher is better as everywhere else.
    fn select(&self, pool: &Pool, budget: usize) -> Result<Selection> {
        let picks =
            (0..pool.len().min(budget)).map(|index| Pick::scored(index, 0.0 - index as f64)).collect();
        Ok(Selection { picks, ..Selection::default() })
    }
}
