//! The candidates of one pool and their alignments with a vector: approximate for all, exact where it decides.
//!
//! [`Candidates::align`] looks at every row in float32 and knows how wrong each result can be;
//! [`Candidates::best`] and [`Candidates::ranked`] take the float64 value of just those rows that the error
//! leaves in question, so that their answers are those of float64 throughout.

use super::ties::{self, TIE};
use super::{Elements, Error, Normalize, Rows, exact, scan};

/// Error of a row whose float32 squared norm is outside [`SAFE`]: its float32 values mean nothing, and it is
/// always looked at in float64.
const UNBOUNDED: f64 = 1e300;
/// Squared norms between which float32 dot products neither overflow nor lose digits to underflow.
const SAFE: std::ops::RangeInclusive<f32> = 1e-20..=1e30;
/// What the float64 values themselves may be off by, for unit vectors.
const ROUNDING: f64 = 1e-14;
/// Half a unit in the last place of float32.
const UNIT: f64 = f32::EPSILON as f64 / 2.0;

/// Per-candidate state; every buffer is reused from pool to pool.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// Factor that makes an alignment of the stored row one of the row meant (1/‖x‖ or 1), and its exact
    /// counterpart, 0 until it is needed, `[P]`.
    scale: Vec<f64>,
    exact_scale: Vec<f64>,
    /// Error of an alignment with a unit vector, `[P]`.
    slack: Vec<f64>,
    /// Alignments with the last vector, `[P]`, and that vector's norm.
    aligned: Vec<f64>,
    reach: f64,
    taken: Vec<bool>,
    /// Rows whose float64 value decides, with that value.
    contenders: Vec<(u32, f64)>,
    bounds: Vec<f64>,
    dots: Vec<f32>,
    squares: Vec<f32>,
    vector: Vec<f32>,
    tile: Vec<f32>,
    /// One row in float32 and in float64, `[d]`.
    narrow: Vec<f32>,
    wide: Vec<f64>,
}

/// Writes the query in float64, scaled to unit length where asked for.
pub(super) fn load_query(
    query: Elements<'_>,
    candidates: &Rows<'_>,
    normalize: Normalize,
    narrow: &mut Vec<f32>,
    out: &mut Vec<f64>,
) -> Result<(), Error> {
    if query.len() != candidates.dimension() {
        return Err(Error::Dimension { query: query.len(), candidates: candidates.dimension() });
    }
    narrow.resize(query.len(), 0.0);
    out.resize(query.len(), 0.0);
    exact::widen(query, narrow, out);
    let square = usable(exact::dot(out, out), None)?;
    if normalize == Normalize::Yes {
        let factor = 1.0 / square.sqrt();
        out.iter_mut().for_each(|value| *value *= factor);
    }
    Ok(())
}

/// A squared norm, if it is one of a vector with a direction.
fn usable(square: f64, row: Option<usize>) -> Result<f64, Error> {
    if !square.is_finite() {
        Err(Error::NotFinite { row })
    } else if square == 0.0 {
        Err(Error::ZeroVector { row })
    } else {
        Ok(square)
    }
}

impl Candidates {
    /// Meets a pool: checks query and rows, writes the query to `query`, and aligns every row with it.
    pub(super) fn meet(
        &mut self,
        given: Elements<'_>,
        rows: &Rows<'_>,
        normalize: Normalize,
        query: &mut Vec<f64>,
    ) -> Result<(), Error> {
        load_query(given, rows, normalize, &mut self.narrow, query)?;
        let count = rows.len();
        self.wide.resize(rows.dimension(), 0.0);
        self.dots.resize(count, 0.0);
        self.squares.resize(count, 0.0);
        self.taken.clear();
        self.taken.resize(count, false);
        self.exact_scale.clear();
        self.exact_scale.resize(count, if normalize == Normalize::Yes { 0.0 } else { 1.0 });
        let (factor, gamma) = self.scan(rows, query, true);
        // An alignment is off by the dot product (γ), the vector's rounding (u) and the norm's (γ/2), each
        // relative to ‖x‖‖v‖; the rest is room for what is of second order.
        let relative = 2.0 * gamma + 4.0 * UNIT;
        self.scale.clear();
        self.slack.clear();
        for row in 0..count {
            let square = self.squares[row];
            let (norm, slack) = if SAFE.contains(&square) && relative < 0.1 {
                (f64::from(square).sqrt(), relative)
            } else {
                exact::widen(rows.row(row), &mut self.narrow, &mut self.wide);
                (usable(exact::dot(&self.wide, &self.wide), Some(row))?.sqrt(), UNBOUNDED)
            };
            let (scale, slack) = match normalize {
                Normalize::Yes => (1.0 / norm, slack),
                Normalize::No => (1.0, slack * norm),
            };
            self.scale.push(scale);
            self.slack.push(slack);
        }
        self.settle(factor);
        Ok(())
    }

