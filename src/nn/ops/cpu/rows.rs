//! Rows of a matrix that may be part of a wider one.

use candle_core::{CpuStorage, Layout, Result, bail};

use super::attention::Slab;

/// Values that one task of an elementwise step covers: enough to outweigh handing it out.
pub(in crate::nn::ops) const STRETCH: usize = 1 << 15;

/// A matrix on the CPU whose rows are contiguous, `stride` values apart.
#[derive(Clone, Copy)]
pub(in crate::nn::ops) struct Rows<'a> {
    values: &'a [f32],
    stride: usize,
    width: usize,
}

impl<'a> Rows<'a> {
    /// The rows of a two-dimensional f32 tensor, or of a `narrow` of one; `step` asks, in the words of an error.
    pub(in crate::nn::ops) fn new(storage: &'a CpuStorage, layout: &Layout, step: &str) -> Result<Self> {
        let (_, width) = layout.shape().dims2()?;
        let &[stride, 1] = layout.stride() else { bail!("{step} needs matrices with contiguous rows") };
        Ok(Self { values: &storage.as_slice::<f32>()?[layout.start_offset()..], stride, width })
    }

    /// One row.
    #[inline(always)]
    pub(in crate::nn::ops) fn row(&self, row: usize) -> &'a [f32] {
        &self.values[row * self.stride..][..self.width]
    }

    /// Columns `first..first + width` of one row.
    #[inline(always)]
    pub(in crate::nn::ops) fn part(&self, row: usize, first: usize, width: usize) -> &'a [f32] {
        &self.row(row)[first..first + width]
    }

    /// The rows from `first` on.
    pub(in crate::nn::ops) fn slab(&self, first: usize) -> Slab<'a> {
        Slab { values: &self.values[first * self.stride..], stride: self.stride, column: 0 }
    }
}
