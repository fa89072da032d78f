//! XLM-RoBERTa with a one-label classification head, over packed rows.
//!
//! Post-norm transformer encoder (Devlin et al. 2018; Conneau et al. 2019):
//! `h = norm(h + attention(h)); h = norm(h + W2 gelu(W1 h))`, then for each sequence's first token
//! `logit = w tanh(W h + b) + c`. The last layer is finished for those first tokens only: nothing else of it is
//! read.

use candle_core::{DType, Tensor};

use super::config::EncoderConfig;
use super::ops::{FeedForward, Finish, Kernels, LayerNorm, Linear, attention, attention_of_first};
use super::packed::{PackedRows, UploadedRows};
use crate::device::{Placement, candle_fault};
use crate::error::{Error, Result};
use crate::weights::Parameters;

/// The network, loaded.
pub struct XlmRoberta {
    config: EncoderConfig,
    placement: Placement,
    kernels: Kernels,
    /// `[vocabulary, hidden]`.
    words: Tensor,
    /// `[position rows, hidden]`, with the one token type in use added.
    positions: Tensor,
    embedding_norm: LayerNorm,
    layers: Vec<Layer>,
    last: LastLayer,
    head: Head,
}

/// One layer, all rows.
struct Layer {
    /// Query, key and value joined, `[3 hidden, hidden]`.
    qkv: Linear,
    rest: Rest,
}

/// The last layer: keys and values of all rows, the rest of the first tokens only.
struct LastLayer {
    q: Linear,
    /// `[2 hidden, hidden]`.
    kv: Linear,
    rest: Rest,
}

/// What follows attention within a layer.
struct Rest {
    out: Linear,
    out_norm: LayerNorm,
    feed_forward: FeedForward,
}

struct Head {
    dense: Linear,
    score: Linear,
}

impl XlmRoberta {
    /// Loads the network that `config` describes.
    ///
    /// # Errors
    /// [`Error::Model`] for a tensor that is missing or of another shape.
    pub fn load(
        config: &EncoderConfig,
        parameters: &Parameters,
        placement: &Placement,
        kernels: Kernels,
    ) -> Result<Self> {
        let loader = Loader { parameters, placement, kernels, config };
        let h = config.hidden;
        let embeddings = "roberta.embeddings";
        let words =
            loader.tensor(&format!("{embeddings}.word_embeddings.weight"), &[config.vocabulary, h])?;
        let type_rows = &[config.token_types, h];
        let types = parameters.values(&format!("{embeddings}.token_type_embeddings.weight"), type_rows)?;
        let position_rows = &[config.position_rows, h];
        let mut positions =
            parameters.values(&format!("{embeddings}.position_embeddings.weight"), position_rows)?;
        for row in positions.chunks_exact_mut(h) {
            row.iter_mut().zip(&types).for_each(|(value, of_type)| *value += of_type);
        }
        let last = config.layers - 1;
        Ok(Self {
            words,
            positions: loader.place(positions, position_rows)?,
            embedding_norm: loader.norm(embeddings, h)?,
            layers: (0..last).map(|number| loader.layer(number)).collect::<Result<_>>()?,
            last: loader.last_layer(last)?,
            head: loader.head()?,
            config: config.clone(),
            placement: placement.clone(),
            kernels,
        })
    }

    /// The configuration it was loaded with.
    pub fn config(&self) -> &EncoderConfig {
        &self.config
    }

    /// Copies `rows` to the device.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] or [`Error::Device`].
    pub fn upload(&self, rows: &PackedRows) -> Result<UploadedRows> {
        rows.upload(&self.placement.device, self.kernels).map_err(|e| candle_fault("uploading token ids", e))
    }

    /// The logit of each sequence, `[sequences]` in f32, on the device. At least one sequence; every id below the
    /// vocabulary, every position below the table's rows.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] or [`Error::Device`].
    pub fn forward(&self, rows: &UploadedRows) -> Result<Tensor> {
        self.logits(rows).map_err(|e| candle_fault("the encoder's forward pass", e))
    }

    fn logits(&self, rows: &UploadedRows) -> candle_core::Result<Tensor> {
        let heads = self.config.heads;
        let words = self.words.index_select(&rows.ids, 0)?;
        let positions = self.positions.index_select(&rows.positions, 0)?;
        let mut hidden = self.embedding_norm.forward(&(words + positions)?)?;
        for layer in &self.layers {
            let qkv = layer.qkv.forward(&hidden, Finish::Bias)?;
            let context = attention(&qkv, &rows.segments, heads)?;
            hidden = layer.rest.forward(&context, &hidden)?;
        }
        let first = hidden.index_select(&rows.first_tokens, 0)?;
        let q = self.last.q.forward(&first, Finish::Bias)?;
        let kv = self.last.kv.forward(&hidden, Finish::Bias)?;
        let context = attention_of_first(&q, &kv, &rows.segments, heads)?;
        let first = self.last.rest.forward(&context, &first)?;
        let pooled = self.head.dense.forward(&first, Finish::Bias)?.tanh()?;
        self.head.score.forward(&pooled, Finish::Bias)?.squeeze(1)?.to_dtype(DType::F32)
    }
}

