//! What holds for every pool: proptest over generated ones, checked against slow float64 code written here.

mod pursuit_support;

use proptest::prelude::*;
use pursuit_support::{SplitMix, replay, unit};
use rerank_bench::pursuit::{
    Elements, Error, Normalize, Options, Path, Rows, Scratch, Stop, cosine, mmr, pursue,
};

/// A pool with its query, row by row.
#[derive(Debug, Clone)]
struct Pool {
    dimension: usize,
    query: Vec<f32>,
    rows: Vec<Vec<f32>>,
}

/// Pools of clustered vectors; some rows are copies of others.
fn pools(most: usize) -> impl Strategy<Value = Pool> {
    (2..40_usize, 1..most, any::<u64>(), 0..4_u64).prop_map(|(dimension, count, seed, copies)| {
        let mut random = SplitMix(seed);
        let mut value = move || (random.next() >> 40) as f32 / (1 << 24) as f32 - 0.5;
        let mut vector = |spread: f32| (0..dimension).map(|_| spread * value()).collect::<Vec<f32>>();
        let centres: Vec<Vec<f32>> = (0..4).map(|_| vector(1.0)).collect();
        let near = |centre: &[f32], noise: Vec<f32>| {
            centre.iter().zip(noise).map(|(a, b)| a + b).collect::<Vec<f32>>()
        };
        let query = near(&centres[0], vector(0.7));
        let mut rows: Vec<Vec<f32>> = Vec::new();
        let mut choice = SplitMix(seed ^ 0x5eed);
        for row in 0..count {
            if row > 0 && choice.below(10) < copies {
                rows.push(rows[choice.below(row as u64) as usize].clone());
            } else {
                rows.push(near(&centres[choice.below(4) as usize], vector(0.9)));
            }
        }
        Pool { dimension, query, rows }
    })
}

impl Pool {
    fn matrix(&self) -> Vec<f32> {
        self.rows.concat()
    }

    fn run(&self, options: &Options) -> Path {
        let matrix = self.matrix();
        let rows = Rows::dense(Elements::F32(&matrix), self.dimension).unwrap();
        pursue(Elements::F32(&self.query), &rows, options, &mut Scratch::new()).unwrap()
    }

    /// True where some step was decided by less than `gap`: what changes the last bits may change its order.
    fn is_close(&self, path: &Path, gap: f64) -> bool {
        let (query, rows) = (unit(&self.query), self.units());
        (0..path.order.len()).any(|t| {
            let weights = if t == 0 { &[][..] } else { &path.trace[t - 1].weights[..] };
            let residual = residual(&query, &rows, &path.order[..t], weights);
            let mut left: Vec<f64> = (0..rows.len())
                .filter(|row| !path.order[..t].contains(&(*row as u32)))
                .map(|row| dot(&rows[row], &residual))
                .collect();
            left.sort_by(|a, b| b.total_cmp(a));
            left.len() > 1 && left[0] - left[1] < gap
        })
    }

