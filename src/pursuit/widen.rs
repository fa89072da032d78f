//! Half-precision elements made float32, exactly, a row at a time.

use half::{bf16, f16};

/// out ← elements, of one length.
pub(super) fn from_f16(elements: &[f16], out: &mut [f32]) {
    assert_eq!(elements.len(), out.len());
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("f16c") && std::is_x86_feature_detected!("avx") {
        // SAFETY: the processor has the instructions, as just detected.
        return unsafe { from_f16_f16c(elements, out) };
    }
    half::slice::HalfFloatSliceExt::convert_to_f32_slice(elements, out);
}

/// Eight elements an instruction. (The conversion that `half` offers asks the processor again for every eight,
/// and takes three times as long.)
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx,f16c")]
fn from_f16_f16c(elements: &[f16], out: &mut [f32]) {
    use std::arch::x86_64::{_mm_loadu_si128, _mm256_cvtph_ps, _mm256_storeu_ps};

    let (blocks, rest) = elements.as_chunks::<8>();
    let (out_blocks, out_rest) = out.as_chunks_mut::<8>();
    for (block, out) in blocks.iter().zip(out_blocks) {
        // SAFETY: `block` is eight f16, sixteen bytes, and `out` eight f32; both accesses are unaligned ones.
        unsafe {
            _mm256_storeu_ps(out.as_mut_ptr(), _mm256_cvtph_ps(_mm_loadu_si128(block.as_ptr().cast())))
        };
    }
    for (element, out) in rest.iter().zip(out_rest) {
        *out = element.to_f32();
    }
}

/// out ← elements, of one length. Meant to be inlined where vector instructions are on.
#[inline(always)]
pub(super) fn from_bf16(elements: &[bf16], out: &mut [f32]) {
    for (out, element) in out.iter_mut().zip(elements) {
        *out = f32::from_bits(u32::from(element.to_bits()) << 16);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_of_every_length_is_widened_exactly() {
        let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        let same = |elements: &[f16]| {
            let mut out = vec![7.0; elements.len()];
            from_f16(elements, &mut out);
            for (element, out) in elements.iter().zip(out) {
                let expected = element.to_f32();
                assert!(expected.to_bits() == out.to_bits() || expected.is_nan() && out.is_nan());
            }
        };
        same(&all);
        for length in 0..=80 {
            for start in 0..8 {
                same(&all[0x3bf0 + start..][..length]);
            }
        }
    }

    #[test]
    fn every_bf16_is_widened_exactly() {
        let all: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
        let mut out = vec![0.0; all.len()];
        from_bf16(&all, &mut out);
        for (element, out) in all.iter().zip(out) {
            assert!(element.to_f32() == out || element.is_nan() && out.is_nan());
        }
    }
}
