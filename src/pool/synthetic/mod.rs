//! Generated pools, for benchmarks without data.
//!
//! They are made to cost a policy what real pools cost, and to have an answer that can be checked: texts as
//! long as LoCoMo's, vectors on which the pursuit takes as many steps as on LoCoMo's, gold labels. The
//! geometry is that of Assumption B.1 of the MemPursuit paper: a question is a convex combination of the
//! directions of the facts it needs, each fact has a cluster of near copies, and the clusters are disjoint;
//! around them lie other facts on the same and other topics.
//!
//! A pool follows from the seed and its number alone. Its bits are the same on every platform with IEEE 754
//! arithmetic: only integers, and additions, multiplications, divisions and square roots in a fixed order.

mod plan;
mod random;
mod text;
mod vectors;
mod words;

use std::cmp::Ordering;
use std::sync::Arc;

use self::plan::{Category, Plan};
use self::random::Random;
use super::{Candidate, Pool, Vectors};

/// A source of generated pools.
#[derive(Debug, Clone, PartialEq)]
pub struct Synthetic {
    /// Candidates of each pool, P.
    pub candidates: usize,
    /// Length of the vectors; 0 makes pools without embeddings.
    pub dimension: usize,
    /// Pools of different seeds have nothing in common.
    pub seed: u64,
}

impl Default for Synthetic {
    /// The paper's setting: 200 candidates, 1,536 dimensions. Seed 0.
    fn default() -> Self {
        Self { candidates: 200, dimension: 1536, seed: 0 }
    }
}

impl Synthetic {
    /// All pools, one after the other, without end.
    pub fn pools(&self) -> impl Iterator<Item = Pool> + Send + use<> {
        let source = self.clone();
        (0..).map(move |number| source.pool(number))
    }

    /// Pool `number`. Its texts do not depend on the dimension.
    pub fn pool(&self, number: u64) -> Pool {
        let stream = |stream: u64| Random::new(self.seed, number, stream);
        let plan = Plan::draw(self.candidates, &mut stream(0));
        let texts = text::write(&plan, &mut stream(1));
        let candidates: Vec<Arc<Candidate>> = ids(&plan)
            .into_iter()
            .zip(texts.turns)
            .zip(&plan.memories)
            .map(|((id, text), memory)| {
                Arc::new(Candidate {
                    id: Some(id),
                    text: Some(text),
                    timestamp: Some(texts.sessions[memory.session].iso()),
                    session: Some((memory.session + 1).to_string()),
                })
            })
            .collect();
        let gold: Vec<usize> = (0..candidates.len()).filter(|memory| plan.memories[*memory].gold).collect();
        let pool = Pool {
            id: format!("q{number}"),
            query: Some(texts.question),
            gold: gold.into_iter().filter_map(|memory| candidates[memory].id.clone()).collect(),
            candidates,
            vectors: Vectors::None,
            category: Some(category_name(plan.category).to_owned()),
        };
        if self.dimension == 0 {
            return pool;
        }
        let (query, rows) = vectors::embed(&plan, self.dimension, &mut stream(2));
        in_retrieval_order(pool, query, &rows, self.dimension)
    }
}

/// `pool` with these vectors, its candidates by cosine with the query, the greatest first.
fn in_retrieval_order(pool: Pool, query: Vec<f32>, rows: &[f32], dimension: usize) -> Pool {
    let cosine = |row: &[f32]| -> f64 {
        row.iter().zip(&query).map(|(row, query)| f64::from(*row) * f64::from(*query)).sum()
    };
    let mut order: Vec<(f64, usize)> = rows.chunks_exact(dimension).map(cosine).zip(0..).collect();
    order.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap_or(Ordering::Equal));
    let mut sorted = Vec::with_capacity(rows.len());
    for (_, index) in &order {
        sorted.extend_from_slice(&rows[index * dimension..(index + 1) * dimension]);
    }
    let candidates = order.iter().map(|(_, index)| Arc::clone(&pool.candidates[*index])).collect();
    Pool { candidates, vectors: Vectors::Inline { query, rows: sorted, dimension }, ..pool }
}

/// Ids as `D3:12`: turn 12 of session 3.
fn ids(plan: &Plan) -> Vec<String> {
    let mut turns = [0usize; plan::SESSIONS];
    let id = |memory: &plan::Memory| {
        turns[memory.session] += 1;
        format!("D{}:{}", memory.session + 1, turns[memory.session])
    };
    plan.memories.iter().map(id).collect()
}

fn category_name(category: Category) -> &'static str {
    match category {
        Category::SingleHop => "single-hop",
        Category::MultiHop => "multi-hop",
        Category::Temporal => "temporal",
        Category::OpenDomain => "open-domain",
    }
}
