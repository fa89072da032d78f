//! MemPursuit on vectors: no I/O, no candle.

/// A run of vector elements as they are stored; rows are never widened as a whole.
#[derive(Debug, Clone, Copy)]
pub enum Elements<'a> {
    F32(&'a [f32]),
    F16(&'a [half::f16]),
    Bf16(&'a [half::bf16]),
}
