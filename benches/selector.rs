//! Criterion benches of the selector: the first look at a pool, the refit's share, the whole path, and many
//! questions over one store. Generated pools: topics, noise, a query that mixes four topics.

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use half::{bf16, f16};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rerank_bench::pursuit::{Corpus, Elements, Normalize, Options, Rows, Scratch, cosine, mmr, pursue};

const DIMENSION: usize = 1536;

/// A query and a matrix `[count, DIMENSION]`.
fn pool(count: usize, seed: u64) -> (Vec<f32>, Vec<f32>) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut vector = || (0..DIMENSION).map(|_| random.random_range(-1.0..1.0)).collect::<Vec<f32>>();
    let topics: Vec<Vec<f32>> = (0..12).map(|_| vector()).collect();
    let query: Vec<f32> = (0..DIMENSION).map(|k| topics[..4].iter().map(|topic| topic[k]).sum()).collect();
    let rows = (0..count)
        .flat_map(|row| {
            let (topic, noise) = (&topics[row % 12], vector());
            (0..DIMENSION).map(|k| 0.3 * query[k] + topic[k] + noise[k]).collect::<Vec<f32>>()
        })
        .collect();
    (query, rows)
}

fn scan(c: &mut Criterion) {
    let mut group = c.benchmark_group("scan");
    let (query, matrix) = pool(200, 1);
    let f16s: Vec<f16> = matrix.iter().map(|&value| f16::from_f32(value)).collect();
    let bf16s: Vec<bf16> = matrix.iter().map(|&value| bf16::from_f32(value)).collect();
    let mut scratch = Scratch::new();
    // A budget of one is one look at every row and one exact score.
    for (name, elements) in
        [("f32", Elements::F32(&matrix)), ("f16", Elements::F16(&f16s)), ("bf16", Elements::Bf16(&bf16s))]
    {
        let rows = Rows::dense(elements, DIMENSION).expect("whole rows");
        group.bench_function(name, |b| {
            b.iter(|| cosine(Elements::F32(black_box(&query)), &rows, 1, Normalize::Yes, &mut scratch))
        });
    }
    group.finish();
}

fn refit(c: &mut Criterion) {
    // Short vectors: what is left is picking and refitting.
    let (query, matrix) = pool(200, 2);
    let short = 32;
    let matrix: Vec<f32> = matrix.chunks_exact(DIMENSION).flat_map(|row| row[..short].to_vec()).collect();
    let rows = Rows::dense(Elements::F32(&matrix), short).expect("whole rows");
    let (options, mut scratch) = (Options::default(), Scratch::new());
    c.bench_function("refit", |b| {
        b.iter(|| pursue(Elements::F32(black_box(&query[..short])), &rows, &options, &mut scratch))
    });
}

fn path(c: &mut Criterion) {
    let mut group = c.benchmark_group("path");
    let mut scratch = Scratch::new();
    for (candidates, budget) in [(100, 20), (200, 20), (200, 100), (500, 20)] {
        let (query, matrix) = pool(candidates, 3);
        let rows = Rows::dense(Elements::F32(&matrix), DIMENSION).expect("whole rows");
        let options = Options { budget, ..Options::default() };
        group.bench_function(BenchmarkId::new("mempursuit", format!("P={candidates},K={budget}")), |b| {
            b.iter(|| pursue(Elements::F32(black_box(&query)), &rows, &options, &mut scratch))
        });
        group.bench_function(BenchmarkId::new("mmr", format!("P={candidates},K={budget}")), |b| {
            b.iter(|| mmr(Elements::F32(black_box(&query)), &rows, budget, 0.5, Normalize::Yes, &mut scratch))
        });
    }
    group.finish();
}

fn corpus(c: &mut Criterion) {
    let mut group = c.benchmark_group("corpus");
    let (query, matrix) = pool(200, 4);
    let index: Vec<u32> = (0..200).collect();
    let (options, mut scratch) = (Options::default(), Scratch::new());
    let fresh =
        || Corpus::new(Elements::F32(&matrix), DIMENSION, Normalize::Yes, 64 << 20).expect("whole rows");
    group.bench_function("first question", |b| {
        b.iter_batched(
            fresh,
            |corpus| corpus.select(Elements::F32(black_box(&query)), &index, &options, &mut scratch),
            BatchSize::SmallInput,
        )
    });
    let corpus = fresh();
    let mut scratch = Scratch::new();
    group.bench_function("again", |b| {
        b.iter(|| corpus.select(Elements::F32(black_box(&query)), &index, &options, &mut scratch))
    });
    group.finish();
}

criterion_group!(benches, scan, refit, path, corpus);
criterion_main!(benches);
