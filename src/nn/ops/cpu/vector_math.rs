//! Functions of whole vectors, accurate to about the rounding of f32.

use pulp::Simd;

/// `c[0] + c[1] x + c[2] x^2 + …`
#[inline(always)]
fn polynomial<S: Simd>(simd: S, x: S::f32s, c: &[f32]) -> S::f32s {
    let mut y = simd.splat_f32s(0.0);
    for &c in c.iter().rev() {
        y = simd.mul_add_e_f32s(y, x, simd.splat_f32s(c));
    }
    y
}

/// Beyond this, erf(x / sqrt 2) rounds to 1.
const ERF_LIMIT: f32 = 5.4;
/// erf(x / sqrt 2) = x P(x^2) / Q(x^2) for |x| up to [`ERF_LIMIT`]: coefficients of P, then of Q, from a least-squares
/// fit reweighted towards the smallest greatest error, which is 1.1e-8 before rounding to f32.
const ERF_P: [f32; 6] =
    [0.797_884_46, 0.066_744_56, 0.009_301_709, 0.000_328_644_53, 1.272_005_5e-5, 4.677_344_4e-8];
const ERF_Q: [f32; 6] = [1.0, 0.250_318, 0.028_378_718, 0.001_858_984_7, 7.240_038e-5, 1.216_591_2e-6];

/// The exact GELU, x/2 (1 + erf(x / sqrt 2)), within 2.5e-7 (1 + |x|).
#[inline(always)]
pub(super) fn gelu<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let limit = simd.splat_f32s(ERF_LIMIT);
    // x comes second: x86 returns that where one is NaN, and a NaN must not be hidden.
    let clamped = simd.max_f32s(simd.neg_f32s(limit), simd.min_f32s(limit, x));
    let square = simd.mul_f32s(clamped, clamped);
    let p = simd.mul_f32s(clamped, polynomial(simd, square, &ERF_P));
    let erf = simd.div_f32s(p, polynomial(simd, square, &ERF_Q));
    let half = simd.mul_f32s(x, simd.splat_f32s(0.5));
    simd.mul_add_e_f32s(half, erf, half)
}

/// 1 / n! for n up to 6: on half a binary step the next term is below 1.3e-7.
const EXP: [f32; 7] = [1.0, 1.0, 0.5, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0];

/// exp(x) for x ≤ 0, relative error within 3e-7; below -87 as at -87 (1.6e-38).
///
/// x = n ln 2 + r; exp(x) = 2^n exp(r), with 2^n added into the exponent field of the result.
#[inline(always)]
pub(super) fn exp_of_negative<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    // 1.5 * 2^23: adding it leaves the nearest whole number in the lowest bits.
    const WHOLE: f32 = 12_582_912.0;
    // ln 2 in two parts, the first with few enough bits for n times it to be exact.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let x = simd.max_f32s(simd.splat_f32s(-87.0), x); // x second keeps a NaN, as in `gelu`
    let shifted = simd.mul_add_e_f32s(x, simd.splat_f32s(std::f32::consts::LOG2_E), simd.splat_f32s(WHOLE));
    let n = simd.sub_f32s(shifted, simd.splat_f32s(WHOLE));
    let r = simd.mul_add_e_f32s(n, simd.splat_f32s(-LN_2_HIGH), x);
    let r = simd.mul_add_e_f32s(n, simd.splat_f32s(-LN_2_LOW), r);
    let mantissa = simd.transmute_u32s_f32s(polynomial(simd, r, &EXP));
    let exponent = simd.wrapping_dyn_shl_u32s(simd.transmute_u32s_f32s(shifted), simd.splat_u32s(23));
    simd.transmute_f32s_u32s(simd.add_u32s(mantissa, exponent))
}

#[cfg(test)]
mod tests {
    use pulp::{Arch, WithSimd};

    use super::*;

    struct Map<'a> {
        values: &'a mut [f32],
        exp: bool,
    }

    impl WithSimd for Map<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            for value in S::as_mut_simd_f32s(self.values).0 {
                *value = if self.exp { exp_of_negative(simd, *value) } else { gelu(simd, *value) };
            }
        }
    }

    fn map(inputs: &[f32], exp: bool) -> Vec<f32> {
        let mut values = inputs.to_vec();
        values.resize(inputs.len().next_multiple_of(64), 0.0);
        Arch::new().dispatch(Map { values: &mut values, exp });
        values.truncate(inputs.len());
        values
    }

    /// erf by its Maclaurin series in f64; for |x| ≤ 6.
    fn erf(x: f64) -> f64 {
        let (mut term, mut sum) = (x, x);
        for n in 1..200 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        2.0 / std::f64::consts::PI.sqrt() * sum
    }

    #[test]
    fn gelu_is_the_exact_one() {
        let inputs: Vec<f32> = (-60_000..=60_000).map(|i| i as f32 * 1e-4).collect();
        for (x, y) in inputs.iter().zip(map(&inputs, false)) {
            let exact = f64::from(*x) / 2.0 * (1.0 + erf(f64::from(*x) / std::f64::consts::SQRT_2));
            let bound = 2.5e-7 * (1.0 + f64::from(x.abs()));
            assert!((f64::from(y) - exact).abs() < bound, "gelu({x}) = {y}, not {exact}");
        }
        assert_eq!(map(&[1e30, -1e30, 0.0, 40.0, -40.0], false)[2..4], [0.0, 40.0]);
        assert!(map(&[f32::NAN], false)[0].is_nan(), "a NaN must not be hidden");
    }

    #[test]
    fn exp_is_accurate_relative_to_its_size() {
        let inputs: Vec<f32> = (0..870_000).map(|i| i as f32 * -1e-4).collect();
        for (x, y) in inputs.iter().zip(map(&inputs, true)) {
            let exact = f64::from(*x).exp();
            assert!((f64::from(y) / exact - 1.0).abs() < 3e-7, "exp({x}) = {y}, not {exact}");
        }
        assert_eq!(map(&[0.0], true), [1.0]);
        assert!(map(&[-1e30], true)[0] < 2e-38);
        assert!(map(&[f32::NAN], true)[0].is_nan(), "a NaN must not be hidden");
    }
}
