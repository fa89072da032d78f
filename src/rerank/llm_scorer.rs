//! Pointwise LLM scorers: a prompt per candidate, logit("yes") - logit("no") at its end.

use super::cross_encoder::{read_back, synchronize};
use super::pack::groups;
use super::prompt::Frame;
use super::tokenize::TextTokenizer;
use super::{Laps, ModelInfo, Scorer, Scores, Stage, checks};
use crate::device::{Placement, candle_fault};
use crate::error::Result;
use crate::nn::ops::Asking;
use crate::nn::qwen3_5::Prefix;
use crate::nn::{PackedRows, Qwen3_5};
use crate::work::Work;

/// Tokens computed together on the CPU: a layer's activations, not a pass's, set the memory needed. On a GPU a pass
/// is one group.
pub(super) const CPU_GROUP: usize = 1024;
/// Where there are many threads, a group has at least this many tokens for each.
const TOKENS_A_THREAD: usize = 192;

/// `--share-prefix`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SharePrefix {
    /// What all prompts of a pool begin with is run once.
    #[default]
    On,
    /// Every prompt is run whole, as a baseline.
    Off,
}

/// A loaded LLM scorer with its tokenizer.
pub(super) struct LlmScorer {
    pub(super) info: ModelInfo,
    pub(super) placement: Placement,
    pub(super) tokenizer: TextTokenizer,
    pub(super) frame: Frame,
    pub(super) share: SharePrefix,
    /// Its answers are yes and no, in this order.
    pub(super) network: Qwen3_5,
}

impl Scorer for LlmScorer {
    fn score(&self, query: &str, texts: &[&str], batch: usize, laps: &mut dyn Laps) -> Result<Scores> {
        checks::query(query)?;
        checks::batch(batch)?;
        let prompts = self.frame.prompts(&self.tokenizer, query, texts)?;
        laps.lap(Stage::Tokenize);
        let mut scores = match self.share {
            SharePrefix::On => self.run(&prompts.shared, &prompts.tails, batch, laps)?,
            SharePrefix::Off => {
                let whole = |tail: &Vec<u32>| [prompts.shared.as_slice(), tail].concat();
                self.run(&[], &prompts.tails.iter().map(whole).collect::<Vec<_>>(), batch, laps)?
            }
        };
        scores.work.truncated = prompts.truncated;
        scores.work.truncated_tokens = prompts.truncated_tokens;
        checks::spread(&mut scores, texts);
        Ok(scores)
    }

    /// The longest common beginning of the sequences is what they share.
    fn score_ids(&self, sequences: &[Vec<u32>], batch: usize, laps: &mut dyn Laps) -> Result<Scores> {
        checks::batch(batch)?;
        checks::ids(sequences, self.info.max_length, self.network.config().vocabulary)?;
        let shared = match self.share {
            SharePrefix::On => common_beginning(sequences),
            SharePrefix::Off => 0,
        };
        let tails: Vec<Vec<u32>> = sequences.iter().map(|ids| ids[shared..].to_vec()).collect();
        self.run(sequences.first().map_or(&[], |ids| &ids[..shared]), &tails, batch, laps)
    }

    fn info(&self) -> &ModelInfo {
        &self.info
    }
}

impl LlmScorer {
    /// Scores sequences that are `shared` and one of `tails` each.
    fn run(&self, shared: &[u32], tails: &[Vec<u32>], batch: usize, laps: &mut dyn Laps) -> Result<Scores> {
        let of_tails: usize = tails.iter().map(Vec::len).sum();
        let mut scores = Scores {
            logits: vec![0.0; tails.len()],
            work: Work {
                passes: tails.len().div_ceil(batch),
                naive_tokens: tails.len() * shared.len() + of_tails,
                token_lengths: tails.iter().map(|tail| (shared.len() + tail.len()) as u32).collect(),
                ..Work::default()
            },
            ..Scores::default()
        };
        if tails.is_empty() {
            return Ok(scores);
        }
        scores.work.prefix_tokens = shared.len();
        scores.work.real_tokens = shared.len() + of_tails;
        let prefix = self.network.begin(shared)?;
        synchronize(&self.placement)?;
        laps.lap(Stage::Forward);
        let indices: Vec<usize> = (0..tails.len()).collect();
        for pass in indices.chunks(batch) {
            self.pass(&prefix, tails, pass, &mut scores.logits, laps)?;
        }
        checks::numbers(scores)
    }

    /// One forward pass over the tails at `pass`, group by group.
    fn pass(
        &self,
        prefix: &Prefix,
        tails: &[Vec<u32>],
        pass: &[usize],
        logits: &mut [f32],
        laps: &mut dyn Laps,
    ) -> Result<()> {
        let limit = match self.placement.device.is_cpu() {
            true => CPU_GROUP.max(TOKENS_A_THREAD * rayon::current_num_threads()),
            false => usize::MAX,
        };
        let lengths: Vec<usize> = pass.iter().map(|&index| tails[index].len()).collect();
        let groups = groups(&lengths, limit);
        laps.lap(Stage::Pack);
        for group in groups {
            let members = || group.iter().map(|&member| pass[member]);
            let rows =
                PackedRows::new(members().map(|index| tails[index].as_slice()), prefix.tokens() as u32);
            laps.lap(Stage::Pack);
            let rows = self.network.upload(&rows)?;
            laps.lap(Stage::Upload);
            let answers = self.network.forward(prefix, &rows, Asking::Last)?;
            synchronize(&self.placement)?;
            laps.lap(Stage::Forward);
            let margins = (|| answers.get_on_dim(1, 0)? - answers.get_on_dim(1, 1)?)()
                .map_err(|e| candle_fault("subtracting the answers' logits", e))?;
            members().zip(read_back(&margins)?).for_each(|(index, margin)| logits[index] = margin);
            laps.lap(Stage::ReadBack);
        }
        Ok(())
    }
}

/// How many tokens all sequences begin with alike; each keeps at least its last one.
fn common_beginning(sequences: &[Vec<u32>]) -> usize {
    let Some((first, others)) = sequences.split_first() else { return 0 };
    let alike = |other: &Vec<u32>| first.iter().zip(other).take_while(|(a, b)| a == b).count();
    let shortest = sequences.iter().map(Vec::len).min().unwrap_or(0);
    others.iter().map(alike).min().unwrap_or(0).min(shortest.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_common_beginning_leaves_every_sequence_a_token() {
        let common = |sequences: &[&[u32]]| {
            common_beginning(&sequences.iter().map(|ids| ids.to_vec()).collect::<Vec<_>>())
        };
        assert_eq!(common(&[&[1, 2, 3], &[1, 2, 4]]), 2);
        assert_eq!(common(&[&[1, 2, 3], &[1, 2]]), 1);
        assert_eq!(common(&[&[1, 2], &[1, 2]]), 1);
        assert_eq!(common(&[&[1, 2, 3]]), 0, "nobody to share with");
        assert_eq!(common(&[&[1], &[2]]), 0);
        assert_eq!(common(&[]), 0);
    }
}
