//! The refit: ridge least squares on the simplex, exactly, by a primal active set.
//!
//! Minimise ½αᵀ(G + λI)α - bᵀα over α ≥ 0, Σα = 1, on the memories selected so far. The problem grows by one
//! variable a step and starts from the previous solution with a 0 appended, so the Cholesky factor of the
//! active (positive) weights is kept from step to step: a variable that enters borders it, one that leaves is
//! rotated out.
//!
//! The factor is that of `G + λI + c·11ᵀ`. On the simplex the added term is the constant ½c, so the minimiser is
//! the same and the multiplier moves by c; and it makes the matrix singular only where the active memories are
//! *affinely* dependent, which is where the minimiser itself stops being unique. (Without it a pair x, -x would
//! already be singular.)

/// A variable enters where its multiplier exceeds this, relative to the largest diagonal.
const ENTER: f64 = 1e-14;
/// Squared pivots are held at this, relative to the diagonal. A held pivot sends the solution far along a
/// direction without curvature, and the step to the boundary then takes a variable out: with λ = 0, the
/// earlier of two equal memories keeps its weight, because the later one's multiplier is 0 and it never enters.
const PIVOT: f64 = 2e-14;

/// The growing simplex problem and its current solution.
#[derive(Debug, Default)]
pub(super) struct Simplex {
    /// Row length of the two square matrices: the largest number of variables.
    capacity: usize,
    ridge: f64,
    /// c above: the first memory's squared norm.
    shift: f64,
    /// Largest diagonal so far, at least 1: what tolerances are relative to.
    scale: f64,
    /// G + λI + c, `[n, n]`.
    hessian: Vec<f64>,
    /// b, `[n]`.
    linear: Vec<f64>,
    /// α, `[n]`.
    weights: Vec<f64>,
    /// The active variables, in the order of the factor's rows.
    active: Vec<usize>,
    inside: Vec<bool>,
    /// Variables that entered and had to leave at once; barred until the solution moves.
    barred: Vec<bool>,
    /// Lower Cholesky factor L over the active variables, `[m, m]` row by row.
    factor: Vec<f64>,
    /// L⁻¹b and L⁻¹1 over the active variables, `[m]`.
    forward_linear: Vec<f64>,
    forward_ones: Vec<f64>,
    /// Candidate solution on the active variables, `[m]`, and its multiplier in the shifted problem.
    solution: Vec<f64>,
    multiplier: f64,
    /// b - Hα of every variable for that solution, `[n]`.
    gradient: Vec<f64>,
    work: Vec<f64>,
}

impl Simplex {
    /// Starts an empty problem that may grow to `capacity` variables.
    pub(super) fn reset(&mut self, capacity: usize, ridge: f64) {
        self.capacity = capacity;
        self.ridge = ridge;
        self.shift = 0.0;
        self.scale = 1.0;
        for matrix in [&mut self.hessian, &mut self.factor] {
            if matrix.len() < capacity * capacity {
                matrix.resize(capacity * capacity, 0.0);
            }
        }
        for vector in [
            &mut self.linear,
            &mut self.weights,
            &mut self.forward_linear,
            &mut self.forward_ones,
            &mut self.solution,
            &mut self.gradient,
            &mut self.work,
        ] {
            vector.clear();
            vector.reserve(capacity);
        }
        self.active.clear();
        self.active.reserve(capacity);
        for flags in [&mut self.inside, &mut self.barred] {
            flags.clear();
            flags.reserve(capacity);
        }
    }

    /// The weights, in entry order.
    pub(super) fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// ν: the common value of `b - (G + λI)α` on the active variables.
    pub(super) fn nu(&self) -> f64 {
        self.multiplier + self.shift
    }

    /// The alignment of variable `variable` with the residual: b - Gα there.
    pub(super) fn alignment(&self, variable: usize) -> f64 {
        self.gradient[variable] + self.ridge * self.weights[variable] + self.shift
    }

    /// The dot product of variable `variable` with the query.
    pub(super) fn linear(&self, variable: usize) -> f64 {
        self.linear[variable]
    }

