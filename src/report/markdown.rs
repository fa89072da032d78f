//! The table as Markdown, for issues and papers.

use super::columns::COLUMNS;
use super::{Exporter, notes};
use crate::error::Result;
use crate::measure::results::Results;

/// A Markdown table with the notes under it.
#[derive(Debug, Default)]
pub struct Markdown;

impl Exporter for Markdown {
    fn export(&self, results: &Results) -> Result<String> {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(COLUMNS.iter().map(|column| column.heading.to_string()).collect());
        text += &line(COLUMNS.iter().map(|c| if c.figures { "---:" } else { "---" }.to_string()).collect());
        for row in &results.rows {
            text += &line(COLUMNS.iter().map(|column| (column.cell)(row).replace('|', "\\|")).collect());
        }
        for note in notes::lines(results) {
            text += &format!("\n{note}\n");
        }
        Ok(text)
    }
}
