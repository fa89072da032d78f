//! `--engine candle`: candle-transformers' own XLM-RoBERTa, padded, as most Rust users run it.
//!
//! A baseline of the baselines: beside it a table shows how much of a speedup is the implementation's.

use candle_core::{DType, Device, Shape, Tensor};
use candle_nn::var_builder::{SimpleBackend, VarBuilder};
use candle_transformers::models::xlm_roberta::{Config, XLMRobertaForSequenceClassification};

use super::cross_encoder::read_back;
use super::{Laps, Stage};
use crate::device::{Placement, candle_fault};
use crate::error::{Error, Result};
use crate::nn::EncoderConfig;
use crate::weights::Parameters;

/// The padded network.
pub(super) struct CandleEngine {
    network: XLMRobertaForSequenceClassification,
    padding_id: u32,
    dtype: DType,
}

impl CandleEngine {
    /// Loads the network that `config` describes.
    ///
    /// # Errors
    /// [`Error::Model`] for a tensor that is missing or of another shape.
    pub(super) fn load(
        config: &EncoderConfig,
        parameters: Parameters,
        placement: &Placement,
    ) -> Result<Self> {
        let model = parameters.model().to_owned();
        let theirs = Config {
            hidden_size: config.hidden,
            layer_norm_eps: config.norm_epsilon,
            attention_probs_dropout_prob: 0.0,
            hidden_dropout_prob: 0.0,
            num_attention_heads: config.heads,
            position_embedding_type: "absolute".to_owned(),
            intermediate_size: config.intermediate,
            hidden_act: candle_nn::Activation::Gelu,
            num_hidden_layers: config.layers,
            vocab_size: config.vocabulary,
            max_position_embeddings: config.position_rows,
            type_vocab_size: config.token_types,
            pad_token_id: config.padding_id,
        };
        let tensors = VarBuilder::from_backend(
            Box::new(ParameterBackend(parameters)),
            placement.dtype,
            placement.device.clone(),
        );
        let network = XLMRobertaForSequenceClassification::new(1, &theirs, tensors)
            .map_err(|e| Error::model(model, e.to_string()))?;
        Ok(Self { network, padding_id: config.padding_id, dtype: placement.dtype })
    }

    /// Logits of `rows`, padded to the longest.
    ///
    /// # Errors
    /// [`Error::Usage`] where position numbers would be wrong, [`Error::OutOfMemory`] or [`Error::Device`].
    pub(super) fn pass(&self, rows: &[&[u32]], device: &Device, laps: &mut dyn Laps) -> Result<Vec<f32>> {
        let longest = rows.iter().map(|row| row.len()).max().unwrap_or(0);
        check_positions(self.dtype, self.padding_id, longest)?;
        let mut ids = vec![self.padding_id; rows.len() * longest];
        let mut mask = vec![0f32; rows.len() * longest];
        for (slot, row) in rows.iter().enumerate() {
            let start = slot * longest;
            ids[start..start + row.len()].copy_from_slice(row);
            mask[start..start + row.len()].fill(1.0);
        }
        laps.lap(Stage::Pack);
        let shape = (rows.len(), longest);
        let fault = |e| candle_fault("the candle engine's forward pass", e);
        let ids = Tensor::from_vec(ids, shape, device).map_err(fault)?;
        let mask = Tensor::from_vec(mask, shape, device).map_err(fault)?;
        let types = ids.zeros_like().map_err(fault)?;
        laps.lap(Stage::Upload);
        let logits = self
            .network
            .forward(&ids, &mask, &types)
            .and_then(|logits| logits.squeeze(1)?.to_dtype(DType::F32))
            .map_err(fault)?;
        device.synchronize().map_err(fault)?;
        laps.lap(Stage::Forward);
        let logits = read_back(&logits)?;
        laps.lap(Stage::ReadBack);
        Ok(logits)
    }
}

/// Refuses lengths whose position ids would be wrong: theirs are a running sum in the model's own format, and bf16
/// holds whole numbers exactly up to 256, f16 up to 2048.
fn check_positions(dtype: DType, padding_id: u32, longest: usize) -> Result<()> {
    let exact = match dtype {
        DType::BF16 => 256,
        DType::F16 => 2048,
        _ => usize::MAX,
    };
    // The sum runs to `longest`, and the padding id is added to it.
    if longest + padding_id as usize <= exact {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "--engine candle computes position numbers in {dtype:?}, which holds whole numbers only up to {exact}; a pair of \
         {longest} tokens would get wrong ones; use --dtype f32, a smaller --max-length, or --engine packed"
    )))
}

/// Hands our checked parameters to candle's loader.
struct ParameterBackend(Parameters);

impl SimpleBackend for ParameterBackend {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _: candle_nn::Init,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        self.0.tensor(name, shape.dims(), dtype, device).map_err(candle_core::Error::wrap)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> candle_core::Result<Tensor> {
        candle_core::bail!("tensor {name} is asked for without a shape")
    }

    fn contains_tensor(&self, _: &str) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_that_half_precision_cannot_count_are_refused() {
        for (dtype, most) in [(DType::BF16, 255), (DType::F16, 2047)] {
            assert!(check_positions(dtype, 1, most).is_ok());
            assert!(check_positions(dtype, 1, most + 1).unwrap_err().to_string().contains("--dtype f32"));
        }
        assert!(check_positions(DType::F32, 1, 8192).is_ok());
    }
}
