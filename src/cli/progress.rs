//! What the program says while it works: a bar on a terminal, plain lines elsewhere; stderr always.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::measure::interleave::Progress as Measured;

/// A line on stderr that belongs to the run, not to its results.
pub fn say(message: &str) {
    eprintln!("{message}");
}

/// Progress of one cell of a benchmark.
pub struct Cell {
    name: String,
    bar: Option<ProgressBar>,
}

impl Cell {
    /// Progress of measuring the policy `name`.
    pub fn new(name: &str) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0);
            let style = ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len}, {eta} left");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar
        });
        Self { name: name.to_string(), bar }
    }

    /// Shows where the measurement stands.
    pub fn show(&mut self, progress: Measured) {
        match (progress, &self.bar) {
            (Measured::WarmUp { run, of }, Some(bar)) => {
                bar.set_message(format!("{}: warming up, {run} of {of}", self.name));
                bar.tick();
            }
            (Measured::WarmUp { run, of }, None) => say(&format!("{}: warming up, {run} of {of}", self.name)),
            (Measured::Timed { done, of, last }, Some(bar)) => {
                bar.set_length(of as u64);
                bar.set_position(done as u64);
                bar.set_message(format!("{}: last {}", self.name, seconds(last)));
                if done == of {
                    bar.finish_and_clear();
                }
            }
            (Measured::Timed { done, of, last }, None) => {
                // Selectors pass hundreds of pools a second: a line for each would be noise.
                if last > Duration::from_millis(500) || done == of {
                    say(&format!("{}: question {done} of {of}, {}", self.name, seconds(last)));
                }
            }
        }
    }
}

#[cfg(feature = "neural")]
/// A length of time as people say it: `40 s`, `12 min`, `3 h 5 min`.
pub fn span(time: Duration) -> String {
    match time.as_secs() {
        s @ 0..90 => format!("{s} s"),
        s @ 90..5400 => format!("{} min", (s + 30) / 60),
        s => format!("{} h {} min", s / 3600, s % 3600 / 60),
    }
}

fn seconds(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s < 0.1 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.1} s"),
    }
}
