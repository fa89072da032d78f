//! The measuring core and the reports on a fake clock: exact figures, exact text.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rerank_bench::measure::clock::{Clock, FakeClock, Stopwatch};
use rerank_bench::measure::environment::{Build, Environment};
use rerank_bench::measure::interleave::{Progress, Questions, Rules, measure};
use rerank_bench::measure::results::{Results, Row, Status, Tokens, Workload};
use rerank_bench::policy::{Description, Kind, Policy, Selection, Work};
use rerank_bench::pool::Pool;
use rerank_bench::report::{Csv, Exporter, Json, Markdown, Terminal};
use rerank_bench::{Error, Result};

/// Takes the scripted milliseconds, one call after the other, and books them as two stages.
struct Scripted {
    name: &'static str,
    kind: Kind,
    clock: Arc<FakeClock>,
    milliseconds: Vec<u64>,
    calls: AtomicUsize,
}

impl Scripted {
    fn new(name: &'static str, kind: Kind, clock: &Arc<FakeClock>, milliseconds: &[u64]) -> Self {
        let milliseconds = milliseconds.to_vec();
        Self { name, kind, clock: Arc::clone(clock), milliseconds, calls: AtomicUsize::new(0) }
    }
}

impl Policy for Scripted {
    fn name(&self) -> &str {
        self.name
    }

    fn describe(&self) -> Description {
        let reranker = self.kind != Kind::Selector;
        Description {
            kind: self.kind,
            engine: reranker.then(|| "packed".into()),
            device: "cpu".into(),
            dtype: "f32".into(),
            weights: if reranker { "random" } else { "none" }.into(),
            revision: None,
            prompt_hash: None,
            share_prefix: None,
            batch: reranker.then_some(128),
            notes: Vec::new(),
        }
    }

    fn select(&self, _: &Pool, _: usize) -> Result<Selection> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let Some(&time) = self.milliseconds.get(call) else {
            return Err(Error::OutOfMemory("the script ends here".into()));
        };
        let mut watch = Stopwatch::start(self.clock.as_ref());
        self.clock.advance(Duration::from_millis(time / 4));
        watch.lap("first");
        self.clock.advance(Duration::from_millis(time - time / 4));
        watch.lap("second");
        let work = match self.kind {
            Kind::Selector => Work::default(),
            _ => Work {
                passes: 2,
                real_tokens: 1234,
                truncated: 1,
                truncated_tokens: 7,
                token_lengths: vec![50, 60, 70],
                ..Work::default()
            },
        };
        Ok(Selection { stages: watch.finish(), work, ..Selection::default() })
    }
}

fn pools(count: usize) -> Vec<Pool> {
    (0..count).map(|i| Pool { id: format!("q{i}"), ..Pool::default() }).collect()
}

fn rules(warmup: usize, questions: Questions) -> Rules {
    Rules { top_k: 20, warmup, warm: false, questions }
}

/// MemPursuit at 2 ms and a cross-encoder at 100, 110, 120, 130 ms, after one warm-up each.
fn results() -> Results {
    let clock = Arc::new(FakeClock::new());
    let reference = Scripted::new("mempursuit", Kind::Selector, &clock, &[50, 2, 2, 2, 2]);
    let other = Scripted::new("bge-base", Kind::CrossEncoder, &clock, &[900, 100, 110, 120, 130]);
    let (base, times) = measure(
        clock.as_ref(),
        &reference,
        Some(&other),
        &pools(4),
        &rules(1, Questions::Fixed(4)),
        &mut |_| {},
    )
    .unwrap();
    Results {
        command: "rerank-bench --model bge-base --weights random".into(),
        environment: Environment {
            cpu: "Example CPU".into(),
            cores: 2,
            threads: 2,
            system: "linux x86_64".into(),
            gpu: None,
            driver: None,
            cuda: None,
            build: Build {
                version: "0.1.0".into(),
                commit: "0123456789ab".into(),
                features: vec!["neural".into()],
                cpu_flags: vec!["avx2".into(), "fma".into()],
            },
        },
        workload: Workload {
            source: "generated pools, seed 0".into(),
            questions: 4,
            candidates: 200,
            top_k: 20,
            dimension: Some(1536),
            tokens: Tokens::of(&times.work.token_lengths),
        },
        rows: vec![
            Row::new("mempursuit", reference.describe(), &base, None),
            Row::new("bge-base", other.describe(), &times, Some(&base.milliseconds)),
        ],
    }
}

#[test]
fn policies_take_turns_after_their_warm_up() {
    let clock = Arc::new(FakeClock::new());
    let reference = Scripted::new("mempursuit", Kind::Selector, &clock, &[9, 9, 1, 2, 3]);
    let other = Scripted::new("bge-base", Kind::CrossEncoder, &clock, &[90, 90, 10, 20, 30]);
    let mut seen = Vec::new();
    let (base, times) = measure(
        clock.as_ref(),
        &reference,
        Some(&other),
        &pools(3),
        &rules(2, Questions::Fixed(3)),
        &mut |step| seen.push(step),
    )
    .unwrap();
    assert_eq!(base.milliseconds, [1.0, 2.0, 3.0]);
    assert_eq!(times.milliseconds, [10.0, 20.0, 30.0]);
    assert_eq!((times.work.passes, times.work.real_tokens, times.work.truncated), (2, 3 * 1234, 3));
    assert_eq!(clock.now(), Duration::from_millis(9 + 9 + 90 + 90 + 6 + 60));
    assert_eq!(seen[..2], [Progress::WarmUp { run: 1, of: 2 }, Progress::WarmUp { run: 2, of: 2 }]);
    assert_eq!(seen[4], Progress::Timed { done: 3, of: 3, last: Duration::from_millis(33) });
}

