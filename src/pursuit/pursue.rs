//! The pursuit: pick by alignment with the residual, refit, repeat.

use super::cache::Cache;
use super::mmr::Closest;
use super::pool::{Candidates, Lengths};
use super::search::Search;
use super::simplex::Simplex;
use super::slots::Slots;
use super::{Elements, Error, Options, Path, Rows, Step, Stop, exact, ties};

/// A certificate up to this is 0: the weights are then those of the whole pool's optimum, and will not change.
const CERTIFIED: f64 = 1e-13;
/// Guards the relative reduction of the adaptive stop against a residual of 0.
const LEAST_LOSS: f64 = 1e-12;
/// Columns asked for at once: that of the memory selected, and of the likely next ones.
const COLUMNS: usize = 3;
/// Pools come best first from retrieval, so that the first rows, pursued alone, tell which columns the whole
/// pool will need: they are then taken in the one look at the rest that is slow, the first.
const HEAD: usize = 64;
/// Steps of that rehearsal.
const REHEARSED: usize = 5;
/// Slots beyond those that the selected memories need, for columns that were only likely.
const SPARE: usize = 24;

/// Working memory of the selectors, reused from pool to pool: a pursuit allocates only what it returns, once
/// its scratch has met a pool as large.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) candidates: Candidates,
    pub(super) closest: Closest,
    simplex: Simplex,
    slots: Slots,
    search: Search,
    /// The query in float64, `[d]`.
    pub(super) query: Vec<f64>,
    /// The residual, `[d]`, and the number of steps after which it was that.
    residual: Vec<f64>,
    residual_after: Option<usize>,
    /// The slot of each selected memory, in entry order.
    entered: Vec<u32>,
    /// The newest memory's dot products with the selected ones and with itself, `[K]`.
    gram: Vec<f64>,
    likely: Vec<u32>,
}

impl Scratch {
    /// Empty working memory; it grows to what the pools need.
    pub fn new() -> Self {
        Self::default()
    }
}

/// Selects memories for `query` from `candidates` by MemPursuit, in the float64 order.
///
/// Selects `min(budget, P)` memories, fewer only where [`Options::stop`] fires.
///
/// # Errors
/// A query of another dimension, a zero vector, a NaN or an infinity, an option out of range.
pub fn pursue(
    query: Elements<'_>,
    candidates: &Rows<'_>,
    options: &Options,
    scratch: &mut Scratch,
) -> Result<Path, Error> {
    pursue_in(query, candidates, options, scratch, None)
}

/// [`pursue`], for rows of a store of which something is known.
pub(super) fn pursue_in(
    query: Elements<'_>,
    candidates: &Rows<'_>,
    options: &Options,
    scratch: &mut Scratch,
    store: Option<(&Lengths, &Cache)>,
) -> Result<Path, Error> {
    options.validate()?;
    let Scratch { candidates: pool, query: wide, slots, search, .. } = scratch;
    pool.begin(query, candidates, options.normalize, wide)?;
    let budget = options.budget.min(candidates.len());
    let capacity = 1 + budget + SPARE;
    slots.reset(capacity, candidates.dimension());
    search.reset(candidates.len(), capacity);
    slots.push_query(wide);
    if let Some((lengths, cache)) = store {
        search.meet_known(candidates, lengths, pool, slots)?;
        let pursuit = Pursuit::start(candidates, options, scratch);
        return Ok(Pursuit { cache: Some(cache), ..pursuit }.run());
    }
    if candidates.len() >= 2 * HEAD && budget > 1 {
        search.meet(candidates, HEAD, pool, slots)?;
        let rehearsal = Options { budget: budget.min(REHEARSED), stop: None, trace: false, ..*options };
        Pursuit { reserve: budget, ..Pursuit::start(candidates, &rehearsal, scratch) }.rehearse();
    }
    let Scratch { candidates: pool, slots, search, .. } = scratch;
    search.meet(candidates, candidates.len(), pool, slots)?;
    Ok(Pursuit::start(candidates, options, scratch).run())
}

struct Pursuit<'a> {
    rows: &'a Rows<'a>,
    options: &'a Options,
    scratch: &'a mut Scratch,
    budget: usize,
    /// Memories that slots must be kept for.
    reserve: usize,
    cache: Option<&'a Cache>,
    path: Path,
    objective: f64,
    watch: Option<Watch>,
}

