//! Root-mean-square norms: over rows, and over heads with a gate.

use candle_core::{CpuStorage, CustomOp1, CustomOp2, D, DType, Layout, Result, Shape, Tensor};

use super::Kernels;
use super::cpu::gated::{gated_norm_row, norm_row};
use super::cpu::rows::Rows;
use super::elementwise::by_rows;

/// y = x / sqrt(mean(x^2) + epsilon) * scale, per row; the scale of a *zero-centred* norm is stored as its distance
/// from 1.
pub struct RmsNorm {
    /// `[width]`, f32.
    scale: Tensor,
    /// The scale on the host.
    host: Vec<f32>,
    epsilon: f64,
    kernels: Kernels,
}

impl RmsNorm {
    /// A norm that multiplies by `scale`, `[width]` in f32 on the network's device.
    ///
    /// # Errors
    /// Whatever candle reports.
    pub fn new(scale: Tensor, epsilon: f64, kernels: Kernels) -> Result<Self> {
        Ok(Self { host: scale.to_vec1()?, scale, epsilon, kernels })
    }

    /// Normalises every `[width]` of `x`, `[rows, n * width]`; computed in f32.
    ///
    /// # Errors
    /// Whatever candle reports.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if self.kernels.fused_on(x.device()) {
            return x.apply_op1_no_bwd(&Fused(self));
        }
        let groups = self.grouped(x)?;
        self.normalise(&groups)?.to_dtype(x.dtype())?.reshape(x.shape())
    }

    /// norm(x) * silu(gate) for every `[width]` of both, `[rows, n * width]`.
    ///
    /// # Errors
    /// Whatever candle reports.
    pub fn forward_gated(&self, x: &Tensor, gate: &Tensor) -> Result<Tensor> {
        if self.kernels.fused_on(x.device()) {
            return x.apply_op2_no_bwd(gate, &Fused(self));
        }
        let gate = self.grouped(gate)?.to_dtype(DType::F32)?.silu()?;
        let normed = self.normalise(&self.grouped(x)?)?;
        // Rounded to the model's format before the gate, as the reference does.
        let normed = normed.to_dtype(x.dtype())?.to_dtype(DType::F32)?;
        (normed * gate)?.to_dtype(x.dtype())?.reshape(x.shape())
    }

    /// `[rows, n, width]`.
    fn grouped(&self, x: &Tensor) -> Result<Tensor> {
        x.contiguous()?.reshape((x.dim(0)?, (), self.host.len()))
    }

    /// Normalises every `[width]` of `y`'s length of `x` on the CPU.
    pub(super) fn row(&self, y: &mut [f32], x: &[f32]) {
        let groups = y.chunks_exact_mut(self.host.len()).zip(x.chunks_exact(self.host.len()));
        groups.for_each(|(y, x)| norm_row(y, x, &self.host, self.epsilon as f32));
    }

    fn normalise(&self, groups: &Tensor) -> Result<Tensor> {
        let x = groups.to_dtype(DType::F32)?;
        let mean_square = x.sqr()?.mean_keepdim(D::Minus1)?;
        x.broadcast_div(&(mean_square + self.epsilon)?.sqrt()?)?.broadcast_mul(&self.scale)
    }
}

/// Both norms on the CPU, rows in parallel.
struct Fused<'a>(&'a RmsNorm);

impl CustomOp1 for Fused<'_> {
    fn name(&self) -> &'static str {
        "fused-rms-norm"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let x = Rows::new(x, layout, "the fused norm")?;
        let (rows, width) = layout.shape().dims2()?;
        by_rows(rows, width, |y, row| self.0.row(y, x.row(row)))
    }
}

impl CustomOp2 for Fused<'_> {
    fn name(&self) -> &'static str {
        "fused-gated-norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        gate: &CpuStorage,
        gate_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let x = Rows::new(x, x_layout, "the fused gated norm")?;
        let gate = Rows::new(gate, gate_layout, "the fused gated norm")?;
        let (scale, epsilon) = (&self.0.host, self.0.epsilon as f32);
        let (rows, width) = x_layout.shape().dims2()?;
        by_rows(rows, width, |y, row| {
            let groups = x.row(row).chunks_exact(scale.len()).zip(gate.row(row).chunks_exact(scale.len()));
            y.chunks_exact_mut(scale.len())
                .zip(groups)
                .for_each(|(y, (x, gate))| gated_norm_row(y, x, gate, scale, epsilon));
        })
    }
}
