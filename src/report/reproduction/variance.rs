//! How far the same cell differs from itself.

use super::{File, Section, name, rows_as_csv};
use crate::error::Result;
use crate::measure::plan::Cell;
use crate::measure::reproduction::{Finding, Part, Reproduction};
use crate::report::figures::milliseconds;
use crate::report::text_table;

pub fn section(reproduction: &Reproduction) -> Result<Section> {
    let mut groups: Vec<(Cell, Vec<&Finding>)> = Vec::new();
    for finding in reproduction.part(Part::Variance) {
        let key = Cell { repeat: 0, ..finding.cell.clone() };
        match groups.iter_mut().find(|(cell, _)| *cell == key) {
            Some((_, findings)) => findings.push(finding),
            None => groups.push((key, vec![finding])),
        }
    }
    let mut rows = Vec::new();
    for (cell, findings) in &groups {
        let medians: Vec<f64> = findings.iter().filter_map(|finding| finding.row.median_ms).collect();
        let Some(spread) = spread(&medians) else { continue };
        let written: Vec<String> = medians.iter().map(|&median| milliseconds(Some(median))).collect();
        rows.push(vec![
            findings.first().map_or(String::new(), |finding| name(finding)),
            cell.candidates.to_string(),
            findings.iter().map(|finding| finding.row.times_ms.len()).max().unwrap_or(0).to_string(),
            written.join(", "),
            format!("{:.1} %", 100.0 * spread),
        ]);
    }
    if rows.is_empty() {
        return Ok(Section::default());
    }
    let headings = ["", "P", "questions", "medians, ms", "spread"];
    let table = text_table::markdown(&headings, &[false, true, true, true, true], rows.into_iter());
    let about = "The same cells, measured several times in this run: the selector's at its beginning, in its middle and at \
                 its end, the reranker's one after the other with the model loaded. The spread is the largest median less the \
                 smallest, over the middle one: differences between cells below it mean nothing, and slow drift adds to it.";
    let csv = rows_as_csv(reproduction.part(Part::Variance), &["repeat"], |finding| {
        vec![finding.cell.repeat.to_string()]
    })?;
    Ok(Section {
        markdown: format!("## Variance\n\n{about}\n\n{table}"),
        files: vec![File { name: "variance.csv".into(), content: csv }],
    })
}

/// (largest - smallest) / middle of two or more values.
pub fn spread(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (first, last) = (sorted.first()?, sorted.last()?);
    (sorted.len() > 1).then(|| (last - first) / sorted[sorted.len() / 2])
}
