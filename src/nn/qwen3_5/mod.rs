//! The Qwen3.5 dense text model as a scorer: logits of a few answers at the end of each sequence.
//!
//! Pre-norm decoder, `h += mixer(norm(h)); h += W_down (silu(W_gate x) * W_up x)` with `x = norm(h)`, whose mixers
//! are gated delta rules (`delta`) and, every fourth layer, gated attention (`attention`). All prompts of a pool
//! begin alike: [`Qwen3_5::begin`] runs that beginning once, and [`Qwen3_5::forward`] continues it for every
//! candidate, reading its keys, values and states in place.

mod attention;
mod config;
mod delta;
mod load;

pub use config::{LayerKind, Qwen3_5Config};

use candle_core::{DType, Device, Tensor};

use self::attention::AttentionMixer;
use self::delta::{DeltaMixer, DeltaState};
use super::ops::{Angles, Asking, Finish, Kernels, Linear, RmsNorm, Tails, swiglu};
use super::packed::PackedRows;
use crate::device::{Placement, candle_fault};
use crate::error::Result;

/// The network, loaded.
pub struct Qwen3_5 {
    config: Qwen3_5Config,
    placement: Placement,
    kernels: Kernels,
    /// `[vocabulary, hidden]`.
    words: Tensor,
    layers: Vec<Layer>,
    norm: RmsNorm,
    /// The rows of the output head that are read, `[answers, hidden]`.
    head: Linear,
}

struct Layer {
    mixer_norm: RmsNorm,
    mixer: Mixer,
    feed_norm: RmsNorm,
    /// Gate and up projections joined, `[2 intermediate, hidden]`.
    gate_up: Linear,
    down: Linear,
    kernels: Kernels,
}

enum Mixer {
    Delta(DeltaMixer),
    Attention(AttentionMixer),
}

/// What the sequences of a pool continue: the state of every layer after the tokens they share.
pub struct Prefix {
    tokens: usize,
    layers: Vec<LayerState>,
}

impl Prefix {
    /// Tokens that were run.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Bytes of all layers' states: independent of the number of sequences that continue them.
    pub fn bytes(&self) -> usize {
        let bytes = |t: &Tensor| t.elem_count() * t.dtype().size_in_bytes();
        self.layers
            .iter()
            .map(|layer| match layer {
                LayerState::Delta(delta) => bytes(&delta.columns) + delta.state.as_ref().map_or(0, bytes),
                LayerState::Attention(kv) => kv.as_ref().map_or(0, bytes),
            })
            .sum()
    }
}

enum LayerState {
    Delta(DeltaState),
    /// Keys, rotated, and values: `[tokens, keys | values]`; `None` before any token.
    Attention(Option<Tensor>),
}

/// Packed sequences where the network runs, with what every layer asks of them.
pub struct Continuations {
    /// Token ids, `[tokens]`, u32.
    ids: Tensor,
    tails: Tails,
    angles: Angles,
    /// Row of each sequence's last token, `[sequences]`, u32.
    last_rows: Tensor,
    last_angles: Angles,
}

impl Qwen3_5 {
    /// The configuration it was loaded with.
    pub fn config(&self) -> &Qwen3_5Config {
        &self.config
    }

    /// Runs the tokens that all sequences of a pool begin with; none is a beginning as well.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) or [`Error::Device`](crate::Error::Device).
    pub fn begin(&self, ids: &[u32]) -> Result<Prefix> {
        let run = || {
            if ids.is_empty() {
                return self.nothing();
            }
            let rows = self.place(&PackedRows::new([ids], 0))?;
            let mut hidden = self.words.index_select(&rows.ids, 0)?;
            let mut layers = Vec::with_capacity(self.layers.len());
            for layer in &self.layers {
                let (after, state) = layer.begin(&hidden, &rows)?;
                hidden = after;
                layers.push(state);
            }
            Ok(Prefix { tokens: ids.len(), layers })
        };
        run().map_err(|e: candle_core::Error| candle_fault("the shared beginning's forward pass", e))
    }

    /// Copies `rows` to the device; their positions count on from the prefix's tokens.
    ///
    /// # Errors
    /// As [`Qwen3_5::begin`].
    pub fn upload(&self, rows: &PackedRows) -> Result<Continuations> {
        self.place(rows).map_err(|e| candle_fault("uploading token ids", e))
    }

