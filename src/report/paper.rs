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
