//! What a network had to run: the counts that go from the scorer through the policy and the clock into the report.

/// What a reranker ran for one pool, or for several. All zero for selectors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Work {
    /// Forward passes of a pool, ceil(P / batch); of several pools the most.
    pub passes: usize,
    /// Tokens that were run, special tokens among them: those of all pairs, or of the shared beginning and of every
    /// prompt's rest.
    pub real_tokens: usize,
    /// Tokens that all prompts of a pool begin with, run once a pool; 0 where nothing is shared.
    pub prefix_tokens: usize,
    /// Tokens of all pairs or prompts, each counted whole: what a run without sharing would need.
    pub naive_tokens: usize,
    /// Slots computed in vain.
    pub padded_tokens: usize,
    /// Pairs that did not fit and were cut.
    pub truncated: usize,
    /// Tokens that the cut pairs lost.
    pub truncated_tokens: usize,
    /// Tokens of each pair or prompt, in candidate order.
    pub token_lengths: Vec<u32>,
}

impl Work {
    /// Adds what another pool took.
    pub fn add(&mut self, other: Work) {
        self.passes = self.passes.max(other.passes);
        self.real_tokens += other.real_tokens;
        self.prefix_tokens += other.prefix_tokens;
        self.naive_tokens += other.naive_tokens;
        self.padded_tokens += other.padded_tokens;
        self.truncated += other.truncated;
        self.truncated_tokens += other.truncated_tokens;
        self.token_lengths.extend(other.token_lengths);
    }
}
