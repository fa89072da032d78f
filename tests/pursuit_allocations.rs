//! A pursuit allocates what it returns and nothing per step, once its scratch has met a pool as large.

mod pursuit_support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use pursuit_support::golden;
use rerank_bench::pursuit::{Elements, Options, Rows, Scratch, pursue};

struct Counting;

thread_local! {
    /// Of this thread alone: the test harness allocates on others.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the same.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn steps_allocate_nothing() {
    let cases = golden();
    let case = cases.iter().find(|case| case.name == "multi_a").unwrap();
    let matrix = case.matrix();
    let rows = Rows::dense(Elements::F32(&matrix), case.d).unwrap();
    let mut scratch = Scratch::new();
    let mut count = |budget: usize| {
        let options = Options { budget, ..Options::default() };
        pursue(Elements::F32(&case.q), &rows, &options, &mut scratch).unwrap();
        let before = ALLOCATIONS.get();
        pursue(Elements::F32(&case.q), &rows, &options, &mut scratch).unwrap();
        ALLOCATIONS.get() - before
    };
    let counts = [1, 2, 5, 20, 100].map(&mut count);
    // Order, scores and weights.
    assert_eq!(counts, [3; 5]);
}
