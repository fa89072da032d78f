//! The vectors of one pool, gathered from what is written out and from rows of a store.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::numbers::append_vector;
use crate::pool::{Elements, Missing, Store, StoredQuery, Vectors};

/// Where a candidate's vector comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Source {
    Missing,
    /// The next of the vectors written out.
    Inline,
    /// A row of the store.
    Row(u32),
}

/// The vectors met so far.
#[derive(Default)]
pub struct Gathered {
    query: Option<StoredQuery>,
    /// One entry a candidate.
    candidates: Vec<Source>,
    /// The candidates' vectors that are written out, row-major.
    values: Vec<f32>,
    /// Length of the first vector met, and whose it was.
    dimension: Option<(usize, &'static str)>,
}

impl Gathered {
    /// Takes the query's vector, before any candidate's; a row of the store has length `row_length`.
    pub fn set_query(&mut self, query: StoredQuery, row_length: Option<usize>) {
        let length = match &query {
            StoredQuery::Inline(values) => Some(values.len()),
            StoredQuery::Row(_) => row_length,
        };
        self.dimension = length.map(|length| (length, "the query"));
        self.query = Some(query);
    }

    /// Adds a candidate's vector that is written out.
    ///
    /// # Errors
    /// It cannot be read, or has another dimension than the vectors before it: as the rest of a sentence.
    pub fn add_inline(&mut self, raw: &RawValue) -> Result<(), String> {
        let length = append_vector(raw, &mut self.values).map_err(|what| format!("\"embedding\" {what}"))?;
        self.add(Source::Inline, length, "\"embedding\"")
    }

    /// Adds a candidate's vector that is row `row` of the store.
    ///
    /// # Errors
    /// It has another dimension than the vectors before it: as the rest of a sentence.
    pub fn add_row(&mut self, row: u32, length: usize) -> Result<(), String> {
        self.add(Source::Row(row), length, "its row of the store")
    }

    /// Adds a candidate that has no vector.
    pub fn add_missing(&mut self) {
        self.candidates.push(Source::Missing);
    }

    fn add(&mut self, source: Source, length: usize, what: &str) -> Result<(), String> {
        self.candidates.push(source);
        let (expected, whose) = *self.dimension.get_or_insert((length, "the first candidate"));
        if length != expected {
            return Err(format!("{what} has dimension {length}, and {whose} has {expected}"));
        }
        Ok(())
    }

    /// The vectors in the cheapest form: rows stay in the store if all candidates' are there, and are copied
    /// into one matrix with the written ones if some are.
    pub fn finish(mut self, store: Option<Arc<Store>>) -> Vectors {
        let (query, dimension) = match (self.query.take(), self.dimension) {
            (Some(query), Some((dimension, _))) => (query, dimension),
            (None, None) => return Vectors::None,
            _ => return Vectors::Incomplete(Missing::Query),
        };
        let Some(missing) = self.candidates.iter().position(|source| *source == Source::Missing) else {
            return self.complete(query, dimension, store);
        };
        self.candidates.truncate(missing);
        let before = Box::new(self.complete(query, dimension, store));
        Vectors::Incomplete(Missing::Candidate { index: missing, before })
    }

    /// The vectors, none of which is missing.
    fn complete(mut self, query: StoredQuery, dimension: usize, store: Option<Arc<Store>>) -> Vectors {
        let inline = self.candidates.iter().all(|source| *source == Source::Inline);
        let rows: Option<Vec<u32>> = self.candidates.iter().map(|source| source.row()).collect();
        match (query, rows, store) {
            (StoredQuery::Inline(query), _, _) if inline => {
                self.values.truncate(self.candidates.len() * dimension);
                Vectors::Inline { query, rows: self.values, dimension }
            }
            (query, Some(rows), Some(store)) => Vectors::Stored { store, query, rows },
            (query, None, Some(store)) => Vectors::Inline {
                query: query_values(&store, query),
                rows: matrix(&store, &self.candidates, &self.values, dimension),
                dimension,
            },
            (_, _, None) => unreachable!("a row is accepted only from a store"),
        }
    }
}

impl Source {
    fn row(self) -> Option<u32> {
        match self {
            Source::Row(row) => Some(row),
            Source::Missing | Source::Inline => None,
        }
    }
}

fn query_values(store: &Store, query: StoredQuery) -> Vec<f32> {
    match query {
        StoredQuery::Inline(values) => values,
        StoredQuery::Row(row) => {
            let mut values = Vec::with_capacity(store.dimension());
            append_widened(store.query(row), &mut values);
            values
        }
    }
}

/// One matrix `[P, dimension]` of written vectors (`values`, in order) and rows of the store.
fn matrix(store: &Store, sources: &[Source], values: &[f32], dimension: usize) -> Vec<f32> {
    let mut matrix = Vec::with_capacity(sources.len() * dimension);
    let mut written = values.chunks_exact(dimension);
    for source in sources {
        match source.row() {
            None => matrix.extend(written.next().into_iter().flatten()),
            Some(row) => append_widened(store.memory(row), &mut matrix),
        }
    }
    matrix
}

/// Appends stored elements, each exactly representable in f32.
fn append_widened(elements: Option<Elements<'_>>, values: &mut Vec<f32>) {
    match elements {
        None => {}
        Some(Elements::F32(row)) => values.extend_from_slice(row),
        Some(Elements::F16(row)) => values.extend(row.iter().map(|value| value.to_f32())),
        Some(Elements::Bf16(row)) => values.extend(row.iter().map(|value| value.to_f32())),
    }
}
