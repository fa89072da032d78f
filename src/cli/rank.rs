//! `rank`: order the pools of a file, streaming, in input order.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::mpsc::{Receiver, sync_channel};

use clap::{Args, ValueEnum};

use super::flags::{MachineFlags, RerankerFlags, SelectorFlags, positive};
use super::output::Output;
use super::{input, progress};
use crate::error::{Error, Result};
use crate::journal;
use crate::policy::{self, Policy, Selection, Settings};
use crate::pool::Pool;
use crate::report::ranking;

/// Order pools from a file: one JSON object a pool, in input order
#[derive(Debug, Args)]
pub struct Flags {
    /// The policy: mempursuit, mmr, cosine, hybrid, original, a known reranker, a model folder, or a hub id
    #[arg(long, value_name = "NAME")]
    model: String,
    /// Pools: a JSON Lines file (also .gz, .zst), - for standard input, or locomo:PATH
    #[arg(long, value_name = "FILE")]
    input: Option<String>,
    /// Results go to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Budget K: at most this many candidates a pool
    #[arg(long, value_name = "K", default_value_t = 20, value_parser = positive)]
    top_k: usize,
    /// Only each pool's first P candidates
    #[arg(long, value_name = "P", value_parser = positive)]
    candidates: Option<usize>,
    /// Only the first N pools
    #[arg(long, value_name = "N", value_parser = positive)]
    questions: Option<usize>,
    /// Go on after a pool that fails; its line says why, and the exit code is 3
    #[arg(long)]
    keep_going: bool,
    /// Go on with the --output of an interrupted run: pools already in it are not ordered again
    #[arg(long, requires = "output")]
    resume: bool,
    /// Only every N-th pool, beginning with the I-th (1 to N)
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// MemPursuit: add every step with its score, residual, objective, certificate and weights
    #[arg(long)]
    trace: bool,
    /// List the selected candidates by selection or by their time stamps
    #[arg(long, value_enum, default_value_t = Sort::Score)]
    sort: Sort,
    /// MemPursuit: memory for similarities between a store's memories, kept from pool to pool, MB a store
    #[arg(long, value_name = "N", default_value_t = 256)]
    cache_mb: usize,
    /// Seed of random weights
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    selector: SelectorFlags,
    #[command(flatten)]
    reranker: RerankerFlags,
    #[command(flatten)]
    machine: MachineFlags,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Sort {
    Score,
    Time,
}

/// One part of a job that is split over machines.
#[derive(Debug, Clone, Copy)]
struct Shard {
    index: usize,
    of: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        match parts {
            Some((index, of)) if index >= 1 && index <= of => Ok(Self { index, of }),
            _ => Err("give I/N with I from 1 to N, for instance 2/8".into()),
        }
    }
}

impl Shard {
    fn takes(self, position: usize) -> bool {
        position % self.of == self.index - 1
    }
}

/// Runs the command.
pub fn run(flags: Flags) -> Result<()> {
    let choice = policy::resolve(&flags.model)?;
    super::use_threads(flags.machine.threads)?;
    let mut settings =
        Settings { cache_bytes: flags.cache_mb.saturating_mul(1 << 20), ..Settings::default() };
    flags.selector.apply(&mut settings);
    flags.reranker.apply(&mut settings, &flags.machine, flags.seed)?;
    settings.pursuit.trace = flags.trace;

    let pools = input::open_or_stdin(flags.input.as_deref())?;
    let (mut output, done) = match (&flags.output, flags.resume) {
        (Some(path), true) => resume(path)?,
        (path, _) => (Output::open(path.as_deref())?, 0),
    };
    let policy = policy::open(choice, &settings, &|message| progress::say(message))?;
    let pools = selected(pools, &flags, done);
    // The reader runs ahead by a chunk: reading overlaps with ordering, and memory stays bounded. It is not
    // waited for: after a fault it may stand before an input that never ends.
    let (sender, receiver) = sync_channel(policy.chunk());
    std::thread::spawn(move || {
        for pool in pools {
            // Nobody listens any more: the ordering side has ended.
            if sender.send(pool).is_err() {
                break;
            }
        }
    });
    order(policy.as_ref(), receiver, &flags, &mut output)
}

/// The pools of this run: the shard's, cut as asked, without those that an earlier run has ordered.
fn selected(
    pools: input::Pools,
    flags: &Flags,
    done: usize,
) -> impl Iterator<Item = Result<Pool>> + Send + use<> {
    let (shard, candidates) = (flags.shard, flags.candidates);
    pools
        .take(flags.questions.unwrap_or(usize::MAX))
        .enumerate()
        .filter(move |(position, _)| shard.is_none_or(|shard| shard.takes(*position)))
        .skip(done)
        .map(move |(_, pool)| {
            let mut pool = pool?;
            if let Some(candidates) = candidates {
                pool.truncate(candidates);
            }
            Ok(pool)
        })
}

/// Orders pools as they arrive, in chunks, and writes their lines in input order.
fn order(
    policy: &dyn Policy,
    pools: Receiver<Result<Pool>>,
    flags: &Flags,
    output: &mut Output,
) -> Result<()> {
    let about = policy.describe();
    let sort = match flags.sort {
        Sort::Score => ranking::Order::Score,
        Sort::Time => ranking::Order::Time,
    };
    let (mut seen, mut failed) = (0, 0);
    // Waits for the first pool only, then takes what is there: a slow producer gets its answers one by one.
    while let Ok(first) = pools.recv() {
        let mut chunk = vec![first];
        chunk.extend(pools.try_iter().take(policy.chunk() - 1));
        for answer in answers(policy, chunk, flags.top_k) {
            seen += 1;
            let line = match answer {
                Ok((pool, selection)) => ranking::line(&pool, policy.name(), &about, &selection, sort),
                Err(error) => match error.pool_id() {
                    Some(id) if flags.keep_going => {
                        failed += 1;
                        progress::say(&format!("rerank-bench: {error}"));
                        ranking::failure(&id, &error)
                    }
                    _ => return Err(error),
                },
            };
            output.write(&format!("{line}\n"))?;
        }
    }
    if failed > 0 { Err(Error::Partial { failed, pools: seen }) } else { Ok(()) }
}

/// The pools that could be read with their selections, and the faults of the others, in input order.
fn answers(policy: &dyn Policy, chunk: Vec<Result<Pool>>, top_k: usize) -> Vec<Result<(Pool, Selection)>> {
    let mut good = Vec::with_capacity(chunk.len());
    let faults: Vec<Option<Error>> =
        chunk.into_iter().map(|pool| pool.map(|pool| good.push(pool)).err()).collect();
    let selections = policy.select_many(&good, top_k);
    let mut answered = good.into_iter().zip(selections).map(|(pool, selection)| Ok((pool, selection?)));
    faults
        .into_iter()
        .filter_map(|fault| fault.map_or_else(|| answered.next(), |error| Some(Err(error))))
        .collect()
}

/// Opens the output of an interrupted run behind its last whole line, and counts the lines before.
fn resume(path: &Path) -> Result<(Output, usize)> {
    let mut lines = 0;
    let file = journal::reopen(path, |number, line| {
        lines = number;
        serde_json::from_slice::<serde::de::IgnoredAny>(line)
            .map(drop)
            .map_err(|error| Error::line(path, number, format!("is no line of rank's ({error})")))
    })?;
    if lines > 0 {
        progress::say(&format!("{}: going on behind {lines} ordered pools", path.display()));
    }
    Ok((Output::file(path, file), lines))
}
