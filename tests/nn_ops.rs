//! Every fused step against a slow clear twin in f64 and against candle's own operations, over a sweep of sizes.
#![cfg(feature = "neural")]

use candle_core::{Device, Tensor};
use rerank_bench::nn::ops::{
    FeedForward, Finish, Kernels, LayerNorm, Linear, Segments, attention, attention_of_first,
};

const FORMS: [Kernels; 2] = [Kernels::Fused, Kernels::Stock];

/// Reproducible values in [-1, 1).
fn noise(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(747_796_405).wrapping_add(1);
    (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            f32::from(state as u16) / 32768.0 - 1.0
        })
        .collect()
}

fn tensor(values: &[f32], rows: usize, columns: usize) -> Tensor {
    Tensor::from_slice(values, (rows, columns), &Device::Cpu).unwrap()
}

fn vector(values: &[f32]) -> Tensor {
    Tensor::from_slice(values, values.len(), &Device::Cpu).unwrap()
}

fn assert_close(found: &Tensor, expected: &[f64], tolerance: f64, what: &str) {
    let found: Vec<f32> = found.flatten_all().unwrap().to_vec1().unwrap();
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!((f64::from(*f) - e).abs() < tolerance, "{what}, value {i}: {f} instead of {e}");
    }
}

/// x W^T + bias for x `[rows, depth]`, W `[columns, depth]`.
fn product(x: &[f32], w: &[f32], bias: &[f32], depth: usize) -> Vec<f64> {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    x.chunks_exact(depth)
        .flat_map(|row| {
            w.chunks_exact(depth).zip(bias).map(move |(column, bias)| dot(row, column) + f64::from(*bias))
        })
        .collect()
}

fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..120 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    2.0 / std::f64::consts::PI.sqrt() * sum
}

fn gelu(x: f64) -> f64 {
    if x.abs() > 6.0 { x.max(0.0) } else { x / 2.0 * (1.0 + erf(x / std::f64::consts::SQRT_2)) }
}

fn normalise(rows: &[f64], scale: &[f32], shift: &[f32], epsilon: f64) -> Vec<f64> {
    let width = scale.len() as f64;
    rows.chunks_exact(scale.len())
        .flat_map(|row| {
            let mean = row.iter().sum::<f64>() / width;
            let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / width;
            row.iter().zip(scale).zip(shift).map(move |((v, s), b)| {
                (v - mean) / (variance + epsilon).sqrt() * f64::from(*s) + f64::from(*b)
            })
        })
        .collect()
}

#[test]
fn linear_layers_of_every_size_around_the_tile_agree() {
    // Rows around the tiles (6, 12) and the block (192), columns around the panels (8 to 32), depths around the
    // unrolled four and the depth block (384).
    let rows = [1, 2, 5, 6, 7, 11, 12, 13, 95, 193, 389];
    let columns = [1, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 65];
    let depths = [1, 2, 3, 4, 5, 8, 63, 383, 384, 385, 769];
    for (r, &depth) in depths.iter().enumerate() {
        for (c, &columns) in columns.iter().enumerate() {
            for &rows in if (r + c) % 4 == 0 { &rows[..] } else { &rows[..8] } {
                let what = format!("{rows} x {depth} x {columns}");
                let (x, w) = (noise(rows * depth, 1), noise(columns * depth, 2));
                let bias = noise(columns, 3);
                let expected = product(&x, &w, &bias, depth);
                let layer = Linear::new(tensor(&w, columns, depth), vector(&bias), Kernels::Fused).unwrap();
                let x = tensor(&x, rows, depth);
                assert_close(&layer.forward(&x, Finish::Bias).unwrap(), &expected, 1e-4, &what);
                let curved: Vec<f64> = expected.iter().map(|&v| gelu(v)).collect();
                assert_close(
                    &layer.forward(&x, Finish::Gelu).unwrap(),
                    &curved,
                    1e-4,
                    &format!("{what} gelu"),
                );
            }
        }
    }
}

#[test]
fn residual_and_norm_agree_in_both_forms() {
    for columns in [1, 5, 8, 16, 24, 64, 100, 768] {
        for rows in [1, 6, 7, 40] {
            let depth = 33;
            let (x, w, bias) = (noise(rows * depth, 1), noise(columns * depth, 2), noise(columns, 3));
            let (residual, scale, shift) = (noise(rows * columns, 4), noise(columns, 5), noise(columns, 6));
            let mut sums = product(&x, &w, &bias, depth);
            sums.iter_mut().zip(&residual).for_each(|(s, r)| *s += f64::from(*r));
            let expected = normalise(&sums, &scale, &shift, 1e-5);
            for kernels in FORMS {
                let layer = Linear::new(tensor(&w, columns, depth), vector(&bias), kernels).unwrap();
                let norm = LayerNorm::new(vector(&scale), vector(&shift), 1e-5);
                let residual = tensor(&residual, rows, columns);
                let finish = Finish::ResidualNorm { residual: &residual, norm: &norm };
                let found = layer.forward(&tensor(&x, rows, depth), finish).unwrap();
                assert_close(&found, &expected, 2e-4, &format!("{rows} x {columns}, {kernels:?}"));
            }
        }
    }
}