impl<'a> Pursuit<'a> {
    fn start(rows: &'a Rows<'a>, options: &'a Options, scratch: &'a mut Scratch) -> Self {
        let budget = options.budget.min(rows.len());
        let square = scratch.slots.gram(0, 0);
        scratch.candidates.put_all_back();
        scratch.simplex.reset(budget, options.ridge);
        scratch.search.start(budget, square, &scratch.slots);
        scratch.residual_after = None;
        scratch.entered.clear();
        scratch.entered.reserve(budget);
        scratch.gram.clear();
        scratch.gram.reserve(budget);
        scratch.likely.reserve(COLUMNS);
        let watch = options.stop.map(Watch::new);
        Self {
            rows,
            options,
            scratch,
            budget,
            reserve: budget,
            cache: None,
            path: Path::default(),
            objective: 0.5 * square,
            watch,
        }
    }

    /// Goes a few steps for what they leave in the slots.
    fn rehearse(mut self) {
        while self.scratch.entered.len() < self.budget {
            let Some((row, score)) = self.best() else { break };
            if self.certificate(score) <= CERTIFIED {
                break;
            }
            self.enter(row);
        }
    }

    fn run(mut self) -> Path {
        self.path.order.reserve_exact(self.budget);
        self.path.scores.reserve_exact(self.budget);
        self.path.weights.reserve_exact(self.budget);
        self.path.trace.reserve_exact(if self.options.trace { self.budget } else { 0 });
        while self.path.order.len() < self.budget {
            let Some((row, score)) = self.best() else { break };
            if self.certify(score) {
                self.follow();
                break;
            }
            self.enter(row);
            self.path.order.push(row);
            self.path.scores.push(score);
            if self.options.trace {
                self.record(row, score);
            }
            if self.observe() {
                break;
            }
        }
        if self.path.optimum.is_none() {
            if self.path.order.len() == self.rows.len() {
                self.path.optimum = Some(self.rows.len());
            } else if self.options.trace
                && let Some((_, score)) = self.best()
            {
                self.certify(score);
            }
        }
        self.path.weights.extend_from_slice(self.scratch.simplex.weights());
        self.path.weights.resize(self.path.order.len(), 0.0);
        self.path
    }

    /// The untaken candidate best aligned with the residual, and its float64 alignment.
    fn best(&mut self) -> Option<(u32, f64)> {
        let Scratch { candidates, search, slots, .. } = &mut *self.scratch;
        search.contend(self.rows, 1, candidates, slots);
        if let &[(row, _)] = &candidates.contenders[..] {
            return Some((row, self.alignment(row)));
        }
        self.settle_residual();
        let Scratch { candidates, residual, .. } = &mut *self.scratch;
        candidates.settle(self.rows, residual);
        ties::pick(&candidates.contenders).map(|at| candidates.contenders[at])
    }

    /// The float64 alignment of row `row`, from dot products that its entry will need anyway.
    fn alignment(&mut self, row: u32) -> f64 {
        let slot = self.slot(row);
        let Scratch { slots, simplex, entered, .. } = &mut *self.scratch;
        let mut alignment = slots.gram(slot, 0);
        for (&other, &weight) in entered.iter().zip(simplex.weights()) {
            if weight > 0.0 {
                alignment -= weight * slots.gram(slot, other as usize);
            }
        }
        alignment
    }

    /// The slot of row `row`, a new one if it has none, with its float64 values.
    fn slot(&mut self, row: u32) -> usize {
        let Scratch { candidates, slots, .. } = &mut *self.scratch;
        let slot = slots.find(row).unwrap_or_else(|| slots.push(row, self.rows, candidates, self.cache));
        slots.widen(slot, self.rows, candidates);
        slot
    }

    /// What the fit can still gain, if `best` is the best alignment left; meaningless before the first step.
    fn certificate(&self, best: f64) -> f64 {
        if self.scratch.entered.is_empty() { f64::INFINITY } else { best - self.scratch.simplex.nu() }
    }

    /// Completes the last step's certificate; true where it is 0.
    fn certify(&mut self, best: f64) -> bool {
        let certificate = self.certificate(best);
        if let Some(step) = self.path.trace.last_mut() {
            step.certificate = certificate.max(0.0);
        }
        if certificate <= CERTIFIED {
            self.path.optimum = Some(self.path.order.len());
        }
        certificate <= CERTIFIED
    }

