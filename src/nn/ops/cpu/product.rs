//! `x W^T + bias` and what follows it, a block of rows at a time.

use pulp::{Arch, Simd};

use super::panels::Panels;
use super::tile::{Columns, Natural, Tiled, columns, load, panel_width, prefetch, store, tile};
use super::vector_math::gelu;

/// Most rows of a block: at one depth block they take 288 KiB of a second-level cache, and every panel is fetched once for
/// that many rows.
pub(in crate::nn::ops) const BLOCK_ROWS: usize = 192;

/// Layer norm's parameters.
#[derive(Clone, Copy)]
pub(in crate::nn::ops) struct Norm<'a> {
    /// `[columns]`.
    pub(in crate::nn::ops) scale: &'a [f32],
    /// `[columns]`.
    pub(in crate::nn::ops) shift: &'a [f32],
    pub(in crate::nn::ops) epsilon: f32,
}

/// What is done with the product before it leaves the registers or the cache.
#[derive(Clone, Copy)]
pub(in crate::nn::ops) enum RowFinish<'a> {
    Bias,
    Gelu,
    /// Added to these rows, `[rows, columns]`, and normalised.
    ResidualNorm(&'a [f32], Norm<'a>),
}

/// One block's product: `out = finish(x W^T + bias)`.
pub(in crate::nn::ops) struct BlockProduct<'a> {
    /// `[rows, depth]`.
    pub(in crate::nn::ops) x: &'a [f32],
    pub(in crate::nn::ops) weight: &'a Panels,
    /// `[columns]`.
    pub(in crate::nn::ops) bias: &'a [f32],
    pub(in crate::nn::ops) finish: RowFinish<'a>,
    /// `[rows, columns]`.
    pub(in crate::nn::ops) out: &'a mut [f32],
    /// Kept from block to block by the caller.
    pub(in crate::nn::ops) scratch: &'a mut Vec<f32>,
}

impl BlockProduct<'_> {
    /// Computes the block with the widest vectors of this machine.
    pub(in crate::nn::ops) fn run(self) {
        if !self.out.is_empty() {
            Arch::new().dispatch(Natural(self));
        }
    }
}

impl Tiled for BlockProduct<'_> {
    #[inline(always)]
    fn tiles<S: Simd, const ROWS: usize>(self, simd: S) {
        let Self { x, weight, bias, finish, out, scratch } = self;
        let (depth, width) = (weight.depth(), weight.columns());
        let last_row = out.len() / width - 1;
        let tiles = (last_row + 1).div_ceil(ROWS);
        for (first, height) in weight.depths() {
            // The block's rows at this depth, side by side: read again for every panel.
            scratch.clear();
            for row in x.chunks_exact(depth) {
                scratch.extend_from_slice(&row[first..first + height]);
            }
            let finished = first + height == depth;
            let mut panels = weight.panels(first, height).peekable();
            while let Some((column, panel)) = panels.next() {
                let next = panels.peek().map_or(&[][..], |(_, next)| next);
                let panel = columns::<S>(panel);
                let end = (column + panel_width::<S>()).min(width);
                let bias = load(simd, &bias[column..end]);
                for top in (0..=last_row).step_by(ROWS) {
                    let mut rows: [&[f32]; ROWS] = [&[]; ROWS];
                    let mut start: [Columns<S>; ROWS] = [bias; ROWS];
                    for i in 0..ROWS {
                        // Rows beyond the last one repeat it and are not stored.
                        let row = (top + i).min(last_row);
                        rows[i] = &scratch[row * height..][..height];
                        let span = row * width + column..row * width + end;
                        if first > 0 {
                            start[i] = load(simd, &out[span]);
                        } else if let RowFinish::ResidualNorm(residual, _) = finish {
                            let residual = load(simd, &residual[span]);
                            start[i] =
                                [simd.add_f32s(bias[0], residual[0]), simd.add_f32s(bias[1], residual[1])];
                        }
                    }
                    prefetch(next, top / ROWS, tiles);
                    let mut sums = tile(simd, rows, panel, start);
                    if finished && matches!(finish, RowFinish::Gelu) {
                        for sum in &mut sums {
                            *sum = [gelu(simd, sum[0]), gelu(simd, sum[1])];
                        }
                    }
                    for i in 0..ROWS.min(last_row + 1 - top) {
                        let row = (top + i) * width;
                        store(simd, &mut out[row + column..row + end], sums[i]);
                    }
                }
            }
        }
        if let RowFinish::ResidualNorm(_, norm) = finish {
            for row in out.chunks_exact_mut(width) {
                normalise(simd, row, norm);
            }
        }
    }
}

