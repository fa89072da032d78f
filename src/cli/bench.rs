//! The plain command: benchmark policies on a workload, MemPursuit beside each of them.

use clap::Args;

use super::flags::{ExportFlags, MachineFlags, RerankerFlags, SelectorFlags, Weights, positive};
use super::{input, progress, workshop};
use crate::error::{Error, Result};
use crate::measure::clock::WallClock;
use crate::measure::environment::Environment;
use crate::measure::interleave::Times;
use crate::measure::plan::{self, Cell, Event, Ledger, Variant, Workshop};
use crate::measure::results::{Results, Row, Workload};
use crate::policy::{self, Choice, Policy, Settings};
use crate::pool::Pool;
use crate::pool::synthetic::Synthetic;
use crate::report::{Markdown, Terminal};

/// The demonstration's opponent.
const DEMO_MODEL: &str = "bge-base";
/// Pools timed where nothing else is said.
const QUESTIONS: usize = 20;
/// Pool size where nothing else is said.
const CANDIDATES: usize = 200;
/// The demonstration times as many questions as fit into this many seconds.
const DEMO_SECONDS: u64 = 100;

#[derive(Debug, Args)]
pub struct Flags {
    /// Policies, separated by commas: mempursuit, mmr, cosine, hybrid, original, bge-base, bge-large, bge-v2-m3,
    /// qwen3.5-0.8b, qwen3.5-2b, qwen3.5-4b, a model folder, or a hub id org/name[@revision] [default: bge-base with random weights]
    #[arg(long, value_name = "NAME[,NAME...]", value_delimiter = ',')]
    model: Vec<String>,
    /// Pools: a JSON Lines file (also .gz, .zst), - for standard input, or locomo:PATH [default: generated]
    #[arg(long, value_name = "FILE")]
    input: Option<String>,
    /// Budget K
    #[arg(long, value_name = "K", default_value_t = 20, value_parser = positive)]
    top_k: usize,
    /// Size of generated pools; pools from files are cut to it [default: 200]
    #[arg(long, value_name = "P", value_parser = positive)]
    candidates: Option<usize>,
    /// Pools timed [default: 20; the demonstration chooses]
    #[arg(long, value_name = "N", value_parser = positive)]
    questions: Option<usize>,
    /// Untimed passes of full shape before a policy is timed; 0 is one small pass [default: 1; the demonstration 0]
    #[arg(long, value_name = "N")]
    warmup: Option<usize>,
    /// Seed of generated pools and random weights
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    exports: ExportFlags,
    #[command(flatten)]
    selector: SelectorFlags,
    #[command(flatten)]
    reranker: RerankerFlags,
    #[command(flatten)]
    machine: MachineFlags,
}

impl Flags {
    /// True where no policy was named: the demonstration's model and bounds hold.
    fn demo(&self) -> bool {
        self.model.is_empty()
    }

    /// One cell for each policy besides MemPursuit, or one for MemPursuit alone.
    fn cells(&self, others: &[Choice], candidates: usize) -> Vec<Cell> {
        let cell = |variant: Variant, batch: usize| Cell {
            variant,
            batch,
            candidates,
            top_k: self.top_k,
            questions: self.questions.unwrap_or(QUESTIONS),
            seconds: (self.demo() && self.questions.is_none()).then_some(DEMO_SECONDS),
            warmup: self.warmup.unwrap_or(usize::from(!self.demo())),
            repeat: 0,
        };
        let of = |choice: &Choice| match choice {
            Choice::Selector(_) => cell(Variant::selector(choice.name()), 0),
            Choice::Reranker(name) => cell(self.reranker.variant(name), self.reranker.batch),
        };
        match others {
            [] => vec![cell(Variant::selector(policy::REFERENCE), 0)],
            others => others.iter().map(of).collect(),
        }
    }

    fn settings(&mut self) -> Result<Settings> {
        // No cache: in a benchmark each pool is met cold, as in the paper.
        let mut settings = Settings::default();
        if self.demo() {
            self.reranker.weights.get_or_insert(Weights::Random);
        }
        self.selector.apply(&mut settings);
        self.reranker.apply(&mut settings, &self.machine, self.seed)?;
        Ok(settings)
    }
}

