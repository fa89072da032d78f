//! Plans of cells: rows in order, failures that spoil nothing, a ledger that survives an interruption.

use std::time::Duration;

use rerank_bench::measure::clock::{Clock, FakeClock};
use rerank_bench::measure::plan::{Cell, Event, Ledger, Variant, Workshop, run};
use rerank_bench::measure::results::{Row, Status};
use rerank_bench::policy::{Description, Kind, Policy, Selection};
use rerank_bench::pool::Pool;
use rerank_bench::{Error, Result};
use std::sync::Arc;

/// Takes as many milliseconds as its batch.
struct Timed {
    name: String,
    clock: Arc<FakeClock>,
    batch: usize,
}

impl Policy for Timed {
    fn name(&self) -> &str {
        &self.name
    }

    fn describe(&self) -> Description {
        Description {
            kind: Kind::CrossEncoder,
            engine: Some("packed".into()),
            device: "cpu".into(),
            dtype: "f32".into(),
            weights: "random".into(),
            revision: None,
            prompt_hash: None,
            share_prefix: None,
            batch: Some(self.batch),
            notes: vec!["a note".into()],
        }
    }

    fn set_batch(&mut self, batch: usize) {
        self.batch = batch;
    }

    fn select(&self, _: &Pool, _: usize) -> Result<Selection> {
        if self.batch == 13 {
            return Err(Error::OutOfMemory("13 does not fit".into()));
        }
        self.clock.advance(Duration::from_millis(self.batch as u64));
        Ok(Selection::default())
    }
}

#[derive(Default)]
struct Shop {
    clock: Arc<FakeClock>,
    opened: Vec<String>,
}

impl Workshop for Shop {
    fn reference(&mut self) -> Result<Box<dyn Policy>> {
        Ok(Box::new(Timed { name: "mempursuit".into(), clock: Arc::clone(&self.clock), batch: 1 }))
    }

    fn open(&mut self, variant: &Variant) -> Result<Box<dyn Policy>> {
        self.opened.push(variant.model.clone());
        match variant.model.as_str() {
            "missing" => Err(Error::model("missing", "is not there")),
            name => Ok(Box::new(Timed { name: name.into(), clock: Arc::clone(&self.clock), batch: 0 })),
        }
    }

    fn pools(&mut self, _: usize, questions: usize) -> Result<Vec<Pool>> {
        Ok(vec![Pool::default(); questions])
    }
}

fn cell(model: &str, batch: usize) -> Cell {
    Cell {
        variant: Variant::reranker(model, "packed"),
        batch,
        candidates: 200,
        top_k: 20,
        questions: 3,
        seconds: None,
        warmup: 1,
        repeat: 0,
    }
}

fn measured(shop: &mut Shop, cells: &[Cell], ledger: &mut Ledger) -> (Vec<Row>, Vec<bool>) {
    let clock = Arc::clone(&shop.clock);
    let mut reused = Vec::new();
    let rows = run(cells, shop, ledger, clock.as_ref(), &mut |event| {
        if let Event::Begin { reused: kept, .. } = event {
            reused.push(kept);
        }
    });
    (rows.unwrap(), reused)
}

#[test]
fn a_policy_is_opened_once_for_cells_that_follow_each_other() {
    let mut shop = Shop::default();
    let cells = [cell("a", 4), cell("a", 8), cell("b", 2)];
    let (rows, _) = measured(&mut shop, &cells, &mut Ledger::in_memory());
    assert_eq!(shop.opened, ["a", "b"]);
    let medians: Vec<Option<f64>> = rows.iter().map(|row| row.median_ms).collect();
    assert_eq!(medians, [Some(4.0), Some(8.0), Some(2.0)]);
    assert_eq!(rows[1].speedup_median, Some(8.0));
    assert_eq!(rows[1].description.batch, Some(8));
}

