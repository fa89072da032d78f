//! Measures one policy beside MemPursuit, pool by pool, so that drift of the machine hits both alike.

use std::time::Duration;

use super::clock::{Clock, Stages};
use crate::error::Result;
use crate::policy::{Policy, Selection};
use crate::pool::Pool;
use crate::work::Work;

/// Times of one policy and what it ran.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Times {
    /// One a pool, milliseconds.
    pub milliseconds: Vec<f64>,
    /// Candidates of the largest pool, P.
    pub candidates: usize,
    /// Budget, K.
    pub top_k: usize,
    /// Sum over the pools.
    pub stages: Stages,
    /// What all pools took.
    pub work: Work,
    /// Different warnings, each once.
    pub warnings: Vec<String>,
}

impl Times {
    fn add(&mut self, time: Duration, selection: Selection) {
        self.milliseconds.push(time.as_secs_f64() * 1e3);
        self.stages.merge(&selection.stages);
        self.work.add(selection.work);
        for warning in selection.warnings {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
    }

    /// Appends the times of another run of the same policy.
    pub fn append(&mut self, other: Times) {
        self.milliseconds.extend(other.milliseconds);
        self.stages.merge(&other.stages);
        self.work.add(other.work);
    }
}

/// How many pools to time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Questions {
    /// This many, or all pools where there are fewer.
    Fixed(usize),
    /// As many as fit into the time, judged by the first timed pool, within bounds.
    Fit { time: Duration, least: usize, most: usize },
}

impl Questions {
    /// The most pools that may be timed.
    pub fn most(self) -> usize {
        match self {
            Questions::Fixed(count) | Questions::Fit { most: count, .. } => count,
        }
    }

    /// The number of pools once the first one took `first`.
    fn after(self, first: Duration) -> usize {
        match self {
            Questions::Fixed(count) => count,
            Questions::Fit { time, least, most } => {
                let fit = time.as_secs_f64() / first.as_secs_f64().max(1e-9);
                (fit as usize).clamp(least, most)
            }
        }
    }
}

/// Rules of a measurement.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Budget K.
    pub top_k: usize,
    /// Untimed runs of full shape before the first timed one; 0 is a small run.
    pub warmup: usize,
    /// The policy has run just before: it needs no small run.
    pub warm: bool,
    pub questions: Questions,
}

/// Where a measurement stands, for a progress display.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress {
    WarmUp { run: usize, of: usize },
    Timed { done: usize, of: usize, last: Duration },
}

/// Runs `reference` and `other` on each pool in turn and times both.
///
/// Returns the reference's times and the other's. Without `other` only the reference runs. The clock is read
/// right before and right after [`Policy::select`], which returns only when its device has finished.
///
/// # Errors
/// The first fault of either policy.
pub fn measure(
    clock: &dyn Clock,
    reference: &dyn Policy,
    other: Option<&dyn Policy>,
    pools: &[Pool],
    rules: &Rules,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Times, Times)> {
    let candidates = pools.iter().map(Pool::len).max().unwrap_or(0);
    let empty = Times { candidates, top_k: rules.top_k, ..Times::default() };
    let (mut base, mut times) = (empty.clone(), empty);
    let Some(first) = pools.first() else { return Ok((base, times)) };
    for run in 0..rules.warmup.max(1) {
        progress(Progress::WarmUp { run: run + 1, of: rules.warmup.max(1) });
        let other = other.filter(|_| rules.warmup > 0 || !rules.warm);
        for policy in [Some(reference), other].into_iter().flatten() {
            match rules.warmup {
                0 => policy.warm_up_small(first, rules.top_k)?,
                _ => policy.select(first, rules.top_k).map(drop)?,
            }
        }
    }
    let timed = |policy: &dyn Policy, pool: &Pool, into: &mut Times| -> Result<Duration> {
        let start = clock.now();
        let selection = policy.select(pool, rules.top_k)?;
        let time = clock.now() - start;
        into.add(time, selection);
        Ok(time)
    };
    let mut count = rules.questions.most().min(pools.len());
    let mut done = 0;
    while done < count {
        let mut time = timed(reference, &pools[done], &mut base)?;
        if let Some(other) = other {
            time += timed(other, &pools[done], &mut times)?;
        }
        done += 1;
        if done == 1 {
            count = rules.questions.after(time).min(pools.len());
        }
        progress(Progress::Timed { done, of: count, last: time });
    }
    Ok((base, times))
}
