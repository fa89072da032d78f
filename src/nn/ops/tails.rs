//! Sequences that continue one shared beginning, laid end to end.

use std::sync::Arc;

use candle_core::{Device, Result, Tensor};

use super::Kernels;

/// The sequences of a packed row, as the causal steps read them.
///
/// Each sequence is the *tail* of a text whose beginning all of them share; what a step needs of that beginning
/// (keys and values, a state, the last columns) is given beside, once for all tails.
pub struct Tails {
    /// Cumulative lengths, `[sequences + 1]`.
    pub(super) bounds: Arc<[u32]>,
    /// For the stock compositions.
    pub(super) padded: Option<PaddedTails>,
}

/// How packed rows map into a batch padded on the right, and back.
pub(super) struct PaddedTails {
    pub(super) sequences: usize,
    pub(super) longest: usize,
    /// Packed row for every slot, `[sequences * longest]`; empty slots repeat the sequence's first row.
    gather: Tensor,
    /// Slot of every packed row, `[tokens]`.
    scatter: Tensor,
}

impl Tails {
    /// The sequences between `bounds` (cumulative lengths from 0), on `device`.
    ///
    /// # Errors
    /// Whatever candle reports.
    pub fn new(bounds: &[u32], device: &Device, kernels: Kernels) -> Result<Self> {
        let padded = match kernels.fused_on(device) {
            true => None,
            false => Some(PaddedTails::new(bounds, device)?),
        };
        Ok(Self { bounds: bounds.into(), padded })
    }
}

impl PaddedTails {
    fn new(bounds: &[u32], device: &Device) -> Result<Self> {
        let lengths = || bounds.windows(2).map(|w| w[1] - w[0]);
        let (sequences, longest) = (bounds.len() - 1, lengths().max().unwrap_or(0));
        let (mut gather, mut scatter) = (Vec::new(), Vec::new());
        for (sequence, length) in lengths().enumerate() {
            let first = bounds[sequence];
            gather.extend((0..longest).map(|slot| if slot < length { first + slot } else { first }));
            scatter.extend((0..length).map(|slot| sequence as u32 * longest + slot));
        }
        Ok(Self {
            sequences,
            longest: longest as usize,
            gather: Tensor::new(gather, device)?,
            scatter: Tensor::new(scatter, device)?,
        })
    }

    /// Packed rows `[tokens, width]` as `[sequences, longest, width]`.
    pub(super) fn pad(&self, rows: &Tensor) -> Result<Tensor> {
        let width = rows.dim(1)?;
        rows.contiguous()?.index_select(&self.gather, 0)?.reshape((self.sequences, self.longest, width))
    }

    /// `[sequences, longest, width]` as packed rows `[tokens, width]`.
    pub(super) fn unpad(&self, batch: &Tensor) -> Result<Tensor> {
        batch.contiguous()?.flatten_to(1)?.index_select(&self.scatter, 0)
    }
}
