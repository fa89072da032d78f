//! The MemPursuit selector.

use std::sync::{Arc, Mutex, PoisonError};

use self_cell::self_cell;

use super::{Description, Policy, Selection, vectors};
use crate::error::Result;
use crate::pool::{Pool, Store, Vectors};
use crate::pursuit::{Corpus, Options, pursue};

/// Stores whose similarities are kept at once.
const STORES: usize = 8;

self_cell!(
    /// A store, and what is known about its memories.
    struct Known {
        owner: Arc<Store>,
        #[covariant]
        dependent: Corpus,
    }
    impl {Debug}
);

/// MemPursuit, one CPU thread a pool.
#[derive(Debug)]
pub struct MemPursuit {
    options: Options,
    cache_bytes: usize,
    /// The stores met, the latest last.
    known: Mutex<Vec<Arc<Known>>>,
}

impl MemPursuit {
    /// The selector with these options; the budget comes with each call.
    ///
    /// `cache_bytes` bounds, for each store, the similarities between its memories that are kept from pool to
    /// pool; 0 meets every pool cold. The order does not depend on it.
    pub fn new(options: Options, cache_bytes: usize) -> Self {
        Self { options, cache_bytes, known: Mutex::default() }
    }

    /// What is known about `store`: looked up, or begun.
    fn known(&self, store: &Arc<Store>) -> Result<Arc<Known>, crate::pursuit::Error> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.iter().find(|known| Arc::ptr_eq(known.borrow_owner(), store)) {
            return Ok(Arc::clone(found));
        }
        let new = Arc::new(Known::try_new(Arc::clone(store), |store| {
            Corpus::new(store.memories(), store.dimension(), self.options.normalize, self.cache_bytes)
        })?);
        if known.len() == STORES {
            known.remove(0);
        }
        known.push(Arc::clone(&new));
        Ok(new)
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
        vectors::select(pool, |query, candidates, scratch| match &pool.vectors {
            Vectors::Stored { store, rows, .. } if self.cache_bytes > 0 => {
                self.known(store)?.borrow_dependent().select(query, rows, &options, scratch)
            }
            _ => pursue(query, candidates, &options, scratch),
        })
    }
}
