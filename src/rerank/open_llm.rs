//! From a Qwen3.5 model's files to a loaded scorer.

use super::llm_scorer::{CPU_GROUP, LlmScorer, SharePrefix};
use super::open::{Engine, Opening};
use super::prompt::Frame;
use super::tokenize::{TextTokenizer, Truncation};
use super::{ModelInfo, Scorer};
use crate::error::{Error, Result};
use crate::nn::{Qwen3_5, Qwen3_5Config};
use crate::weights::{Kind, card};

/// Most tokens in a prompt unless asked otherwise.
const DEFAULT_MAX_LENGTH: usize = 8192;
/// The score is the first answer's logit less the second's.
const ANSWERS: [&str; 2] = ["yes", "no"];
/// The card whose prompt serves models without a card; all Qwen3.5 cards have the same.
const PROMPT_OF: &str = "qwen3.5-0.8b";

/// Whether a `config.json` is of a model that is opened here.
pub(super) fn reads(config: &str) -> bool {
    let json: Option<serde_json::Value> = serde_json::from_str(config).ok();
    json.and_then(|json| Some(Qwen3_5Config::is_model_type(json.get("model_type")?.as_str()?)))
        .unwrap_or(false)
}

/// Opens the model.
///
/// # Errors
/// As [`super::open`].
pub(super) fn open(mut opening: Opening) -> Result<Box<dyn Scorer>> {
    let (model, options) = (opening.model, opening.options);
    if options.engine == Engine::Candle {
        return Err(Error::Usage(format!(
            "--engine candle has no Qwen3.5 network, so it cannot run {model}; use --engine packed"
        )));
    }
    let config = Qwen3_5Config::parse(&opening.files.config).map_err(|why| Error::model(model, why))?;
    let max_length = options.max_length.unwrap_or(DEFAULT_MAX_LENGTH).min(config.max_positions);
    if let Some(asked) = options.max_length.filter(|&asked| asked > max_length) {
        let note = format!("max length lowered from {asked} to {max_length}, the most that {model} takes");
        opening.notes.push(note);
    }
    if options.truncation == Truncation::LongestFirst {
        opening.notes.push(
            "--truncation longest-first is for cross-encoders' pairs: of a prompt, a query over 3/4 of the limit and \
             then the document are cut"
                .to_owned(),
        );
    }
    let prompt = card(model).or_else(|| card(PROMPT_OF)).and_then(|card| card.prompt.as_ref());
    let prompt = prompt.ok_or_else(|| Error::model(model, "its card has no prompt"))?;
    let instruct = options.instruct.as_deref().unwrap_or(&prompt.instruct);
    let tokenizer = opening.tokenizer(config.vocabulary)?;
    let frame = Frame::new(model, prompt, instruct, &tokenizer, max_length)?;
    let answers = answers(model, &tokenizer)?;
    if opening.placement.device.is_cpu() {
        let needed = memory_needed(&config, max_length);
        refuse_too_large(model, needed, available_memory())?;
    }
    let parameters = opening.parameters(config.parameters())?;
    let network = Qwen3_5::load(&config, &parameters, &opening.placement, options.kernels, &answers)?;
    Ok(Box::new(LlmScorer {
        info: ModelInfo {
            kind: Kind::LlmScorer,
            prompt_hash: Some(prompt.hash(instruct)),
            share_prefix: Some(options.share_prefix == SharePrefix::On),
            ..opening.info(max_length, config.parameters())
        },
        placement: opening.placement,
        tokenizer,
        frame,
        share: options.share_prefix,
        network,
    }))
}

/// The ids of the answers.
fn answers(model: &str, tokenizer: &TextTokenizer) -> Result<[u32; 2]> {
    let mut ids = [0; 2];
    for (id, answer) in ids.iter_mut().zip(ANSWERS) {
        let of_answer =
            tokenizer.ids(answer).map_err(|why| Error::model(model, format!("{answer:?} {why}")))?;
        match of_answer.as_slice() {
            [single] => *id = *single,
            several => {
                return Err(Error::model(
                    model,
                    format!(
                        "its tokenizer makes {} tokens of {answer:?}; the score needs exactly one",
                        several.len()
                    ),
                ));
            }
        }
    }
    if ids[0] == ids[1] {
        return Err(Error::model(
            model,
            format!("its tokenizer makes the token {} of both yes and no; the score needs two", ids[0]),
        ));
    }
    Ok(ids)
}

/// Bytes that weights and one group's activations take on the CPU, all in f32. A larger `--batch` needs no more: a
/// pass is computed group by group, and all candidates read one shared state.
fn memory_needed(config: &Qwen3_5Config, max_length: usize) -> u64 {
    let tokens = CPU_GROUP.max(max_length.min(DEFAULT_MAX_LENGTH));
    // The widest step of a layer: projections in, convolved and mixed; or the feed-forward block's.
    let delta = 2 * config.mixed_width() + 3 * config.values_width();
    let widest = delta.max(3 * config.intermediate) + 4 * config.hidden;
    4 * (config.parameters() + (tokens * widest) as u64)
}

/// Bytes that programs can still take without swapping; `None` where the system does not say.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Refuses before loading what the system would kill while it runs.
fn refuse_too_large(model: &str, needed: u64, available: Option<u64>) -> Result<()> {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    match available {
        Some(available) if needed > available => Err(Error::OutOfMemory(format!(
            "{model} needs about {:.1} GiB on the CPU (weights in f32), and {:.1} GiB are available; take a smaller \
             model, or free memory",
            gib(needed),
            gib(available)
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::cards;

    #[test]
    fn what_does_not_fit_is_refused_with_the_estimate() {
        let of = |name: &str| {
            let config = Qwen3_5Config::parse(card(name).unwrap().config).unwrap();
            memory_needed(&config, DEFAULT_MAX_LENGTH)
        };
        let gib = 1u64 << 30;
        assert!((3 * gib..5 * gib).contains(&of("qwen3.5-0.8b")));
        assert!((16 * gib..19 * gib).contains(&of("qwen3.5-4b")));
        let error = refuse_too_large("qwen3.5-4b", of("qwen3.5-4b"), Some(15 * gib)).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory(_)), "{error}");
        assert!(error.to_string().contains("15.0 GiB are available"), "{error}");
        assert!(refuse_too_large("qwen3.5-4b", of("qwen3.5-4b"), Some(24 * gib)).is_ok());
        assert!(refuse_too_large("qwen3.5-4b", of("qwen3.5-4b"), None).is_ok());
    }

    #[test]
    fn qwen_configs_are_told_from_cross_encoders() {
        for card in cards() {
            assert_eq!(reads(card.config), card.kind == Kind::LlmScorer, "{}", card.name);
        }
        assert!(!reads("{"));
    }
}
