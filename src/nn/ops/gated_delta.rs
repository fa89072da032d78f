//! The gated delta rule over packed sequences that continue one shared state.
//!
//! Per value head, with the state S `[key width, value width]` in f32, for every token: S decays by exp(g), then
//! `S += k (beta (v - S^T k))^T`, and the output is `S^T q` (Yang et al. 2024). Fused, it runs chunk by chunk; the
//! stock form is the recurrence itself.

use candle_core::{CpuStorage, CustomOp2, CustomOp3, D, DType, Device, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::cpu::delta::{HeadColumns, HeadSequence, PanelState, Scratch};
use super::cpu::rows::Rows;
use super::cpu::split;
use super::{Kernels, Tails};

/// Numbers and widths of a layer's heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeltaShape {
    /// Query and key heads; value head h uses number `h * key_heads / value_heads`.
    pub key_heads: usize,
    /// Value heads, each with a state.
    pub value_heads: usize,
    /// Width of a query or key.
    pub key_width: usize,
    /// Width of a value.
    pub value_width: usize,
}

impl DeltaShape {
    fn keys(&self) -> usize {
        self.key_heads * self.key_width
    }

    fn values(&self) -> usize {
        self.value_heads * self.value_width
    }

    fn state(&self) -> usize {
        self.value_heads * self.key_width * self.value_width
    }

    /// Where value head `head` finds its columns.
    fn columns(&self, head: usize) -> HeadColumns {
        let key_head = head / (self.value_heads / self.key_heads);
        HeadColumns {
            query: key_head * self.key_width,
            key: self.keys() + key_head * self.key_width,
            value: 2 * self.keys() + head * self.value_width,
            key_width: self.key_width,
            value_width: self.value_width,
        }
    }
}

/// The rule with one layer's decay parameters.
pub struct GatedDelta {
    shape: DeltaShape,
    /// exp(A_log), `[value heads]`.
    rates: Vec<f32>,
    /// Added to the decay's projection, `[value heads]`.
    bias: Vec<f32>,
    kernels: Kernels,
}

impl GatedDelta {
    /// The rule of heads of this `shape`; `a_log` and `bias` are `[value heads]`.
    pub fn new(shape: DeltaShape, a_log: &[f32], bias: Vec<f32>, kernels: Kernels) -> Self {
        Self { shape, rates: a_log.iter().map(|a| a.exp()).collect(), bias, kernels }
    }

    /// Runs every sequence of `tails` from `state`, `[value heads, key width, value width]` in f32 (zeros where there
    /// is none).
    ///
    /// `mixed` is `[tokens, queries | keys | values]` after the convolution, `gates` `[tokens, 2 value heads]`: what
    /// beta is the sigmoid of, then what the decay is computed from. The result is `[tokens, values]`.
    ///
    /// # Errors
    /// Whatever candle reports.
    pub fn forward(
        &self,
        mixed: &Tensor,
        gates: &Tensor,
        state: Option<&Tensor>,
        tails: &Tails,
    ) -> Result<Tensor> {
        if self.kernels.fused_on(mixed.device()) {
            self.fused(mixed, gates, state, tails, false)
        } else {
            Ok(self.recurrent(mixed, gates, state, tails)?.0)
        }
    }

    /// As [`GatedDelta::forward`] for a single sequence; returns the state after it as well.
    ///
    /// # Errors
    /// Whatever candle reports.
    pub fn forward_with_state(
        &self,
        mixed: &Tensor,
        gates: &Tensor,
        tails: &Tails,
    ) -> Result<(Tensor, Tensor)> {
        let DeltaShape { value_heads, key_width, value_width, .. } = self.shape;
        if self.kernels.fused_on(mixed.device()) {
            let joint = self.fused(mixed, gates, None, tails, true)?;
            let outputs = mixed.dim(0)? * self.shape.values();
            let out = joint.narrow(0, 0, outputs)?.reshape((mixed.dim(0)?, ()))?;
            let state = joint.narrow(0, outputs, self.shape.state())?;
            // A copy, so that the outputs' memory goes when they do.
            Ok((out, state.reshape((value_heads, key_width, value_width))?.copy()?))
        } else {
            let (out, state) = self.recurrent(mixed, gates, None, tails)?;
            Ok((out, state.squeeze(0)?))
        }
    }

    fn fused(
        &self,
        mixed: &Tensor,
        gates: &Tensor,
        state: Option<&Tensor>,
        tails: &Tails,
        keep_state: bool,
    ) -> Result<Tensor> {
        let op = Fused { rule: self, bounds: &tails.bounds, keep_state };
        match state {
            Some(state) => mixed.apply_op3_no_bwd(gates, state, &op),
            None => mixed.apply_op2_no_bwd(gates, &op),
        }
    }