/// (row - mean) / sqrt(variance + epsilon) * scale + shift, in place; the variance is that of the centred row.
#[inline(always)]
fn normalise<S: Simd>(simd: S, row: &mut [f32], norm: Norm) {
    let width = row.len() as f32;
    let (vectors, tail) = S::as_mut_simd_f32s(row);
    let mut sum = simd.splat_f32s(0.0);
    for v in &*vectors {
        sum = simd.add_f32s(sum, *v);
    }
    let mean = (simd.reduce_sum_f32s(sum) + tail.iter().sum::<f32>()) / width;
    let centre = simd.splat_f32s(mean);
    let mut squares = simd.splat_f32s(0.0);
    for v in vectors.iter_mut() {
        *v = simd.sub_f32s(*v, centre);
        squares = simd.mul_add_e_f32s(*v, *v, squares);
    }
    let mut square_sum = simd.reduce_sum_f32s(squares);
    for v in tail.iter_mut() {
        *v -= mean;
        square_sum += *v * *v;
    }
    let inverse = 1.0 / (square_sum / width + norm.epsilon).sqrt();
    let factor = simd.splat_f32s(inverse);
    let ((scales, scale_tail), (shifts, shift_tail)) =
        (S::as_simd_f32s(norm.scale), S::as_simd_f32s(norm.shift));
    for ((v, scale), shift) in vectors.iter_mut().zip(scales).zip(shifts) {
        *v = simd.mul_add_e_f32s(simd.mul_f32s(*v, factor), *scale, *shift);
    }
    for ((v, scale), shift) in tail.iter_mut().zip(scale_tail).zip(shift_tail) {
        *v = *v * inverse * scale + shift;
    }
}

#[cfg(test)]
mod tests {
    use super::super::panels::TileShape;
    use super::super::tile::{FEW_REGISTERS, MANY_REGISTERS, WithRows};
    use super::*;

    fn check(rows: usize, columns: usize, depth: usize, shape: (usize, usize), run: impl Fn(BlockProduct)) {
        let value = |i: usize| ((i * 37) % 19) as f32 / 9.0 - 1.0;
        let x: Vec<f32> = (0..rows * depth).map(value).collect();
        let w: Vec<f32> = (0..columns * depth).map(|i| value(i + 5)).collect();
        let bias: Vec<f32> = (0..columns).map(value).collect();
        let weight = Panels::shaped(&w, columns, depth, shape);
        let mut out = vec![f32::NAN; rows * columns];
        let scratch = &mut Vec::new();
        let finish = RowFinish::Bias;
        run(BlockProduct { x: &x, weight: &weight, bias: &bias, finish, out: &mut out, scratch });
        for (i, found) in out.iter().enumerate() {
            let (row, column) = (i / columns, i % columns);
            let terms = x[row * depth..][..depth].iter().zip(&w[column * depth..][..depth]);
            let sum: f64 = terms.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            let expected = sum + f64::from(bias[column]);
            assert!((f64::from(*found) - expected).abs() < 1e-3, "{rows} x {depth} x {columns}, value {i}");
        }
    }

    #[test]
    fn the_tiles_of_other_machines_are_right_as_well() {
        let ours = Arch::new().dispatch(TileShape);
        for rows in 1..30 {
            for columns in [1, 15, 16, 17, 40] {
                for depth in [1, 6, 385] {
                    check(rows, columns, depth, ours, |block| {
                        Arch::new().dispatch(WithRows::<_, MANY_REGISTERS>(block))
                    });
                    check(rows, columns, depth, ours, |block| {
                        Arch::new().dispatch(WithRows::<_, FEW_REGISTERS>(block))
                    });
                    // AVX-512's: 16 lanes and 32 registers.
                    let wide = pulp::Scalar512b;
                    let (width, _) = wide.vectorize(TileShape);
                    check(rows, columns, depth, (width, MANY_REGISTERS), |block| {
                        wide.vectorize(WithRows::<_, MANY_REGISTERS>(block));
                    });
                }
            }
        }
    }
}
