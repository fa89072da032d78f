//! Float64 arithmetic on single rows: what decides. Every row takes the same summation path, so equal rows
//! have equal bits.

use half::slice::HalfFloatSliceExt;
use pulp::{Arch, Simd, WithSimd};

use super::Elements;

/// Writes the elements, exactly, as float64. `narrow` is room for one row in float32.
pub(super) fn widen(elements: Elements<'_>, narrow: &mut [f32], out: &mut [f64]) {
    let narrow: &[f32] = match elements {
        Elements::F32(elements) => elements,
        Elements::F16(elements) => {
            elements.convert_to_f32_slice(&mut narrow[..elements.len()]);
            &narrow[..elements.len()]
        }
        Elements::Bf16(elements) => {
            elements.convert_to_f32_slice(&mut narrow[..elements.len()]);
            &narrow[..elements.len()]
        }
    };
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (out, &element) in out.iter_mut().zip(narrow) {
                *out = f64::from(element);
            }
        },
    );
}

/// a·b of two vectors of one length.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    debug_assert_eq!(a.len(), b.len());
    Arch::new().dispatch(Dot { a, b })
}

struct Dot<'a> {
    a: &'a [f64],
    b: &'a [f64],
}

impl WithSimd for Dot<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        let (a, a_rest) = S::as_simd_f64s(self.a);
        let (b, b_rest) = S::as_simd_f64s(self.b);
        let (a_blocks, a_tail) = a.as_chunks::<8>();
        let (b_blocks, b_tail) = b.as_chunks::<8>();
        let mut sums = [simd.splat_f64s(0.0); 8];
        for (a, b) in a_blocks.iter().zip(b_blocks) {
            for k in 0..8 {
                sums[k] = simd.mul_add_f64s(a[k], b[k], sums[k]);
            }
        }
        for (&a, &b) in a_tail.iter().zip(b_tail) {
            sums[0] = simd.mul_add_f64s(a, b, sums[0]);
        }
        sums[1] = simd.mul_add_f64s(simd.partial_load_f64s(a_rest), simd.partial_load_f64s(b_rest), sums[1]);
        let add = |a, b| simd.add_f64s(a, b);
        let low = add(add(sums[0], sums[1]), add(sums[2], sums[3]));
        let high = add(add(sums[4], sums[5]), add(sums[6], sums[7]));
        simd.reduce_sum_f64s(add(low, high))
    }
}

/// out ← from * factor.
pub(super) fn scale(from: &[f64], factor: f64, out: &mut [f64]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (out, &value) in out.iter_mut().zip(from) {
                *out = value * factor;
            }
        },
    );
}

/// out ← out - factor * from.
pub(super) fn subtract(out: &mut [f64], factor: f64, from: &[f64]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (out, &value) in out.iter_mut().zip(from) {
                *out -= factor * value;
            }
        },
    );
}
