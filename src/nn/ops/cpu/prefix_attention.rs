//! Causal attention of a few query rows over a shared beginning and their own sequence.

use pulp::{Arch, Simd, WithSimd};

use super::attention::{copy_into_panels, transpose_into_panels};
use super::panels::TileShape;
use super::rows::Rows;
use super::tile::{Columns, FEW_REGISTERS, MANY_REGISTERS, columns, panel_width, store, tile};
use super::vector_math::exp_of_negative;

/// Numbers and width of the heads.
#[derive(Clone, Copy)]
pub(in crate::nn::ops) struct Heads {
    pub(in crate::nn::ops) queries: usize,
    pub(in crate::nn::ops) keys: usize,
    pub(in crate::nn::ops) width: usize,
}

/// Keys and values of one head over some tokens, as the tile reads them.
#[derive(Default)]
pub(in crate::nn::ops) struct KvPanels {
    /// K^T: `[panel of tokens][width][panel width]`.
    keys: Vec<f32>,
    /// V: `[panel of columns][tokens][panel width]`.
    values: Vec<f32>,
    tokens: usize,
}

impl KvPanels {
    /// Lays out key head `head` of `tokens` rows of `kv`, `[tokens, keys of all heads | values of all heads]`, from
    /// row `first` on.
    pub(in crate::nn::ops) fn lay_out(
        &mut self,
        kv: Rows,
        first: usize,
        tokens: usize,
        heads: Heads,
        head: usize,
    ) {
        self.tokens = tokens;
        if tokens == 0 {
            self.keys.clear();
            self.values.clear();
            return;
        }
        let (panel, _) = Arch::new().dispatch(TileShape);
        let Heads { keys, width, .. } = heads;
        let rows = kv.slab(first);
        transpose_into_panels(&mut self.keys, tokens, width, panel, rows, head);
        copy_into_panels(&mut self.values, tokens, width, panel, rows, keys + head);
    }
}

/// Attention of consecutive tokens of one sequence, under one key head.
pub(in crate::nn::ops) struct BlockAttention<'a> {
    /// Queries `[rows, query heads * width]`.
    pub(in crate::nn::ops) queries: Rows<'a>,
    /// Row of the block's first query.
    pub(in crate::nn::ops) first: usize,
    /// Number within its sequence of the block's first token: it sees so many tokens before itself.
    pub(in crate::nn::ops) position: usize,
    pub(in crate::nn::ops) heads: Heads,
    pub(in crate::nn::ops) key_head: usize,
    /// The shared beginning, all of which is seen.
    pub(in crate::nn::ops) prefix: &'a KvPanels,
    /// The sequence's own tokens, at least up to the block's last.
    pub(in crate::nn::ops) own: &'a KvPanels,
    /// The block's rows, `[tokens, query heads * width]`; this key head's part is written.
    pub(in crate::nn::ops) out: &'a mut [f32],
    /// Kept from block to block by the caller.
    pub(in crate::nn::ops) scores: &'a mut Vec<f32>,
}