    /// Enters `row` and refits.
    fn enter(&mut self, row: u32) {
        let known = self.scratch.slots.find(row).is_some_and(|slot| slot < self.scratch.search.columns());
        let slot = self.slot(row);
        let Scratch { candidates, simplex, slots, search, entered, gram, likely, .. } = &mut *self.scratch;
        candidates.take(row);
        gram.clear();
        gram.extend(entered.iter().map(|&other| slots.gram(slot, other as usize)));
        gram.push(slots.gram(slot, slot));
        simplex.push(gram, slots.gram(slot, 0));
        entered.push(slot as u32);
        let left = self.budget - entered.len();
        if !known && left > 0 {
            let count = (COLUMNS - 1)
                .min(left)
                .min(slots.room().saturating_sub(self.reserve.saturating_sub(entered.len())));
            search.likely(count, row, candidates, slots, likely);
            for &row in &*likely {
                slots.push(row, self.rows, candidates, self.cache);
            }
        }
        search.refit(simplex, entered, slots);
    }

    /// Brings the explicit residual up to date.
    fn settle_residual(&mut self) {
        let Scratch { simplex, slots, query, residual, residual_after, entered, .. } = &mut *self.scratch;
        if *residual_after == Some(entered.len()) {
            return;
        }
        *residual_after = Some(entered.len());
        residual.clone_from(query);
        for (&slot, &weight) in entered.iter().zip(simplex.weights()) {
            if weight > 0.0 {
                slots.subtract(slot as usize, weight, residual);
            }
        }
    }

    /// Traces the step just made; its certificate waits for the next look at the pool.
    fn record(&mut self, index: u32, score: f64) {
        self.settle_residual();
        let Scratch { simplex, query, residual, .. } = &*self.scratch;
        let weights = simplex.weights();
        let loss = exact::dot(residual, residual);
        let penalty = self.options.ridge * weights.iter().map(|weight| weight * weight).sum::<f64>();
        let objective = 0.5 * (loss + penalty);
        self.path.trace.push(Step {
            index,
            score,
            residual: loss.sqrt(),
            objective,
            reduction: self.objective - objective,
            nu: exact::dot(query, residual) - loss - penalty,
            certificate: 0.0,
            weights: weights.to_vec(),
        });
        self.objective = objective;
    }

    /// Shows the step just made to the adaptive stop; true where it fires.
    fn observe(&mut self) -> bool {
        if self.watch.is_some() {
            self.settle_residual();
        }
        let loss = || exact::dot(&self.scratch.residual, &self.scratch.residual);
        let fired = self.watch.as_mut().is_some_and(|watch| watch.fires(loss()));
        if fired {
            self.path.stopped = Some(self.path.order.len());
        }
        fired
    }

    /// After the optimum the residual stays as it is, so the rest of the order is that of the alignments.
    fn follow(&mut self) {
        self.settle_residual();
        let rest = self.budget - self.path.order.len();
        let Scratch { candidates, residual, search, slots, .. } = &mut *self.scratch;
        search.contend(self.rows, rest, candidates, slots);
        candidates.settle(self.rows, residual);
        ties::sort(&mut candidates.contenders);
        let loss = exact::dot(residual, residual);
        for &(row, score) in candidates.contenders.iter().take(rest) {
            self.path.order.push(row);
            self.path.scores.push(score);
            if let Some(last) = self.path.trace.last() {
                let mut step = Step { index: row, score, reduction: 0.0, certificate: 0.0, ..last.clone() };
                step.weights.push(0.0);
                self.path.trace.push(step);
            }
            if self.watch.as_mut().is_some_and(|watch| watch.fires(loss)) {
                self.path.stopped = Some(self.path.order.len());
                break;
            }
        }
    }
}
/// The adaptive stop's memory.
struct Watch {
    stop: Stop,
    last: Option<f64>,
    run: usize,
}

impl Watch {
    fn new(stop: Stop) -> Self {
        Self { stop, last: None, run: 0 }
    }

    /// Takes the squared residual after a step; true after `patience` consecutive steps that hardly lowered it.
    fn fires(&mut self, loss: f64) -> bool {
        if let Some(last) = self.last.replace(loss) {
            let reduction = (last - loss) / last.max(LEAST_LOSS);
            self.run = if reduction <= self.stop.tolerance { self.run + 1 } else { 0 };
        }
        self.run >= self.stop.patience
    }
}
