//! The search for the best alignment, looking only at rows that can have it.
//!
//! Alignments with the residual `r = q - Σ α_j x_j` are combinations of *columns*, the float32 dot products of
//! all rows with the query and with the memories selected. A row need not have met every column. When it last
//! had all that mattered, at step s, its alignment was known; since then the residual has moved by
//! `‖r_t - r_s‖`, and no alignment can have moved by more than that times the row's length. A row that cannot
//! have caught up with the best is not looked at; one that can meets all the columns it lacks at once.
//!
//! Columns are asked for a few at a time, for the memory just selected and for the likely next ones: the cost of
//! a look is in loading the row.

use std::ops::Range;

use super::pool::{Candidates, Lengths, Look, ROUNDING, UNBOUNDED, UNIT, nth_largest};
use super::simplex::Simplex;
use super::slots::Slots;
use super::ties::TIE;
use super::tile::GROUP;
use super::{Error, Rows, exact};

/// Alignments closer than this need a float64 look: scores that are one by the tie rule, and the rounding of
/// float64 itself on either side.
const MARGIN: f64 = TIE + 4.0 * ROUNDING;

/// What is known of the columns and of each row's alignment.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// Dot products, `[slots, P]`; of row i the first `level[i]`.
    dots: Vec<f32>,
    level: Vec<u32>,
    /// Alignment of each row at the last step at which it had the columns that mattered, and that step.
    value: Vec<f64>,
    seen: Vec<u32>,
    /// The residual as a combination of slots; how many slots it needs; and Σ |coefficient| ‖vector‖, the most
    /// that it has been.
    coefficients: Vec<f32>,
    needed: usize,
    columns: usize,
    reach: f64,
    /// Error of the alignment of a row of length 1.
    unit: f64,
    /// Weights after each step, `[K + 1, K]`, the squared residuals, and how far each is from the present one.
    weights: Vec<f64>,
    losses: Vec<f64>,
    distance: Vec<f64>,
    stride: usize,
    sums: Vec<f32>,
    bounds: Vec<f64>,
    /// Rows that lack columns, with the most that they can reach.
    which: Vec<(u32, f64)>,
    /// Of the rows looked at, those whose dot products the store does not know.
    lacking: Vec<u32>,
}

impl Search {
    /// Starts on a pool of `count` rows, for at most `slots` slots.
    pub(super) fn reset(&mut self, count: usize, slots: usize) {
        if self.dots.len() < count * slots {
            self.dots.resize(count * slots, 0.0);
        }
        self.level.clear();
        self.value.clear();
        self.seen.clear();
        self.sums.resize(count, 0.0);
        self.coefficients.clear();
        self.coefficients.reserve(slots);
        self.bounds.clear();
        self.bounds.reserve(count);
        self.which.clear();
        self.which.reserve(count);
        self.lacking.clear();
        self.lacking.reserve(count);
    }

    /// Meets the rows up to `until` with all slots there are.
    pub(super) fn meet(
        &mut self,
        rows: &Rows<'_>,
        until: usize,
        candidates: &mut Candidates,
        slots: &Slots,
    ) -> Result<(), Error> {
        let look = Look { vectors: slots.vectors(), upto: slots.len(), dots: &mut self.dots };
        candidates.meet(rows, until, look)?;
        self.level.resize(until, slots.len() as u32);
        self.columns = slots.len();
        Ok(())
    }

    /// Meets all rows of a store whose lengths are known.
    pub(super) fn meet_known(
        &mut self,
        rows: &Rows<'_>,
        lengths: &Lengths,
        candidates: &mut Candidates,
        slots: &Slots,
    ) -> Result<(), Error> {
        let look = Look { vectors: slots.vectors(), upto: slots.len(), dots: &mut self.dots };
        candidates.meet_known(rows, lengths, look)?;
        self.level.resize(rows.len(), slots.len() as u32);
        self.columns = slots.len();
        Ok(())
    }

    /// Starts a path: the residual is the query, of squared length `square`. `budget` is the number of steps.
    pub(super) fn start(&mut self, budget: usize, square: f64, slots: &Slots) {
        let count = self.level.len();
        self.value.clear();
        self.value.resize(count, 0.0);
        self.seen.clear();
        self.seen.resize(count, 0);
        self.stride = budget;
        if self.weights.len() < (budget + 1) * budget {
            self.weights.resize((budget + 1) * budget, 0.0);
        }
        self.losses.clear();
        self.losses.reserve(budget + 1);
        self.losses.push(square);
        self.distance.clear();
        self.distance.reserve(budget + 1);
        self.distance.push(0.0);
        self.coefficients.clear();
        self.coefficients.push(slots.factor(0) as f32);
        self.needed = 1;
        self.reach = square.sqrt();
    }

