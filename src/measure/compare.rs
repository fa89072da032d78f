//! CPU selector against GPU selector: latency, throughput, agreement, and from where on the GPU pays.

use std::time::Duration;

use serde::Serialize;

use super::clock::Clock;
use super::environment::Environment;
use super::statistics::Summary;
use crate::error::{Error, Result};
use crate::policy::{Policy, Selection};
use crate::pool::Pool;

/// Runs of a batch after its warm-up, small ones and others; the median counts.
const RUNS: [usize; 2] = [51, 5];
/// Pools of a small batch.
const SMALL: usize = 16;
/// A batch whose warm-up took longer has been measured by it; none is repeated beyond this.
const LONG: Duration = Duration::from_secs(2);

/// Where a batch's vectors lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// All pools select from one store, which stays on the device.
    Shared,
    /// As [`Layout::Shared`], but no two pools name the same row: nothing is read twice from a cache.
    Spread,
    /// Every pool brings its own vectors, which travel with each call.
    Distinct,
}

/// A batch of pools on both devices. Milliseconds are medians for the whole batch; NaN (`null` in JSON) where nothing
/// was timed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Batch {
    pub layout: Layout,
    pub pools: usize,
    pub cpu_one_thread_ms: f64,
    pub cpu_all_threads_ms: f64,
    pub gpu_ms: f64,
    /// Stage times of the GPU's last run, for the whole batch.
    pub gpu_stages_ms: serde_json::Map<String, serde_json::Value>,
    /// Pools whose order was the same on both.
    pub agreeing: usize,
}

/// A whole comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    pub command: String,
    pub environment: Environment,
    /// What the GPU is, as the policy describes it.
    pub gpu: String,
    pub candidates: usize,
    pub top_k: usize,
    pub dimension: usize,
    /// False where the kernels ran on an emulator, whose times mean nothing.
    pub timed: bool,
    pub batches: Vec<Batch>,
    /// The smallest measured batch over a shared store from which the GPU beats all CPU threads.
    pub crossing: Option<usize>,
    /// Batches that were left out, and why.
    pub left_out: Vec<String>,
}

impl Comparison {
    /// Pools compared, and those with the same order on both devices.
    pub fn agreement(&self) -> (usize, usize) {
        let sum = |count: fn(&Batch) -> usize| self.batches.iter().map(count).sum();
        (sum(|batch| batch.agreeing), sum(|batch| batch.pools))
    }
}

/// The smallest batch over a shared store from which on the GPU is faster than all CPU threads.
pub fn crossing(batches: &[Batch]) -> Option<usize> {
    let mut shared: Vec<&Batch> = batches.iter().filter(|batch| batch.layout == Layout::Shared).collect();
    shared.sort_by_key(|batch| batch.pools);
    let faster = shared.iter().rev().take_while(|batch| batch.gpu_ms < batch.cpu_all_threads_ms);
    faster.last().map(|batch| batch.pools)
}

/// Measures one batch on both.
///
/// # Errors
/// The first pool that one of them refuses.
pub fn batch(
    clock: &dyn Clock,
    cpu: &dyn Policy,
    gpu: &dyn Policy,
    pools: &[Pool],
    layout: Layout,
    top_k: usize,
    timed: bool,
) -> Result<Batch> {
    let one_thread = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .map_err(|error| Error::Device(format!("cannot start a thread: {error}")))?;
    let most = RUNS[usize::from(pools.len() > SMALL)];
    let time = |run: &mut dyn FnMut() -> Vec<Result<Selection>>| -> Result<(f64, Vec<Selection>)> {
        let begin = clock.now();
        let mut last = run();
        let mut times = vec![milliseconds(clock.now() - begin)];
        if clock.now() - begin < LONG && timed {
            times.clear();
            while times.len() < most && (times.is_empty() || clock.now() - begin < LONG) {
                let start = clock.now();
                let answers = run();
                times.push(milliseconds(clock.now() - start));
                // The answers of before go outside the clock.
                last = answers;
            }
        }
        let median = Summary::of(&times).filter(|_| timed).map_or(f64::NAN, |summary| summary.median);
        Ok((median, last.into_iter().collect::<Result<_>>()?))
    };
    let (cpu_one_thread_ms, expected) =
        time(&mut || one_thread.install(|| pools.iter().map(|pool| cpu.select(pool, top_k)).collect()))?;
    let (cpu_all_threads_ms, _) = time(&mut || cpu.select_many(pools, top_k))?;
    let (gpu_ms, got) = time(&mut || gpu.select_many(pools, top_k))?;
    let same = |(a, b): &(&Selection, &Selection)| {
        a.picks.iter().map(|pick| pick.index).eq(b.picks.iter().map(|pick| pick.index))
    };
    let mut stages = super::clock::Stages::default();
    got.iter().for_each(|selection| stages.merge(&selection.stages));
    Ok(Batch {
        layout,
        pools: pools.len(),
        cpu_one_thread_ms,
        cpu_all_threads_ms,
        gpu_ms,
        gpu_stages_ms: stages.iter().map(|(name, time)| (name.into(), milliseconds(time).into())).collect(),
        agreeing: expected.iter().zip(&got).filter(same).count(),
    })
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gpu_pays_from_the_smallest_batch_after_which_it_always_wins() {
        let batch = |pools, gpu_ms| Batch {
            layout: Layout::Shared,
            pools,
            cpu_one_thread_ms: 2.0,
            cpu_all_threads_ms: 1.0,
            gpu_ms,
            gpu_stages_ms: serde_json::Map::new(),
            agreeing: pools,
        };
        assert_eq!(crossing(&[batch(1, 0.5), batch(16, 1.5), batch(256, 0.9), batch(1540, 0.1)]), Some(256));
        assert_eq!(crossing(&[batch(1, 0.5), batch(16, 1.5)]), None);
        assert_eq!(crossing(&[]), None);
    }
}
