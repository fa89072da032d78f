//! Vectors that stay on the device.

use std::sync::Arc;

use super::device::{Device, Memory};
use super::layout::STRIDE_UNIT;
use crate::error::{Error, Result};
use crate::pursuit::Elements;

/// Element type of vectors on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Format {
    F32,
    F16,
    Bf16,
}

impl Format {
    fn of(elements: Elements<'_>) -> Self {
        match elements {
            Elements::F32(_) => Self::F32,
            Elements::F16(_) => Self::F16,
            Elements::Bf16(_) => Self::Bf16,
        }
    }

    pub(super) fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    /// The kernel for rows of this type.
    pub(super) fn kernel(self) -> &'static str {
        match self {
            Self::F32 => "pursue_f32",
            Self::F16 => "pursue_f16",
            Self::Bf16 => "pursue_bf16",
        }
    }
}

/// Vectors on the device, `[rows, dimension]`: memories, or the queries that are asked of them. Pools that share
/// them gather their rows there.
#[derive(Debug)]
pub struct Resident {
    memory: Memory,
    format: Format,
    rows: usize,
    dimension: usize,
}

/// Bytes that are brought into the device's row layout at a time.
const STAGING: usize = 4 << 20;

impl Resident {
    pub(super) fn upload(device: &Arc<dyn Device>, elements: Elements<'_>, dimension: usize) -> Result<Self> {
        if dimension == 0 || !elements.len().is_multiple_of(dimension) {
            return Err(Error::Usage(format!(
                "{} elements are not a whole number of rows of {dimension}",
                elements.len()
            )));
        }
        let (format, rows) = (Format::of(elements), elements.len() / dimension);
        let row_bytes = stride(dimension) * format.bytes();
        let mut memory = Memory::allocate(device, (rows * row_bytes).max(16))?;
        let bytes = bytes_of(elements);
        if stride(dimension) == dimension {
            memory.write(0, bytes)?;
        } else {
            let batch = (STAGING / row_bytes).max(1);
            let mut staged = Vec::new();
            for first in (0..rows).step_by(batch) {
                staged.clear();
                for row in bytes.chunks_exact(dimension * format.bytes()).skip(first).take(batch) {
                    let start = staged.len();
                    staged.extend_from_slice(row);
                    staged.resize(start + row_bytes, 0);
                }
                memory.write(first * row_bytes, &staged)?;
            }
        }
        Ok(Self { memory, format, rows, dimension })
    }

    /// Number of vectors.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Length of one vector.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Device memory that they take, in bytes.
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    pub(super) fn format(&self) -> Format {
        self.format
    }

    /// Where row `row` begins on the device.
    pub(super) fn address(&self, row: usize) -> u64 {
        self.memory.address() + (row * stride(self.dimension) * self.format.bytes()) as u64
    }
}

/// Elements from row to row on the device: the dimension and zeros.
pub(super) fn stride(dimension: usize) -> usize {
    dimension.next_multiple_of(STRIDE_UNIT)
}

fn bytes_of(elements: Elements<'_>) -> &[u8] {
    match elements {
        Elements::F32(elements) => bytemuck::cast_slice(elements),
        Elements::F16(elements) => bytemuck::cast_slice(elements),
        Elements::Bf16(elements) => bytemuck::cast_slice(elements),
    }
}
