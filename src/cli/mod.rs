//! The command line: one file a command. Flags are parsed here and resolved into working objects; nothing
//! outside this folder knows clap.

mod bench;
mod compare;
mod doctor;
mod flags;
mod grid;
mod input;
#[cfg(feature = "neural")]
mod models;
mod output;
mod progress;
mod rank;
#[cfg(feature = "neural")]
mod reproduce;
mod sweep;
mod workshop;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::error::{Error, Result};

/// Order pools of candidate memories for a query, and measure honestly what that costs.
///
/// Without a command: benchmark policies on a workload, MemPursuit always beside them as the 1.00x row.
/// Without anything at all: a demonstration on generated pools, `bge-base` with random weights.
#[derive(Debug, Parser)]
#[command(version = version(), propagate_version = true, args_conflicts_with_subcommands = true)]
#[command(after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    bench: bench::Flags,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Order pools from a file
    Rank(rank::Flags),
    /// List known models, show one, or fetch its files
    #[cfg(feature = "neural")]
    Models(models::Flags),
    /// The CPU selector against the GPU selector
    Compare(compare::Flags),
    /// What this machine and this build can do
    Doctor(doctor::Flags),
    /// Latency over batch sizes (the paper's Figure 9)
    Sweep(sweep::Flags),
    /// MemPursuit's latency over pool sizes and budgets, the paper's Table 14 beside it
    Grid(grid::Flags),
    /// The paper's Tables 12, 13 and 14 and Figures 5 and 9 for this machine, as a report folder
    #[cfg(feature = "neural")]
    Reproduce(reproduce::Flags),
}

const AFTER_HELP: &str = "\
Examples:
  rerank-bench                                          a demonstration, under three minutes
  rerank-bench --model bge-v2-m3 --batch 200            MemPursuit against a cross-encoder
  rerank-bench --model mmr,cosine --input pools.jsonl   selectors on your own pools
  rerank-bench rank --model mempursuit --input pools.jsonl --top-k 20 > orders.jsonl

Exit codes: 0 done; 1 failed at run time; 2 wrong usage; 3 finished, but some pools failed; 130 interrupted.";

fn version() -> &'static str {
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("RERANK_BENCH_COMMIT"), ")")
}

/// Runs the command line of this process; the exit code is as the help text says.
pub fn main() -> ExitCode {
    output::exit_on_interrupt();
    let matches = match Cli::command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => {
            // Help and version go to stdout with code 0, mistakes to stderr with code 2. A closed pipe is no fault.
            let _ = error.print();
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_closed_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rerank-bench: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(cli: Cli) -> Result<()> {
    match cli.command {
        None => bench::run(cli.bench),
        Some(Command::Rank(flags)) => rank::run(flags),
        #[cfg(feature = "neural")]
        Some(Command::Models(flags)) => models::run(flags),
        Some(Command::Compare(flags)) => compare::run(flags),
        Some(Command::Doctor(flags)) => doctor::run(flags),
        Some(Command::Sweep(flags)) => sweep::run(flags),
        Some(Command::Grid(flags)) => grid::run(flags),
        #[cfg(feature = "neural")]
        Some(Command::Reproduce(flags)) => reproduce::run(flags),
    }
}

/// The command line of this process, such that a shell takes it back.
fn command_line() -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:=+@%".contains(c);
    let quoted = |argument: std::ffi::OsString| {
        let text = argument.to_string_lossy().into_owned();
        if !text.is_empty() && text.chars().all(plain) {
            text
        } else {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
    };
    std::env::args_os().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Threads of this process: rayon's pool and, through the environment, candle's matmul.
///
/// Called once, before any other thread exists.
fn use_threads(threads: Option<usize>) -> Result<usize> {
    let threads = threads
        .or_else(|| std::env::var("RAYON_NUM_THREADS").ok()?.parse().ok().filter(|&n| n > 0))
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    // SAFETY: the only other thread is the one that waits for an interrupt, and it never touches the environment.
    unsafe { std::env::set_var("RAYON_NUM_THREADS", threads.to_string()) };
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build_global()
        .map_err(|error| Error::Device(format!("cannot start {threads} threads: {error}")))?;
    Ok(threads)
}
