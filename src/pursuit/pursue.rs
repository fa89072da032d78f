//! The pursuit: pick by alignment with the residual, refit, repeat.

use super::mmr::Closest;
use super::pool::Candidates;
use super::simplex::Simplex;
use super::{Elements, Error, Options, Path, Rows, Step, Stop, exact};

/// A certificate up to this is 0: the weights are then those of the whole pool's optimum, and will not change.
const CERTIFIED: f64 = 1e-13;
/// Guards the relative reduction of the adaptive stop against a residual of 0.
const LEAST_LOSS: f64 = 1e-12;

/// Working memory of the selectors, reused from pool to pool: a pursuit allocates only what it returns, once
/// its scratch has met a pool as large.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) candidates: Candidates,
    simplex: Simplex,
    /// The query and the residual, `[d]`.
    pub(super) query: Vec<f64>,
    residual: Vec<f64>,
    /// The selected rows in float64, scaled, `[K, d]`.
    pub(super) chosen: Vec<f64>,
    pub(super) closest: Closest,
    /// The newest memory's dot products with the selected ones, `[K]`.
    gram: Vec<f64>,
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
    options.validate()?;
    scratch.candidates.meet(query, candidates, options.normalize, &mut scratch.query)?;
    Ok(Pursuit::start(candidates, options, scratch).run())
}

struct Pursuit<'a> {
    rows: &'a Rows<'a>,
    options: &'a Options,
    scratch: &'a mut Scratch,
    budget: usize,
    path: Path,
    objective: f64,
    watch: Option<Watch>,
}

impl<'a> Pursuit<'a> {
    fn start(rows: &'a Rows<'a>, options: &'a Options, scratch: &'a mut Scratch) -> Self {
        let budget = options.budget.min(rows.len());
        scratch.simplex.reset(budget, options.ridge);
        scratch.residual.clone_from(&scratch.query);
        scratch.chosen.resize((budget * rows.dimension()).max(scratch.chosen.len()), 0.0);
        scratch.gram.clear();
        scratch.gram.reserve(budget);
        let path = Path {
            order: Vec::with_capacity(budget),
            scores: Vec::with_capacity(budget),
            trace: Vec::with_capacity(if options.trace { budget } else { 0 }),
            ..Path::default()
        };
        let objective = 0.5 * exact::dot(&scratch.query, &scratch.query);
        let watch = options.stop.map(Watch::new);
        Self { rows, options, scratch, budget, path, objective, watch }
    }

    fn run(mut self) -> Path {
        while self.path.order.len() < self.budget {
            let Some((row, score)) = self.scratch.candidates.best(self.rows, &self.scratch.residual) else {
                break;
            };
            if self.certify(score) {
                self.follow();
                break;
            }
            self.step(row, score);
            if self.observe() {
                break;
            }
            let selected = self.path.order.len();
            if selected == self.rows.len() {
                self.path.optimum = Some(selected);
            } else if selected < self.budget || self.options.trace {
                self.scratch.candidates.align(self.rows, &self.scratch.residual);
            }
        }
        if self.options.trace
            && self.path.optimum.is_none()
            && let Some((_, score)) = self.scratch.candidates.best(self.rows, &self.scratch.residual)
        {
            self.certify(score);
        }
        self.path.weights.extend_from_slice(self.scratch.simplex.weights());
        self.path.weights.resize(self.path.order.len(), 0.0);
        self.path
    }

    /// With the best alignment left: completes the last step's certificate; true where it is 0.
    fn certify(&mut self, best: f64) -> bool {
        let selected = self.path.order.len();
        if selected == 0 {
            return false;
        }
        let gap = best - self.scratch.simplex.nu();
        if let Some(step) = self.path.trace.last_mut() {
            step.certificate = gap.max(0.0);
        }
        if gap <= CERTIFIED {
            self.path.optimum = Some(selected);
        }
        gap <= CERTIFIED
    }

    /// Enters `row` and refits.
    fn step(&mut self, row: u32, score: f64) {
        let Scratch { candidates, simplex, query, residual, chosen, gram, .. } = &mut *self.scratch;
        let (dimension, count) = (self.rows.dimension(), self.path.order.len());
        let (before, newest) = chosen.split_at_mut(count * dimension);
        let newest = &mut newest[..dimension];
        candidates.write(self.rows, row as usize, newest);
        candidates.take(row);
        gram.clear();
        gram.extend(before.chunks_exact(dimension).map(|other| exact::dot(other, newest)));
        gram.push(exact::dot(newest, newest));
        simplex.push(gram, exact::dot(query, newest));
        residual.clone_from(query);
        for (memory, &weight) in chosen.chunks_exact(dimension).zip(simplex.weights()) {
            if weight != 0.0 {
                exact::subtract(residual, weight, memory);
            }
        }
        self.path.order.push(row);
        self.path.scores.push(score);
        if self.options.trace {
            self.record(row, score);
        }
    }

    /// Traces the step just made; its certificate waits for the next look at the pool.
    fn record(&mut self, index: u32, score: f64) {
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
        let Some(watch) = &mut self.watch else { return false };
        let fired = watch.fires(exact::dot(&self.scratch.residual, &self.scratch.residual));
        if fired {
            self.path.stopped = Some(self.path.order.len());
        }
        fired
    }

    /// After the optimum the residual stays as it is, so the rest of the order is that of the alignments.
    fn follow(&mut self) {
        let Scratch { candidates, residual, .. } = &mut *self.scratch;
        let rest = self.budget - self.path.order.len();
        let loss = exact::dot(residual, residual);
        for &(row, score) in candidates.ranked(self.rows, residual, rest) {
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
