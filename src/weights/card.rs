//! The known models: what `models/*/card.toml` and `config.json` say about each.

use std::sync::LazyLock;

use serde::Deserialize;

use super::fnv1a;

/// How a model turns a pair of texts into a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Query and candidate in one input, one logit from a classification head.
    CrossEncoder,
    /// A prompt per candidate, logit("yes") - logit("no") of a language model.
    LlmScorer,
}

impl Kind {
    /// The name used in outputs.
    pub fn name(self) -> &'static str {
        match self {
            Self::CrossEncoder => "cross-encoder",
            Self::LlmScorer => "llm-scorer",
        }
    }
}

/// The texts around query and document that an LLM scorer reads.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prompt {
    /// Before the pair.
    pub prefix: String,
    /// The pair; `{instruct}`, `{query}` and `{document}` stand for the texts.
    pub body: String,
    /// After the pair; the score is read at its end.
    pub suffix: String,
    /// The instruction used unless another is given.
    pub instruct: String,
}

impl Prompt {
    /// A fixed hash (64-bit FNV-1a, in hexadecimal) of the prompt with this instruction: results with equal hashes
    /// were asked the same way.
    pub fn hash(&self, instruct: &str) -> String {
        let body = self.body.replace("{instruct}", instruct);
        let parts = [self.prefix.as_str(), &body, &self.suffix];
        // A byte that no text has keeps the parts apart.
        format!("{:016x}", fnv1a(&parts.map(str::as_bytes).join(&0xff)))
    }
}

/// One known model.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// Name on the command line: the folder under `models/`.
    #[serde(skip)]
    pub name: &'static str,
    /// Repository on the hub.
    pub hub: String,
    /// Branch, tag or commit that is fetched; results record the commit it resolved to.
    pub revision: String,
    /// What it computes.
    pub kind: Kind,
    /// SPDX id of the weights' licence, as published.
    pub licence: String,
    /// One line on the network.
    pub architecture: String,
    /// Number of parameters.
    pub parameters: u64,
    /// Most tokens in one input.
    pub max_length: usize,
    /// Files a download fetches.
    pub files: Vec<String>,
    /// The prompt, for LLM scorers.
    #[serde(default)]
    pub prompt: Option<Prompt>,
    /// `config.json` written from published shapes, used with random weights.
    #[serde(skip)]
    pub config: &'static str,
}

/// The shape of a known network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Layers, L.
    pub layers: usize,
    /// Width, W.
    pub width: usize,
    /// Parameters that multiply every token: all but the embeddings.
    pub body_parameters: u64,
}

impl Card {
    /// The network's shape, from the configuration beside the card.
    pub fn shape(&self) -> Shape {
        #[derive(Deserialize)]
        struct Sizes {
            num_hidden_layers: usize,
            hidden_size: usize,
            vocab_size: u64,
            max_position_embeddings: u64,
        }
        let sizes: Sizes =
            serde_json::from_str(self.config).expect("the configurations in models/ are tested to read");
        // LLM scorers turn positions into rotations; cross-encoders look them up.
        let positions = if self.kind == Kind::CrossEncoder { sizes.max_position_embeddings } else { 0 };
        let looked_up = (sizes.vocab_size + positions) * sizes.hidden_size as u64;
        Shape {
            layers: sizes.num_hidden_layers,
            width: sizes.hidden_size,
            body_parameters: self.parameters.saturating_sub(looked_up),
        }
    }
}

macro_rules! known {
    ($($name:literal),* $(,)?) => {
        [$((
            $name,
            include_str!(concat!("../../models/", $name, "/card.toml")),
            include_str!(concat!("../../models/", $name, "/config.json")),
        )),*]
    };
}

static CARDS: LazyLock<Vec<Card>> = LazyLock::new(|| {
    known!["bge-base", "bge-large", "bge-v2-m3", "qwen3.5-0.8b", "qwen3.5-2b", "qwen3.5-4b"]
        .into_iter()
        .map(|(name, text, config)| {
            let card: Card =
                toml::from_str(text).expect("models/*/card.toml are checked by this module's test");
            Card { name, config, ..card }
        })
        .collect()
});

/// The known models, smallest first within a family.
pub fn cards() -> &'static [Card] {
    &CARDS
}

/// The card of `name`.
pub fn card(name: &str) -> Option<&'static Card> {
    CARDS.iter().find(|card| card.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_card_and_config_reads() {
        for card in cards() {
            assert!(card.hub.contains('/') && card.parameters > 200_000_000 && card.max_length >= 512);
            assert_eq!(card.prompt.is_some(), card.kind == Kind::LlmScorer, "{}", card.name);
            let config: serde_json::Value = serde_json::from_str(card.config).unwrap();
            assert!(config["hidden_size"].as_u64().unwrap() >= 768, "{}", card.name);
        }
    }

    #[test]
    fn the_prompt_ends_in_an_empty_thought() {
        let prompt = card("qwen3.5-0.8b").unwrap().prompt.as_ref().unwrap();
        assert!(prompt.prefix.ends_with("<|im_end|>\n<|im_start|>user\n"));
        assert_eq!(prompt.body, "<Instruct>: {instruct}\n<Query>: {query}\n<Document>: {document}");
        assert_eq!(prompt.suffix, "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
    }

    #[test]
    fn a_prompts_hash_tells_instructions_apart_and_models_alike() {
        let prompt = card("qwen3.5-0.8b").unwrap().prompt.as_ref().unwrap();
        let hash = prompt.hash(&prompt.instruct);
        assert_eq!(hash.len(), 16);
        assert_ne!(hash, prompt.hash("Find memories"));
        let other = card("qwen3.5-4b").unwrap().prompt.as_ref().unwrap();
        assert_eq!(hash, other.hash(&other.instruct));
    }
}
