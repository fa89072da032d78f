//! `config.json` of Qwen3.5 text models, flat or nested under `text_config`.

use serde_json::Value;

/// What mixes the tokens in one layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerKind {
    /// Gated delta rule: a state of fixed size.
    LinearAttention,
    /// Gated causal attention: keys and values of every token.
    FullAttention,
}

/// Shape of a Qwen3.5 dense text model.
#[derive(Debug, Clone, PartialEq)]
pub struct Qwen3_5Config {
    /// Rows of the embedding table.
    pub vocabulary: usize,
    /// Width of a token's state.
    pub hidden: usize,
    /// Width of the feed-forward block.
    pub intermediate: usize,
    /// The layers, first to last.
    pub layers: Vec<LayerKind>,
    /// Query heads of full attention.
    pub heads: usize,
    /// Key and value heads of full attention; they divide `heads`.
    pub kv_heads: usize,
    /// Width of a full-attention head.
    pub head_width: usize,
    /// Leading dimensions of a head that are rotated; even.
    pub rotary: usize,
    /// Base of the rotation's wavelengths.
    pub rope_theta: f64,
    /// Query and key heads of the delta rule; they divide `value_heads`.
    pub key_heads: usize,
    /// Value heads of the delta rule.
    pub value_heads: usize,
    /// Width of a delta-rule query or key head.
    pub key_width: usize,
    /// Width of a delta-rule value head.
    pub value_width: usize,
    /// Tokens that the causal convolution looks at, the current one included.
    pub taps: usize,
    /// Added to the mean square in norms.
    pub norm_epsilon: f64,
    /// Most tokens in one sequence.
    pub max_positions: usize,
    /// True: the output head is the embedding table.
    pub tied: bool,
}

impl Qwen3_5Config {
    /// Whether a `config.json` with this `model_type` is read here.
    pub fn is_model_type(model_type: &str) -> bool {
        matches!(model_type, "qwen3_5" | "qwen3_5_text")
    }

    /// Reads the text of a `config.json`.
    ///
    /// # Errors
    /// One sentence that names the key at fault.
    pub fn parse(text: &str) -> Result<Self, String> {
        let outer: Value = serde_json::from_str(text).map_err(|e| format!("config.json is not JSON: {e}"))?;
        let json = outer.get("text_config").filter(|nested| nested.is_object()).unwrap_or(&outer);
        let model_type = json.get("model_type").and_then(Value::as_str).unwrap_or("");
        if !Self::is_model_type(model_type) {
            return Err(format!(
                "config.json has model_type {model_type:?}; LLM scorers of type qwen3_5 and qwen3_5_text are \
                 supported"
            ));
        }
        refuse_variants(json)?;
        let fields = Fields(json);
        let rope = Fields(json.get("rope_parameters").filter(|rope| rope.is_object()).unwrap_or(json));
        let head_width = fields.size("head_dim")?;
        let config = Self {
            vocabulary: fields.size("vocab_size")?,
            hidden: fields.size("hidden_size")?,
            intermediate: fields.size("intermediate_size")?,
            layers: fields.layers()?,
            heads: fields.size("num_attention_heads")?,
            kv_heads: fields.size("num_key_value_heads")?,
            head_width,
            rotary: (head_width as f64 * rope.number("partial_rotary_factor")?) as usize,
            rope_theta: rope.number("rope_theta")?,
            key_heads: fields.size("linear_num_key_heads")?,
            value_heads: fields.size("linear_num_value_heads")?,
            key_width: fields.size("linear_key_head_dim")?,
            value_width: fields.size("linear_value_head_dim")?,
            taps: fields.size("linear_conv_kernel_dim")?,
            norm_epsilon: fields.number("rms_norm_eps")?,
            max_positions: fields.size("max_position_embeddings")?,
            tied: [json, &outer]
                .iter()
                .find_map(|level| level.get("tie_word_embeddings").and_then(Value::as_bool))
                .unwrap_or(false),
        };
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        let divides = |name: &str, part: usize, whole_name: &str, whole: usize| {
            if whole.is_multiple_of(part) {
                Ok(())
            } else {
                Err(format!(
                    "config.json has {name} {part} and {whole_name} {whole}: the first must divide the second"
                ))
            }
        };
        divides("num_key_value_heads", self.kv_heads, "num_attention_heads", self.heads)?;
        divides("linear_num_key_heads", self.key_heads, "linear_num_value_heads", self.value_heads)?;
        if self.rotary == 0 || self.rotary > self.head_width || !self.rotary.is_multiple_of(2) {
            return Err(format!(
                "config.json rotates {} of head_dim {} dimensions (partial_rotary_factor); it must be an even \
                 number up to head_dim",
                self.rotary, self.head_width
            ));
        }
        Ok(())
    }

