//! Gates that multiply one half of a row by the other, and the rotation of heads.

use candle_core::{CpuStorage, CustomOp1, CustomOp2, CustomOp3, D, DType, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::cpu::gated::{rotate_row, sigmoid_gate_row, swiglu_row};
use super::cpu::rows::{Rows, STRETCH};
use super::{Kernels, RmsNorm};

/// silu(gate) * up for rows `[gate | up]`: `[rows, 2 width]` to `[rows, width]`.
///
/// # Errors
/// Whatever candle reports.
pub fn swiglu(gate_up: &Tensor, kernels: Kernels) -> Result<Tensor> {
    if kernels.fused_on(gate_up.device()) {
        return gate_up.apply_op1_no_bwd(&FusedSwiglu);
    }
    let width = gate_up.dim(1)? / 2;
    let part = |first| gate_up.narrow(1, first, width)?.contiguous();
    part(0)?.silu()? * part(width)?
}

/// x * sigmoid(gate), both `[rows, width]`.
///
/// # Errors
/// Whatever candle reports.
pub fn sigmoid_gate(x: &Tensor, gate: &Tensor, kernels: Kernels) -> Result<Tensor> {
    if kernels.fused_on(x.device()) {
        return x.apply_op2_no_bwd(gate, &FusedSigmoidGate);
    }
    x * candle_nn::ops::sigmoid(&gate.contiguous()?)?
}

/// Norm and rotary position of the heads at the beginning of every row; what follows them stays as it is.
pub struct Rotary {
    norm: RmsNorm,
    /// Width of a head.
    width: usize,
    kernels: Kernels,
}

impl Rotary {
    /// Normalises heads of `width` by `norm` before rotating them.
    pub fn new(norm: RmsNorm, width: usize, kernels: Kernels) -> Self {
        Self { norm, width, kernels }
    }

    /// Rotates the first `heads` heads of `x`, `[rows, ≥ heads * width]`, by `angles`, `[rows, …]` each.
    ///
    /// # Errors
    /// Whatever candle reports.
    pub fn forward(&self, x: &Tensor, heads: usize, angles: &Angles) -> Result<Tensor> {
        if self.kernels.fused_on(x.device()) {
            return x.apply_op3_no_bwd(&angles.cos, &angles.sin, &FusedRotary { rotary: self, heads });
        }
        let (rows, columns) = x.dims2()?;
        let rotated = heads * self.width;
        let normed = self.norm.forward(&x.narrow(1, 0, rotated)?)?;
        let normed = normed.reshape((rows, heads, self.width))?.to_dtype(DType::F32)?;
        let half = angles.cos.dim(1)?;
        let (cos, sin) = (angles.cos.unsqueeze(1)?, angles.sin.unsqueeze(1)?);
        let (a, b) = (normed.narrow(2, 0, half)?, normed.narrow(2, half, half)?);
        let first = (a.broadcast_mul(&cos)? - b.broadcast_mul(&sin)?)?;
        let second = (b.broadcast_mul(&cos)? + a.broadcast_mul(&sin)?)?;
        let untouched = normed.narrow(2, 2 * half, self.width - 2 * half)?;
        let turned = Tensor::cat(&[first, second, untouched], D::Minus1)?;
        let turned = turned.reshape((rows, rotated))?.to_dtype(x.dtype())?;
        match columns - rotated {
            0 => Ok(turned),
            rest => Tensor::cat(&[turned, x.narrow(1, rotated, rest)?.contiguous()?], 1),
        }
    }
}

/// Cosines and sines of a packed row's positions, `[rows, rotated dimensions / 2]` each, f32.
pub struct Angles {
    cos: Tensor,
    sin: Tensor,
}

impl Angles {
    /// The angles position * theta^(-2 i / rotary) for i below half of `rotary`, computed in f64.
    ///
    /// # Errors
    /// Whatever candle reports.
    pub fn new(positions: &[u32], rotary: usize, theta: f64, device: &candle_core::Device) -> Result<Self> {
        let frequencies: Vec<f64> =
            (0..rotary / 2).map(|i| theta.powf(-2.0 * i as f64 / rotary as f64)).collect();
        let angles = positions.iter().flat_map(|&p| frequencies.iter().map(move |f| f64::from(p) * f));
        let (sin, cos): (Vec<f32>, Vec<f32>) =
            angles.map(f64::sin_cos).map(|(sin, cos)| (sin as f32, cos as f32)).unzip();
        let shape = (positions.len(), rotary / 2);
        Ok(Self { cos: Tensor::from_vec(cos, shape, device)?, sin: Tensor::from_vec(sin, shape, device)? })
    }

    /// The angles of these rows, `[rows]` in u32.
    ///
    /// # Errors
    /// Whatever candle reports.
    pub fn select(&self, rows: &Tensor) -> Result<Self> {
        Ok(Self { cos: self.cos.index_select(rows, 0)?, sin: self.sin.index_select(rows, 0)? })
    }
}

/// Makes `[rows, width]` row by row, rows in parallel; `write(out, row)`.
pub(super) fn by_rows(
    rows: usize,
    width: usize,
    write: impl Fn(&mut [f32], usize) + Sync,
) -> Result<(CpuStorage, Shape)> {
    let mut y = vec![0f32; rows * width];
    let height = STRETCH.div_ceil(width);
    y.par_chunks_mut(height * width).enumerate().for_each(|(stretch, y)| {
        for (row, y) in y.chunks_exact_mut(width).enumerate() {
            write(y, stretch * height + row);
        }
    });
    Ok((CpuStorage::F32(y), Shape::from((rows, width))))
}

struct FusedSwiglu;

impl CustomOp1 for FusedSwiglu {
    fn name(&self) -> &'static str {
        "fused-swiglu"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (rows, columns) = layout.shape().dims2()?;
        let (x, width) = (Rows::new(x, layout, "the fused gate")?, columns / 2);
        by_rows(rows, width, |y, row| swiglu_row(y, x.part(row, 0, width), x.part(row, width, width)))
    }
}

struct FusedSigmoidGate;

impl CustomOp2 for FusedSigmoidGate {
    fn name(&self) -> &'static str {
        "fused-sigmoid-gate"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        gate: &CpuStorage,
        gate_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (rows, width) = x_layout.shape().dims2()?;
        let x = Rows::new(x, x_layout, "the fused gate")?;
        let gate = Rows::new(gate, gate_layout, "the fused gate")?;
        by_rows(rows, width, |y, row| sigmoid_gate_row(y, x.row(row), gate.row(row)))
    }
}

struct FusedRotary<'a> {
    rotary: &'a Rotary,
    heads: usize,
}

impl CustomOp3 for FusedRotary<'_> {
    fn name(&self) -> &'static str {
        "fused-norm-and-rotary"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        cos: &CpuStorage,
        cos_layout: &Layout,
        sin: &CpuStorage,
        sin_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        const STEP: &str = "the fused rotation";
        let (rows, columns) = x_layout.shape().dims2()?;
        let (width, heads) = (self.rotary.width, self.heads);
        let x = Rows::new(x, x_layout, STEP)?;
        let (cos, sin) = (Rows::new(cos, cos_layout, STEP)?, Rows::new(sin, sin_layout, STEP)?);
        by_rows(rows, columns, |y, row| {
            let x = x.row(row);
            let (rotated, rest) = y.split_at_mut(heads * width);
            rest.copy_from_slice(&x[heads * width..]);
            self.rotary.norm.row(rotated, x);
            rotated.chunks_exact_mut(width).for_each(|head| rotate_row(head, cos.row(row), sin.row(row)));
        })
    }
}
