//! From a model's name to a loaded scorer.

use std::path::{Path, PathBuf};

use super::candle_engine::CandleEngine;
use super::cross_encoder::{CrossEncoder, Network};
use super::llm_scorer::SharePrefix;
use super::open_llm;
use super::stand_in::StandIn;
use super::tokenize::{PairLayout, SHORTEST_LIMIT, TextTokenizer, Truncation};
use super::{ModelInfo, Scorer};
use crate::device::{DeviceChoice, DtypeChoice, Placement, place};
use crate::error::{Error, Result};
use crate::nn::ops::Kernels;
use crate::nn::{EncoderConfig, XlmRoberta};
use crate::weights::{Card, Hub, Kind, Parameters, WeightsSource, card, cards, folder};

/// Most tokens in a cross-encoder's pair unless asked otherwise (FlagEmbedding's default).
const DEFAULT_MAX_LENGTH: usize = 512;

/// `--engine`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    /// This project's networks, over packed rows.
    #[default]
    Packed,
    /// candle-transformers' padded network.
    Candle,
}

impl Engine {
    /// The name used on the command line and in outputs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Packed => "packed",
            Self::Candle => "candle",
        }
    }
}

/// How to open a model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OpenOptions {
    /// Pretrained, or random for timing.
    pub weights: WeightsSource,
    /// Whose network computes.
    pub engine: Engine,
    /// Where it computes.
    pub device: DeviceChoice,
    /// In which number format.
    pub dtype: DtypeChoice,
    /// Which form of each step.
    pub kernels: Kernels,
    /// Most tokens in a pair; 512 unless given, never above the model's own limit.
    pub max_length: Option<usize>,
    /// Which side of a pair gives way.
    pub truncation: Truncation,
    /// Seed of random weights.
    pub seed: u64,
    /// A `tokenizer.json` to use instead of the model's own.
    pub tokenizer: Option<PathBuf>,
    /// Whether what a pool's prompts begin with is run once (LLM scorers).
    pub share_prefix: SharePrefix,
    /// The instruction in an LLM scorer's prompt, instead of its card's.
    pub instruct: Option<String>,
    /// The hub and its cache.
    pub hub: Hub,
}

/// Opens `model`: a known name, a folder, or a hub id `org/name[@revision]`. `progress` is told, a line at a time,
/// what takes long.
///
/// # Errors
/// [`Error::Usage`] for an unknown name or options that do not go together, [`Error::File`] for a folder without
/// its files, [`Error::Model`] for weights that cannot be had or do not fit.
pub fn open(model: &str, options: &OpenOptions, progress: &dyn Fn(&str)) -> Result<Box<dyn Scorer>> {
    let source = Source::find(model)?;
    let placement = place(options.device, options.dtype)?;
    let notes = placement.note.clone().into_iter().collect();
    let files = source.files(options, progress)?;
    let opening = Opening { model, options, progress, placement, notes, files };
    match open_llm::reads(&opening.files.config) {
        true => open_llm::open(opening),
        false => open_cross_encoder(opening),
    }
}

/// A model on its way from its files to a scorer.
pub(super) struct Opening<'a> {
    pub(super) model: &'a str,
    pub(super) options: &'a OpenOptions,
    progress: &'a dyn Fn(&str),
    pub(super) placement: Placement,
    pub(super) notes: Vec<String>,
    pub(super) files: Found,
}

impl Opening<'_> {
    /// The tokenizer named in the options, the model's own, or a stand-in.
    pub(super) fn tokenizer(&mut self, vocabulary: usize) -> Result<TextTokenizer> {
        match self.options.tokenizer.as_ref().or(self.files.tokenizer.as_ref()) {
            Some(path) => TextTokenizer::read(path, vocabulary),
            None => {
                self.notes.push(
                    "no tokenizer.json is at hand: a stand-in of about 1.3 tokens a word is used, as random \
                     weights allow; token counts are estimates"
                        .to_owned(),
                );
                Ok(TextTokenizer::StandIn(StandIn::new(vocabulary)))
            }
        }
    }

    /// The parameters, mapped or to be drawn; `count` of them.
    pub(super) fn parameters(&mut self, count: u64) -> Result<Parameters> {
        match self.options.weights {
            WeightsSource::Random => {
                (self.progress)(&format!(
                    "drawing random weights for {} ({} M parameters)",
                    self.model,
                    count / 1_000_000
                ));
                Ok(Parameters::random(self.model, self.options.seed))
            }
            WeightsSource::Pretrained => {
                (self.progress)(&format!("loading {}", self.model));
                Parameters::map(self.model, &self.files.weights)
            }
        }
    }

    /// What is known of the model so far.
    pub(super) fn info(&self, max_length: usize, parameters: u64) -> ModelInfo {
        ModelInfo {
            name: self.model.to_owned(),
            kind: Kind::CrossEncoder,
            engine: self.options.engine,
            device: self.placement.device_name.clone(),
            dtype: self.placement.dtype_choice.name().to_owned(),
            weights: self.options.weights,
            revision: self.files.revision.clone(),
            prompt_hash: None,
            share_prefix: None,
            max_length,
            parameters,
            notes: self.notes.clone(),
        }
    }
}

