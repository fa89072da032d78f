//! The gated delta rule of one head over one sequence, chunk by chunk.
//!
//! Within a chunk of C tokens, with c the cumulative log decays, S the state before it and
//! D_ij = exp(c_i - c_j) for j ≤ i (Yang et al. 2024, "Gated Delta Networks"):
//!
//! ```text
//! R   = beta (V - exp(c) K S)
//! A   = beta (K K^T) D below the diagonal;   (I + A) U = R     (unit lower triangular)
//! O   = exp(c) Q S + (Q K^T D, diagonal included) U
//! S'  = exp(c_last) S + (exp(c_last - c) K)^T U
//! ```
//!
//! Folding K S into the right-hand side needs one triangular solve, not two: chunks follow each other anyway.

use pulp::{Arch, Simd, WithSimd};

use super::attention::{Slab, copy_into_panels, transpose_into_panels};
use super::gated::unit_row;
use super::panels::TileShape;
use super::rows::Rows;
use super::tile::{Columns, FEW_REGISTERS, MANY_REGISTERS, columns, load, panel_width, store, tile};
use super::vector_math::exp_of_negative;

/// Most tokens of a chunk: what is quadratic in it stays below what is not.
const CHUNK: usize = 64;

/// Where a head's columns lie in the convolved rows, and how wide they are.
#[derive(Clone, Copy)]
pub(in crate::nn::ops) struct HeadColumns {
    pub(in crate::nn::ops) query: usize,
    pub(in crate::nn::ops) key: usize,
    pub(in crate::nn::ops) value: usize,
    pub(in crate::nn::ops) key_width: usize,
    pub(in crate::nn::ops) value_width: usize,
}

/// A state `[key width, value width]` as the tile reads it: `[panel][key width][panel width]`.
#[derive(Default)]
pub(in crate::nn::ops) struct PanelState(Vec<f32>);

impl PanelState {
    /// Lays out `state`, row-major.
    pub(in crate::nn::ops) fn new(state: &[f32], key_width: usize, value_width: usize) -> Self {
        let mut panels = Vec::new();
        let (panel, _) = Arch::new().dispatch(TileShape);
        let rows = Slab { values: state, stride: value_width, column: 0 };
        copy_into_panels(&mut panels, key_width, value_width, panel, rows, 0);
        Self(panels)
    }

    /// Writes the state back, row-major.
    fn write(&self, state: &mut [f32], value_width: usize) {
        let (panel, _) = Arch::new().dispatch(TileShape);
        let key_width = state.len() / value_width;
        for (number, values) in self.0.chunks_exact(key_width * panel).enumerate() {
            let first = number * panel;
            let taken = panel.min(value_width - first);
            for (row, values) in state.chunks_exact_mut(value_width).zip(values.chunks_exact(panel)) {
                row[first..first + taken].copy_from_slice(&values[..taken]);
            }
        }
    }
}

/// One head over one sequence.
pub(in crate::nn::ops) struct HeadSequence<'a> {
    /// Queries, keys and values of all heads, convolved, `[tokens, …]`.
    pub(in crate::nn::ops) mixed: Rows<'a>,
    pub(in crate::nn::ops) columns: HeadColumns,
    /// The sequence's first row.
    pub(in crate::nn::ops) first: usize,
    /// Step size of every token, `[length]`.
    pub(in crate::nn::ops) beta: &'a [f32],
    /// Log decay of every token, `[length]`; never positive.
    pub(in crate::nn::ops) decay: &'a [f32],
    /// The state that the sequence continues.
    pub(in crate::nn::ops) before: Option<&'a PanelState>,
    /// `[length, value width]`.
    pub(in crate::nn::ops) out: &'a mut [f32],
    /// The state after the last token, `[key width, value width]`, where it is wanted.
    pub(in crate::nn::ops) after: Option<&'a mut [f32]>,
    /// Kept from sequence to sequence by the caller.
    pub(in crate::nn::ops) scratch: &'a mut Scratch,
}

