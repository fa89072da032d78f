//! The policy `mempursuit-cuda`, on the emulator, against `mempursuit`.

use std::sync::Arc;

use half::f16;
use rerank_bench::policy::{MemPursuit, MemPursuitCuda, Policy};
use rerank_bench::pool::synthetic::Synthetic;
use rerank_bench::pool::{Candidate, Pool, Store, StoredQuery, Vectors};
use rerank_bench::pursuit::Options;
use rerank_bench::pursuit::cuda::Gpu;
use rerank_bench::pursuit::cuda::emulator::ThreadOrder;

fn policies() -> (MemPursuit, MemPursuitCuda) {
    let gpu = Gpu::emulated(ThreadOrder::Shuffled(1));
    (MemPursuit::new(Options::default(), 0), MemPursuitCuda::new(gpu, "emulator", Options::default()))
}

fn same_answers(pools: &[Pool], budget: usize) {
    let (cpu, gpu) = policies();
    same_answers_of(&cpu, &gpu, pools, budget);
}

fn same_answers_of(cpu: &MemPursuit, gpu: &MemPursuitCuda, pools: &[Pool], budget: usize) {
    let (expected, got) = (cpu.select_many(pools, budget), gpu.select_many(pools, budget));
    assert_eq!(got.len(), pools.len());
    for ((pool, expected), got) in pools.iter().zip(expected).zip(got) {
        match (expected, got) {
            (Ok(expected), Ok(got)) => {
                assert_eq!(got.picks.len(), expected.picks.len(), "{}", pool.id);
                for (got, expected) in got.picks.iter().zip(&expected.picks) {
                    assert_eq!(got.index, expected.index, "{}", pool.id);
                    assert!((got.score - expected.score).abs() <= 1e-12, "{}", pool.id);
                }
            }
            (Err(expected), Err(got)) => assert_eq!(got.to_string(), expected.to_string()),
            (expected, got) => panic!("{}: {expected:?} on the CPU, {got:?} on the GPU", pool.id),
        }
    }
}

#[test]
fn pools_with_their_own_vectors() {
    let generate = |candidates, dimension, count| {
        Synthetic { candidates, dimension, ..Synthetic::default() }.pools().take(count).collect::<Vec<_>>()
    };
    let mut pools = generate(40, 64, 6);
    pools.extend(generate(10, 24, 2));
    if let Vectors::Inline { rows, .. } = &mut pools[2].vectors {
        rows[64 * 3..64 * 4].fill(0.0);
    }
    pools[4].vectors = Vectors::None;
    pools.push(Pool { id: "empty".into(), ..Pool::default() });
    same_answers(&pools, 12);
}

#[test]
fn pools_over_a_store() {
    let values =
        |count: usize| (0..count).map(|k| ((k * 7919 + 13) % 1009) as f32 / 504.0 - 1.0).collect::<Vec<_>>();
    let rounded = values(50 * 33).into_iter().map(|value| f16::from_f32(value).to_f32()).collect();
    let store = Arc::new(Store::from_rows(33, rounded, values(4 * 33)).unwrap());
    let pools: Vec<Pool> = (0..8)
        .map(|k| Pool {
            id: k.to_string(),
            candidates: (0..20 + k).map(|_| Arc::new(Candidate::default())).collect(),
            vectors: Vectors::Stored {
                store: store.clone(),
                query: match k {
                    0 => StoredQuery::Inline(values(33)),
                    _ => StoredQuery::Row(k as u32 % 4),
                },
                rows: (0..20 + k as u32).map(|row| (row * (k as u32 + 1)) % 50).collect(),
            },
            ..Pool::default()
        })
        .collect();
    same_answers(&pools, 15);
}

/// Six stores on a device that holds four without what a launch needs: they come and go, and what does not fit at once is done in parts.
#[test]
fn stores_make_room_for_each_other() {
    const STORE: usize = 60 * 64 * 4;
    let gpu = Gpu::emulated_with(ThreadOrder::Shuffled(2), 4 * STORE);
    let (cpu, gpu) =
        (MemPursuit::new(Options::default(), 0), MemPursuitCuda::new(gpu, "emulator", Options::default()));
    let values = |count: usize, seed: usize| -> Vec<f32> {
        (0..count).map(|k| ((k * 7919 + 13 + seed * 101) % 1009) as f32 / 504.0 - 1.0).collect()
    };
    let pools: Vec<Pool> = (0..6)
        .map(|k| Pool {
            id: k.to_string(),
            candidates: (0..12).map(|_| Arc::new(Candidate::default())).collect(),
            vectors: Vectors::Stored {
                store: Arc::new(Store::from_rows(64, values(60 * 64, k), values(64, 9 + k)).unwrap()),
                query: StoredQuery::Row(0),
                rows: (0..12).map(|row| row * 5).collect(),
            },
            ..Pool::default()
        })
        .collect();
    same_answers_of(&cpu, &gpu, &pools, 5);
    // And one after the other, back and forth.
    for pool in pools.iter().chain(pools.iter().rev()) {
        same_answers_of(&cpu, &gpu, std::slice::from_ref(pool), 5);
    }
}

/// A pool that is too large for its dimension spoils no smaller one.
#[test]
fn a_pool_too_large_is_refused_alone() {
    let generate = |candidates| {
        Synthetic { candidates, dimension: 22_000, ..Synthetic::default() }.pools().next().unwrap()
    };
    let pools = [generate(6), generate(1024), generate(9)];
    let (cpu, gpu) = policies();
    let answers = gpu.select_many(&pools, 3);
    assert!(answers[1].as_ref().is_err_and(|error| error.to_string().contains("22000")), "{:?}", answers[1]);
    for k in [0, 2] {
        let expected: Vec<usize> =
            cpu.select(&pools[k], 3).unwrap().picks.iter().map(|pick| pick.index).collect();
        let got: Vec<usize> = answers[k].as_ref().unwrap().picks.iter().map(|pick| pick.index).collect();
        assert_eq!(got, expected);
    }
}
