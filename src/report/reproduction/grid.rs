//! Table 14: the selector over pool sizes and budgets.

use super::{Section, Table, number, rows_as_csv};
use crate::error::Result;
use crate::measure::reproduction::{Part, Reproduction};
use crate::report::{grid, paper};

pub fn section(reproduction: &Reproduction) -> Result<Section> {
    let mut findings: Vec<_> = reproduction.part(Part::Table14).collect();
    // One of the cells is shared with Table 12 and stands first in the plan.
    findings.sort_by_key(|finding| (finding.cell.candidates, finding.cell.top_k));
    let csv = rows_as_csv(findings.iter().copied(), &["published_median_ms"], |finding| {
        vec![number(paper::grid_median_ms(finding.row.candidates, finding.row.top_k))]
    })?;
    let table = Table {
        file: "table-14",
        title: "Table 14: MemPursuit over pool sizes and budgets".into(),
        about: grid::PAPER.into(),
        headings: &grid::HEADINGS,
        right: &[true; 7],
        rows: findings.iter().map(|finding| grid::cells(&finding.row)).collect(),
    };
    Ok(table.section(csv))
}
