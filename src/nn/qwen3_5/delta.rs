//! The gated delta rule layer (Gated DeltaNet, Yang et al. 2024).
//!
//! One joined projection gives queries, keys and values (through a causal convolution), an output gate, and per head
//! a step size and a decay.

use candle_core::{DType, Device, Result, Tensor};

use super::super::ops::{Asking, CausalConv, Finish, GatedDelta, Linear, RmsNorm, Tails};
use super::Continuations;

/// The layer's mixer.
pub(super) struct DeltaMixer {
    /// `[queries | keys | values | gate | beta | decay, hidden]`.
    pub(super) projection: Linear,
    /// Width of queries, keys and values.
    pub(super) mixed: usize,
    /// Width of the values, and of their gate.
    pub(super) values: usize,
    pub(super) conv: CausalConv,
    pub(super) rule: GatedDelta,
    /// Over a value head, shared by all.
    pub(super) norm: RmsNorm,
    pub(super) out: Linear,
}

/// What a sequence continues.
pub(super) struct DeltaState {
    /// The last columns before the convolution, `[K - 1, mixed]`.
    pub(super) columns: Tensor,
    /// `[value heads, key width, value width]`, f32; `None` is zeros.
    pub(super) state: Option<Tensor>,
}

impl DeltaMixer {
    /// Mixes a single sequence from nothing; its outputs, and the state after it.
    pub(super) fn begin(&self, x: &Tensor, tails: &Tails) -> Result<(Tensor, DeltaState)> {
        let projected = self.projection.forward(x, Finish::Bias)?;
        let mixed = projected.narrow(1, 0, self.mixed)?;
        let nothing = self.nothing(x.dtype(), x.device())?;
        let convolved = self.conv.forward(&mixed, &nothing.columns, tails)?;
        let (out, state) = self.rule.forward_with_state(&convolved, &self.gates(&projected)?, tails)?;
        let out = self.finish(&out, &projected.narrow(1, self.mixed, self.values)?)?;
        let seen = Tensor::cat(&[&nothing.columns, &mixed.contiguous()?], 0)?;
        let columns = seen.narrow(0, x.dim(0)?, self.conv.history())?.copy()?;
        Ok((out, DeltaState { columns, state: Some(state) }))
    }

    /// Mixes sequences that continue `before`; `x` is `[tokens, hidden]`.
    pub(super) fn forward(
        &self,
        x: &Tensor,
        before: &DeltaState,
        rows: &Continuations,
        asking: Asking,
    ) -> Result<Tensor> {
        let projected = self.projection.forward(x, Finish::Bias)?;
        let mixed = projected.narrow(1, 0, self.mixed)?;
        let convolved = self.conv.forward(&mixed, &before.columns, &rows.tails)?;
        let gates = self.gates(&projected)?;
        let out = self.rule.forward(&convolved, &gates, before.state.as_ref(), &rows.tails)?;
        let gate = projected.narrow(1, self.mixed, self.values)?;
        self.finish(&rows.asking(&out, asking)?, &rows.asking(&gate, asking)?)
    }

    /// The state before any token.
    pub(super) fn nothing(&self, dtype: DType, device: &Device) -> Result<DeltaState> {
        let columns = Tensor::zeros((self.conv.history(), self.mixed), dtype, device)?;
        Ok(DeltaState { columns, state: None })
    }

    /// `[tokens, beta | decay]` of the joined projection.
    fn gates(&self, projected: &Tensor) -> Result<Tensor> {
        let first = self.mixed + self.values;
        projected.narrow(1, first, projected.dim(1)? - first)
    }

    fn finish(&self, out: &Tensor, gate: &Tensor) -> Result<Tensor> {
        self.out.forward(&self.norm.forward_gated(out, gate)?, Finish::Bias)
    }
}
