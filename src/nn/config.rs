//! `config.json` of RoBERTa-family cross-encoders, checked before anything is computed with it.

use serde_json::Value;

/// Shape of an XLM-RoBERTa (or RoBERTa) encoder with a one-label classification head.
#[derive(Debug, Clone, PartialEq)]
pub struct EncoderConfig {
    /// Rows of the word table.
    pub vocabulary: usize,
    /// Width of a token's state.
    pub hidden: usize,
    /// Number of layers.
    pub layers: usize,
    /// Attention heads; they divide `hidden` evenly.
    pub heads: usize,
    /// Width of the feed-forward block.
    pub intermediate: usize,
    /// Rows of the position table, of which the first `padding_id + 1` are reserved.
    pub position_rows: usize,
    /// Rows of the token-type table, of which the first is used.
    pub token_types: usize,
    /// Added to the variance in layer norms.
    pub norm_epsilon: f64,
    /// `<s>`.
    pub begin_id: u32,
    /// `<pad>`.
    pub padding_id: u32,
    /// `</s>`.
    pub end_id: u32,
}

impl EncoderConfig {
    /// Reads the text of a `config.json`, of transformers 4 or 5.
    ///
    /// # Errors
    /// One sentence that names the key at fault.
    pub fn parse(text: &str) -> Result<Self, String> {
        let json: Value = serde_json::from_str(text).map_err(|e| format!("config.json is not JSON: {e}"))?;
        let number = |key: &str, default: Option<u64>| {
            let value = match json.get(key) {
                None | Some(Value::Null) => default,
                Some(value) => value.as_u64(),
            };
            value
                .and_then(|v| usize::try_from(v).ok())
                .ok_or_else(|| format!("config.json has no whole number {key}"))
        };
        let text_of = |key: &str| json.get(key).and_then(Value::as_str);

        let model_type = text_of("model_type").unwrap_or("xlm-roberta");
        if !matches!(model_type, "xlm-roberta" | "roberta" | "camembert") {
            return Err(format!(
                "config.json has model_type {model_type:?}; cross-encoders of type xlm-roberta, roberta and \
                 camembert are supported"
            ));
        }
        let classifies =
            |name: &Value| name.as_str().is_some_and(|n| n.ends_with("ForSequenceClassification"));
        if let Some([name, ..]) = json.get("architectures").and_then(Value::as_array).map(Vec::as_slice)
            && !classifies(name)
        {
            return Err(format!(
                "config.json names the architecture {name}, which has no classification head; a cross-encoder is \
                 …ForSequenceClassification"
            ));
        }
        let labels = match json.get("id2label").and_then(Value::as_object) {
            Some(labels) => labels.len() as u64,
            None => json.get("num_labels").and_then(Value::as_u64).unwrap_or(1),
        };
        if labels != 1 {
            let names = json.get("id2label").map(Value::to_string).unwrap_or_default();
            return Err(format!(
                "config.json has {labels} labels {names}; a reranker has exactly one, whose logit is the score"
            ));
        }
        let activation = text_of("hidden_act").unwrap_or("gelu");
        if activation != "gelu" {
            return Err(format!(
                "config.json has hidden_act {activation:?}; the exact \"gelu\" is supported"
            ));
        }
        // Absent from what transformers 5 writes; then it is absolute.
        let positions = text_of("position_embedding_type").unwrap_or("absolute");
        if positions != "absolute" {
            return Err(format!(
                "config.json has position_embedding_type {positions:?}; \"absolute\" is supported"
            ));
        }
        let id = |key: &str, default: u64| number(key, Some(default)).map(|id| id as u32);
        let config = Self {
            vocabulary: number("vocab_size", None)?,
            hidden: number("hidden_size", None)?,
            layers: number("num_hidden_layers", None)?,
            heads: number("num_attention_heads", None)?,
            intermediate: number("intermediate_size", None)?,
            position_rows: number("max_position_embeddings", None)?,
            token_types: number("type_vocab_size", Some(1))?,
            norm_epsilon: json.get("layer_norm_eps").and_then(Value::as_f64).unwrap_or(1e-5),
            begin_id: id("bos_token_id", 0)?,
            padding_id: id("pad_token_id", 1)?,
            end_id: id("eos_token_id", 2)?,
        };
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        if self.heads == 0 || !self.hidden.is_multiple_of(self.heads) || self.hidden == 0 {
            return Err(format!(
                "config.json has hidden_size {} and num_attention_heads {}: heads must divide the hidden size",
                self.hidden, self.heads
            ));
        }
        if self.layers == 0 || self.intermediate == 0 || self.token_types == 0 {
            return Err("config.json has a size of zero".to_owned());
        }
        if [self.begin_id, self.padding_id, self.end_id].iter().any(|&id| id as usize >= self.vocabulary) {
            return Err(format!("config.json has special token ids beyond vocab_size {}", self.vocabulary));
        }
        if self.position_rows <= self.first_position() as usize {
            return Err(format!(
                "config.json has max_position_embeddings {}, of which {} rows are reserved: none is left",
                self.position_rows,
                self.first_position()
            ));
        }
        Ok(())
    }