    /// Aligns every row with `vector`.
    pub(super) fn align(&mut self, rows: &Rows<'_>, vector: &[f64]) {
        let (factor, _) = self.scan(rows, vector, false);
        self.settle(factor);
    }

    /// Float32 dot products of all rows with `vector`; returns what they are to be multiplied by, and γ.
    fn scan(&mut self, rows: &Rows<'_>, vector: &[f64], squares: bool) -> (f64, f64) {
        self.reach = exact::dot(vector, vector).sqrt();
        // Bring the vector near length 1 by a power of two, which costs no rounding.
        let exponent = if self.reach > 0.0 { self.reach.log2().round() } else { 0.0 };
        let factor = exponent.exp2();
        self.vector.clear();
        self.vector.extend(vector.iter().map(|value| (value / factor) as f32));
        let squares = squares.then_some(&mut self.squares[..]);
        let gamma = scan::scan(rows, &self.vector, &mut self.dots, squares, &mut self.tile);
        (factor, gamma)
    }

    fn settle(&mut self, factor: f64) {
        self.aligned.clear();
        self.aligned.extend(self.dots.iter().zip(&self.scale).zip(&self.slack).map(
            |((&dot, scale), &slack)| {
                if slack >= UNBOUNDED { 0.0 } else { f64::from(dot) * factor * scale }
            },
        ));
    }

    /// The norm of the vector last looked at.
    pub(super) fn reach(&self) -> f64 {
        self.reach
    }

    /// The alignments of the last look, `[P]`.
    pub(super) fn aligned(&self) -> &[f64] {
        &self.aligned
    }

    /// By how much an alignment of row `row` with a vector of norm `reach` may be off.
    pub(super) fn error(&self, row: usize, reach: f64) -> f64 {
        self.slack[row] * reach + ROUNDING
    }

    pub(super) fn is_taken(&self, row: usize) -> bool {
        self.taken[row]
    }

    pub(super) fn take(&mut self, row: u32) {
        self.taken[row as usize] = true;
    }

    /// The untaken row with the largest alignment with `vector`, the one last looked at, and its float64 value.
    pub(super) fn best(&mut self, rows: &Rows<'_>, vector: &[f64]) -> Option<(u32, f64)> {
        let untaken = || (0..rows.len()).filter(|&row| !self.taken[row]);
        let floor = untaken()
            .map(|row| self.aligned[row] - self.error(row, self.reach))
            .fold(f64::NEG_INFINITY, f64::max);
        self.contend(rows, vector, floor);
        ties::pick(&self.contenders).map(|at| self.contenders[at])
    }

    /// The `count` untaken rows with the largest alignments with `vector`, the one last looked at, best first.
    pub(super) fn ranked(&mut self, rows: &Rows<'_>, vector: &[f64], count: usize) -> &[(u32, f64)] {
        let mut bounds = std::mem::take(&mut self.bounds);
        bounds.clear();
        bounds.extend(
            (0..rows.len())
                .filter(|&row| !self.taken[row])
                .map(|row| self.aligned[row] - self.error(row, self.reach)),
        );
        let count = count.min(bounds.len());
        if count == 0 {
            self.bounds = bounds;
            return &[];
        }
        let (_, &mut floor, _) = bounds.select_nth_unstable_by(count - 1, |a, b| b.total_cmp(a));
        self.bounds = bounds;
        self.contend(rows, vector, floor);
        ties::sort(&mut self.contenders);
        &self.contenders[..count]
    }

    /// Collects the untaken rows that may reach `floor`, with their float64 alignments.
    fn contend(&mut self, rows: &Rows<'_>, vector: &[f64], floor: f64) {
        self.contenders.clear();
        for row in 0..rows.len() {
            if !self.taken[row] && self.aligned[row] + self.error(row, self.reach) >= floor - TIE {
                let value = self.exact(rows, row, vector);
                self.contenders.push((row as u32, value));
            }
        }
    }

    /// The float64 alignment of row `row` with `vector`.
    pub(super) fn exact(&mut self, rows: &Rows<'_>, row: usize, vector: &[f64]) -> f64 {
        self.load(rows, row);
        exact::dot(&self.wide, vector) * self.exact_scale[row]
    }

    /// Writes row `row` in float64 and scaled, as the definition means it.
    pub(super) fn write(&mut self, rows: &Rows<'_>, row: usize, out: &mut [f64]) {
        self.load(rows, row);
        exact::scale(&self.wide, self.exact_scale[row], out);
    }

    fn load(&mut self, rows: &Rows<'_>, row: usize) {
        exact::widen(rows.row(row), &mut self.narrow, &mut self.wide);
        if self.exact_scale[row] == 0.0 {
            self.exact_scale[row] = 1.0 / exact::dot(&self.wide, &self.wide).sqrt();
        }
    }
}
