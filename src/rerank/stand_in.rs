//! A tokenizer for timing runs without a real one: plausible numbers of tokens, meaningless ids.
//!
//! Only with random weights, whose scores mean nothing either. Text is split at white space; a word gives one
//! token for every [`PIECE`] characters it begins, which comes to 1.30 tokens a word on the LoCoMo dialogues, where
//! XLM-R's own vocabulary gives 1.37. A token's id is a hash of its characters, so that equal texts have equal ids.

use crate::weights::fnv1a;

/// Characters a token covers.
const PIECE: usize = 5;
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
        let mut ids = Vec::new();
        let mut piece = String::new();
        for word in text.split_whitespace() {
            for (at, character) in word.chars().enumerate() {
                if at > 0 && at % PIECE == 0 {
                    ids.push(self.id(&piece));
                    piece.clear();
                }
                piece.push(character);
            }
            ids.push(self.id(&piece));
            piece.clear();
        }
        ids
    }

    fn id(&self, piece: &str) -> u32 {
        FIRST_ORDINARY_ID + (fnv1a(piece.as_bytes()) % u64::from(self.ordinary)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_one_or_more_tokens_below_the_vocabulary() {
        let stand_in = StandIn::new(1000);
        let ids = stand_in.ids("We adopted  a puppy\nnamed Toby, extraordinarily");
        assert_eq!(ids.len(), 1 + 2 + 1 + 1 + 1 + 1 + 3);
        assert!(ids.iter().all(|id| (FIRST_ORDINARY_ID..1000).contains(id)));
        assert_eq!(stand_in.ids("puppy puppy")[0], stand_in.ids("puppy")[0]);
        assert!(stand_in.ids(" \t").is_empty());
        assert_eq!(StandIn::new(3).ids("x"), [FIRST_ORDINARY_ID]);
    }
}
