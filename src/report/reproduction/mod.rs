//! The reproduction of the paper's efficiency results as a folder: `report.md`, figures, a CSV file for each table,
//! `results.json`.
//!
//! A new table or figure is one file here and one line in `SECTIONS`.

mod charts;
mod grid;
mod operations;
mod reading;
mod setup;
mod tables;
mod variance;

use super::csv::{self, number};
use super::paper::{self, Published};
use super::text_table;
use crate::error::{Error, Result};
use crate::measure::reproduction::{Finding, Part, Reproduction};

/// One file of the folder.
#[derive(Debug, Clone, PartialEq)]
pub struct File {
    pub name: String,
    pub content: String,
}

/// What a section puts into the report, and the files beside it.
#[derive(Debug, Default)]
struct Section {
    markdown: String,
    files: Vec<File>,
}

/// The report's sections in their order.
const SECTIONS: &[fn(&Reproduction) -> Result<Section>] = &[
    setup::section,
    reading::section,
    tables::batch_128,
    tables::full_batch,
    grid::section,
    charts::accuracy,
    charts::batches,
    operations::section,
    variance::section,
];

/// All files of the report.
///
/// # Errors
/// The results cannot be written as JSON or CSV.
pub fn files(reproduction: &Reproduction) -> Result<Vec<File>> {
    let mut report = File { name: "report.md".into(), content: String::new() };
    let mut files = Vec::new();
    for section in SECTIONS {
        let section = section(reproduction)?;
        if !report.content.is_empty() && !section.markdown.is_empty() {
            report.content.push('\n');
        }
        report.content += &section.markdown;
        files.extend(section.files);
    }
    let failed = |error: serde_json::Error| Error::Output { to: "results.json".into(), source: error.into() };
    let json = serde_json::to_string_pretty(reproduction).map_err(failed)?;
    files.push(File { name: "results.json".into(), content: json + "\n" });
    files.insert(0, report);
    Ok(files)
}

/// A table in Markdown under a heading and a sentence, and the same rows as a CSV file.
struct Table<'a> {
    file: &'static str,
    title: String,
    about: String,
    headings: &'static [&'static str],
    /// Which columns hold figures.
    right: &'a [bool],
    rows: Vec<Vec<String>>,
}

impl Table<'_> {
    fn section(self, csv: String) -> Section {
        let table = text_table::markdown(self.headings, self.right, self.rows.into_iter());
        Section {
            markdown: format!("## {}\n\n{}\n\n{table}", self.title, self.about),
            files: vec![File { name: format!("{}.csv", self.file), content: csv }],
        }
    }
}

/// A picture in the report and as a file.
fn figure(file: &str, title: &str, about: &str, svg: String) -> Section {
    Section {
        markdown: format!("## {title}\n\n![{title}]({file}.svg)\n\n{about}\n"),
        files: vec![File { name: format!("{file}.svg"), content: svg }],
    }
}

/// The model and what is particular about its run: `bge-base (candle)`, `qwen3.5-2b (unshared)`.
fn name(finding: &Finding) -> String {
    super::columns::variant(&finding.row)
}

/// The published row of a finding's model in a part that has one.
fn published(part: Part, finding: &Finding) -> Option<&'static Published> {
    let table = match part {
        Part::Table12 => paper::TABLE_12,
        Part::Table13 => paper::TABLE_13,
        _ => return None,
    };
    table.iter().find(|published| published.model == finding.row.model)
}

/// A finding's figures as CSV rows, with columns of the part's own behind them.
fn rows_as_csv<'a>(
    findings: impl Iterator<Item = &'a Finding>,
    extra: &[&str],
    more: impl Fn(&Finding) -> Vec<String>,
) -> Result<String> {
    csv::write(extra, findings.map(|finding| (&finding.row, more(finding))))
}
