//! Flags that several commands share, and what they resolve to.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::output::{self, Output};
use crate::device::{DeviceChoice, DtypeChoice};
use crate::error::Error;
use crate::measure::plan::Variant;
use crate::measure::results::Results;
use crate::policy::Settings;
use crate::pursuit;
use crate::report::{Csv, Exporter, Json};

/// Flags of the selectors.
#[derive(Debug, Args)]
#[command(next_help_heading = "Selectors")]
pub struct SelectorFlags {
    /// MMR's balance X in [0, 1]: each step picks the largest X·cos(q, m) - (1 - X)·max cos(picked, m);
    /// the first pick is the most relevant
    #[arg(long, value_name = "X", default_value_t = 0.5, value_parser = unit_interval, allow_negative_numbers = true)]
    pub mmr_relevance: f64,
    /// Ridge λ of the refit
    #[arg(long, value_name = "X", default_value_t = 1e-10, value_parser = not_negative, allow_negative_numbers = true)]
    pub ridge: f64,
    /// Take vectors as they are instead of scaling them to unit length
    #[arg(long)]
    pub no_normalize: bool,
    /// MemPursuit: stop early by the relative reduction of the residual (Eq. 7); the budget stays the limit
    #[arg(long)]
    pub adaptive: bool,
    /// Relative reduction τ below which a step counts as idle
    #[arg(long, value_name = "X", default_value_t = 1e-5, value_parser = not_negative, allow_negative_numbers = true)]
    pub tolerance: f64,
    /// Idle steps in a row that end an adaptive run
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = positive)]
    pub patience: usize,
}

impl SelectorFlags {
    /// Writes the flags into `settings`.
    pub fn apply(&self, settings: &mut Settings) {
        settings.mmr_relevance = self.mmr_relevance;
        settings.pursuit.ridge = self.ridge;
        settings.pursuit.normalize =
            if self.no_normalize { pursuit::Normalize::No } else { pursuit::Normalize::Yes };
        settings.pursuit.stop =
            self.adaptive.then_some(pursuit::Stop { tolerance: self.tolerance, patience: self.patience });
    }
}

/// Flags of the rerankers.
#[derive(Debug, Args)]
#[command(next_help_heading = "Rerankers")]
pub struct RerankerFlags {
    /// Candidates in one forward pass
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = positive)]
    pub batch: usize,
    /// Pretrained weights, or random ones: the exact architecture, no download, and scores that mean nothing
    /// [default: pretrained; random in the demonstration]
    #[arg(long, value_enum)]
    pub weights: Option<Weights>,
    /// This project's packed networks, or candle-transformers' padded ones as a baseline
    #[arg(long, value_enum, default_value_t = Engine::Packed)]
    pub engine: Engine,
    /// This project's fused operations, or compositions of candle's own
    #[arg(long, value_enum, default_value_t = Kernels::Fused)]
    pub kernels: Kernels,
    /// Longest pair or prompt, tokens; never above the model's own limit
    /// [default: cross-encoders 512, LLM prompts 8192]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub max_length: Option<usize>,
    /// What is cut where a pair is too long: the passage alone, or the longer text first
    #[arg(long, value_enum, default_value_t = Truncation::Passage)]
    pub truncation: Truncation,
    /// The instruction in an LLM scorer's prompt [default: as `models show NAME` prints it]
    #[arg(long, value_name = "TEXT")]
    pub instruct: Option<String>,
    /// LLM scorers: run what all prompts of a pool begin with once, or with every prompt
    #[arg(long, value_enum, default_value_t = SharePrefix::On)]
    pub share_prefix: SharePrefix,
    /// A tokenizer.json to use with random weights instead of the stand-in
    #[arg(long, value_name = "FILE")]
    pub tokenizer: Option<PathBuf>,
    /// Use only what is in the local cache (also HF_HUB_OFFLINE=1)
    #[arg(long)]
    pub offline: bool,
}

/// `--weights`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Weights {
    Pretrained,
    Random,
}

/// `--engine`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    Packed,
    Candle,
}

/// `--kernels`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kernels {
    Fused,
    Stock,
}

/// `--share-prefix`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SharePrefix {
    On,
    Off,
}

/// `--truncation`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Truncation {
    Passage,
    LongestFirst,
}

