//! The gated full-attention layer: grouped queries, norms over the heads, partial rotary positions, a sigmoid gate.

use candle_core::{Result, Tensor};

use super::super::ops::{Angles, Asking, Finish, Kernels, Linear, PrefixAttention, Rotary, sigmoid_gate};
use super::Continuations;

/// The layer's mixer.
pub(super) struct AttentionMixer {
    /// All heads' queries, then all heads' gates, `[2 heads * width, hidden]`.
    pub(super) query_gate: Linear,
    /// All heads' keys, then all heads' values, `[2 kv heads * width, hidden]`.
    pub(super) key_value: Linear,
    pub(super) query_rotary: Rotary,
    pub(super) key_rotary: Rotary,
    pub(super) attention: PrefixAttention,
    pub(super) out: Linear,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) kernels: Kernels,
}

impl AttentionMixer {
    /// Keys, normalised and rotated, and values of `x`, `[tokens, hidden]`: `[tokens, keys | values]`.
    pub(super) fn keys_and_values(&self, x: &Tensor, angles: &Angles) -> Result<Tensor> {
        self.key_rotary.forward(&self.key_value.forward(x, Finish::Bias)?, self.kv_heads, angles)
    }

    /// Mixes sequences whose own keys and values are `kv`, and which continue `prefix`'s where there is one.
    pub(super) fn forward(
        &self,
        x: &Tensor,
        kv: &Tensor,
        prefix: Option<&Tensor>,
        rows: &Continuations,
        asking: Asking,
    ) -> Result<Tensor> {
        let query_gate = self.query_gate.forward(&rows.asking(x, asking)?, Finish::Bias)?;
        let width = query_gate.dim(1)? / 2;
        let queries = query_gate.narrow(1, 0, width)?;
        let queries = self.query_rotary.forward(&queries, self.heads, rows.angles_of(asking))?;
        let nothing = kv.narrow(0, 0, 0)?;
        let prefix = prefix.unwrap_or(&nothing);
        let context = self.attention.forward(&queries, kv, prefix, &rows.tails, asking)?;
        let gated = sigmoid_gate(&context, &query_gate.narrow(1, width, width)?, self.kernels)?;
        self.out.forward(&gated, Finish::Bias)
    }
}
