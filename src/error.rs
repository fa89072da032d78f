//! The crate's error: what, where, and what to do next.
//!
//! One variant for each kind of *place* a fault can have, so that every message names it, and so that the
//! exit code follows from the kind alone ([`Error::exit_code`]).

use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. The message is one readable sentence: what, where, what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The command line asked for something that cannot be (exit code 2).
    #[error("{0}")]
    Usage(String),
    /// A file or folder as a whole.
    #[error("{}: {message}", path.display())]
    File { path: PathBuf, message: String },
    /// One line of a text file (1-based).
    #[error("{}, line {line}: {message}", path.display())]
    Line { path: PathBuf, line: usize, message: String },
    /// A pool or candidate at a line of a pool file.
    #[error("{}, line {line}: {fault}", path.display())]
    At { path: PathBuf, line: usize, fault: Box<Error> },
    /// One pool.
    #[error("pool {pool:?}: {message}")]
    Pool { pool: String, message: String },
    /// One candidate of one pool.
    #[error("pool {pool:?}, candidate {candidate:?}: {message}")]
    Candidate { pool: String, candidate: String, message: String },
    /// A model: its files, its configuration, or what it computed.
    #[error("model {model}: {message}")]
    Model { model: String, message: String },
    /// A text given to a scorer: the candidate at this 0-based index, or the query. Callers that know the pool
    /// name it.
    #[error("{}: {message}", candidate.map_or("query".to_owned(), |index| format!("candidate {index}")))]
    Text { candidate: Option<usize>, message: String },
    /// The device asked for is not there or failed.
    #[error("{0}")]
    Device(String),
    /// The device's memory does not hold what was asked for; the device stays usable.
    #[error("out of memory: {0}")]
    OutOfMemory(String),
    /// Writing the results failed.
    #[error("writing {to}: {source}")]
    Output { to: String, source: std::io::Error },
    /// Every pool was visited, and this many of them failed (exit code 3).
    #[error("{failed} of {pools} pools failed; each has an \"error\" line in the output")]
    Partial { failed: usize, pools: usize },
}

impl Error {
    /// Exit code of the process: 2 wrong usage, 3 finished with failed pools, 1 everything else.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Usage(_) => 2,
            Error::Partial { .. } => 3,
            _ => 1,
        }
    }

    /// A fault of the file or folder `path`.
    pub fn file(path: impl AsRef<Path>, message: impl Into<String>) -> Self {
        Error::File { path: path.as_ref().to_owned(), message: message.into() }
    }

    /// A fault of line `line` (1-based) of `path`.
    pub fn line(path: impl AsRef<Path>, line: usize, message: impl Into<String>) -> Self {
        Error::Line { path: path.as_ref().to_owned(), line, message: message.into() }
    }

    /// `fault`, found at line `line` (1-based) of `path`.
    pub fn at(path: impl AsRef<Path>, line: usize, fault: Error) -> Self {
        Error::At { path: path.as_ref().to_owned(), line, fault: Box::new(fault) }
    }

    /// Id of the pool that failed, where one pool did; for a line whose id could not be read, its number.
    ///
    /// `None` is a fault that no other pool escapes either.
    pub fn pool_id(&self) -> Option<Cow<'_, str>> {
        match self {
            Error::Pool { pool, .. } | Error::Candidate { pool, .. } => Some(Cow::Borrowed(pool)),
            Error::Line { line, .. } => Some(Cow::Owned(line.to_string())),
            Error::At { fault, .. } => fault.pool_id(),
            _ => None,
        }
    }

    /// A fault of the pool with this id.
    pub fn pool(pool: impl Into<String>, message: impl Into<String>) -> Self {
        Error::Pool { pool: pool.into(), message: message.into() }
    }

    /// A fault of one candidate of a pool.
    pub fn candidate(
        pool: impl Into<String>,
        candidate: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Error::Candidate { pool: pool.into(), candidate: candidate.into(), message: message.into() }
    }

    /// A fault of a model.
    pub fn model(model: impl Into<String>, message: impl Into<String>) -> Self {
        Error::Model { model: model.into(), message: message.into() }
    }

    /// True where writing failed because the reader closed the pipe, which is no failure.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Error::Output { source, .. } if source.kind() == std::io::ErrorKind::BrokenPipe)
    }
}
