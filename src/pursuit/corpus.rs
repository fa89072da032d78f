//! Many questions over one store.

use rayon::prelude::*;

use super::cache::Cache;
use super::pool::Lengths;
use super::pursue::pursue_in;
use super::{Elements, Error, Normalize, Options, Path, Rows, Scratch};

/// A store of memories that many questions select from.
///
/// What does not depend on the question is kept: the memories' lengths, and their similarities to the memories
/// that were selected before, as they come up. Answers are those of [`pursue`](super::pursue) on the same rows,
/// to the last bit of the order. Several threads may ask at once.
#[derive(Debug)]
pub struct Corpus<'a> {
    memories: Rows<'a>,
    normalize: Normalize,
    lengths: Lengths,
    cache: Cache,
}

/// One question of [`Corpus::select_many`]: a query and the store's rows that it may select.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    pub query: Elements<'a>,
    pub rows: &'a [u32],
}

impl<'a> Corpus<'a> {
    /// A corpus over a dense store `[N, dimension]`, whose kept similarities may take `cache_bytes`. Looks at
    /// every memory once; memories that no selector can work with are refused when a question names them.
    ///
    /// # Errors
    /// As [`Rows::dense`].
    pub fn new(
        memories: Elements<'a>,
        dimension: usize,
        normalize: Normalize,
        cache_bytes: usize,
    ) -> Result<Self, Error> {
        let memories = Rows::dense(memories, dimension)?;
        let mut lengths = Lengths::default();
        lengths.extend(&memories, normalize);
        Ok(Self { memories, normalize, lengths, cache: Cache::new(memories.len(), cache_bytes) })
    }

    /// The same corpus after memories were appended: `memories` starts with the rows of before. Nothing known of
    /// those is computed again.
    ///
    /// # Errors
    /// As [`Rows::dense`], and [`Error::Shape`] for a store that is shorter than before.
    pub fn grown(self, memories: Elements<'_>) -> Result<Corpus<'_>, Error> {
        let Corpus { memories: before, normalize, mut lengths, mut cache } = self;
        let memories = Rows::dense(memories, before.dimension())?;
        if memories.len() < before.len() {
            let elements = memories.len() * memories.dimension();
            return Err(Error::Shape { elements, dimension: before.dimension() });
        }
        lengths.extend(&memories, normalize);
        cache.grow(memories.len());
        Ok(Corpus { memories, normalize, lengths, cache })
    }

    /// Number of memories, N.
    pub fn len(&self) -> usize {
        self.memories.len()
    }

    /// True for a store without memories.
    pub fn is_empty(&self) -> bool {
        self.memories.is_empty()
    }

    /// Bytes that the kept similarities take at present.
    pub fn cached_bytes(&self) -> usize {
        self.cache.bytes()
    }

    /// Selects from the memories that `rows` names, as [`pursue`](super::pursue) does; the path's order counts
    /// within `rows`. [`Options::normalize`] must be the corpus's own.
    ///
    /// # Errors
    /// As [`pursue`](super::pursue); [`Error::RowOutOfStore`].
    pub fn select(
        &self,
        query: Elements<'_>,
        rows: &[u32],
        options: &Options,
        scratch: &mut Scratch,
    ) -> Result<Path, Error> {
        let rows = self.memories.pick(rows)?;
        let options = Options { normalize: self.normalize, ..*options };
        pursue_in(query, &rows, &options, scratch, Some((&self.lengths, &self.cache)))
    }

    /// Answers many questions on the threads of the current rayon pool, in the order of the questions. One that
    /// fails spoils no other.
    pub fn select_many(&self, questions: &[Question<'_>], options: &Options) -> Vec<Result<Path, Error>> {
        questions
            .par_iter()
            .with_min_len(8)
            .map_init(Scratch::new, |scratch, question| {
                self.select(question.query, question.rows, options, scratch)
            })
            .collect()
    }
}
