//! The kernel of the selectors: float32 dot products of a few rows with a few vectors at a time.
//!
//! Three rows by up to four vectors fill the sixteen registers of AVX2: every element loaded takes part in three
//! or four multiply-adds. Where there are few vectors, two chains of registers a pair keep the multipliers busy;
//! so a dot product's last bits depend on what it was taken with, within the bound that follows.
//!
//! A dot product of length d summed in chains of at most m fused multiply-adds and additions differs from the
//! true one by at most γ_m ‖x‖‖v‖, γ_m = m·u / (1 - m·u), u = 2⁻²⁴ (Higham, *Accuracy and Stability*, 3.1, with
//! Cauchy-Schwarz), as long as nothing overflows or falls into the subnormal range.

use pulp::{Arch, Simd, WithSimd};

use super::{Elements, Rows, widen};

/// Rows looked at together.
pub(super) const GROUP: usize = 3;
/// Vectors looked at together.
const CHUNK: usize = 4;
/// Steps between two calls to memory for what comes next.
const BLOCK: usize = 8;
/// Bytes of a cache line.
const LINE: usize = 64;

/// A rectangle of dot products to take: some rows of a pool with some of the vectors in a list.
pub(super) struct Fetch<'a> {
    pub rows: &'a Rows<'a>,
    /// The rows looked at.
    pub which: &'a [u32],
    /// How many leading vectors each row of the pool has met before, `[P]`; they are left out where the whole
    /// group has. Empty: none.
    pub levels: &'a [u32],
    /// The vectors, `[upto, d]`.
    pub vectors: &'a [f32],
    pub upto: usize,
    /// Where `x_i·v_s` goes: place `s * P + i` of `[upto, P]`.
    pub dots: &'a mut [f32],
    /// Where `x_i·x_i` goes, `[P]`, if it is asked for.
    pub squares: Option<&'a mut [f32]>,
    /// Room for a group of rows in float32; grows where rows are narrower.
    pub room: &'a mut Vec<f32>,
}

impl Fetch<'_> {
    /// Takes the dot products; returns γ, their relative error.
    pub(super) fn run(self) -> f64 {
        if !matches!(self.rows.elements(), Elements::F32(_)) {
            self.room.resize(GROUP * self.rows.dimension(), 0.0);
        }
        Arch::new().dispatch(self)
    }
}

impl WithSimd for Fetch<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) -> f64 {
        let (dimension, count) = (self.rows.dimension(), self.rows.len());
        let groups = self.which.len().div_ceil(GROUP);
        let starts_of = |group: usize| -> [usize; GROUP] {
            // A short last group looks at its last row again.
            let at = |k: usize| self.which[(group * GROUP + k).min(self.which.len() - 1)];
            std::array::from_fn(|k| self.rows.start(at(k) as usize))
        };
        for group in 0..groups {
            let which = &self.which[group * GROUP..self.which.len().min((group + 1) * GROUP)];
            let level = |&row: &u32| self.levels.get(row as usize).copied().unwrap_or(0);
            let from = which.iter().map(level).min().unwrap_or(0) as usize;
            let starts = starts_of(group);
            let next = Ahead::new::<S>(self.rows.elements(), starts_of((group + 1).min(groups - 1)));
            let rows = load(self.rows.elements(), starts, dimension, self.room);
            let mut first = from;
            let mut squares = self.squares.as_deref_mut();
            let first_look = squares.is_some();
            // Lengths take the registers of one vector.
            let chunks = (self.upto - from + usize::from(first_look)).div_ceil(CHUNK);
            let mut chunk_number = 0;
            while first < self.upto {
                let left = self.upto - first;
                let most = if squares.is_some() { CHUNK - 1 } else { CHUNK };
                let width = left.div_ceil(left.div_ceil(most));
                let vectors = &self.vectors[first * dimension..];
                // Each chunk of a first look calls for its share of the next group.
                let ahead = if first_look { next.share(chunk_number, chunks) } else { Ahead::NOTHING };
                chunk_number += 1;
                let mut put = |dots: &[[f32; GROUP]]| {
                    for (slot, dots) in dots.iter().enumerate() {
                        for (&row, &dot) in which.iter().zip(dots) {
                            self.dots[(first + slot) * count + row as usize] = dot;
                        }
                    }
                };
                if let Some(squares) = squares.take() {
                    let found = match width {
                        1 => {
                            let (dots, own) = chunk::<S, 1, 2, true>(simd, rows, vectors, ahead);
                            put(&dots);
                            own
                        }
                        2 => {
                            let (dots, own) = chunk::<S, 2, 1, true>(simd, rows, vectors, ahead);
                            put(&dots);
                            own
                        }
                        _ => {
                            let (dots, own) = chunk::<S, 3, 1, true>(simd, rows, vectors, ahead);
                            put(&dots);
                            own
                        }
                    };
                    for (&row, &square) in which.iter().zip(&found) {
                        squares[row as usize] = square;
                    }
                } else {
                    match width {
                        1 => put(&chunk::<S, 1, 2, false>(simd, rows, vectors, ahead).0),
                        2 => put(&chunk::<S, 2, 2, false>(simd, rows, vectors, ahead).0),
                        3 => put(&chunk::<S, 3, 1, false>(simd, rows, vectors, ahead).0),
                        _ => put(&chunk::<S, 4, 1, false>(simd, rows, vectors, ahead).0),
                    }
                }
                first += width;
            }
        }
        gamma(dimension.div_ceil(S::F32_LANES) + 1 + S::F32_LANES)
    }
}

