//! Figures published in the MemPursuit paper (Feng & Fan, "Recall What Is Missing", arXiv 2610.15642v1), which
//! stand beside ours. Latencies in milliseconds; MemPursuit with numba on one thread of a Xeon Gold 5117, neural
//! rerankers on an RTX 4090.

/// Table 14: sizes of the pool, P.
pub const GRID_CANDIDATES: [usize; 4] = [100, 200, 300, 500];
/// Table 14: budgets, K.
pub const GRID_BUDGETS: [usize; 4] = [10, 20, 50, 100];
/// Table 14: MemPursuit's median latency, a row for each P, a column for each K.
const GRID_MEDIAN_MS: [[f64; 4]; 4] = [
    [4.54, 6.30, 11.79, 22.75],
    [7.27, 8.40, 13.62, 23.99],
    [9.73, 12.16, 17.11, 26.49],
    [18.04, 22.47, 30.67, 38.58],
];

/// Table 14's median for `candidates` and `top_k`, where the paper has it.
pub fn grid_median_ms(candidates: usize, top_k: usize) -> Option<f64> {
    let row = GRID_CANDIDATES.iter().position(|&p| p == candidates)?;
    let column = GRID_BUDGETS.iter().position(|&k| k == top_k)?;
    Some(GRID_MEDIAN_MS[row][column])
}

/// One published row of Table 12 or 13.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Published {
    /// Our name of the model.
    pub model: &'static str,
    pub mean_ms: f64,
    pub median_ms: f64,
    pub p95_ms: f64,
    /// Table 13 gives no speedup by mean.
    pub speedup_mean: Option<f64>,
    pub speedup_median: f64,
}

const fn published(
    model: &'static str,
    [mean_ms, median_ms, p95_ms]: [f64; 3],
    speedup_mean: Option<f64>,
    speedup_median: f64,
) -> Published {
    Published { model, mean_ms, median_ms, p95_ms, speedup_mean, speedup_median }
}

const MEMPURSUIT: Published = published("mempursuit", [17.69, 8.67, 57.76], Some(1.0), 1.0);

/// Table 12: batches of 128.
pub const TABLE_12: &[Published] = &[
    MEMPURSUIT,
    published("bge-base", [109.26, 109.03, 126.12], Some(6.18), 12.58),
    published("bge-large", [283.73, 283.27, 330.01], Some(16.04), 32.67),
    published("bge-v2-m3", [275.66, 274.33, 320.70], Some(15.58), 31.64),
    published("qwen3.5-0.8b", [1682.95, 1675.98, 1751.40], Some(95.14), 193.31),
    published("qwen3.5-2b", [2119.66, 2113.75, 2205.36], Some(119.82), 243.80),
    published("qwen3.5-4b", [5151.40, 5138.73, 5343.48], Some(291.20), 592.70),
];

/// Table 13: the full batch of 200.
pub const TABLE_13: &[Published] = &[
    MEMPURSUIT,
    published("bge-base", [111.34, 110.48, 129.88], None, 12.74),
    published("bge-large", [286.10, 286.02, 331.60], None, 32.99),
    published("bge-v2-m3", [286.45, 285.61, 332.61], None, 32.94),
    published("qwen3.5-0.8b", [1733.86, 1724.74, 1794.96], None, 198.93),
    published("qwen3.5-2b", [2129.20, 2124.70, 2222.55], None, 245.06),
];

/// Figure 9: batch sizes.
pub const SWEEP_BATCHES: [usize; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 144, 200];

/// Figure 5 and Table 9: accuracy on LoCoMo at Top-20, per cent.
pub const ACCURACY: &[(&str, f64)] = &[
    ("mempursuit", 85.1),
    ("bge-base", 79.5),
    ("bge-large", 85.6),
    ("bge-v2-m3", 87.1),
    ("qwen3.5-0.8b", 82.4),
    ("qwen3.5-2b", 85.5),
    ("qwen3.5-4b", 86.6),
];
