//! From a pool to the slices that selectors work on, and from their answers and faults back to the pool.

use std::cell::RefCell;

use super::{Pick, Selection};
use crate::error::{Error, Result};
use crate::pool::{Pool, StoredQuery, Vectors};
use crate::pursuit::{self, Elements, Path, Rows, Scratch};

thread_local! {
    /// One a thread: selectors allocate nothing of size from pool to pool.
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::new());
}

/// Runs a selector of [`crate::pursuit`] on the pool's vectors, where they lie.
///
/// # Errors
/// Vectors that are missing, and what the selector refuses: named with pool and candidate.
pub fn select(
    pool: &Pool,
    selector: impl FnOnce(Elements<'_>, &Rows<'_>, &mut Scratch) -> Result<Path, pursuit::Error>,
) -> Result<Selection> {
    let vectors = pool.require_vectors()?;
    let (query, rows) = match vectors {
        Vectors::None | Vectors::Incomplete(_) => return Ok(Selection::default()),
        Vectors::Inline { query, rows, dimension } => {
            (Elements::F32(query), Rows::dense(Elements::F32(rows), *dimension))
        }
        Vectors::Stored { store, query, rows } => {
            let query = match query {
                StoredQuery::Row(row) => store.query(*row).ok_or_else(|| no_such_query(pool, *row))?,
                StoredQuery::Inline(vector) => Elements::F32(vector),
            };
            (query, Rows::gathered(store.memories(), store.dimension(), rows))
        }
    };
    rows.and_then(|rows| SCRATCH.with_borrow_mut(|scratch| selector(query, &rows, scratch)))
        .map(selection)
        .map_err(|fault| locate(pool, fault))
}

fn no_such_query(pool: &Pool, row: u32) -> Error {
    Error::pool(&pool.id, format!("its query is row {row} of the store's queries, and there are fewer"))
}

/// A path as picks.
pub(super) fn selection(path: Path) -> Selection {
    let weight = |step: usize| path.weights.get(step).copied();
    let picks = path.order.iter().zip(&path.scores).enumerate().map(|(step, (&index, &score))| Pick {
        index: index as usize,
        score,
        weight: weight(step),
        probability: None,
    });
    Selection { picks: picks.collect(), trace: path.trace, ..Selection::default() }
}

/// The selector's fault with the pool's and the candidate's ids.
pub(super) fn locate(pool: &Pool, fault: pursuit::Error) -> Error {
    use pursuit::Error::{NotFinite, RowOutOfStore, ZeroVector};
    match fault {
        ZeroVector { row: Some(row) } | NotFinite { row: Some(row) } | RowOutOfStore { row, .. }
            if row < pool.len() =>
        {
            Error::candidate(&pool.id, pool.candidate_id(row), fault.to_string())
        }
        _ => Error::pool(&pool.id, fault.to_string()),
    }
}
