//! Figures 5 and 9.

use super::{Section, figure, name};
use crate::error::Result;
use crate::measure::reproduction::{BATCH, CANDIDATES, Finding, Part, Reproduction};
use crate::policy::REFERENCE;
use crate::report::chart::{Chart, Level, Marker, Scale, Series};
use crate::report::{paper, sweep};

/// Figure 9: latency over batch sizes.
pub fn batches(reproduction: &Reproduction) -> Result<Section> {
    let findings: Vec<&Finding> =
        reproduction.part(Part::Figure9).filter(|finding| finding.row.median_ms.is_some()).collect();
    let title = "Figure 9: latency over batch size";
    let Some(first) = findings.first() else {
        return Ok(Section {
            markdown: format!("## {title}\n\nNo cell of it could be measured.\n"),
            ..Section::default()
        });
    };
    let mut chart = sweep::chart(findings.iter().map(|finding| &finding.row));
    let whole = first.cell.candidates == CANDIDATES;
    if whole {
        publish(&mut chart);
    }
    let (p, k) = (first.cell.candidates, first.cell.top_k);
    let missing: Vec<String> = reproduction
        .part(Part::Figure9)
        .filter(|finding| finding.row.median_ms.is_none())
        .map(|finding| format!("{} at {}", name(finding), finding.cell.batch))
        .collect();
    let mut about = format!(
        "Median latency of a pool (P = {p}, K = {k}) over candidates in one forward pass; MemPursuit, which has no \
         batches, is the dashed line."
    );
    about += if whole {
        " Hollow: as published in Tables 12 and 13 (the paper's figure gives no numbers)."
    } else {
        " The paper's Figure 9 has P = 200, and MemPursuit at 8.67 ms."
    };
    if !missing.is_empty() {
        about += &format!(" Not measured: {}.", missing.join(", "));
    }
    Ok(figure("figure-9", title, &about, chart.svg()))
}

/// Adds the published latencies of the models in the chart, at the batches of Tables 12 and 13.
fn publish(chart: &mut Chart) {
    let mut hollow = Vec::new();
    for series in &chart.series {
        for (batch, table) in [(BATCH, paper::TABLE_12), (CANDIDATES, paper::TABLE_13)] {
            let Some(row) = table.iter().find(|row| row.model == series.label) else { continue };
            let points = vec![(batch as f64, row.median_ms)];
            let label = String::new();
            hollow.push(Series { label, points, look: series.look, marker: Marker::Hollow, line: None });
        }
    }
    chart.series.extend(hollow);
    let median = paper::TABLE_12.iter().find(|row| row.model == REFERENCE).map(|row| row.median_ms);
    chart.levels.extend(median.map(|y| Level { label: format!("MemPursuit as published, {y:.2} ms"), y }));
}

/// Figure 5: the paper's accuracy over latency, published and ours.
pub fn accuracy(reproduction: &Reproduction) -> Result<Section> {
    let mut series = Vec::new();
    let mut smaller = false;
    for (look, &(model, accuracy)) in paper::ACCURACY.iter().enumerate() {
        let found = reproduction
            .part(Part::Table12)
            .find(|finding| finding.row.model == model && finding.row.median_ms.is_some());
        let Some(finding) = found else { continue };
        let Some(here) = finding.row.median_ms else { continue };
        let whole = finding.cell.candidates == CANDIDATES;
        smaller |= !whole;
        let mut label = if model == REFERENCE { "MemPursuit".to_string() } else { model.to_string() };
        if !whole {
            label += &format!(" (P = {})", finding.cell.candidates);
        }
        let point = |ms: f64, marker, label: String| Series {
            label,
            points: vec![(ms, accuracy)],
            look,
            marker,
            line: None,
        };
        let published = paper::TABLE_12.iter().find(|published| published.model == model);
        // Only latencies of equal pools are joined.
        if let Some(published) = published.filter(|_| whole) {
            let link = vec![(published.median_ms, accuracy), (here, accuracy)];
            let label = String::new();
            // Joined from the published point to ours.
            series.push(Series { label, points: link, look, marker: Marker::Hollow, line: Some(2) });
            series.push(point(published.median_ms, Marker::Hollow, String::new()));
        }
        series.push(point(here, Marker::Filled, label));
    }
    if series.is_empty() {
        return Ok(Section::default());
    }
    let chart = Chart {
        title: "Accuracy as published over latency".into(),
        subtitle: "Filled: latency here, P = 200 unless marked. Hollow: latency as published.".into(),
        x_label: "median latency, ms (log scale)".into(),
        x_scale: Scale::Log10,
        y_label: "accuracy as published, %".into(),
        y_scale: Scale::Linear,
        series,
        levels: Vec::new(),
    };
    let mut about = String::from(
        "Accuracies are the paper's (Table 9, LoCoMo at top 20) and were not measured here; latencies are ours \
         (filled, the rows of Table 12) and the paper's (hollow).",
    );
    if smaller {
        about += " Models marked with another P met smaller pools here: the published latencies are not beside them.";
    }
    Ok(figure("figure-5", "Figure 5: accuracy over latency", &about, chart.svg()))
}