    fn units(&self) -> Vec<Vec<f64>> {
        self.rows.iter().map(|row| unit(row)).collect()
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn residual(query: &[f64], rows: &[Vec<f64>], order: &[u32], weights: &[f64]) -> Vec<f64> {
    let mut residual = query.to_vec();
    for (&row, &weight) in order.iter().zip(weights) {
        for (residual, value) in residual.iter_mut().zip(&rows[row as usize]) {
            *residual -= weight * value;
        }
    }
    residual
}

/// ½‖q - Σαx‖² + ½λ‖α‖² at its least over the simplex, by Frank-Wolfe steps between the best and the worst
/// vertex (pairwise): slow, and nothing like the code under test. Returns what it reached and the duality gap,
/// within which of the least that is.
fn least_objective(query: &[f64], rows: &[Vec<f64>], ridge: f64) -> (f64, f64) {
    let mut gap = f64::INFINITY;
    let mut weights = vec![0.0; rows.len()];
    weights[0] = 1.0;
    let everything: Vec<u32> = (0..rows.len() as u32).collect();
    for _ in 0..200_000 {
        let residual = residual(query, rows, &everything, &weights);
        let slopes: Vec<f64> =
            rows.iter().zip(&weights).map(|(row, w)| dot(row, &residual) - ridge * w).collect();
        let best = (0..rows.len()).max_by(|&a, &b| slopes[a].total_cmp(&slopes[b])).unwrap();
        let worst = (0..rows.len())
            .filter(|&row| weights[row] > 0.0)
            .min_by(|&a, &b| slopes[a].total_cmp(&slopes[b]))
            .unwrap();
        gap = slopes[best] - slopes[worst];
        if gap < 1e-13 {
            break;
        }
        let curvature: f64 =
            rows[best].iter().zip(&rows[worst]).map(|(a, b)| (a - b).powi(2)).sum::<f64>() + 2.0 * ridge;
        let step = if curvature > 0.0 { (gap / curvature).min(weights[worst]) } else { weights[worst] };
        weights[best] += step;
        weights[worst] = if step == weights[worst] { 0.0 } else { weights[worst] - step };
    }
    let residual = residual(query, rows, &everything, &weights);
    (0.5 * dot(&residual, &residual) + 0.5 * ridge * dot(&weights, &weights), gap)
}

fn traced(budget: usize) -> Options {
    Options { budget, trace: true, ..Options::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_pick_replays_and_every_refit_is_optimal(
        pool in pools(120),
        ridge in prop_oneof![Just(1e-10), Just(0.0), Just(1e-3)],
    ) {
        let path = pool.run(&Options { ridge, ..traced(30) });
        let (query, rows) = (unit(&pool.query), pool.units());
        prop_assert_eq!(path.order.len(), rows.len().min(30));
        replay(&query, &rows, &path);
        let mut last = f64::INFINITY;
        for (t, step) in path.trace.iter().enumerate() {
            let order = &path.order[..=t];
            prop_assert!(step.weights.iter().all(|&weight| weight >= 0.0));
            prop_assert!((step.weights.iter().sum::<f64>() - 1.0).abs() <= 1e-13);
            // Optimality: equal slopes where weights are positive, none larger elsewhere.
            let residual = residual(&query, &rows, order, &step.weights);
            let slope = |(&row, weight): (&u32, &f64)| dot(&rows[row as usize], &residual) - ridge * weight;
            let slopes: Vec<f64> = order.iter().zip(&step.weights).map(slope).collect();
            let nu = dot(&slopes, &step.weights);
            for (slope, &weight) in slopes.iter().zip(&step.weights) {
                let excess = if weight > 0.0 { (slope - nu).abs() } else { slope - nu };
                prop_assert!(excess <= 1e-13, "step {}: off by {excess:e}", t + 1);
            }
            prop_assert!(step.objective <= last + 1e-12, "step {}: the objective rose", t + 1);
            last = step.objective;
        }
    }

    #[test]
    fn the_certificate_bounds_what_is_left(
        pool in pools(24),
        ridge in prop_oneof![Just(1e-10), Just(1e-3)],
    ) {
        let path = pool.run(&Options { ridge, ..traced(8) });
        let (least, gap) = least_objective(&unit(&pool.query), &pool.units(), ridge);
        prop_assert!(gap < 1e-9);
        for step in &path.trace {
            prop_assert!(step.objective - least >= -1e-12 - gap);
            prop_assert!(step.objective - least <= step.certificate + 1e-12);
        }
    }

    #[test]
    fn prefixes_nest(pool in pools(150), budget in 1..40_usize) {
        let whole = pool.run(&traced(40));
        let path = pool.run(&Options { budget, ..Options::default() });
        prop_assert_eq!(&path.order[..], &whole.order[..budget.min(pool.rows.len())]);
        prop_assert_eq!(&path.weights, &whole.trace[path.order.len() - 1].weights);
    }

    #[test]
    fn scaling_by_powers_of_two_changes_nothing(pool in pools(100), exponents in prop::collection::vec(-12..12_i32, 101)) {
        let path = pool.run(&traced(20));
        let mut scaled = pool.clone();
        for (row, &exponent) in scaled.rows.iter_mut().zip(&exponents) {
            row.iter_mut().for_each(|value| *value *= (exponent as f32).exp2());
        }
        scaled.query.iter_mut().for_each(|value| *value *= (exponents[100] as f32).exp2());
        prop_assert_eq!(scaled.run(&traced(20)), path);
    }

    #[test]
    fn scaling_by_other_factors_changes_near_ties_only(pool in pools(100), factor in 0.01..100.0_f32) {
        let path = pool.run(&traced(20));
        prop_assume!(!pool.is_close(&path, 1e-6));
        let mut scaled = pool.clone();
        scaled.rows.iter_mut().flatten().for_each(|value| *value *= factor);
        prop_assert_eq!(scaled.run(&traced(20)).order, path.order);
    }

    #[test]
    fn permuting_candidates_permutes_the_result(pool in pools(100), seed in any::<u64>()) {
        let path = pool.run(&traced(20));
        prop_assume!(!pool.is_close(&path, 1e-9));
        let mut random = SplitMix(seed);
        let mut places: Vec<usize> = (0..pool.rows.len()).collect();
        for at in 0..places.len() {
            let other = at + random.below((places.len() - at) as u64) as usize;
            places.swap(at, other);
        }
        let rows = places.iter().map(|&place| pool.rows[place].clone()).collect();
        let permuted = Pool { rows, ..pool.clone() }.run(&traced(20));
        let order: Vec<u32> = permuted.order.iter().map(|&row| places[row as usize] as u32).collect();
        prop_assert_eq!(order, path.order);
    }

    #[test]
    fn mmr_is_the_slow_one(pool in pools(60), relevance in 0.0..=1.0_f64) {
        let (query, rows) = (unit(&pool.query), pool.units());
        let matrix = pool.matrix();
        let given = Rows::dense(Elements::F32(&matrix), pool.dimension).unwrap();
        let path =
            mmr(Elements::F32(&pool.query), &given, 15, relevance, Normalize::Yes, &mut Scratch::new()).unwrap();
        prop_assert_eq!(path.order.len(), rows.len().min(15));
        for t in 0..path.order.len() {
            let picked = &path.order[..t];
            let value = |row: usize| {
                let closest = picked.iter().map(|&other| dot(&rows[row], &rows[other as usize])).fold(f64::NEG_INFINITY, f64::max);
                let similar = dot(&rows[row], &query);
                if t == 0 { similar } else { relevance * similar - (1.0 - relevance) * closest }
            };
            let left: Vec<usize> = (0..rows.len()).filter(|row| !picked.contains(&(*row as u32))).collect();
            let best = left.iter().map(|&row| value(row)).fold(f64::NEG_INFINITY, f64::max);
            let lowest = left.iter().copied().find(|&row| value(row) >= best - 1e-12).unwrap();
            // Values here and there differ in their last bits; only within those may the choice differ.
            let near = left.iter().filter(|&&row| (value(row) - best).abs() < 2e-12).count() > 1;
            prop_assert!(path.order[t] as usize == lowest || near && value(path.order[t] as usize) >= best - 2e-12);
            let expected = if t == 0 { relevance * value(lowest) } else { value(lowest) };
            prop_assert!((path.scores[t] - expected).abs() < 3e-12);
        }
    }

    #[test]
    fn cosine_is_the_sorted_similarity(pool in pools(150), budget in 0..40_usize) {
        let (query, rows) = (unit(&pool.query), pool.units());
        let matrix = pool.matrix();
        let given = Rows::dense(Elements::F32(&matrix), pool.dimension).unwrap();
        let path = cosine(Elements::F32(&pool.query), &given, budget, Normalize::Yes, &mut Scratch::new()).unwrap();
        let mut values: Vec<f64> = rows.iter().map(|row| dot(row, &query)).collect();
        for (&row, score) in path.order.iter().zip(&path.scores) {
            prop_assert!((values[row as usize] - score).abs() < 1e-13);
        }
        values.sort_by(|a, b| b.total_cmp(a));
        prop_assert_eq!(path.scores.len(), budget.min(rows.len()));
        for (score, value) in path.scores.iter().zip(values) {
            prop_assert!((score - value).abs() < 2e-12);
        }
    }

    /// Proposition 1 on the paper's clusters: unit facts at right angles to one another, memories close to their
    /// fact, a query that mixes the facts. The first h picks are of h different facts, and the residual is small.
    #[test]
    fn facts_are_covered_first(facts in 2..6_usize, copies in 1..6_usize, seed in any::<u64>()) {
        let dimension = 24;
        let mut random = SplitMix(seed);
        let mut noise = move || (random.next() >> 40) as f32 / (1 << 24) as f32 - 0.5;
        let axis = |fact: usize, size: f32| (0..dimension).map(|k| if k == fact { size } else { 0.0 }).collect::<Vec<f32>>();
        let spread = 0.01;
        let rows: Vec<Vec<f32>> = (0..facts * copies)
            .map(|row| axis(row % facts, 1.0).iter().map(|value| value + spread * noise()).collect())
            .collect();
        let query: Vec<f32> = (0..dimension).map(|k| if k < facts { 1.0 + 0.02 * noise() } else { 0.0 }).collect();
        let pool = Pool { dimension, query, rows };
        let path = pool.run(&traced(facts));
        let mut covered: Vec<usize> = path.order.iter().map(|&row| row as usize % facts).collect();
        covered.sort_unstable();
        prop_assert_eq!(covered, (0..facts).collect::<Vec<_>>());
        // Memories are within ε of their facts, so that the best mixture of one memory a fact is within ε of the
        // mixture of facts itself, and the refit finds the best.
        let epsilon = pool.units().iter().enumerate().map(|(row, unit)| {
            unit.iter().enumerate().map(|(k, value)| (value - f64::from(u8::from(k == row % facts))).powi(2)).sum::<f64>().sqrt()
        }).fold(0.0, f64::max);
        let query = unit(&pool.query);
        let total: f64 = query.iter().sum();
        let ideal: f64 = query.iter().map(|value| (value - value / total).powi(2)).sum::<f64>().sqrt();
        prop_assert!(path.trace[facts - 1].residual <= ideal + epsilon + 1e-9);
    }
}

/// Case 14 of the users' cases: copies and a right angle.
#[test]
fn copies_come_last_and_in_input_order() {
    let half = std::f32::consts::FRAC_1_SQRT_2;
    let rows = vec![vec![1.0, 0.0], vec![1.0, 0.0], vec![1.0, 0.0], vec![0.0, 1.0]];
    let pool = Pool { dimension: 2, query: vec![half, half], rows };
    for ridge in [0.0, 1e-10, 1e-3] {
        let path = pool.run(&Options { ridge, ..traced(4) });
        assert_eq!(path.order[..2], [0, 3], "ridge {ridge}");
        assert_eq!(path.order[2..], [1, 2], "ridge {ridge}");
        assert!((path.weights.iter().sum::<f64>() - 1.0).abs() < 1e-14);
    }
}

/// Case 15: a near copy does not come back in third place.
#[test]
fn mmr_remembers_everything_picked() {
    let rows =
        [[1.0, 0.0, 0.0, 0.2], [0.999, -0.02, 0.0, 0.2], [0.0, 1.0, 0.0, 0.18], [0.0, 0.0, 1.0, 0.16_f32]];
    let query = [1.0, 0.9, 0.85, 0.3_f32];
    let given = Rows::dense(Elements::F32(rows.as_flattened()), 4).unwrap();
    let path = mmr(Elements::F32(&query), &given, 3, 0.5, Normalize::Yes, &mut Scratch::new()).unwrap();
    assert_eq!(path.order, [0, 2, 3]);
    let mut pair = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0_f32]];
    pair[1][0] = 1.0;
    let given = Rows::dense(Elements::F32(pair.as_flattened()), 2).unwrap();
    let path = mmr(Elements::F32(&[1.0, 0.2]), &given, 3, 0.5, Normalize::Yes, &mut Scratch::new()).unwrap();
    assert_eq!(path.order[0], 0);
}

/// Case 16: lengths do not matter, faults are named with their row, and no value is too large or too small.
#[test]
fn faults_are_named_and_extreme_lengths_are_not_faults() {
    let pool = Pool {
        dimension: 3,
        query: vec![0.5, 0.3, 0.1],
        rows: (0..90)
            .map(|row| vec![(row as f32).sin(), (row as f32 * 1.7).cos(), (row as f32 * 0.3).sin()])
            .collect(),
    };
    let expected = pool.run(&traced(10));
    for row in [3, 70] {
        for exponent in [-110.0_f32, -40.0, 40.0, 100.0] {
            let mut scaled = pool.clone();
            scaled.rows[row].iter_mut().for_each(|value| *value *= exponent.exp2());
            let path = scaled.run(&traced(10));
            assert_eq!(path.order, expected.order, "row {row} by 2^{exponent}");
        }
        let refused = |bad: Vec<f32>| {
            let mut pool = pool.clone();
            pool.rows[row] = bad;
            let matrix = pool.matrix();
            let rows = Rows::dense(Elements::F32(&matrix), 3).unwrap();
            pursue(Elements::F32(&pool.query), &rows, &traced(5), &mut Scratch::new())
        };
        assert_eq!(refused(vec![0.0; 3]), Err(Error::ZeroVector { row: Some(row) }));
        assert_eq!(refused(vec![1.0, f32::NAN, 0.0]), Err(Error::NotFinite { row: Some(row) }));
        assert_eq!(refused(vec![1.0, f32::INFINITY, 0.0]), Err(Error::NotFinite { row: Some(row) }));
    }
    let matrix = pool.matrix();
    let rows = Rows::dense(Elements::F32(&matrix), 3).unwrap();
    let mut scratch = Scratch::new();
    let mut ask = |query: &[f32]| pursue(Elements::F32(query), &rows, &traced(5), &mut scratch);
    assert_eq!(ask(&[0.0; 3]), Err(Error::ZeroVector { row: None }));
    assert_eq!(ask(&[f32::NAN, 0.0, 1.0]), Err(Error::NotFinite { row: None }));
    assert_eq!(ask(&[1.0; 4]), Err(Error::Dimension { query: 4, candidates: 3 }));
    assert_eq!(
        Rows::dense(Elements::F32(&matrix), 4).map(|_| ()),
        Err(Error::Shape { elements: 270, dimension: 4 })
    );
}

/// Case 17: the edges of K and P.
#[test]
fn edges_of_budget_and_pool() {
    let rows: Vec<Vec<f32>> = (0..7).map(|_| vec![0.6, 0.8]).collect();
    let pool = Pool { dimension: 2, query: vec![0.8, 0.6], rows };
    assert_eq!(pool.run(&traced(0)).order, [0_u32; 0]);
    assert_eq!(pool.run(&traced(50)).order, [0, 1, 2, 3, 4, 5, 6]);
    let stop = |tolerance| Options { stop: Some(Stop { tolerance, patience: 2 }), ..traced(7) };
    assert_eq!(pool.run(&stop(1e-5)).stopped, Some(3));
    assert_eq!(pool.run(&stop(0.0)).order.len(), pool.run(&stop(0.0)).stopped.unwrap_or(7));
    let one = Pool { rows: pool.rows[..1].to_vec(), ..pool.clone() };
    assert_eq!(one.run(&traced(5)).order, [0]);
    let none = Rows::dense(Elements::F32(&[]), 2).unwrap();
    let path = pursue(Elements::F32(&pool.query), &none, &traced(5), &mut Scratch::new()).unwrap();
    assert_eq!((path.order, path.weights), (vec![], vec![]));
}

/// Rows are read where they lie: dense, with a stride, by an index.
#[test]
fn layouts_agree() {
    let pool = Pool {
        dimension: 5,
        query: vec![0.5, 0.3, 0.1, -0.2, 0.4],
        rows: (0..80).map(|row| (0..5).map(|k| ((row * 5 + k) as f32 * 0.7).sin()).collect()).collect(),
    };
    let dense = pool.run(&traced(12));
    let mut scratch = Scratch::new();
    let mut ask =
        |rows: &Rows<'_>| pursue(Elements::F32(&pool.query), rows, &traced(12), &mut scratch).unwrap();
    let padded: Vec<f32> =
        pool.rows.iter().flat_map(|row| row.iter().copied().chain([f32::NAN; 3])).collect();
    let padded = &padded[..padded.len() - 3];
    assert_eq!(ask(&Rows::strided(Elements::F32(padded), 5, 8).unwrap()), dense);
    let backwards: Vec<f32> = pool.rows.iter().rev().flatten().copied().collect();
    let index: Vec<u32> = (0..80).rev().collect();
    assert_eq!(ask(&Rows::gathered(Elements::F32(&backwards), 5, &index).unwrap()), dense);
}