    /// Appends a variable and solves again. `gram` holds the new memory's dot products with those before it
    /// and with itself, `[n + 1]`; `linear` the one with the query.
    pub(super) fn push(&mut self, gram: &[f64], linear: f64) {
        let n = self.weights.len();
        let stride = self.capacity;
        if n == 0 {
            self.shift = gram[0];
        }
        for (j, &value) in gram[..n].iter().enumerate() {
            self.hessian[n * stride + j] = value + self.shift;
            self.hessian[j * stride + n] = value + self.shift;
        }
        let diagonal = gram[n] + self.ridge + self.shift;
        self.hessian[n * stride + n] = diagonal;
        self.scale = self.scale.max(diagonal);
        self.linear.push(linear);
        self.inside.push(false);
        self.barred.push(false);
        self.gradient.push(0.0);
        if n == 0 {
            self.weights.push(1.0);
            self.enter(0);
            self.solve();
            self.weights[0] = 1.0;
            return;
        }
        self.weights.push(0.0);
        let mut gradient = linear;
        for &k in &self.active {
            gradient -= self.hessian[n * stride + k] * self.weights[k];
        }
        self.gradient[n] = gradient;
        if gradient - self.multiplier > ENTER * self.scale {
            self.enter(n);
            self.optimise();
        }
    }

    /// Active-set iterations from a feasible point until no variable wants to enter.
    fn optimise(&mut self) {
        let n = self.weights.len();
        self.barred.fill(false);
        // Every iteration but the degenerate ones lowers the objective, so that no active set comes back; the
        // cap only bounds what rounding might do to the degenerate ones.
        for _ in 0..50 * (n + 2) {
            self.solve();
            match self.blocking() {
                None => {
                    for (k, &variable) in self.active.iter().enumerate() {
                        self.weights[variable] = self.solution[k];
                    }
                    match self.entering() {
                        Some(variable) => self.enter(variable),
                        None => return,
                    }
                }
                Some((position, step)) => {
                    for (k, &variable) in self.active.iter().enumerate() {
                        let weight = &mut self.weights[variable];
                        *weight = (*weight + step * (self.solution[k] - *weight)).max(0.0);
                    }
                    let variable = self.active[position];
                    self.weights[variable] = 0.0;
                    if step > 0.0 {
                        self.barred.fill(false);
                    } else {
                        self.barred[variable] = true;
                    }
                    self.leave(position);
                }
            }
        }
    }

    /// The active variable that first reaches 0 on the way to the solution, and the step at which it does.
    fn blocking(&self) -> Option<(usize, f64)> {
        let mut first: Option<(usize, f64)> = None;
        for (k, &variable) in self.active.iter().enumerate() {
            let (from, to) = (self.weights[variable], self.solution[k]);
            if to <= 0.0 {
                let step = if from > 0.0 { from / (from - to) } else { 0.0 };
                if first.is_none_or(|(_, least)| step < least) {
                    first = Some((k, step));
                }
            }
        }
        // The last active variable cannot leave: alone on the simplex it weighs 1.
        first.filter(|_| self.active.len() > 1)
    }

    /// The inactive variable with the largest multiplier, where that calls for it to enter.
    fn entering(&self) -> Option<usize> {
        let mut largest = ENTER * self.scale;
        let mut found = None;
        for (variable, &gradient) in self.gradient.iter().enumerate() {
            if !self.inside[variable] && !self.barred[variable] && gradient - self.multiplier > largest {
                largest = gradient - self.multiplier;
                found = Some(variable);
            }
        }
        found
    }

    /// Borders the factor by `variable`.
    fn enter(&mut self, variable: usize) {
        let (m, stride) = (self.active.len(), self.capacity);
        let hessian = &self.hessian[variable * stride..][..stride];
        let (above, row) = self.factor.split_at_mut(m * stride);
        let row = &mut row[..stride];
        let diagonal = hessian[variable];
        let mut pivot = diagonal;
        for (k, &other) in self.active.iter().enumerate() {
            let lower = &above[k * stride..][..=k];
            let value = (hessian[other] - dot(&lower[..k], &row[..k])) / lower[k];
            row[k] = value;
            pivot -= value * value;
        }
        let pivot = pivot.max(PIVOT * diagonal).sqrt();
        row[m] = pivot;
        let border = |right: f64, known: &[f64]| (right - dot(&row[..m], known)) / pivot;
        let linear = border(self.linear[variable], &self.forward_linear);
        let one = border(1.0, &self.forward_ones);
        self.forward_linear.push(linear);
        self.forward_ones.push(one);
        self.active.push(variable);
        self.inside[variable] = true;
    }

