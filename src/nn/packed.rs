//! Several token sequences as one row.

use candle_core::{Device, Result, Tensor};

use super::ops::{Kernels, Segments};

/// Token sequences laid end to end, without padding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedRows {
    /// Token ids, `[tokens]`.
    pub ids: Vec<u32>,
    /// Row of the position table for each token, `[tokens]`.
    pub positions: Vec<u32>,
    /// Where sequences begin and end: sequence `s` is `bounds[s]..bounds[s + 1]`; `[sequences + 1]`, from 0.
    pub bounds: Vec<u32>,
}

impl PackedRows {
    /// Packs `sequences`; the first token of each gets position `first_position` (2 for RoBERTa's tables, which
    /// reserve the rows up to the padding id).
    pub fn new<'a>(sequences: impl IntoIterator<Item = &'a [u32]>, first_position: u32) -> Self {
        let mut packed = Self { ids: Vec::new(), positions: Vec::new(), bounds: vec![0] };
        for sequence in sequences {
            packed.ids.extend_from_slice(sequence);
            packed.positions.extend((first_position..).take(sequence.len()));
            packed.bounds.push(packed.ids.len() as u32);
        }
        packed
    }

    /// Number of tokens.
    pub fn tokens(&self) -> usize {
        self.ids.len()
    }

    /// Number of sequences.
    pub fn sequences(&self) -> usize {
        self.bounds.len() - 1
    }

    /// Copies ids, positions and bounds to `device`, in the form that `kernels` read.
    ///
    /// # Errors
    /// Whatever candle reports.
    pub fn upload(&self, device: &Device, kernels: Kernels) -> Result<UploadedRows> {
        let first_tokens = self.bounds[..self.sequences()].to_vec();
        Ok(UploadedRows {
            ids: Tensor::new(self.ids.as_slice(), device)?,
            positions: Tensor::new(self.positions.as_slice(), device)?,
            first_tokens: Tensor::new(first_tokens, device)?,
            segments: Segments::new(&self.bounds, device, kernels)?,
        })
    }
}

/// [`PackedRows`] where the network runs.
pub struct UploadedRows {
    /// Token ids, `[tokens]`, u32.
    pub(super) ids: Tensor,
    /// Position rows, `[tokens]`, u32.
    pub(super) positions: Tensor,
    /// Row of each sequence's first token, `[sequences]`, u32.
    pub(super) first_tokens: Tensor,
    /// The sequences' extents.
    pub(super) segments: Segments,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_up_from_two_in_every_sequence_and_never_repeat() {
        for length in [1, 255, 256, 257, 511, 512, 8192] {
            let ids = vec![9; length];
            let packed = PackedRows::new([&ids[..], &ids[..3.min(length)]], 2);
            assert!(packed.positions[..length].iter().copied().eq(2..2 + length as u32), "length {length}");
            assert!(packed.positions[length..].iter().copied().eq(2..2 + 3.min(length) as u32));
            assert_eq!(packed.bounds, [0, length as u32, (length + 3.min(length)) as u32]);
        }
    }

    #[test]
    fn nothing_packs_to_nothing() {
        let packed = PackedRows::new([], 2);
        assert_eq!((packed.tokens(), packed.sequences()), (0, 0));
    }
}
