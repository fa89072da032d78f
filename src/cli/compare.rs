//! `compare`: the CPU selector against the GPU selector.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::flags::{SelectorFlags, positive};
use super::output::{self, Output};
use super::progress;
use crate::error::{Error, Result};
use crate::measure::clock::WallClock;
use crate::measure::compare::{Comparison, Layout, batch, crossing};
use crate::measure::environment::Environment;
use crate::policy::{self, MemPursuit, Policy, Settings};
use crate::pool::synthetic::Synthetic;
use crate::pool::{Pool, Store, StoredQuery, Vectors};
use crate::report::compare::{chart, table};

/// Batches over one store: pools at a time.
const SHARED: [usize; 5] = [1, 16, 256, 1_540, 16_384];
/// Batches over rows of their own, in one store and brought along.
const SPREAD: [usize; 3] = [256, 1_540, 16_384];
const DISTINCT: [usize; 5] = [1, 16, 256, 1_540, 16_384];
/// Pools generated; larger batches use them again.
const GENERATED: usize = 64;
/// Most bytes of vectors that the pools of one batch may have for themselves.
const MOST_BYTES: usize = 4 << 30;

#[derive(Debug, Args)]
pub struct Flags {
    /// Pool size P, at most 1024
    #[arg(long, value_name = "P", default_value_t = 200, value_parser = positive)]
    candidates: usize,
    /// Budget K, at most 128
    #[arg(long, value_name = "K", default_value_t = 20, value_parser = positive)]
    top_k: usize,
    /// Largest batch
    #[arg(long, value_name = "N", value_parser = positive)]
    questions: Option<usize>,
    /// The GPU: cuda or cuda:N
    #[arg(long, value_name = "DEVICE", default_value = "cuda")]
    device: String,
    /// Threads of the CPU side [default: all cores]
    #[arg(long, value_name = "N", value_parser = positive)]
    threads: Option<usize>,
    /// Seed of the generated pools
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Run the kernels on the CPU (builds with the feature `emulator`): checks orders on small pools, times nothing
    #[arg(long)]
    emulated: bool,
    /// Write the comparison to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write latency over batch size as a figure to this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    selector: SelectorFlags,
}

/// Runs the command.
pub fn run(mut flags: Flags) -> Result<()> {
    for path in [&flags.json, &flags.svg].into_iter().flatten() {
        output::check_writable(path)?;
    }
    let threads = super::use_threads(flags.threads)?;
    let mut settings = Settings { device: flags.device.parse()?, ..Settings::default() };
    flags.selector.apply(&mut settings);
    let gpu = if flags.emulated { policy::emulated(&settings)? } else { policy::on_gpu(&settings)? };
    let dimension = if flags.emulated { 96 } else { Synthetic::default().dimension };
    if flags.emulated {
        // The emulator takes about a microsecond for each step of each thread.
        flags.candidates = flags.candidates.min(64);
        flags.top_k = flags.top_k.min(12);
        flags.questions = Some(flags.questions.unwrap_or(16).min(16));
    }
    let comparison = compare(&flags, &settings, gpu.as_ref(), dimension, threads)?;
    Output::stdout().write(&table(&comparison))?;
    if let Some(path) = &flags.json {
        let text = serde_json::to_string_pretty(&comparison)
            .map_err(|error| Error::Output { to: path.display().to_string(), source: error.into() })?;
        Output::create(path)?.write(&format!("{text}\n"))?;
    }
    if let Some(path) = &flags.svg {
        Output::create(path)?.write(&chart(&comparison).svg())?;
    }
    let (agreeing, pools) = comparison.agreement();
    if agreeing < pools {
        return Err(Error::Device(format!(
            "{} of {pools} orders differ between CPU and GPU",
            pools - agreeing
        )));
    }
    Ok(())
}

fn compare(
    flags: &Flags,
    settings: &Settings,
    gpu: &dyn Policy,
    dimension: usize,
    threads: usize,
) -> Result<Comparison> {
    let most = flags.questions.unwrap_or(usize::MAX);
    let generator = Synthetic { candidates: flags.candidates, dimension, seed: flags.seed };
    let distinct: Vec<Pool> = generator.pools().take(GENERATED.min(most)).collect();
    let shared = over_one_store(&distinct, dimension)?;
    let cpu = MemPursuit::new(settings.pursuit, 0);
    let clock = WallClock::new();
    let (mut batches, mut left_out) = (Vec::new(), Vec::new());
    for (layout, sizes) in
        [(Layout::Shared, &SHARED[..]), (Layout::Spread, &SPREAD), (Layout::Distinct, &DISTINCT)]
    {
        for &size in sizes.iter().filter(|&&size| size <= most) {
            let bytes = size * flags.candidates * dimension * size_of::<f32>();
            if layout != Layout::Shared && bytes > MOST_BYTES {
                left_out.push(format!("{size} pools, {layout:?}, are left out: {bytes} bytes of vectors."));
                continue;
            }
            progress::say(&format!("{size} pools, {layout:?}"));
            let of = |pools: &[Pool]| -> Vec<Pool> { pools.iter().cycle().take(size).cloned().collect() };
            let pools = match layout {
                Layout::Shared => of(&shared),
                Layout::Spread => over_one_store(&of(&distinct), dimension)?,
                Layout::Distinct => of(&distinct),
            };
            match batch(&clock, &cpu, gpu, &pools, layout, flags.top_k, !flags.emulated) {
                Ok(batch) => batches.push(batch),
                Err(Error::OutOfMemory(why)) => left_out.push(format!("{size} pools are left out: {why}.")),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(Comparison {
        command: super::command_line(),
        environment: Environment::detect(threads).with_gpu(settings.device),
        gpu: gpu.describe().device,
        candidates: flags.candidates,
        top_k: flags.top_k,
        dimension,
        timed: !flags.emulated,
        crossing: crossing(&batches),
        batches,
        left_out,
    })
}

/// The same pools, their vectors in one store.
fn over_one_store(pools: &[Pool], dimension: usize) -> Result<Vec<Pool>> {
    let (mut memories, mut queries) = (Vec::new(), Vec::new());
    for pool in pools {
        if let Vectors::Inline { query, rows, .. } = &pool.vectors {
            memories.extend_from_slice(rows);
            queries.extend_from_slice(query);
        }
    }
    let store = Arc::new(Store::from_rows(dimension, memories, queries)?);
    let mut first = 0;
    let place = |(number, pool): (usize, &Pool)| {
        let rows = (first..first + pool.len() as u32).collect();
        first += pool.len() as u32;
        let vectors =
            Vectors::Stored { store: Arc::clone(&store), query: StoredQuery::Row(number as u32), rows };
        Pool { vectors, ..pool.clone() }
    };
    Ok(pools.iter().enumerate().map(place).collect())
}
