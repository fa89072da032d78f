//! The table on the terminal.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::columns::COLUMNS;
use super::{Exporter, notes};
use crate::error::Result;
use crate::measure::results::Results;

/// A table of plain characters with the notes under it.
#[derive(Debug, Default)]
pub struct Terminal;

impl Exporter for Terminal {
    fn export(&self, results: &Results) -> Result<String> {
        let mut table = Table::new();
        // Never wrapped to the terminal's width: output that goes to a file must not depend on a window.
        table.load_preset(presets::ASCII_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(COLUMNS.iter().map(|column| column.heading));
        for row in &results.rows {
            table.add_row(COLUMNS.iter().map(|column| (column.cell)(row)));
        }
        for (column, description) in table.column_iter_mut().zip(COLUMNS) {
            column.set_padding((0, 1));
            if description.figures {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let mut text = String::new();
        for line in table.to_string().lines().filter(|line| !line.starts_with(['+', '-'])) {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text.push('\n');
        for note in notes::lines(results) {
            text.push_str(&note);
            text.push('\n');
        }
        Ok(text)
    }
}
