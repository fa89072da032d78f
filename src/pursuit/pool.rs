//! What is known of each candidate of a pool: its length, how far float32 can be trusted with it, and, where it
//! decides, its float64 alignment.

use super::ties::{self, TIE};
use super::tile::Fetch;
use super::{Elements, Error, Normalize, Rows, exact};

/// Length of a row whose float32 values mean nothing: errors relative to it are beyond all scores, so that such
/// a row is always looked at in float64.
pub(super) const UNBOUNDED: f64 = 1e300;
/// Squared norms between which float32 dot products neither overflow nor lose digits to underflow.
const SAFE: std::ops::RangeInclusive<f32> = 1e-20..=1e30;
/// What float64 values themselves may be off by, for unit vectors.
pub(super) const ROUNDING: f64 = 1e-14;
/// Half a unit in the last place of float32, relative.
pub(super) const UNIT: f64 = f32::EPSILON as f64 / 2.0;

/// Per-candidate state; every buffer is reused from pool to pool.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    normalize: Normalize,
    /// Factor that makes an alignment of the stored row one of the row meant (1/‖x‖ or 1), good to float32, `[P]`.
    scale: Vec<f64>,
    /// Length of the row meant (1 or ‖x‖), or [`UNBOUNDED`], `[P]`.
    size: Vec<f64>,
    /// Error of an alignment relative to the lengths of the two vectors.
    relative: f64,
    taken: Vec<bool>,
    /// Rows whose float64 value decides, with that value.
    pub(super) contenders: Vec<(u32, f64)>,
    /// 0, 1, … P-1.
    every: Vec<u32>,
    squares: Vec<f32>,
    room: Vec<f32>,
    /// One row in float32 and in float64, `[d]`.
    narrow: Vec<f32>,
    wide: Vec<f64>,
    // The look at all rows of `align`: dot products and what they mean, `[P]`, and the vector's length.
    dots: Vec<f32>,
    vector: Vec<f32>,
    aligned: Vec<f64>,
    bounds: Vec<f64>,
    reach: f64,
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

/// A vector to look at rows with: in float32, brought near length 1 by a power of two.
pub(super) struct Look<'a> {
    /// The vectors, `[upto, d]`.
    pub vectors: &'a [f32],
    pub upto: usize,
    /// Where dot products go, `[upto, P]`.
    pub dots: &'a mut [f32],
}

impl Candidates {
    /// Starts on a pool: checks the query and writes it to `query`.
    pub(super) fn begin(
        &mut self,
        given: Elements<'_>,
        rows: &Rows<'_>,
        normalize: Normalize,
        query: &mut Vec<f64>,
    ) -> Result<(), Error> {
        if given.len() != rows.dimension() {
            return Err(Error::Dimension { query: given.len(), candidates: rows.dimension() });
        }
        let count = rows.len();
        self.narrow.resize(given.len(), 0.0);
        self.wide.resize(given.len(), 0.0);
        query.resize(given.len(), 0.0);
        let square = usable(exact::square(given, &mut self.narrow, query), None)?;
        self.normalize = normalize;
        if normalize == Normalize::Yes {
            let factor = 1.0 / square.sqrt();
            query.iter_mut().for_each(|value| *value *= factor);
        }
        self.scale.clear();
        self.size.clear();
        self.taken.clear();
        self.contenders.clear();
        self.contenders.reserve(count);
        self.taken.resize(count, false);
        self.squares.resize(count, 0.0);
        self.every.clear();
        self.every.extend(0..count as u32);
        Ok(())
    }

    /// Meets the rows from the first unknown one up to `until`: takes their dot products and lengths in one look,
    /// and refuses those that no selector can work with.
    pub(super) fn meet(&mut self, rows: &Rows<'_>, until: usize, look: Look<'_>) -> Result<(), Error> {
        let first = self.scale.len();
        if first == until {
            return Ok(());
        }
        let Look { vectors, upto, dots } = look;
        let which = &self.every[first..until];
        let (squares, room) = (Some(&mut self.squares[..]), &mut self.room);
        let gamma = Fetch { rows, which, levels: &[], vectors, upto, dots, squares, room }.run();
        self.relative = relative(gamma);
        for row in first..until {
            let square = self.squares[row];
            let (scale, size) = self.measure(rows, row, square)?;
            self.scale.push(scale);
            self.size.push(size);
        }
        Ok(())
    }

