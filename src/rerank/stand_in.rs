//! A tokenizer for timing runs without a real one: plausible numbers of tokens, meaningless ids.
//!
//! Only with random weights, whose scores mean nothing either. White space separates words; within a word, runs of
//! letters, of digits and of other characters are told apart, and a run gives one token for every few characters
//! it begins. On LoCoMo's turns that comes to 1.39 tokens a word, within 1 % of XLM-R's own vocabulary (1.385; the
//! correlation over turns is 0.994). A token's id is a hash of its characters, so that equal texts have equal ids.
//!
//! An LLM scorer's prompt is text like any other here: its markers cost a few tokens more than with the model's own
//! vocabulary, "yes" and "no" are one token each, and as nothing joins over white space, a prompt's ids are those of
//! its parts.

use crate::weights::fnv1a;

/// What a character counts as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    Digit,
    Other,
}

impl Class {
    fn of(character: char) -> Self {
        match character {
            c if c.is_alphabetic() => Self::Letter,
            c if c.is_numeric() => Self::Digit,
            _ => Self::Other,
        }
    }

    /// Characters that one token covers.
    fn piece(self) -> usize {
        match self {
            Self::Letter => 8,
            Self::Digit => 4,
            Self::Other => usize::MAX,
        }
    }
}

/// Ids below this are special tokens.
const FIRST_ORDINARY_ID: u32 = 5;

/// The stand-in for a vocabulary of a given size.
pub(super) struct StandIn {
    ordinary: u32,
}

impl StandIn {
    /// A stand-in whose ids stay below `vocabulary`.
    pub(super) fn new(vocabulary: usize) -> Self {
        let vocabulary = u32::try_from(vocabulary).unwrap_or(u32::MAX);
        Self { ordinary: vocabulary.saturating_sub(FIRST_ORDINARY_ID).max(1) }
    }

    pub(super) fn ids(&self, text: &str) -> Vec<u32> {
        pieces(text).map(|piece| self.id(piece)).collect()
    }

    /// Where the first `count` tokens of `text` end, in bytes.
    pub(super) fn end_of(&self, text: &str, count: usize) -> usize {
        let last = pieces(text).take(count).last();
        last.map_or(0, |piece| piece.as_ptr() as usize - text.as_ptr() as usize + piece.len())
    }

    fn id(&self, piece: &str) -> u32 {
        FIRST_ORDINARY_ID + (fnv1a(piece.as_bytes()) % u64::from(self.ordinary)) as u32
    }
}

/// The parts of `text` that give one token each.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().flat_map(|word| {
        let mut cuts = vec![0];
        let (mut class, mut length) = (Class::Other, 0);
        for (at, character) in word.char_indices() {
            let next = Class::of(character);
            if length > 0 && (next != class || length == class.piece()) {
                cuts.push(at);
                length = 0;
            }
            class = next;
            length += 1;
        }
        cuts.push(word.len());
        (1..cuts.len()).map(move |end| &word[cuts[end - 1]..cuts[end]])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_one_or_more_tokens_below_the_vocabulary() {
        let stand_in = StandIn::new(1000);
        let ids = stand_in.ids("We adopted  a puppy\nnamed Toby, extraordinarily (12345!)");
        assert_eq!(ids.len(), 1 + 1 + 1 + 1 + 1 + 2 + 2 + (1 + 2 + 1));
        assert!(ids.iter().all(|id| (FIRST_ORDINARY_ID..1000).contains(id)));
        assert_eq!(stand_in.ids("puppy puppy")[0], stand_in.ids("puppy")[0]);
        assert!(stand_in.ids(" \t").is_empty());
        assert_eq!(StandIn::new(3).ids("x"), [FIRST_ORDINARY_ID]);
    }
}
