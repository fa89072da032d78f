//! softmax(Q K^T / sqrt d) V of a few query rows over one sequence.

use pulp::{Arch, Simd};

use super::tile::{Columns, Natural, Tiled, columns, panel_width, store, tile};
use super::vector_math::exp_of_negative;

/// Part of every row of a wider matrix: `width` columns from `column` on, rows `stride` apart.
#[derive(Clone, Copy)]
pub(in crate::nn::ops) struct Slab<'a> {
    pub(in crate::nn::ops) values: &'a [f32],
    pub(in crate::nn::ops) stride: usize,
    pub(in crate::nn::ops) column: usize,
}

impl<'a> Slab<'a> {
    #[inline(always)]
    fn row(&self, row: usize, head: usize, width: usize) -> &'a [f32] {
        &self.values[row * self.stride + self.column + head * width..][..width]
    }
}

/// Attention of `queries` over `keys` and `values`, all heads.
pub(in crate::nn::ops) struct BlockAttention<'a> {
    /// The query rows of this block.
    pub(in crate::nn::ops) queries: Slab<'a>,
    /// All rows of the sequence.
    pub(in crate::nn::ops) keys: Slab<'a>,
    /// All rows of the sequence.
    pub(in crate::nn::ops) values: Slab<'a>,
    /// Rows of the sequence.
    pub(in crate::nn::ops) length: usize,
    pub(in crate::nn::ops) heads: usize,
    /// Width of a head.
    pub(in crate::nn::ops) width: usize,
    /// `[query rows, heads * width]`.
    pub(in crate::nn::ops) out: &'a mut [f32],
    /// Kept from block to block by the caller.
    pub(in crate::nn::ops) scratch: &'a mut Scratch,
}

/// Buffers of one thread.
#[derive(Default)]
pub(in crate::nn::ops) struct Scratch {
    /// K^T of one head in panels: `[panel][width][panel width]`.
    keys: Vec<f32>,
    /// V of one head in panels: `[panel][length][panel width]`.
    values: Vec<f32>,
    /// Scores of one tile's rows, each `[padded length]`.
    scores: Vec<f32>,
}

impl BlockAttention<'_> {
    /// Computes the block with the widest vectors of this machine.
    pub(in crate::nn::ops) fn run(self) {
        if !self.out.is_empty() {
            Arch::new().dispatch(Natural(self));
        }
    }
}

impl Tiled for BlockAttention<'_> {
    #[inline(always)]
    fn tiles<S: Simd, const ROWS: usize>(self, simd: S) {
        let (length, width, panel) = (self.length, self.width, panel_width::<S>());
        let hidden = self.heads * width;
        let last_row = self.out.len() / hidden - 1;
        let padded = length.next_multiple_of(panel);
        let scale = 1.0 / (width as f32).sqrt();
        let Scratch { keys, values, scores } = self.scratch;
        scores.resize(ROWS * padded, 0.0);
        for head in 0..self.heads {
            transpose_into_panels(keys, length, width, panel, self.keys, head);
            copy_into_panels(values, length, width, panel, self.values, head);
            for top in (0..=last_row).step_by(ROWS) {
                let mut rows: [&[f32]; ROWS] = [&[]; ROWS];
                for i in 0..ROWS {
                    // Rows beyond the last one repeat it and are not stored.
                    rows[i] = self.queries.row((top + i).min(last_row), head, width);
                }
                let zeros: [Columns<S>; ROWS] = [[simd.splat_f32s(0.0); 2]; ROWS];
                for (number, keys) in keys.chunks_exact(width * panel).enumerate() {
                    let sums = tile(simd, rows, columns::<S>(keys), zeros);
                    for i in 0..ROWS {
                        store(simd, &mut scores[i * padded + number * panel..][..panel], sums[i]);
                    }
                }
                let mut totals = [0f32; ROWS];
                for i in 0..ROWS {
                    totals[i] = exponentials(simd, &mut scores[i * padded..][..padded], length, scale);
                }
                let mut rows: [&[f32]; ROWS] = [&[]; ROWS];
                for i in 0..ROWS {
                    rows[i] = &scores[i * padded..][..length];
                }
                for (number, values) in values.chunks_exact(length * panel).enumerate() {
                    let sums = tile(simd, rows, columns::<S>(values), zeros);
                    let column = head * width + number * panel;
                    let end = (column + panel).min((head + 1) * width);
                    for i in 0..ROWS.min(last_row + 1 - top) {
                        let share = simd.splat_f32s(1.0 / totals[i]);
                        let sum = [simd.mul_f32s(sums[i][0], share), simd.mul_f32s(sums[i][1], share)];
                        store(simd, &mut self.out[(top + i) * hidden..][column..end], sum);
                    }
                }
            }
        }
    }
}

