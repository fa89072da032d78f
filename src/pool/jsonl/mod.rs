//! Pools from JSON Lines: one pool a line, read as a stream.
//!
//! ```json
//! {"id": "q17", "query": "Which pets did Andrew adopt?", "query_embedding": [0.6, 0.8],
//!  "candidates": [{"id": "m3", "text": "Andrew adopted a puppy named Toby", "embedding": [0.0, 1.0]}],
//!  "gold": ["m3"], "category": "single-hop"}
//! ```
//!
//! (on one line). Instead of repeating what many pools share, a pool may name a memory store (`embeddings`, a
//! [`Store`](super::Store)) and a memory table (`memories`, JSON Lines whose line i describes row i) and point into both
//! with `row` on a candidate, `rows` for the whole list, `query_row` and `gold_rows`. What a pool or a
//! candidate says itself goes before what its row says. Paths are relative to the pool file.
//!
//! * Files compressed with gzip or Zstandard are told by their first bytes. A byte order mark, CRLF and blank
//!   lines are tolerated; blank lines count in line numbers.
//! * Ids, sessions, time stamps and categories are strings or numbers, kept as their text. `null` is an absent
//!   field; unknown fields are ignored.
//! * Numbers of vectors are rounded once to the nearest f32; one that overflows is refused here. A vector of
//!   zeros can be read, and is refused by the selector that meets it: rerankers need none.
//! * All vectors of a pool have one dimension, the query's.

mod gather;
mod lines;
mod numbers;
mod record;
mod resolve;
mod table;

use std::fmt;
use std::io::{self, Read};
use std::iter::FusedIterator;
use std::path::{Path, PathBuf};

use self::lines::Lines;
use self::record::{Place, read_pool};
use self::resolve::Resolver;
use super::Pool;
use crate::error::{Error, Result};

/// Reads pools one by one; stores and memory tables are opened once and shared by the pools that name them.
///
/// # Errors
/// An error with a [`pool_id`](Error::pool_id) is a fault of one line: the iterator goes on with the next one.
/// The id is the pool's own where it could be read (with broken JSON: where it stands before the fault), else
/// the line's number. Any other error is a fault of the file itself, and the iterator ends after it.
pub struct Reader {
    path: PathBuf,
    lines: Lines,
    resolver: Resolver,
    ended: bool,
}

impl Reader {
    /// Opens the pool file at `path`; `-` is standard input, whose relative paths start at the current folder.
    ///
    /// # Errors
    /// The file is missing, unreadable, or a folder.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        if path == Path::new("-") {
            return Self::from_read(io::stdin(), "standard input", "");
        }
        let base = path.parent().unwrap_or(Path::new(""));
        Ok(Self::new(Lines::open(path)?, base))
    }

    /// Reads pools from `input`, called `name` in messages; relative paths start at the folder `base`.
    ///
    /// # Errors
    /// The first bytes cannot be read.
    pub fn from_read(
        input: impl Read + Send + 'static,
        name: impl AsRef<Path>,
        base: impl Into<PathBuf>,
    ) -> Result<Self> {
        Ok(Self::new(Lines::new(name.as_ref(), Box::new(input))?, base))
    }

    fn new(lines: Lines, base: impl Into<PathBuf>) -> Self {
        let path = lines.path().to_owned();
        Self { path, lines, resolver: Resolver::new(base.into()), ended: false }
    }
}

impl Iterator for Reader {
    type Item = Result<Pool>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            match self.lines.next_line() {
                None => self.ended = true,
                Some(Err(error)) => {
                    self.ended = error.pool_id().is_none();
                    return Some(Err(error));
                }
                Some(Ok((number, line))) => {
                    if let Some(line) = kept(line) {
                        let pool = pool_of_line(&mut self.resolver, number, line);
                        return Some(pool.map_err(|fault| Error::at(&self.path, number, fault)));
                    }
                }
            }
        }
        None
    }
}

impl FusedIterator for Reader {}

impl fmt::Debug for Reader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Reader").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The line without white space at its end; `None` where nothing is left.
fn kept(line: &str) -> Option<&str> {
    let line = line.trim_end_matches([' ', '\t', '\r']);
    (!line.is_empty()).then_some(line)
}

fn pool_of_line(resolver: &mut Resolver, number: usize, line: &str) -> Result<Pool> {
    let mut place = Place::default();
    match read_pool(line, &mut place) {
        Ok(record) => resolver.pool(record, number),
        Err(error) => {
            let message = json_fault(line, &place, &error);
            let pool = place.pool.unwrap_or_else(|| number.to_string());
            Err(match place.candidate {
                Some(candidate) => Error::candidate(pool, candidate, message),
                None => Error::pool(pool, message),
            })
        }
    }
}

/// What is wrong with a line that could not be read, as one sentence.
fn json_fault(line: &str, place: &Place, error: &serde_json::Error) -> String {
    let column = error.column();
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    let within = match (place.index, &place.candidate) {
        (Some(index), None) => format!(" in the candidate at index {index}"),
        _ => String::new(),
    };
    if error.is_eof() {
        return format!(
            "the line ends within its JSON value{within}; it must be one whole object on one line"
        );
    }
    if error.is_data() {
        return match place.field {
            Some(field) => format!("\"{field}\"{within}: {what} (column {column})"),
            None => what.to_owned(),
        };
    }
    // Python's json module writes these words, which JSON does not have.
    let near = line.as_bytes().get(column.saturating_sub(2)..).unwrap_or_default();
    let near = &near[..near.len().min(4)];
    if near.windows(3).any(|word| word == b"NaN" || word == b"Inf") || near.starts_with(b"-I") {
        let field = place.field.map(|field| format!(" in \"{field}\"")).unwrap_or_default();
        return format!("NaN or Infinity{field}{within} (column {column}), and JSON has finite numbers only");
    }
    format!("is not valid JSON{within}: {what} (column {column})")
}
