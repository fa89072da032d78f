//! From what a line says to a [`Pool`]: files opened, rows looked up, rules checked.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::value::RawValue;

use super::gather::Gathered;
use super::numbers::append_vector;
use super::record::{CandidateRecord, Label, PoolRecord};
use super::table::MemoryTable;
use crate::error::{Error, Result};
use crate::pool::{Candidate, Pool, Store, StoredQuery, candidate_id};

/// Makes pools of records, and keeps open what their paths name.
pub struct Resolver {
    base: PathBuf,
    stores: HashMap<String, Arc<Store>>,
    tables: HashMap<String, Arc<MemoryTable>>,
}

impl Resolver {
    /// Relative paths start at the folder `base`.
    pub fn new(base: PathBuf) -> Self {
        Self { base, stores: HashMap::new(), tables: HashMap::new() }
    }

    /// The pool that `record`, line `number` of its file, describes.
    ///
    /// # Errors
    /// A broken rule of the pool file, named with the pool and the candidate.
    pub fn pool(&mut self, record: PoolRecord, number: usize) -> Result<Pool> {
        let id = record.id.clone().unwrap_or_else(|| number.to_string());
        let fault = |message: &str| Error::pool(&id, message);
        let unopened = |error: Error| fault(&error.to_string());
        let (embeddings, memories) = (record.embeddings.as_deref(), record.memories.as_deref());
        let store =
            opened(&mut self.stores, &self.base, embeddings, |path| Store::open(path)).map_err(unopened)?;
        let table = opened(&mut self.tables, &self.base, memories, MemoryTable::open).map_err(unopened)?;
        if record.query.is_none() && record.query_embedding.is_none() && record.query_row.is_none() {
            return Err(fault("has neither \"query\" nor \"query_embedding\"; give at least one"));
        }
        let records = match (record.candidates, record.rows) {
            (Some(candidates), None) => candidates,
            (None, Some(rows)) => rows
                .into_iter()
                .map(|row| CandidateRecord { row: Some(row), ..CandidateRecord::default() })
                .collect(),
            (None, None) => return Err(fault("has no \"candidates\" (and no \"rows\")")),
            (Some(_), Some(_)) => {
                return Err(fault("has both \"candidates\" and \"rows\"; give one of them"));
            }
        };

        let mut builder = Builder::new(id, store, table, records.len());
        builder.query(record.query_embedding, record.query_row)?;
        let rows: Vec<Option<u64>> = records.iter().map(|record| record.row).collect();
        for record in records {
            builder.candidate(record)?;
        }
        builder.check_ids()?;
        let gold =
            builder.gold(record.gold.unwrap_or_default(), record.gold_rows.unwrap_or_default(), &rows)?;
        Ok(Pool {
            query: record.query,
            gold,
            category: record.category,
            vectors: builder.vectors.finish(builder.store),
            id: builder.pool,
            candidates: builder.candidates,
        })
    }
}

/// What `name` (relative to `base`) names, opened the first time it is met.
fn opened<T>(
    known: &mut HashMap<String, Arc<T>>,
    base: &Path,
    name: Option<&str>,
    open: impl Fn(&Path) -> Result<T>,
) -> Result<Option<Arc<T>>> {
    let Some(name) = name else { return Ok(None) };
    if let Some(file) = known.get(name) {
        return Ok(Some(Arc::clone(file)));
    }
    let file = Arc::new(open(&base.join(name))?);
    known.insert(name.to_owned(), Arc::clone(&file));
    Ok(Some(file))
}

/// A pool while its candidates are being added.
struct Builder {
    pool: String,
    store: Option<Arc<Store>>,
    table: Option<Arc<MemoryTable>>,
    candidates: Vec<Arc<Candidate>>,
    vectors: Gathered,
}

impl Builder {
    fn new(
        pool: String,
        store: Option<Arc<Store>>,
        table: Option<Arc<MemoryTable>>,
        candidates: usize,
    ) -> Self {
        Self { pool, store, table, candidates: Vec::with_capacity(candidates), vectors: Gathered::default() }
    }

    fn fault(&self, message: impl Into<String>) -> Error {
        Error::pool(&self.pool, message)
    }

    /// A fault of the candidate at `index`, already added.
    fn fault_at(&self, index: usize, message: impl Into<String>) -> Error {
        Error::candidate(&self.pool, candidate_id(&self.candidates, index), message)
    }