    /// As [`Candidates::meet`], for rows of a store whose lengths are known.
    pub(super) fn meet_known(
        &mut self,
        rows: &Rows<'_>,
        lengths: &Lengths,
        look: Look<'_>,
    ) -> Result<(), Error> {
        let Look { vectors, upto, dots } = look;
        let (which, room) = (&self.every[..], &mut self.room);
        let gamma = Fetch { rows, which, levels: &[], vectors, upto, dots, squares: None, room }.run();
        self.relative = relative(gamma);
        for row in 0..rows.len() {
            let (scale, size) = lengths.known[rows.stored(row)];
            if scale.is_nan() {
                // Says what is wrong with it.
                self.measure(rows, row, f32::NAN)?;
            }
            self.scale.push(scale);
            self.size.push(size);
        }
        Ok(())
    }

    /// Factor and length of row `row`, whose float32 squared norm is `square`.
    fn measure(&mut self, rows: &Rows<'_>, row: usize, square: f32) -> Result<(f64, f64), Error> {
        let (norm, safe) = if SAFE.contains(&square) && self.relative < 0.1 {
            (f64::from(square).sqrt(), true)
        } else {
            let square = exact::square(rows.row(row), &mut self.narrow, &mut self.wide);
            (usable(square, Some(row))?.sqrt(), false)
        };
        let (scale, size) = match self.normalize {
            Normalize::Yes => (1.0 / norm, 1.0),
            Normalize::No => (1.0, norm * (1.0 + self.relative)),
        };
        Ok((scale, if safe { size } else { UNBOUNDED }))
    }

    /// Takes more dot products of `which` rows, where `levels` says that they lack them.
    pub(super) fn fetch(&mut self, rows: &Rows<'_>, which: &[u32], levels: &[u32], look: Look<'_>) {
        let Look { vectors, upto, dots } = look;
        Fetch { rows, which, levels, vectors, upto, dots, squares: None, room: &mut self.room }.run();
    }

    /// Of all rows met: what a dot product with the stored row is to be multiplied by, its length as meant, and
    /// whether it is taken.
    pub(super) fn facts(&self) -> impl Iterator<Item = (f64, f64, bool)> {
        let scales = self.scale.iter().zip(&self.size).zip(&self.taken);
        scales.map(|((&scale, &size), &taken)| (scale, size, taken))
    }

    /// What a dot product with the stored row is to be multiplied by.
    pub(super) fn scale(&self, row: usize) -> f64 {
        self.scale[row]
    }

    /// Length of row `row` as it is meant.
    pub(super) fn size(&self, row: usize) -> f64 {
        self.size[row]
    }

    /// Error of an alignment relative to the lengths of the two vectors.
    pub(super) fn relative(&self) -> f64 {
        self.relative
    }

    /// By how much an alignment of row `row` with a vector of norm `reach` may be off.
    pub(super) fn error(&self, row: usize, reach: f64) -> f64 {
        self.relative * self.size[row] * reach + ROUNDING
    }

    pub(super) fn is_taken(&self, row: usize) -> bool {
        self.taken[row]
    }

    pub(super) fn take(&mut self, row: u32) {
        self.taken[row as usize] = true;
    }

    pub(super) fn put_all_back(&mut self) {
        self.taken.fill(false);
    }

    /// Aligns every row with `vector`; the first look at a pool also meets its rows.
    pub(super) fn align(&mut self, rows: &Rows<'_>, vector: &[f64]) -> Result<(), Error> {
        self.reach = exact::dot(vector, vector).sqrt();
        let factor = if self.reach > 0.0 { self.reach.log2().round().exp2() } else { 1.0 };
        let mut narrow = std::mem::take(&mut self.vector);
        let mut dots = std::mem::take(&mut self.dots);
        narrow.resize(vector.len(), 0.0);
        dots.resize(rows.len(), 0.0);
        exact::narrow(vector, 1.0 / factor, &mut narrow);
        let look = Look { vectors: &narrow, upto: 1, dots: &mut dots };
        if self.scale.len() < rows.len() {
            self.meet(rows, rows.len(), look)?;
        } else {
            let every = std::mem::take(&mut self.every);
            self.fetch(rows, &every, &[], look);
            self.every = every;
        }
        self.aligned.clear();
        self.aligned.extend(dots.iter().zip(&self.scale).zip(&self.size).map(|((&dot, scale), &size)| {
            if size >= UNBOUNDED { 0.0 } else { f64::from(dot) * factor * scale }
        }));
        (self.vector, self.dots) = (narrow, dots);
        Ok(())
    }

