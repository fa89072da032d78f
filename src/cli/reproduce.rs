//! `reproduce`: the paper's Tables 12, 13 and 14 and Figures 5 and 9 for this machine, as a report folder.

use std::path::{Path, PathBuf};

use clap::Args;

use super::flags::{MachineFlags, Weights, positive};
use super::output::Output;
use super::progress::{self, span};
use super::workshop::{Bench, first_failure, show};
use crate::device;
use crate::error::{Error, Result};
use crate::measure::clock::WallClock;
use crate::measure::environment::Environment;
use crate::measure::plan::{self, Cell, Event, Ledger};
use crate::measure::reproduction::{CANDIDATES, Estimate, Finding, Network, Planned, Reproduction, Scope};
use crate::measure::results::{Row, Status};
use crate::policy::{Kind, Settings};
use crate::pool::Pool;
use crate::report::figures::milliseconds;
use crate::report::{paper, reproduction};
use crate::rerank::OpenOptions;
use crate::weights::{self, Card, WeightsSource, cards};

/// Batches of Figure 9 in a quick run, whose pools hold 16 candidates.
const QUICK_BATCHES: [usize; 4] = [1, 4, 8, 16];

#[derive(Debug, Args)]
pub struct Flags {
    /// Folder of the report; finished cells are kept there, and a run that was interrupted goes on from them
    #[arg(long, value_name = "DIR", default_value = "reproduction")]
    output: PathBuf,
    /// Under ten minutes on two cores: the first model whole with few questions, the others on pools of 16
    #[arg(long)]
    quick: bool,
    /// Rerankers, by their known names [default: bge-base, bge-large, bge-v2-m3, qwen3.5-0.8b, qwen3.5-2b, qwen3.5-4b]
    #[arg(long, alias = "model", value_name = "NAME[,NAME...]", value_delimiter = ',')]
    models: Vec<String>,
    /// Pools of 200 with embeddings and texts: a JSON Lines file, or - for standard input [default: generated]
    #[arg(long, value_name = "FILE")]
    input: Option<String>,
    /// Pools timed in the cells of Tables 12 and 13 [default: 20, LLM scorers 10; quick 1]
    #[arg(long, value_name = "N", value_parser = positive)]
    questions: Option<usize>,
    /// Untimed passes of full shape before a reranker's cell; 0 is one small pass [default: 1; quick 0]
    #[arg(long, value_name = "N")]
    warmup: Option<usize>,
    /// Batch sizes of Figure 9 [default: the paper's; quick 1,4,8,16]
    #[arg(long, value_name = "N[,N...]", value_delimiter = ',', value_parser = positive)]
    batches: Vec<usize>,
    /// Random weights have the exact architecture and need no download; their latencies are those of the real ones
    #[arg(long, value_enum, default_value_t = Weights::Random)]
    weights: Weights,
    /// A tokenizer.json to use with random weights instead of the stand-in
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
    /// Use only what is in the local cache (also HF_HUB_OFFLINE=1)
    #[arg(long)]
    offline: bool,
    /// Seed of generated pools and random weights
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    machine: MachineFlags,
}

impl Flags {
    fn networks(&self) -> Result<Vec<Network>> {
        let chosen: Vec<&Card> = match self.models.as_slice() {
            [] => cards().iter().collect(),
            names => names.iter().map(|name| known(name)).collect::<Result<_>>()?,
        };
        let mut networks: Vec<Network> = Vec::new();
        for card in chosen {
            if !networks.iter().any(|network| network.model == card.name) {
                networks.push(network(card));
            }
        }
        Ok(networks)
    }

    fn scope(&self) -> Scope {
        let batches = match (self.batches.is_empty(), self.quick) {
            (false, _) => self.batches.clone(),
            (true, true) => QUICK_BATCHES.to_vec(),
            (true, false) => paper::SWEEP_BATCHES.to_vec(),
        };
        Scope {
            quick: self.quick,
            questions: self.questions,
            warmup: self.warmup.unwrap_or(usize::from(!self.quick)),
            batches,
            grid: (paper::GRID_CANDIDATES.to_vec(), paper::GRID_BUDGETS.to_vec()),
        }
    }