    /// Takes the residual after a refit: weights on the memories selected, which lie in `entered` slots.
    pub(super) fn refit(&mut self, simplex: &Simplex, entered: &[u32], slots: &Slots) {
        let weights = simplex.weights();
        let step = weights.len();
        self.coefficients.clear();
        self.coefficients.resize(slots.len(), 0.0);
        self.columns = slots.len();
        self.coefficients[0] = slots.factor(0) as f32;
        let mut reach = slots.norm(0);
        self.needed = 1;
        for (&slot, &weight) in entered.iter().zip(weights) {
            let slot = slot as usize;
            if weight > 0.0 {
                self.coefficients[slot] = (-weight * slots.factor(slot)) as f32;
                reach += weight * slots.norm(slot);
                self.needed = self.needed.max(slot + 1);
            }
        }
        self.reach = self.reach.max(reach);

        // r_t·r_s = r_t·q - Σ_j α_{s,j} r_t·x_j, and the refit knows r_t·x_j of everything selected.
        self.weights[step * self.stride..][..step].copy_from_slice(weights);
        let aligned = |from: usize| -> f64 {
            let weights = &self.weights[from * self.stride..][..from];
            weights.iter().enumerate().map(|(j, weight)| weight * simplex.alignment(j)).sum()
        };
        let pull: f64 = weights.iter().enumerate().map(|(j, weight)| weight * simplex.linear(j)).sum();
        let with_query = self.losses[0] - pull;
        let loss = with_query - aligned(step);
        self.losses.push(loss);
        // The difference cancels to about 1e-15 of the terms.
        let slack = 1e-13 * self.reach * self.reach;
        self.distance.clear();
        for (from, &other) in self.losses.iter().enumerate() {
            let square = loss + other - 2.0 * (with_query - aligned(from));
            self.distance.push((square.max(0.0) + slack).sqrt());
        }
    }

    /// Slots from this one on are no columns yet: no row has been asked to meet them.
    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// Collects, among the candidates' contenders, every untaken row that may be one of the `count` best
    /// aligned with the residual.
    pub(super) fn contend(
        &mut self,
        rows: &Rows<'_>,
        count: usize,
        candidates: &mut Candidates,
        slots: &Slots,
    ) {
        let limit = self.level.len();
        // Of rows that lack columns this makes nonsense, which nobody reads.
        exact::combine(&self.coefficients, &self.dots, rows.len(), &mut self.sums[..limit]);
        self.unit = (candidates.relative() + (self.columns as f64 + 2.0) * UNIT) * self.reach * 1.01;
        let (step, unit) = (self.step(), self.unit);
        let mut floor = f64::NEG_INFINITY;
        self.which.clear();
        let known = self.value.iter_mut().zip(&mut self.seen).zip(&self.level).zip(&self.sums);
        for (row, ((((value, seen), &level), &sum), (scale, size, taken))) in
            (0..).zip(known.zip(candidates.facts()))
        {
            if taken {
                continue;
            }
            if level as usize >= self.needed {
                *value = read(sum, scale, size);
                *seen = step;
                floor = floor.max(*value - unit * size);
            } else {
                // The most that the row can reach.
                let upper = *value + (unit + self.distance[*seen as usize]) * size;
                if count > 1 || upper >= floor - MARGIN {
                    self.which.push((row, upper));
                }
            }
        }
        if count > 1 {
            floor = self.floor(candidates, count);
        }
        self.which.retain(|row| row.1 >= floor - MARGIN);
        if count == 1 && self.which.len() > 2 * GROUP {
            // The most promising first: they raise the floor for the others.
            self.which.select_nth_unstable_by(GROUP - 1, |a, b| b.1.total_cmp(&a.1));
            floor = floor.max(self.fetch(rows, 0..GROUP, candidates, slots));
            self.which.drain(..GROUP);
            self.which.retain(|row| row.1 >= floor - MARGIN);
            self.which.sort_unstable_by_key(|row| row.0);
        }
        if !self.which.is_empty() {
            floor = floor.max(self.fetch(rows, 0..self.which.len(), candidates, slots));
            if count > 1 {
                floor = self.floor(candidates, count);
            }
        }
        candidates.contenders.clear();
        let mut contenders = std::mem::take(&mut candidates.contenders);
        for (row, ((&value, &seen), (_, size, taken))) in
            (0..).zip(self.value.iter().zip(&self.seen).zip(candidates.facts()))
        {
            if !taken && seen == step && value + unit * size >= floor - MARGIN {
                contenders.push((row, 0.0));
            }
        }
        candidates.contenders = contenders;
    }

