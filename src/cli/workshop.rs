//! Policies and pools for plans of many cells.

use super::{input, progress};
use crate::error::{Error, Result};
use crate::measure::interleave::Progress;
use crate::measure::plan::{Cell, Event, Variant, Workshop};
use crate::policy::{self, Policy, Settings};
use crate::pool::Pool;
use crate::pool::synthetic::Synthetic;

/// Opens policies with the command's settings; pools come from a file or from the generator.
pub struct Bench {
    pub settings: Settings,
    pub input: Option<String>,
    pub seed: u64,
    /// The pools of the last call, and what was asked for: cells that follow each other often ask for the same.
    last: Option<(usize, usize, Vec<Pool>)>,
}

impl Bench {
    /// A bench over `input`, or over generated pools of this seed.
    pub fn new(settings: Settings, input: Option<String>, seed: u64) -> Self {
        Self { settings, input, seed, last: None }
    }

    /// What the workload is called.
    pub fn source(&self) -> String {
        self.input.as_deref().map_or_else(|| format!("generated pools, seed {}", self.seed), input::name)
    }

    /// Dimension of the pools of the last cell.
    pub fn dimension(&self) -> Option<usize> {
        self.last.as_ref()?.2.iter().find_map(Pool::dimension)
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

    fn make(&self, candidates: usize, questions: usize) -> Result<Vec<Pool>> {
        let Some(input) = &self.input else {
            let generator = Synthetic { candidates, seed: self.seed, ..Synthetic::default() };
            return Ok(generator.pools().take(questions).collect());
        };
        let large = |pool: &Result<Pool>| pool.as_ref().map_or(true, |pool| pool.len() >= candidates);
        let mut pools = input::open(input)?.filter(large).take(questions).collect::<Result<Vec<Pool>>>()?;
        if pools.is_empty() {
            let message =
                format!("has no pool of {candidates} candidates; name smaller sizes with --candidates");
            return Err(Error::file(input, message));
        }
        pools.iter_mut().for_each(|pool| pool.truncate(candidates));
        Ok(pools)
    }
}

impl Workshop for Bench {
    fn reference(&mut self) -> Result<Box<dyn Policy>> {
        policy::open(policy::resolve(policy::REFERENCE)?, &self.settings, &progress::say)
    }

    fn open(&mut self, variant: &Variant) -> Result<Box<dyn Policy>> {
        policy::open(policy::resolve(&variant.model)?, &self.settings_of(variant), &progress::say)
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
