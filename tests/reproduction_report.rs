//! The reproduction's report on a fake clock: exact tables, exact sentences, figures that are well formed.

use std::sync::Arc;
use std::time::Duration;

use rerank_bench::measure::clock::{Clock, FakeClock};
use rerank_bench::measure::environment::{Build, Environment};
use rerank_bench::measure::plan::{Ledger, Variant, Workshop, run};
use rerank_bench::measure::reproduction::{Finding, Network, Planned, Reproduction, Scope};
use rerank_bench::policy::{Description, Kind, Policy, Selection, Work};
use rerank_bench::pool::Pool;
use rerank_bench::report::reproduction::{File, files};
use rerank_bench::{Error, Result};

/// A policy that takes `microseconds` a pool on the fake clock.
struct Timed {
    variant: Variant,
    kind: Kind,
    clock: Arc<FakeClock>,
    microseconds: u64,
    batch: usize,
}

impl Policy for Timed {
    fn name(&self) -> &str {
        &self.variant.model
    }

    fn describe(&self) -> Description {
        let reranker = self.kind != Kind::Selector;
        Description {
            kind: self.kind,
            engine: reranker.then(|| self.variant.engine.clone()),
            device: "cpu".into(),
            dtype: if reranker { "f32" } else { "f32+f64" }.into(),
            weights: if reranker { "random" } else { "none" }.into(),
            revision: None,
            prompt_hash: None,
            share_prefix: (self.kind == Kind::LlmScorer).then_some(!self.variant.unshared),
            batch: reranker.then_some(self.batch),
            notes: Vec::new(),
        }
    }

    fn set_batch(&mut self, batch: usize) {
        self.batch = batch;
    }

    fn select(&self, pool: &Pool, _: usize) -> Result<Selection> {
        if self.kind == Kind::LlmScorer && self.batch == 200 {
            return Err(Error::OutOfMemory("200 prompts do not fit".into()));
        }
        self.clock.advance(Duration::from_micros(self.microseconds));
        let work = match self.kind {
            Kind::Selector => Work::default(),
            _ => Work {
                passes: pool.len().div_ceil(self.batch.max(1)),
                real_tokens: 60 * pool.len(),
                token_lengths: vec![60; pool.len()],
                ..Work::default()
            },
        };
        Ok(Selection { work, ..Selection::default() })
    }
}

struct Shop(Arc<FakeClock>);

impl Shop {
    fn timed(&self, variant: Variant, kind: Kind, microseconds: u64) -> Box<dyn Policy> {
        let clock = Arc::clone(&self.0);
        Box::new(Timed { variant, kind, clock, microseconds, batch: 0 })
    }
}

impl Workshop for Shop {
    fn reference(&mut self) -> Result<Box<dyn Policy>> {
        Ok(self.timed(Variant::selector("mempursuit"), Kind::Selector, 500))
    }

    fn open(&mut self, variant: &Variant) -> Result<Box<dyn Policy>> {
        let (kind, base) = match variant.model.as_str() {
            "qwen3.5-0.8b" => (Kind::LlmScorer, 1_000_000),
            _ => (Kind::CrossEncoder, 100_000),
        };
        let factor = if variant.unshared || variant.engine == "candle" { 2 } else { 1 };
        Ok(self.timed(variant.clone(), kind, base * factor))
    }

    fn pools(&mut self, candidates: usize, questions: usize) -> Result<Vec<Pool>> {
        let candidate = Arc::new(rerank_bench::pool::Candidate::default());
        Ok(vec![Pool { candidates: vec![candidate; candidates], ..Pool::default() }; questions])
    }
}

fn networks() -> Vec<Network> {
    let network = |model: &str, kind, layers, width, body_parameters| Network {
        model: model.into(),
        kind,
        layers,
        width,
        body_parameters,
    };
    vec![
        network("bge-base", Kind::CrossEncoder, 12, 768, 85_000_000),
        network("qwen3.5-0.8b", Kind::LlmScorer, 24, 1024, 498_000_000),
    ]
}

fn reproduction(quick: bool) -> Reproduction {
    let scope = Scope {
        quick,
        questions: Some(3),
        warmup: 1,
        batches: vec![1, 16, 128, 144, 200],
        grid: (vec![100, 200], vec![10, 20]),
    };
    let planned = scope.plan(&networks());
    let cells: Vec<_> = planned.iter().map(|planned| planned.cell.clone()).collect();
    let mut shop = Shop(Arc::default());
    let clock: Arc<FakeClock> = Arc::clone(&shop.0);
    let rows =
        run(&cells, &mut shop, &mut Ledger::in_memory(), clock.as_ref() as &dyn Clock, &mut |_| ()).unwrap();
    let findings = planned.into_iter().zip(rows);
    Reproduction {
        command: "rerank-bench reproduce".into(),
        environment: Environment {
            cpu: "A processor".into(),
            cores: 2,
            threads: 2,
            system: "linux x86_64".into(),
            gpu: None,
            driver: None,
            cuda: None,
            build: Build {
                version: "0.1.0".into(),
                commit: "abc".into(),
                features: vec!["neural".into()],
                cpu_flags: vec!["avx2".into()],
            },
        },
        source: "generated pools, seed 0".into(),
        dimension: Some(1536),
        quick,
        networks: networks(),
        findings: findings.map(|(Planned { cell, parts }, row)| Finding { parts, cell, row }).collect(),
    }
}