    fn settings(&self) -> Result<Settings> {
        let mut settings = Settings { device: self.machine.device.parse()?, ..Settings::default() };
        let mut hub = weights::Hub::default();
        hub.offline |= self.offline;
        settings.reranker = OpenOptions {
            weights: match self.weights {
                Weights::Random => WeightsSource::Random,
                Weights::Pretrained => WeightsSource::Pretrained,
            },
            device: settings.device,
            dtype: self.machine.dtype.parse()?,
            seed: self.seed,
            tokenizer: self.tokenizer.clone(),
            hub,
            ..OpenOptions::default()
        };
        Ok(settings)
    }

    /// Everything that a cell's figures depend on besides the cell: under another context it is measured again.
    fn context(&self, settings: &Settings, environment: &Environment, device: &str) -> serde_json::Value {
        serde_json::json!({
            "environment": environment,
            "device": device,
            "dtype": settings.reranker.dtype.name(),
            "weights": settings.reranker.weights.name(),
            "program": std::env::current_exe().ok().map(|path| stamp(&path)),
            "tokenizer": self.tokenizer.as_deref().map(stamp),
            "input": self.input.as_deref().map(|input| stamp(Path::new(input.trim_start_matches("locomo:")))),
            "seed": self.seed,
        })
    }
}

/// A file by name, size and time of change: an edited one is another.
fn stamp(path: &Path) -> String {
    let facts = std::fs::metadata(path).ok().map(|facts| (facts.len(), facts.modified().ok()));
    format!("{} {facts:?}", path.display())
}

fn known(name: &str) -> Result<&'static Card> {
    weights::card(name).ok_or_else(|| {
        let names: Vec<&str> = cards().iter().map(|card| card.name).collect();
        Error::Usage(format!("reproduce knows the paper's rerankers, not {name:?}: {}", names.join(", ")))
    })
}

fn network(card: &Card) -> Network {
    let shape = card.shape();
    Network {
        model: card.name.into(),
        kind: match card.kind {
            weights::Kind::CrossEncoder => Kind::CrossEncoder,
            weights::Kind::LlmScorer => Kind::LlmScorer,
        },
        layers: shape.layers,
        width: shape.width,
        body_parameters: shape.body_parameters,
    }
}

/// Runs the command.
pub fn run(flags: Flags) -> Result<()> {
    let networks = flags.networks()?;
    let settings = flags.settings()?;
    let folder = &flags.output;
    std::fs::create_dir_all(folder)
        .map_err(|error| Error::file(folder, format!("cannot be made as the report's folder: {error}")))?;
    let threads = super::use_threads(flags.machine.threads)?;
    let environment = Environment::detect(threads).with_gpu(settings.device);
    let placement = device::place(settings.device, settings.reranker.dtype)?;
    let context = flags.context(&settings, &environment, &placement.device_name);
    let mut ledger = Ledger::open(&folder.join("results.jsonl"), context)?;
    let mut bench = Bench::new(settings, flags.input.clone(), flags.seed);
    let mut scope = flags.scope();
    let notes = fit_to_input(&mut scope, &mut bench)?;
    let planned = scope.plan(&networks);
    let rate = device::matmul_rate(&placement)?;
    drop(placement);

    let cells: Vec<Cell> = planned.iter().map(|planned| planned.cell.clone()).collect();
    let rows = measure(&cells, &networks, rate, &mut bench, &mut ledger)?;
    let failed = first_failure(&cells, &rows, &name);
    let findings =
        planned.into_iter().zip(rows).map(|(planned, row)| finding(planned, row, &networks)).collect();
    let report = Reproduction {
        command: super::command_line(),
        environment,
        source: bench.source(),
        dimension: bench.dimension()?,
        quick: flags.quick,
        notes,
        findings,
        networks,
    };
    write(folder, &report)?;
    failed
}

