//! Named tensors, checked by name and shape, from memory-mapped files or a seeded generator.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use memmap2::Mmap;
use rayon::prelude::*;
use safetensors::tensor::{Dtype, Metadata, SafeTensorError, SafeTensors};

use super::random::RandomTensors;
use crate::error::{Error, Result};

/// The parameters of one model.
///
/// Files stay memory-mapped: a tensor's bytes are read when it is asked for, and widened or narrowed once to
/// the format asked for.
pub struct Parameters {
    model: String,
    source: Source,
}

enum Source {
    Files { files: Vec<TensorFile>, file_of: HashMap<String, usize> },
    Random(RandomTensors),
}

/// One memory-mapped safetensors file.
struct TensorFile {
    path: PathBuf,
    bytes: Mmap,
    /// Where the tensors' bytes begin.
    data_start: usize,
    metadata: Metadata,
}

impl Parameters {
    /// Maps the safetensors files `paths` of `model` and indexes their tensors.
    ///
    /// # Errors
    /// [`Error::File`] for a file that is missing, truncated or not safetensors.
    pub fn map(model: &str, paths: &[PathBuf]) -> Result<Self> {
        let files = paths.iter().map(|path| TensorFile::open(path)).collect::<Result<Vec<_>>>()?;
        let mut file_of = HashMap::new();
        for (number, file) in files.iter().enumerate() {
            file_of.extend(file.metadata.tensors().into_keys().map(|name| (name, number)));
        }
        Ok(Self { model: model.to_owned(), source: Source::Files { files, file_of } })
    }

    /// Seeded N(0, 0.02) tensors of whatever name and shape is asked for.
    pub fn random(model: &str, seed: u64) -> Self {
        Self { model: model.to_owned(), source: Source::Random(RandomTensors::new(seed)) }
    }

    /// The model they belong to, as errors name it.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The shape of `name` as stored; `None` where it is not stored (random tensors never are).
    pub fn stored_shape(&self, name: &str) -> Option<Vec<usize>> {
        match &self.source {
            Source::Random(_) => None,
            Source::Files { files, file_of } => {
                let file = &files[*file_of.get(name)?];
                file.metadata.info(name).map(|info| info.shape.clone())
            }
        }
    }

    /// Tensor `name` of shape `shape`, on `device` in `dtype`.
    ///
    /// # Errors
    /// As [`Parameters::values`]; [`Error::OutOfMemory`] or [`Error::Device`] from the upload.
    pub fn tensor(&self, name: &str, shape: &[usize], dtype: DType, device: &Device) -> Result<Tensor> {
        let values = self.values(name, shape)?;
        Tensor::from_vec(values, shape, &Device::Cpu)
            .and_then(|t| t.to_dtype(dtype))
            .and_then(|t| t.to_device(device))
            .map_err(|e| crate::device::candle_fault(&format!("loading {name} of {}", self.model), e))
    }

    /// Tensor `name` of shape `shape` as f32, row-major.
    ///
    /// # Errors
    /// [`Error::Model`] for a tensor that is missing, has another shape, or is not of a float format.
    pub fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        match &self.source {
            Source::Random(random) => Ok(random.values(name, shape.iter().product())),
            Source::Files { files, file_of } => {
                let fault = |message: String| Error::model(&self.model, message);
                let file = file_of.get(name).map(|&i| &files[i]).ok_or_else(|| {
                    let near = nearest(name, file_of.keys());
                    let hint = near.map(|n| format!(" (there is {n})")).unwrap_or_default();
                    fault(format!(
                        "the weights have no tensor {name}{hint}; is this the right kind of model?"
                    ))
                })?;
                file.values(name, shape).map_err(fault)
            }
        }
    }
}

impl TensorFile {
    fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|e| Error::file(path, format!("cannot be opened: {e}")))?;
        // SAFETY: the file is read-only input; changing it while it is read is the user's breach, as for every
        // memory-mapped model format, and would show as wrong numbers, not as a memory error of ours.
        let bytes =
            unsafe { Mmap::map(&file) }.map_err(|e| Error::file(path, format!("cannot be mapped: {e}")))?;
        let (header, metadata) = SafeTensors::read_metadata(&bytes).map_err(|e| {
            Error::file(
                path,
                match e {
                    SafeTensorError::MetadataIncompleteBuffer => {
                        "is truncated or corrupt: its header promises another length; download it again"
                            .to_owned()
                    }
                    other => format!("is not a safetensors file or is corrupt ({other}); download it again"),
                },
            )
        })?;
        Ok(Self { path: path.to_owned(), data_start: 8 + header, bytes, metadata })
    }

    fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, String> {
        let info = self.metadata.info(name).ok_or_else(|| format!("no tensor {name}"))?;
        if info.shape != shape {
            return Err(format!(
                "tensor {name} of {} has shape {:?}, and config.json asks for {shape:?}",
                self.path.display(),
                info.shape
            ));
        }
        let (start, end) = info.data_offsets;
        let bytes = &self.bytes[self.data_start + start..self.data_start + end];
        let values = match info.dtype {
            Dtype::F32 => Ok(widen(bytes, f32::from_le_bytes)),
            Dtype::F16 => Ok(widen(bytes, |b| half::f16::from_le_bytes(b).to_f32())),
            Dtype::BF16 => Ok(widen(bytes, |b| half::bf16::from_le_bytes(b).to_f32())),
            other => Err(format!("tensor {name} is stored as {other:?}; f32, f16 and bf16 are read")),
        };
        #[cfg(unix)]
        // SAFETY: the mapping is read-only and of a file: pages given back are read again from the file. Kept, they
        // would count twice, here and in the values just made.
        let _ = unsafe {
            self.bytes.unchecked_advise_range(
                memmap2::UncheckedAdvice::DontNeed,
                self.data_start + start,
                end - start,
            )
        };
        values
    }
}

/// Little-endian values of `N` bytes each, as f32.
fn widen<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f32 + Sync) -> Vec<f32> {
    const STRETCH: usize = 1 << 16;
    let mut values = vec![0f32; bytes.len() / N];
    values.par_chunks_mut(STRETCH).zip(bytes.par_chunks(STRETCH * N)).for_each(|(to, from)| {
        for (to, from) in to.iter_mut().zip(from.as_chunks::<N>().0) {
            *to = value(*from);
        }
    });
    values
}

/// The stored name that shares the longest ending with `name`, if it is more than its last part.
fn nearest<'a>(name: &str, stored: impl Iterator<Item = &'a String>) -> Option<&'a str> {
    let shared =
        |other: &str| name.bytes().rev().zip(other.bytes().rev()).take_while(|(a, b)| a == b).count();
    let last_part = name.len() - name.rfind('.').unwrap_or(0);
    stored
        .map(|other| (shared(other), other.as_str()))
        .filter(|(length, _)| *length > last_part)
        .max_by(|(a, x), (b, y)| a.cmp(b).then(y.cmp(x)))
        .map(|(_, other)| other)
}
