//! Layer norm over the last dimension.

use std::sync::{Arc, OnceLock};

use candle_core::{Result, Tensor};

use super::cpu::product::Norm;

/// y = (x - mean) / sqrt(variance + epsilon) * scale + shift, per row.
pub struct LayerNorm {
    /// `[hidden]`.
    scale: Tensor,
    /// `[hidden]`.
    shift: Tensor,
    epsilon: f32,
    host: OnceLock<Arc<HostNorm>>,
}

/// The parameters as the CPU's fused steps read them.
pub(super) struct HostNorm {
    scale: Vec<f32>,
    shift: Vec<f32>,
    epsilon: f32,
}

impl HostNorm {
    pub(super) fn norm(&self) -> Norm<'_> {
        Norm { scale: &self.scale, shift: &self.shift, epsilon: self.epsilon }
    }
}

impl LayerNorm {
    /// A norm with these parameters, both `[hidden]`.
    pub fn new(scale: Tensor, shift: Tensor, epsilon: f64) -> Self {
        Self { scale, shift, epsilon: epsilon as f32, host: OnceLock::new() }
    }

    /// Normalises `x`, `[rows, hidden]`.
    ///
    /// # Errors
    /// Whatever candle reports.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        candle_nn::ops::layer_norm(x, &self.scale, &self.shift, self.epsilon)
    }

    /// The parameters on the host, read once.
    pub(super) fn on_host(&self) -> Result<Arc<HostNorm>> {
        if let Some(host) = self.host.get() {
            return Ok(host.clone());
        }
        let host = Arc::new(HostNorm {
            scale: self.scale.to_vec1()?,
            shift: self.shift.to_vec1()?,
            epsilon: self.epsilon,
        });
        Ok(self.host.get_or_init(|| host).clone())
    }
}