/// Buffers of one thread.
#[derive(Default)]
pub(in crate::nn::ops) struct Scratch {
    /// Unit keys, `[C, key width]`.
    keys: Vec<f32>,
    /// Unit queries over sqrt(key width), `[C, key width]`.
    queries: Vec<f32>,
    /// Keys transposed into panels of tokens.
    key_panels: Vec<f32>,
    /// Decayed keys transposed, `[key width, C]`.
    key_rows: Vec<f32>,
    /// -A, `[C, padded C]`.
    corrections: Vec<f32>,
    /// Q K^T D, `[C, padded C]`.
    weights: Vec<f32>,
    /// K S, then R, `[C, value width]`.
    right: Vec<f32>,
    /// U in panels, `[panel][C][panel width]`.
    updates: Vec<f32>,
    /// c, in f64: differences of large sums are taken of it.
    cumulative: Vec<f64>,
    /// exp(c), `[C]`.
    decayed: Vec<f32>,
    state: PanelState,
}

impl HeadSequence<'_> {
    /// Computes the sequence with the widest vectors of this machine.
    pub(in crate::nn::ops) fn run(self) {
        Arch::new().dispatch(self);
    }

    #[inline(always)]
    fn chunks<S: Simd, const ROWS: usize>(self, simd: S) {
        let Self { mixed, columns: at, first, beta, decay, before, out, mut after, scratch } = self;
        let mut own = std::mem::take(&mut scratch.state);
        let mut has_own = false;
        let length = beta.len();
        for start in (0..length).step_by(CHUNK) {
            let end = (start + CHUNK).min(length);
            let chunk = Chunk {
                mixed,
                at,
                first: first + start,
                beta: &beta[start..end],
                out: &mut out[start * at.value_width..end * at.value_width],
            };
            let state = if has_own { Some(&own) } else { before };
            chunk.prepare(simd, &decay[start..end], scratch);
            chunk.attend::<S, ROWS>(simd, state, scratch);
            if end < length || after.is_some() {
                if !has_own {
                    own.0.clear();
                    match before {
                        Some(before) => own.0.extend_from_slice(&before.0),
                        None => {
                            let padded = at.value_width.next_multiple_of(panel_width::<S>());
                            own.0.resize(at.key_width * padded, 0.0);
                        }
                    }
                    has_own = true;
                }
                advance::<S, ROWS>(simd, &mut own, at, end - start, scratch);
            }
        }
        if let Some(after) = &mut after {
            own.write(after, at.value_width);
        }
        scratch.state = own;
    }
}

impl WithSimd for HeadSequence<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if S::REGISTER_COUNT >= 32 {
            self.chunks::<S, MANY_REGISTERS>(simd);
        } else {
            self.chunks::<S, FEW_REGISTERS>(simd);
        }
    }
}

/// One chunk of a sequence.
struct Chunk<'a> {
    mixed: Rows<'a>,
    at: HeadColumns,
    first: usize,
    beta: &'a [f32],
    out: &'a mut [f32],
}