/// γ_m for the longest chain of roundings: the steps of a register, the sum of two, and that over the lanes.
fn gamma(chain: usize) -> f64 {
    let roundings = chain as f64 * (f64::from(f32::EPSILON) / 2.0);
    if roundings < 0.5 { roundings / (1.0 - roundings) } else { f64::INFINITY }
}

/// The rows of a group in float32: where they lie, or widened into `room`.
#[inline(always)]
fn load<'a>(
    elements: Elements<'a>,
    starts: [usize; GROUP],
    dimension: usize,
    room: &'a mut [f32],
) -> [&'a [f32]; GROUP] {
    match elements {
        Elements::F32(elements) => return starts.map(|start| &elements[start..start + dimension]),
        Elements::F16(elements) => {
            for (start, out) in starts.iter().zip(room.chunks_exact_mut(dimension)) {
                widen::from_f16(&elements[*start..start + dimension], out);
            }
        }
        Elements::Bf16(elements) => {
            for (start, out) in starts.iter().zip(room.chunks_exact_mut(dimension)) {
                widen::from_bf16(&elements[*start..start + dimension], out);
            }
        }
    }
    let room = &*room;
    std::array::from_fn(|k| &room[k * dimension..(k + 1) * dimension])
}

/// The dot products of a group of rows with the first C of `vectors`, and with themselves if OWN.
///
/// Every pair is summed in CHAINS chains. Plain loops throughout: a closure handed to a library function such as `array::map` would be compiled
/// without the instructions that the dispatch has just found.
#[inline(always)]
fn chunk<S: Simd, const C: usize, const CHAINS: usize, const OWN: bool>(
    simd: S,
    rows: [&[f32]; GROUP],
    vectors: &[f32],
    ahead: Ahead,
) -> ([[f32; GROUP]; C], [f32; GROUP]) {
    let dimension = rows[0].len();
    let whole = dimension / S::F32_LANES;
    let mut row_heads: [&[S::f32s]; GROUP] = [&[]; GROUP];
    let mut row_tails: [&[f32]; GROUP] = [&[]; GROUP];
    for r in 0..GROUP {
        let (head, tail) = S::as_simd_f32s(rows[r]);
        (row_heads[r], row_tails[r]) = (&head[..whole], tail);
    }
    let mut vector_heads: [&[S::f32s]; C] = [&[]; C];
    let mut vector_tails: [&[f32]; C] = [&[]; C];
    for c in 0..C {
        let (head, tail) = S::as_simd_f32s(&vectors[c * dimension..][..dimension]);
        (vector_heads[c], vector_tails[c]) = (&head[..whole], tail);
    }
    let zero = simd.splat_f32s(0.0);
    let mut sums = [[[zero; GROUP]; C]; CHAINS];
    let mut own = [[zero; GROUP]; CHAINS];
    let zeros = [zero; BLOCK];
    let blocks = whole / BLOCK;
    for block in 0..blocks {
        ahead.touch(block * BLOCK, (block + 1) * BLOCK);
        // Arrays of a known length leave the inner loop nothing to count or check.
        let mut row_block = [&zeros; GROUP];
        for r in 0..GROUP {
            row_block[r] = &row_heads[r].as_chunks().0[block];
        }
        let mut vector_block = [&zeros; C];
        for c in 0..C {
            vector_block[c] = &vector_heads[c].as_chunks().0[block];
        }
        for k in 0..BLOCK {
            let (mut row, mut vector) = ([zero; GROUP], [zero; C]);
            for r in 0..GROUP {
                row[r] = row_block[r][k];
            }
            for c in 0..C {
                vector[c] = vector_block[c][k];
            }
            let chain = k % CHAINS;
            multiply::<S, C, OWN>(simd, row, vector, &mut sums[chain], &mut own[chain]);
        }
    }
    for at in blocks * BLOCK..whole {
        let (mut row, mut vector) = ([zero; GROUP], [zero; C]);
        for r in 0..GROUP {
            row[r] = row_heads[r][at];
        }
        for c in 0..C {
            vector[c] = vector_heads[c][at];
        }
        multiply::<S, C, OWN>(simd, row, vector, &mut sums[0], &mut own[0]);
    }
    if dimension > whole * S::F32_LANES {
        let (mut row, mut vector) = ([zero; GROUP], [zero; C]);
        for r in 0..GROUP {
            row[r] = simd.partial_load_f32s(row_tails[r]);
        }
        for c in 0..C {
            vector[c] = simd.partial_load_f32s(vector_tails[c]);
        }
        multiply::<S, C, OWN>(simd, row, vector, &mut sums[0], &mut own[0]);
    }
    let ([sums, more @ ..], [own, more_own @ ..]) = (&mut sums[..], &mut own[..]) else {
        return ([[0.0; GROUP]; C], [0.0; GROUP]);
    };
    for (more, more_own) in more.iter().zip(more_own) {
        for r in 0..GROUP {
            for (sum, more) in sums.iter_mut().zip(more) {
                sum[r] = simd.add_f32s(sum[r], more[r]);
            }
            own[r] = simd.add_f32s(own[r], more_own[r]);
        }
    }
    let mut dots = [[0.0; GROUP]; C];
    let mut squares = [0.0; GROUP];
    for r in 0..GROUP {
        for c in 0..C {
            dots[c][r] = simd.reduce_sum_f32s(sums[c][r]);
        }
        if OWN {
            squares[r] = simd.reduce_sum_f32s(own[r]);
        }
    }
    (dots, squares)
}

