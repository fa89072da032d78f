//! The tiny cross-encoder of `golden/xlmr-tiny`, as it is or altered. The word `w17` is its token 17.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rerank_bench::rerank::{OpenOptions, Scorer, open};
use rerank_bench::{Error, Result};
use safetensors::{SafeTensors, serialize, tensor::TensorView};

/// The fixture's folder.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/xlmr-tiny")
}

/// Opens a folder.
pub fn load(folder: &Path, options: &OpenOptions) -> Result<Box<dyn Scorer>> {
    open(folder.to_str().unwrap(), options, &|_| ())
}

/// The error of opening a folder.
#[allow(dead_code)] // not every test file needs every helper
pub fn refused(folder: &Path, options: &OpenOptions) -> Error {
    load(folder, options).err().expect("it should be refused")
}

/// A text of `count` one-token words, other ones for other `seed`s.
#[allow(dead_code)]
pub fn words(count: usize, seed: usize) -> String {
    let word = |i: usize| format!("w{}", 5 + (i * 37 + seed * 101) % 990);
    (0..count).map(word).collect::<Vec<_>>().join(" ")
}

/// A copy of the fixture that can be changed.
#[allow(dead_code)]
pub struct Copy(tempfile::TempDir);

#[allow(dead_code)]
impl Copy {
    pub fn new() -> Self {
        let copy = tempfile::tempdir().unwrap();
        for file in ["config.json", "model.safetensors", "tokenizer.json"] {
            std::fs::copy(folder().join(file), copy.path().join(file)).unwrap();
        }
        Self(copy)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub fn remove(self, name: &str) -> Self {
        std::fs::remove_file(self.file(name)).unwrap();
        self
    }

    /// Sets a key of `config.json`.
    pub fn config(self, key: &str, value: serde_json::Value) -> Self {
        let mut json: serde_json::Value =
            serde_json::from_slice(&std::fs::read(self.file("config.json")).unwrap()).unwrap();
        json[key] = value;
        std::fs::write(self.file("config.json"), json.to_string()).unwrap();
        self
    }

    /// Rewrites the weights: `change` may drop, reshape or refill any tensor (shape, f32 values).
    pub fn tensors(self, change: impl Fn(&mut HashMap<String, (Vec<usize>, Vec<f32>)>)) -> Self {
        self.tensors_as(change, safetensors::Dtype::F32, |v| v.to_le_bytes().to_vec())
    }

    /// As [`Copy::tensors`], stored in another format.
    pub fn tensors_as(
        self,
        change: impl Fn(&mut HashMap<String, (Vec<usize>, Vec<f32>)>),
        dtype: safetensors::Dtype,
        bytes: impl Fn(f32) -> Vec<u8>,
    ) -> Self {
        let path = self.file("model.safetensors");
        let old = std::fs::read(&path).unwrap();
        let floats = |data: &[u8]| data.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        let mut tensors: HashMap<_, _> = SafeTensors::deserialize(&old)
            .unwrap()
            .iter()
            .map(|(name, view)| (name.to_owned(), (view.shape().to_vec(), floats(view.data()))))
            .collect();
        change(&mut tensors);
        let stored: Vec<_> = tensors
            .into_iter()
            .map(|(name, (shape, values))| {
                (name, shape, values.into_iter().flat_map(&bytes).collect::<Vec<u8>>())
            })
            .collect();
        let views = stored
            .iter()
            .map(|(name, shape, data)| (name, TensorView::new(dtype, shape.clone(), data).unwrap()));
        std::fs::write(&path, serialize(views, None).unwrap()).unwrap();
        self
    }
}