    /// The logits of the answers at each sequence's last token, or at every token: `[sequences or tokens, answers]`
    /// in f32, on the device. At least one sequence and no empty one; every id below the vocabulary.
    ///
    /// # Errors
    /// As [`Qwen3_5::begin`].
    pub fn forward(&self, prefix: &Prefix, rows: &Continuations, asking: Asking) -> Result<Tensor> {
        let run = || {
            let mut hidden = self.words.index_select(&rows.ids, 0)?;
            let last = self.layers.len() - 1;
            for (number, (layer, state)) in self.layers.iter().zip(&prefix.layers).enumerate() {
                let asking = if number == last { asking } else { Asking::Every };
                hidden = layer.forward(&hidden, state, rows, asking)?;
            }
            self.head.forward(&self.norm.forward(&hidden)?, Finish::Bias)?.to_dtype(DType::F32)
        };
        run().map_err(|e: candle_core::Error| candle_fault("the language model's forward pass", e))
    }

    fn place(&self, rows: &PackedRows) -> candle_core::Result<Continuations> {
        let device = &self.placement.device;
        let angles = Angles::new(&rows.positions, self.config.rotary, self.config.rope_theta, device)?;
        let last_rows: Vec<u32> = rows.bounds[1..].iter().map(|end| end - 1).collect();
        let last_rows = Tensor::new(last_rows, device)?;
        Ok(Continuations {
            ids: Tensor::new(rows.ids.as_slice(), device)?,
            tails: Tails::new(&rows.bounds, device, self.kernels)?,
            last_angles: angles.select(&last_rows)?,
            angles,
            last_rows,
        })
    }

    /// The states before any token.
    fn nothing(&self) -> candle_core::Result<Prefix> {
        let Placement { device, dtype, .. } = &self.placement;
        let state = |layer: &Layer| layer.nothing(*dtype, device);
        Ok(Prefix { tokens: 0, layers: self.layers.iter().map(state).collect::<candle_core::Result<_>>()? })
    }
}

impl Layer {
    fn begin(&self, hidden: &Tensor, rows: &Continuations) -> candle_core::Result<(Tensor, LayerState)> {
        let x = self.mixer_norm.forward(hidden)?;
        let (mixed, state) = match &self.mixer {
            Mixer::Delta(mixer) => {
                let (mixed, state) = mixer.begin(&x, &rows.tails)?;
                (mixed, LayerState::Delta(state))
            }
            Mixer::Attention(mixer) => {
                let kv = mixer.keys_and_values(&x, &rows.angles)?;
                let mixed = mixer.forward(&x, &kv, None, rows, Asking::Every)?;
                (mixed, LayerState::Attention(Some(kv)))
            }
        };
        Ok((self.feed_forward((hidden + mixed)?)?, state))
    }

    fn forward(
        &self,
        hidden: &Tensor,
        before: &LayerState,
        rows: &Continuations,
        asking: Asking,
    ) -> candle_core::Result<Tensor> {
        let x = self.mixer_norm.forward(hidden)?;
        let mixed = match (&self.mixer, before) {
            (Mixer::Delta(mixer), LayerState::Delta(state)) => mixer.forward(&x, state, rows, asking)?,
            (Mixer::Attention(mixer), LayerState::Attention(prefix)) => {
                let kv = mixer.keys_and_values(&x, &rows.angles)?;
                mixer.forward(&x, &kv, prefix.as_ref(), rows, asking)?
            }
            _ => candle_core::bail!("this prefix is of another network"),
        };
        let residual = rows.asking(hidden, asking)?;
        self.feed_forward((residual + mixed)?)
    }

    fn feed_forward(&self, hidden: Tensor) -> candle_core::Result<Tensor> {
        let wide = self.gate_up.forward(&self.feed_norm.forward(&hidden)?, Finish::Bias)?;
        let narrow = self.down.forward(&swiglu(&wide, self.kernels)?, Finish::Bias)?;
        hidden + narrow
    }

    fn nothing(&self, dtype: DType, device: &Device) -> candle_core::Result<LayerState> {
        Ok(match &self.mixer {
            Mixer::Delta(mixer) => LayerState::Delta(mixer.nothing(dtype, device)?),
            Mixer::Attention(_) => LayerState::Attention(None),
        })
    }
}

impl Continuations {
    /// The asking tokens' rows of `x`, `[tokens, …]`.
    fn asking(&self, x: &Tensor, asking: Asking) -> candle_core::Result<Tensor> {
        match asking {
            Asking::Every => Ok(x.clone()),
            Asking::Last => x.contiguous()?.index_select(&self.last_rows, 0),
        }
    }

    /// The asking tokens' angles.
    fn angles_of(&self, asking: Asking) -> &Angles {
        match asking {
            Asking::Every => &self.angles,
            Asking::Last => &self.last_angles,
        }
    }
}