fn file<'a>(files: &'a [File], name: &str) -> &'a str {
    &files.iter().find(|file| file.name == name).unwrap_or_else(|| panic!("no {name}")).content
}

#[test]
fn every_table_and_figure_is_a_file_and_stands_in_the_report() {
    let files = files(&reproduction(false)).unwrap();
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "report.md",
            "table-12.csv",
            "table-13.csv",
            "table-14.csv",
            "figure-5.svg",
            "figure-9.svg",
            "table-1.csv",
            "results.json"
        ]
    );
    let report = file(&files, "report.md");
    for heading in [
        "# Efficiency results of the MemPursuit paper, measured again",
        "## What was measured",
        "## How to read it",
        "## Table 12: batches of 128",
        "## Table 13: the full batch",
        "## Table 14: MemPursuit over pool sizes and budgets",
        "## Figure 5: accuracy over latency",
        "## Figure 9: latency over batch size",
        "## Table 1: operation counts of this run",
        "## Variance",
    ] {
        assert!(report.contains(heading), "{heading} is missing:\n{report}");
    }
    assert!(report.contains("![Figure 9: latency over batch size](figure-9.svg)"));
    assert!(report.contains("```\nrerank-bench reproduce\n```"));
    assert!(!report.contains("quick run"));
}

#[test]
fn published_figures_stand_beside_ours() {
    let files = files(&reproduction(false)).unwrap();
    let report = file(&files, "report.md");
    let row = |start: &str| {
        report.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{report}"))
    };
    assert_eq!(
        row("| bge-base | 200 / 20 | 128 |"),
        "| bge-base | 200 / 20 | 128 | 2 | 3 | 12,000 | 0 | 100.0 | 100.0 | 100.0 | 200.0x | 200.0x | 109.26 / 109.03 / \
         126.12 | 6.18x | 12.6x |"
    );
    assert!(
        row("| bge-base (candle) | 200 / 20 | 200 | 1 |")
            .ends_with("| 111.34 / 110.48 / 129.88 | - | 12.7x |")
    );
    // What does not fit is marked, and the others go on.
    assert!(row("| qwen3.5-0.8b | 200 / 20 | 200 | - | 0 |").contains("| no memory |"));
    assert!(row("| qwen3.5-0.8b | 200 / 20 | 128 | 2 |").contains("| 1,000 |"));
    assert!(row("| 200 | 20 |").contains("| 8.40 |"));
    assert!(row("| bge-base | P = 200, L = 12, W = 768, n = 60.0 |").contains("| 9.157e10 |"));
}

#[test]
fn the_reading_is_computed() {
    let files = files(&reproduction(false)).unwrap();
    let report = file(&files, "report.md");
    assert!(report.contains("here both ran on the same CPU"), "{report}");
    assert!(
        report.contains(
            "bge-base, all 200 candidates in one batch: 200.0 ms with the common padded implementation, 100.0 ms with \
             the packed one, so 2.00x of its ratio to MemPursuit here is implementation"
        ),
        "{report}"
    );
    assert!(report.contains("its 12.7x would be 6.37x against a packed one"), "{report}");
    assert!(report.contains("2.04 times its median, with a P95 of 57.76 ms"));
}

#[test]
fn csv_and_json_hold_the_raw_figures() {
    let reproduction = reproduction(false);
    let files = files(&reproduction).unwrap();
    let json: serde_json::Value = serde_json::from_str(file(&files, "results.json")).unwrap();
    assert_eq!(json["findings"].as_array().unwrap().len(), reproduction.findings.len());
    assert_eq!(json["findings"][0]["row"]["times_ms"].as_array().unwrap().len(), 20);
    for (name, rows) in [("table-12.csv", 5), ("table-13.csv", 5), ("table-14.csv", 4)] {
        let text = file(&files, name);
        let width = text.lines().next().unwrap().split(',').count();
        assert_eq!(text.lines().count(), rows + 1, "{name}");
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        assert!(reader.records().all(|record| record.unwrap().len() == width), "{name}");
    }
}

#[test]
fn a_quick_run_says_so() {
    let files = files(&reproduction(true)).unwrap();
    let report = file(&files, "report.md");
    assert!(report.contains("This is a quick run"));
    assert!(report.contains("| qwen3.5-0.8b | 16 / 4 | 8 | 2 |"), "{report}");
    assert!(file(&files, "figure-5.svg").contains("qwen3.5-0.8b (P = 16)"));
}

#[test]
fn figures_are_well_formed_and_labelled() {
    let files = files(&reproduction(false)).unwrap();
    for name in ["figure-5.svg", "figure-9.svg"] {
        let svg = file(&files, name);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
        assert!(svg.contains("ms (log scale)"));
    }
    let sweep = file(&files, "figure-9.svg");
    assert!(sweep.contains(">bge-base</text>") && sweep.contains(">qwen3.5-0.8b</text>"));
    assert!(sweep.contains("stroke-dasharray=\"7 4\"") && sweep.contains("MemPursuit, 0."));
}