    /// The rows that the last [`Search::contend`] left best, in no order of certainty: the `count` most likely
    /// next ones besides `except`, without those that have a slot. They go to `likely`.
    pub(super) fn likely(
        &self,
        count: usize,
        except: u32,
        candidates: &Candidates,
        slots: &Slots,
        likely: &mut Vec<u32>,
    ) {
        likely.clear();
        for _ in 0..count {
            let mut best: Option<u32> = None;
            for row in 0..self.level.len() as u32 {
                let value = self.value[row as usize];
                if best.is_none_or(|best| value > self.value[best as usize])
                    && row != except
                    && !candidates.is_taken(row as usize)
                    && !likely.contains(&row)
                    && slots.find(row).is_none()
                {
                    best = Some(row);
                }
            }
            likely.extend(best);
        }
    }

    /// The `count`-th largest of the alignments that are surely reached.
    fn floor(&mut self, candidates: &Candidates, count: usize) -> f64 {
        let step = self.step();
        self.bounds.clear();
        for ((&value, &seen), (_, size, taken)) in self.value.iter().zip(&self.seen).zip(candidates.facts()) {
            if !taken && seen == step {
                self.bounds.push(value - self.unit * size);
            }
        }
        nth_largest(&mut self.bounds, count)
    }

    /// The number of memories selected.
    fn step(&self) -> u32 {
        (self.losses.len() - 1) as u32
    }

    /// Lets the listed rows in `range` meet the columns they lack; returns the largest alignment that is sure.
    fn fetch(
        &mut self,
        rows: &Rows<'_>,
        range: Range<usize>,
        candidates: &mut Candidates,
        slots: &Slots,
    ) -> f64 {
        let (count, step) = (rows.len(), self.step());
        let which = &self.which[range];
        look_up(rows, which, &self.level, slots, &mut self.dots, &mut self.lacking);
        let look = Look { vectors: slots.vectors(), upto: slots.len(), dots: &mut self.dots };
        candidates.fetch(rows, &self.lacking, &self.level, look);
        for slot in 0..slots.len() {
            let Some(column) = slots.column(slot) else { continue };
            for &row in self.lacking.iter().filter(|&&row| self.level[row as usize] as usize <= slot) {
                column.set(rows.stored(row as usize), self.dots[slot * count + row as usize]);
            }
        }
        for &(row, _) in which {
            self.level[row as usize] = slots.len() as u32;
            self.sums[row as usize] = 0.0;
        }
        for (&coefficient, dots) in self.coefficients.iter().zip(self.dots.chunks_exact(count)) {
            if coefficient != 0.0 {
                for &(row, _) in which {
                    self.sums[row as usize] += coefficient * dots[row as usize];
                }
            }
        }
        let mut floor = f64::NEG_INFINITY;
        for &(row, _) in which {
            let row = row as usize;
            self.value[row] = read(self.sums[row], candidates.scale(row), candidates.size(row));
            self.seen[row] = step;
            floor = floor.max(self.value[row] - self.unit * candidates.size(row));
        }
        floor
    }
}

/// The alignment that a combination of dot products stands for.
fn read(sum: f32, scale: f64, size: f64) -> f64 {
    if size >= UNBOUNDED { 0.0 } else { f64::from(sum) * scale }
}

/// Takes what the store knows of the columns that `which` rows lack; lists those of which it does not know all.
fn look_up(
    rows: &Rows<'_>,
    which: &[(u32, f64)],
    level: &[u32],
    slots: &Slots,
    dots: &mut [f32],
    lacking: &mut Vec<u32>,
) {
    lacking.clear();
    for &(row, _) in which {
        let (at, stored) = (row as usize, rows.stored(row as usize));
        let known = (level[at] as usize..slots.len()).all(|slot| {
            let dot = slots.column(slot).map_or(f32::NAN, |column| column.get(stored));
            dots[slot * rows.len() + at] = dot;
            !dot.is_nan()
        });
        if !known {
            lacking.push(row);
        }
    }
}
