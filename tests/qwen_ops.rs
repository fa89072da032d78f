//! The fused steps of the Qwen3.5 network against plain f64 restatements.
#![cfg(feature = "neural")]

use candle_core::{Device, Tensor};
use rerank_bench::nn::ops::{Asking, CausalConv, DeltaShape, GatedDelta, Kernels, PrefixAttention, Tails};

/// Repeatable values in (-1, 1).
struct Values(u64);

impl Values {
    fn take(&mut self, count: usize) -> Vec<f32> {
        let mut next = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }
}

fn tensor(values: &[f32], shape: &[usize]) -> Tensor {
    Tensor::from_slice(values, shape, &Device::Cpu).unwrap()
}

fn tails(lengths: &[usize], kernels: Kernels) -> (Tails, Vec<usize>) {
    let mut bounds = vec![0u32];
    lengths.iter().for_each(|length| bounds.push(bounds[bounds.len() - 1] + *length as u32));
    let tails = Tails::new(&bounds, &Device::Cpu, kernels).unwrap();
    (tails, bounds.iter().map(|&bound| bound as usize).collect())
}

#[track_caller]
fn assert_close(found: &Tensor, expected: &[f64], tolerance: f64, what: &str) {
    let found: Vec<f32> = found.flatten_all().unwrap().to_vec1().unwrap();
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        let close = (f64::from(*f) - e).abs() <= tolerance * (1.0 + e.abs());
        assert!(close, "{what}, value {i}: {f} instead of {e}");
    }
}

const FORMS: [Kernels; 2] = [Kernels::Fused, Kernels::Stock];

/// One layer's inputs.
struct Delta {
    shape: DeltaShape,
    a_log: Vec<f32>,
    bias: Vec<f32>,
    /// `[tokens, queries | keys | values]`.
    mixed: Vec<f32>,
    /// `[tokens, beta | decay]`.
    gates: Vec<f32>,
}

impl Delta {
    fn new(shape: DeltaShape, tokens: usize, values: &mut Values) -> Self {
        let width = 2 * shape.key_heads * shape.key_width + shape.value_heads * shape.value_width;
        Self {
            shape,
            a_log: values.take(shape.value_heads),
            bias: values.take(shape.value_heads),
            mixed: values.take(tokens * width),
            gates: values.take(tokens * 2 * shape.value_heads).iter().map(|v| 3.0 * v).collect(),
        }
    }

    /// The recurrence of one head over tokens `from..to`, in f64: outputs, and the state, which it updates.
    fn recurrence(&self, head: usize, from: usize, to: usize, state: &mut [f64]) -> Vec<Vec<f64>> {
        let DeltaShape { key_heads, value_heads, key_width: dk, value_width: dv } = self.shape;
        let (keys, key_head) = (key_heads * dk, head / (value_heads / key_heads));
        let width = 2 * keys + value_heads * dv;
        let part = |token: usize, first: usize, count: usize| -> Vec<f64> {
            self.mixed[token * width + first..][..count].iter().map(|&v| f64::from(v)).collect()
        };
        let unit = |x: Vec<f64>| -> Vec<f64> {
            let norm = (x.iter().map(|v| v * v).sum::<f64>() + 1e-6).sqrt();
            x.iter().map(|v| v / norm).collect()
        };
        (from..to)
            .map(|token| {
                let q = unit(part(token, key_head * dk, dk));
                let k = unit(part(token, keys + key_head * dk, dk));
                let v = part(token, 2 * keys + head * dv, dv);
                let gate = |at: usize| f64::from(self.gates[token * 2 * value_heads + at]);
                let beta = 1.0 / (1.0 + (-gate(head)).exp());
                let x = gate(value_heads + head) + f64::from(self.bias[head]);
                let softplus = x.max(0.0) + (-x.abs()).exp().ln_1p();
                let decay = (-f64::from(self.a_log[head]).exp() * softplus).exp();
                let mut out = vec![0.0; dv];
                for column in 0..dv {
                    let at = |row: usize| row * dv + column;
                    let seen: f64 = (0..dk).map(|row| decay * state[at(row)] * k[row]).sum();
                    let change = beta * (v[column] - seen);
                    for row in 0..dk {
                        state[at(row)] = decay * state[at(row)] + k[row] * change;
                        out[column] += state[at(row)] * q[row] / (dk as f64).sqrt();
                    }
                }
                out
            })
            .collect()
    }

