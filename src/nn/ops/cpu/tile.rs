//! The innermost product: a few rows times two vectors of columns, summed in registers.

use pulp::{Simd, WithSimd};

/// Two vectors of adjacent columns.
pub(super) type Columns<S> = [<S as Simd>::f32s; 2];

/// Columns of one panel: two vectors.
#[inline(always)]
pub(super) fn panel_width<S: Simd>() -> usize {
    2 * S::F32_LANES
}

/// Rows of one tile: as many as the registers hold two sums each of, with three to spare (two columns and one
/// value of a row).
#[inline(always)]
pub(super) fn tile_rows<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { MANY_REGISTERS } else { FEW_REGISTERS }
}

/// [`tile_rows`] with 32 vector registers.
pub(super) const MANY_REGISTERS: usize = 12;
/// [`tile_rows`] with 16.
pub(super) const FEW_REGISTERS: usize = 6;

/// Work that is done tile by tile.
pub(super) trait Tiled {
    /// Does it with tiles of `ROWS` rows.
    fn tiles<S: Simd, const ROWS: usize>(self, simd: S);
}

/// Work with tiles of as many rows as the machine's registers hold.
pub(super) struct Natural<T>(pub(super) T);

impl<T: Tiled> WithSimd for Natural<T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if tile_rows::<S>() == MANY_REGISTERS {
            self.0.tiles::<S, MANY_REGISTERS>(simd);
        } else {
            self.0.tiles::<S, FEW_REGISTERS>(simd);
        }
    }
}

/// Work with tiles of `ROWS` rows, whatever the machine would choose.
#[cfg(test)]
pub(super) struct WithRows<T, const ROWS: usize>(pub(super) T);

#[cfg(test)]
impl<T: Tiled, const ROWS: usize> WithSimd for WithRows<T, ROWS> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.0.tiles::<S, ROWS>(simd);
    }
}

/// `start[i] + sum over k of rows[i][k] * panel[k]`, in the order of k.
///
/// `panel` holds one pair of column vectors a depth; rows are at least as long.
#[inline(always)]
pub(super) fn tile<S: Simd, const ROWS: usize>(
    simd: S,
    rows: [&[f32]; ROWS],
    panel: &[Columns<S>],
    start: [Columns<S>; ROWS],
) -> [Columns<S>; ROWS] {
    for row in rows {
        assert!(row.len() >= panel.len());
    }
    let mut sums = start;
    // Four depths a turn keep the loop's own instructions from crowding out the multiplications.
    let (quads, rest) = panel.as_chunks::<4>();
    for (quad, columns) in quads.iter().enumerate() {
        for (step, columns) in columns.iter().enumerate() {
            // SAFETY: 4 quad + step is below `panel.len()`, and every row is at least that long.
            unsafe { add_depth(simd, &mut sums, rows, 4 * quad + step, columns) };
        }
    }
    for (step, columns) in rest.iter().enumerate() {
        // SAFETY: as above; `rest` ends where `panel` ends.
        unsafe { add_depth(simd, &mut sums, rows, 4 * quads.len() + step, columns) };
    }
    sums
}

/// `sums[i] += rows[i][k] * columns`.
///
/// # Safety
/// Every row is longer than `k`.
#[inline(always)]
unsafe fn add_depth<S: Simd, const ROWS: usize>(
    simd: S,
    sums: &mut [Columns<S>; ROWS],
    rows: [&[f32]; ROWS],
    k: usize,
    columns: &Columns<S>,
) {
    for i in 0..ROWS {
        // SAFETY: the caller's promise. Checked, six comparisons a depth cost a tenth of the speed.
        let value = simd.splat_f32s(unsafe { *rows[i].get_unchecked(k) });
        sums[i][0] = simd.mul_add_e_f32s(value, columns[0], sums[i][0]);
        sums[i][1] = simd.mul_add_e_f32s(value, columns[1], sums[i][1]);
    }
}

/// Asks for the `part`-th of `parts` parts of `values`, which are read soon.
#[inline(always)]
pub(super) fn prefetch(values: &[f32], part: usize, parts: usize) {
    const LINE: usize = 64 / size_of::<f32>();
    let lines = values.len() / LINE;
    for line in lines * part / parts..lines * (part + 1) / parts {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the address is within `values`, and a prefetch only hints at it.
        unsafe {
            use core::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T1>(values[line * LINE..].as_ptr().cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }
}

/// A panel's values as pairs of vectors.
#[inline(always)]
pub(super) fn columns<S: Simd>(values: &[f32]) -> &[Columns<S>] {
    S::as_simd_f32s(values).0.as_chunks::<2>().0
}

/// Loads the columns at the beginning of `row`, zeros beyond its end.
#[inline(always)]
pub(super) fn load<S: Simd>(simd: S, row: &[f32]) -> Columns<S> {
    if row.len() >= panel_width::<S>() {
        let vectors = S::as_simd_f32s(row).0;
        [vectors[0], vectors[1]]
    } else {
        let (low, high) = row.split_at(row.len().min(S::F32_LANES));
        [simd.partial_load_f32s(low), simd.partial_load_f32s(high)]
    }
}

/// Stores columns to the beginning of `row`, as many as it takes.
#[inline(always)]
pub(super) fn store<S: Simd>(simd: S, row: &mut [f32], columns: Columns<S>) {
    if row.len() >= panel_width::<S>() {
        let vectors = S::as_mut_simd_f32s(row).0;
        vectors[0] = columns[0];
        vectors[1] = columns[1];
    } else {
        let (low, high) = row.split_at_mut(row.len().min(S::F32_LANES));
        simd.partial_store_f32s(low, columns[0]);
        simd.partial_store_f32s(high, columns[1]);
    }
}
