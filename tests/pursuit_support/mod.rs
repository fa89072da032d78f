//! What the selector's tests share: the golden instances, the LoCoMo pools, and a slow replay of a path.
#![allow(dead_code)] // each test binary uses its part

use std::path::PathBuf;

use rerank_bench::pursuit::{Normalize, Options, Path, Step};
use serde::Deserialize;

/// One golden case: an instance with its expected path.
#[derive(Deserialize)]
pub struct Case {
    #[serde(default)]
    pub name: String,
    pub d: usize,
    #[serde(rename = "P")]
    pub candidates: usize,
    #[serde(rename = "K")]
    pub budget: usize,
    pub lam: f64,
    #[serde(default)]
    pub q: Vec<f32>,
    #[serde(default)]
    pub x: Vec<Vec<f32>>,
    pub expected: Expected,
    pub exact_or_near_ties: bool,
    #[serde(default)]
    pub seed: u64,
    #[serde(default, rename = "T")]
    pub topics: usize,
    #[serde(default)]
    pub mode: String,
    #[serde(default)]
    pub mode2: String,
    #[serde(default)]
    pub fnv1a64_f32_le_q_then_x: String,
    pub fact_labels: Option<Vec<i64>>,
}

#[derive(Deserialize)]
pub struct Expected {
    pub order: Vec<u32>,
    pub score: Vec<f64>,
    pub ties: Vec<Vec<u32>>,
    pub residual: Vec<f64>,
    pub weights: Vec<Vec<f64>>,
    pub objective: Vec<f64>,
    pub reduction: Vec<f64>,
    pub nu: Vec<f64>,
    pub cert: Vec<f64>,
    pub k_adaptive: usize,
}

impl Case {
    /// The matrix `[P, d]`, row by row.
    pub fn matrix(&self) -> Vec<f32> {
        self.x.concat()
    }

    /// The goldens take their vectors as they are (unit only to float32 rounding).
    pub fn options(&self) -> Options {
        Options { budget: self.budget, ridge: self.lam, normalize: Normalize::No, stop: None, trace: true }
    }
}

/// All 46 golden cases, the generated ones filled in.
pub fn golden() -> Vec<Case> {
    #[derive(Deserialize)]
    struct File {
        small: Vec<Case>,
        large: Vec<Case>,
    }
    let file: File = serde_json::from_str(include_str!("../golden/selector_golden.json")).unwrap();
    let mut large = file.large;
    for case in &mut large {
        (case.q, case.x) = generate(case);
        let bytes = case.q.iter().chain(case.x.iter().flatten()).flat_map(|value| value.to_le_bytes());
        let hash = bytes
            .fold(0xcbf29ce484222325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100000001b3));
        assert_eq!(format!("{hash:016x}"), case.fnv1a64_f32_le_q_then_x, "{}: another instance", case.name);
    }
    file.small.into_iter().chain(large).collect()
}

/// SplitMix64.
pub struct SplitMix(pub u64);

impl SplitMix {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E3779B97F4A7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58476D1CE4E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D049BB133111EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn vector(&mut self, dimension: usize) -> Vec<i64> {
        (0..dimension).map(|_| (self.next() >> 48) as i64 - 32768).collect()
    }
}

/// The generated instances, as `prng_spec` in the golden file defines them.
fn generate(case: &Case) -> (Vec<f32>, Vec<Vec<f32>>) {
    let (d, mut random) = (case.d, SplitMix(case.seed));
    let topics: Vec<Vec<i64>> = (0..case.topics).map(|_| random.vector(d)).collect();
    let own = random.vector(d);
    let single = case.mode == "single";
    let query: Vec<i64> = match single {
        true => own.clone(),
        false => (0..d).map(|k| topics[..4].iter().map(|topic| topic[k]).sum::<i64>() + own[k]).collect(),
    };
    let anchor: Vec<i64> = match single {
        true => own,
        false => query.iter().map(|value| value / 2).collect(),
    };
    let mut rows: Vec<Vec<i64>> = Vec::new();
    for m in 0..case.candidates {
        let copies = random.below(8) == 0 && m > 0;
        let row = match case.mode2.as_str() {
            "dup" if copies => rows[random.below(m as u64) as usize].clone(),
            "near" if copies => {
                let mut row = rows[random.below(m as u64) as usize].clone();
                row[random.below(d as u64) as usize] += 1;
                row
            }
            _ => {
                let topic = random.below(case.topics as u64) as usize;
                let (wq, wt, wn) = (random.below(4) + 1, random.below(4) + 2, random.below(4) + 3);
                let noise = random.vector(d);
                (0..d)
                    .map(|k| wq as i64 * anchor[k] + wt as i64 * topics[topic][k] + wn as i64 * noise[k])
                    .collect()
            }
        };
        rows.push(row);
    }
    let unit = |raw: &Vec<i64>| {
        let norm = (raw.iter().map(|value| value * value).sum::<i64>() as f64).sqrt();
        raw.iter().map(|&value| (value as f64 / norm) as f32).collect::<Vec<f32>>()
    };
    (unit(&query), rows.iter().map(unit).collect())
}