    /// Outputs of sequences of these bounds that continue `state`, `[tokens, values]`; and each one's last state.
    fn expected(&self, bounds: &[usize], state: Option<&[f32]>) -> (Vec<f64>, Vec<f64>) {
        let DeltaShape { value_heads, key_width, value_width, .. } = self.shape;
        let size = key_width * value_width;
        let mut out = vec![0.0; bounds[bounds.len() - 1] * value_heads * value_width];
        let mut last = Vec::new();
        for sequence in bounds.windows(2) {
            for head in 0..value_heads {
                let mut own = match state {
                    Some(state) => state[head * size..][..size].iter().map(|&v| f64::from(v)).collect(),
                    None => vec![0.0; size],
                };
                let rows = self.recurrence(head, sequence[0], sequence[1], &mut own);
                for (token, row) in rows.into_iter().enumerate() {
                    let at = ((sequence[0] + token) * value_heads + head) * value_width;
                    out[at..at + value_width].copy_from_slice(&row);
                }
                last.extend(own);
            }
        }
        (out, last)
    }

    fn run(&self, lengths: &[usize], state: Option<&[f32]>, kernels: Kernels) -> (Tensor, Vec<f64>) {
        let DeltaShape { value_heads, key_width, value_width, .. } = self.shape;
        let (tails, bounds) = tails(lengths, kernels);
        let tokens = bounds[lengths.len()];
        let state_tensor = state.map(|state| tensor(state, &[value_heads, key_width, value_width]));
        let rule = GatedDelta::new(self.shape, &self.a_log, self.bias.clone(), kernels);
        let mixed = tensor(&self.mixed, &[tokens, self.mixed.len() / tokens]);
        let gates = tensor(&self.gates, &[tokens, 2 * value_heads]);
        let found = rule.forward(&mixed, &gates, state_tensor.as_ref(), &tails).unwrap();
        let (expected, last) = self.expected(&bounds, state);
        if lengths.len() == 1 && state.is_none() {
            let (same, after) = rule.forward_with_state(&mixed, &gates, &tails).unwrap();
            assert_close(&same, &expected, 2e-5, &format!("{kernels:?} {lengths:?} with its state"));
            assert_close(&after, &last, 2e-5, &format!("{kernels:?} {lengths:?}, the state"));
        }
        (found, expected)
    }
}

fn shapes() -> [DeltaShape; 4] {
    let shape = |key_heads, value_heads, key_width, value_width| DeltaShape {
        key_heads,
        value_heads,
        key_width,
        value_width,
    };
    [shape(2, 4, 16, 32), shape(3, 3, 8, 8), shape(1, 2, 5, 19), shape(1, 1, 128, 128)]
}

/// Lengths around the chunk's and the tile's sizes, alone and together, from nothing and from a state.
#[test]
fn the_chunked_delta_rule_is_the_recurrence() {
    let mut values = Values(1);
    for shape in shapes() {
        let mut lengths: Vec<Vec<usize>> =
            (1..=20).chain([63, 64, 65, 128, 130, 257]).map(|n| vec![n]).collect();
        lengths.extend([vec![1, 70, 3, 64, 12], vec![5; 9]]);
        for lengths in lengths {
            let delta = Delta::new(shape, lengths.iter().sum(), &mut values);
            let state = values.take(shape.value_heads * shape.key_width * shape.value_width);
            for kernels in FORMS {
                for state in [None, Some(state.as_slice())] {
                    let (found, expected) = delta.run(&lengths, state, kernels);
                    let what = format!("{shape:?} {kernels:?} {lengths:?}, state {}", state.is_some());
                    assert_close(&found, &expected, 2e-5, &what);
                }
            }
        }
    }
}

/// Log decays down to -1e4 beside ones near 0: exponents are differences of large sums, and none may overflow.
#[test]
fn strong_decays_stay_finite_and_right() {
    let shape = shapes()[0];
    let mut values = Values(2);
    for strong in [10.0, 1e3, 1e4] {
        let mut delta = Delta::new(shape, 150, &mut values);
        delta.a_log = vec![0.0; shape.value_heads];
        for (token, gates) in delta.gates.chunks_exact_mut(2 * shape.value_heads).enumerate() {
            for decay in &mut gates[shape.value_heads..] {
                *decay = if token % 7 == 3 { strong } else { -4.0 };
            }
        }
        for kernels in FORMS {
            let (found, expected) = delta.run(&[150], None, kernels);
            assert_close(&found, &expected, 2e-5, &format!("decays of {strong}, {kernels:?}"));
        }
    }
}

