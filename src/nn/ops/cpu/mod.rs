//! The CPU bodies of the fused steps: vectors by pulp's run-time dispatch, threads by rayon.
//!
//! One tile of a matrix product ([`tile`]) serves the linear layers ([`product`]) and attention ([`attention`]).
//! A row's result is always summed in the same order, whatever rows lie beside it and however many threads run:
//! scores do not depend on the batch.
//!
//! Vector code here is written in plain loops: a closure does not inherit its function's instruction set, and an
//! instruction within one may become a call.
#![allow(clippy::needless_range_loop)] // for the same reason: an index walks several arrays of vectors at once

pub(super) mod attention;
pub(super) mod delta;
pub(super) mod gated;
pub(super) mod panels;
pub(super) mod prefix_attention;
pub(super) mod product;
pub(super) mod rows;
mod tile;
mod vector_math;

use candle_core::{CpuStorage, Layout, Result, bail};

/// The values of a contiguous f32 tensor on the CPU.
pub(super) fn values<'a>(storage: &'a CpuStorage, layout: &Layout, step: &str) -> Result<&'a [f32]> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&storage.as_slice::<f32>()?[start..end]),
        None => bail!("{step} needs contiguous tensors"),
    }
}

/// Cuts `rows` into blocks of at most `most`, as even as multiples of `unit` allow, their number a multiple of the
/// threads where there are rows enough; returns the blocks' lengths.
pub(super) fn row_blocks(rows: usize, unit: usize, most: usize) -> Vec<usize> {
    let units = rows.div_ceil(unit);
    let threads = rayon::current_num_threads();
    let blocks = units.div_ceil((most / unit).max(1)).next_multiple_of(threads).min(units);
    let mut left = rows;
    (0..blocks)
        .map(|block| {
            let of_block = (units * (block + 1) / blocks - units * block / blocks) * unit;
            let length = of_block.min(left);
            left -= length;
            length
        })
        .collect()
}

/// Cuts `slice` into consecutive parts of these lengths.
pub(super) fn split<T>(mut slice: &mut [T], lengths: impl Iterator<Item = usize>) -> Vec<&mut [T]> {
    let mut parts = Vec::new();
    for length in lengths {
        let (part, rest) = slice.split_at_mut(length);
        parts.push(part);
        slice = rest;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_all_rows_evenly() {
        for rows in 0..700 {
            let blocks = row_blocks(rows, 6, 96);
            assert_eq!(blocks.iter().sum::<usize>(), rows);
            assert!(blocks.iter().all(|&b| b > 0 && b <= 96), "{rows}: {blocks:?}");
            if let (Some(low), Some(high)) = (blocks.iter().rev().skip(1).min(), blocks.iter().max()) {
                assert!(high - low <= 6, "{rows}: {blocks:?}");
            }
        }
    }
}