    /// Token by token, all sequences side by side: outputs, and each sequence's state after the longest one's length
    /// (so of use for a single sequence only).
    fn recurrent(
        &self,
        mixed: &Tensor,
        gates: &Tensor,
        state: Option<&Tensor>,
        tails: &Tails,
    ) -> Result<(Tensor, Tensor)> {
        let DeltaShape { key_heads, value_heads, key_width, value_width } = self.shape;
        let Some(padded) = &tails.padded else {
            candle_core::bail!("the stock form of the delta rule needs padded tails")
        };
        let (sequences, longest, device) = (padded.sequences, padded.longest, mixed.device());
        let heads = |first: usize, heads: usize, width: usize| -> Result<Tensor> {
            let part = mixed.narrow(1, first, heads * width)?.to_dtype(DType::F32)?;
            padded.pad(&part)?.reshape((sequences, longest, heads, width))
        };
        let (beta, decay) = self.gates_on(device, &gates.to_dtype(DType::F32)?)?;
        // [sequences, value heads, 1, 1] of one token.
        let at =
            |rows: &Tensor, token: usize| rows.narrow(1, token, 1)?.reshape((sequences, value_heads, 1, 1));
        let (beta, decay) = (padded.pad(&beta)?, padded.pad(&decay.exp()?)?);
        let repeat = value_heads / key_heads;
        let spread = |x: Tensor| -> Result<Tensor> {
            let shape = (sequences, longest, key_heads, repeat, key_width);
            x.unsqueeze(3)?.broadcast_as(shape)?.reshape((sequences, longest, value_heads, key_width))
        };
        let q = (spread(unit(&heads(0, key_heads, key_width)?)?)? / (key_width as f64).sqrt())?;
        let k = spread(unit(&heads(self.shape.keys(), key_heads, key_width)?)?)?;
        let v = heads(2 * self.shape.keys(), value_heads, value_width)?;
        let row = |x: &Tensor, token: usize| x.narrow(1, token, 1)?.transpose(1, 2)?.contiguous();

        let all = (sequences, value_heads, key_width, value_width);
        let mut state = match state {
            Some(state) => state.unsqueeze(0)?.broadcast_as(all)?.contiguous()?,
            None => Tensor::zeros(all, DType::F32, device)?,
        };
        let mut outputs = Vec::with_capacity(longest);
        for token in 0..longest {
            let (q, k, v) = (row(&q, token)?, row(&k, token)?, row(&v, token)?);
            state = state.broadcast_mul(&at(&decay, token)?)?;
            let change = (v - k.matmul(&state)?)?.broadcast_mul(&at(&beta, token)?)?;
            state = (state + k.transpose(2, 3)?.contiguous()?.matmul(&change)?)?;
            outputs.push(q.matmul(&state)?.squeeze(2)?);
        }
        let out = Tensor::stack(&outputs, 1)?.reshape((sequences, longest, value_heads * value_width))?;
        Ok((padded.unpad(&out)?.to_dtype(mixed.dtype())?, state))
    }

    /// beta and the log decay, both `[tokens, value heads]`.
    fn gates_on(&self, device: &Device, gates: &Tensor) -> Result<(Tensor, Tensor)> {
        let heads = self.shape.value_heads;
        let beta = candle_nn::ops::sigmoid(&gates.narrow(1, 0, heads)?.contiguous()?)?;
        let bias = Tensor::new(self.bias.as_slice(), device)?;
        let rates = Tensor::new(self.rates.as_slice(), device)?;
        let x = gates.narrow(1, heads, heads)?.broadcast_add(&bias)?;
        // softplus(x) = max(x, 0) + ln(1 + exp(-|x|)).
        let softplus = (x.relu()? + (x.abs()?.neg()?.exp()? + 1.0)?.log()?)?;
        Ok((beta, softplus.broadcast_mul(&rates)?.neg()?))
    }

    /// beta and the log decay of one head's token.
    fn gate(&self, gates: &[f32], head: usize) -> (f32, f32) {
        let beta = 1.0 / (1.0 + (-gates[head]).exp());
        let x = gates[self.shape.value_heads + head] + self.bias[head];
        (beta, -self.rates[head] * (x.max(0.0) + (-x.abs()).exp().ln_1p()))
    }
}

/// x / sqrt(sum(x^2) + 1e-6) over the last dimension.
fn unit(x: &Tensor) -> Result<Tensor> {
    x.broadcast_div(&(x.sqr()?.sum_keepdim(D::Minus1)? + 1e-6)?.sqrt()?)
}

/// The rule on the CPU: heads, and blocks of sequences within a head, in parallel.
struct Fused<'a> {
    rule: &'a GatedDelta,
    bounds: &'a [u32],
    keep_state: bool,
}

/// Sequences `from..to` under one head.
struct Task<'a> {
    head: usize,
    from: usize,
    to: usize,
    /// Their outputs, `[tokens of from..to, value width]`.
    out: &'a mut [f32],
    /// `[key width, value width]` where the state is kept.
    after: Option<&'a mut [f32]>,
}

