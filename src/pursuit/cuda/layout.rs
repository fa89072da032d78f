//! What host and kernel hand each other, as `kernels/plan.h` and `kernels/room.h` lay it out.

/// Candidates that a pool may have on the GPU.
pub const MAX_CANDIDATES: usize = 1024;
/// Steps that a pursuit on the GPU may be asked for.
pub const MAX_BUDGET: usize = 128;
/// Shared memory that a block may have on every card from sm_80 on, in bytes.
pub(super) const SHARED_LIMIT: usize = 99 * 1024;
/// Threads of a block.
pub(super) const THREADS: u32 = 256;
/// Rows begin at multiples of this many elements, 16 bytes or more.
pub(super) const STRIDE_UNIT: usize = 8;

const COLUMNS: usize = 4;
const SHARED_MATRICES: usize = 32;
const REDUCER_SLOTS: usize = 16;
const SHARED_STRUCT: usize = 56;
const SIMPLEX_STATE: usize = 32;

/// The launch, passed by value; field by field as in `kernels/plan.h`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Plan {
    pub tasks: u64,
    pub workspace: u64,
    pub next: u64,
    pub outcomes: u64,
    pub order: u64,
    pub scores: u64,
    pub weights: u64,
    pub trace: u64,
    pub trace_weights: u64,
    pub workspace_bytes: u64,
    pub ridge: f64,
    pub tolerance: f64,
    pub pools: u32,
    pub budget: u32,
    pub capacity: u32,
    pub stride: u32,
    pub columns: u32,
    pub slots: u32,
    pub patience: u32,
    pub normalize: u32,
}

/// One pool of the launch, as four words: addresses of rows, query and index (0: none), and the count.
pub(super) fn task(rows: u64, query: u64, index: u64, count: usize) -> [u64; 4] {
    [rows, query, index, count as u64]
}

/// A pool's answer beside its lists, as eight words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outcome {
    pub fault: u32,
    pub fault_row: u32,
    pub selected: u32,
    pub optimum: u32,
    pub stopped: u32,
    pub passes: u32,
    pub settled: u32,
}

impl Outcome {
    pub(super) const BYTES: usize = 32;

    pub(super) fn read(bytes: &[u8]) -> Self {
        let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|k| bytes[4 * at + k]));
        Self {
            fault: word(0),
            fault_row: word(1),
            selected: word(2),
            optimum: word(3),
            stopped: word(4),
            passes: word(5),
            settled: word(6),
        }
    }
}

/// The parts of a plan that decide how much memory a block needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Candidates of the largest pool.
    pub capacity: usize,
    /// Steps, at most [`MAX_BUDGET`] and at most the capacity.
    pub budget: usize,
    /// Elements from row to row.
    pub stride: usize,
    /// Columns of a pass.
    pub columns: usize,
}

impl Shape {
    /// The shape with as many columns a pass as shared memory has room for; `None` where it has none for one.
    pub(super) fn fit(capacity: usize, budget: usize, stride: usize) -> Option<Self> {
        (1..=COLUMNS)
            .rev()
            .map(|columns| Self { capacity, budget, stride, columns })
            .find(|shape| shape.shared_bytes() <= SHARED_LIMIT)
    }

    /// Columns that a block can keep: a pass fetches at least one that a selected memory needs, and the first one
    /// guesses besides.
    pub(super) fn slots(&self) -> usize {
        self.capacity.min(self.columns * self.budget + self.columns - 1)
    }

    /// Shared memory of a block.
    pub(super) fn shared_bytes(&self) -> usize {
        let (p, k) = (self.capacity, self.budget);
        let mut carved = Carved(0);
        carved.piece(SHARED_STRUCT, 1).piece(8, REDUCER_SLOTS).piece(4, COLUMNS).piece(8, COLUMNS);
        carved.piece(4, self.columns * self.stride);
        for bytes in [8, 8, 4, 4, 4, 4, 2, 2, 2, 1, 1] {
            carved.piece(bytes, p);
        }
        carved.piece(4, k).piece(8, k + 1).piece(4, k).piece(8, k).piece(4, k);
        carved.piece(SIMPLEX_STATE, 1);
        for bytes in [8, 8, 8, 8, 8, 8, 8, 4, 1, 1] {
            carved.piece(bytes, k);
        }
        if k <= SHARED_MATRICES {
            self.matrices(&mut carved);
        }
        carved.0
    }

    /// Global memory of a block.
    pub(super) fn workspace_bytes(&self) -> usize {
        let mut carved = Carved(0);
        if self.budget > SHARED_MATRICES {
            self.matrices(&mut carved);
        }
        carved.piece(8, self.stride).piece(4, self.slots() * self.capacity);
        carved.0
    }

    fn matrices(&self, carved: &mut Carved) {
        let leading = self.budget | 1;
        carved.piece(8, self.budget * leading).piece(8, self.budget * leading);
    }
}

/// Adds up pieces as the kernel's `Carver` cuts them.
struct Carved(usize);

impl Carved {
    fn piece(&mut self, bytes: usize, count: usize) -> &mut Self {
        self.0 += (bytes * count).next_multiple_of(16);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typical_pools_leave_room_for_two_blocks_and_four_columns() {
        let shape = Shape::fit(200, 20, 1536).unwrap();
        assert_eq!(shape.columns, 4);
        assert!(2 * shape.shared_bytes() <= SHARED_LIMIT, "{}", shape.shared_bytes());
    }

    #[test]
    fn longer_vectors_get_fewer_columns_and_then_none() {
        let columns = |stride| Shape::fit(MAX_CANDIDATES, MAX_BUDGET, stride).map(|shape| shape.columns);
        for (longest, expected) in [(3032, 4), (4048, 3), (6072, 2), (12_152, 1)] {
            assert_eq!(columns(longest), Some(expected), "{longest}");
            assert_eq!(columns(longest + STRIDE_UNIT).unwrap_or(0), expected - 1, "{longest}");
        }
    }
}