#[test]
fn a_failing_cell_is_marked_and_the_rest_goes_on() {
    let mut shop = Shop::default();
    let cells = [cell("a", 13), cell("missing", 1), cell("a", 5)];
    let (rows, _) = measured(&mut shop, &cells, &mut Ledger::in_memory());
    let statuses: Vec<Status> = rows.iter().map(|row| row.status).collect();
    assert_eq!(statuses, [Status::OutOfMemory, Status::Error, Status::Ok]);
    assert_eq!((rows[0].candidates, rows[0].top_k), (200, 20));
    assert!(rows[1].error.as_deref().is_some_and(|error| error.contains("is not there")));
}

#[test]
fn finished_cells_are_kept_and_a_torn_line_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.jsonl");
    let context = serde_json::json!({"seed": 0, "build": "x"});
    let cells = [cell("a", 4), cell("a", 13), cell("a", 8)];
    let (first, _) =
        measured(&mut Shop::default(), &cells[..2], &mut Ledger::open(&path, context.clone()).unwrap());
    let whole = std::fs::read_to_string(&path).unwrap();
    assert_eq!(whole.lines().count(), 2);
    std::fs::write(&path, format!("{whole}{{\"context\": torn")).unwrap();

    let mut shop = Shop::default();
    let (rows, reused) = measured(&mut shop, &cells, &mut Ledger::open(&path, context).unwrap());
    assert_eq!(reused, [true, true, false]);
    assert_eq!(rows[..2], first);
    assert_eq!(rows[2].median_ms, Some(8.0));
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 3);
    // Kept cells cost no time.
    assert_eq!(shop.clock.now(), Duration::from_millis(4 * (8 + 1)));

    let other = serde_json::json!({"seed": 1, "build": "x"});
    let (_, reused) = measured(&mut Shop::default(), &cells[..1], &mut Ledger::open(&path, other).unwrap());
    assert_eq!(reused, [false]);
}

#[test]
fn a_ledger_that_is_none_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "not a cell\n").unwrap();
    let Err(error) = Ledger::open(file.path(), serde_json::Value::Null) else { panic!("opened") };
    assert!(error.to_string().contains("line 1"), "{error}");
}

#[test]
fn what_cannot_be_opened_is_tried_once() {
    let mut shop = Shop::default();
    let cells = [cell("missing", 1), cell("missing", 2), cell("a", 5), cell("missing", 3)];
    let (rows, _) = measured(&mut shop, &cells, &mut Ledger::in_memory());
    assert_eq!(shop.opened, ["missing", "a"]);
    let batches: Vec<Option<usize>> = rows.iter().map(|row| row.description.batch).collect();
    assert_eq!(batches, [Some(1), Some(2), Some(5), Some(3)]);
    assert!([0, 1, 3].iter().all(|&k| rows[k].status == Status::Error && rows[k].error == rows[0].error));
}

#[test]
fn a_cell_may_be_bound_by_time() {
    // A question takes 400 ms and MemPursuit's one: two fit into a second.
    let bound = Cell { seconds: Some(1), questions: 20, warmup: 0, ..cell("a", 400) };
    let (rows, _) = measured(&mut Shop::default(), &[bound], &mut Ledger::in_memory());
    assert_eq!(rows[0].times_ms, [400.0, 400.0]);
    assert_eq!(rows[0].mempursuit_times_ms, [1.0, 1.0]);
}

#[test]
fn a_cell_ends_with_what_made_it_fail_and_what_ran_beside_it() {
    let mut shop = Shop::default();
    let clock = Arc::clone(&shop.clock);
    let cells = [cell("a", 13), cell("missing", 1), cell("a", 5)];
    let mut ends = Vec::new();
    run(&cells, &mut shop, &mut Ledger::in_memory(), clock.as_ref(), &mut |event| {
        if let Event::End { reference, error, .. } = event {
            ends.push((reference.milliseconds.len(), error));
        }
    })
    .unwrap();
    assert!(matches!(ends[0], (0, Some(Error::OutOfMemory(_)))));
    assert!(matches!(ends[1], (0, Some(Error::Model { .. }))));
    assert!(matches!(ends[2], (3, None)));
}
