//! A model in a folder: `config.json`, `tokenizer.json`, and safetensors in one file or in shards.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Weights in one file.
pub(super) const SINGLE: &str = "model.safetensors";
/// Which shard holds which tensor.
pub(super) const INDEX: &str = "model.safetensors.index.json";
/// Weights as older checkpoints ship them: Python pickles, which are not read.
pub(super) const PICKLED: &str = "pytorch_model.bin";

/// `tokenizer.json` in `folder`.
///
/// # Errors
/// [`Error::File`] where there is none.
pub fn tokenizer(folder: &Path) -> Result<PathBuf> {
    let tokenizer = folder.join("tokenizer.json");
    if tokenizer.is_file() {
        return Ok(tokenizer);
    }
    Err(Error::file(
        folder,
        "holds no tokenizer.json; save the model's fast tokenizer there (AutoTokenizer.from_pretrained(…)\
         .save_pretrained(FOLDER)) or name one with --tokenizer",
    ))
}

/// `config.json` in `folder`.
///
/// # Errors
/// [`Error::File`] where `folder` is no folder or holds none.
pub fn config(folder: &Path) -> Result<PathBuf> {
    if !folder.is_dir() {
        return Err(Error::file(folder, "is not a folder; a model is a folder, a known name or org/name"));
    }
    let config = folder.join("config.json");
    if !config.is_file() {
        return Err(Error::file(folder, "holds no config.json, so it is not a model folder"));
    }
    Ok(config)
}

/// The safetensors files in `folder`: `model.safetensors`, the shards of an index, or whatever there is.
///
/// # Errors
/// [`Error::File`] where there are none, or a shard is missing.
pub fn weights(folder: &Path) -> Result<Vec<PathBuf>> {
    let single = folder.join(SINGLE);
    if single.is_file() {
        return Ok(vec![single]);
    }
    let index = folder.join(INDEX);
    if index.is_file() {
        let shards: Vec<_> = shards(&index)?.into_iter().map(|shard| folder.join(shard)).collect();
        return match shards.iter().find(|shard| !shard.is_file()) {
            Some(missing) => Err(Error::file(missing, format!("is missing, and {INDEX} beside it names it"))),
            None => Ok(shards),
        };
    }
    let entries =
        std::fs::read_dir(folder).map_err(|e| Error::file(folder, format!("cannot be read: {e}")))?;
    let files: BTreeSet<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let with_extension =
        |wanted: &str| files.iter().filter(|f| f.extension().is_some_and(|e| e == wanted)).cloned().collect();
    let found: Vec<PathBuf> = with_extension("safetensors");
    if !found.is_empty() {
        return Ok(found);
    }
    let pickled: Vec<PathBuf> = with_extension("bin");
    Err(match pickled.first() {
        Some(pickle) => only_pickled(pickle),
        None => Error::file(folder, format!("holds no {SINGLE} (and no {INDEX} with shards)")),
    })
}

/// The shard files that `index` names, each once.
pub(super) fn shards(index: &Path) -> Result<BTreeSet<String>> {
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: std::collections::BTreeMap<String, String>,
    }
    let text = std::fs::read(index).map_err(|e| Error::file(index, format!("cannot be read: {e}")))?;
    let parsed: Index = serde_json::from_slice(&text)
        .map_err(|e| Error::file(index, format!("is not an index of safetensors shards: {e}")))?;
    let shards: BTreeSet<String> = parsed.weight_map.into_values().collect();
    // An index comes from a download: its names stay inside the model's own folder.
    match shards.iter().find(|name| name.contains(['/', '\\']) || name.starts_with('.')) {
        Some(name) => Err(Error::file(index, format!("names {name:?}, which is no plain file name"))),
        None => Ok(shards),
    }
}

/// The refusal of a pickled checkpoint, with the way out.
pub(super) fn only_pickled(pickle: &Path) -> Error {
    Error::file(
        pickle,
        "is a pickled checkpoint, which is not read (unpickling runs code); convert it once in Python: \
         AutoModelForSequenceClassification.from_pretrained(FOLDER).save_pretrained(FOLDER, \
         safe_serialization=True)",
    )
}