#[test]
fn the_feed_forward_block_agrees_in_both_forms() {
    for (hidden, wide, rows) in [(16, 40, 1), (64, 128, 50), (24, 96, 400)] {
        let x = noise(rows * hidden, 1);
        let (up, up_bias) = (noise(wide * hidden, 2), noise(wide, 3));
        let (down, down_bias) = (noise(hidden * wide, 4), noise(hidden, 5));
        let (scale, shift) = (noise(hidden, 6), noise(hidden, 7));
        let activations: Vec<f32> =
            product(&x, &up, &up_bias, hidden).into_iter().map(|v| gelu(v) as f32).collect();
        let mut sums = product(&activations, &down, &down_bias, wide);
        sums.iter_mut().zip(&x).for_each(|(s, x)| *s += f64::from(*x));
        let expected = normalise(&sums, &scale, &shift, 1e-5);
        for kernels in FORMS {
            let block = FeedForward::new(
                Linear::new(tensor(&up, wide, hidden), vector(&up_bias), kernels).unwrap(),
                Linear::new(tensor(&down, hidden, wide), vector(&down_bias), kernels).unwrap(),
                LayerNorm::new(vector(&scale), vector(&shift), 1e-5),
            );
            let found = block.forward(&tensor(&x, rows, hidden)).unwrap();
            assert_close(&found, &expected, 2e-4, &format!("{rows} x {hidden} x {wide}, {kernels:?}"));
        }
    }
}

/// softmax(q K^T / sqrt d) V of one query row over one sequence's rows, one head.
fn attend(q: &[f32], k: &[&[f32]], v: &[&[f32]]) -> Vec<f64> {
    let score = |k: &&[f32]| {
        let dot: f64 = q.iter().zip(*k).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
        (dot / (q.len() as f64).sqrt()).exp()
    };
    let weights: Vec<f64> = k.iter().map(score).collect();
    let total: f64 = weights.iter().sum();
    (0..q.len()).map(|i| weights.iter().zip(v).map(|(w, v)| w / total * f64::from(v[i])).sum()).collect()
}

#[test]
fn attention_stays_within_each_sequence_whatever_its_length() {
    let lengths = [1usize, 2, 5, 6, 7, 8, 15, 16, 17, 31, 33, 64, 95, 96, 97, 130, 200];
    let mut bounds = vec![0u32];
    lengths.iter().for_each(|&l| bounds.push(bounds[bounds.len() - 1] + l as u32));
    let tokens = bounds[lengths.len()] as usize;
    for (heads, width) in [(1, 4), (2, 16), (3, 20), (4, 64)] {
        let hidden = heads * width;
        let qkv = noise(tokens * 3 * hidden, 9).iter().map(|v| v * 3.0).collect::<Vec<f32>>();
        let part = |row: usize, which: usize, head: usize| {
            &qkv[row * 3 * hidden + which * hidden + head * width..][..width]
        };
        let mut expected = vec![0f64; tokens * hidden];
        for span in bounds.windows(2).map(|w| w[0] as usize..w[1] as usize) {
            for head in 0..heads {
                let of = |which| span.clone().map(|row| part(row, which, head)).collect::<Vec<_>>();
                let (k, v) = (of(1), of(2));
                for row in span.clone() {
                    let result = attend(part(row, 0, head), &k, &v);
                    expected[row * hidden + head * width..][..width].copy_from_slice(&result);
                }
            }
        }
        let packed = tensor(&qkv, tokens, 3 * hidden);
        let firsts: Vec<u32> = bounds[..lengths.len()].to_vec();
        let rows = Tensor::new(firsts.as_slice(), &Device::Cpu).unwrap();
        let q = packed.narrow(1, 0, hidden).unwrap().contiguous().unwrap().index_select(&rows, 0).unwrap();
        let kv = packed.narrow(1, hidden, 2 * hidden).unwrap().contiguous().unwrap();
        let of_first: Vec<f64> = firsts
            .iter()
            .flat_map(|&row| expected[row as usize * hidden..][..hidden].iter().copied())
            .collect();
        for kernels in FORMS {
            let what = format!("{heads} heads of {width}, {kernels:?}");
            let segments = Segments::new(&bounds, &Device::Cpu, kernels).unwrap();
            assert_close(&attention(&packed, &segments, heads).unwrap(), &expected, 1e-5, &what);
            let found = attention_of_first(&q, &kv, &segments, heads).unwrap();
            assert_close(&found, &of_first, 1e-5, &format!("{what}, first tokens"));
        }
    }
}

#[test]
fn a_nan_is_never_hidden() {
    let bad = vec![f32::NAN; 16 * 16];
    let layer = Linear::new(tensor(&bad, 16, 16), vector(&[0.0; 16]), Kernels::Fused).unwrap();
    let x = tensor(&noise(16 * 3, 1), 3, 16);
    for finish in [Finish::Bias, Finish::Gelu] {
        let found: Vec<f32> = layer.forward(&x, finish).unwrap().flatten_all().unwrap().to_vec1().unwrap();
        assert!(found.iter().all(|v| v.is_nan()));
    }
    let mut qkv = noise(5 * 48, 2);
    qkv[0] = f32::NAN; // one value of the first query
    let segments = Segments::new(&[0, 5], &Device::Cpu, Kernels::Fused).unwrap();
    let found: Vec<Vec<f32>> = attention(&tensor(&qkv, 5, 48), &segments, 1).unwrap().to_vec2().unwrap();
    assert!(found[0].iter().all(|v| v.is_nan()) && found[1].iter().all(|v| v.is_finite()));
}

/// What `doctor --self-test` runs on a GPU, on this processor.
#[test]
fn every_step_agrees_with_its_twin() {
    let checks = rerank_bench::nn::ops::self_test(&Device::Cpu);
    assert!(checks.len() >= 16);
    for check in checks {
        assert!(check.passed(), "{check:?}");
    }
}