#[test]
fn the_first_question_sizes_the_rest() {
    for (first, expected) in [(10, 10), (30, 3), (100, 2), (1, 12)] {
        let clock = Arc::new(FakeClock::new());
        let mut script = vec![5];
        script.extend([first; 20]);
        let reference = Scripted::new("mempursuit", Kind::Selector, &clock, &script);
        let fit = Questions::Fit { time: Duration::from_millis(100), least: 2, most: 12 };
        let (base, _) =
            measure(clock.as_ref(), &reference, None, &pools(15), &rules(0, fit), &mut |_| {}).unwrap();
        assert_eq!(base.milliseconds.len(), expected, "first question {first} ms");
    }
}

#[test]
fn a_fault_ends_the_measurement_and_becomes_a_row() {
    let clock = Arc::new(FakeClock::new());
    let reference = Scripted::new("mempursuit", Kind::Selector, &clock, &[1; 9]);
    let other = Scripted::new("bge-base", Kind::CrossEncoder, &clock, &[1, 1]);
    let fixed = rules(1, Questions::Fixed(3));
    let error =
        measure(clock.as_ref(), &reference, Some(&other), &pools(3), &fixed, &mut |_| {}).unwrap_err();
    let row = Row::failed("bge-base", other.describe(), &error);
    assert_eq!((row.status, row.median_ms), (Status::OutOfMemory, None));
    assert_eq!(row.error.as_deref(), Some("out of memory: the script ends here"));
}

#[test]
fn the_terminal_table_is_exact() {
    let expected = "\
model       device  dtype  weights  batch  passes  real tokens  padded  mean ms  median ms  P95 ms  by mean  by median [95 %]
==============================================================================================================================
mempursuit  cpu     f32    -            -       -            -       -    2.000      2.000   2.000    1.00x             1.00x
bge-base    cpu     f32    random     128       2        4,936       0    115.0      115.0   128.5    57.5x             57.5x

Environment: Example CPU (2 cores, 2 threads; vector instructions: avx2 fma); linux x86_64; rerank-bench 0.1.0 (0123456789ab).
Workload: generated pools, seed 0; 4 questions, P = 200, K = 20, d = 1536; tokens a pair: mean 60.0, median 60, P95 70, max 70.
Clock: selectors from vectors in memory to the finished order, each pool met cold; rerankers from texts in memory to the finished order (tokenising, packing, forward, sort); loading and retrieval are outside. Speedups divide by MemPursuit's own figure from the same interleaving, pool by pool.
No 95 % interval below 10 questions; --questions sets their number.
Random weights (bge-base): latencies are those of the real architecture, scores and orders mean nothing.
Cut to the length limit: bge-base: 4 pairs lost 28 tokens.
";
    assert_eq!(Terminal.export(&results()).unwrap(), expected);
}

#[test]
fn the_markdown_table_has_the_same_cells() {
    let text = Markdown.export(&results()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[1],
        "| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    );
    assert_eq!(
        lines[3],
        "| bge-base | cpu | f32 | random | 128 | 2 | 4,936 | 0 | 115.0 | 115.0 | 128.5 | 57.5x | 57.5x |"
    );
}

#[test]
fn the_csv_keeps_figures_unrounded() {
    let text = Csv.export(&results()).unwrap();
    let mut lines = text.lines();
    let headings: Vec<&str> = lines.next().unwrap().split(',').collect();
    let row: Vec<&str> = lines.nth(1).unwrap().split(',').collect();
    let field = |name: &str| row[headings.iter().position(|heading| *heading == name).unwrap()];
    assert_eq!(field("median_ms"), "115");
    assert_eq!(field("p95_ms"), "128.5");
    assert_eq!(field("speedup_median_low"), "");
    assert_eq!(field("status"), "ok");
}

#[test]
fn the_json_keeps_every_time_and_follows_the_interface() {
    let json: serde_json::Value = serde_json::from_str(&Json.export(&results()).unwrap()).unwrap();
    let row = &json["rows"][1];
    assert_eq!(row["times_ms"], serde_json::json!([100.0, 110.0, 120.0, 130.0]));
    assert_eq!(row["mempursuit_times_ms"], serde_json::json!([2.0, 2.0, 2.0, 2.0]));
    assert_eq!(row["stages_ms"], serde_json::json!({"first": 28.5, "second": 86.5}));
    assert_eq!(row["speedup_median_ci95"], serde_json::Value::Null);
    assert_eq!(row["status"], "ok");
    assert_eq!(row["kind"], "cross_encoder");
    assert_eq!(json["rows"][0]["speedup_median"], 1.0);
    assert_eq!(json["environment"]["build"]["commit"], "0123456789ab");
    assert_eq!(json["workload"]["tokens"]["p50"], 60.0);
    for key in
        ["model", "engine", "device", "dtype", "batch", "passes", "real_tokens", "padded_tokens", "truncated"]
    {
        assert!(row.get(key).is_some(), "{key}");
    }
}
