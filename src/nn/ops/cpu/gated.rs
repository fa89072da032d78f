//! The elementwise bodies of Qwen3.5's steps, a row at a time.

use pulp::{Arch, Simd, WithSimd};

use super::vector_math::exp_of_negative;

/// 1 / (1 + exp(-x)), with the exponential of a number that is never positive.
#[inline(always)]
fn sigmoid<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let (zero, one) = (simd.splat_f32s(0.0), simd.splat_f32s(1.0));
    let small = exp_of_negative(simd, simd.neg_f32s(simd.abs_f32s(x)));
    let negative = simd.less_than_f32s(x, zero);
    let above = simd.select_f32s(negative, small, one);
    simd.div_f32s(above, simd.add_f32s(one, small))
}

/// x sigmoid(x).
#[inline(always)]
fn silu<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    simd.mul_f32s(x, sigmoid(simd, x))
}

/// Writes `$y`, a vector at a time, by `$body` from the vectors of the same place in the inputs, each at least as
/// long. A macro, because a closure would not inherit its function's instruction set.
macro_rules! map {
    ($simd:ident, $y:expr, $($v:ident = $input:expr),+ => $body:expr) => {{
        let length = $y.len();
        let (vectors, tail) = S::as_mut_simd_f32s($y);
        for i in 0..vectors.len() {
            $(let $v = S::as_simd_f32s(&$input[..length]).0[i];)+
            vectors[i] = $body;
        }
        if !tail.is_empty() {
            let whole = length - tail.len();
            $(let $v = $simd.partial_load_f32s(&$input[whole..length]);)+
            $simd.partial_store_f32s(tail, $body);
        }
    }};
}

/// The sum of squares of a row.
#[inline(always)]
fn sum_of_squares<S: Simd>(simd: S, x: &[f32]) -> f32 {
    let (vectors, tail) = S::as_simd_f32s(x);
    let tail = simd.partial_load_f32s(tail);
    let mut sum = simd.mul_f32s(tail, tail);
    for v in vectors {
        sum = simd.mul_add_e_f32s(*v, *v, sum);
    }
    simd.reduce_sum_f32s(sum)
}

/// Defines a function that runs `$body` with the widest vectors of this machine.
macro_rules! dispatched {
    ($(#[$doc:meta])* fn $name:ident($simd:ident $(, $argument:ident: $kind:ty)*) $body:block) => {
        $(#[$doc])*
        pub(in crate::nn::ops) fn $name<'a>($($argument: $kind),*) {
            struct Body<'a> { $($argument: $kind),* }
            impl WithSimd for Body<'_> {
                type Output = ();
                #[inline(always)]
                fn with_simd<S: Simd>(self, $simd: S) {
                    let Self { $($argument),* } = self;
                    $body
                }
            }
            Arch::new().dispatch(Body { $($argument),* });
        }
    };
}

dispatched! {
    /// y = x / sqrt(mean(x^2) + epsilon) * scale.
    fn norm_row(simd, y: &'a mut [f32], x: &'a [f32], scale: &'a [f32], epsilon: f32) {
        let inverse = simd.splat_f32s(inverse_rms(simd, x, epsilon));
        map!(simd, y, a = x, b = scale => simd.mul_f32s(simd.mul_f32s(a, inverse), b));
    }
}

dispatched! {
    /// y = x / sqrt(mean(x^2) + epsilon) * scale * silu(gate).
    fn gated_norm_row(
        simd, y: &'a mut [f32], x: &'a [f32], gate: &'a [f32], scale: &'a [f32], epsilon: f32
    ) {
        let inverse = simd.splat_f32s(inverse_rms(simd, x, epsilon));
        map!(simd, y, a = x, b = scale, c = gate => {
            simd.mul_f32s(simd.mul_f32s(simd.mul_f32s(a, inverse), b), silu(simd, c))
        });
    }
}

#[inline(always)]
fn inverse_rms<S: Simd>(simd: S, x: &[f32], epsilon: f32) -> f32 {
    1.0 / (sum_of_squares(simd, x) / x.len() as f32 + epsilon).sqrt()
}

dispatched! {
    /// y = x / sqrt(sum(x^2) + 1e-6) * factor: a delta-rule head of unit length.
    fn unit_row(simd, y: &'a mut [f32], x: &'a [f32], factor: f32) {
        const EPSILON: f32 = 1e-6;
        let inverse = simd.splat_f32s(factor / (sum_of_squares(simd, x) + EPSILON).sqrt());
        map!(simd, y, a = x => simd.mul_f32s(a, inverse));
    }
}

dispatched! {
    /// y = silu(gate) * up.
    fn swiglu_row(simd, y: &'a mut [f32], gate: &'a [f32], up: &'a [f32]) {
        map!(simd, y, a = gate, b = up => simd.mul_f32s(silu(simd, a), b));
    }
}

dispatched! {
    /// y = x * sigmoid(gate).
    fn sigmoid_gate_row(simd, y: &'a mut [f32], x: &'a [f32], gate: &'a [f32]) {
        map!(simd, y, a = x, b = gate => simd.mul_f32s(a, sigmoid(simd, b)));
    }
}

/// y = silu(sum of taps[j] * seen(j)).
pub(in crate::nn::ops) fn convolve_row<'a>(
    y: &mut [f32],
    taps: &[&[f32]],
    seen: impl Fn(usize) -> &'a [f32],
) {
    y.fill(0.0);
    for (j, tap) in taps.iter().enumerate() {
        accumulate(y, seen(j), tap);
    }
    silu_row(y);
}

