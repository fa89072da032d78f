//! The 46 golden cases: every degenerate kind, with values from 60-digit arithmetic.

mod pursuit_support;

use pursuit_support::{Case, golden};
use rerank_bench::pursuit::{Elements, Normalize, Options, Path, Rows, Scratch, Stop, pursue};

/// The goldens take their vectors as they are (unit only to float32 rounding).
fn options(case: &Case) -> Options {
    Options { budget: case.budget, ridge: case.lam, normalize: Normalize::No, stop: None, trace: true }
}

fn run(case: &Case, options: &Options, scratch: &mut Scratch) -> Path {
    let matrix = case.matrix();
    let rows = Rows::dense(Elements::F32(&matrix), case.d).unwrap();
    pursue(Elements::F32(&case.q), &rows, options, scratch).unwrap()
}

fn close(name: &str, what: &str, got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len(), "{name}: {what}");
    for (step, (got, expected)) in got.iter().zip(expected).enumerate() {
        let off = (got - expected).abs();
        assert!(off <= tolerance, "{name}, step {}: {what} {got} for {expected}, off by {off:e}", step + 1);
    }
}

#[test]
fn orders_and_traces_are_the_golden_ones() {
    let mut scratch = Scratch::new();
    for case in golden() {
        let path = run(&case, &options(&case), &mut scratch);
        let (name, expected) = (&case.name, &case.expected);
        assert_eq!(path.order, expected.order, "{name}");
        close(name, "score", &path.scores, &expected.score, 1e-12);
        let column =
            |of: fn(&rerank_bench::pursuit::Step) -> f64| path.trace.iter().map(of).collect::<Vec<_>>();
        close(name, "residual", &column(|step| step.residual), &expected.residual, 1e-12);
        close(name, "objective", &column(|step| step.objective), &expected.objective, 1e-12);
        close(name, "reduction", &column(|step| step.reduction), &expected.reduction, 1e-12);
        close(name, "nu", &column(|step| step.nu), &expected.nu, 1e-12);
        close(name, "certificate", &column(|step| step.certificate), &expected.cert, 1e-12);
        for (step, expected) in path.trace.iter().zip(&expected.weights) {
            // Weights of coinciding memories are only as good as λ against the rounding of float64.
            let copies = name.contains("duplicate") || case.exact_or_near_ties;
            close(name, "weights", &step.weights, expected, if copies { 2e-6 } else { 1e-9 });
            assert!((step.weights.iter().sum::<f64>() - 1.0).abs() <= 1e-14, "{name}");
        }
        assert_eq!(path.weights, path.trace.last().unwrap().weights, "{name}");
    }
}

#[test]
fn the_trace_changes_nothing() {
    let mut scratch = Scratch::new();
    for case in golden() {
        let traced = run(&case, &options(&case), &mut scratch);
        let plain = run(&case, &Options { trace: false, ..options(&case) }, &mut scratch);
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
        let options = Options { stop: Some(Stop::default()), ..options(&case) };
        let path = run(&case, &options, &mut scratch);
        assert_eq!(path.order.len(), case.expected.k_adaptive, "{}", case.name);
        assert_eq!(path.order, case.expected.order[..path.order.len()], "{}", case.name);
    }
}
