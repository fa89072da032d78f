//! What the selectors refuse, told in terms of the vectors they were given.

/// A fault in what a selector was given. Callers that know names put the pool's and the candidate's before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A vector without direction.
    #[error("{} is all zeros; a vector without direction cannot be compared, remove it or embed it again", whose(*row))]
    ZeroVector {
        /// The candidate's position in the pool; `None` is the query.
        row: Option<usize>,
    },
    /// A vector with a NaN or an infinity.
    #[error("{} holds a NaN or an infinity; remove it or embed it again", whose(*row))]
    NotFinite {
        /// The candidate's position in the pool; `None` is the query.
        row: Option<usize>,
    },
    /// Query and candidates differ in length.
    #[error(
        "the query has {query} dimensions and the candidates have {candidates}; embed both with one model"
    )]
    Dimension { query: usize, candidates: usize },
    /// A matrix that is not a whole number of rows.
    #[error(
        "{elements} elements are not a whole number of rows of {dimension}; give [rows, dimension] row by row"
    )]
    Shape { elements: usize, dimension: usize },
    /// Rows that would overlap, or that have no elements at all.
    #[error(
        "a row stride of {stride} cannot hold rows of {dimension} elements; it must be at least the dimension, and that at least 1"
    )]
    Stride { stride: usize, dimension: usize },
    /// A candidate that points outside the store.
    #[error("candidate {row} is row {index} of a store of {rows} rows; rows count from 0")]
    RowOutOfStore { row: usize, index: u32, rows: usize },
    /// An option outside its range.
    #[error("{name} is {value}, and it must be {range}")]
    Option { name: &'static str, value: Value, range: &'static str },
}

/// The offending value of [`Error::Option`], comparable so that errors are.
#[derive(Debug, Clone, Copy)]
pub struct Value(pub f64);

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Value {}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

fn whose(row: Option<usize>) -> String {
    match row {
        None => "the query".to_owned(),
        Some(row) => format!("candidate {row}"),
    }
}