impl Chunk<'_> {
    /// Unit queries and keys, and the cumulative decays.
    #[inline(always)]
    fn prepare<S: Simd>(&self, _: S, decay: &[f32], scratch: &mut Scratch) {
        let (length, width) = (self.beta.len(), self.at.key_width);
        scratch.keys.resize(length * width, 0.0);
        scratch.queries.resize(length * width, 0.0);
        let shrink = 1.0 / (width as f32).sqrt();
        let rows = scratch.keys.chunks_exact_mut(width).zip(scratch.queries.chunks_exact_mut(width));
        for (token, (key, query)) in rows.enumerate() {
            unit_row(key, self.mixed.part(self.first + token, self.at.key, width), 1.0);
            unit_row(query, self.mixed.part(self.first + token, self.at.query, width), shrink);
        }
        let keys = Slab { values: &scratch.keys, stride: width, column: 0 };
        transpose_into_panels(&mut scratch.key_panels, length, width, panel_width::<S>(), keys, 0);
        scratch.cumulative.clear();
        scratch.cumulative.extend(decay.iter().scan(0.0, |sum, &g| {
            *sum += f64::from(g);
            Some(*sum)
        }));
        scratch.decayed.clear();
        scratch.decayed.extend(scratch.cumulative.iter().map(|&c| (c as f32).exp()));
    }

    /// The chunk's outputs, and U.
    #[inline(always)]
    fn attend<S: Simd, const ROWS: usize>(self, simd: S, state: Option<&PanelState>, scratch: &mut Scratch) {
        let (length, width, value_width) = (self.beta.len(), self.at.key_width, self.at.value_width);
        let (panel, last_row) = (panel_width::<S>(), length - 1);
        let padded = length.next_multiple_of(panel);
        let zeros: [Columns<S>; ROWS] = [[simd.splat_f32s(0.0); 2]; ROWS];
        let Scratch {
            keys,
            queries,
            key_panels,
            corrections,
            weights,
            right,
            updates,
            cumulative,
            decayed,
            ..
        } = scratch;

        // K K^T and Q K^T up to the diagonal's panel, then their decays.
        corrections.resize(length * padded, 0.0);
        weights.resize(length * padded, 0.0);
        for (rows, products) in [(&*keys, &mut *corrections), (&*queries, &mut *weights)] {
            for top in (0..=last_row).step_by(ROWS) {
                let tile_rows: [&[f32]; ROWS] =
                    std::array::from_fn(|i| &rows[(top + i).min(last_row) * width..][..width]);
                let bottom = (top + ROWS - 1).min(last_row);
                for number in 0..=bottom / panel {
                    let panel_values = columns::<S>(&key_panels[number * width * panel..][..width * panel]);
                    let sums = tile(simd, tile_rows, panel_values, zeros);
                    for (i, sum) in sums.into_iter().enumerate().take(last_row + 1 - top) {
                        store(simd, &mut products[(top + i) * padded + number * panel..][..panel], sum);
                    }
                }
            }
        }
        for row in 0..length {
            let (below, weights) =
                (&mut corrections[row * padded..][..padded], &mut weights[row * padded..][..padded]);
            decay_row(simd, below, weights, cumulative, row, self.beta[row]);
        }

        // R, with K S where there is a state; exp(c) Q S goes to the output.
        right.clear();
        right.resize(length * value_width, 0.0);
        match state {
            Some(state) => {
                for (rows, products) in [(&*keys, &mut right[..]), (&*queries, &mut *self.out)] {
                    times_state::<S, ROWS>(simd, rows, state, width, value_width, products);
                }
                for (row, factor) in self.out.chunks_exact_mut(value_width).zip(&*decayed) {
                    row.iter_mut().for_each(|value| *value *= factor);
                }
            }
            None => self.out.fill(0.0),
        }
        for (token, right) in right.chunks_exact_mut(value_width).enumerate() {
            let value = self.mixed.part(self.first + token, self.at.value, value_width);
            let (beta, decayed) = (self.beta[token], decayed[token]);
            right.iter_mut().zip(value).for_each(|(right, value)| *right = beta * (value - decayed * *right));
        }

        // Panel by panel of columns: solve for U, then add its part of the output.
        updates.resize(length * value_width.next_multiple_of(panel), 0.0);
        for (number, solved) in updates.chunks_exact_mut(length * panel).enumerate() {
            let column = number * panel;
            let end = (column + panel).min(value_width);
            for top in (0..=last_row).step_by(ROWS) {
                let rows: [&[f32]; ROWS] =
                    std::array::from_fn(|i| &corrections[(top + i).min(last_row) * padded..][..padded]);
                let mut start = zeros;
                for (i, start) in start.iter_mut().enumerate() {
                    let row = (top + i).min(last_row) * value_width;
                    *start = load(simd, &right[row + column..row + end]);
                }
                let mut sums = tile(simd, rows, columns::<S>(&solved[..top * panel]), start);
                for i in 1..ROWS.min(last_row + 1 - top) {
                    for j in 0..i {
                        let factor = simd.splat_f32s(rows[i][top + j]);
                        let [low, high] = sums[j];
                        sums[i][0] = simd.mul_add_e_f32s(factor, low, sums[i][0]);
                        sums[i][1] = simd.mul_add_e_f32s(factor, high, sums[i][1]);
                    }
                }
                for (i, sum) in sums.into_iter().enumerate().take(last_row + 1 - top) {
                    store(simd, &mut solved[(top + i) * panel..][..panel], sum);
                }
            }
            for top in (0..=last_row).step_by(ROWS) {
                let rows: [&[f32]; ROWS] =
                    std::array::from_fn(|i| &weights[(top + i).min(last_row) * padded..][..padded]);
                let mut start = zeros;
                for (i, start) in start.iter_mut().enumerate() {
                    let row = (top + i).min(last_row) * value_width;
                    *start = load(simd, &self.out[row + column..row + end]);
                }
                let seen = (top + ROWS).min(length);
                let sums = tile(simd, rows, columns::<S>(&solved[..seen * panel]), start);
                for (i, sum) in sums.into_iter().enumerate().take(last_row + 1 - top) {
                    store(simd, &mut self.out[(top + i) * value_width..][column..end], sum);
                }
            }
        }
    }
}