/// Leaves out what the input's pools are too small for, and says so.
///
/// # Errors
/// An input that cannot be read, or that no cell could be measured on.
fn fit_to_input(scope: &mut Scope, bench: &mut Bench) -> Result<Vec<String>> {
    let Some(input) = bench.input.clone() else { return Ok(Vec::new()) };
    let pools = bench.read()?;
    let largest = pools.iter().map(Pool::len).max().unwrap_or(0);
    if largest < CANDIDATES {
        let message = format!("has no pool of {CANDIDATES} candidates, which Tables 12 and 13 are about");
        return Err(Error::file(input, message));
    }
    for pool in pools {
        pool.texts()?;
        if pool.dimension().is_none() {
            return Err(Error::pool(
                &pool.id,
                "has no embeddings, and MemPursuit is measured beside every reranker",
            ));
        }
    }
    let missing: Vec<String> =
        scope.grid.0.iter().filter(|&&size| size > largest).map(ToString::to_string).collect();
    scope.grid.0.retain(|&size| size <= largest);
    Ok(match missing.as_slice() {
        [] => Vec::new(),
        sizes => vec![format!(
            "Table 14 is without P = {}: the largest pool of {} has {largest} candidates.",
            sizes.join(", "),
            bench.source()
        )],
    })
}

/// A row with what the plan knows of its model and a policy that was never opened could not say.
fn finding(planned: Planned, mut row: Row, networks: &[Network]) -> Finding {
    let Planned { cell, parts } = planned;
    if let Some(network) = networks.iter().find(|network| network.model == cell.variant.model) {
        row.description.kind = network.kind;
    }
    Finding { parts, cell, row }
}

fn measure(
    cells: &[Cell],
    networks: &[Network],
    rate: f64,
    bench: &mut Bench,
    ledger: &mut Ledger,
) -> Result<Vec<Row>> {
    let mut left: Vec<&Cell> = cells.iter().filter(|cell| ledger.row(cell).is_none()).collect();
    let mut estimate = Estimate::new(rate);
    progress::say(&format!(
        "{} cells, {} of them finished before. The others take about {} on this machine (its matrix product does {:.0} \
         GFLOP/s). An interrupted run goes on from its finished cells.",
        cells.len(),
        cells.len() - left.len(),
        span(estimate.of(left.iter().copied(), networks)),
        rate / 1e9,
    ));
    let mut bar = None;
    let mut tell = |event: Event<'_>| {
        let ended = match &event {
            Event::End { cell, row, time, .. } => {
                estimate.learn(cell, networks, *time);
                left.retain(|other| other != cell);
                let outcome = match row.status {
                    Status::Ok => format!("{} ms a pool", milliseconds(row.median_ms)),
                    _ => row.error.clone().unwrap_or_default(),
                };
                Some(format!("  {outcome}; about {} left", span(estimate.of(left.iter().copied(), networks))))
            }
            _ => None,
        };
        show(&mut bar, &name, event);
        ended.iter().for_each(|line| progress::say(line));
    };
    plan::run(cells, bench, ledger, &WallClock::new(), &mut tell)
}

fn name(cell: &Cell) -> String {
    let mut name = format!("{}, P = {}, K = {}", cell.variant.label(), cell.candidates, cell.top_k);
    if cell.batch > 0 {
        name += &format!(", batch {}", cell.batch);
    }
    name
}

fn write(folder: &Path, report: &Reproduction) -> Result<()> {
    let files = reproduction::files(report)?;
    for file in &files {
        Output::create(&folder.join(&file.name))?.write(&file.content)?;
    }
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    Output::stdout().write(&format!("{}: {}\n", folder.display(), names.join(", ")))
}
