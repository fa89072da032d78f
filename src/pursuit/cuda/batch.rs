//! Many pools in one launch: tasks go up, the kernel runs, answers come down.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::device::{Device, Memory, Submission};
use super::layout::{MAX_BUDGET, MAX_CANDIDATES, Outcome, Plan, Shape, task};
use super::resident::{Format, stride};
use super::{Candidates, Job, Query, Refusal, Times};
use crate::error::{Error, Result};
use crate::pursuit::{self, Elements, Normalize, Options, Path, Step};

/// The answers of a batch.
#[derive(Debug, Default)]
pub struct Batch {
    /// One for each job, in the order of the jobs.
    pub paths: Vec<Result<Path, Refusal>>,
    /// Where the time went.
    pub times: Times,
    /// What the device had to do.
    pub work: Work,
}

/// What the device had to do for a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// Launches: one for each combination of element type and dimension.
    pub launches: usize,
    /// Reads of a whole pool, over all pools.
    pub passes: usize,
    /// Scores settled in float64, over all pools.
    pub settled: usize,
}

/// Device memory and host buffers, reused from launch to launch.
#[derive(Debug, Default)]
pub(super) struct Arena {
    memory: Option<Memory>,
    upload: Vec<u8>,
    read_back: Vec<u8>,
    wide: Vec<f32>,
}

impl Arena {
    /// At least `bytes` of device memory; returns its address.
    fn reserve(&mut self, device: &Arc<dyn Device>, bytes: usize) -> Result<u64> {
        if self.memory.as_ref().is_none_or(|memory| memory.bytes() < bytes) {
            // Give back first: the old and the new need not fit side by side.
            self.memory = None;
            self.memory = Some(Memory::allocate(device, bytes)?);
        }
        Ok(self.memory.as_ref().map_or(0, Memory::address))
    }
}

/// As [`Gpu::pursue`](super::Gpu::pursue).
pub(super) fn pursue(
    device: &Arc<dyn Device>,
    arena: &mut Arena,
    jobs: &[Job<'_>],
    options: &Options,
) -> Result<Batch> {
    let start = Instant::now();
    options.validate().map_err(|fault| Error::Usage(fault.to_string()))?;
    if options.budget > MAX_BUDGET {
        return Err(Error::Usage(format!(
            "a budget of {} is beyond the {MAX_BUDGET} steps that the GPU selector takes; lower --top-k, or use the \
             CPU selector (--model mempursuit)",
            options.budget
        )));
    }
    let mut batch = Batch { paths: jobs.iter().map(|job| check(job)).collect(), ..Batch::default() };
    let mut groups: Vec<((Format, usize), Vec<usize>)> = Vec::new();
    for (k, job) in jobs.iter().enumerate() {
        if batch.paths[k].is_err() || job.candidates.is_empty() || options.budget == 0 {
            continue;
        }
        let key = (job.memories.format(), job.memories.dimension());
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, members)) => members.push(k),
            None => groups.push((key, vec![k])),
        }
    }
    for ((format, dimension), members) in groups {
        launch(device, arena, jobs, options, format, dimension, &members, &mut batch)?;
    }
    let device_time = batch.times.upload + batch.times.compute + batch.times.read_back;
    batch.times.prepare = start.elapsed().saturating_sub(device_time);
    Ok(batch)
}

/// What can be told without the device. A path without steps stands for an answer to come.
fn check(job: &Job<'_>) -> Result<Path, Refusal> {
    let (rows, dimension) = (job.memories.rows(), job.memories.dimension());
    let query = match job.query {
        Query::Given(elements) => elements.len(),
        Query::Resident(queries, row) if row >= queries.rows() || queries.format() != Format::F32 => {
            return Err(Refusal::NoSuchQuery { row, rows: queries.rows() });
        }
        Query::Resident(queries, _) => queries.dimension(),
    };
    if query != dimension {
        return Err(pursuit::Error::Dimension { query, candidates: dimension }.into());
    }
    let count = job.candidates.len();
    if count > MAX_CANDIDATES {
        return Err(Refusal::TooManyCandidates { count });
    }
    let outside = match job.candidates {
        Candidates::Span { first, count } => {
            (first + count > rows).then(|| (rows.saturating_sub(first), rows.max(first)))
        }
        Candidates::Rows(index) => {
            index.iter().position(|&row| row as usize >= rows).map(|row| (row, index[row] as usize))
        }
    };
    match outside {
        Some((row, index)) => {
            Err(pursuit::Error::RowOutOfStore { row, index: index.try_into().unwrap_or(u32::MAX), rows }
                .into())
        }
        // All of an empty pool is selected from the start.
        None => Ok(Path { optimum: job.candidates.is_empty().then_some(0), ..Path::default() }),
    }
}

