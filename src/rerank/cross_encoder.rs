//! Cross-encoders: pairs through an encoder, one logit each.

use candle_core::Tensor;

use super::candle_engine::CandleEngine;
use super::pack::groups;
use super::tokenize::{PairLayout, TextTokenizer};
use super::{Laps, ModelInfo, Scorer, Scores, Stage, checks};
use crate::device::{Placement, candle_fault};
use crate::error::Result;
use crate::nn::{EncoderConfig, PackedRows, XlmRoberta};
use crate::work::Work;

/// Tokens computed together on the CPU: few enough for a layer's activations to stay in the processor's cache,
/// enough to keep its cores busy. On a GPU a pass is one group.
const CPU_GROUP: usize = 2048;
/// Where there are many threads, a group has at least this many tokens for each.
const TOKENS_A_THREAD: usize = 192;

/// Whose network computes.
pub(super) enum Network {
    /// Ours, over packed rows.
    Packed(XlmRoberta),
    /// candle-transformers', padded.
    Candle(CandleEngine),
}

/// A loaded cross-encoder with its tokenizer.
pub(super) struct CrossEncoder {
    pub(super) info: ModelInfo,
    pub(super) config: EncoderConfig,
    pub(super) placement: Placement,
    pub(super) tokenizer: TextTokenizer,
    pub(super) layout: PairLayout,
    pub(super) network: Network,
}

impl Scorer for CrossEncoder {
    fn score(&self, query: &str, texts: &[&str], batch: usize, laps: &mut dyn Laps) -> Result<Scores> {
        checks::query(query)?;
        let pairs = self.layout.pairs(&self.tokenizer, query, texts)?;
        laps.lap(Stage::Tokenize);
        let mut scores = self.score_ids(&pairs.sequences, batch, laps)?;
        scores.work.truncated = pairs.truncated;
        scores.work.truncated_tokens = pairs.truncated_tokens;
        checks::spread(&mut scores, texts);
        Ok(scores)
    }

    fn score_ids(&self, sequences: &[Vec<u32>], batch: usize, laps: &mut dyn Laps) -> Result<Scores> {
        checks::batch(batch)?;
        checks::ids(sequences, self.info.max_length, self.config.vocabulary)?;
        let tokens = sequences.iter().map(Vec::len).sum();
        let mut scores = Scores {
            logits: vec![0.0; sequences.len()],
            work: Work {
                passes: sequences.len().div_ceil(batch),
                real_tokens: tokens,
                naive_tokens: tokens,
                token_lengths: sequences.iter().map(|ids| ids.len() as u32).collect(),
                ..Work::default()
            },
            ..Scores::default()
        };
        match &self.network {
            Network::Packed(network) => {
                let indices: Vec<usize> = (0..sequences.len()).collect();
                for pass in indices.chunks(batch) {
                    self.packed_pass(network, sequences, pass, &mut scores.logits, laps)?;
                }
            }
            Network::Candle(engine) => {
                let mut order: Vec<usize> = (0..sequences.len()).collect();
                order.sort_by_key(|&index| std::cmp::Reverse(sequences[index].len()));
                for pass in order.chunks(batch) {
                    let rows: Vec<&[u32]> = pass.iter().map(|&index| sequences[index].as_slice()).collect();
                    let logits = engine.pass(&rows, &self.placement.device, laps)?;
                    let longest = rows.iter().map(|row| row.len()).max().unwrap_or(0);
                    scores.work.padded_tokens += rows.iter().map(|row| longest - row.len()).sum::<usize>();
                    pass.iter().zip(logits).for_each(|(&index, logit)| scores.logits[index] = logit);
                }
            }
        }
        checks::numbers(scores)
    }

    fn info(&self) -> &ModelInfo {
        &self.info
    }
}

impl CrossEncoder {
    /// One forward pass of ours over the sequences at `pass`, group by group.
    fn packed_pass(
        &self,
        network: &XlmRoberta,
        sequences: &[Vec<u32>],
        pass: &[usize],
        logits: &mut [f32],
        laps: &mut dyn Laps,
    ) -> Result<()> {
        let limit = if self.placement.device.is_cpu() {
            CPU_GROUP.max(TOKENS_A_THREAD * rayon::current_num_threads())
        } else {
            usize::MAX
        };
        let lengths: Vec<usize> = pass.iter().map(|&index| sequences[index].len()).collect();
        let groups = groups(&lengths, limit);
        laps.lap(Stage::Pack);
        for group in groups {
            let members = || group.iter().map(|&member| pass[member]);
            let rows = PackedRows::new(
                members().map(|index| sequences[index].as_slice()),
                self.config.first_position(),
            );
            laps.lap(Stage::Pack);
            let rows = network.upload(&rows)?;
            laps.lap(Stage::Upload);
            let group_logits = network.forward(&rows)?;
            synchronize(&self.placement)?;
            laps.lap(Stage::Forward);
            let values = read_back(&group_logits)?;
            members().zip(values).for_each(|(index, logit)| logits[index] = logit);
            laps.lap(Stage::ReadBack);
        }
        Ok(())
    }
}

/// Waits for the device, so that a lap covers the work and not only its launch.
pub(super) fn synchronize(placement: &Placement) -> Result<()> {
    placement.device.synchronize().map_err(|e| candle_fault("waiting for the device", e))
}

/// The values of a vector on the device.
pub(super) fn read_back(logits: &Tensor) -> Result<Vec<f32>> {
    logits.to_vec1::<f32>().map_err(|e| candle_fault("reading the logits back", e))
}
