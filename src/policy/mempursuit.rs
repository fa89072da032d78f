//! The MemPursuit selector.

use super::{Description, Policy, Selection, vectors};
use crate::error::Result;
use crate::pool::Pool;
use crate::pursuit::{Options, pursue};

/// MemPursuit, one CPU thread a pool.
#[derive(Debug)]
pub struct MemPursuit {
    options: Options,
}

impl MemPursuit {
    /// The selector with these options; the budget comes with each call.
    pub fn new(options: Options) -> Self {
        Self { options }
    }
}

impl Policy for MemPursuit {
    fn name(&self) -> &str {
        super::REFERENCE
    }

    fn describe(&self) -> Description {
        Description::selector("f32+f64")
    }

    fn select(&self, pool: &Pool, budget: usize) -> Result<Selection> {
        let options = Options { budget, ..self.options };
        vectors::select(pool, |query, rows, scratch| pursue(query, rows, &options, scratch))
    }
}