    /// Takes the active variable at `position` out of the factor: its row goes, and plane rotations of
    /// neighbouring columns make the rest triangular again.
    fn leave(&mut self, position: usize) {
        let (m, stride) = (self.active.len(), self.capacity);
        self.inside[self.active.remove(position)] = false;
        for row in position..m - 1 {
            self.factor.copy_within((row + 1) * stride..(row + 1) * stride + row + 2, row * stride);
        }
        for k in position..m - 1 {
            let (a, b) = (self.factor[k * stride + k], self.factor[k * stride + k + 1]);
            let length = a.hypot(b);
            let (cos, sin) = (a / length, b / length);
            for row in k..m - 1 {
                let pair = &mut self.factor[row * stride + k..][..2];
                (pair[0], pair[1]) = (cos * pair[0] + sin * pair[1], cos * pair[1] - sin * pair[0]);
            }
            for vector in [&mut self.forward_linear, &mut self.forward_ones] {
                (vector[k], vector[k + 1]) =
                    (cos * vector[k] + sin * vector[k + 1], cos * vector[k + 1] - sin * vector[k]);
            }
        }
        self.forward_linear.pop();
        self.forward_ones.pop();
    }

    /// Solves on the active variables without the sign constraint, with refinement until the residual of the
    /// optimality conditions is at rounding level; leaves the gradient of every variable behind.
    fn solve(&mut self) {
        let ones = dot(&self.forward_ones, &self.forward_ones);
        let multiplier = (dot(&self.forward_ones, &self.forward_linear) - 1.0) / ones;
        self.work.clear();
        self.work
            .extend(self.forward_linear.iter().zip(&self.forward_ones).map(|(b, one)| b - multiplier * one));
        self.back_substitute();
        self.solution.clear();
        self.solution.extend_from_slice(&self.work);
        self.multiplier = multiplier;
        let mut last = f64::INFINITY;
        // A held pivot corrects by a fixed step a round rather than by a shrinking one, hence the number.
        for _ in 0..6 {
            let (residual, missing) = self.residual();
            if residual <= 5e-16 * self.scale || residual >= last && residual < 1e-13 * self.scale {
                break;
            }
            last = residual;
            self.forward_substitute();
            let multiplier = (dot(&self.forward_ones, &self.work) - missing) / ones;
            for (value, one) in self.work.iter_mut().zip(&self.forward_ones) {
                *value -= multiplier * one;
            }
            self.back_substitute();
            for (solution, correction) in self.solution.iter_mut().zip(&self.work) {
                *solution += correction;
            }
            self.multiplier += multiplier;
        }
    }

    /// Refreshes the gradient; leaves the active part of the residual in `work` and returns its largest
    /// magnitude, and what the weights lack of 1.
    fn residual(&mut self) -> (f64, f64) {
        let n = self.gradient.len();
        self.gradient.copy_from_slice(&self.linear);
        for (k, &variable) in self.active.iter().enumerate() {
            let weight = self.solution[k];
            let column = &self.hessian[variable * self.capacity..][..n];
            for (gradient, value) in self.gradient.iter_mut().zip(column) {
                *gradient -= weight * value;
            }
        }
        self.work.clear();
        self.work.extend(self.active.iter().map(|&variable| self.gradient[variable] - self.multiplier));
        let missing = 1.0 - self.solution.iter().sum::<f64>();
        (self.work.iter().fold(missing.abs(), |largest, value| largest.max(value.abs())), missing)
    }

    /// `work` ← L⁻¹ `work`.
    fn forward_substitute(&mut self) {
        for k in 0..self.work.len() {
            let row = &self.factor[k * self.capacity..][..=k];
            self.work[k] = (self.work[k] - dot(&row[..k], &self.work[..k])) / row[k];
        }
    }

    /// `work` ← L⁻ᵀ `work`.
    fn back_substitute(&mut self) {
        for k in (0..self.work.len()).rev() {
            let row = &self.factor[k * self.capacity..][..=k];
            let (rest, value) = self.work.split_at_mut(k);
            value[0] /= row[k];
            for (rest, factor) in rest.iter_mut().zip(row) {
                *rest -= value[0] * factor;
            }
        }
    }
}

/// Dot product of two short vectors of one length, in four chains.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 4];
    let (a_blocks, a_rest) = a.as_chunks::<4>();
    let (b_blocks, b_rest) = b.as_chunks::<4>();
    for (a, b) in a_blocks.iter().zip(b_blocks) {
        for lane in 0..4 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}
