//! A depthwise causal convolution over packed sequences, with SiLU.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp2, DType, Device, Layout, Result, Shape, Tensor};

use super::cpu::gated::convolve_row;
use super::cpu::rows::Rows;
use super::elementwise::by_rows;
use super::{Kernels, Tails};

/// y_t = silu(sum over j < K of tap_j * x_{t - K + 1 + j}), per column: the last tap meets the current token, and a
/// sequence's first tokens look back into the columns before it.
pub struct CausalConv {
    /// `[K, width]`, f32, on the network's device.
    taps: Tensor,
    /// The taps on the host, `[K, width]`.
    host: Arc<[f32]>,
    /// K.
    count: usize,
    kernels: Kernels,
}

impl CausalConv {
    /// A convolution with `taps`, `[K, width]` row-major.
    ///
    /// # Errors
    /// Whatever candle reports.
    pub fn new(taps: Vec<f32>, count: usize, device: &Device, kernels: Kernels) -> Result<Self> {
        let width = taps.len() / count;
        let on_device = Tensor::from_slice(&taps, (count, width), device)?;
        Ok(Self { taps: on_device, host: taps.into(), count, kernels })
    }

    /// Tokens that it looks back.
    pub fn history(&self) -> usize {
        self.count - 1
    }

    /// Convolves `x`, `[tokens, width]`; `before` is what every sequence continues, `[K - 1, width]`.
    ///
    /// # Errors
    /// Whatever candle reports.
    pub fn forward(&self, x: &Tensor, before: &Tensor, tails: &Tails) -> Result<Tensor> {
        let Some(padded) = &tails.padded else {
            let fused = Fused { taps: self.host.clone(), bounds: tails.bounds.clone() };
            return x.apply_op2_no_bwd(before, &fused);
        };
        debug_assert!(!self.kernels.fused_on(x.device()));
        let (_, width) = x.dims2()?;
        let before = before.unsqueeze(0)?.broadcast_as((padded.sequences, self.history(), width))?;
        let x_padded = Tensor::cat(&[&before.contiguous()?, &padded.pad(x)?], 1)?.to_dtype(DType::F32)?;
        let mut sum = None;
        for tap in 0..self.count {
            let term = x_padded.narrow(1, tap, padded.longest)?.broadcast_mul(&self.taps.get(tap)?)?;
            sum = Some(match sum {
                None => term,
                Some(sum) => (sum + term)?,
            });
        }
        match sum {
            Some(sum) => padded.unpad(&sum.silu()?.to_dtype(x.dtype())?),
            None => candle_core::bail!("a convolution has at least one tap"),
        }
    }
}

struct Fused {
    taps: Arc<[f32]>,
    bounds: Arc<[u32]>,
}

impl CustomOp2 for Fused {
    fn name(&self) -> &'static str {
        "fused-causal-conv"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        before: &CpuStorage,
        before_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let x = Rows::new(x, x_layout, "the fused convolution")?;
        let before = Rows::new(before, before_layout, "the fused convolution")?;
        let (tokens, width) = x_layout.shape().dims2()?;
        let taps: Vec<&[f32]> = self.taps.chunks_exact(width).collect();
        by_rows(tokens, width, |y, token| {
            // The last sequence that begins at or before the token.
            let sequence = self.bounds.partition_point(|&bound| bound as usize <= token) - 1;
            let at = token - self.bounds[sequence] as usize;
            convolve_row(y, &taps, |tap| match (at + tap + 1).checked_sub(taps.len()) {
                Some(own) => x.row(token - at + own),
                None => before.row(at + tap),
            });
        })
    }
}
