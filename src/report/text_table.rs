//! Tables as text: plain characters for terminals, pipes for Markdown.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// A plain table with a line under its head. `figures[i]` sets column i right.
pub fn plain(headings: &[&str], figures: &[bool], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    // Never wrapped to the terminal's width: output that goes to a file must not depend on a window.
    table.load_preset(presets::ASCII_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(headings);
    table.add_rows(rows);
    for (column, &figures) in table.column_iter_mut().zip(figures) {
        column.set_padding((0, 1));
        if figures {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = String::new();
    // The preset draws a line between all rows; the one of '=' under the head is enough.
    for line in table.to_string().lines().filter(|line| !line.starts_with('-')) {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A Markdown table.
pub fn markdown(headings: &[&str], figures: &[bool], rows: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(headings.iter().map(ToString::to_string).collect());
    text += &line(figures.iter().map(|&right| if right { "---:" } else { "---" }.to_string()).collect());
    for row in rows {
        text += &line(row.into_iter().map(|cell| cell.replace('|', "\\|")).collect());
    }
    text
}
