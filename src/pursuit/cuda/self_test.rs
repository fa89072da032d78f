//! The GPU selector against the CPU's on generated vectors, for `doctor --self-test`.

use half::{bf16, f16};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Candidates, Gpu, Job, Query};
use crate::error::Result;
use crate::pursuit::{Elements, Options, Rows, Scratch, pursue};

/// Largest difference of a score that counts as agreement.
const TOLERANCE: f64 = 1e-11;

/// One comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// What was compared.
    pub name: String,
    /// Pools whose order was the CPU's, and pools in all.
    pub agreeing: usize,
    pub pools: usize,
    /// Largest difference of a score, over the agreeing pools.
    pub worst: f64,
}

impl Check {
    /// True where every order was the CPU's and every score within 1e-11.
    pub fn passed(&self) -> bool {
        self.agreeing == self.pools && self.worst <= TOLERANCE
    }
}

/// Element type, candidates, dimension, budget, pools: a typical batch of each type, the largest pool, and a budget
/// whose matrices lie in global memory.
const CASES: [(&str, usize, usize, usize, usize); 5] = [
    ("f32", 200, 1536, 20, 8),
    ("f16", 200, 1024, 20, 8),
    ("bf16", 200, 768, 20, 8),
    ("f32", 1024, 384, 50, 2),
    ("bf16", 150, 100, 100, 2),
];

impl Gpu {
    /// Orders generated pools on this device and on the CPU.
    ///
    /// # Errors
    /// What the device reports; a pool that it refuses counts as not agreeing.
    pub fn self_test(&self) -> Result<Vec<Check>> {
        CASES.into_iter().map(|case| self.compare(case)).collect()
    }

    fn compare(&self, case: (&'static str, usize, usize, usize, usize)) -> Result<Check> {
        let (kind, candidates, dimension, budget, pools) = case;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(0);
        let store = vectors(&mut random, pools * candidates / 2, dimension);
        let queries = vectors(&mut random, pools, dimension);
        let (halves, brains): (Vec<f16>, Vec<bf16>);
        let elements = match kind {
            "f32" => Elements::F32(&store),
            "f16" => {
                halves = store.iter().map(|&value| f16::from_f32(value)).collect();
                Elements::F16(&halves)
            }
            _ => {
                brains = store.iter().map(|&value| bf16::from_f32(value)).collect();
                Elements::Bf16(&brains)
            }
        };
        let memories = self.upload(elements, dimension)?;
        let asked = self.upload_queries(Elements::F32(&queries), dimension)?;
        let rows: Vec<Vec<u32>> = (0..pools)
            .map(|_| (0..candidates).map(|_| random.random_range(0..memories.rows() as u32)).collect())
            .collect();
        let jobs: Vec<Job<'_>> = rows
            .iter()
            .enumerate()
            .map(|(pool, rows)| Job {
                memories: &memories,
                candidates: Candidates::Rows(rows),
                query: Query::Resident(&asked, pool),
            })
            .collect();
        let options = Options { budget, ..Options::default() };
        let name = format!("mempursuit-cuda {kind}, P={candidates}, K={budget}, d={dimension}");
        let mut check = Check { name, agreeing: 0, pools, worst: 0.0 };
        let mut scratch = Scratch::new();
        for (pool, answer) in self.pursue(&jobs, &options)?.paths.into_iter().enumerate() {
            let query = Elements::F32(&queries[pool * dimension..][..dimension]);
            let expected = Rows::gathered(elements, dimension, &rows[pool])
                .and_then(|rows| pursue(query, &rows, &options, &mut scratch));
            let (Ok(answer), Ok(expected)) = (answer, expected) else { continue };
            if answer.order == expected.order {
                check.agreeing += 1;
                let differences = answer.scores.iter().zip(&expected.scores).map(|(a, b)| (a - b).abs());
                check.worst = differences.fold(check.worst, f64::max);
            }
        }
        Ok(check)
    }
}

/// Vectors `[count, dimension]` around a few topics, so that the pursuit has something to tell apart.
fn vectors(random: &mut Xoshiro256PlusPlus, count: usize, dimension: usize) -> Vec<f32> {
    let mut noise = || random.random_range(-1.0_f32..1.0);
    let topics: Vec<f32> = (0..8 * dimension).map(|_| noise()).collect();
    (0..count * dimension).map(|at| topics[at % topics.len()] + 1.5 * noise()).collect()
}