/// Where the parts of the arena lie. Offsets are multiples of 16.
struct Regions {
    counter: Range<usize>,
    tasks: Range<usize>,
    index: Range<usize>,
    queries: Range<usize>,
    outcomes: Range<usize>,
    order: Range<usize>,
    scores: Range<usize>,
    weights: Range<usize>,
    trace: Range<usize>,
    trace_weights: Range<usize>,
    workspace: usize,
}

impl Regions {
    fn new(pools: usize, budget: usize, indices: usize, queries: usize, trace: bool) -> Self {
        let mut end = 0;
        let mut next = |bytes: usize| {
            let start = end;
            end = (start + bytes).next_multiple_of(16);
            start..start + bytes
        };
        let steps = pools * budget;
        let traced = if trace { steps } else { 0 };
        Self {
            counter: next(4),
            tasks: next(pools * 32),
            index: next(indices * 4),
            queries: next(queries * 4),
            outcomes: next(pools * Outcome::BYTES),
            order: next(steps * 4),
            scores: next(steps * 8),
            weights: next(steps * 8),
            trace: next(traced * 40),
            trace_weights: next(traced * budget * 8),
            workspace: next(0).start,
        }
    }
}

/// Orders the `members` of `jobs`, which are of one element type and one dimension.
#[allow(clippy::too_many_arguments)] // the batch's state, split between its launches
fn launch(
    device: &Arc<dyn Device>,
    arena: &mut Arena,
    jobs: &[Job<'_>],
    options: &Options,
    format: Format,
    dimension: usize,
    members: &[usize],
    batch: &mut Batch,
) -> Result<()> {
    let stride = stride(dimension);
    let capacity = members.iter().map(|&k| jobs[k].candidates.len()).max().unwrap_or(0);
    let Some(shape) = Shape::fit(capacity, options.budget.min(capacity), stride) else {
        if let &[only] = members {
            batch.paths[only] = Err(Refusal::TooLong { dimension });
            return Ok(());
        }
        // The largest pool decides what a block needs: smaller ones may fit without it.
        let mut by_size = members.to_vec();
        by_size.sort_by_key(|&k| jobs[k].candidates.len());
        let (small, large) = by_size.split_at(by_size.len() / 2);
        launch(device, arena, jobs, options, format, dimension, small, batch)?;
        return launch(device, arena, jobs, options, format, dimension, large, batch);
    };
    let budget = shape.budget;
    let count = |of: fn(&Job<'_>) -> usize| members.iter().map(|&k| of(&jobs[k])).sum::<usize>();
    let indices = count(|job| match job.candidates {
        Candidates::Rows(index) => index.len(),
        Candidates::Span { .. } => 0,
    });
    let given = count(|job| usize::from(matches!(job.query, Query::Given(_))));
    let regions = Regions::new(members.len(), budget, indices, given * stride, options.trace);
    let blocks = device.resident_blocks(format.kernel(), shape.shared_bytes())?.clamp(1, members.len());
    let base = arena.reserve(device, regions.workspace + blocks * shape.workspace_bytes())?;
    let Arena { upload, read_back, wide, .. } = arena;
    lay_out_tasks(jobs, members, &regions, base, stride, upload, wide);
    let at = |region: &Range<usize>| base + region.start as u64;
    let traced = |region: &Range<usize>| if options.trace { at(region) } else { 0 };
    let plan = Plan {
        tasks: at(&regions.tasks),
        workspace: base + regions.workspace as u64,
        next: at(&regions.counter),
        outcomes: at(&regions.outcomes),
        order: at(&regions.order),
        scores: at(&regions.scores),
        weights: at(&regions.weights),
        trace: traced(&regions.trace),
        trace_weights: traced(&regions.trace_weights),
        workspace_bytes: shape.workspace_bytes() as u64,
        ridge: options.ridge,
        tolerance: options.stop.map_or(0.0, |stop| stop.tolerance),
        pools: members.len() as u32,
        budget: budget as u32,
        capacity: capacity as u32,
        stride: stride as u32,
        columns: shape.columns as u32,
        slots: shape.slots() as u32,
        patience: options.stop.map_or(0, |stop| stop.patience.try_into().unwrap_or(u32::MAX)),
        normalize: u32::from(options.normalize == Normalize::Yes),
    };
    let answers = regions.outcomes.start;
    read_back.resize(regions.workspace - answers, 0);
    // SAFETY: the arena is as large as the regions and the blocks' workspace together; every task points to
    // vectors that the jobs borrow, with rows and queries checked by check().
    let times = unsafe {
        device.run(Submission {
            upload,
            upload_to: base,
            kernel: format.kernel(),
            blocks,
            shared_bytes: shape.shared_bytes(),
            plan: &plan,
            read_back,
            read_from: base + answers as u64,
        })?
    };
    batch.times.upload += times.upload;
    batch.times.compute += times.compute;
    batch.times.read_back += times.read_back;
    batch.work.launches += 1;
    let answers =
        Answers { bytes: read_back, first: answers, regions: &regions, budget, trace: options.trace };
    for (pool, &k) in members.iter().enumerate() {
        let outcome = answers.outcome(pool);
        batch.work.passes += outcome.passes as usize;
        batch.work.settled += outcome.settled as usize;
        batch.paths[k] = answers.path(pool, &outcome);
    }
    Ok(())
}

/// Writes what goes to the device: a counter at 0, the tasks, their indices and given queries.
fn lay_out_tasks(
    jobs: &[Job<'_>],
    members: &[usize],
    regions: &Regions,
    base: u64,
    stride: usize,
    upload: &mut Vec<u8>,
    wide: &mut Vec<f32>,
) {
    upload.clear();
    upload.resize(regions.queries.end.next_multiple_of(16), 0);
    let (mut index_at, mut query_at) = (regions.index.start, regions.queries.start);
    for (pool, &k) in members.iter().enumerate() {
        let job = &jobs[k];
        let (rows, index) = match job.candidates {
            Candidates::Span { first, .. } => (job.memories.address(first), 0),
            Candidates::Rows(index) => {
                let bytes: &[u8] = bytemuck::cast_slice(index);
                upload[index_at..][..bytes.len()].copy_from_slice(bytes);
                let address = base + index_at as u64;
                index_at += bytes.len();
                (job.memories.address(0), address)
            }
        };
        let query = match job.query {
            Query::Resident(queries, row) => queries.address(row),
            Query::Given(elements) => {
                widen(elements, stride, wide);
                let bytes: &[u8] = bytemuck::cast_slice(wide);
                upload[query_at..][..bytes.len()].copy_from_slice(bytes);
                let address = base + query_at as u64;
                query_at += bytes.len();
                address
            }
        };
        let words = task(rows, query, index, job.candidates.len());
        upload[regions.tasks.start + 32 * pool..][..32].copy_from_slice(bytemuck::cast_slice(&words));
    }
}

/// Writes the elements as float32, exactly, and zeros up to `length`.
pub(super) fn widen(elements: Elements<'_>, length: usize, out: &mut Vec<f32>) {
    out.clear();
    match elements {
        Elements::F32(elements) => out.extend_from_slice(elements),
        Elements::F16(elements) => out.extend(elements.iter().map(|element| element.to_f32())),
        Elements::Bf16(elements) => out.extend(elements.iter().map(|element| element.to_f32())),
    }
    out.resize(length, 0.0);
}

/// What came back from the device.
struct Answers<'a> {
    bytes: &'a [u8],
    /// Offset in the arena of the first of the bytes.
    first: usize,
    regions: &'a Regions,
    budget: usize,
    trace: bool,
}

impl Answers<'_> {
    fn outcome(&self, pool: usize) -> Outcome {
        let start = self.regions.outcomes.start - self.first + pool * Outcome::BYTES;
        Outcome::read(&self.bytes[start..])
    }

    /// `count` values from the `skip`-th on, of a region of 8-byte or 4-byte values.
    fn values<T: bytemuck::Pod>(&self, region: &Range<usize>, skip: usize, count: usize) -> Vec<T> {
        let size = size_of::<T>();
        let start = region.start - self.first + skip * size;
        self.bytes[start..start + count * size].chunks_exact(size).map(bytemuck::pod_read_unaligned).collect()
    }

    fn path(&self, pool: usize, outcome: &Outcome) -> Result<Path, Refusal> {
        let row = outcome.fault_row.checked_sub(1).map(|row| row as usize);
        match outcome.fault {
            0 => {}
            1 => return Err(pursuit::Error::NotFinite { row }.into()),
            _ => return Err(pursuit::Error::ZeroVector { row }.into()),
        }
        let (regions, first, count) = (self.regions, pool * self.budget, outcome.selected as usize);
        let steps = |steps: u32| (steps > 0).then_some(steps as usize);
        let mut path = Path {
            order: self.values(&regions.order, first, count),
            scores: self.values(&regions.scores, first, count),
            weights: self.values(&regions.weights, first, count),
            optimum: steps(outcome.optimum),
            stopped: steps(outcome.stopped),
            trace: Vec::new(),
        };
        if self.trace {
            path.trace = (0..count).map(|step| self.step(first + step, step, &path)).collect();
        }
        Ok(path)
    }

    fn step(&self, at: usize, step: usize, path: &Path) -> Step {
        let values = self.values::<f64>(&self.regions.trace, 5 * at, 5);
        Step {
            index: path.order[step],
            score: path.scores[step],
            residual: values[0],
            objective: values[1],
            reduction: values[2],
            nu: values[3],
            certificate: values[4],
            weights: self.values(&self.regions.trace_weights, at * self.budget, step + 1),
        }
    }
}
