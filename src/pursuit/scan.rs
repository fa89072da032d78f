//! The cheap look at many rows: float32 dot products with one vector, and how wrong they can be.
//!
//! A dot product of length d summed in chains of at most m fused multiply-adds and additions differs from the
//! true one by at most γ_m ‖x‖‖v‖, γ_m = m·u / (1 - m·u), u = 2⁻²⁴ (Higham, *Accuracy and Stability*, 3.1, with
//! Cauchy-Schwarz), as long as nothing overflows or falls into the subnormal range.

use half::slice::HalfFloatSliceExt;
use pulp::{Arch, Simd, WithSimd};

use super::{Elements, Rows};

/// Rows looked at together: they share the loads of the vector.
const ROWS: usize = 4;
/// Accumulators a row.
const CHAINS: usize = 2;

/// For every row x of the pool: `dots[i]` ← x·v, and `squares[i]` ← x·x where asked for. Returns γ: the
/// relative error of either.
pub(super) fn scan(
    rows: &Rows<'_>,
    vector: &[f32],
    dots: &mut [f32],
    squares: Option<&mut [f32]>,
    tile: &mut Vec<f32>,
) -> f64 {
    if !matches!(rows.elements(), Elements::F32(_)) {
        tile.resize(ROWS * rows.dimension(), 0.0);
    }
    Arch::new().dispatch(Scan { rows, vector, dots, squares, tile })
}

struct Scan<'a> {
    rows: &'a Rows<'a>,
    vector: &'a [f32],
    dots: &'a mut [f32],
    squares: Option<&'a mut [f32]>,
    tile: &'a mut [f32],
}

impl WithSimd for Scan<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        let Scan { rows, vector, dots, mut squares, tile } = self;
        let dimension = rows.dimension();
        for first in (0..rows.len()).step_by(ROWS) {
            let count = ROWS.min(rows.len() - first);
            // A short last group reads its last row again.
            let starts: [usize; ROWS] = std::array::from_fn(|k| rows.start(first + k.min(count - 1)));
            let group: [&[f32]; ROWS] = match rows.elements() {
                Elements::F32(elements) => starts.map(|start| &elements[start..start + dimension]),
                Elements::F16(elements) => {
                    for (start, out) in starts.iter().zip(tile.chunks_exact_mut(dimension)) {
                        elements[*start..start + dimension].convert_to_f32_slice(out);
                    }
                    std::array::from_fn(|k| &tile[k * dimension..(k + 1) * dimension])
                }
                Elements::Bf16(elements) => {
                    for (start, out) in starts.iter().zip(tile.chunks_exact_mut(dimension)) {
                        for (out, element) in out.iter_mut().zip(&elements[*start..start + dimension]) {
                            *out = f32::from_bits(u32::from(element.to_bits()) << 16);
                        }
                    }
                    std::array::from_fn(|k| &tile[k * dimension..(k + 1) * dimension])
                }
            };
            let found = group_dots(simd, group, vector);
            dots[first..first + count].copy_from_slice(&found[..count]);
            if let Some(squares) = squares.as_deref_mut() {
                for (k, row) in group[..count].iter().enumerate() {
                    squares[first + k] = group_dots(simd, [row], row)[0];
                }
            }
        }
        gamma(chain::<S>(dimension))
    }
}

/// The dot products of R rows with one vector.
#[inline(always)]
fn group_dots<S: Simd, const R: usize>(simd: S, rows: [&[f32]; R], vector: &[f32]) -> [f32; R] {
    let (vector, vector_rest) = S::as_simd_f32s(vector);
    let split = rows.map(|row| S::as_simd_f32s(row));
    let count = vector.len();
    let heads = split.map(|(head, _)| &head[..count]);
    let mut sums = [[simd.splat_f32s(0.0); CHAINS]; R];
    let whole = count / CHAINS * CHAINS;
    for at in (0..whole).step_by(CHAINS) {
        for chain in 0..CHAINS {
            for r in 0..R {
                sums[r][chain] = simd.mul_add_f32s(heads[r][at + chain], vector[at + chain], sums[r][chain]);
            }
        }
    }
    let vector_rest = simd.partial_load_f32s(vector_rest);
    std::array::from_fn(|r| {
        for at in whole..count {
            sums[r][0] = simd.mul_add_f32s(heads[r][at], vector[at], sums[r][0]);
        }
        let rest = simd.partial_load_f32s(split[r].1);
        sums[r][1] = simd.mul_add_f32s(rest, vector_rest, sums[r][1]);
        simd.reduce_sum_f32s(simd.add_f32s(sums[r][0], sums[r][1]))
    })
}

/// The longest chain of roundings in [`group_dots`]: the steps of one accumulator, the odd step and the rest,
/// the sum of the accumulators, and the sum over lanes (at most one addition a lane).
fn chain<S: Simd>(dimension: usize) -> usize {
    dimension / (S::F32_LANES * CHAINS) + 2 + 1 + S::F32_LANES
}

/// γ_m.
fn gamma(chain: usize) -> f64 {
    let roundings = chain as f64 * (f64::from(f32::EPSILON) / 2.0);
    if roundings < 0.5 { roundings / (1.0 - roundings) } else { f64::INFINITY }
}
