//! Cosine: the best by similarity to the query alone.

use super::{Elements, Error, Normalize, Path, Rows, Scratch};

/// Orders the `budget` candidates most similar to `query`, by a partial sort of float64 similarities; within
/// 1e-12 the lower position comes first.
///
/// # Errors
/// A query of another dimension, a zero vector, a NaN or an infinity.
pub fn cosine(
    query: Elements<'_>,
    candidates: &Rows<'_>,
    budget: usize,
    normalize: Normalize,
    scratch: &mut Scratch,
) -> Result<Path, Error> {
    let Scratch { candidates: pool, query: wide, .. } = scratch;
    pool.begin(query, candidates, normalize, wide)?;
    pool.align(candidates, wide)?;
    let ranked = pool.ranked(candidates, wide, budget);
    Ok(Path {
        order: ranked.iter().map(|pair| pair.0).collect(),
        scores: ranked.iter().map(|pair| pair.1).collect(),
        ..Path::default()
    })
}
