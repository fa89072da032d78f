//! The vectors that a pool's rows are compared with: the query, the memories selected, and likely next ones.

use std::sync::Arc;

use super::cache::{Cache, Column};
use super::pool::{Candidates, UNBOUNDED};
use super::{Rows, exact};

/// The query in slot 0, then memories in the order in which their columns were asked for. Vectors are kept as
/// stored; what makes them of unit length, where that is meant, is a factor beside them.
#[derive(Debug, Default)]
pub(super) struct Slots {
    dimension: usize,
    capacity: usize,
    /// The row of each slot; the query's entry says nothing.
    rows: Vec<u32>,
    /// In float32, `[slots, d]`, and the factor to what is meant, good to float32.
    vectors: Vec<f32>,
    factors: Vec<f64>,
    /// In float64, `[slots, d]`, and the factor to what is meant; 0 where the slot has not been widened.
    wide: Vec<f64>,
    scales: Vec<f64>,
    /// Lengths as meant.
    norms: Vec<f64>,
    /// What the store knows of each slot's memory, if it keeps such things.
    columns: Vec<Option<Arc<Column>>>,
    /// Float64 dot products among slots, `[capacity, capacity]`; NaN where not taken yet.
    gram: Vec<f64>,
}

impl Slots {
    /// Room for `capacity` vectors of `dimension` elements.
    pub(super) fn reset(&mut self, capacity: usize, dimension: usize) {
        (self.dimension, self.capacity) = (dimension, capacity);
        self.rows.clear();
        self.rows.reserve(capacity);
        self.columns.clear();
        self.columns.reserve(capacity);
        for values in [&mut self.factors, &mut self.scales, &mut self.norms] {
            values.clear();
            values.reserve(capacity);
        }
        let elements = capacity * dimension;
        if self.wide.len() < elements {
            self.wide.resize(elements, 0.0);
            self.vectors.resize(elements, 0.0);
        }
        if self.gram.len() < capacity * capacity {
            self.gram.resize(capacity * capacity, f64::NAN);
        }
    }

    /// Appends the query, in float64 as it is meant.
    pub(super) fn push_query(&mut self, query: &[f64]) {
        let norm = exact::dot(query, query).sqrt();
        let factor = power(norm);
        self.wide[..self.dimension].copy_from_slice(query);
        exact::narrow(query, 1.0 / factor, &mut self.vectors[..self.dimension]);
        self.append(u32::MAX, factor, norm);
        self.scales[0] = 1.0;
    }

    /// Appends row `row` of the pool.
    pub(super) fn push(
        &mut self,
        row: u32,
        rows: &Rows<'_>,
        candidates: &mut Candidates,
        cache: Option<&Cache>,
    ) -> usize {
        let (slot, d, at) = (self.rows.len(), self.dimension, row as usize);
        let vector = &mut self.vectors[slot * d..][..d];
        let size = candidates.size(at);
        if size < UNBOUNDED {
            exact::copy(rows.row(at), vector);
            self.append(row, candidates.scale(at), size);
        } else {
            let scale = candidates.load(rows, at, &mut self.wide[slot * d..][..d]);
            let norm = exact::dot(self.wide(slot), self.wide(slot)).sqrt();
            let factor = power(norm);
            exact::narrow(&self.wide[slot * d..][..d], 1.0 / factor, &mut self.vectors[slot * d..][..d]);
            self.append(row, factor * scale, norm * scale);
            self.scales[slot] = scale;
        }
        // The columns of vectors that had to be scaled are not those of the store.
        let kept = cache.filter(|_| size < UNBOUNDED);
        self.columns[slot] = kept.and_then(|cache| cache.column(rows.stored(at) as u32));
        slot
    }

    fn append(&mut self, row: u32, factor: f64, norm: f64) {
        let slot = self.rows.len();
        self.rows.push(row);
        self.factors.push(factor);
        self.scales.push(0.0);
        self.norms.push(norm);
        self.columns.push(None);
        self.gram[slot * self.capacity..][..=slot].fill(f64::NAN);
    }

    /// Makes the float64 values of a slot available.
    pub(super) fn widen(&mut self, slot: usize, rows: &Rows<'_>, candidates: &mut Candidates) {
        if self.scales[slot] == 0.0 {
            let wide = &mut self.wide[slot * self.dimension..][..self.dimension];
            self.scales[slot] = candidates.load(rows, self.rows[slot] as usize, wide);
        }
    }

    /// What the store knows of the slot's memory.
    pub(super) fn column(&self, slot: usize) -> Option<&Column> {
        self.columns[slot].as_deref()
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// How many more vectors fit.
    pub(super) fn room(&self) -> usize {
        self.capacity - self.rows.len()
    }

    /// The slot of row `row`.
    pub(super) fn find(&self, row: u32) -> Option<usize> {
        self.rows.iter().skip(1).position(|&other| other == row).map(|at| at + 1)
    }

    /// The float32 vectors of all slots, `[slots, d]`.
    pub(super) fn vectors(&self) -> &[f32] {
        &self.vectors[..self.len() * self.dimension]
    }

    /// What a dot product with the float32 vector of `slot` is to be multiplied by.
    pub(super) fn factor(&self, slot: usize) -> f64 {
        self.factors[slot]
    }

    /// The length of a slot's vector as it is meant, to float32.
    pub(super) fn norm(&self, slot: usize) -> f64 {
        self.norms[slot]
    }

    /// out ← out - weight * the vector of `slot`, in float64.
    pub(super) fn subtract(&self, slot: usize, weight: f64, out: &mut [f64]) {
        exact::subtract(out, weight * self.scales[slot], self.wide(slot));
    }

    /// The float64 dot product of two widened slots, taken once.
    pub(super) fn gram(&mut self, a: usize, b: usize) -> f64 {
        let place = a.max(b) * self.capacity + a.min(b);
        if self.gram[place].is_nan() {
            let dot = exact::dot(self.wide(a), self.wide(b));
            self.gram[place] = dot * (self.scales[a] * self.scales[b]);
        }
        self.gram[place]
    }

    fn wide(&self, slot: usize) -> &[f64] {
        &self.wide[slot * self.dimension..][..self.dimension]
    }
}

/// The power of two nearest to a length: dividing by it costs no rounding.
fn power(norm: f64) -> f64 {
    norm.log2().round().exp2()
}
