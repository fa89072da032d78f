//! Plans of many cells (sweeps, grids, the reproduction of the paper): run in order, kept as they finish,
//! taken up again after an interruption.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::clock::Clock;
use super::interleave::{Progress, Questions, Rules, Times, measure};
use super::results::{Row, Status};
use crate::error::{Error, Result};
use crate::journal;
use crate::policy::{Description, Policy};
use crate::pool::Pool;

/// A policy as a plan names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Variant {
    /// Name, as on the command line.
    pub model: String,
    /// Whose network runs; empty for selectors.
    pub engine: String,
    /// LLM scorers: every prompt is run whole, without sharing what a pool's prompts begin with.
    #[serde(default)]
    pub unshared: bool,
}

impl Variant {
    /// A policy without a network.
    pub fn selector(model: &str) -> Self {
        Self { model: model.into(), engine: String::new(), unshared: false }
    }

    /// A reranker, computed by `engine`.
    pub fn reranker(model: &str, engine: &str) -> Self {
        Self { model: model.into(), engine: engine.into(), unshared: false }
    }

    /// An LLM scorer without a shared prefix.
    pub fn unshared(model: &str, engine: &str) -> Self {
        Self { unshared: true, ..Self::reranker(model, engine) }
    }

    /// The model and what is particular about its run: `bge-base (candle)`, `qwen3.5-2b (unshared)`.
    pub fn label(&self) -> String {
        let engine = Some(self.engine.as_str()).filter(|engine| !engine.is_empty() && *engine != "packed");
        let unshared = self.unshared.then_some("unshared");
        let particular: Vec<&str> = [engine, unshared].into_iter().flatten().collect();
        match particular.as_slice() {
            [] => self.model.clone(),
            some => format!("{} ({})", self.model, some.join(", ")),
        }
    }
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cell {
    pub variant: Variant,
    /// Candidates in one forward pass; 0 for selectors.
    pub batch: usize,
    /// Pool size, P.
    pub candidates: usize,
    /// Budget, K.
    pub top_k: usize,
    /// Pools timed.
    pub questions: usize,
    /// Fewer pools where they would take more seconds than this, judged by the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// Untimed runs of full shape before; 0 is a small one.
    pub warmup: usize,
    /// Tells repetitions of one measurement apart.
    pub repeat: usize,
}

/// What a plan needs from outside: policies and pools.
pub trait Workshop {
    /// Opens the policy that everything is measured against.
    fn reference(&mut self) -> Result<Box<dyn Policy>>;
    /// Opens a policy.
    fn open(&mut self, variant: &Variant) -> Result<Box<dyn Policy>>;
    /// `questions` pools of `candidates`.
    fn pools(&mut self, candidates: usize, questions: usize) -> Result<Vec<Pool>>;
}

/// What a plan tells while it runs.
pub enum Event<'a> {
    /// A cell begins; `reused` cells were finished by an earlier run.
    Begin { cell: &'a Cell, number: usize, of: usize, reused: bool },
    /// Where the cell stands.
    Progress(Progress),
    /// A cell ended after `time`: its row, the reference's times beside it, and what made it fail.
    End { cell: &'a Cell, row: &'a Row, time: Duration, reference: Box<Times>, error: Option<Error> },
}

/// Runs the cells in order and returns a row for each.
///
/// A policy stays open while cells that name it follow each other. A cell that fails becomes a row that says so,
/// and the rest goes on.
///
/// # Errors
/// The reference cannot be opened, or the ledger cannot be written.
pub fn run(
    cells: &[Cell],
    workshop: &mut dyn Workshop,
    ledger: &mut Ledger,
    clock: &dyn Clock,
    tell: &mut dyn FnMut(Event<'_>),
) -> Result<Vec<Row>> {
    let reference = workshop.reference()?;
    let mut open: Option<(Variant, Box<dyn Policy>)> = None;
    let mut warm = false;
    // The variant that could not be opened last: it is not tried again for every cell.
    let mut refused: Option<(Variant, Row)> = None;
    let mut rows = Vec::with_capacity(cells.len());
    for (i, cell) in cells.iter().enumerate() {
        let known = ledger.row(cell);
        tell(Event::Begin { cell, number: i + 1, of: cells.len(), reused: known.is_some() });
        if let Some(row) = known {
            rows.push(row.clone());
            continue;
        }
        let start = clock.now();
        let pools = workshop.pools(cell.candidates, cell.questions);
        let refusal = refused.as_ref().filter(|(variant, _)| *variant == cell.variant).map(|(_, row)| row);
        let (row, reference_times, error) = match (pools, refusal) {
            (Err(error), _) => unopened(cell, error),
            (Ok(_), Some(row)) => {
                let batch = Some(cell.batch).filter(|&batch| batch > 0);
                let description = Description { batch, ..row.description.clone() };
                let (candidates, top_k) = (cell.candidates, cell.top_k);
                (Row { candidates, top_k, description, ..row.clone() }, Times::default(), None)
            }
            (Ok(pools), None) if cell.variant.model == reference.name() => {
                one(clock, reference.as_ref(), None, &pools, cell, false, tell)
            }
            (Ok(pools), None) => {
                if open.as_ref().is_none_or(|(variant, _)| *variant != cell.variant) {
                    // Dropped first: two large models are never held at once.
                    drop(open.take());
                    warm = false;
                }
                let opened = match open.take() {
                    Some((_, policy)) => Ok(policy),
                    None => workshop.open(&cell.variant),
                };
                match opened {
                    Err(error) => {
                        let ended = unopened(cell, error);
                        refused = Some((cell.variant.clone(), ended.0.clone()));
                        ended
                    }
                    Ok(mut policy) => {
                        policy.set_batch(cell.batch);
                        let ended =
                            one(clock, reference.as_ref(), Some(policy.as_ref()), &pools, cell, warm, tell);
                        warm = ended.0.status == Status::Ok;
                        open = Some((cell.variant.clone(), policy));
                        ended
                    }
                }
            }
        };
        let time = clock.now() - start;
        tell(Event::End { cell, row: &row, time, reference: Box::new(reference_times), error });
        ledger.add(cell, &row)?;
        rows.push(row);
    }
    Ok(rows)
}

/// A cell's row, the reference's times beside it, and what made it fail.
type Ended = (Row, Times, Option<Error>);

fn unopened(cell: &Cell, error: Error) -> Ended {
    (Row::unopened(cell, &error), Times::default(), Some(error))
}

fn one(
    clock: &dyn Clock,
    reference: &dyn Policy,
    other: Option<&dyn Policy>,
    pools: &[Pool],
    cell: &Cell,
    warm: bool,
    tell: &mut dyn FnMut(Event<'_>),
) -> Ended {
    let questions = match cell.seconds {
        Some(seconds) => {
            Questions::Fit { time: Duration::from_secs(seconds), least: 1, most: cell.questions }
        }
        None => Questions::Fixed(cell.questions),
    };
    let rules = Rules { top_k: cell.top_k, warmup: cell.warmup, warm, questions };
    let policy = other.unwrap_or(reference);
    match measure(clock, reference, other, pools, &rules, &mut |step| tell(Event::Progress(step))) {
        Ok((base, _)) if other.is_none() => {
            (Row::new(policy.name(), policy.describe(), &base, None), base, None)
        }
        Ok((base, times)) => {
            (Row::new(policy.name(), policy.describe(), &times, Some(&base.milliseconds)), base, None)
        }
        Err(error) => {
            let failed = Row::failed(policy.name(), policy.describe(), &error);
            let row = Row { candidates: cell.candidates, top_k: cell.top_k, ..failed };
            (row, Times::default(), Some(error))
        }
    }
}

/// The finished cells of a plan, in a file of JSON Lines.
///
/// A cell counts as finished only under the same context: everything besides the cell itself that its figures
/// depend on (build, machine, seed, options).
pub struct Ledger {
    context: serde_json::Value,
    rows: HashMap<Cell, Row>,
    file: Option<(PathBuf, File)>,
}

#[derive(Serialize)]
struct Entry<'a> {
    context: &'a serde_json::Value,
    cell: &'a Cell,
    row: &'a Row,
}

#[derive(Deserialize)]
struct OwnedEntry {
    context: serde_json::Value,
    cell: serde_json::Value,
    row: serde_json::Value,
}

impl Ledger {
    /// A ledger that is kept nowhere.
    pub fn in_memory() -> Self {
        Self { context: serde_json::Value::Null, rows: HashMap::new(), file: None }
    }

    /// The ledger at `path`: finished cells of the same context are known, others stay in the file unread.
    ///
    /// A last line that an interruption tore is cut off.
    ///
    /// # Errors
    /// The file cannot be opened, or one of its whole lines is no entry.
    pub fn open(path: &Path, context: serde_json::Value) -> Result<Self> {
        let mut rows = HashMap::new();
        let file = journal::reopen(path, |number, line| {
            let fault = |error: serde_json::Error| {
                Error::line(path, number, format!("is no finished cell ({error}); give another folder"))
            };
            let entry: OwnedEntry = serde_json::from_slice(line).map_err(fault)?;
            // Only then: another version of this program may have written other cells in another form.
            if entry.context == context {
                let cell = serde_json::from_value(entry.cell).map_err(fault)?;
                rows.insert(cell, serde_json::from_value(entry.row).map_err(fault)?);
            }
            Ok(())
        })?;
        Ok(Self { context, rows, file: Some((path.to_owned(), file)) })
    }

    /// The row of a finished cell. A cell that failed is tried again.
    pub fn row(&self, cell: &Cell) -> Option<&Row> {
        self.rows.get(cell).filter(|row| row.status != Status::Error)
    }

    fn add(&mut self, cell: &Cell, row: &Row) -> Result<()> {
        if let Some((path, file)) = &mut self.file {
            let entry = Entry { context: &self.context, cell, row };
            let cannot = |source| Error::Output { to: path.display().to_string(), source };
            let line = serde_json::to_string(&entry).map_err(|error| cannot(error.into()))?;
            file.write_all(format!("{line}\n").as_bytes()).and_then(|()| file.flush()).map_err(cannot)?;
        }
        self.rows.insert(cell.clone(), row.clone());
        Ok(())
    }
}
