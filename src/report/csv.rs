//! The rows as CSV, figures unrounded.

use super::Exporter;
use crate::error::{Error, Result};
use crate::measure::results::{Results, Row, Status};

/// One line a row; empty fields where a figure does not exist.
#[derive(Debug, Default)]
pub struct Csv;

const HEADINGS: &[&str] = &[
    "model",
    "engine",
    "device",
    "dtype",
    "weights",
    "revision",
    "share_prefix",
    "candidates",
    "top_k",
    "batch",
    "passes",
    "real_tokens",
    "padded_tokens",
    "truncated",
    "mean_ms",
    "median_ms",
    "p95_ms",
    "min_ms",
    "speedup_mean",
    "speedup_median",
    "speedup_median_low",
    "speedup_median_high",
    "questions",
    "status",
];

/// A number, or an empty field where there is none.
pub fn number(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

fn fields(row: &Row) -> Vec<String> {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let description = &row.description;
    vec![
        row.model.clone(),
        text(&description.engine),
        description.device.clone(),
        description.dtype.clone(),
        description.weights.clone(),
        text(&description.revision),
        description.share_prefix.map_or(String::new(), |on| on.to_string()),
        row.candidates.to_string(),
        row.top_k.to_string(),
        description.batch.map_or(String::new(), |batch| batch.to_string()),
        row.passes.to_string(),
        row.real_tokens.to_string(),
        row.padded_tokens.to_string(),
        row.truncated.to_string(),
        number(row.mean_ms),
        number(row.median_ms),
        number(row.p95_ms),
        number(row.min_ms),
        number(row.speedup_mean),
        number(row.speedup_median),
        number(row.speedup_median_ci95.map(|[low, _]| low)),
        number(row.speedup_median_ci95.map(|[_, high]| high)),
        row.times_ms.len().to_string(),
        match row.status {
            Status::Ok => "ok",
            Status::OutOfMemory => "out_of_memory",
            Status::Error => "error",
        }
        .to_string(),
    ]
}

impl Exporter for Csv {
    fn export(&self, results: &Results) -> Result<String> {
        write(&[], results.rows.iter().map(|row| (row, Vec::new())))
    }
}

/// Rows as CSV, each followed by fields of its own under the headings `extra`.
pub fn write<'a>(extra: &[&str], rows: impl Iterator<Item = (&'a Row, Vec<String>)>) -> Result<String> {
    let failed = |error: csv::Error| Error::Output { to: "CSV".into(), source: error.into() };
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(HEADINGS.iter().chain(extra)).map_err(failed)?;
    for (row, more) in rows {
        writer.write_record(fields(row).into_iter().chain(more)).map_err(failed)?;
    }
    let bytes = writer
        .into_inner()
        .map_err(|error| Error::Output { to: "CSV".into(), source: error.into_error() })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
