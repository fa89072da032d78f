//! One forward pass of packed pairs, beside the padded engine and the processor's plain matrix product.
//!
//! Throughput is in floating-point operations: an encoder's figure over the product's is the share of the
//! processor's f32 rate that the encoder reaches. Counted are the operations carried out (the last layer for first
//! tokens only; for the padded engine those of the real tokens, as if it did no more).

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rerank_bench::nn::EncoderConfig;
use rerank_bench::rerank::{Engine, OpenOptions, open};
use rerank_bench::weights::{WeightsSource, card};

const MODEL: &str = "bge-base";

/// Lengths as on LoCoMo: mean 66 tokens, from 36 to 96.
fn sequences() -> Vec<Vec<u32>> {
    (0..31u32)
        .map(|i| (0..36 + 2 * ((i * 11) % 31)).map(|t| 5 + (i * 977 + t * 131) % 250_000).collect())
        .collect()
}

/// Operations of an encoder over sequences of these lengths.
fn operations(config: &EncoderConfig, lengths: &[usize], whole_last_layer: bool) -> u64 {
    let (h, f) = (config.hidden as u64, config.intermediate as u64);
    let tokens: u64 = lengths.iter().map(|&l| l as u64).sum();
    let squares: u64 = lengths.iter().map(|&l| (l * l) as u64).sum();
    let layer = tokens * 2 * (4 * h * h + 2 * h * f) + 4 * h * squares;
    let last = if whole_last_layer {
        layer
    } else {
        lengths.len() as u64 * 2 * (2 * h * h + 2 * h * f) + tokens * 4 * h * h + 4 * h * tokens
    };
    (config.layers as u64 - 1) * layer + last
}

fn matrix_product(criterion: &mut Criterion) {
    let (m, k, n) = (12_115, 768, 3072);
    let (a, b, mut c) = (vec![0.5f32; m * k], vec![0.25f32; k * n], vec![0f32; m * n]);
    let threads = rayon::current_num_threads();
    let parallelism = if threads > 1 { gemm::Parallelism::Rayon(threads) } else { gemm::Parallelism::None };
    let mut group = criterion.benchmark_group("matrix-product");
    group.sample_size(10).throughput(Throughput::Elements(2 * (m * k * n) as u64));
    group.bench_function(format!("gemm {m}x{k}x{n}"), |bencher| {
        bencher.iter(|| {
            // SAFETY: the pointers are to buffers of m k, k n and m n values, and the strides those of row-major
            // matrices of these shapes.
            unsafe {
                gemm::gemm(
                    m,
                    n,
                    k,
                    c.as_mut_ptr(),
                    1,
                    n as isize,
                    false,
                    a.as_ptr(),
                    1,
                    k as isize,
                    b.as_ptr(),
                    1,
                    n as isize,
                    0.0,
                    1.0,
                    false,
                    false,
                    false,
                    parallelism,
                );
            }
            black_box(&mut c);
        });
    });
    group.finish();
}

fn encoder(criterion: &mut Criterion) {
    let config =
        card(MODEL).map(|card| EncoderConfig::parse(card.config)).expect("a known model").expect("valid");
    let sequences = sequences();
    let lengths: Vec<usize> = sequences.iter().map(Vec::len).collect();
    let mut group = criterion.benchmark_group(MODEL);
    group.sample_size(10).measurement_time(Duration::from_secs(20));
    for engine in [Engine::Packed, Engine::Candle] {
        let options = OpenOptions {
            weights: WeightsSource::Random,
            device: rerank_bench::device::DeviceChoice::Cpu,
            engine,
            ..OpenOptions::default()
        };
        let scorer = open(MODEL, &options, &|_| ()).expect("random weights need no files");
        let done = operations(&config, &lengths, engine == Engine::Candle);
        group.throughput(Throughput::Elements(done));
        group.bench_function(format!("{} {} pairs", engine.name(), sequences.len()), |bencher| {
            bencher
                .iter(|| black_box(scorer.score_ids(&sequences, sequences.len(), &mut ()).expect("scores")));
        });
    }
    group.finish();
}

criterion_group!(benches, matrix_product, encoder);
criterion_main!(benches);