impl Rest {
    /// `context` is attention's result, `hidden` the layer's input, both `[rows, hidden]`.
    fn forward(&self, context: &Tensor, hidden: &Tensor) -> candle_core::Result<Tensor> {
        let finish = Finish::ResidualNorm { residual: hidden, norm: &self.out_norm };
        self.feed_forward.forward(&self.out.forward(context, finish)?)
    }
}

/// Reads the layers' parameters by their names in the checkpoint.
struct Loader<'a> {
    config: &'a EncoderConfig,
    parameters: &'a Parameters,
    placement: &'a Placement,
    kernels: Kernels,
}

impl Loader<'_> {
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        self.parameters.tensor(name, shape, self.placement.dtype, &self.placement.device)
    }

    fn place(&self, values: Vec<f32>, shape: &[usize]) -> Result<Tensor> {
        Tensor::from_vec(values, shape, &candle_core::Device::Cpu)
            .and_then(|t| t.to_dtype(self.placement.dtype))
            .and_then(|t| t.to_device(&self.placement.device))
            .map_err(|e| candle_fault("loading the weights", e))
    }

    /// The projections `names` side by side, each `[out, input]`.
    fn linear(&self, names: &[String], out: usize, input: usize) -> Result<Linear> {
        let join = |suffix: &str, shape: &[usize]| -> Result<Vec<f32>> {
            let mut values = Vec::new();
            for name in names {
                let part = self.parameters.values(&format!("{name}.{suffix}"), shape)?;
                if values.is_empty() { values = part } else { values.extend(part) }
            }
            Ok(values)
        };
        let rows = out * names.len();
        let weight = join("weight", &[out, input])?;
        let bias = join("bias", &[out])?;
        Linear::new(self.place(weight, &[rows, input])?, self.place(bias, &[rows])?, self.kernels)
            .map_err(|e| candle_fault("laying out the weights", e))
    }

    fn norm(&self, of: &str, width: usize) -> Result<LayerNorm> {
        let scale = self.tensor(&format!("{of}.LayerNorm.weight"), &[width])?;
        let shift = self.tensor(&format!("{of}.LayerNorm.bias"), &[width])?;
        Ok(LayerNorm::new(scale, shift, self.config.norm_epsilon))
    }

    fn layer(&self, number: usize) -> Result<Layer> {
        Ok(Layer { qkv: self.projections(number, &["query", "key", "value"])?, rest: self.rest(number)? })
    }

    fn last_layer(&self, number: usize) -> Result<LastLayer> {
        Ok(LastLayer {
            q: self.projections(number, &["query"])?,
            kv: self.projections(number, &["key", "value"])?,
            rest: self.rest(number)?,
        })
    }

    fn projections(&self, layer: usize, which: &[&str]) -> Result<Linear> {
        let name = |w: &&str| format!("roberta.encoder.layer.{layer}.attention.self.{w}");
        self.linear(&which.iter().map(name).collect::<Vec<_>>(), self.config.hidden, self.config.hidden)
    }

    fn rest(&self, layer: usize) -> Result<Rest> {
        let (h, f) = (self.config.hidden, self.config.intermediate);
        let layer = format!("roberta.encoder.layer.{layer}");
        let linear = |part: &str, out, input| self.linear(&[format!("{layer}.{part}.dense")], out, input);
        Ok(Rest {
            out: linear("attention.output", h, h)?,
            out_norm: self.norm(&format!("{layer}.attention.output"), h)?,
            feed_forward: FeedForward::new(
                linear("intermediate", f, h)?,
                linear("output", h, f)?,
                self.norm(&format!("{layer}.output"), h)?,
            ),
        })
    }

    fn head(&self) -> Result<Head> {
        let score = "classifier.out_proj";
        if let Some([labels, _]) = self.parameters.stored_shape(&format!("{score}.weight")).as_deref()
            && *labels != 1
        {
            return Err(Error::model(
                self.parameters.model(),
                format!("{score}.weight has {labels} rows, one a label; a reranker has exactly one label"),
            ));
        }
        let h = self.config.hidden;
        Ok(Head {
            dense: self.linear(&["classifier.dense".to_owned()], h, h)?,
            score: self.linear(&[score.to_owned()], 1, h)?,
        })
    }
}
