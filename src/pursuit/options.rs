//! What can be asked of the pursuit.

use super::Error;
use super::error::Value;

/// Whether vectors are scaled to unit length first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Normalize {
    /// Scale query and candidates to unit length, in float64 (the paper's A.3).
    #[default]
    Yes,
    /// Take the vectors as they are.
    No,
}

/// The adaptive stop (Eq. 7): with `L_t` the squared residual after step t, stop after `patience` consecutive
/// steps whose relative reduction `(L_{t-1} - L_t) / max(L_{t-1}, 1e-12)` is at most `tolerance`. The reduction
/// is defined from step 2 on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stop {
    pub tolerance: f64,
    pub patience: usize,
}

impl Default for Stop {
    fn default() -> Self {
        Self { tolerance: 1e-5, patience: 2 }
    }
}

/// What a pursuit is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Number of memories to select, K. More than the pool holds selects all of it; 0 selects none.
    pub budget: usize,
    /// Ridge λ of the refit; 0 is allowed.
    pub ridge: f64,
    /// Whether vectors are scaled to unit length first.
    pub normalize: Normalize,
    /// Stop before the budget is spent, where the residual no longer shrinks.
    pub stop: Option<Stop>,
    /// Keep a [`Step`](super::Step) for every step. Costs one more look at the pool, and the weights of every step.
    pub trace: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { budget: 20, ridge: 1e-10, normalize: Normalize::Yes, stop: None, trace: false }
    }
}

impl Options {
    pub(super) fn validate(&self) -> Result<(), Error> {
        let positive = "a finite number, 0 or more";
        let refuse = |name, value, range| Err(Error::Option { name, value: Value(value), range });
        if !(self.ridge.is_finite() && self.ridge >= 0.0) {
            return refuse("the ridge", self.ridge, positive);
        }
        match self.stop {
            Some(stop) if !(stop.tolerance.is_finite() && stop.tolerance >= 0.0) => {
                refuse("the tolerance", stop.tolerance, positive)
            }
            Some(Stop { patience: 0, .. }) => refuse("the patience", 0.0, "1 or more"),
            _ => Ok(()),
        }
    }
}
