//! Float64 arithmetic on single rows: what decides. Every row takes the same summation path, so equal rows
//! have equal bits.

use pulp::{Arch, Simd, WithSimd};

use super::{Elements, widen};

/// Writes the elements, exactly, as float32.
pub(super) fn copy(elements: Elements<'_>, out: &mut [f32]) {
    match elements {
        Elements::F32(elements) => out.copy_from_slice(elements),
        Elements::F16(elements) => widen::from_f16(elements, out),
        Elements::Bf16(elements) => widen::from_bf16(elements, out),
    }
}

/// Writes the elements, exactly, as float64; returns their sum of squares. `narrow` is room for one row in
/// float32.
pub(super) fn square(elements: Elements<'_>, narrow: &mut [f32], out: &mut [f64]) -> f64 {
    let narrow: &[f32] = match elements {
        Elements::F32(elements) => elements,
        _ => {
            copy(elements, narrow);
            narrow
        }
    };
    Arch::new().dispatch(Square { narrow, out })
}

struct Square<'a> {
    narrow: &'a [f32],
    out: &'a mut [f64],
}

impl WithSimd for Square<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        let mut sums = [0.0; 16];
        let (blocks, rest) = self.narrow.as_chunks::<16>();
        let (out_blocks, out_rest) = self.out.as_chunks_mut::<16>();
        for (out, block) in out_blocks.iter_mut().zip(blocks) {
            for k in 0..16 {
                out[k] = f64::from(block[k]);
                sums[k] += out[k] * out[k];
            }
        }
        for (out, &element) in out_rest.iter_mut().zip(rest) {
            *out = f64::from(element);
            sums[0] += *out * *out;
        }
        let mut square = 0.0;
        for sum in sums {
            square += sum;
        }
        square
    }
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

/// out ← out - factor * from.
pub(super) fn subtract(out: &mut [f64], factor: f64, from: &[f64]) {
    Arch::new().dispatch(Subtract { out, factor, from })
}

struct Subtract<'a> {
    out: &'a mut [f64],
    factor: f64,
    from: &'a [f64],
}

impl WithSimd for Subtract<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (out, &value) in self.out.iter_mut().zip(self.from) {
            *out -= self.factor * value;
        }
    }
}

/// out ← from * factor, rounded to float32.
pub(super) fn narrow(from: &[f64], factor: f64, out: &mut [f32]) {
    Arch::new().dispatch(Narrow { from, factor, out })
}

struct Narrow<'a> {
    from: &'a [f64],
    factor: f64,
    out: &'a mut [f32],
}

impl WithSimd for Narrow<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (out, &value) in self.out.iter_mut().zip(self.from) {
            *out = (value * self.factor) as f32;
        }
    }
}

/// sums ← Σ coefficient * column over the columns of `[columns, stride]`, as far as `sums` goes.
pub(super) fn combine(coefficients: &[f32], columns: &[f32], stride: usize, sums: &mut [f32]) {
    Arch::new().dispatch(Combine { coefficients, columns, stride, sums })
}

struct Combine<'a> {
    coefficients: &'a [f32],
    columns: &'a [f32],
    stride: usize,
    sums: &'a mut [f32],
}

impl WithSimd for Combine<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.sums.fill(0.0);
        let (sums, sums_rest) = S::as_mut_simd_f32s(self.sums);
        for (slot, &coefficient) in self.coefficients.iter().enumerate() {
            if coefficient == 0.0 {
                continue;
            }
            let column = &self.columns[slot * self.stride..][..self.stride];
            let (column, column_rest) = column.split_at(sums.len() * S::F32_LANES);
            let wide = simd.splat_f32s(coefficient);
            for (sum, &dot) in sums.iter_mut().zip(S::as_simd_f32s(column).0) {
                *sum = simd.mul_add_f32s(wide, dot, *sum);
            }
            for (sum, &dot) in sums_rest.iter_mut().zip(column_rest) {
                *sum = coefficient.mul_add(dot, *sum);
            }
        }
    }
}