impl BlockAttention<'_> {
    /// Computes the block with the widest vectors of this machine.
    pub(in crate::nn::ops) fn run(self) {
        Arch::new().dispatch(self);
    }

    #[inline(always)]
    fn tiles<S: Simd, const ROWS: usize>(self, simd: S) {
        let Heads { queries: query_heads, keys: key_heads, width } = self.heads;
        let (group, panel, all) = (query_heads / key_heads, panel_width::<S>(), query_heads * width);
        let tokens = self.out.len() / all;
        let (shared, scale) = (self.prefix.tokens, 1.0 / (width as f32).sqrt());
        // Scores of a row: the shared tokens, filled up to whole panels, then its own.
        let own_start = shared.next_multiple_of(panel);
        let padded = own_start + (self.position + tokens).next_multiple_of(panel);
        self.scores.clear();
        self.scores.resize(ROWS * padded, 0.0);
        let scores = self.scores;
        // The query rows of one token's heads lie side by side, so that a tile sees about the same tokens.
        let last_row = tokens * group - 1;
        let column = |row: usize| (self.key_head * group + row % group) * width;
        let zeros: [Columns<S>; ROWS] = [[simd.splat_f32s(0.0); 2]; ROWS];
        for top in (0..=last_row).step_by(ROWS) {
            let row_at = |i: usize| (top + i).min(last_row);
            let rows: [&[f32]; ROWS] = std::array::from_fn(|i| {
                let row = row_at(i);
                self.queries.part(self.first + row / group, column(row), width)
            });
            // Own tokens that the tile's last row sees.
            let seen = self.position + row_at(ROWS - 1) / group + 1;
            for (keys, start, count) in [(&self.prefix.keys, 0, shared), (&self.own.keys, own_start, seen)] {
                let panels = keys.chunks_exact(width * panel).take(count.div_ceil(panel));
                for (number, keys) in panels.enumerate() {
                    let sums = tile(simd, rows, columns::<S>(keys), zeros);
                    for (i, sum) in sums.into_iter().enumerate() {
                        store(simd, &mut scores[i * padded + start + number * panel..][..panel], sum);
                    }
                }
            }
            let end = own_start + seen.next_multiple_of(panel);
            let mut totals = [0f32; ROWS];
            for (i, total) in totals.iter_mut().enumerate() {
                let row = &mut scores[i * padded..][..end];
                let own = self.position + row_at(i) / group + 1;
                *total = exponentials(simd, row, [shared..own_start, own_start + own..end], scale);
            }
            let row_scores = |start: usize, count: usize| -> [&[f32]; ROWS] {
                std::array::from_fn(|i| &scores[i * padded + start..][..count])
            };
            let shared_values = self.prefix.values.chunks_exact((shared * panel).max(1));
            let own_values = self.own.values.chunks_exact(self.own.tokens * panel);
            let mut shared_values = shared_values.map(columns::<S>);
            for (number, values) in own_values.enumerate() {
                let sums = match shared_values.next() {
                    Some(values) => tile(simd, row_scores(0, shared), values, zeros),
                    None => zeros,
                };
                let values = columns::<S>(&values[..seen * panel]);
                let sums = tile(simd, row_scores(own_start, seen), values, sums);
                for (i, sum) in sums.into_iter().enumerate().take(last_row + 1 - top) {
                    let share = simd.splat_f32s(1.0 / totals[i]);
                    let sum = [simd.mul_f32s(sum[0], share), simd.mul_f32s(sum[1], share)];
                    let (token, column) = ((top + i) / group, column(top + i));
                    let span = column + number * panel..column + ((number + 1) * panel).min(width);
                    store(simd, &mut self.out[token * all..][span], sum);
                }
            }
        }
    }
}

impl WithSimd for BlockAttention<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if self.out.is_empty() {
            return;
        }
        if S::REGISTER_COUNT >= 32 {
            self.tiles::<S, MANY_REGISTERS>(simd);
        } else {
            self.tiles::<S, FEW_REGISTERS>(simd);
        }
    }
}

/// Replaces the scores by exp((score - highest) * scale), those in `unseen` by 0, and returns their sum.
#[inline(always)]
fn exponentials<S: Simd>(simd: S, row: &mut [f32], unseen: [std::ops::Range<usize>; 2], scale: f32) -> f32 {
    for range in &unseen {
        row[range.clone()].fill(f32::NEG_INFINITY);
    }
    let vectors = S::as_mut_simd_f32s(row).0;
    let mut highest = simd.splat_f32s(f32::NEG_INFINITY);
    for v in &*vectors {
        highest = simd.max_f32s(highest, *v);
    }
    let (highest, scale) = (simd.splat_f32s(simd.reduce_max_f32s(highest)), simd.splat_f32s(scale));
    for v in vectors {
        *v = exp_of_negative(simd, simd.mul_f32s(simd.sub_f32s(*v, highest), scale));
    }
    for range in unseen {
        row[range].fill(0.0);
    }
    let mut sum = simd.splat_f32s(0.0);
    for v in S::as_simd_f32s(row).0 {
        sum = simd.add_f32s(sum, *v);
    }
    simd.reduce_sum_f32s(sum)
}