/// Runs the command.
pub fn run(mut flags: Flags) -> Result<()> {
    let names = if flags.demo() { vec![DEMO_MODEL.to_string()] } else { flags.model.clone() };
    let mut others: Vec<Choice> = Vec::new();
    for name in &names {
        let choice = policy::resolve(name)?;
        if name != policy::REFERENCE && !others.contains(&choice) {
            others.push(choice);
        }
    }
    flags.exports.check()?;
    let threads = super::use_threads(flags.machine.threads)?;
    let settings = flags.settings()?;
    if flags.demo() && flags.input.is_none() {
        progress::say(&format!(
            "Demonstration: MemPursuit against {DEMO_MODEL} with random weights on generated pools."
        ));
    }
    let (pools, source) = workload(&flags, flags.questions.unwrap_or(QUESTIONS))?;
    let candidates = pools.iter().map(Pool::len).max().unwrap_or(0);
    let device = settings.device;
    let mut plain = Plain { settings, pools };
    let (rows, failure) = measure(&flags.cells(&others, candidates), &mut plain)?;
    let results = Results {
        command: super::command_line(),
        environment: Environment::detect(threads).with_gpu(device),
        workload: Workload {
            source,
            questions: rows.iter().map(|row| row.times_ms.len()).filter(|&n| n > 0).min().unwrap_or(0),
            candidates,
            top_k: flags.top_k,
            dimension: plain.pools.iter().find_map(Pool::dimension),
            tokens: rows.iter().find_map(|row| row.tokens),
        },
        rows,
    };
    flags.exports.write(&results, &Terminal, &Markdown)?;
    failure.map_or(Ok(()), Err)
}

/// The pools to time, and what the workload is called.
fn workload(flags: &Flags, most: usize) -> Result<(Vec<Pool>, String)> {
    let candidates = flags.candidates.unwrap_or(CANDIDATES);
    let Some(input) = &flags.input else {
        progress::say(&format!("Generating pools of {candidates} candidates (seed {}).", flags.seed));
        let generator = Synthetic { candidates, seed: flags.seed, ..Synthetic::default() };
        return Ok((generator.pools().take(most).collect(), format!("generated pools, seed {}", flags.seed)));
    };
    let mut source = input::name(input);
    let mut pools = input::open(input)?.take(most).collect::<Result<Vec<Pool>>>()?;
    if pools.is_empty() {
        return Err(Error::file(input, "holds no pools: there is nothing to time"));
    }
    let longer = pools.iter().filter(|pool| pool.len() > candidates).count();
    if longer > 0 {
        source += &format!(" ({longer} of {} pools cut to their first {candidates} candidates)", pools.len());
    }
    pools.iter_mut().for_each(|pool| pool.truncate(candidates));
    Ok((pools, source))
}

/// Opens policies with the command's settings; the pools are given.
struct Plain {
    settings: Settings,
    pools: Vec<Pool>,
}

impl Workshop for Plain {
    fn reference(&mut self) -> Result<Box<dyn Policy>> {
        workshop::open(policy::REFERENCE, &self.settings)
    }

    fn open(&mut self, variant: &Variant) -> Result<Box<dyn Policy>> {
        workshop::open(&variant.model, &self.settings)
    }

    fn pools(&mut self, _: usize, questions: usize) -> Result<Vec<Pool>> {
        Ok(self.pools.iter().take(questions).cloned().collect())
    }
}

/// Times each policy beside MemPursuit: the rows, MemPursuit's first, and the first failure.
///
/// A policy that fails leaves a row that says so, and the others go on; where nothing at all could be
/// measured, the failure is the answer.
fn measure(cells: &[Cell], plain: &mut Plain) -> Result<(Vec<Row>, Option<Error>)> {
    let (mut bar, mut base, mut failure) = (None, None::<Times>, None);
    let mut tell = |event: Event<'_>| match event {
        Event::Begin { cell, .. } => bar = Some(progress::Cell::new(&cell.variant.model)),
        Event::Progress(step) => {
            if let Some(bar) = &mut bar {
                bar.show(step);
            }
        }
        Event::End { error: Some(error), .. } => {
            failure.get_or_insert(error);
        }
        Event::End { reference, .. } => match &mut base {
            Some(base) => base.append(*reference),
            None => base = Some(*reference),
        },
    };
    let mut rows = plan::run(cells, plain, &mut Ledger::in_memory(), &WallClock::new(), &mut tell)?;
    let Some(base) = base else {
        return Err(failure.unwrap_or_else(|| Error::Usage("no policy to measure".into())));
    };
    let reference = plain.reference()?;
    rows.retain(|row| row.model != reference.name());
    rows.insert(0, Row::new(reference.name(), reference.describe(), &base, None));
    Ok((rows, failure))
}
