//! `grid`: MemPursuit's latency over pool sizes and budgets (the paper's Table 14).

use clap::Args;

use super::flags::{ExportFlags, SelectorFlags, positive};
use super::workshop::{Bench, first_failure, show};
use crate::error::Result;
use crate::measure::clock::WallClock;
use crate::measure::environment::Environment;
use crate::measure::plan::{self, Cell, Ledger, Variant};
use crate::measure::results::{Results, Workload};
use crate::policy::{self, Settings};
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
    /// Pools with embeddings; those with fewer than P candidates are passed over [default: generated]
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
    let mut bench = Bench::new(settings, flags.input.clone(), flags.seed);
    let cell = |candidates: usize, top_k: usize| Cell {
        variant: Variant::selector(policy::REFERENCE),
        batch: 0,
        candidates,
        top_k,
        questions: flags.questions,
        seconds: None,
        warmup: flags.warmup,
        repeat: 0,
    };
    let sizes = flags.candidates.iter();
    let cells: Vec<Cell> = sizes.flat_map(|&p| flags.top_k.iter().map(move |&k| cell(p, k))).collect();
    let mut bar = None;
    let name = |cell: &Cell| format!("P = {}, K = {}", cell.candidates, cell.top_k);
    let mut tell = |event: plan::Event<'_>| show(&mut bar, &name, event);
    let rows = plan::run(&cells, &mut bench, &mut Ledger::in_memory(), &WallClock::new(), &mut tell)?;
    let failed = first_failure(&cells, &rows, &name);
    let results = Results {
        command: super::command_line(),
        environment: Environment::detect(threads),
        workload: Workload {
            source: bench.source(),
            questions: rows.iter().map(|row| row.times_ms.len()).min().unwrap_or(0),
            candidates: flags.candidates.iter().copied().max().unwrap_or(0),
            top_k: flags.top_k.iter().copied().max().unwrap_or(0),
            dimension: bench.dimension()?,
            tokens: None,
        },
        rows,
    };
    flags.exports.write(&results, &GridTerminal, &GridMarkdown)?;
    failed
}