fn open_cross_encoder(mut opening: Opening) -> Result<Box<dyn Scorer>> {
    let (model, options) = (opening.model, opening.options);
    let config =
        EncoderConfig::parse(&opening.files.config).map_err(|message| Error::model(model, message))?;
    let max_length = max_length(model, options, &config, &mut opening.notes)?;
    let tokenizer = opening.tokenizer(config.vocabulary)?;
    let parameters = opening.parameters(config.parameters())?;
    let info = opening.info(max_length, config.parameters());
    let placement = opening.placement;
    let network = match options.engine {
        Engine::Packed => {
            Network::Packed(XlmRoberta::load(&config, &parameters, &placement, options.kernels)?)
        }
        Engine::Candle => Network::Candle(CandleEngine::load(&config, parameters, &placement)?),
    };
    Ok(Box::new(CrossEncoder {
        info,
        layout: PairLayout {
            begin_id: config.begin_id,
            end_id: config.end_id,
            max_length,
            truncation: options.truncation,
        },
        config,
        placement,
        tokenizer,
        network,
    }))
}

/// What a model's name stands for.
enum Source<'a> {
    Known(&'static Card),
    Folder(&'a Path),
    Hub { id: &'a str, revision: &'a str },
}

/// What was found of a model.
pub(super) struct Found {
    /// The text of `config.json`.
    pub(super) config: String,
    weights: Vec<PathBuf>,
    tokenizer: Option<PathBuf>,
    revision: Option<String>,
}

impl<'a> Source<'a> {
    fn find(model: &'a str) -> Result<Self> {
        if let Some(card) = card(model) {
            return Ok(Self::Known(card));
        }
        let path = Path::new(model);
        let looks_like_a_path = path.is_absolute() || model.starts_with('.') || model.ends_with('/');
        if path.is_dir() || looks_like_a_path {
            return Ok(Self::Folder(path));
        }
        let (id, revision) = model.split_once('@').unwrap_or((model, "main"));
        if let Some((owner, name)) = id.split_once('/')
            && ![owner, name, revision].contains(&"")
            && !name.contains('/')
        {
            return Ok(Self::Hub { id, revision });
        }
        let names: Vec<&str> = cards().iter().map(|card| card.name).collect();
        Err(Error::Usage(format!(
            "unknown model {model:?}: it is no folder, no hub id org/name[@revision], and not one of {}",
            names.join(", ")
        )))
    }

    fn files(&self, options: &OpenOptions, progress: &dyn Fn(&str)) -> Result<Found> {
        let random = options.weights == WeightsSource::Random;
        match *self {
            Self::Known(card) if random => Ok(Found {
                config: card.config.to_owned(),
                weights: Vec::new(),
                tokenizer: options.hub.cached_tokenizer(&card.hub, &card.revision),
                revision: None,
            }),
            Self::Known(card) => Found::fetch(&options.hub, &card.hub, &card.revision, progress),
            Self::Hub { id, revision } if random => Ok(Found {
                config: read(&options.hub.fetch_config(id, revision)?)?,
                weights: Vec::new(),
                tokenizer: options.hub.cached_tokenizer(id, revision),
                revision: None,
            }),
            Self::Hub { id, revision } => Found::fetch(&options.hub, id, revision, progress),
            Self::Folder(path) if random => {
                let tokenizer = path.join("tokenizer.json");
                Ok(Found {
                    config: read(&folder::config(path)?)?,
                    weights: Vec::new(),
                    tokenizer: tokenizer.is_file().then_some(tokenizer),
                    revision: None,
                })
            }
            Self::Folder(path) => Ok(Found {
                config: read(&folder::config(path)?)?,
                weights: folder::weights(path)?,
                tokenizer: match options.tokenizer {
                    Some(_) => None,
                    None => Some(folder::tokenizer(path)?),
                },
                revision: None,
            }),
        }
    }
}

impl Found {
    fn fetch(hub: &Hub, id: &str, revision: &str, progress: &dyn Fn(&str)) -> Result<Self> {
        let files = hub.fetch(id, revision, progress)?;
        Ok(Self {
            config: read(&files.config)?,
            weights: files.weights,
            tokenizer: Some(files.tokenizer),
            revision: files.revision,
        })
    }
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|e| Error::file(path, format!("cannot be read: {e}")))
}

/// The limit on a pair's length, lowered to what the model's position table allows.
fn max_length(
    model: &str,
    options: &OpenOptions,
    config: &EncoderConfig,
    notes: &mut Vec<String>,
) -> Result<usize> {
    let usable = config.usable_length();
    if usable < SHORTEST_LIMIT {
        return Err(Error::model(
            model,
            format!("its position table allows {usable} tokens; a pair needs at least {SHORTEST_LIMIT}"),
        ));
    }
    let asked = options.max_length.unwrap_or(DEFAULT_MAX_LENGTH);
    if asked < SHORTEST_LIMIT {
        return Err(Error::Usage(format!(
            "--max-length {asked} is too small: a cross-encoder's pair needs at least {SHORTEST_LIMIT} tokens"
        )));
    }
    if asked > usable {
        notes.push(format!("max length lowered from {asked} to {usable}, the most that {model} takes"));
    }
    Ok(asked.min(usable))
}
