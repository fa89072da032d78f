//! The benchmark's table, for terminals and as Markdown.

use super::columns::COLUMNS;
use super::{Exporter, notes, text_table};
use crate::error::Result;
use crate::measure::results::{Results, Row};

/// A table of plain characters with the notes under it.
#[derive(Debug, Default)]
pub struct Terminal;

/// A Markdown table with the notes under it.
#[derive(Debug, Default)]
pub struct Markdown;

fn headings() -> Vec<&'static str> {
    COLUMNS.iter().map(|column| column.heading).collect()
}

fn figures() -> Vec<bool> {
    COLUMNS.iter().map(|column| column.figures).collect()
}

fn cells(row: &Row) -> Vec<String> {
    COLUMNS.iter().map(|column| (column.cell)(row)).collect()
}

impl Exporter for Terminal {
    fn export(&self, results: &Results) -> Result<String> {
        let table = text_table::plain(&headings(), &figures(), results.rows.iter().map(cells));
        Ok(format!("{table}\n{}\n", notes::lines(results).join("\n")))
    }
}

impl Exporter for Markdown {
    fn export(&self, results: &Results) -> Result<String> {
        let table = text_table::markdown(&headings(), &figures(), results.rows.iter().map(cells));
        Ok(format!("{table}\n{}\n", notes::lines(results).join("\n\n")))
    }
}
