//! The JSON files of the data set, in a zip archive, in a folder, or alone.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The text of one JSON file.
pub struct Source {
    /// The file's name without its extension.
    pub name: String,
    /// Where it is within the archive or folder; empty for a file given alone.
    place: String,
    pub text: String,
}

impl Source {
    /// `message`, led by where in the archive or folder it is about.
    pub fn within(&self, message: &str) -> String {
        if self.place.is_empty() { message.to_owned() } else { format!("{}: {message}", self.place) }
    }
}

/// All JSON files at `path`, by number and name.
///
/// # Errors
/// The file, folder or archive cannot be read, or has no JSON file.
pub fn sources(path: &Path) -> Result<Vec<Source>> {
    let unreadable =
        |error: std::io::Error| Error::file(path, format!("cannot read LoCoMo from it: {error}"));
    if path.is_dir() {
        let files = json_files(path).map_err(unreadable)?;
        let read = |file: PathBuf| -> Result<Source> {
            let place = file.strip_prefix(path).unwrap_or(&file).display().to_string();
            let text = fs::read_to_string(&file).map_err(|error| Error::file(&file, error.to_string()))?;
            Ok(Source { name: stem(&file), place, text })
        };
        return in_order(path, files.into_iter().map(read).collect::<Result<_>>()?);
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(unreadable)?;
    if bytes.starts_with(b"PK") {
        return in_order(path, zipped(path, bytes)?);
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        Error::file(path, "is neither a zip archive nor JSON text, and LoCoMo is one of these")
    })?;
    Ok(vec![Source { name: stem(path), place: String::new(), text }])
}

/// The JSON files in `folder`; where it has none, those in its subfolders, as an unpacked archive has them.
fn json_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if is_visible_json(&path) {
            files.push(path);
        } else if path.is_dir() && !path.is_symlink() {
            folders.push(path);
        }
    }
    if files.is_empty() {
        for folder in folders {
            files.extend(json_files(&folder)?);
        }
    }
    Ok(files)
}

fn zipped(path: &Path, bytes: Vec<u8>) -> Result<Vec<Source>> {
    let broken =
        |error: zip::result::ZipError| Error::file(path, format!("is a broken zip archive: {error}"));
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).map_err(broken)?;
    let mut sources = Vec::new();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(broken)?;
        let place = entry.name().map_err(broken)?.into_owned();
        if entry.is_dir() || !is_visible_json(Path::new(&place)) {
            continue;
        }
        let mut text = String::new();
        entry.read_to_string(&mut text).map_err(|error| Error::file(path, format!("{place}: {error}")))?;
        sources.push(Source { name: stem(Path::new(&place)), place, text });
    }
    Ok(sources)
}

/// A JSON file that is not hidden (archives made on a Mac hide files such as `._26.json`).
fn is_visible_json(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
        && !stem(path).starts_with('.')
}

fn stem(path: &Path) -> String {
    path.file_stem().map(OsStr::to_string_lossy).unwrap_or_default().into_owned()
}

/// By the number that names the conversation, then by name.
fn in_order(path: &Path, mut sources: Vec<Source>) -> Result<Vec<Source>> {
    if sources.is_empty() {
        return Err(Error::file(path, "has no JSON file, and LoCoMo has one a conversation"));
    }
    sources.sort_by_key(|source| (source.name.parse().unwrap_or(u64::MAX), source.place.clone()));
    Ok(sources)
}
