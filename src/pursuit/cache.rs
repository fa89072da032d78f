//! Similarities among a store's memories, kept from question to question.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// The float32 dot products of one memory with the store's others, as far as they have been taken.
///
/// Threads fill a column without locking: whoever writes last, every value is within the bound of its error.
#[derive(Debug)]
pub(super) struct Column {
    dots: Box<[AtomicU32]>,
    used: AtomicU64,
}

impl Column {
    fn new(rows: usize, used: u64) -> Self {
        let unknown = f32::NAN.to_bits();
        Self { dots: (0..rows).map(|_| AtomicU32::new(unknown)).collect(), used: AtomicU64::new(used) }
    }

    /// The dot product with memory `row`; NaN where it is not known.
    #[inline(always)]
    pub(super) fn get(&self, row: usize) -> f32 {
        self.dots.get(row).map_or(f32::NAN, |dot| f32::from_bits(dot.load(Ordering::Relaxed)))
    }

    #[inline(always)]
    pub(super) fn set(&self, row: usize, dot: f32) {
        if let Some(place) = self.dots.get(row) {
            place.store(dot.to_bits(), Ordering::Relaxed);
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.dots)
    }
}

/// Columns by memory, within a bound on their bytes; the least recently used go first.
#[derive(Debug)]
pub(super) struct Cache {
    bound: usize,
    rows: usize,
    clock: AtomicU64,
    held: RwLock<Held>,
}

#[derive(Debug, Default)]
struct Held {
    columns: HashMap<u32, Arc<Column>>,
    bytes: usize,
}

impl Cache {
    /// An empty cache for a store of `rows` memories.
    pub(super) fn new(rows: usize, bound: usize) -> Self {
        Self { bound, rows, clock: AtomicU64::new(0), held: RwLock::default() }
    }

    /// The store now has `rows` memories. Columns of before keep what they know, and do not know the new rows.
    pub(super) fn grow(&mut self, rows: usize) {
        self.rows = rows;
    }

    /// The column of memory `row`; `None` where the bound has no room for even one.
    pub(super) fn column(&self, row: u32) -> Option<Arc<Column>> {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        {
            let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(column) = held.columns.get(&row).filter(|column| column.dots.len() == self.rows) {
                column.used.store(now, Ordering::Relaxed);
                return Some(Arc::clone(column));
            }
        }
        if self.rows * size_of::<f32>() > self.bound {
            return None;
        }
        let fresh = Column::new(self.rows, now);
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(short) = held.columns.remove(&row) {
            held.bytes -= short.bytes();
            for (new, old) in fresh.dots.iter().zip(&short.dots) {
                new.store(old.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        while held.bytes + fresh.bytes() > self.bound {
            let oldest = held.columns.iter().min_by_key(|(_, column)| column.used.load(Ordering::Relaxed));
            let Some(oldest) = oldest.map(|(&row, _)| row) else { break };
            held.bytes -= held.columns.remove(&oldest).map_or(0, |column| column.bytes());
        }
        held.bytes += fresh.bytes();
        let column = Arc::new(fresh);
        held.columns.insert(row, Arc::clone(&column));
        Some(column)
    }

    /// Bytes that the columns take.
    pub(super) fn bytes(&self) -> usize {
        self.held.read().unwrap_or_else(PoisonError::into_inner).bytes
    }
}
