//! Clocks: real time for measurements, a fake one for exact tests of everything that reports times.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A source of time. Policies return only after their device has finished, so that reading any clock after
/// a policy returned closes over the whole work.
pub trait Clock: Send + Sync {
    /// Time since an arbitrary fixed start. Never goes back.
    fn now(&self) -> Duration;
}

/// The operating system's monotonic clock.
#[derive(Debug)]
pub struct WallClock {
    start: Instant,
}

impl WallClock {
    /// A clock that starts now.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for WallClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for WallClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

/// A clock that moves only when told to.
#[derive(Debug, Default)]
pub struct FakeClock {
    now: Mutex<Duration>,
}

impl FakeClock {
    /// A clock that stands at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        *self.now.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) += by;
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Duration {
        *self.now.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Splits a stretch of time into named stages.
pub struct Stopwatch<'a> {
    clock: &'a dyn Clock,
    last: Duration,
    stages: Stages,
}

impl<'a> Stopwatch<'a> {
    /// Starts the first stage.
    pub fn start(clock: &'a dyn Clock) -> Self {
        Self { clock, last: clock.now(), stages: Stages::default() }
    }

    /// Ends the current stage and adds its time to `name`.
    pub fn lap(&mut self, name: &'static str) {
        let now = self.clock.now();
        self.stages.add(name, now - self.last);
        self.last = now;
    }

    /// The stages so far.
    pub fn finish(self) -> Stages {
        self.stages
    }
}

/// Time by stage, in the order in which stages first occurred.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stages(Vec<(&'static str, Duration)>);

impl Stages {
    /// Adds `time` to the stage `name`.
    pub fn add(&mut self, name: &'static str, time: Duration) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, total)) => *total += time,
            None => self.0.push((name, time)),
        }
    }

    /// Adds all stages of `other`.
    pub fn merge(&mut self, other: &Stages) {
        for (name, time) in &other.0 {
            self.add(name, *time);
        }
    }

    /// The stages with their times.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Duration)> + '_ {
        self.0.iter().copied()
    }

    /// True where no stage was recorded.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopwatch_books_each_stage_once_and_in_order() {
        let clock = FakeClock::new();
        let mut watch = Stopwatch::start(&clock);
        for (name, ms) in [("tokenize", 2), ("forward", 5), ("tokenize", 1), ("forward", 7)] {
            clock.advance(Duration::from_millis(ms));
            watch.lap(name);
        }
        let stages: Vec<_> = watch.finish().iter().collect();
        assert_eq!(stages, [("tokenize", Duration::from_millis(3)), ("forward", Duration::from_millis(12))]);
    }
}
