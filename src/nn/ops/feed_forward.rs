//! The feed-forward block of a post-norm layer: `norm(x + W2 gelu(W1 x + b1) + b2)`.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::cpu::product::{BLOCK_ROWS, BlockProduct, RowFinish};
use super::cpu::{row_blocks, split, values};
use super::layer_norm::HostNorm;
use super::linear::HostLinear;
use super::{Finish, LayerNorm, Linear};

/// The block's layers.
pub struct FeedForward {
    /// `[intermediate, hidden]`.
    up: Linear,
    /// `[hidden, intermediate]`.
    down: Linear,
    norm: LayerNorm,
}

impl FeedForward {
    /// A block of these layers.
    pub fn new(up: Linear, down: Linear, norm: LayerNorm) -> Self {
        Self { up, down, norm }
    }

    /// Applies the block to `x`, `[rows, hidden]`.
    ///
    /// # Errors
    /// Whatever candle reports.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if let (Some(up), Some(down)) = (self.up.host(), self.down.host()) {
            let norm = self.norm.on_host()?;
            return x.apply_op1_no_bwd(&FusedFeedForward { up: up.clone(), down: down.clone(), norm });
        }
        let wide = self.up.forward(x, Finish::Gelu)?;
        self.down.forward(&wide, Finish::ResidualNorm { residual: x, norm: &self.norm })
    }
}

/// Block of rows by block of rows, so that the wide activations never leave the cache.
struct FusedFeedForward {
    up: Arc<HostLinear>,
    down: Arc<HostLinear>,
    norm: Arc<HostNorm>,
}

impl CustomOp1 for FusedFeedForward {
    fn name(&self) -> &'static str {
        "fused-feed-forward"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let x = values(x, layout, "the fused feed-forward block")?;
        let (hidden, wide) = (self.up.weight.depth(), self.up.weight.columns());
        let rows = x.len() / hidden;
        let mut y = vec![0f32; x.len()];
        let blocks = row_blocks(rows, self.up.weight.tile_rows(), BLOCK_ROWS);
        let lengths = || blocks.iter().map(|rows| rows * hidden);
        let firsts = lengths().scan(0, |first, length| Some(std::mem::replace(first, *first + length)));
        let work: Vec<_> = firsts.zip(split(&mut y, lengths())).collect();
        work.into_par_iter().for_each_init(
            Default::default,
            |(scratch, activations): &mut (_, Vec<f32>), (first, out)| {
                let x = &x[first..][..out.len()];
                activations.resize(out.len() / hidden * wide, 0.0);
                BlockProduct {
                    x,
                    weight: &self.up.weight,
                    bias: &self.up.bias,
                    finish: RowFinish::Gelu,
                    out: activations,
                    scratch,
                }
                .run();
                BlockProduct {
                    x: activations,
                    weight: &self.down.weight,
                    bias: &self.down.bias,
                    finish: RowFinish::ResidualNorm(x, self.norm.norm()),
                    out,
                    scratch,
                }
                .run();
            },
        );
        Ok((CpuStorage::F32(y), layout.shape().clone()))
    }
}
