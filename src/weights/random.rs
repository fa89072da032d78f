//! Seeded N(0, 0.02) tensors: the exact architecture without a download.
//!
//! Latency of a dense network does not depend on its weights' values, so these are right for timing and wrong
//! for scores. Every tensor is cut into stretches, and every stretch has a generator of its own, seeded by
//! (seed, tensor name, stretch): the values depend neither on the number of threads nor on the order in which
//! tensors are asked for.

use rand::SeedableRng;
use rand::distr::Distribution;
use rand_distr::StandardNormal;
use rand_xoshiro::Xoshiro256PlusPlus;
use rayon::prelude::*;

/// Standard deviation of every random parameter.
const STANDARD_DEVIATION: f32 = 0.02;
/// Values drawn from one generator.
const STRETCH: usize = 1 << 16;

/// A source of random tensors.
pub(super) struct RandomTensors {
    seed: u64,
}

impl RandomTensors {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// `count` values for tensor `name`: N(0, 0.02), around 1 for a norm's plain multipliers, without
    /// which activations would vanish within a few layers.
    pub(super) fn values(&self, name: &str, count: usize) -> Vec<f32> {
        let multiplies =
            ["LayerNorm.weight", "linear_attn.norm.weight"].iter().any(|end| name.ends_with(end));
        let centre = if multiplies { 1.0 } else { 0.0 };
        let stream = self.seed ^ fnv1a(name.as_bytes());
        let mut values = vec![0f32; count];
        values.par_chunks_mut(STRETCH).enumerate().for_each(|(stretch, values)| {
            // An odd multiplier spreads neighbouring stretches before `seed_from_u64` mixes them (SplitMix64).
            let seed = stream.wrapping_add((stretch as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let mut generator = Xoshiro256PlusPlus::seed_from_u64(seed);
            for value in values {
                let normal: f32 = StandardNormal.sample(&mut generator);
                *value = centre + STANDARD_DEVIATION * normal;
            }
        });
        values
    }
}

/// The 64-bit FNV-1a hash, fixed for all time (a `Hasher` of the standard library is not).
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xCBF2_9CE4_8422_2325, |hash, &b| (hash ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01B3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_depend_on_name_and_seed_alone() {
        let first = RandomTensors::new(7).values("a.weight", 3 * STRETCH + 5);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert_eq!(first, pool.install(|| RandomTensors::new(7).values("a.weight", 3 * STRETCH + 5)));
        assert_ne!(first[..8], RandomTensors::new(7).values("b.weight", 8)[..]);
        assert_ne!(first[..8], RandomTensors::new(8).values("a.weight", 8)[..]);
        assert_ne!(first[..8], first[STRETCH..STRETCH + 8]);
    }

    #[test]
    fn moments_are_those_of_n_0_002() {
        let values = RandomTensors::new(1).values("w", 1 << 20);
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / values.len() as f64;
        assert!(mean.abs() < 1e-4, "mean {mean}");
        assert!((variance.sqrt() - 0.02).abs() < 1e-4, "deviation {}", variance.sqrt());
        let scales = RandomTensors::new(1).values("x.LayerNorm.weight", 1000);
        assert!(scales.iter().all(|&v| (v - 1.0).abs() < 0.2));
    }
}