impl Fused<'_> {
    /// `[tokens, values]`, or where the state is kept both, one after the other, flat.
    fn run(
        &self,
        mixed: Rows,
        gates: Rows,
        state: Option<&[f32]>,
        tokens: usize,
    ) -> Result<(CpuStorage, Shape)> {
        let shape = self.rule.shape;
        let sequences = self.bounds.len() - 1;
        if self.keep_state && sequences != 1 {
            candle_core::bail!("the state is kept of a single sequence, and there are {sequences}");
        }
        let (width, of_head) = (shape.value_width, shape.key_width * shape.value_width);
        // A state is laid out once a task; more tasks than threads even the load out.
        let per_head = (4 * rayon::current_num_threads()).div_ceil(shape.value_heads).min(sequences);
        let cuts: Vec<usize> = (0..=per_head).map(|part| sequences * part / per_head).collect();
        let ranges = (0..shape.value_heads).flat_map(|head| cuts.windows(2).map(move |w| (head, w[0], w[1])));
        let rows = |from: usize, to: usize| (self.bounds[to] - self.bounds[from]) as usize;

        let mut by_head = vec![0f32; tokens * shape.values()];
        let kept = if self.keep_state { shape.state() } else { 0 };
        let mut joint = vec![0f32; tokens * shape.values() + kept];
        let (out, after) = joint.split_at_mut(tokens * shape.values());
        let parts = split(&mut by_head, ranges.clone().map(|(_, from, to)| rows(from, to) * width));
        let mut after = after.chunks_exact_mut(of_head);
        let tasks: Vec<Task> = ranges
            .zip(parts)
            .map(|((head, from, to), out)| Task { head, from, to, out, after: after.next() })
            .collect();
        tasks.into_par_iter().for_each_init(Scratch::default, |scratch, task| {
            let before = state.map(|state| {
                PanelState::new(&state[task.head * of_head..][..of_head], shape.key_width, width)
            });
            self.task(task, mixed, gates, before.as_ref(), scratch);
        });
        // From [heads, tokens, width] to [tokens, heads, width].
        out.par_chunks_exact_mut(shape.values()).enumerate().for_each(|(token, out)| {
            for (head, out) in out.chunks_exact_mut(width).enumerate() {
                out.copy_from_slice(&by_head[(head * tokens + token) * width..][..width]);
            }
        });
        let result = match self.keep_state {
            true => Shape::from(joint.len()),
            false => Shape::from((tokens, shape.values())),
        };
        Ok((CpuStorage::F32(joint), result))
    }

    fn task(&self, task: Task, mixed: Rows, gates: Rows, before: Option<&PanelState>, scratch: &mut Scratch) {
        let Task { head, from, to, mut out, mut after } = task;
        let (mut beta, mut decay) = (Vec::new(), Vec::new());
        for bounds in self.bounds[from..=to].windows(2) {
            let (first, length) = (bounds[0] as usize, (bounds[1] - bounds[0]) as usize);
            beta.clear();
            decay.clear();
            for token in first..first + length {
                let (b, g) = self.rule.gate(gates.row(token), head);
                beta.push(b);
                decay.push(g);
            }
            let (own, rest) = out.split_at_mut(length * self.rule.shape.value_width);
            out = rest;
            HeadSequence {
                mixed,
                columns: self.rule.shape.columns(head),
                first,
                beta: &beta,
                decay: &decay,
                before,
                out: own,
                after: after.take(),
                scratch,
            }
            .run();
        }
    }
}

const STEP: &str = "the fused delta rule";

impl CustomOp2 for Fused<'_> {
    fn name(&self) -> &'static str {
        "fused-gated-delta"
    }

    fn cpu_fwd(
        &self,
        mixed: &CpuStorage,
        mixed_layout: &Layout,
        gates: &CpuStorage,
        gates_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (tokens, _) = mixed_layout.shape().dims2()?;
        self.run(Rows::new(mixed, mixed_layout, STEP)?, Rows::new(gates, gates_layout, STEP)?, None, tokens)
    }
}

impl CustomOp3 for Fused<'_> {
    fn name(&self) -> &'static str {
        "fused-gated-delta-from-state"
    }

    fn cpu_fwd(
        &self,
        mixed: &CpuStorage,
        mixed_layout: &Layout,
        gates: &CpuStorage,
        gates_layout: &Layout,
        state: &CpuStorage,
        state_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (tokens, _) = mixed_layout.shape().dims2()?;
        let state = super::cpu::values(state, state_layout, STEP)?;
        self.run(
            Rows::new(mixed, mixed_layout, STEP)?,
            Rows::new(gates, gates_layout, STEP)?,
            Some(state),
            tokens,
        )
    }
}
