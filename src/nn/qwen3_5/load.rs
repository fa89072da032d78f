//! Reads the network's parameters by their names in the checkpoint.

use candle_core::Tensor;

use super::attention::AttentionMixer;
use super::delta::DeltaMixer;
use super::{Layer, LayerKind, Mixer, Qwen3_5, Qwen3_5Config};
use crate::device::{Placement, candle_fault};
use crate::error::Result;
use crate::nn::ops::{CausalConv, DeltaShape, GatedDelta, Kernels, Linear, PrefixAttention, RmsNorm, Rotary};
use crate::weights::Parameters;

impl Qwen3_5 {
    /// Loads the network that `config` describes; of its output head the rows `answers`.
    ///
    /// Names are those of the hub's checkpoints (`model.language_model.*`, beside which visual and draft parameters
    /// are ignored) or of a text model saved alone (`model.*`).
    ///
    /// # Errors
    /// [`Error::Model`](crate::Error::Model) for a tensor that is missing or of another shape.
    pub fn load(
        config: &Qwen3_5Config,
        parameters: &Parameters,
        placement: &Placement,
        kernels: Kernels,
        answers: &[u32],
    ) -> Result<Self> {
        let nested = parameters.stored_shape("model.language_model.embed_tokens.weight").is_some();
        let root = if nested { "model.language_model" } else { "model" };
        let loader = Loader { config, parameters, placement, kernels, root };
        let table = [config.vocabulary, config.hidden];
        let words_name = format!("{root}.embed_tokens.weight");
        let head_name = if config.tied { &words_name } else { "lm_head.weight" };
        let words = parameters.values(&words_name, &table)?;
        let mut head = Vec::with_capacity(answers.len() * config.hidden);
        let mut take_answers = |rows: &[f32]| {
            for &answer in answers {
                head.extend_from_slice(&rows[answer as usize * config.hidden..][..config.hidden]);
            }
        };
        match config.tied {
            true => take_answers(&words),
            false => take_answers(&parameters.values(head_name, &table)?),
        }
        Ok(Self {
            head: loader.layer_of(head, answers.len(), config.hidden)?,
            words: loader.place(words, &table)?,
            layers: (0..config.layers.len()).map(|number| loader.layer(number)).collect::<Result<_>>()?,
            norm: loader.centred_norm("norm.weight", config.hidden)?,
            config: config.clone(),
            placement: placement.clone(),
            kernels,
        })
    }
}

struct Loader<'a> {
    config: &'a Qwen3_5Config,
    parameters: &'a Parameters,
    placement: &'a Placement,
    kernels: Kernels,
    /// What the names begin with.
    root: &'static str,
}