#[test]
fn a_convolution_looks_back_into_what_came_before() {
    let mut values = Values(3);
    for (width, count) in [(192, 4), (7, 4), (16, 1), (33, 2)] {
        let lengths = [1, 2, 3, 4, 9, 40];
        let tokens: usize = lengths.iter().sum();
        let (x, taps) = (values.take(tokens * width), values.take(count * width));
        let before = values.take((count - 1) * width);
        let bounds = tails(&lengths, Kernels::Fused).1;
        let mut expected = vec![0.0; tokens * width];
        for sequence in bounds.windows(2) {
            for token in sequence[0]..sequence[1] {
                for column in 0..width {
                    let sum: f64 = (0..count)
                        .map(|tap| {
                            let at = token + tap + 1;
                            let value = match at.checked_sub(count).filter(|&own| own >= sequence[0]) {
                                Some(own) => x[own * width + column],
                                None => before[(at - 1 - sequence[0]) * width + column],
                            };
                            f64::from(value) * f64::from(taps[tap * width + column])
                        })
                        .sum();
                    expected[token * width + column] = sum / (1.0 + (-sum).exp());
                }
            }
        }
        for kernels in FORMS {
            let conv = CausalConv::new(taps.clone(), count, &Device::Cpu, kernels).unwrap();
            let before = tensor(&before, &[count - 1, width]);
            let found =
                conv.forward(&tensor(&x, &[tokens, width]), &before, &tails(&lengths, kernels).0).unwrap();
            assert_close(&found, &expected, 1e-6, &format!("{width} columns, {count} taps, {kernels:?}"));
        }
    }
}

/// Every head layout, with and without a shared beginning, all tokens asking and only the last ones.
#[test]
fn attention_sees_the_beginning_and_its_own_past_alone() {
    let mut values = Values(4);
    for (heads, kv_heads, width) in [(4, 2, 32), (4, 1, 16), (2, 2, 9), (8, 2, 64)] {
        for (shared, lengths) in
            [(0, vec![1, 5, 17]), (3, vec![40, 1, 66]), (33, vec![2, 129]), (16, vec![1; 5])]
        {
            let tokens: usize = lengths.iter().sum();
            let q: Vec<f32> = values.take(tokens * heads * width).iter().map(|v| 3.0 * v).collect();
            let kv = values.take(tokens * 2 * kv_heads * width);
            let prefix = values.take(shared * 2 * kv_heads * width);
            let bounds = tails(&lengths, Kernels::Fused).1;
            let row_of = |from: usize, at: usize| match at.checked_sub(shared) {
                None => &prefix[at * 2 * kv_heads * width..][..2 * kv_heads * width],
                Some(own) => &kv[(from + own) * 2 * kv_heads * width..][..2 * kv_heads * width],
            };
            let mut expected = vec![0.0; tokens * heads * width];
            for sequence in bounds.windows(2) {
                for token in sequence[0]..sequence[1] {
                    for head in 0..heads {
                        let kv_head = head / (heads / kv_heads);
                        let query = &q[(token * heads + head) * width..][..width];
                        let seen = shared + token - sequence[0] + 1;
                        let scores = (0..seen).map(|at| {
                            let key = &row_of(sequence[0], at)[kv_head * width..][..width];
                            let dot: f64 =
                                query.iter().zip(key).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                            (dot / (width as f64).sqrt()).exp()
                        });
                        let scores: Vec<f64> = scores.collect();
                        let total: f64 = scores.iter().sum();
                        for (at, score) in scores.iter().enumerate() {
                            let value = &row_of(sequence[0], at)[(kv_heads + kv_head) * width..][..width];
                            let out = &mut expected[(token * heads + head) * width..][..width];
                            out.iter_mut().zip(value).for_each(|(o, v)| *o += score / total * f64::from(*v));
                        }
                    }
                }
            }
            let lasts: Vec<u32> = bounds[1..].iter().map(|&end| end as u32 - 1).collect();
            let of_lasts: Vec<f64> = lasts
                .iter()
                .flat_map(|&row| expected[row as usize * heads * width..][..heads * width].to_vec())
                .collect();
            for kernels in FORMS {
                let attention = PrefixAttention::new(heads, kv_heads, width, kernels);
                let tails = tails(&lengths, kernels).0;
                let q = tensor(&q, &[tokens, heads * width]);
                let kv = tensor(&kv, &[tokens, 2 * kv_heads * width]);
                let prefix = tensor(&prefix, &[shared, 2 * kv_heads * width]);
                let what = format!("{heads} heads of {width}, {shared} shared, {kernels:?}");
                let every = attention.forward(&q, &kv, &prefix, &tails, Asking::Every).unwrap();
                assert_close(&every, &expected, 1e-5, &what);
                let lasts = Tensor::new(lasts.as_slice(), &Device::Cpu).unwrap();
                let q = q.index_select(&lasts, 0).unwrap();
                let last = attention.forward(&q, &kv, &prefix, &tails, Asking::Last).unwrap();
                assert_close(&last, &of_lasts, 1e-5, &what);
            }
        }
    }
}