    /// The alignments of the last look, `[P]`, and the length of the vector looked with.
    pub(super) fn aligned(&self) -> (&[f64], f64) {
        (&self.aligned, self.reach)
    }

    /// The `count` untaken rows with the largest alignments with `vector`, the one last looked with, best first.
    pub(super) fn ranked(&mut self, rows: &Rows<'_>, vector: &[f64], count: usize) -> &[(u32, f64)] {
        let mut bounds = std::mem::take(&mut self.bounds);
        bounds.clear();
        let untaken = |row: &usize| !self.taken[*row];
        let lower = |row: usize| self.aligned[row] - self.error(row, self.reach);
        bounds.extend((0..rows.len()).filter(untaken).map(lower));
        let count = count.min(bounds.len());
        let floor = nth_largest(&mut bounds, count);
        self.bounds = bounds;
        self.contenders.clear();
        for row in 0..rows.len() {
            if !self.taken[row] && self.aligned[row] + self.error(row, self.reach) >= floor - TIE {
                self.contenders.push((row as u32, 0.0));
            }
        }
        self.settle(rows, vector);
        ties::sort(&mut self.contenders);
        &self.contenders[..count]
    }

    /// Takes the contenders' float64 alignments with `vector`.
    pub(super) fn settle(&mut self, rows: &Rows<'_>, vector: &[f64]) {
        for at in 0..self.contenders.len() {
            self.contenders[at].1 = self.exact(rows, self.contenders[at].0 as usize, vector);
        }
    }

    /// The float64 alignment of row `row` with `vector`.
    pub(super) fn exact(&mut self, rows: &Rows<'_>, row: usize, vector: &[f64]) -> f64 {
        let mut wide = std::mem::take(&mut self.wide);
        let scale = self.load(rows, row, &mut wide);
        let value = exact::dot(&wide, vector) * scale;
        self.wide = wide;
        value
    }

    /// Writes the stored row `row` in float64; returns the factor that makes it the row meant.
    pub(super) fn load(&mut self, rows: &Rows<'_>, row: usize, out: &mut [f64]) -> f64 {
        let square = exact::square(rows.row(row), &mut self.narrow, out);
        match self.normalize {
            Normalize::Yes => 1.0 / square.sqrt(),
            Normalize::No => 1.0,
        }
    }
}

/// Error of an alignment relative to the two lengths: it is off by the dot product (γ), the rounding of the
/// vector (u) and the two lengths (γ/2 each); the rest is room for what is of second order.
fn relative(gamma: f64) -> f64 {
    2.5 * gamma + 4.0 * UNIT
}

/// What makes each row of a store the row meant, and its length as meant; NaN for rows that no selector can
/// work with.
#[derive(Debug, Default)]
pub(super) struct Lengths {
    known: Vec<(f64, f64)>,
}

impl Lengths {
    /// Measures the rows that are not known yet.
    pub(super) fn extend(&mut self, rows: &Rows<'_>, normalize: Normalize) {
        let mut candidates = Candidates { normalize, ..Candidates::default() };
        candidates.narrow.resize(rows.dimension(), 0.0);
        candidates.wide.resize(rows.dimension(), 0.0);
        candidates.squares.resize(rows.len(), 0.0);
        candidates.every.extend(0..rows.len() as u32);
        let nothing = vec![0.0; rows.dimension()];
        let mut dots = vec![0.0; rows.len()];
        let (which, squares) = (&candidates.every[self.known.len()..], Some(&mut candidates.squares[..]));
        if which.is_empty() {
            return;
        }
        let (levels, vectors, room) = (&[][..], &nothing[..], &mut candidates.room);
        let gamma = Fetch { rows, which, levels, vectors, upto: 1, dots: &mut dots, squares, room }.run();
        candidates.relative = relative(gamma);
        for row in self.known.len()..rows.len() {
            let square = candidates.squares[row];
            self.known.push(candidates.measure(rows, row, square).unwrap_or((f64::NAN, f64::NAN)));
        }
    }
}

/// The `count`-th largest of `values`, which it reorders; infinite where there are fewer, or none are asked for.
pub(super) fn nth_largest(values: &mut [f64], count: usize) -> f64 {
    match count {
        0 => f64::INFINITY,
        _ if count > values.len() => f64::NEG_INFINITY,
        _ => *values.select_nth_unstable_by(count - 1, |a, b| b.total_cmp(a)).1,
    }
}
