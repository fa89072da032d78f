//! Maximal marginal relevance (Carbonell & Goldstein, 1998): similar to the query, unlike what was picked.

use super::error::Value;
use super::pool::Candidates;
use super::ties::{self, TIE};
use super::{Elements, Error, Normalize, Path, Rows, Scratch};

/// Working memory of [`mmr`].
#[derive(Debug, Default)]
pub(super) struct Closest {
    /// Similarity of each candidate to the query, and to the closest memory picked so far, from the cheap look,
    /// `[P]`.
    relevance: Vec<f64>,
    similarity: Vec<f64>,
    /// The same in float64, as far as they were needed; the latter covers the first `folded` picks.
    exact_relevance: Vec<Option<f64>>,
    exact_similarity: Vec<f64>,
    folded: Vec<usize>,
    contenders: Vec<(u32, f64)>,
    /// The picks in float64, scaled, `[picks, d]`.
    picked: Vec<f64>,
    /// Lengths of the query and of the longest pick.
    query_reach: f64,
    reach: f64,
}

/// Picks by `relevance * q·x - (1 - relevance) * max over picked p of p·x`, the first by similarity to the query
/// alone, in float64; within 1e-12 the lower position wins. `scores` holds the value of each pick (of the first:
/// `relevance * q·x`).
///
/// # Errors
/// A relevance outside 0 to 1, a query of another dimension, a zero vector, a NaN or an infinity.
pub fn mmr(
    query: Elements<'_>,
    candidates: &Rows<'_>,
    budget: usize,
    relevance: f64,
    normalize: Normalize,
    scratch: &mut Scratch,
) -> Result<Path, Error> {
    if !(0.0..=1.0).contains(&relevance) {
        return Err(Error::Option {
            name: "the relevance",
            value: Value(relevance),
            range: "between 0 and 1",
        });
    }
    let Scratch { candidates: pool, closest, query: wide, .. } = scratch;
    pool.begin(query, candidates, normalize, wide)?;
    pool.align(candidates, wide)?;
    closest.begin(pool);
    let budget = budget.min(candidates.len());
    let mut path = Path::default();
    let mut next =
        pool.ranked(candidates, wide, budget.min(1)).first().map(|&(row, value)| (row, relevance * value));
    while let Some((row, score)) = next {
        path.order.push(row);
        path.scores.push(score);
        if path.order.len() == budget {
            break;
        }
        closest.add(candidates, row, pool)?;
        next = closest.best(candidates, wide, relevance, pool);
    }
    Ok(path)
}

impl Closest {
    fn begin(&mut self, pool: &Candidates) {
        let (relevance, reach) = pool.aligned();
        let count = relevance.len();
        self.relevance.clear();
        self.relevance.extend_from_slice(relevance);
        for values in [&mut self.similarity, &mut self.exact_similarity] {
            values.clear();
            values.resize(count, f64::NEG_INFINITY);
        }
        self.exact_relevance.clear();
        self.exact_relevance.resize(count, None);
        self.folded.clear();
        self.folded.resize(count, 0);
        self.picked.clear();
        (self.query_reach, self.reach) = (reach, 0.0);
    }

    /// Takes `row` into what was picked.
    fn add(&mut self, rows: &Rows<'_>, row: u32, pool: &mut Candidates) -> Result<(), Error> {
        pool.take(row);
        let at = self.picked.len();
        self.picked.resize(at + rows.dimension(), 0.0);
        let factor = pool.load(rows, row as usize, &mut self.picked[at..]);
        self.picked[at..].iter_mut().for_each(|value| *value *= factor);
        pool.align(rows, &self.picked[at..])?;
        let (aligned, reach) = pool.aligned();
        self.reach = self.reach.max(reach);
        for (similarity, &other) in self.similarity.iter_mut().zip(aligned) {
            *similarity = similarity.max(other);
        }
        Ok(())
    }

    /// The best untaken candidate, with its value.
    fn best(
        &mut self,
        rows: &Rows<'_>,
        query: &[f64],
        relevance: f64,
        pool: &mut Candidates,
    ) -> Option<(u32, f64)> {
        let diversity = 1.0 - relevance;
        let mut contenders = std::mem::take(&mut self.contenders);
        contenders.clear();
        let value = |row: usize| relevance * self.relevance[row] - diversity * self.similarity[row];
        let error = |row: usize| {
            relevance * pool.error(row, self.query_reach) + diversity * pool.error(row, self.reach)
        };
        let untaken = || (0..rows.len()).filter(|&row| !pool.is_taken(row));
        let floor = untaken().map(|row| value(row) - error(row)).fold(f64::NEG_INFINITY, f64::max);
        contenders.extend(
            untaken().filter(|&row| value(row) + error(row) >= floor - TIE).map(|row| (row as u32, 0.0)),
        );
        for (row, value) in &mut contenders {
            let row = *row as usize;
            let similar = *self.exact_relevance[row].get_or_insert_with(|| pool.exact(rows, row, query));
            for memory in self.picked.chunks_exact(rows.dimension()).skip(self.folded[row]) {
                self.exact_similarity[row] = self.exact_similarity[row].max(pool.exact(rows, row, memory));
            }
            self.folded[row] = self.picked.len() / rows.dimension();
            *value = relevance * similar - diversity * self.exact_similarity[row];
        }
        let best = ties::pick(&contenders).map(|at| contenders[at]);
        self.contenders = contenders;
        best
    }
}
