//! Latency over batch sizes as a figure (the paper's Figure 9).

use super::Exporter;
use super::chart::{Chart, Level, Marker, Scale, Series};
use super::columns::variant;
use super::figures::milliseconds;
use crate::error::Result;
use crate::measure::results::{Results, Row};
use crate::measure::statistics::quantile;

/// The figure as SVG.
#[derive(Debug, Default)]
pub struct SweepFigure;

impl Exporter for SweepFigure {
    fn export(&self, results: &Results) -> Result<String> {
        Ok(chart(results.rows.iter()).svg())
    }
}

/// Median latency over batch sizes, a line for each policy; MemPursuit across, dashed.
pub fn chart<'a>(rows: impl Iterator<Item = &'a Row>) -> Chart {
    let mut series: Vec<Series> = Vec::new();
    let (mut batches, mut reference) = (Vec::new(), Vec::new());
    let mut subtitle = String::new();
    for row in rows {
        let (Some(median), Some(batch)) = (row.median_ms, row.description.batch) else { continue };
        subtitle = format!("Median of a pool, P = {}, K = {}", row.candidates, row.top_k);
        batches.push(batch as f64);
        reference.extend_from_slice(&row.mempursuit_times_ms);
        let (label, point) = (variant(row), (batch as f64, median));
        match series.iter_mut().find(|series| series.label == label) {
            Some(series) => series.points.push(point),
            None => {
                let look = series.len();
                series.push(Series {
                    label,
                    points: vec![point],
                    look,
                    marker: Marker::Filled,
                    line: Some(look),
                });
            }
        }
    }
    for series in &mut series {
        series.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    batches.sort_by(f64::total_cmp);
    batches.dedup();
    reference.sort_by(f64::total_cmp);
    let level = (!reference.is_empty()).then(|| {
        let y = quantile(&reference, 0.5);
        Level { label: format!("MemPursuit, {} ms", milliseconds(Some(y))), y }
    });
    Chart {
        title: "Latency over batch size".into(),
        subtitle,
        x_label: "candidates in one forward pass (log scale)".into(),
        x_scale: Scale::LogAt(batches),
        y_label: "median latency, ms (log scale)".into(),
        y_scale: Scale::Log10,
        series,
        levels: level.into_iter().collect(),
    }
}
