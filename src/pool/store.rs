//! A memory store: the embeddings that many pools share.
//!
//! On disk it is a safetensors file with a tensor `memories` `[N, dimension]` and, optionally, `queries`
//! `[Q, dimension]`, each in f32, f16 or bf16. The file is memory-mapped: a pool touches the pages of its own
//! rows, and nothing is widened or copied before the selector asks for it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use half::{bf16, f16};
use memmap2::Mmap;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use crate::error::{Error, Result};

pub use crate::pursuit::Elements;

/// Element type of a store's tensor, as kept in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreDtype {
    F32,
    F16,
    Bf16,
}

/// Embeddings of memories `[N, dimension]` and queries `[Q, dimension]`, memory-mapped or owned.
#[derive(Debug)]
pub struct Store {
    /// The file, for messages; empty for a store made in memory.
    path: PathBuf,
    dimension: usize,
    memories: Matrix,
    queries: Matrix,
}

/// A row-major matrix `[rows, dimension]` of stored elements.
#[derive(Debug)]
struct Matrix {
    rows: usize,
    data: Data,
}

/// Where a matrix's elements lie.
#[derive(Debug)]
enum Data {
    /// Bytes `start..start + length` of the map; the constructor checked that they cast to `dtype`.
    Mapped {
        map: Arc<Mmap>,
        start: usize,
        length: usize,
        dtype: StoreDtype,
    },
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
}

impl Store {
    /// Maps the safetensors file at `path`.
    ///
    /// A tensor whose data is not aligned to its element size is copied; all others stay in the map. The file
    /// must not be changed while the store is open, as for every memory-mapped file.
    ///
    /// # Errors
    /// A missing or unreadable file, one that is not safetensors, no `memories`, a tensor that is not a
    /// matrix, of another dtype, with rows of length 0 or more than 2^32 of them, or `queries` with rows of
    /// another length than `memories`: each names the file and the tensor.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let fault = |message: String| Error::file(path, message);
        let file = File::open(path).map_err(|error| fault(format!("cannot open the store: {error}")))?;
        if file.metadata().is_ok_and(|data| data.is_dir()) {
            return Err(fault("is a folder, and a store is one safetensors file".into()));
        }
        // SAFETY: the map is private to this store and only read; that nobody truncates or rewrites the file
        // meanwhile is the documented condition of `open`, which no program can check.
        let map = unsafe { Mmap::map(&file) }
            .map_err(|error| fault(format!("cannot map the store into memory: {error}")))?;
        Self::from_map(path, Arc::new(map))
    }

    fn from_map(path: &Path, map: Arc<Mmap>) -> Result<Self> {
        let tensors = SafeTensors::deserialize(&map)
            .map_err(|error| Error::file(path, format!("is not a whole safetensors file ({error})")))?;
        let view = tensors.tensor("memories").map_err(|_| {
            let names = tensors.names().join("\", \"");
            Error::file(path, format!("has no tensor \"memories\" [N, dimension]; its tensors: \"{names}\""))
        })?;
        let (dimension, memories) = Matrix::from_view(path, &map, "memories", &view)?;
        let queries = match tensors.tensor("queries") {
            Err(_) => Matrix { rows: 0, data: Data::F32(Vec::new()) },
            Ok(view) => {
                let (length, queries) = Matrix::from_view(path, &map, "queries", &view)?;
                if length != dimension {
                    let message = format!(
                        "tensor \"queries\" has rows of length {length} and \"memories\" of {dimension}; \
                         both must come from one encoder"
                    );
                    return Err(Error::file(path, message));
                }
                queries
            }
        };
        Ok(Self { path: path.to_owned(), dimension, memories, queries })
    }

    /// A store in memory: `memories` `[N, dimension]` and `queries` `[Q, dimension]`, row-major.
    ///
    /// # Errors
    /// `dimension` is 0, or a matrix is not a whole number of rows.
    pub fn from_rows(dimension: usize, memories: Vec<f32>, queries: Vec<f32>) -> Result<Self> {
        for (name, matrix) in [("memories", &memories), ("queries", &queries)] {
            if dimension == 0 || matrix.len() % dimension != 0 {
                let message = format!(
                    "\"{name}\" has {} numbers, no whole number of rows of {dimension}",
                    matrix.len()
                );
                return Err(Error::file("store", message));
            }
        }
        let matrix = |data: Vec<f32>| Matrix { rows: data.len() / dimension, data: Data::F32(data) };
        Ok(Self { path: PathBuf::new(), dimension, memories: matrix(memories), queries: matrix(queries) })
    }

    /// The store's file; empty for a store made in memory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Length of one vector.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Number of memories, N.
    pub fn len(&self) -> usize {
        self.memories.rows
    }

    /// True for a store without memories.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of queries, Q; 0 for a store without them.
    pub fn queries(&self) -> usize {
        self.queries.rows
    }

    /// Element type of the memories.
    pub fn dtype(&self) -> StoreDtype {
        match &self.memories.data {
            Data::Mapped { dtype, .. } => *dtype,
            Data::F32(_) => StoreDtype::F32,
            Data::F16(_) => StoreDtype::F16,
            Data::Bf16(_) => StoreDtype::Bf16,
        }
    }

    /// All memories `[N, dimension]`, row-major.
    pub fn memories(&self) -> Elements<'_> {
        self.memories.elements(0, self.memories.rows * self.dimension)
    }

    /// Memory `row`, `[dimension]`; `None` where the store has no such row.
    pub fn memory(&self, row: u32) -> Option<Elements<'_>> {
        self.memories.row(row, self.dimension)
    }

    /// All queries, `[Q, dimension]`.
    pub fn all_queries(&self) -> Elements<'_> {
        self.queries.elements(0, self.queries.rows * self.dimension)
    }

    /// Query `row`, `[dimension]`; `None` where the store has no such row.
    pub fn query(&self, row: u32) -> Option<Elements<'_>> {
        self.queries.row(row, self.dimension)
    }
}

