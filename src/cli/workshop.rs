//! Policies and pools for plans of many cells.

use super::{input, progress};
use crate::error::{Error, Result};
use crate::measure::interleave::Progress;
use crate::measure::plan::{Cell, Event, Variant, Workshop};
use crate::measure::results::{Row, Status};
use crate::policy::{self, Policy, Settings};
use crate::pool::Pool;
use crate::pool::synthetic::Synthetic;

/// Opens policies with the command's settings; pools come from a file or from the generator.
pub struct Bench {
    pub settings: Settings,
    pub input: Option<String>,
    pub seed: u64,
    /// The input's pools, read once: a pipe cannot be read again.
    read: Option<Vec<Pool>>,
    /// The pools of the last call, and what was asked for: cells that follow each other often ask for the same.
    last: Option<(usize, usize, Vec<Pool>)>,
}

/// Pools of an input that are kept in memory; plans time far fewer.
const KEPT: usize = 512;

impl Bench {
    /// A bench over `input`, or over generated pools of this seed.
    pub fn new(settings: Settings, input: Option<String>, seed: u64) -> Self {
        Self { settings, input, seed, read: None, last: None }
    }

    /// What the workload is called.
    pub fn source(&self) -> String {
        self.input.as_deref().map_or_else(|| format!("generated pools, seed {}", self.seed), input::name)
    }

    /// Dimension of the workload's vectors.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn dimension(&mut self) -> Result<Option<usize>> {
        if let Some((_, _, pools)) = &self.last {
            return Ok(pools.iter().find_map(Pool::dimension));
        }
        match self.input.is_some() {
            true => Ok(self.read()?.iter().find_map(Pool::dimension)),
            false => Ok(Some(Synthetic::default().dimension)),
        }
    }

    /// The input's pools; none where pools are generated.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn read(&mut self) -> Result<&[Pool]> {
        if self.read.is_none() {
            let pools =
                self.input.as_deref().map(|input| input::open(input)?.take(KEPT).collect()).transpose()?;
            self.read = Some(pools.unwrap_or_default());
        }
        Ok(self.read.as_deref().unwrap_or_default())
    }

    /// The settings with what the variant says about itself.
    #[cfg(feature = "neural")]
    fn settings_of(&self, variant: &Variant) -> Settings {
        use crate::rerank::{Engine, SharePrefix};
        let mut settings = self.settings.clone();
        if variant.engine == Engine::Candle.name() {
            settings.reranker.engine = Engine::Candle;
        }
        if variant.unshared {
            settings.reranker.share_prefix = SharePrefix::Off;
        }
        settings
    }

    #[cfg(not(feature = "neural"))]
    fn settings_of(&self, _: &Variant) -> Settings {
        self.settings.clone()
    }

    fn make(&mut self, candidates: usize, questions: usize) -> Result<Vec<Pool>> {
        let Some(input) = self.input.clone() else {
            let generator = Synthetic { candidates, seed: self.seed, ..Synthetic::default() };
            return Ok(generator.pools().take(questions).collect());
        };
        let large = self.read()?.iter().filter(|pool| pool.len() >= candidates);
        let mut pools: Vec<Pool> = large.take(questions).cloned().collect();
        if pools.is_empty() {
            return Err(Error::file(input, format!("has no pool of {candidates} candidates")));
        }
        pools.iter_mut().for_each(|pool| pool.truncate(candidates));
        Ok(pools)
    }
}

/// Opens the policy of this name, saying what takes long.
///
/// # Errors
/// As [`policy::resolve`] and [`policy::open`].
pub fn open(name: &str, settings: &Settings) -> Result<Box<dyn Policy>> {
    policy::open(policy::resolve(name)?, settings, &progress::say)
}

impl Workshop for Bench {
    fn reference(&mut self) -> Result<Box<dyn Policy>> {
        open(policy::REFERENCE, &self.settings)
    }

    fn open(&mut self, variant: &Variant) -> Result<Box<dyn Policy>> {
        open(&variant.model, &self.settings_of(variant))
    }

    fn pools(&mut self, candidates: usize, questions: usize) -> Result<Vec<Pool>> {
        match &self.last {
            Some((p, n, pools)) if (*p, *n) == (candidates, questions) => Ok(pools.clone()),
            _ => {
                let pools = self.make(candidates, questions)?;
                self.last = Some((candidates, questions, pools.clone()));
                Ok(pools)
            }
        }
    }
}

/// Shows a plan's progress on stderr: a line a cell, and a bar within it.
pub fn show(bar: &mut Option<progress::Cell>, name: &dyn Fn(&Cell) -> String, event: Event<'_>) {
    match event {
        Event::Begin { cell, number, of, reused } => {
            let state = if reused { ", kept from before" } else { "" };
            progress::say(&format!("{number} of {of}: {}{state}", name(cell)));
            *bar = Some(progress::Cell::new(&name(cell)));
        }
        // The line of its beginning says enough.
        Event::Progress(Progress::WarmUp { .. }) | Event::End { .. } => {}
        Event::Progress(step) => {
            if let Some(bar) = bar {
                bar.show(step);
            }
        }
    }
}

/// The first cell that failed, as the error that ends the command. Cells without memory are results.
pub fn first_failure(cells: &[Cell], rows: &[Row], name: &dyn Fn(&Cell) -> String) -> Result<()> {
    let failed = cells.iter().zip(rows).find(|(_, row)| row.status == Status::Error);
    failed.map_or(Ok(()), |(cell, row)| {
        let why = row.error.as_deref().unwrap_or("no reason was given");
        Err(Error::Device(format!("{} failed: {why}", name(cell))))
    })
}
