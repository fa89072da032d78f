//! `grid`: MemPursuit's latency over pool sizes and budgets (the paper's Table 14).

use clap::Args;

use super::flags::{ExportFlags, SelectorFlags, positive};
use super::{input, progress};
use crate::error::{Error, Result};
use crate::measure::clock::WallClock;
use crate::measure::environment::Environment;
use crate::measure::interleave::{Questions, Rules, measure};
use crate::measure::results::{Results, Row, Workload};
use crate::policy::{self, Settings};
use crate::pool::Pool;
use crate::pool::synthetic::Synthetic;
use crate::report::{GridMarkdown, GridTerminal, paper};

#[derive(Debug, Args)]
pub struct Flags {
    /// Pool sizes P
    #[arg(long, value_name = "P[,P...]", value_delimiter = ',', default_values_t = paper::GRID_CANDIDATES, value_parser = positive)]
    candidates: Vec<usize>,
    /// Budgets K
    #[arg(long, value_name = "K[,K...]", value_delimiter = ',', default_values_t = paper::GRID_BUDGETS, value_parser = positive)]
    top_k: Vec<usize>,
    /// Pools timed in each cell
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = positive)]
    questions: usize,
    /// Pools with embeddings, each of at least the largest P [default: generated]
    #[arg(long, value_name = "FILE")]
    input: Option<String>,
    /// Untimed runs before each cell
    #[arg(long, value_name = "N", default_value_t = 1)]
    warmup: usize,
    /// Seed of generated pools
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    exports: ExportFlags,
    #[command(flatten)]
    selector: SelectorFlags,
}

/// Runs the command.
pub fn run(flags: Flags) -> Result<()> {
    flags.exports.check()?;
    let threads = super::use_threads(Some(1))?;
    let mut settings = Settings::default();
    flags.selector.apply(&mut settings);
    let mempursuit = policy::open(policy::resolve(policy::REFERENCE)?, &settings, &progress::say)?;
    let clock = WallClock::new();
    let mut rows = Vec::new();
    let (mut source, mut dimension) = (String::new(), None);
    for &candidates in &flags.candidates {
        let pools;
        (pools, source) = workload(&flags, candidates)?;
        dimension = pools.iter().find_map(Pool::dimension);
        let mut bar = progress::Cell::new(&format!("P = {candidates}"));
        for &top_k in &flags.top_k {
            let rules = Rules { top_k, warmup: flags.warmup, questions: Questions::Fixed(flags.questions) };
            let (times, _) =
                measure(&clock, mempursuit.as_ref(), None, &pools, &rules, &mut |step| bar.show(step))?;
            rows.push(Row::new(mempursuit.name(), mempursuit.describe(), &times, None));
        }
    }
    let results = Results {
        command: std::env::args().collect::<Vec<_>>().join(" "),
        environment: Environment::detect(threads),
        workload: Workload {
            source,
            questions: rows.first().map_or(0, |row| row.times_ms.len()),
            candidates: flags.candidates.iter().copied().max().unwrap_or(0),
            top_k: flags.top_k.iter().copied().max().unwrap_or(0),
            dimension,
            tokens: None,
        },
        rows,
    };
    flags.exports.write(&results, &GridTerminal, &GridMarkdown)
}

/// Pools of exactly `candidates`, and what the workload is called.
fn workload(flags: &Flags, candidates: usize) -> Result<(Vec<Pool>, String)> {
    let Some(input) = &flags.input else {
        let generator = Synthetic { candidates, seed: flags.seed, ..Synthetic::default() };
        let source = format!("generated pools, seed {}", flags.seed);
        return Ok((generator.pools().take(flags.questions).collect(), source));
    };
    let large =
        input::open(input)?.filter(|pool| pool.as_ref().map_or(true, |pool| pool.len() >= candidates));
    let mut pools = large.take(flags.questions).collect::<Result<Vec<Pool>>>()?;
    if pools.is_empty() {
        let message = format!("has no pool of {candidates} candidates; name smaller sizes with --candidates");
        return Err(Error::file(input, message));
    }
    pools.iter_mut().for_each(|pool| pool.truncate(candidates));
    Ok((pools, input::name(input)))
}
