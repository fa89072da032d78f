//! The reproduction's report on a fake clock, file by file as in `golden/reproduction`: a full run on a CPU, a quick one,
//! and a full one on a GPU. After a change that is meant, `BLESS=1 cargo test --test reproduction_report` writes them anew.

use std::path::Path;
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
    device: &'static str,
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
            device: if reranker { self.device } else { "cpu" }.into(),
            dtype: match (reranker, self.device) {
                (false, _) => "f32+f64",
                (true, "cpu") => "f32",
                (true, _) => "bf16",
            }
            .into(),
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
                padded_tokens: if self.variant.engine == "candle" { 30 * pool.len() } else { 0 },
                token_lengths: vec![60; pool.len()],
                ..Work::default()
            },
        };
        Ok(Selection { work, ..Selection::default() })
    }
}

struct Shop {
    clock: Arc<FakeClock>,
    device: &'static str,
}

impl Shop {
    fn timed(&self, variant: Variant, kind: Kind, microseconds: u64) -> Box<dyn Policy> {
        let (clock, device) = (Arc::clone(&self.clock), self.device);
        Box::new(Timed { variant, kind, clock, microseconds, batch: 0, device })
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

fn reproduction(quick: bool, device: &'static str) -> Reproduction {
    let scope = Scope {
        quick,
        questions: Some(if device == "cpu" { 3 } else { 10 }),
        warmup: 1,
        batches: vec![1, 16, 128, 144, 200],
        grid: (vec![100, 200], vec![10, 20]),
    };
    let planned = scope.plan(&networks());
    let cells: Vec<_> = planned.iter().map(|planned| planned.cell.clone()).collect();
    let mut shop = Shop { clock: Arc::default(), device };
    let clock: Arc<FakeClock> = Arc::clone(&shop.clock);
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
            gpu: (device != "cpu").then(|| "A card".into()),
            driver: None,
            cuda: (device != "cpu").then(|| "13.0".into()),
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
        notes: if quick { vec!["Something was left out.".into()] } else { Vec::new() },
        networks: networks(),
        findings: findings.map(|(Planned { cell, parts }, row)| Finding { parts, cell, row }).collect(),
    }
}

/// Compares every file with the one kept, but for the results in JSON, which are read.
#[track_caller]
fn assert_golden(name: &str, files: &[File]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/reproduction").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        for file in files.iter().filter(|file| file.name != "results.json") {
            std::fs::write(folder.join(&file.name), &file.content).unwrap();
        }
    }
    let kept = std::fs::read_dir(&folder).unwrap().count();
    assert_eq!(files.len(), kept + 1, "{name} has other files than {}", folder.display());
    for file in files.iter().filter(|file| file.name != "results.json") {
        let expected = std::fs::read_to_string(folder.join(&file.name)).unwrap_or_default();
        for (number, (found, expected)) in file.content.lines().zip(expected.lines()).enumerate() {
            assert_eq!(found, expected, "{name}/{}, line {}", file.name, number + 1);
        }
        assert_eq!(file.content, expected, "{name}/{}", file.name);
    }
}

fn file<'a>(files: &'a [File], name: &str) -> &'a str {
    &files.iter().find(|file| file.name == name).unwrap_or_else(|| panic!("no {name}")).content
}

#[test]
fn a_full_run_on_a_cpu() {
    let files = files(&reproduction(false, "cpu")).unwrap();
    assert_golden("full", &files);
    let report = file(&files, "report.md");
    // What does not fit is marked, and the others go on.
    assert!(
        report.lines().any(|line| line.starts_with("| qwen3.5-0.8b | 200 / 20 | 200 | - | 0 |")
            && line.contains("no memory"))
    );
    for (_, link) in report
        .match_indices("](")
        .map(|(at, _)| report[at + 2..].split_once(')').unwrap())
        .map(|(l, r)| (r, l))
    {
        assert!(files.iter().any(|file| file.name == link), "{link}");
    }
}

#[test]
fn a_quick_run() {
    assert_golden("quick", &files(&reproduction(true, "cpu")).unwrap());
}

#[test]
fn a_full_run_on_a_gpu() {
    assert_golden("gpu", &files(&reproduction(false, "cuda:0")).unwrap());
}

#[test]
fn tables_and_results_hold_the_raw_figures() {
    let reproduction = reproduction(false, "cpu");
    let files = files(&reproduction).unwrap();
    let json: serde_json::Value = serde_json::from_str(file(&files, "results.json")).unwrap();
    assert_eq!(json["findings"].as_array().unwrap().len(), reproduction.findings.len());
    assert_eq!(json["findings"][0]["row"]["times_ms"].as_array().unwrap().len(), 20);
    for table in files.iter().filter(|file| file.name.ends_with(".csv")) {
        let mut reader = csv::Reader::from_reader(table.content.as_bytes());
        let width = reader.headers().unwrap().len();
        let records: Vec<_> = reader.records().map(|record| record.unwrap()).collect();
        assert!(!records.is_empty() && records.iter().all(|record| record.len() == width), "{}", table.name);
    }
}

#[test]
fn figures_are_well_formed() {
    for device in ["cpu", "cuda:0"] {
        let files = files(&reproduction(false, device)).unwrap();
        for svg in files.iter().filter(|file| file.name.ends_with(".svg")).map(|file| &file.content) {
            assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
        }
    }
}

/// A run that could measure nothing but the selector still has a report.
#[test]
fn failures_leave_a_report() {
    let mut reproduction = reproduction(false, "cpu");
    for finding in reproduction.findings.iter_mut().filter(|finding| finding.cell.batch > 0) {
        finding.row =
            rerank_bench::measure::results::Row::unopened(&finding.cell, &Error::Device("it broke".into()));
    }
    let files = files(&reproduction).unwrap();
    let report = file(&files, "report.md");
    assert!(report.contains("No cell of it could be measured") && report.contains("it broke"), "{report}");
}
