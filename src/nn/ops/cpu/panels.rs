//! A weight matrix laid out for the tile: read once, in order, by every block of rows.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::tile::{panel_width, tile_rows};

/// Depth that is summed at a time: a panel of that depth (24 KiB with 8 lanes) stays in the first-level cache.
const DEPTH: usize = 384;

/// `W^T` for a weight `W`, `[columns, depth]`, cut into blocks of [`DEPTH`] rows and those into panels of two vectors'
/// columns. The last panel is filled up with zeros.
pub(in crate::nn::ops) struct Panels {
    /// `[depth block][panel][depth in block][panel width]`, from `start` on, which is a cache line's beginning.
    values: Vec<f32>,
    start: usize,
    depth: usize,
    columns: usize,
    /// Columns of one panel.
    width: usize,
    tile_rows: usize,
}

impl Panels {
    /// Lays out `weight`, `[columns, depth]`, row-major.
    pub(in crate::nn::ops) fn new(weight: &[f32], columns: usize, depth: usize) -> Self {
        Self::shaped(weight, columns, depth, Arch::new().dispatch(TileShape))
    }

    /// As [`Panels::new`], for tiles of another shape than this machine's.
    pub(super) fn shaped(weight: &[f32], columns: usize, depth: usize, shape: (usize, usize)) -> Self {
        const LINE: usize = 64;
        let (width, tile_rows) = shape;
        let count = columns.div_ceil(width);
        let size = count * width * depth;
        let mut values = vec![0f32; size + LINE / size_of::<f32>()];
        let start = values.as_ptr().align_offset(LINE);
        let start = if start < LINE { start } else { 0 };
        let mut rest = &mut values[start..start + size];
        for first in (0..depth).step_by(DEPTH) {
            let height = DEPTH.min(depth - first);
            let (block, after) = rest.split_at_mut(count * width * height);
            block.par_chunks_exact_mut(width * height).enumerate().for_each(|(panel, values)| {
                let rows = weight.chunks_exact(depth).skip(panel * width).take(width);
                for (column, row) in rows.enumerate() {
                    for (k, &value) in row[first..first + height].iter().enumerate() {
                        values[k * width + column] = value;
                    }
                }
            });
            rest = after;
        }
        Self { values, start, depth, columns, width, tile_rows }
    }

    /// Columns of `W`, summed over.
    pub(in crate::nn::ops) fn depth(&self) -> usize {
        self.depth
    }

    /// Rows of `W`, columns of the product.
    pub(in crate::nn::ops) fn columns(&self) -> usize {
        self.columns
    }

    /// Rows that one tile covers on this machine.
    pub(in crate::nn::ops) fn tile_rows(&self) -> usize {
        self.tile_rows
    }

    /// The depth blocks, as (first, height).
    pub(super) fn depths(&self) -> impl Iterator<Item = (usize, usize)> {
        let depth = self.depth;
        (0..depth).step_by(DEPTH).map(move |first| (first, DEPTH.min(depth - first)))
    }

    /// The panels of the block at depth `first`, each with its first column.
    pub(super) fn panels(&self, first: usize, height: usize) -> impl Iterator<Item = (usize, &[f32])> {
        let padded = self.columns.next_multiple_of(self.width);
        let block = &self.values[self.start + first * padded..][..height * padded];
        block.chunks_exact(height * self.width).enumerate().map(|(panel, v)| (panel * self.width, v))
    }
}

/// Asks the running machine for its tile's shape: (panel width, rows).
pub(super) struct TileShape;

impl WithSimd for TileShape {
    type Output = (usize, usize);

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> (usize, usize) {
        (panel_width::<S>(), tile_rows::<S>())
    }
}