impl Loader<'_> {
    fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        self.parameters.values(&format!("{}.{name}", self.root), shape)
    }

    /// On the device, in the network's format.
    fn place(&self, values: Vec<f32>, shape: &[usize]) -> Result<Tensor> {
        let place = || {
            let host = Tensor::from_vec(values, shape, &candle_core::Device::Cpu)?;
            host.to_dtype(self.placement.dtype)?.to_device(&self.placement.device)
        };
        place().map_err(fault)
    }

    /// A linear layer of this weight, `[out, input]` row-major, without bias.
    fn layer_of(&self, weight: Vec<f32>, out: usize, input: usize) -> Result<Linear> {
        let weight = self.place(weight, &[out, input])?;
        let bias = self.place(vec![0.0; out], &[out])?;
        Linear::new(weight, bias, self.kernels).map_err(fault)
    }

    /// The projections `parts` (names and rows) one below the other.
    fn joined(&self, of: &str, parts: &[(&str, usize)]) -> Result<Linear> {
        let input = self.config.hidden;
        let mut weight = Vec::with_capacity(input * parts.iter().map(|(_, rows)| rows).sum::<usize>());
        for (name, rows) in parts {
            weight.extend(self.values(&format!("{of}.{name}.weight"), &[*rows, input])?);
        }
        self.layer_of(weight, parts.iter().map(|(_, rows)| rows).sum(), input)
    }

    fn linear(&self, name: &str, out: usize, input: usize) -> Result<Linear> {
        self.layer_of(self.values(&format!("{name}.weight"), &[out, input])?, out, input)
    }

    /// A norm whose scale is stored as its distance from 1.
    fn centred_norm(&self, name: &str, width: usize) -> Result<RmsNorm> {
        self.norm(self.values(name, &[width])?.into_iter().map(|w| 1.0 + w).collect())
    }

    /// A norm with this scale, kept in f32.
    fn norm(&self, scale: Vec<f32>) -> Result<RmsNorm> {
        Tensor::new(scale, &self.placement.device)
            .and_then(|scale| RmsNorm::new(scale, self.config.norm_epsilon, self.kernels))
            .map_err(fault)
    }

    fn layer(&self, number: usize) -> Result<Layer> {
        let (h, f) = (self.config.hidden, self.config.intermediate);
        let layer = format!("layers.{number}");
        Ok(Layer {
            mixer_norm: self.centred_norm(&format!("{layer}.input_layernorm.weight"), h)?,
            mixer: match self.config.layers[number] {
                LayerKind::LinearAttention => Mixer::Delta(self.delta(&format!("{layer}.linear_attn"))?),
                LayerKind::FullAttention => Mixer::Attention(self.attention(&format!("{layer}.self_attn"))?),
            },
            feed_norm: self.centred_norm(&format!("{layer}.post_attention_layernorm.weight"), h)?,
            gate_up: self.joined(&format!("{layer}.mlp"), &[("gate_proj", f), ("up_proj", f)])?,
            down: self.linear(&format!("{layer}.mlp.down_proj"), h, f)?,
            kernels: self.kernels,
        })
    }

    fn delta(&self, of: &str) -> Result<DeltaMixer> {
        let c = self.config;
        let (mixed, values, heads) = (c.mixed_width(), c.values_width(), c.value_heads);
        let parts =
            [("in_proj_qkv", mixed), ("in_proj_z", values), ("in_proj_b", heads), ("in_proj_a", heads)];
        let kernel = self.values(&format!("{of}.conv1d.weight"), &[mixed, 1, c.taps])?;
        // Stored column by column, used tap by tap.
        let taps = (0..c.taps).flat_map(|tap| kernel.iter().skip(tap).step_by(c.taps).copied()).collect();
        let shape = DeltaShape {
            key_heads: c.key_heads,
            value_heads: heads,
            key_width: c.key_width,
            value_width: c.value_width,
        };
        let a_log = self.values(&format!("{of}.A_log"), &[heads])?;
        let bias = self.values(&format!("{of}.dt_bias"), &[heads])?;
        Ok(DeltaMixer {
            projection: self.joined(of, &parts)?,
            mixed,
            values,
            conv: CausalConv::new(taps, c.taps, &self.placement.device, self.kernels).map_err(fault)?,
            rule: GatedDelta::new(shape, &a_log, bias, self.kernels),
            norm: self.norm(self.values(&format!("{of}.norm.weight"), &[c.value_width])?)?,
            out: self.linear(&format!("{of}.out_proj"), c.hidden, values)?,
        })
    }

    fn attention(&self, of: &str) -> Result<AttentionMixer> {
        let c = self.config;
        let (queries, keys) = (c.heads * c.head_width, c.kv_heads * c.head_width);
        // Stored head by head, each query with its gate: here all queries come first.
        let stored = self.values(&format!("{of}.q_proj.weight"), &[2 * queries, c.hidden])?;
        let half = c.head_width * c.hidden;
        let of_half = |which: usize| stored.chunks_exact(half).skip(which).step_by(2).flatten();
        let query_gate = of_half(0).chain(of_half(1)).copied().collect();
        let rotary = |name: &str| -> Result<Rotary> {
            let norm = self.centred_norm(&format!("{of}.{name}.weight"), c.head_width)?;
            Ok(Rotary::new(norm, c.head_width, self.kernels))
        };
        Ok(AttentionMixer {
            query_gate: self.layer_of(query_gate, 2 * queries, c.hidden)?,
            key_value: self.joined(of, &[("k_proj", keys), ("v_proj", keys)])?,
            query_rotary: rotary("q_norm")?,
            key_rotary: rotary("k_norm")?,
            attention: PrefixAttention::new(c.heads, c.kv_heads, c.head_width, self.kernels),
            out: self.linear(&format!("{of}.o_proj"), c.hidden, queries)?,
            heads: c.heads,
            kv_heads: c.kv_heads,
            kernels: self.kernels,
        })
    }
}

fn fault(error: candle_core::Error) -> crate::Error {
    candle_fault("loading the weights", error)
}