    /// Width of all query (or key) heads of the delta rule.
    pub fn keys_width(&self) -> usize {
        self.key_heads * self.key_width
    }

    /// Width of all value heads of the delta rule.
    pub fn values_width(&self) -> usize {
        self.value_heads * self.value_width
    }

    /// Columns that the convolution runs over: queries, keys and values of the delta rule.
    pub fn mixed_width(&self) -> usize {
        2 * self.keys_width() + self.values_width()
    }

    /// Number of parameters of the text model.
    pub fn parameters(&self) -> u64 {
        let (h, q) = (self.hidden, self.heads * self.head_width);
        let kv = self.kv_heads * self.head_width;
        let full = h * (2 * q + 2 * kv) + q * h + 2 * self.head_width;
        let (mixed, values) = (self.mixed_width(), self.values_width());
        let linear = h * (mixed + values + 2 * self.value_heads)
            + mixed * self.taps
            + 2 * self.value_heads
            + self.value_width
            + values * h;
        let of_layer = |kind: &LayerKind| match kind {
            LayerKind::LinearAttention => linear,
            LayerKind::FullAttention => full,
        };
        let mixers: usize = self.layers.iter().map(of_layer).sum();
        let rest = self.layers.len() * (3 * h * self.intermediate + 2 * h);
        let tables = if self.tied { 1 } else { 2 } * self.vocabulary * h;
        (mixers + rest + tables + h) as u64
    }
}

/// Variants of the architecture that would be computed wrongly if they were not looked for.
fn refuse_variants(json: &Value) -> Result<(), String> {
    let refuse = |key: &str, found: &Value, supported: &str| {
        Err(format!("config.json has {key} {found}; {supported} is supported"))
    };
    match json.get("hidden_act") {
        Some(found) if found != "silu" => return refuse("hidden_act", found, "\"silu\""),
        _ => {}
    }
    match json.get("attention_bias") {
        Some(found) if found == true => return refuse("attention_bias", found, "false"),
        _ => {}
    }
    match json.get("attn_output_gate") {
        Some(found) if found == false => return refuse("attn_output_gate", found, "true"),
        _ => {}
    }
    match json.get("rope_parameters").and_then(|rope| rope.get("rope_type")) {
        Some(found) if found != "default" => refuse("rope_type", found, "\"default\""),
        _ => Ok(()),
    }
}

/// One level of the JSON.
struct Fields<'a>(&'a Value);