/// Flags of the machine.
#[derive(Debug, Args)]
#[command(next_help_heading = "Machine")]
pub struct MachineFlags {
    /// Where networks run: auto, cpu, cuda or cuda:N
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: String,
    /// How networks compute: auto (f32 on the CPU, bf16 on CUDA), f32, tf32, f16 or bf16
    #[arg(long, value_name = "DTYPE", default_value = "auto")]
    pub dtype: String,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub threads: Option<usize>,
}

/// Flags that send results into files.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct ExportFlags {
    /// Write everything measured to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the rows to this file
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write the table to this file
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
}

impl ExportFlags {
    /// Refuses, before the work, a file that could not be written after it.
    pub fn check(&self) -> Result<(), Error> {
        for path in [&self.json, &self.csv, &self.markdown].into_iter().flatten() {
            output::check_writable(path)?;
        }
        Ok(())
    }

    /// Prints the table and writes the files.
    pub fn write(
        &self,
        results: &Results,
        table: &dyn Exporter,
        markdown: &dyn Exporter,
    ) -> Result<(), Error> {
        Output::stdout().write(&table.export(results)?)?;
        let exports: [(&Option<PathBuf>, &dyn Exporter); 3] =
            [(&self.json, &Json), (&self.csv, &Csv), (&self.markdown, markdown)];
        for (path, exporter) in exports {
            if let Some(path) = path {
                Output::create(path)?.write(&exporter.export(results)?)?;
            }
        }
        Ok(())
    }
}

/// A whole number from 1.
pub fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".into()),
        Ok(number) => Ok(number),
        Err(_) => Err("not a whole number".into()),
    }
}

fn number(text: &str) -> Result<f64, String> {
    text.parse::<f64>().ok().filter(|x| x.is_finite()).ok_or_else(|| "not a finite number".to_string())
}

/// A finite number from 0.
pub fn not_negative(text: &str) -> Result<f64, String> {
    number(text).and_then(|x| if x >= 0.0 { Ok(x) } else { Err("must not be negative".into()) })
}

/// A number from 0 to 1.
pub fn unit_interval(text: &str) -> Result<f64, String> {
    number(text)
        .and_then(|x| if (0.0..=1.0).contains(&x) { Ok(x) } else { Err("must lie between 0 and 1".into()) })
}

impl RerankerFlags {
    /// Writes the flags, and where networks run, into `settings`.
    ///
    /// # Errors
    /// A device or dtype that is no such thing.
    pub fn apply(&self, settings: &mut Settings, machine: &MachineFlags, seed: u64) -> Result<(), Error> {
        settings.batch = self.batch;
        let (device, dtype): (DeviceChoice, DtypeChoice) = (machine.device.parse()?, machine.dtype.parse()?);
        settings.device = device;
        #[cfg(feature = "neural")]
        {
            settings.reranker = self.options(device, dtype, seed);
        }
        #[cfg(not(feature = "neural"))]
        let _ = (dtype, seed);
        Ok(())
    }

    /// The reranker `model` as these flags run it.
    pub fn variant(&self, model: &str) -> Variant {
        let engine = match self.engine {
            Engine::Packed => "packed",
            Engine::Candle => "candle",
        };
        Variant { unshared: self.share_prefix == SharePrefix::Off, ..Variant::reranker(model, engine) }
    }

    #[cfg(feature = "neural")]
    fn options(&self, device: DeviceChoice, dtype: DtypeChoice, seed: u64) -> crate::rerank::OpenOptions {
        use crate::{nn, rerank, weights};
        let mut hub = weights::Hub::default();
        hub.offline |= self.offline;
        rerank::OpenOptions {
            weights: match self.weights {
                Some(Weights::Random) => weights::WeightsSource::Random,
                Some(Weights::Pretrained) | None => weights::WeightsSource::Pretrained,
            },
            engine: match self.engine {
                Engine::Packed => rerank::Engine::Packed,
                Engine::Candle => rerank::Engine::Candle,
            },
            device,
            dtype,
            kernels: match self.kernels {
                Kernels::Fused => nn::ops::Kernels::Fused,
                Kernels::Stock => nn::ops::Kernels::Stock,
            },
            max_length: self.max_length,
            truncation: match self.truncation {
                Truncation::Passage => rerank::Truncation::Passage,
                Truncation::LongestFirst => rerank::Truncation::LongestFirst,
            },
            seed,
            instruct: self.instruct.clone(),
            share_prefix: match self.share_prefix {
                SharePrefix::On => rerank::SharePrefix::On,
                SharePrefix::Off => rerank::SharePrefix::Off,
            },
            tokenizer: self.tokenizer.clone(),
            hub,
        }
    }
}
