//! `sweep`: latency over batch sizes (the paper's Figure 9).

use std::path::PathBuf;

use clap::Args;

use super::flags::{ExportFlags, MachineFlags, RerankerFlags, SelectorFlags, positive};
use super::output::{self, Output};
use super::workshop::{Bench, first_failure, show};
use crate::error::Result;
use crate::measure::clock::WallClock;
use crate::measure::environment::Environment;
use crate::measure::plan::{self, Cell, Event, Ledger};
use crate::measure::results::{Results, Workload};
use crate::policy::{self, Settings};
use crate::report::{Exporter, Markdown, SweepFigure, Terminal, paper};

#[derive(Debug, Args)]
pub struct Flags {
    /// Rerankers, separated by commas: known names, folders, or hub ids
    #[arg(long, value_name = "NAME[,NAME...]", value_delimiter = ',', required = true)]
    model: Vec<String>,
    /// Batch sizes
    #[arg(long, value_name = "N[,N...]", value_delimiter = ',', default_values_t = paper::SWEEP_BATCHES, value_parser = positive)]
    batches: Vec<usize>,
    /// Pools: a JSON Lines file, - for standard input, or locomo:PATH [default: generated]
    #[arg(long, value_name = "FILE")]
    input: Option<String>,
    /// Budget K
    #[arg(long, value_name = "K", default_value_t = 20, value_parser = positive)]
    top_k: usize,
    /// Size of the pools; pools from files are cut to it, and smaller ones passed over
    #[arg(long, value_name = "P", default_value_t = 200, value_parser = positive)]
    candidates: usize,
    /// Pools timed in each cell
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = positive)]
    questions: usize,
    /// Untimed passes of full shape before each cell; 0 is one small pass
    #[arg(long, value_name = "N", default_value_t = 1)]
    warmup: usize,
    /// Seed of generated pools and random weights
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Write the figure to this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    exports: ExportFlags,
    #[command(flatten)]
    selector: SelectorFlags,
    #[command(flatten)]
    reranker: RerankerFlags,
    #[command(flatten)]
    machine: MachineFlags,
}

/// Runs the command.
pub fn run(flags: Flags) -> Result<()> {
    for name in &flags.model {
        policy::resolve(name)?;
    }
    flags.exports.check()?;
    flags.svg.iter().try_for_each(|path| output::check_writable(path))?;
    let threads = super::use_threads(flags.machine.threads)?;
    let mut settings = Settings::default();
    flags.selector.apply(&mut settings);
    flags.reranker.apply(&mut settings, &flags.machine, flags.seed)?;
    let mut bench = Bench::new(settings, flags.input.clone(), flags.seed);
    let cell = |model: &str, batch: usize| Cell {
        variant: flags.reranker.variant(model),
        batch,
        candidates: flags.candidates,
        top_k: flags.top_k,
        questions: flags.questions,
        seconds: None,
        warmup: flags.warmup,
        repeat: 0,
    };
    let models = flags.model.iter();
    let cells: Vec<Cell> =
        models.flat_map(|model| flags.batches.iter().map(move |&batch| cell(model, batch))).collect();
    let mut bar = None;
    let name = |cell: &Cell| format!("{}, batch {}", cell.variant.model, cell.batch);
    let mut tell = |event: Event<'_>| show(&mut bar, &name, event);
    let rows = plan::run(&cells, &mut bench, &mut Ledger::in_memory(), &WallClock::new(), &mut tell)?;
    let failed = first_failure(&cells, &rows, &name);
    let results = Results {
        command: super::command_line(),
        environment: Environment::detect(threads).with_gpu(bench.settings.device),
        workload: Workload {
            source: bench.source(),
            questions: rows.iter().map(|row| row.times_ms.len()).max().unwrap_or(0),
            candidates: flags.candidates,
            top_k: flags.top_k,
            dimension: bench.dimension()?,
            tokens: None,
        },
        rows,
    };
    flags.exports.write(&results, &Terminal, &Markdown)?;
    if let Some(path) = &flags.svg {
        Output::create(path)?.write(&SweepFigure.export(&results)?)?;
    }
    failed
}
