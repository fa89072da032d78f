//! Texts to token ids: the pair's layout and how it is cut to fit.

use std::path::Path;

use rayon::prelude::*;
use tokenizers::Tokenizer;

use super::stand_in::StandIn;
use crate::error::{Error, Result};

/// `--truncation`: which side of a pair gives way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Truncation {
    /// The query is cut to 3/4 of the limit, then the passage takes what is left (FlagEmbedding's rule).
    #[default]
    Passage,
    /// The longer of the two is cut until the pair fits (sentence-transformers' rule).
    LongestFirst,
}

/// The special tokens around a pair: `<s> query </s></s> passage </s>`.
const SPECIAL_TOKENS: usize = 4;
/// The smallest limit on a pair's length: below it a query cut to 3/4 would leave no room for a passage.
pub(super) const SHORTEST_LIMIT: usize = 16;

/// Turns a text into ids without special tokens.
pub(super) enum TextTokenizer {
    /// A model's own.
    Real(Box<Tokenizer>),
    /// For random weights, where no real one is at hand.
    StandIn(StandIn),
}

impl TextTokenizer {
    /// Reads a `tokenizer.json`; its own truncation and padding are switched off, since pairs are built here.
    ///
    /// # Errors
    /// [`Error::File`] for a file that cannot be read, or whose vocabulary exceeds `vocabulary` embedding rows.
    pub(super) fn read(path: &Path, vocabulary: usize) -> Result<Self> {
        let mut tokenizer = Tokenizer::from_file(path)
            .map_err(|e| Error::file(path, format!("is not a tokenizer this build can read: {e}")))?;
        let size = tokenizer.get_vocab_size(true);
        if size > vocabulary {
            return Err(Error::file(
                path,
                format!(
                    "has a vocabulary of {size}, but the model has {vocabulary} embedding rows; it belongs to \
                     another model"
                ),
            ));
        }
        tokenizer
            .with_truncation(None)
            .map_err(|e| Error::file(path, format!("its truncation cannot be switched off: {e}")))?;
        tokenizer.with_padding(None);
        Ok(Self::Real(Box::new(tokenizer)))
    }

    /// The text that the first `count` tokens of `text` cover: whole characters, from its beginning.
    ///
    /// # Errors
    /// The end of a sentence that says why the text cannot be tokenised.
    pub(super) fn covered<'t>(&self, text: &'t str, count: usize) -> Result<&'t str, String> {
        let end = match self {
            Self::Real(tokenizer) => {
                let encoding =
                    tokenizer.encode(text, false).map_err(|e| format!("cannot be tokenised: {e}"))?;
                let last = count.min(encoding.len()).checked_sub(1);
                last.map_or(0, |last| encoding.get_offsets()[last].1)
            }
            Self::StandIn(stand_in) => stand_in.end_of(text, count),
        };
        // A token of half a character covers the whole of it.
        let end = (end..=text.len()).find(|&end| text.is_char_boundary(end));
        Ok(&text[..end.unwrap_or(text.len())])
    }

    /// The ids of `text`, without special tokens around it.
    ///
    /// # Errors
    /// The end of a sentence that says why the text cannot be tokenised.
    pub(super) fn ids(&self, text: &str) -> Result<Vec<u32>, String> {
        match self {
            Self::Real(tokenizer) => tokenizer
                .encode_fast(text, false)
                .map(|encoding| encoding.get_ids().to_vec())
                .map_err(|e| format!("cannot be tokenised: {e}")),
            Self::StandIn(stand_in) => Ok(stand_in.ids(text)),
        }
    }
}

/// How pairs are laid out and cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PairLayout {
    pub(super) begin_id: u32,
    pub(super) end_id: u32,
    /// Most tokens in a pair, special ones included; at least [`SHORTEST_LIMIT`].
    pub(super) max_length: usize,
    pub(super) truncation: Truncation,
}

/// Tokenised pairs, in input order.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Pairs {
    pub(super) sequences: Vec<Vec<u32>>,
    /// Pairs that were cut.
    pub(super) truncated: usize,
    /// Tokens they lost.
    pub(super) truncated_tokens: usize,
}

impl PairLayout {
    /// Builds the pair of `query` with each of `texts`, in parallel.
    ///
    /// # Errors
    /// [`Error::Text`] for a text that the tokenizer refuses.
    pub(super) fn pairs(&self, tokenizer: &TextTokenizer, query: &str, texts: &[&str]) -> Result<Pairs> {
        let query = tokenizer.ids(query).map_err(|message| Error::Text { candidate: None, message })?;
        let built: Vec<(Vec<u32>, usize)> = texts
            .par_iter()
            .enumerate()
            .map(|(index, text)| match tokenizer.ids(text) {
                Ok(passage) => Ok(self.pair(&query, &passage)),
                Err(message) => Err(Error::Text { candidate: Some(index), message }),
            })
            .collect::<Result<_>>()?;
        let mut pairs = Pairs::default();
        for (sequence, lost) in built {
            pairs.sequences.push(sequence);
            pairs.truncated += usize::from(lost > 0);
            pairs.truncated_tokens += lost;
        }
        Ok(pairs)
    }

