//! Layer norm over the last dimension.

use candle_core::{Result, Tensor};

/// y = (x - mean) / sqrt(variance + epsilon) * scale + shift, per row.
pub struct LayerNorm {
    /// `[hidden]`.
    pub(super) scale: Tensor,
    /// `[hidden]`.
    pub(super) shift: Tensor,
    pub(super) epsilon: f32,
}

impl LayerNorm {
    /// A norm with these parameters, both `[hidden]`.
    pub fn new(scale: Tensor, shift: Tensor, epsilon: f64) -> Self {
        Self { scale, shift, epsilon: epsilon as f32 }
    }

    /// Normalises `x`, `[rows, hidden]`.
    ///
    /// # Errors
    /// Whatever candle reports.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        candle_nn::ops::layer_norm(x, &self.scale, &self.shift, self.epsilon)
    }
}