impl Matrix {
    /// Row length and matrix of one tensor of the map.
    fn from_view(path: &Path, map: &Arc<Mmap>, name: &str, view: &TensorView) -> Result<(usize, Self)> {
        let fault = |message: String| Error::file(path, format!("tensor \"{name}\" {message}"));
        let &[rows, dimension] = view.shape() else {
            return Err(fault(format!(
                "has shape {:?}, and a store's are matrices [rows, dimension]",
                view.shape()
            )));
        };
        if dimension == 0 {
            return Err(fault("has rows of length 0".into()));
        }
        if u32::try_from(rows).is_err() {
            return Err(fault(format!("has {rows} rows, and a store can have {}", u32::MAX)));
        }
        let (dtype, bytes) = match view.dtype() {
            Dtype::F32 => (StoreDtype::F32, view.data()),
            Dtype::F16 => (StoreDtype::F16, view.data()),
            Dtype::BF16 => (StoreDtype::Bf16, view.data()),
            other => {
                return Err(fault(format!("holds {other:?}, and a store holds F32, F16 or BF16")));
            }
        };
        let data = match dtype {
            _ if castable(dtype, bytes) => Data::Mapped {
                map: Arc::clone(map),
                start: bytes.as_ptr() as usize - map.as_ptr() as usize,
                length: bytes.len(),
                dtype,
            },
            StoreDtype::F32 => Data::F32(copied(bytes, f32::from_le_bytes)),
            StoreDtype::F16 => Data::F16(copied(bytes, f16::from_le_bytes)),
            StoreDtype::Bf16 => Data::Bf16(copied(bytes, bf16::from_le_bytes)),
        };
        Ok((dimension, Self { rows, data }))
    }

    fn row(&self, row: u32, dimension: usize) -> Option<Elements<'_>> {
        let row = row as usize;
        (row < self.rows).then(|| self.elements(row * dimension, (row + 1) * dimension))
    }

    /// Elements `start..end`, both within the matrix.
    fn elements(&self, start: usize, end: usize) -> Elements<'_> {
        match &self.data {
            Data::F32(data) => Elements::F32(&data[start..end]),
            Data::F16(data) => Elements::F16(&data[start..end]),
            Data::Bf16(data) => Elements::Bf16(&data[start..end]),
            Data::Mapped { map, start: offset, length, dtype } => {
                let bytes = &map[*offset..offset + length];
                match dtype {
                    StoreDtype::F32 => Elements::F32(&bytemuck::cast_slice(bytes)[start..end]),
                    StoreDtype::F16 => Elements::F16(&bytemuck::cast_slice(bytes)[start..end]),
                    StoreDtype::Bf16 => Elements::Bf16(&bytemuck::cast_slice(bytes)[start..end]),
                }
            }
        }
    }
}

/// True where the file's little-endian bytes can be read in place.
fn castable(dtype: StoreDtype, bytes: &[u8]) -> bool {
    cfg!(target_endian = "little")
        && match dtype {
            StoreDtype::F32 => bytemuck::try_cast_slice::<_, f32>(bytes).is_ok(),
            StoreDtype::F16 => bytemuck::try_cast_slice::<_, f16>(bytes).is_ok(),
            StoreDtype::Bf16 => bytemuck::try_cast_slice::<_, bf16>(bytes).is_ok(),
        }
}

/// Little-endian elements of `SIZE` bytes, copied out of unaligned `bytes`.
fn copied<const SIZE: usize, T>(bytes: &[u8], element: impl Fn([u8; SIZE]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|chunk| element(*chunk)).collect()
}