/// Rows `[length, width]` as panels of `panel` rows, transposed: `[panels][width][panel]`, filled up with zeros.
#[inline(always)]
pub(super) fn transpose_into_panels(
    panels: &mut Vec<f32>,
    length: usize,
    width: usize,
    panel: usize,
    rows: Slab,
    head: usize,
) {
    panels.clear();
    panels.resize(length.next_multiple_of(panel) * width, 0.0);
    for (number, values) in panels.chunks_exact_mut(width * panel).enumerate() {
        for column in 0..panel.min(length - number * panel) {
            let row = rows.row(number * panel + column, head, width);
            for (slots, &value) in values.chunks_exact_mut(panel).zip(row) {
                slots[column] = value;
            }
        }
    }
}

/// Rows `[length, width]` as panels of `panel` columns: `[panels][length][panel]`, filled up with zeros.
#[inline(always)]
pub(super) fn copy_into_panels(
    panels: &mut Vec<f32>,
    length: usize,
    width: usize,
    panel: usize,
    rows: Slab,
    head: usize,
) {
    panels.clear();
    panels.resize(width.next_multiple_of(panel) * length, 0.0);
    for (number, values) in panels.chunks_exact_mut(length * panel).enumerate() {
        let first = number * panel;
        let taken = panel.min(width - first);
        for (r, slots) in values.chunks_exact_mut(panel).enumerate() {
            slots[..taken].copy_from_slice(&rows.row(r, head, width)[first..first + taken]);
        }
    }
}

/// Replaces the first `length` scores by exp((score - highest) * scale) and returns their sum.
#[inline(always)]
fn exponentials<S: Simd>(simd: S, row: &mut [f32], length: usize, scale: f32) -> f32 {
    // What lies beyond must neither be the highest nor add to the sum; its exponential is never read.
    row[length..].fill(f32::NEG_INFINITY);
    let vectors = S::as_mut_simd_f32s(row).0;
    let mut highest = vectors[0];
    for v in &vectors[1..] {
        highest = simd.max_f32s(highest, *v);
    }
    let highest = simd.splat_f32s(simd.reduce_max_f32s(highest));
    let scale = simd.splat_f32s(scale);
    for v in vectors.iter_mut() {
        *v = exp_of_negative(simd, simd.mul_f32s(simd.sub_f32s(*v, highest), scale));
    }
    row[length..].fill(0.0);
    let vectors = S::as_simd_f32s(row).0;
    let mut sum = simd.splat_f32s(0.0);
    for v in vectors {
        sum = simd.add_f32s(sum, *v);
    }
    simd.reduce_sum_f32s(sum)
}

#[cfg(test)]
mod tests {
    use pulp::WithSimd;

    use super::super::tile::{MANY_REGISTERS, WithRows};
    use super::*;

    #[test]
    fn exponentials_sum_over_the_length_alone() {
        struct Row<'a>(&'a mut [f32], usize);
        impl WithSimd for Row<'_> {
            type Output = f32;
            #[inline(always)]
            fn with_simd<S: Simd>(self, simd: S) -> f32 {
                exponentials(simd, self.0, self.1, 0.5)
            }
        }
        for length in 1..=64 {
            let mut row: Vec<f32> = (0..64).map(|i| ((i * 29) % 17) as f32 - 8.0).collect();
            let scores = row[..length].to_vec();
            let highest = scores.iter().copied().fold(f32::MIN, f32::max);
            let expected: Vec<f64> = scores.iter().map(|s| (f64::from(s - highest) * 0.5).exp()).collect();
            let sum = Arch::new().dispatch(Row(&mut row, length));
            assert!((f64::from(sum) / expected.iter().sum::<f64>() - 1.0).abs() < 1e-6);
            for (value, expected) in row.iter().zip(&expected) {
                assert!((f64::from(*value) - expected).abs() < 1e-6);
            }
            assert!(row[length..].iter().all(|v| *v == 0.0));
        }
    }

    #[test]
    fn the_tiles_of_other_machines_give_the_same_attention() {
        let (heads, width) = (2, 20);
        let hidden = heads * width;
        for length in 1..40 {
            let qkv: Vec<f32> =
                (0..length * 3 * hidden).map(|i| ((i * 37) % 23) as f32 / 7.0 - 1.5).collect();
            let with = |run: &dyn Fn(BlockAttention)| {
                let slab = |column| Slab { values: &qkv, stride: 3 * hidden, column };
                let (mut out, mut scratch) = (vec![f32::NAN; length * hidden], Scratch::default());
                run(BlockAttention {
                    queries: slab(0),
                    keys: slab(hidden),
                    values: slab(2 * hidden),
                    length,
                    heads,
                    width,
                    out: &mut out,
                    scratch: &mut scratch,
                });
                out
            };
            let ours = with(&|block| block.run());
            // AVX-512's: 16 lanes and 32 registers.
            let wide = with(&|block| pulp::Scalar512b.vectorize(WithRows::<_, MANY_REGISTERS>(block)));
            for (a, b) in ours.iter().zip(&wide) {
                assert!((a - b).abs() < 1e-5, "length {length}: {a} {b}");
            }
        }
    }
}
