//! What comes in: a query with its candidates, read from files or generated.
//!
//! A [`Pool`] keeps texts and vectors apart from where they came from: candidates that share a memory store
//! point into it ([`Store`], memory-mapped), pools with inline embeddings own a small matrix. Selectors look
//! at [`Pool::vectors`], rerankers at [`Pool::texts`].

mod calendar;
pub mod jsonl;
pub mod locomo;
mod store;
pub mod synthetic;

pub use store::{Elements, Store, StoreDtype};

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::{Error, Result};

/// One candidate memory or passage, without its vector.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Candidate {
    /// Id as given; `None` means its 0-based index in the pool ([`Pool::candidate_id`]).
    pub id: Option<String>,
    /// The text a reranker reads. An empty text is a text.
    pub text: Option<String>,
    /// ISO 8601 time stamp, as given.
    pub timestamp: Option<String>,
    /// Session the memory came from.
    pub session: Option<String>,
}

/// Where a pool's vectors lie.
#[derive(Debug, Clone, Default)]
pub enum Vectors {
    /// The pool came without embeddings.
    #[default]
    None,
    /// Some vectors are there and some are not: a reranker can use the pool, a selector cannot.
    Incomplete(Missing),
    /// The pool's own matrix `[P, dimension]`, row-major, and its query `[dimension]`.
    Inline { query: Vec<f32>, rows: Vec<f32>, dimension: usize },
    /// Rows of a shared store: candidate `i` is row `rows[i]` of its memories, the query is `query`.
    Stored { store: Arc<Store>, query: StoredQuery, rows: Vec<u32> },
}

/// The first vector that an incomplete pool lacks.
#[derive(Debug, Clone)]
pub enum Missing {
    Query,
    /// The candidate at `index`; `before` are the vectors of the query and the candidates before it.
    Candidate {
        index: usize,
        before: Box<Vectors>,
    },
}

/// The query vector of a pool whose candidates lie in a store.
#[derive(Debug, Clone, PartialEq)]
pub enum StoredQuery {
    /// Row of the store's `queries` tensor.
    Row(u32),
    /// Given inline, `[dimension]`.
    Inline(Vec<f32>),
}

/// A query with its candidates, in the order in which retrieval returned them.
#[derive(Debug, Clone, Default)]
pub struct Pool {
    /// The pool's id; for files without ids the 1-based line number.
    pub id: String,
    /// Query text, for rerankers.
    pub query: Option<String>,
    /// Candidates in retrieval order. Pools over one memory table share their entries.
    pub candidates: Vec<Arc<Candidate>>,
    /// Embeddings, for selectors.
    pub vectors: Vectors,
    /// Ids of the memories that answer the query; may name memories outside the pool.
    pub gold: Vec<String>,
    /// Question category, as given.
    pub category: Option<String>,
}

impl Pool {
    /// Number of candidates, P.
    pub fn len(&self) -> usize {
        self.candidates.len()
    }

    /// True for a pool without candidates.
    pub fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }

    /// The candidate's id, or its 0-based index where it has none.
    pub fn candidate_id(&self, index: usize) -> Cow<'_, str> {
        candidate_id(&self.candidates, index)
    }

    /// Query and candidate texts, as rerankers need them.
    ///
    /// # Errors
    /// A missing or empty query, or a candidate without text: named with pool and candidate.
    pub fn texts(&self) -> Result<(&str, Vec<&str>)> {
        let query = match self.query.as_deref() {
            Some(query) if !query.trim().is_empty() => query,
            Some(_) => return Err(Error::pool(&self.id, "the query is empty, and a reranker needs one")),
            None => {
                return Err(Error::pool(
                    &self.id,
                    "no \"query\" text, and a reranker needs one; selectors work on \"query_embedding\" alone",
                ));
            }
        };
        let mut texts = Vec::with_capacity(self.len());
        for (index, candidate) in self.candidates.iter().enumerate() {
            texts.push(candidate.text.as_deref().ok_or_else(|| {
                Error::candidate(
                    &self.id,
                    self.candidate_id(index),
                    "no \"text\", and a reranker reads texts; give one, or use a selector",
                )
            })?);
        }
        Ok((query, texts))
    }

    /// The vectors of query and candidates, as selectors need them; [`Vectors::None`] only where there is no
    /// candidate either.
    ///
    /// # Errors
    /// A vector is missing: named with pool and candidate.
    pub fn require_vectors(&self) -> Result<&Vectors> {
        let index = match &self.vectors {
            Vectors::Inline { .. } | Vectors::Stored { .. } => return Ok(&self.vectors),
            _ if self.is_empty() => return Ok(&Vectors::None),
            Vectors::Incomplete(Missing::Query) => {
                return Err(Error::pool(
                    &self.id,
                    "no \"query_embedding\", and a selector needs one; embed the pool first, or use a reranker",
                ));
            }
            Vectors::None => 0,
            Vectors::Incomplete(Missing::Candidate { index, .. }) => *index,
        };
        Err(Error::candidate(
            &self.id,
            self.candidate_id(index),
            "no \"embedding\", and a selector needs one; embed the pool first, or use a reranker",
        ))
    }

    /// Dimension of the pool's vectors, where it has all of them.
    pub fn dimension(&self) -> Option<usize> {
        match &self.vectors {
            Vectors::None | Vectors::Incomplete(_) => None,
            Vectors::Inline { dimension, .. } => Some(*dimension),
            Vectors::Stored { store, .. } => Some(store.dimension()),
        }
    }

    /// Keeps the first `count` candidates (`--candidates` on files).
    pub fn truncate(&mut self, count: usize) {
        self.candidates.truncate(count);
        self.vectors.truncate(count);
    }
}

impl Vectors {
    fn truncate(&mut self, count: usize) {
        match self {
            Vectors::None | Vectors::Incomplete(Missing::Query) => {}
            Vectors::Inline { rows, dimension, .. } => rows.truncate(count.saturating_mul(*dimension)),
            Vectors::Stored { rows, .. } => rows.truncate(count),
            Vectors::Incomplete(Missing::Candidate { index, before }) if *index >= count => {
                before.truncate(count);
                *self = std::mem::take(&mut **before);
            }
            Vectors::Incomplete(Missing::Candidate { .. }) => {}
        }
    }
}

/// The id of the candidate at `index`, or that index where it has none.
fn candidate_id(candidates: &[Arc<Candidate>], index: usize) -> Cow<'_, str> {
    match &candidates[index].id {
        Some(id) => Cow::Borrowed(id),
        None => Cow::Owned(index.to_string()),
    }
}