    /// Position row of a sequence's first token: rows up to the padding id are reserved.
    pub fn first_position(&self) -> u32 {
        self.padding_id + 1
    }

    /// Most tokens in one sequence: 512 of 514 rows, 8192 of 8194.
    pub fn usable_length(&self) -> usize {
        self.position_rows - self.first_position() as usize
    }

    /// Width of one attention head.
    pub fn head_width(&self) -> usize {
        self.hidden / self.heads
    }

    /// Number of parameters with the head.
    pub fn parameters(&self) -> u64 {
        let (h, f) = (self.hidden as u64, self.intermediate as u64);
        let tables = (self.vocabulary + self.position_rows + self.token_types) as u64 * h + 2 * h;
        let layer = 4 * (h * h + h) + 2 * h * f + f + h + 4 * h;
        tables + self.layers as u64 * layer + h * h + h + h + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::{Kind, cards};

    #[test]
    fn the_known_models_have_the_published_shapes() {
        for card in cards().iter().filter(|card| card.kind == Kind::CrossEncoder) {
            let config = EncoderConfig::parse(card.config).unwrap();
            assert_eq!(config.usable_length(), card.max_length, "{}", card.name);
            assert_eq!(config.parameters(), card.parameters, "{}", card.name);
            assert_eq!((config.head_width(), config.first_position()), (64, 2));
        }
    }

    fn altered(change: impl Fn(&mut serde_json::Map<String, Value>)) -> Result<EncoderConfig, String> {
        let mut json: Value = serde_json::from_str(cards()[0].config).unwrap();
        change(json.as_object_mut().unwrap());
        EncoderConfig::parse(&json.to_string())
    }

    #[test]
    fn keys_that_transformers_5_leaves_out_have_their_defaults() {
        let full = altered(|_| ()).unwrap();
        let bare = altered(|json| {
            for key in
                ["position_embedding_type", "type_vocab_size", "layer_norm_eps", "hidden_act", "id2label"]
            {
                json.remove(key);
            }
        });
        assert_eq!(bare.unwrap(), full);
    }

    #[test]
    fn each_fault_is_named() {
        let refused = |key: &str, value: Value, says: &str| {
            let error = altered(|json| drop(json.insert(key.to_owned(), value.clone()))).unwrap_err();
            assert!(error.contains(says), "{error}");
        };
        refused("num_attention_heads", 7.into(), "heads must divide");
        refused("num_attention_heads", 0.into(), "heads must divide");
        refused("hidden_act", "gelu_new".into(), "gelu_new");
        refused("position_embedding_type", "relative_key".into(), "relative_key");
        refused("model_type", "deberta-v2".into(), "deberta-v2");
        refused("architectures", serde_json::json!(["XLMRobertaModel"]), "no classification head");
        refused("max_position_embeddings", 2.into(), "none is left");
        refused("vocab_size", "many".into(), "vocab_size");
        refused("id2label", serde_json::json!({"0": "no", "1": "yes"}), "2 labels");
        assert!(EncoderConfig::parse("{").unwrap_err().contains("not JSON"));
    }
}
