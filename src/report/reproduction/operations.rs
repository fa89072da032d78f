//! Table 1: operation counts, computed for this run, beside measured time.

use super::{File, Section, name, number, rows_as_csv};
use crate::error::Result;
use crate::measure::reproduction::{Finding, Part, Reproduction};
use crate::policy::Kind;
use crate::report::figures::milliseconds;
use crate::report::text_table;

/// Operations and memory of one pool, as the paper's Table 1 counts them (orders of magnitude, no constants).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Count {
    pub operations: f64,
    pub memory: f64,
}

/// MemPursuit: P²d + KP² + K⁴ operations, Pd + P² numbers.
pub fn mempursuit(candidates: usize, top_k: usize, dimension: usize) -> Count {
    let [p, k, d] = [candidates, top_k, dimension].map(|n| n as f64);
    Count { operations: p * p * d + k * p * p + k.powi(4), memory: p * d + p * p }
}

/// A scorer of L layers of width W on P texts of n tokens: PL(nW² + n²W) operations, LW² + LnW + n² numbers.
pub fn scorer(candidates: usize, layers: usize, width: usize, tokens: f64) -> Count {
    let [p, l, w] = [candidates, layers, width].map(|n| n as f64);
    let n = tokens;
    Count { operations: p * l * (n * w * w + n * n * w), memory: l * w * w + l * n * w + n * n }
}

const HEADINGS: [&str; 7] = [
    "",
    "shape",
    "operations",
    "memory, numbers",
    "median ms",
    "operations a second",
    "over MemPursuit's operations",
];
const RIGHT: [bool; 7] = [false, false, true, true, true, true, true];

/// A cell's shape in words, and its counts.
fn count(reproduction: &Reproduction, finding: &Finding) -> Option<(String, Count)> {
    let cell = &finding.cell;
    let (p, k) = (cell.candidates, cell.top_k);
    if finding.row.description.kind == Kind::Selector {
        let d = reproduction.dimension?;
        return Some((format!("P = {p}, K = {k}, d = {d}"), mempursuit(p, k, d)));
    }
    let network = reproduction.network(&finding.row.model)?;
    let n = finding.row.tokens?.mean;
    let (l, w) = (network.layers, network.width);
    Some((format!("P = {p}, L = {l}, W = {w}, n = {n:.1}"), scorer(p, l, w, n)))
}

pub fn section(reproduction: &Reproduction) -> Result<Section> {
    let counted: Vec<(&Finding, String, Count, f64)> = reproduction
        .part(Part::Table13)
        .filter_map(|finding| {
            let (shape, count) = count(reproduction, finding)?;
            Some((finding, shape, count, finding.row.median_ms?))
        })
        .collect();
    if counted.is_empty() {
        return Ok(Section::default());
    }
    let over = |finding: &Finding, count: &Count| {
        let base = mempursuit(finding.cell.candidates, finding.cell.top_k, reproduction.dimension?);
        Some(count.operations / base.operations)
    };
    let rows = counted.iter().map(|(finding, shape, count, median)| {
        vec![
            name(finding),
            shape.clone(),
            format!("{:.3e}", count.operations),
            format!("{:.3e}", count.memory),
            milliseconds(Some(*median)),
            format!("{:.2e}", count.operations / (median * 1e-3)),
            over(finding, count).map_or("-".into(), |over| format!("{over:.2e}")),
        ]
    });
    let table = text_table::markdown(&HEADINGS, &RIGHT, rows);
    let findings = counted.iter().map(|(finding, ..)| *finding);
    let csv = rows_as_csv(findings, &["operations", "memory_numbers", "over_mempursuit"], |finding| {
        let count = count(reproduction, finding).map(|(_, count)| count);
        vec![
            number(count.map(|count| count.operations)),
            number(count.map(|count| count.memory)),
            number(count.and_then(|count| over(finding, &count))),
        ]
    })?;
    let about = "Table 1 counts orders of magnitude: P²d + KP² + K⁴ for MemPursuit, PL(nW² + n²W) for a scorer of L layers \
                 of width W on texts of n tokens. Computed for the cells of Table 13, n as measured. The counts leave \
                 constants out (a layer multiplies each token by about 12W² weights) and what is saved: the selector here \
                 computes only the Gram columns that it needs, and a shared prefix is run once.";
    Ok(Section {
        markdown: format!("## Table 1: operation counts of this run\n\n{about}\n\n{table}"),
        files: vec![File { name: "table-1.csv".into(), content: csv }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_own_figures_come_out() {
        let rounded = |value: f64| format!("{value:.3e}");
        let selector = mempursuit(200, 50, 1536);
        assert_eq!([selector.operations, selector.memory].map(rounded), ["6.969e7", "3.472e5"]);
        let llm = scorer(200, 32, 2560, 128.0);
        assert_eq!([llm.operations, llm.memory].map(rounded), ["5.637e12", "2.202e8"]);
    }
}