    /// `<s> query </s></s> passage </s>`, and how many tokens of the two were left out.
    fn pair(&self, query: &[u32], passage: &[u32]) -> (Vec<u32>, usize) {
        let (of_query, of_passage) = self.kept(query.len(), passage.len());
        let mut ids = Vec::with_capacity(of_query + of_passage + SPECIAL_TOKENS);
        ids.push(self.begin_id);
        ids.extend_from_slice(&query[..of_query]);
        ids.extend([self.end_id, self.end_id]);
        ids.extend_from_slice(&passage[..of_passage]);
        ids.push(self.end_id);
        (ids, query.len() + passage.len() - of_query - of_passage)
    }

    /// How many tokens of a query and a passage of these lengths are kept.
    fn kept(&self, query: usize, passage: usize) -> (usize, usize) {
        let room = self.max_length - SPECIAL_TOKENS;
        match self.truncation {
            Truncation::Passage => {
                let query = query.min(self.max_length * 3 / 4);
                (query, passage.min(room - query))
            }
            Truncation::LongestFirst if query + passage <= room => (query, passage),
            Truncation::LongestFirst => {
                // Both over half: the query gets the smaller half; else the shorter stays whole. (Where the query
                // is the longer, the Rust tokenizers that sentence-transformers uses give it the larger half.)
                let shorter = query.min(passage);
                let (less, more) = if shorter <= room / 2 {
                    (shorter, room - shorter)
                } else {
                    (room / 2, room.div_ceil(2))
                };
                if query > passage { (more, less) } else { (less, more) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(max_length: usize, truncation: Truncation) -> PairLayout {
        PairLayout { begin_id: 0, end_id: 2, max_length, truncation }
    }

    #[test]
    fn the_frame_is_that_of_roberta() {
        let (ids, lost) = layout(16, Truncation::Passage).pair(&[10, 11], &[20, 21, 22]);
        assert_eq!((ids, lost), (vec![0, 10, 11, 2, 2, 20, 21, 22, 2], 0));
        let (ids, _) = layout(16, Truncation::Passage).pair(&[10], &[]);
        assert_eq!(ids, [0, 10, 2, 2, 2]);
    }

    #[test]
    fn the_passage_gives_way_after_the_query_took_three_quarters() {
        let kept = |limit, q, p| layout(limit, Truncation::Passage).kept(q, p);
        assert_eq!(kept(512, 254, 254), (254, 254)); // 512 exactly
        assert_eq!(kept(512, 254, 255), (254, 254)); // 513
        assert_eq!(kept(512, 1000, 1000), (384, 124));
        assert_eq!(kept(16, 1000, 1000), (12, 0)); // the shortest limit still holds the frame
        assert_eq!(kept(17, 1000, 1000), (12, 1));
    }

    #[test]
    fn longest_first_agrees_with_the_tokenizers_crate() {
        use tokenizers::utils::truncation::{TruncationDirection, TruncationParams, TruncationStrategy};
        let encoding = |length: usize| {
            tokenizers::Encoding::from_tokens(
                (0..length).map(|i| tokenizers::Token::new(i as u32, "t".to_owned(), (i, i + 1))).collect(),
                0,
            )
        };
        for limit in 16..22 {
            for (q, p) in (0..24).flat_map(|q| (0..24).map(move |p| (q, p))) {
                let params = TruncationParams {
                    max_length: limit - SPECIAL_TOKENS,
                    strategy: TruncationStrategy::LongestFirst,
                    stride: 0,
                    direction: TruncationDirection::Right,
                };
                let (a, b) = tokenizers::utils::truncation::truncate_encodings(
                    encoding(q),
                    Some(encoding(p)),
                    &params,
                )
                .unwrap();
                let theirs = (a.get_ids().len(), b.unwrap().get_ids().len());
                assert_eq!(
                    layout(limit, Truncation::LongestFirst).kept(q, p),
                    theirs,
                    "{q} + {p} in {limit}"
                );
            }
        }
    }

    #[test]
    fn lost_tokens_are_counted_and_the_query_is_never_cut_to_nothing() {
        for truncation in [Truncation::Passage, Truncation::LongestFirst] {
            for limit in 16..40 {
                for (q, p) in (1..50).flat_map(|q| (0..50).map(move |p| (q, p))) {
                    let layout = layout(limit, truncation);
                    let (ids, lost) = layout.pair(&vec![7; q], &vec![8; p]);
                    assert!(ids.len() <= limit);
                    assert_eq!(ids.len() - SPECIAL_TOKENS + lost, q + p);
                    assert!(lost == 0 || ids.len() == limit || truncation == Truncation::Passage);
                    assert_eq!(ids[1], 7, "{q} + {p} in {limit}");
                }
            }
        }
    }
}
