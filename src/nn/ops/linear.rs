//! A linear layer with what follows it.

use candle_core::{Result, Tensor};

use super::LayerNorm;

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
    weight: Tensor,
    bias: Tensor,
}

impl Linear {
    /// A layer with these parameters.
    pub fn new(weight: Tensor, bias: Tensor) -> Self {
        Self { weight, bias }
    }

    /// Applies the layer to `x`, `[rows, in]`, and finishes it; `[rows, out]`.
    ///
    /// # Errors
    /// Whatever candle reports.
    pub fn forward(&self, x: &Tensor, finish: Finish) -> Result<Tensor> {
        let y = x.matmul(&self.weight.t()?)?.broadcast_add(&self.bias)?;
        match finish {
            Finish::Bias => Ok(y),
            Finish::Gelu => y.gelu_erf(),
            Finish::ResidualNorm { residual, norm } => norm.forward(&(y + residual)?),
        }
    }
}
