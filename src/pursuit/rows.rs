//! Vectors where they lie: borrowed elements of three widths, and the rows of a pool among them.

use half::{bf16, f16};

use super::Error;

/// A run of vector elements as they are stored. Every element is exactly a float64, so a selector's answer is
/// defined by the stored values alone; rows are never widened as a whole.
#[derive(Debug, Clone, Copy)]
pub enum Elements<'a> {
    F32(&'a [f32]),
    F16(&'a [f16]),
    Bf16(&'a [bf16]),
}

impl<'a> Elements<'a> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Elements::F32(elements) => elements.len(),
            Elements::F16(elements) => elements.len(),
            Elements::Bf16(elements) => elements.len(),
        }
    }

    /// True where there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The `count` elements from `start` on.
    ///
    /// # Panics
    /// Where they are not all there.
    pub fn slice(&self, start: usize, count: usize) -> Elements<'a> {
        match *self {
            Elements::F32(elements) => Elements::F32(&elements[start..start + count]),
            Elements::F16(elements) => Elements::F16(&elements[start..start + count]),
            Elements::Bf16(elements) => Elements::Bf16(&elements[start..start + count]),
        }
    }
}

impl<'a> From<&'a [f32]> for Elements<'a> {
    fn from(elements: &'a [f32]) -> Self {
        Elements::F32(elements)
    }
}

impl<'a> From<&'a [f16]> for Elements<'a> {
    fn from(elements: &'a [f16]) -> Self {
        Elements::F16(elements)
    }
}

impl<'a> From<&'a [bf16]> for Elements<'a> {
    fn from(elements: &'a [bf16]) -> Self {
        Elements::Bf16(elements)
    }
}

/// The candidates of a pool, `[P, dimension]`, as rows of a larger run of elements: all of them, every
/// `stride` elements one, or the rows that an index names. Nothing is copied.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    elements: Elements<'a>,
    dimension: usize,
    stride: usize,
    index: Option<&'a [u32]>,
    len: usize,
}

impl<'a> Rows<'a> {
    /// Every row of a dense matrix `[rows, dimension]`.
    ///
    /// # Errors
    /// [`Error::Stride`] for a dimension of 0, [`Error::Shape`] where the elements end inside a row.
    pub fn dense(elements: Elements<'a>, dimension: usize) -> Result<Self, Error> {
        if dimension == 0 {
            return Err(Error::Stride { stride: 0, dimension });
        }
        if !elements.len().is_multiple_of(dimension) {
            return Err(Error::Shape { elements: elements.len(), dimension });
        }
        Ok(Self { elements, dimension, stride: dimension, index: None, len: elements.len() / dimension })
    }

    /// The rows that `index` names of a dense matrix `[N, dimension]`: candidate `i` is row `index[i]`.
    ///
    /// # Errors
    /// As [`Rows::dense`], and [`Error::RowOutOfStore`].
    pub fn gathered(elements: Elements<'a>, dimension: usize, index: &'a [u32]) -> Result<Self, Error> {
        Self::dense(elements, dimension)?.pick(index)
    }

    /// The same elements read with `stride` elements from one row's start to the next (the last row need not
    /// be followed by padding).
    ///
    /// # Errors
    /// [`Error::Stride`] where rows would overlap; [`Error::RowOutOfStore`] where an index now points outside.
    pub fn strided(elements: Elements<'a>, dimension: usize, stride: usize) -> Result<Self, Error> {
        if dimension == 0 || stride < dimension {
            return Err(Error::Stride { stride, dimension });
        }
        let len = match elements.len() {
            0 => 0,
            total if total < dimension => return Err(Error::Shape { elements: total, dimension }),
            total => (total - dimension) / stride + 1,
        };
        Ok(Self { elements, dimension, stride, index: None, len })
    }

    /// Of these rows, the ones that `index` names.
    ///
    /// # Errors
    /// [`Error::RowOutOfStore`].
    pub fn pick<'b>(self, index: &'b [u32]) -> Result<Rows<'b>, Error>
    where
        'a: 'b,
    {
        let rows = self.len;
        debug_assert!(self.index.is_none(), "picking twice would need a composed index");
        if let Some((row, &index)) = index.iter().enumerate().find(|&(_, &row)| row as usize >= rows) {
            return Err(Error::RowOutOfStore { row, index, rows });
        }
        Ok(Rows { index: Some(index), len: index.len(), ..self })
    }

    /// Number of candidates, P.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for a pool without candidates.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Length of one vector.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// All the elements that the rows lie in.
    pub(super) fn elements(&self) -> Elements<'a> {
        self.elements
    }

    /// The row of the store that row `row` is.
    #[inline(always)]
    pub(super) fn stored(&self, row: usize) -> usize {
        match self.index {
            Some(index) => index[row] as usize,
            None => row,
        }
    }

    /// Where row `row` starts among the elements.
    #[inline(always)]
    pub(super) fn start(&self, row: usize) -> usize {
        self.stored(row) * self.stride
    }

    /// Row `row`, `[dimension]`.
    pub(super) fn row(&self, row: usize) -> Elements<'a> {
        self.elements.slice(self.start(row), self.dimension)
    }
}
