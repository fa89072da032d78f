//! Opening a card: on a machine with one, the selector agrees with the CPU; on any other, a sentence says what is missing.

use rerank_bench::pursuit::cuda::Gpu;

#[test]
fn a_card_works_or_its_absence_is_one_sentence() {
    match Gpu::open(0) {
        Ok(gpu) => {
            for check in gpu.self_test().unwrap() {
                assert!(check.passed(), "{}: {check:?}", gpu.description().name);
            }
        }
        Err(fault) => {
            let sentence = fault.to_string();
            println!("no card: {sentence}");
            assert_eq!(fault.exit_code(), 1);
            assert!(sentence.contains("--device cpu") || sentence.contains("driver"), "{sentence}");
            assert!(!sentence.contains('\n'), "{sentence}");
        }
    }
}

#[test]
fn a_card_that_is_not_there_is_no_panic() {
    assert!(Gpu::open(1_000).is_err());
}