/// Makes a row of K K^T into one of -A, and a row of Q K^T into one of Q K^T D. Exponents are masked before exp:
/// beyond the diagonal they would be positive.
#[inline(always)]
fn decay_row<S: Simd>(
    simd: S,
    below: &mut [f32],
    weights: &mut [f32],
    cumulative: &[f64],
    row: usize,
    beta: f32,
) {
    let mut exponents = [0f32; CHUNK];
    for (exponent, c) in exponents.iter_mut().zip(&cumulative[..row]) {
        *exponent = (cumulative[row] - c) as f32;
    }
    let seen = (row + 1).next_multiple_of(S::F32_LANES);
    let minus_beta = simd.splat_f32s(-beta);
    let vectors = S::as_mut_simd_f32s(&mut below[..seen])
        .0
        .iter_mut()
        .zip(S::as_mut_simd_f32s(&mut weights[..seen]).0)
        .zip(S::as_simd_f32s(&exponents[..seen.min(CHUNK)]).0);
    for ((below, weight), exponent) in vectors {
        let decay = exp_of_negative(simd, *exponent);
        *below = simd.mul_f32s(simd.mul_f32s(*below, decay), minus_beta);
        *weight = simd.mul_f32s(*weight, decay);
    }
    below[row..].fill(0.0);
    weights[row + 1..].fill(0.0);
}

/// products = rows S: `[C, key width]` times the state, `[C, value width]`.
#[inline(always)]
fn times_state<S: Simd, const ROWS: usize>(
    simd: S,
    rows: &[f32],
    state: &PanelState,
    width: usize,
    value_width: usize,
    products: &mut [f32],
) {
    let panel = panel_width::<S>();
    let last_row = rows.len() / width - 1;
    let zeros: [Columns<S>; ROWS] = [[simd.splat_f32s(0.0); 2]; ROWS];
    for (number, state) in state.0.chunks_exact(width * panel).enumerate() {
        let column = number * panel;
        let end = (column + panel).min(value_width);
        for top in (0..=last_row).step_by(ROWS) {
            let rows: [&[f32]; ROWS] =
                std::array::from_fn(|i| &rows[(top + i).min(last_row) * width..][..width]);
            let sums = tile(simd, rows, columns::<S>(state), zeros);
            for (i, sum) in sums.into_iter().enumerate().take(last_row + 1 - top) {
                store(simd, &mut products[(top + i) * value_width..][column..end], sum);
            }
        }
    }
}

/// S = exp(c_last) S + (exp(c_last - c) K)^T U.
#[inline(always)]
fn advance<S: Simd, const ROWS: usize>(
    simd: S,
    state: &mut PanelState,
    at: HeadColumns,
    length: usize,
    scratch: &mut Scratch,
) {
    let (panel, width) = (panel_width::<S>(), at.key_width);
    let total = scratch.cumulative[length - 1];
    scratch.key_rows.resize(width * length, 0.0);
    for token in 0..length {
        let decay = ((total - scratch.cumulative[token]) as f32).exp();
        for (k, &value) in scratch.keys[token * width..][..width].iter().enumerate() {
            scratch.key_rows[k * length + token] = decay * value;
        }
    }
    let (last_row, factor) = (width - 1, simd.splat_f32s((total as f32).exp()));
    let panels = state.0.chunks_exact_mut(width * panel).zip(scratch.updates.chunks_exact(length * panel));
    for (state, updates) in panels {
        for top in (0..=last_row).step_by(ROWS) {
            let rows: [&[f32]; ROWS] =
                std::array::from_fn(|i| &scratch.key_rows[(top + i).min(last_row) * length..][..length]);
            let mut start: [Columns<S>; ROWS] = [[factor; 2]; ROWS];
            for (i, start) in start.iter_mut().enumerate() {
                let [low, high] = load(simd, &state[(top + i).min(last_row) * panel..][..panel]);
                *start = [simd.mul_f32s(low, factor), simd.mul_f32s(high, factor)];
            }
            let sums = tile(simd, rows, columns::<S>(updates), start);
            for (i, sum) in sums.into_iter().enumerate().take(last_row + 1 - top) {
                store(simd, &mut state[(top + i) * panel..][..panel], sum);
            }
        }
    }
}