/// One step of a chunk.
#[inline(always)]
fn multiply<S: Simd, const C: usize, const OWN: bool>(
    simd: S,
    row: [S::f32s; GROUP],
    vector: [S::f32s; C],
    sums: &mut [[S::f32s; GROUP]; C],
    own: &mut [S::f32s; GROUP],
) {
    for c in 0..C {
        for r in 0..GROUP {
            sums[c][r] = simd.mul_add_f32s(row[r], vector[c], sums[c][r]);
        }
    }
    if OWN {
        for r in 0..GROUP {
            own[r] = simd.mul_add_f32s(row[r], row[r], own[r]);
        }
    }
}

/// The group of rows that comes next, called into the cache while the present one is worked on: without it a
/// first look at a pool waits for memory for two thirds of its time.
#[derive(Clone, Copy)]
struct Ahead {
    starts: [*const u8; GROUP],
    /// The rows called for by this chunk.
    from: usize,
    to: usize,
    /// Bytes of a row that one step covers.
    bytes: usize,
}

impl Ahead {
    const NOTHING: Self = Self { starts: [std::ptr::null(); GROUP], from: 0, to: 0, bytes: 0 };

    fn new<S: Simd>(elements: Elements<'_>, starts: [usize; GROUP]) -> Self {
        let (base, size) = match elements {
            Elements::F32(elements) => (elements.as_ptr().cast::<u8>(), 4),
            Elements::F16(elements) => (elements.as_ptr().cast(), 2),
            Elements::Bf16(elements) => (elements.as_ptr().cast(), 2),
        };
        let starts = starts.map(|start| base.wrapping_add(start * size));
        Self { starts, from: 0, to: GROUP, bytes: size * S::F32_LANES }
    }

    /// The part of chunk `number` of `chunks`.
    fn share(self, number: usize, chunks: usize) -> Self {
        Self { from: GROUP * number / chunks, to: GROUP * (number + 1) / chunks, ..self }
    }

    /// Calls for what those rows hold from step `from` up to step `to`.
    #[inline(always)]
    fn touch(&self, from: usize, to: usize) {
        #[cfg(target_arch = "x86_64")]
        for row in self.from..self.to {
            for offset in (from * self.bytes..to * self.bytes).step_by(LINE) {
                let place = self.starts[row].wrapping_add(offset).cast::<i8>();
                // SAFETY: a prefetch reads nothing that the program could observe and faults at no address.
                unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(place) };
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (from, to, self.starts, self.from, self.to, self.bytes, LINE);
    }
}