    /// Takes the query's vector, where there is one.
    fn query(&mut self, embedding: Option<&RawValue>, row: Option<u64>) -> Result<()> {
        if let Some(raw) = embedding {
            let mut values = Vec::new();
            append_vector(raw, &mut values)
                .map_err(|what| self.fault(format!("\"query_embedding\" {what}")))?;
            self.vectors.set_query(StoredQuery::Inline(values), None);
        } else if let Some(row) = row {
            let Some(store) = &self.store else {
                return Err(
                    self.fault("has a \"query_row\", and names no \"embeddings\" that it could be a row of")
                );
            };
            let Some(row) = row_below(row, store.queries()) else {
                let (path, queries) = (store.path().display(), store.queries());
                return Err(self.fault(format!("\"query_row\" is {row}, and {path} has {queries} queries")));
            };
            self.vectors.set_query(StoredQuery::Row(row), Some(store.dimension()));
        }
        Ok(())
    }

    /// Adds the next candidate.
    fn candidate(&mut self, record: CandidateRecord) -> Result<()> {
        let index = self.candidates.len();
        let described = match (&self.table, record.row) {
            (Some(table), Some(row)) => table.get(row),
            _ => None,
        };
        self.candidates.push(merged(record.candidate, described));
        let row = match record.row {
            None => None,
            Some(row) => self.row(row).map_err(|what| self.fault_at(index, what))?,
        };
        let added = match (record.embedding, row) {
            (Some(raw), _) => self.vectors.add_inline(raw),
            (None, Some((row, dimension))) => self.vectors.add_row(row, dimension),
            (None, None) if self.candidates[index].text.is_some() => {
                self.vectors.add_missing();
                Ok(())
            }
            (None, None) => Err("has neither \"text\" nor \"embedding\", nor a \"row\" with one".into()),
        };
        added.map_err(|what| self.fault_at(index, what))
    }

    /// Checks `row` against the files it points into, and returns it with the store's dimension; `None` where
    /// the pool has a memory table only.
    fn row(&self, row: u64) -> Result<Option<(u32, usize)>, String> {
        if let Some(table) = &self.table
            && table.get(row).is_none()
        {
            let (path, lines) = (table.path().display(), table.len());
            return Err(format!("row {row} is not in {path}, which has {lines} lines"));
        }
        match &self.store {
            None if self.table.is_some() => Ok(None),
            None => Err("has a \"row\", and the pool names neither \"embeddings\" nor \"memories\"".into()),
            Some(store) => match row_below(row, store.len()) {
                Some(row) => Ok(Some((row, store.dimension()))),
                None => {
                    let (path, memories) = (store.path().display(), store.len());
                    Err(format!("row {row} is not in {path}, which has {memories} memories"))
                }
            },
        }
    }

    /// # Errors
    /// Two candidates with one id, also where one of them is called by its index for want of an id.
    fn check_ids(&self) -> Result<()> {
        if self.candidates.iter().all(|candidate| candidate.id.is_none()) {
            return Ok(());
        }
        let mut seen = HashMap::with_capacity(self.candidates.len());
        for index in 0..self.candidates.len() {
            if let Some(first) = seen.insert(candidate_id(&self.candidates, index), index) {
                let message = format!(
                    "two candidates, at index {first} and {index}, have this id (a missing id is the index); \
                     ids must differ within a pool"
                );
                return Err(self.fault_at(index, message));
            }
        }
        Ok(())
    }

    /// Ids of the gold memories, each once, where candidate `i` is row `rows[i]`.
    ///
    /// A gold row is called by the id of its candidate, else by its id in the memory table, else `row N`,
    /// which cannot be taken for a candidate's index.
    fn gold(&self, ids: Vec<Label>, gold_rows: Vec<u64>, rows: &[Option<u64>]) -> Result<Vec<String>> {
        let mut gold: Vec<String> = ids.into_iter().map(|label| label.0).collect();
        for row in gold_rows {
            self.row(row).map_err(|what| self.fault(format!("\"gold_rows\": {what}")))?;
            let in_table = || self.table.as_ref()?.get(row)?.id.clone();
            gold.push(match rows.iter().position(|candidate| *candidate == Some(row)) {
                Some(index) => candidate_id(&self.candidates, index).into_owned(),
                None => in_table().unwrap_or_else(|| format!("row {row}")),
            });
        }
        let mut seen = HashSet::with_capacity(gold.len());
        gold.retain(|id| seen.insert(id.clone()));
        Ok(gold)
    }
}

/// What the candidate says itself, before what the memory table says about its row.
fn merged(own: Candidate, described: Option<&Arc<Candidate>>) -> Arc<Candidate> {
    match described {
        None => Arc::new(own),
        Some(described) if own == Candidate::default() => Arc::clone(described),
        Some(described) => Arc::new(Candidate {
            id: own.id.or_else(|| described.id.clone()),
            text: own.text.or_else(|| described.text.clone()),
            timestamp: own.timestamp.or_else(|| described.timestamp.clone()),
            session: own.session.or_else(|| described.session.clone()),
        }),
    }
}

/// `row` as an index, where it is less than `rows`.
fn row_below(row: u64, rows: usize) -> Option<u32> {
    u32::try_from(row).ok().filter(|row| (*row as usize) < rows)
}
