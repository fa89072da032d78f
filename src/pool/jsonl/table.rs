//! The memory table: a JSON Lines file whose line i describes row i of a memory store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::lines::Lines;
use super::record::{Place, read_memory};
use super::{json_fault, kept};
use crate::error::{Error, Result};
use crate::pool::Candidate;

/// Ids, texts, time stamps and sessions by row.
#[derive(Debug)]
pub struct MemoryTable {
    path: PathBuf,
    rows: Vec<Arc<Candidate>>,
}

impl MemoryTable {
    /// Reads the whole file. A blank line is a row about which nothing is said.
    ///
    /// # Errors
    /// The file cannot be read, or a line is not an object with fields of the right kinds.
    pub fn open(path: &Path) -> Result<Self> {
        let mut lines = Lines::open(path)?;
        let mut rows = Vec::new();
        while let Some(line) = lines.next_line() {
            let (number, line) = line?;
            let mut place = Place::default();
            let memory = match kept(line) {
                None => Candidate::default(),
                Some(line) => read_memory(line, &mut place)
                    .map_err(|error| Error::line(path, number, json_fault(line, &place, &error)))?,
            };
            rows.push(Arc::new(memory));
        }
        Ok(Self { path: path.to_owned(), rows })
    }

    /// The table's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// What the table says about `row`.
    pub fn get(&self, row: u64) -> Option<&Arc<Candidate>> {
        self.rows.get(usize::try_from(row).ok()?)
    }
}
