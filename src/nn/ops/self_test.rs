//! Every step of the networks on a device against its fused form on the CPU, for `doctor --self-test`.

use candle_core::{DType, Device, Result, Tensor};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{
    Angles, Asking, CausalConv, DeltaShape, FeedForward, Finish, GatedDelta, Kernels, LayerNorm, Linear,
    PrefixAttention, RmsNorm, Rotary, Segments, Tails, attention, attention_of_first, sigmoid_gate, swiglu,
};

/// One step in one number format.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// What was compared.
    pub name: String,
    /// Largest difference over the largest value, or why there is none.
    pub outcome: std::result::Result<f64, String>,
    /// What counts as agreement.
    pub tolerance: f64,
}

impl Check {
    /// True where the two agree.
    pub fn passed(&self) -> bool {
        self.outcome.as_ref().is_ok_and(|worst| *worst <= self.tolerance)
    }
}

/// One of the two sides: where and how a step runs, on inputs that are the same for both.
struct Side {
    device: Device,
    /// Format of weights and activations.
    dtype: DType,
    /// Format that the inputs are rounded to, so that both sides see the same ones.
    rounded_to: DType,
    kernels: Kernels,
    random: Xoshiro256PlusPlus,
}

impl Side {
    fn new(device: &Device, dtype: DType, rounded_to: DType, kernels: Kernels) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(0);
        Self { device: device.clone(), dtype, rounded_to, kernels, random }
    }

    fn values(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.random.random_range(-1.0..1.0)).collect()
    }

    /// The next values as a tensor of the side's format.
    fn tensor(&mut self, shape: &[usize]) -> Result<Tensor> {
        self.f32(shape)?.to_dtype(self.rounded_to)?.to_dtype(self.dtype)
    }

    /// The next values in f32, which parameters of norms and states are kept in.
    fn f32(&mut self, shape: &[usize]) -> Result<Tensor> {
        let values = self.values(shape.iter().product());
        Tensor::from_vec(values, shape, &Device::Cpu)?.to_device(&self.device)
    }

    fn linear(&mut self, out: usize, input: usize) -> Result<Linear> {
        let weight = (self.f32(&[out, input])? * (input as f64).powf(-0.5))?;
        let weight = weight.to_dtype(self.rounded_to)?.to_dtype(self.dtype)?;
        Linear::new(weight, self.tensor(&[out])?, self.kernels)
    }

    fn layer_norm(&mut self, width: usize) -> Result<LayerNorm> {
        Ok(LayerNorm::new(self.tensor(&[width])?, self.tensor(&[width])?, 1e-5))
    }

    fn rms_norm(&mut self, width: usize) -> Result<RmsNorm> {
        RmsNorm::new(self.f32(&[width])?, 1e-6, self.kernels)
    }

    fn tails(&self) -> Result<Tails> {
        Tails::new(&BOUNDS, &self.device, self.kernels)
    }
}

/// Sequences of 1, 17, 64 and 130 tokens in one packed row.
const BOUNDS: [u32; 5] = [0, 1, 18, 82, 212];
const TOKENS: usize = 212;
const DELTA: DeltaShape = DeltaShape { key_heads: 2, value_heads: 4, key_width: 64, value_width: 64 };

