//! Random draws that are the same on every platform.
//!
//! Everything comes from the 64-bit words of xoshiro256++ by integer arithmetic and by float operations that
//! IEEE 754 rounds in one way only: no logarithm, no trigonometry, whose last bits differ between libraries.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// A stream of draws.
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// Stream `stream` of item `index` under `seed`; different streams share nothing.
    pub fn new(seed: u64, index: u64, stream: u64) -> Self {
        // Each step is a bijection of what it adds, so that no two of a run's streams coincide.
        let mut state = seed;
        for part in [index, stream] {
            state = Xoshiro256PlusPlus::seed_from_u64(state).next_u64().wrapping_add(part);
        }
        Self(Xoshiro256PlusPlus::seed_from_u64(state))
    }

    /// A whole number below `bound`, uniform up to 2^-32 times the bound; 0 for a bound of 0.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.0.next_u64()) * bound as u128) >> 64) as usize
    }

    /// A whole number from `least` to `most`.
    pub fn between(&mut self, least: usize, most: usize) -> usize {
        least + self.below(most - least + 1)
    }

    /// True in `percent` of 100 draws.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `phrases`, which must not be empty.
    pub fn pick(&mut self, phrases: &[&'static str]) -> &'static str {
        phrases[self.below(phrases.len())]
    }

    /// A number in [0, 1), a multiple of 2^-24.
    pub fn unit(&mut self) -> f32 {
        (self.0.next_u64() >> 40) as f32 / (1 << 24) as f32
    }

    /// Puts the numbers 0 to `count` - 1 in random order.
    pub fn permutation(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            order.swap(last, self.below(last + 1));
        }
        order
    }

    /// Adds noise of standard deviation `deviation` to every element.
    ///
    /// A draw is the sum of four uniform 16-bit numbers about its mean: exact in f32, and close enough to a
    /// normal distribution for directions in space.
    pub fn add_noise(&mut self, deviation: f32, vector: &mut [f32]) {
        // The variance of one uniform number on 0..=65535 is (65536² - 1) / 12; of the sum, four times that.
        const DEVIATION: f32 = 37_837.23;
        let scale = deviation / DEVIATION;
        for element in vector {
            let word = self.0.next_u64();
            let sum = (word & 0xffff) + (word >> 16 & 0xffff) + (word >> 32 & 0xffff) + (word >> 48);
            *element += (sum as i32 - 2 * 65_535) as f32 * scale;
        }
    }
}