impl Fields<'_> {
    /// A size: a whole number above zero.
    fn size(&self, key: &str) -> Result<usize, String> {
        let value = self.0.get(key).and_then(Value::as_u64).and_then(|v| usize::try_from(v).ok());
        value.filter(|&v| v > 0).ok_or_else(|| format!("config.json has no whole number {key} above zero"))
    }

    fn number(&self, key: &str) -> Result<f64, String> {
        self.0.get(key).and_then(Value::as_f64).ok_or_else(|| format!("config.json has no number {key}"))
    }

    /// `layer_types` where it is given, else every `full_attention_interval`th layer is full attention.
    fn layers(&self) -> Result<Vec<LayerKind>, String> {
        let count = self.size("num_hidden_layers")?;
        let Some(types) = self.0.get("layer_types").and_then(Value::as_array) else {
            let interval = self.size("full_attention_interval")?;
            let kind = |layer: usize| match (layer + 1).is_multiple_of(interval) {
                true => LayerKind::FullAttention,
                false => LayerKind::LinearAttention,
            };
            return Ok((0..count).map(kind).collect());
        };
        if types.len() != count {
            return Err(format!(
                "config.json has num_hidden_layers {count}, and layer_types lists {}",
                types.len()
            ));
        }
        types
            .iter()
            .map(|kind| match kind.as_str() {
                Some("linear_attention") => Ok(LayerKind::LinearAttention),
                Some("full_attention") => Ok(LayerKind::FullAttention),
                _ => Err(format!(
                    "config.json has a layer of type {kind}; linear_attention and full_attention are supported"
                )),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::{Kind, cards};

    #[test]
    fn the_known_models_have_the_published_shapes() {
        let mut seen = 0;
        for card in cards().iter().filter(|card| card.kind == Kind::LlmScorer) {
            let config = Qwen3_5Config::parse(card.config).unwrap();
            assert_eq!(config.parameters(), card.parameters, "{}", card.name);
            assert_eq!(config.max_positions, card.max_length, "{}", card.name);
            assert_eq!((config.rotary, config.taps, config.tied), (64, 4, true));
            let full = config.layers.iter().filter(|kind| **kind == LayerKind::FullAttention).count();
            assert_eq!(full * 4, config.layers.len());
            seen += 1;
        }
        assert_eq!(seen, 3);
    }

    fn altered(change: impl Fn(&mut serde_json::Map<String, Value>)) -> Result<Qwen3_5Config, String> {
        let card = cards().iter().find(|card| card.kind == Kind::LlmScorer).unwrap();
        let mut json: Value = serde_json::from_str(card.config).unwrap();
        change(json.as_object_mut().unwrap());
        Qwen3_5Config::parse(&json.to_string())
    }

    #[test]
    fn layer_types_may_be_left_to_the_interval_and_the_config_may_be_nested() {
        let flat = altered(|_| ()).unwrap();
        assert_eq!(altered(|json| drop(json.remove("layer_types"))).unwrap(), flat);
        let nested = altered(|json| {
            let mut text = std::mem::take(json);
            let tied = text.remove("tie_word_embeddings").unwrap();
            json.insert("model_type".to_owned(), "qwen3_5".into());
            json.insert("tie_word_embeddings".to_owned(), tied);
            json.insert("text_config".to_owned(), Value::Object(text));
        });
        assert_eq!(nested.unwrap(), flat);
    }

    #[test]
    fn each_fault_is_named() {
        let refused = |key: &str, value: Value, says: &str| {
            let error = altered(|json| drop(json.insert(key.to_owned(), value.clone()))).unwrap_err();
            assert!(error.contains(says), "{error}");
        };
        refused("model_type", "qwen3_next".into(), "qwen3_next");
        refused("hidden_act", "gelu".into(), "gelu");
        refused("attention_bias", true.into(), "attention_bias");
        refused("attn_output_gate", false.into(), "attn_output_gate");
        refused("num_key_value_heads", 3.into(), "must divide");
        refused("linear_num_key_heads", 0.into(), "linear_num_key_heads");
        refused("num_hidden_layers", 23.into(), "layer_types lists 24");
        refused("layer_types", vec!["mamba"; 24].into(), "mamba");
        refused("rope_parameters", serde_json::json!({"rope_type": "yarn"}), "yarn");
        refused("rope_parameters", serde_json::json!({"rope_theta": 1.0}), "partial_rotary_factor");
        assert!(Qwen3_5Config::parse("{").unwrap_err().contains("not JSON"));
    }
}