type Case = (&'static str, fn(&mut Side) -> Result<Tensor>);

const CASES: &[Case] = &[
    ("linear layer", |side| {
        let (layer, x) = (side.linear(384, 768)?, side.tensor(&[TOKENS, 768])?);
        layer.forward(&x, Finish::Bias)
    }),
    ("linear layer, GELU", |side| {
        let (layer, x) = (side.linear(384, 768)?, side.tensor(&[TOKENS, 768])?);
        layer.forward(&x, Finish::Gelu)
    }),
    ("linear layer, residual, layer norm", |side| {
        let (layer, norm) = (side.linear(384, 768)?, side.layer_norm(384)?);
        let (x, residual) = (side.tensor(&[TOKENS, 768])?, side.tensor(&[TOKENS, 384])?);
        layer.forward(&x, Finish::ResidualNorm { residual: &residual, norm: &norm })
    }),
    ("feed-forward block", |side| {
        let (up, down) = (side.linear(1024, 256)?, side.linear(256, 1024)?);
        let norm = side.layer_norm(256)?;
        FeedForward::new(up, down, norm).forward(&side.tensor(&[TOKENS, 256])?)
    }),
    ("layer norm", |side| {
        let norm = side.layer_norm(768)?;
        norm.forward(&side.tensor(&[TOKENS, 768])?)
    }),
    ("attention over packed rows", |side| {
        let segments = Segments::new(&BOUNDS, &side.device, side.kernels)?;
        attention(&side.tensor(&[TOKENS, 3 * 256])?, &segments, 4)
    }),
    ("attention of first tokens", |side| {
        let segments = Segments::new(&BOUNDS, &side.device, side.kernels)?;
        let q = side.tensor(&[BOUNDS.len() - 1, 256])?;
        attention_of_first(&q, &side.tensor(&[TOKENS, 2 * 256])?, &segments, 4)
    }),
    ("RMS norm", |side| {
        let norm = side.rms_norm(128)?;
        norm.forward(&side.tensor(&[TOKENS, 512])?)
    }),
    ("RMS norm, gated", |side| {
        let norm = side.rms_norm(128)?;
        let x = side.tensor(&[TOKENS, 512])?;
        norm.forward_gated(&x, &side.tensor(&[TOKENS, 512])?)
    }),
    ("SwiGLU", |side| swiglu(&side.tensor(&[TOKENS, 1024])?, side.kernels)),
    ("sigmoid gate", |side| {
        let x = side.tensor(&[TOKENS, 512])?;
        sigmoid_gate(&x, &side.tensor(&[TOKENS, 512])?, side.kernels)
    }),
    ("rotary positions", |side| {
        let rotary = Rotary::new(side.rms_norm(64)?, 64, side.kernels);
        let positions: Vec<u32> = (0..TOKENS as u32).collect();
        let angles = Angles::new(&positions, 16, 1e7, &side.device)?;
        rotary.forward(&side.tensor(&[TOKENS, 4 * 64])?, 4, &angles)
    }),
    ("causal convolution", |side| {
        let conv = CausalConv::new(side.values(4 * 256), 4, &side.device, side.kernels)?;
        let before = side.tensor(&[3, 256])?;
        conv.forward(&side.tensor(&[TOKENS, 256])?, &before, &side.tails()?)
    }),
    ("gated delta rule", |side| {
        let rule = GatedDelta::new(DELTA, &side.values(4), side.values(4), side.kernels);
        let state = side.f32(&[4, 64, 64])?;
        let mixed = side.tensor(&[TOKENS, 512])?;
        rule.forward(&mixed, &side.tensor(&[TOKENS, 8])?, Some(&state), &side.tails()?)
    }),
    ("attention behind a shared beginning", |side| {
        let attention = PrefixAttention::new(4, 2, 64, side.kernels);
        let (q, kv) = (side.tensor(&[TOKENS, 256])?, side.tensor(&[TOKENS, 256])?);
        let prefix = side.tensor(&[33, 256])?;
        attention.forward(&q, &kv, &prefix, &side.tails()?, Asking::Every)
    }),
    ("attention of last tokens", |side| {
        let attention = PrefixAttention::new(4, 2, 64, side.kernels);
        let (q, kv) = (side.tensor(&[BOUNDS.len() - 1, 256])?, side.tensor(&[TOKENS, 256])?);
        let prefix = side.tensor(&[33, 256])?;
        attention.forward(&q, &kv, &prefix, &side.tails()?, Asking::Last)
    }),
];

/// Formats, whether products are rounded to TF32, and how far results may be off: a few roundings of the format beside
/// the largest value.
const FORMATS: [(&str, DType, bool, f64); 4] = [
    ("f32", DType::F32, false, 2e-5),
    ("tf32", DType::F32, true, 4e-3),
    ("f16", DType::F16, false, 1e-2),
    ("bf16", DType::BF16, false, 5e-2),
];

/// Runs every step on `device` in candle's own operations and on the CPU in the fused form: in f32, TF32, f16 and bf16,
/// or only in f32 where the device is the CPU, which computes in nothing else here. Leaves TF32 off.
pub fn self_test(device: &Device) -> Vec<Check> {
    let formats = if device.is_cpu() { &FORMATS[..1] } else { &FORMATS[..] };
    let mut checks = Vec::new();
    for &(format, dtype, tf32, tolerance) in formats {
        candle_core::cuda::set_gemm_reduced_precision_f32(tf32);
        for &(name, case) in CASES {
            let outcome = compare(device, dtype, case).map_err(|error| error.to_string());
            checks.push(Check { name: format!("{name}, {format}"), outcome, tolerance });
        }
    }
    candle_core::cuda::set_gemm_reduced_precision_f32(false);
    checks
}

fn compare(device: &Device, dtype: DType, case: fn(&mut Side) -> Result<Tensor>) -> Result<f64> {
    let expected = case(&mut Side::new(&Device::Cpu, DType::F32, dtype, Kernels::Fused))?;
    let found = case(&mut Side::new(device, dtype, dtype, Kernels::Stock))?;
    let values = |tensor: Tensor| tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>();
    let (expected, found) = (values(expected)?, values(found)?);
    if expected.len() != found.len() {
        candle_core::bail!("{} values instead of {}", found.len(), expected.len())
    }
    let largest = expected.iter().fold(0f32, |most, value| most.max(value.abs()));
    let worst = expected.iter().zip(&found).map(|(e, f)| f64::from((e - f).abs()));
    // A NaN is no agreement: `max` alone would pass over it.
    let worst = worst.fold(0f64, |most, off| if off.is_nan() { f64::INFINITY } else { most.max(off) });
    Ok(worst / f64::from(largest.max(f32::MIN_POSITIVE)))
}
