//! The emulator itself: it runs what is right and reports what is wrong.

use std::ffi::c_void;

use rerank_bench::pursuit::cuda::emulator::{Guarded, ThreadOrder, launch};

const ORDERS: [ThreadOrder; 5] = [
    ThreadOrder::Ascending,
    ThreadOrder::Descending,
    ThreadOrder::Shuffled(1),
    ThreadOrder::Shuffled(2),
    ThreadOrder::WarpByWarp,
];

/// Runs a kernel of `kernels/emu/selftest.h`: a buffer of `words` first, then numbers.
fn run(
    kernel: &str,
    (grid, threads): (u32, u32),
    shared_bytes: usize,
    words: usize,
    numbers: &[u32],
    order: ThreadOrder,
) -> Result<Vec<u32>, String> {
    let buffer = Guarded::new(4 * words);
    let mut address = buffer.as_ptr();
    let mut numbers = numbers.to_vec();
    let mut arguments: Vec<*mut c_void> = vec![(&raw mut address).cast()];
    arguments.extend(numbers.iter_mut().map(|number| (number as *mut u32).cast()));
    // SAFETY: every kernel run here takes a pointer and then as many numbers as the test gives.
    unsafe { launch(kernel, grid, threads, shared_bytes, &mut arguments, order)? };
    Ok(buffer.as_slice().as_chunks::<4>().0.iter().map(|&word| u32::from_ne_bytes(word)).collect())
}

#[test]
fn barriers_pass_values_through_shared_memory() {
    for order in ORDERS {
        for threads in [32, 64, 256, 1024] {
            let out = run("neighbour", (2, threads), 4 * threads as usize, 2 * threads as usize, &[1], order)
                .unwrap();
            let expected: Vec<u32> = (0..threads).map(|thread| (thread + 1) % threads).collect();
            assert_eq!(out, [expected.clone(), expected].concat(), "{order:?}, {threads} threads");
        }
    }
}

/// A kernel with a missing barrier is right by luck in some orders; it must be wrong in at least one of ours.
#[test]
fn a_missing_barrier_shows_in_some_order() {
    for kernel in ["neighbour", "warp_neighbour"] {
        let results = ORDERS.map(|order| run(kernel, (1, 32), 128, 32, &[0], order).unwrap());
        let right = run(kernel, (1, 32), 128, 32, &[1], ThreadOrder::Ascending).unwrap();
        assert!(results.iter().any(|result| *result != right), "{kernel}");
    }
}

#[test]
fn warp_primitives_see_all_lanes() {
    for order in ORDERS {
        let out = run("warp_primitives", (1, 32), 16, 64, &[], order).unwrap();
        assert_eq!(out[..32], [496; 32], "{order:?}");
        assert_eq!(out[32..], [0xaaaa_aaaa; 32], "{order:?}");
    }
}

#[test]
fn divergence_and_deadlock_are_reported_with_their_lines() {
    for order in ORDERS {
        let fault = |kernel| run(kernel, (1, 64), 16, 64, &[], order).unwrap_err();
        assert!(
            fault("divergent_barrier").starts_with("divergent barrier: __syncthreads at line"),
            "{order:?}"
        );
        assert!(fault("divergent_warp").starts_with("divergent warp: "), "{order:?}");
        let deadlock = fault("deadlock");
        assert!(deadlock.contains("deadlock in block 0") || deadlock.contains("divergent"), "{deadlock}");
    }
}

#[test]
fn threads_that_return_are_not_waited_for() {
    for order in ORDERS {
        let out = run("early_return", (1, 64), 16, 64, &[], order).unwrap();
        assert!(
            out.iter().enumerate().all(|(thread, &value)| (value == 1) == (thread % 2 == 0)),
            "{order:?}"
        );
    }
}

#[test]
fn accesses_out_of_bounds_are_reported() {
    for words in [1, 4, 5, 1000, 1024] {
        let padded = (4 * words as usize).next_multiple_of(16) as u32 / 4;
        assert!(run("touch", (1, 32), 16, words as usize, &[words - 1], ThreadOrder::Ascending).is_ok());
        let fault = run("touch", (1, 32), 16, words as usize, &[padded], ThreadOrder::Ascending).unwrap_err();
        assert!(fault.contains("bytes past the end of a buffer of"), "{fault}");
    }
}

/// Between a buffer's end and the next multiple of 16 there is no page to guard; a write there shows when the
/// buffer is freed.
#[test]
fn a_write_just_past_the_end_is_found_when_the_buffer_is_freed() {
    let fault = std::panic::catch_unwind(|| run("touch", (1, 32), 16, 5, &[5], ThreadOrder::Ascending));
    let message = fault.unwrap_err();
    assert!(message.downcast_ref::<&str>().is_some_and(|text| text.contains("past the end")));
}

#[test]
fn shared_memory_is_poisoned_and_bounded() {
    let read = |at| run("shared_touch", (1, 32), 64, 1, &[at, 0], ThreadOrder::Ascending);
    let write = |at| run("shared_touch", (1, 32), 64, 1, &[at, 1], ThreadOrder::Ascending);
    assert_eq!(read(3).unwrap(), [u32::MAX]);
    assert!(write(15).is_ok());
    assert!(read(16).unwrap_err().contains("past the end"));
    assert!(write(16).unwrap_err().contains("past the end"));
    let fault = run("shared_touch", (1, 32), 60, 1, &[15, 1], ThreadOrder::Ascending).unwrap_err();
    assert!(fault.contains("past the end of its shared memory"), "{fault}");
}

#[test]
fn blocks_take_turns_at_global_memory() {
    let counter = Guarded::new(4);
    let taken = Guarded::new(4 * 40);
    // SAFETY: four bytes of the buffer's own memory.
    unsafe { counter.as_ptr().cast::<u32>().write(0) };
    let (mut next, mut takers, mut count) = (counter.as_ptr(), taken.as_ptr(), 40_u32);
    let mut arguments: [*mut c_void; 3] =
        [(&raw mut next).cast(), (&raw mut takers).cast(), (&raw mut count).cast()];
    // SAFETY: `queue` takes two pointers and a number; both buffers are as large as it uses them.
    unsafe { launch("queue", 3, 64, 16, &mut arguments, ThreadOrder::Ascending).unwrap() };
    let by: Vec<u32> =
        taken.as_slice().as_chunks::<4>().0.iter().map(|&word| u32::from_ne_bytes(word)).collect();
    assert!((0..3).all(|block| by.contains(&block)), "{by:?}");
    assert!(by.iter().all(|&block| block < 3), "{by:?}");
}

#[test]
fn impossible_launches_are_refused() {
    let mut none: [*mut c_void; 0] = [];
    let mut refuse = |kernel: &str, threads, shared| {
        // SAFETY: nothing is run.
        unsafe { launch(kernel, 1, threads, shared, &mut none, ThreadOrder::Ascending) }.unwrap_err()
    };
    assert_eq!(refuse("no_such_kernel", 32, 0), "no kernel of this name");
    assert!(refuse("touch", 33, 0).contains("whole warps"));
    assert!(refuse("touch", 2048, 0).contains("32 to 1024"));
    assert!(refuse("touch", 32, 1 << 20).contains("227 KiB"));
}