dispatched! {
    /// y = silu(y).
    fn silu_row(simd, y: &'a mut [f32]) {
        let (vectors, tail) = S::as_mut_simd_f32s(y);
        for v in vectors {
            *v = silu(simd, *v);
        }
        let last = silu(simd, simd.partial_load_f32s(tail));
        simd.partial_store_f32s(tail, last);
    }
}

dispatched! {
    /// y += a * b.
    fn accumulate(simd, y: &'a mut [f32], a: &'a [f32], b: &'a [f32]) {
        let ((y, y_tail), (a, a_tail), (b, b_tail)) =
            (S::as_mut_simd_f32s(y), S::as_simd_f32s(a), S::as_simd_f32s(b));
        for ((y, a), b) in y.iter_mut().zip(a).zip(b) {
            *y = simd.mul_add_e_f32s(*a, *b, *y);
        }
        for ((y, a), b) in y_tail.iter_mut().zip(a_tail).zip(b_tail) {
            *y += a * b;
        }
    }
}

dispatched! {
    /// Rotates the halves of the first `2 * cos.len()` values against each other, in place:
    /// (a, b) becomes (a cos - b sin, b cos + a sin).
    fn rotate_row(simd, x: &'a mut [f32], cos: &'a [f32], sin: &'a [f32]) {
        let (first, second) = x[..2 * cos.len()].split_at_mut(cos.len());
        let whole = cos.len() / S::F32_LANES * S::F32_LANES;
        let vectors = S::as_mut_simd_f32s(first).0.iter_mut().zip(S::as_mut_simd_f32s(second).0);
        let angles = S::as_simd_f32s(cos).0.iter().zip(S::as_simd_f32s(sin).0);
        for ((a, b), (cos, sin)) in vectors.zip(angles) {
            let (minus, plus) = (simd.mul_f32s(*b, *sin), simd.mul_f32s(*b, *cos));
            *b = simd.mul_add_e_f32s(*a, *sin, plus);
            *a = simd.sub_f32s(simd.mul_f32s(*a, *cos), minus);
        }
        for i in whole..cos.len() {
            let (a, b) = (first[i], second[i]);
            first[i] = a * cos[i] - b * sin[i];
            second[i] = b * cos[i] + a * sin[i];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(length: usize, seed: usize) -> Vec<f32> {
        (0..length).map(|i| ((i * 37 + seed * 11) % 41) as f32 * 0.2 - 4.0).collect()
    }

    fn sigmoid64(x: f32) -> f64 {
        1.0 / (1.0 + (-f64::from(x)).exp())
    }

    #[track_caller]
    fn assert_near(found: &[f32], expected: impl Iterator<Item = f64>) {
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (f64::from(*found) - expected).abs() < 2e-6 * (1.0 + expected.abs()),
                "{found} {expected}"
            );
        }
    }

    /// Every length around the vectors' sizes, so that whole vectors and tails are both met.
    #[test]
    fn gates_are_those_of_f64_at_every_length() {
        for length in 1..70 {
            let (x, gate) = (row(length, 1), row(length, 2));
            let mut y = vec![0.0; length];
            sigmoid_gate_row(&mut y, &x, &gate);
            assert_near(&y, x.iter().zip(&gate).map(|(x, g)| f64::from(*x) * sigmoid64(*g)));
            swiglu_row(&mut y, &gate, &x);
            let silu = |g: f32| f64::from(g) * sigmoid64(g);
            assert_near(&y, x.iter().zip(&gate).map(|(x, g)| f64::from(*x) * silu(*g)));
        }
        let mut y = [0.0; 4];
        swiglu_row(&mut y, &[1e4, -1e4, 0.0, f32::NAN], &[1.0; 4]);
        assert!(y[0] == 1e4 && y[1].abs() < 1e-30 && y[2] == 0.0, "{y:?}");
        assert!(y[3].is_nan(), "a NaN must not be hidden");
    }

    #[test]
    fn norms_are_those_of_f64_at_every_length() {
        for length in 1..70 {
            let (x, scale, gate) = (row(length, 3), row(length, 4), row(length, 5));
            let squares: f64 = x.iter().map(|v| f64::from(*v).powi(2)).sum();
            let inverse = 1.0 / (squares / length as f64 + 1e-6).sqrt();
            let normed = || x.iter().zip(&scale).map(|(x, s)| f64::from(*x) * inverse * f64::from(*s));
            let mut y = vec![0.0; length];
            norm_row(&mut y, &x, &scale, 1e-6);
            assert_near(&y, normed());
            gated_norm_row(&mut y, &x, &gate, &scale, 1e-6);
            assert_near(&y, normed().zip(&gate).map(|(n, g)| n * f64::from(*g) * sigmoid64(*g)));
            unit_row(&mut y, &x, 0.5);
            assert_near(&y, x.iter().map(|v| f64::from(*v) * 0.5 / (squares + 1e-6).sqrt()));
        }
    }

    #[test]
    fn a_rotation_turns_pairs_of_halves_and_leaves_the_rest() {
        for half in 1..40 {
            let angles: Vec<f32> = (0..half).map(|i| i as f32 * 0.3).collect();
            let (cos, sin): (Vec<f32>, Vec<f32>) = angles.iter().map(|a| (a.cos(), a.sin())).unzip();
            let x = row(2 * half + 3, 6);
            let mut y = x.clone();
            rotate_row(&mut y, &cos, &sin);
            let turned = (0..2 * half + 3).map(|i| {
                let at = |i: usize| f64::from(x[i]);
                match i {
                    i if i < half => at(i) * f64::from(cos[i]) - at(i + half) * f64::from(sin[i]),
                    i if i < 2 * half => {
                        at(i) * f64::from(cos[i - half]) + at(i - half) * f64::from(sin[i - half])
                    }
                    _ => at(i),
                }
            });
            assert_near(&y, turned);
        }
    }
}
