//! Table 14: the selector's latency over pool sizes and budgets, the paper's figures beside ours.

use super::figures::{milliseconds, ratio};
use super::{Exporter, notes, paper, text_table};
use crate::error::Result;
use crate::measure::results::{Results, Row};

pub(super) const HEADINGS: [&str; 7] =
    ["P", "K", "mean ms", "median ms", "P95 ms", "paper's median ms", "paper / here"];

pub(super) fn cells(row: &Row) -> Vec<String> {
    let published = paper::grid_median_ms(row.candidates, row.top_k);
    let quotient = published.zip(row.median_ms).map(|(paper, here)| paper / here);
    vec![
        row.candidates.to_string(),
        row.top_k.to_string(),
        milliseconds(row.mean_ms),
        milliseconds(row.median_ms),
        milliseconds(row.p95_ms),
        published.map_or("-".into(), |ms| format!("{ms:.2}")),
        ratio(quotient),
    ]
}

/// The grid as a table on the terminal.
#[derive(Debug, Default)]
pub struct GridTerminal;

/// The grid as a Markdown table.
#[derive(Debug, Default)]
pub struct GridMarkdown;

/// What the paper's column means.
pub(super) const PAPER: &str = "Paper: Table 14, numba on one thread of a Xeon Gold 5117; another machine, so the ratio is no \
                     comparison of implementations.";

fn notes(results: &Results) -> Vec<String> {
    let mut lines = notes::lines(results);
    lines.push(PAPER.to_string());
    lines
}

impl Exporter for GridTerminal {
    fn export(&self, results: &Results) -> Result<String> {
        let table = text_table::plain(&HEADINGS, &[true; 7], results.rows.iter().map(cells));
        Ok(format!("{table}\n{}\n", notes(results).join("\n")))
    }
}

impl Exporter for GridMarkdown {
    fn export(&self, results: &Results) -> Result<String> {
        let table = text_table::markdown(&HEADINGS, &[true; 7], results.rows.iter().map(cells));
        Ok(format!("{table}\n{}\n", notes(results).join("\n\n")))
    }
}