/// The LoCoMo questions beside the repository, where they are.
pub struct Locomo {
    pub dimension: usize,
    pub memories: Vec<f32>,
    pub queries: Vec<f32>,
    /// Query row, candidate rows, expected first 50 picks, expected adaptive k.
    pub pools: Vec<(usize, Vec<u32>, Vec<u32>, usize)>,
}

impl Locomo {
    /// Reads the pools, or prints that they are not there.
    pub fn read() -> Option<Self> {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data/locomo");
        if !folder.is_dir() {
            println!("skipped: no LoCoMo pools beside the repository");
            return None;
        }
        let bytes = std::fs::read(folder.join("store.safetensors")).unwrap();
        let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let read = |name: &str| -> (usize, Vec<f32>) {
            let tensor = tensors.tensor(name).unwrap();
            let values = tensor.data().as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
            (tensor.shape()[1], values.collect())
        };
        let ((dimension, memories), (_, queries)) = (read("memories"), read("queries"));
        #[derive(Deserialize)]
        struct Line {
            query_row: usize,
            rows: Vec<u32>,
        }
        #[derive(Deserialize)]
        struct Orders {
            rows: Vec<(usize, Vec<u32>, usize)>,
        }
        let orders = std::fs::read_to_string(folder.join("mempursuit_orders.json")).unwrap();
        let orders: Orders = serde_json::from_str(&orders).unwrap();
        let lines = std::fs::read_to_string(folder.join("pools.jsonl")).unwrap();
        let pools = lines
            .lines()
            .zip(orders.rows)
            .map(|(line, (query, order, adaptive))| {
                let line: Line = serde_json::from_str(line).unwrap();
                assert_eq!(line.query_row, query);
                (query, line.rows, order, adaptive)
            })
            .collect();
        Some(Self { dimension, memories, queries, pools })
    }

    pub fn query(&self, row: usize) -> &[f32] {
        &self.queries[row * self.dimension..][..self.dimension]
    }
}

/// Evaluates the float64 reference on a path's own prefix, step by step: each pick must be within 1e-9 of the
/// best unselected alignment, and the best where it leads by more. `weights_of(t)` are the weights after t steps.
pub fn replay(query: &[f64], rows: &[Vec<f64>], path: &Path) {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut residual = query.to_vec();
    for (t, step) in path.trace.iter().enumerate() {
        let chosen = &path.order[..t];
        let scores: Vec<f64> = rows.iter().map(|row| dot(row, &residual)).collect();
        let best = (0..rows.len())
            .filter(|&row| !chosen.contains(&(row as u32)))
            .map(|row| scores[row])
            .fold(f64::NEG_INFINITY, f64::max);
        let score = scores[path.order[t] as usize];
        assert!(score >= best - 1e-9, "step {}: picked {score}, best {best}", t + 1);
        assert!(
            (score - path.scores[t]).abs() <= 1e-12,
            "step {}: says {}, is {score}",
            t + 1,
            path.scores[t]
        );
        residual.copy_from_slice(query);
        for (&row, &weight) in path.order.iter().zip(&step.weights) {
            for (residual, value) in residual.iter_mut().zip(&rows[row as usize]) {
                *residual -= weight * value;
            }
        }
    }
}

/// A vector in float64, at unit length.
pub fn unit(row: &[f32]) -> Vec<f64> {
    let norm = row.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
    row.iter().map(|&value| f64::from(value) / norm).collect()
}

pub fn close(name: &str, what: &str, got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len(), "{name}: {what}");
    for (step, (got, expected)) in got.iter().zip(expected).enumerate() {
        let off = (got - expected).abs();
        assert!(off <= tolerance, "{name}, step {}: {what} {got} for {expected}, off by {off:e}", step + 1);
    }
}

/// Order, scores, trace and weights within the goldens' tolerances.
pub fn compare_with_golden(case: &Case, path: &Path) {
    let (name, expected) = (&case.name, &case.expected);
    assert_eq!(path.order, expected.order, "{name}");
    close(name, "score", &path.scores, &expected.score, 1e-12);
    let column = |of: fn(&Step) -> f64| path.trace.iter().map(of).collect::<Vec<_>>();
    close(name, "residual", &column(|step| step.residual), &expected.residual, 1e-12);
    close(name, "objective", &column(|step| step.objective), &expected.objective, 1e-12);
    close(name, "reduction", &column(|step| step.reduction), &expected.reduction, 1e-12);
    close(name, "nu", &column(|step| step.nu), &expected.nu, 1e-12);
    close(name, "certificate", &column(|step| step.certificate), &expected.cert, 1e-12);
    for (step, expected) in path.trace.iter().zip(&expected.weights) {
        // Weights of coinciding memories are only as good as λ against the rounding of float64.
        let copies = name.contains("duplicate") || case.exact_or_near_ties;
        close(name, "weights", &step.weights, expected, if copies { 2e-6 } else { 1e-9 });
        assert!((step.weights.iter().sum::<f64>() - 1.0).abs() <= 1e-14, "{name}");
    }
}
