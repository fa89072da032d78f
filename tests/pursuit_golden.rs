//! The 46 golden cases: every degenerate kind, with values from 60-digit arithmetic.

mod pursuit_support;

use pursuit_support::{Case, compare_with_golden, golden};
use rerank_bench::pursuit::{Elements, Options, Path, Rows, Scratch, Stop, pursue};

fn run(case: &Case, options: &Options, scratch: &mut Scratch) -> Path {
    let matrix = case.matrix();
    let rows = Rows::dense(Elements::F32(&matrix), case.d).unwrap();
    pursue(Elements::F32(&case.q), &rows, options, scratch).unwrap()
}

#[test]
fn orders_and_traces_are_the_golden_ones() {
    let mut scratch = Scratch::new();
    for case in golden() {
        let path = run(&case, &case.options(), &mut scratch);
        compare_with_golden(&case, &path);
        assert_eq!(path.weights, path.trace.last().unwrap().weights, "{}", case.name);
    }
}

#[test]
fn the_trace_changes_nothing() {
    let mut scratch = Scratch::new();
    for case in golden() {
        let traced = run(&case, &case.options(), &mut scratch);
        let plain = run(&case, &Options { trace: false, ..case.options() }, &mut scratch);
        assert_eq!(
            (&plain.order, &plain.scores, &plain.weights),
            (&traced.order, &traced.scores, &traced.weights)
        );
        assert!(plain.trace.is_empty());
    }
}

#[test]
fn the_adaptive_stop_fires_where_the_golden_one_does() {
    let mut scratch = Scratch::new();
    for case in golden() {
        let options = Options { stop: Some(Stop::default()), ..case.options() };
        let path = run(&case, &options, &mut scratch);
        assert_eq!(path.order.len(), case.expected.k_adaptive, "{}", case.name);
        assert_eq!(path.order, case.expected.order[..path.order.len()], "{}", case.name);
    }
}
