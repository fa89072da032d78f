//! A linear layer with what follows it.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp1, CustomOp2, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::cpu::panels::Panels;
use super::cpu::product::{BLOCK_ROWS, BlockProduct, RowFinish};
use super::cpu::{row_blocks, split, values};
use super::layer_norm::HostNorm;
use super::{Kernels, LayerNorm};

/// What is done with `x W^T + bias` before it leaves the layer.
pub enum Finish<'a> {
    /// Nothing.
    Bias,
    /// The exact GELU, x/2 (1 + erf(x / sqrt 2)).
    Gelu,
    /// Added to `residual` and normalised.
    ResidualNorm {
        /// `[rows, out]`.
        residual: &'a Tensor,
        /// Over the `out` columns.
        norm: &'a LayerNorm,
    },
}

/// A linear layer: weight `[out, in]`, bias `[out]`.
pub struct Linear {
    form: Form,
}

enum Form {
    Stock { weight: Tensor, bias: Tensor },
    Fused(Arc<HostLinear>),
}

/// The layer's parameters as the CPU's tile reads them.
pub(super) struct HostLinear {
    pub(super) weight: Panels,
    pub(super) bias: Vec<f32>,
}

impl Linear {
    /// A layer with these parameters, in the form that `kernels` asks for and their device has.
    ///
    /// # Errors
    /// Whatever candle reports.
    pub fn new(weight: Tensor, bias: Tensor, kernels: Kernels) -> Result<Self> {
        let form = if kernels.fused_on(weight.device()) {
            let (out, input) = weight.dims2()?;
            let (storage, layout) = weight.storage_and_layout();
            let candle_core::Storage::Cpu(storage) = &*storage else {
                candle_core::bail!("fused kernels hold their weights on the CPU")
            };
            let weight = Panels::new(values(storage, layout, "a fused layer")?, out, input);
            Form::Fused(Arc::new(HostLinear { weight, bias: bias.to_vec1()? }))
        } else {
            Form::Stock { weight, bias }
        };
        Ok(Self { form })
    }

    /// Applies the layer to `x`, `[rows, in]`, and finishes it; `[rows, out]`.
    ///
    /// # Errors
    /// Whatever candle reports.
    pub fn forward(&self, x: &Tensor, finish: Finish) -> Result<Tensor> {
        let layer = match &self.form {
            Form::Fused(layer) => layer,
            Form::Stock { weight, bias } => {
                let y = x.matmul(&weight.t()?)?.broadcast_add(bias)?;
                return match finish {
                    Finish::Bias => Ok(y),
                    Finish::Gelu => y.gelu_erf(),
                    Finish::ResidualNorm { residual, norm } => norm.forward(&(y + residual)?),
                };
            }
        };
        let fused = |then| FusedLinear { layer: layer.clone(), then };
        match finish {
            Finish::Bias => x.apply_op1_no_bwd(&fused(Then::Bias)),
            Finish::Gelu => x.apply_op1_no_bwd(&fused(Then::Gelu)),
            Finish::ResidualNorm { residual, norm } => {
                x.apply_op2_no_bwd(residual, &fused(Then::ResidualNorm(norm.on_host()?)))
            }
        }
    }

    /// The CPU's parameters, where the layer is fused.
    pub(super) fn host(&self) -> Option<&Arc<HostLinear>> {
        match &self.form {
            Form::Fused(layer) => Some(layer),
            Form::Stock { .. } => None,
        }
    }
}

/// [`Finish`] without borrowed tensors.
enum Then {
    Bias,
    Gelu,
    ResidualNorm(Arc<HostNorm>),
}

struct FusedLinear {
    layer: Arc<HostLinear>,
    then: Then,
}

impl FusedLinear {
    fn run(&self, x: &[f32], residual: Option<&[f32]>) -> (CpuStorage, Shape) {
        let HostLinear { weight, bias } = &*self.layer;
        let (input, out) = (weight.depth(), weight.columns());
        let rows = x.len() / input;
        let mut y = vec![0f32; rows * out];
        let blocks = row_blocks(rows, weight.tile_rows(), BLOCK_ROWS);
        let parts = split(&mut y, blocks.iter().map(|rows| rows * out));
        let firsts = blocks.iter().scan(0, |first, rows| Some(std::mem::replace(first, *first + rows)));
        let work: Vec<_> = firsts.zip(parts).collect();
        work.into_par_iter().for_each_init(Vec::new, |scratch, (first, out_rows)| {
            let rows = out_rows.len() / out;
            let finish = match (&self.then, residual) {
                (Then::ResidualNorm(norm), Some(residual)) => {
                    RowFinish::ResidualNorm(&residual[first * out..][..rows * out], norm.norm())
                }
                (Then::Gelu, _) => RowFinish::Gelu,
                _ => RowFinish::Bias,
            };
            let x = &x[first * input..][..rows * input];
            BlockProduct { x, weight, bias, finish, out: out_rows, scratch }.run();
        });
        (CpuStorage::F32(y), Shape::from((rows, out)))
    }
}

impl CustomOp1 for FusedLinear {
    fn name(&self) -> &'static str {
        "fused-linear"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        Ok(self.run(values(x, layout, self.layer_name())?, None))
    }
}

impl CustomOp2 for FusedLinear {
    fn name(&self) -> &'static str {
        "fused-linear-residual-norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        layout: &Layout,
        residual: &CpuStorage,
        residual_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let residual = values(residual, residual_layout, self.layer_name())?;
        Ok(self.run(values(x, layout, self.layer_name())?, Some(residual)))
    }
}

impl FusedLinear {
    fn layer_name(&self) -> &'static str {
        "the fused linear layer"
    }
}
