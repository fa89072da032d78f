//! Where results go: stdout or a file, whole lines only, whatever interrupts the run.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use crate::error::{Error, Result};

/// Held while a line is being written, so that an interrupt never tears one.
static WRITING: Mutex<()> = Mutex::new(());

fn writing() -> MutexGuard<'static, ()> {
    WRITING.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Makes an interrupt (Ctrl-C) end the process with code 130, between two lines of output.
pub fn exit_on_interrupt() {
    // Failing to install the handler leaves the default, which ends the process as well.
    let _ = ctrlc::set_handler(|| {
        let _line = writing();
        std::process::exit(130);
    });
}

/// A sink for results.
pub struct Output {
    name: String,
    sink: Box<dyn Write>,
}

impl Output {
    /// Standard output.
    pub fn stdout() -> Self {
        Self { name: "standard output".into(), sink: Box::new(io::stdout()) }
    }

    /// The file `path`, emptied first.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(|error| cannot_write(path, error))?;
        Ok(Self::file(path, file))
    }

    /// Writes to `file` where it stands; `path` names it in errors.
    pub fn file(path: &Path, file: File) -> Self {
        Self { name: path.display().to_string(), sink: Box::new(BufWriter::new(file)) }
    }

    /// The file, or standard output where there is none or it is `-`.
    pub fn open(path: Option<&Path>) -> Result<Self> {
        match path {
            Some(path) if path != Path::new("-") => Self::create(path),
            _ => Ok(Self::stdout()),
        }
    }

    /// Writes whole lines and hands them on at once.
    pub fn write(&mut self, lines: &str) -> Result<()> {
        let _line = writing();
        self.sink
            .write_all(lines.as_bytes())
            .and_then(|()| self.sink.flush())
            .map_err(|source| Error::Output { to: self.name.clone(), source })
    }
}

fn cannot_write(path: &Path, error: io::Error) -> Error {
    Error::file(path, format!("cannot be written: {error}"))
}

/// Refuses, before the work, a file that could not be written after it.
pub fn check_writable(path: &Path) -> Result<()> {
    // Opened for appending: an existing file keeps its content until there is something to replace it.
    File::options().append(true).create(true).open(path).map(drop).map_err(|error| cannot_write(path, error))
}
