//! Generated pools: the same everywhere, and as hard as LoCoMo's.

use std::collections::HashSet;

use rerank_bench::pool::synthetic::Synthetic;
use rerank_bench::pool::{Pool, Vectors};
use rerank_bench::pursuit::{Elements, Options, Rows, Scratch, pursue};

fn vectors(pool: &Pool) -> (&[f32], &[f32], usize) {
    match &pool.vectors {
        Vectors::Inline { query, rows, dimension } => (query, rows, *dimension),
        other => panic!("{other:?}"),
    }
}

fn median(mut values: Vec<usize>) -> usize {
    values.sort_unstable();
    values[values.len() / 2]
}

/// FNV-1a, 64 bits.
fn checksum(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// LoCoMo's 1,540 pools: optimum at median step 14, support 14 (5th and 95th percentile 8 and 19).
#[test]
fn the_pursuit_meets_pools_like_locomo() {
    for seed in [0, 7] {
        let generator = Synthetic { seed, ..Synthetic::default() };
        let (mut steps, mut supports) = (Vec::new(), Vec::new());
        for pool in generator.pools().take(60) {
            let (query, rows, dimension) = vectors(&pool);
            let rows = Rows::dense(Elements::F32(rows), dimension).unwrap();
            let options = Options { budget: 60, trace: true, ..Options::default() };
            let path = pursue(Elements::F32(query), &rows, &options, &mut Scratch::new()).unwrap();
            steps.push(path.optimum.expect("within 60 steps"));
            supports.push(path.weights.iter().filter(|weight| **weight > 0.0).count());
        }
        assert!((5..=25).contains(steps.iter().min().unwrap()) && *steps.iter().max().unwrap() <= 25);
        assert!((12..=16).contains(&median(steps.clone())), "{steps:?}");
        assert!((10..=18).contains(&median(supports.clone())), "{supports:?}");
    }
}

#[test]
fn pools_are_whole_and_in_retrieval_order() {
    for (candidates, dimension) in [(200, 64), (500, 32), (17, 8), (5, 3), (2, 1), (1, 16), (0, 4)] {
        for pool in (Synthetic { candidates, dimension, seed: 3 }).pools().take(8) {
            let (query, rows, found) = vectors(&pool);
            assert_eq!((pool.len(), found, query.len()), (candidates, dimension, dimension));
            assert_eq!(rows.len(), candidates * dimension);
            let dot = |a: &[f32], b: &[f32]| -> f64 {
                a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
            };
            let cosines: Vec<f64> = rows.chunks(dimension).map(|row| dot(row, query)).collect();
            assert!(cosines.is_sorted_by(|a, b| a >= b));
            assert!(rows.chunks(dimension).chain([query]).all(|row| (dot(row, row) - 1.0).abs() < 1e-6));

            let ids: HashSet<_> = (0..candidates).map(|index| pool.candidate_id(index)).collect();
            let (question, texts) = pool.texts().unwrap();
            let different: HashSet<_> = texts.iter().collect();
            assert_eq!((ids.len(), different.len()), (candidates, candidates));
            assert!(question.ends_with('?') && !question.contains('{'));
            assert!(texts.iter().all(|text| !text.contains(['{', '}']) && text.contains("m on ")));
            assert!(candidates == 0 || !pool.gold.is_empty());
            assert!(pool.gold.iter().all(|id| ids.contains(id.as_str())));
            assert!(pool.candidates.iter().all(|candidate| candidate.timestamp.is_some()));
        }
    }
}

/// A gold memory states a fact that the question needs: it is more like the question than most.
#[test]
fn gold_memories_are_near_the_question() {
    for pool in Synthetic::default().pools().take(5) {
        let rank = |id: &str| (0..pool.len()).position(|index| pool.candidate_id(index) == id).unwrap();
        let ranks: Vec<usize> = pool.gold.iter().map(|id| rank(id)).collect();
        assert!(median(ranks.clone()) < 40, "{ranks:?}");
    }
}

#[test]
fn a_pool_follows_from_seed_and_number() {
    let generator = Synthetic { dimension: 96, ..Synthetic::default() };
    let first: Vec<Pool> = generator.pools().take(3).collect();
    let again = generator.pool(2);
    assert_eq!(vectors(&first[2]), vectors(&again));
    assert_eq!(first[2].texts().unwrap(), again.texts().unwrap());
    assert_ne!(vectors(&first[1]).0, vectors(&again).0);
    let other = Synthetic { seed: 1, ..generator.clone() }.pool(2);
    assert_ne!(other.texts().unwrap().1[0], again.texts().unwrap().1[0]);

    let without = Synthetic { dimension: 0, ..generator }.pool(2);
    assert!(matches!(without.vectors, Vectors::None));
    let texts =
        |pool: &Pool| -> HashSet<String> { pool.texts().unwrap().1.into_iter().map(str::to_owned).collect() };
    assert_eq!(texts(&without), texts(&again));
}

/// The bits that every platform must produce. They change when the generator is changed on purpose.
#[test]
fn the_first_pool_is_the_same_on_every_platform() {
    let pool = Synthetic::default().pool(0);
    let (question, texts) = pool.texts().unwrap();
    let text = checksum(question.bytes().chain(texts.into_iter().flat_map(str::bytes)));
    let (query, rows, _) = vectors(&pool);
    let numbers = checksum(query.iter().chain(rows).flat_map(|number| number.to_bits().to_le_bytes()));
    assert_eq!(
        (text, numbers),
        (0xe982_c635_21d8_af8c, 0x04f7_ab62_14ea_c5a2),
        "{text:#018x}, {numbers:#018x}"
    );
}
