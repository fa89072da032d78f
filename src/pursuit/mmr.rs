//! Maximal marginal relevance (Carbonell & Goldstein, 1998): similar to the query, unlike what was picked.

use super::error::Value;
use super::ties::{self, TIE};
use super::{Elements, Error, Normalize, Path, Rows, Scratch};

/// Working memory of [`mmr`], per candidate: `[P]` each.
#[derive(Debug, Default)]
pub(super) struct Closest {
    /// Similarity to the query, and to the closest memory picked so far, from the cheap look.
    relevance: Vec<f64>,
    similarity: Vec<f64>,
    /// The same in float64, as far as they were needed: the latter covers the first `folded` picks.
    exact_relevance: Vec<Option<f64>>,
    exact_similarity: Vec<f64>,
    folded: Vec<usize>,
    contenders: Vec<(u32, f64)>,
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
    let Scratch { candidates: pool, closest, query: wide_query, chosen, .. } = scratch;
    pool.meet(query, candidates, normalize, wide_query)?;
    let (count, dimension) = (candidates.len(), candidates.dimension());
    let budget = budget.min(count);
    chosen.resize((budget * dimension).max(chosen.len()), 0.0);
    closest.begin(pool.aligned());
    let query_reach = pool.reach();
    let mut reach = 0.0_f64;
    let mut path = Path::default();
    let Some((mut row, similarity)) = pool.best(candidates, wide_query).filter(|_| budget > 0) else {
        return Ok(path);
    };
    let mut score = relevance * similarity;
    loop {
        let picked = path.order.len();
        path.order.push(row);
        path.scores.push(score);
        pool.take(row);
        if path.order.len() == budget {
            return Ok(path);
        }
        let newest = &mut chosen[picked * dimension..][..dimension];
        pool.write(candidates, row as usize, newest);
        pool.align(candidates, newest);
        reach = reach.max(pool.reach());
        closest.fold(pool.aligned());

        let value =
            |row: usize| relevance * closest.relevance[row] - (1.0 - relevance) * closest.similarity[row];
        let error = |row: usize| {
            relevance * pool.error(row, query_reach) + (1.0 - relevance) * pool.error(row, reach)
        };
        let untaken = || (0..count).filter(|&row| !pool.is_taken(row));
        let floor = untaken().map(|row| value(row) - error(row)).fold(f64::NEG_INFINITY, f64::max);
        closest.contenders.clear();
        let within = untaken().filter(|&row| value(row) + error(row) >= floor - TIE);
        let mut contenders = std::mem::take(&mut closest.contenders);
        contenders.extend(within.map(|row| (row as u32, 0.0)));
        for (row, value) in &mut contenders {
            let row = *row as usize;
            let similarity =
                *closest.exact_relevance[row].get_or_insert_with(|| pool.exact(candidates, row, wide_query));
            for memory in chosen[..(picked + 1) * dimension].chunks_exact(dimension).skip(closest.folded[row])
            {
                let other = pool.exact(candidates, row, memory);
                closest.exact_similarity[row] = closest.exact_similarity[row].max(other);
            }
            closest.folded[row] = picked + 1;
            *value = relevance * similarity - (1.0 - relevance) * closest.exact_similarity[row];
        }
        closest.contenders = contenders;
        // Untaken candidates are left, and the best of them is always a contender.
        let Some(at) = ties::pick(&closest.contenders) else { return Ok(path) };
        (row, score) = closest.contenders[at];
    }
}

impl Closest {
    fn begin(&mut self, relevance: &[f64]) {
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
    }

    fn fold(&mut self, aligned: &[f64]) {
        for (similarity, &other) in self.similarity.iter_mut().zip(aligned) {
            *similarity = similarity.max(other);
        }
    }
}
