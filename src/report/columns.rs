//! The benchmark table's columns, shared by the terminal and the Markdown form.

use super::figures::{milliseconds, ratio, ratio_with_interval, thousands};
use crate::measure::plan::Variant;
use crate::measure::results::{Row, Status};

/// A column: heading, whether it holds figures (set right), and how a row fills it.
pub struct Column {
    pub heading: &'static str,
    pub figures: bool,
    pub cell: fn(&Row) -> String,
}

const fn text(heading: &'static str, cell: fn(&Row) -> String) -> Column {
    Column { heading, figures: false, cell }
}

const fn figures(heading: &'static str, cell: fn(&Row) -> String) -> Column {
    Column { heading, figures: true, cell }
}

/// The row's variant as it is labelled everywhere.
pub fn variant(row: &Row) -> String {
    Variant {
        model: row.model.clone(),
        engine: row.description.engine.clone().unwrap_or_default(),
        unshared: row.description.share_prefix == Some(false),
    }
    .label()
}

/// A figure that only rerankers have.
fn reranker_only(row: &Row, value: usize) -> String {
    if row.is_reranker() { thousands(value as u64) } else { "-".into() }
}

/// All columns, left to right.
pub const COLUMNS: &[Column] = &[
    text("model", variant),
    text("device", |row| row.description.device.clone()),
    text("dtype", |row| row.description.dtype.clone()),
    text("weights", |row| match row.description.weights.as_str() {
        "none" => "-".into(),
        weights => weights.into(),
    }),
    figures("batch", |row| row.description.batch.map_or("-".into(), |batch| batch.to_string())),
    figures("passes", |row| reranker_only(row, row.passes)),
    figures("real tokens", |row| reranker_only(row, row.real_tokens)),
    figures("padded", |row| reranker_only(row, row.padded_tokens)),
    figures("mean ms", |row| outcome(row, milliseconds(row.mean_ms))),
    figures("median ms", |row| outcome(row, milliseconds(row.median_ms))),
    figures("P95 ms", |row| outcome(row, milliseconds(row.p95_ms))),
    figures("by mean", |row| ratio(row.speedup_mean)),
    figures("by median [95 %]", |row| ratio_with_interval(row.speedup_median, row.speedup_median_ci95)),
];

/// A figure of the row, or why it has none.
pub fn outcome(row: &Row, figure: String) -> String {
    match row.status {
        Status::Ok => figure,
        Status::OutOfMemory => "no memory".into(),
        Status::Error => "failed".into(),
    }
}
