//! What was measured on what, and the command that repeats it.

use super::{Section, name};
use crate::error::Result;
use crate::measure::reproduction::{Part, Reproduction};
use crate::measure::results::{Results, Tokens, Workload};
use crate::report::{notes, text_table};

pub fn section(reproduction: &Reproduction) -> Result<Section> {
    let mut text = String::from(
        "# Efficiency results of the MemPursuit paper, measured again\n\n\
         The paper is Feng and Fan, \"Recall What Is Missing\", arXiv 2610.15642v1. Its figures stand beside those of \
         this run; they were taken on two Xeon Gold 5117 (MemPursuit, numba, one thread) and an RTX 4090 (rerankers).\n\n\
         ## What was measured\n\n",
    );
    if reproduction.quick {
        text += "**This is a quick run: only the first model met the paper's pools (P = 200, K = 20), with very few \
                 questions; the others met pools of 16 candidates, and only the first of each kind was swept over \
                 batch sizes. It shows that everything runs, not what it \
                 costs.**\n\n";
    }
    let mut lines = machines(reproduction);
    lines.extend(notes::lines(&as_results(reproduction)));
    lines.extend(reproduction.notes.iter().cloned());
    for (number, line) in lines.iter().enumerate() {
        // A model's rows in two tables have the same to say.
        if !lines[..number].contains(line) {
            text += &format!("- {line}\n");
        }
    }
    if let Some(tokens) = tokens(reproduction) {
        text += &format!(
            "\nTokens of a pair or prompt, special tokens among them, as each model saw them:\n\n{tokens}"
        );
    }
    text += &format!("\nThe command:\n\n```\n{}\n```\n", reproduction.command);
    Ok(Section { markdown: text, files: Vec::new() })
}

/// Where and how each side computed.
fn machines(reproduction: &Reproduction) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for finding in reproduction.part(Part::Table13).filter(|finding| finding.row.median_ms.is_some()) {
        let about = &finding.row.description;
        let line = if finding.row.is_reranker() {
            let threads = notes::plural(reproduction.environment.threads, "thread");
            let place = if about.device == "cpu" { format!("cpu, {threads}") } else { about.device.clone() };
            format!("Rerankers: {place}, {}, {} weights.", about.dtype, about.weights)
        } else {
            format!("MemPursuit: {}, one thread, {}.", about.device, about.dtype)
        };
        if !said.contains(&line) {
            said.push(line);
        }
    }
    said
}

/// The rows of Tables 12 and 13 in the form that the notes are written from.
fn as_results(reproduction: &Reproduction) -> Results {
    let shown = |part: &Part| matches!(part, Part::Table12 | Part::Table13);
    let findings = reproduction.findings.iter().filter(|finding| finding.parts.iter().any(shown));
    let rows: Vec<_> = findings.map(|finding| finding.row.clone()).collect();
    let rerankers = rows.iter().filter(|row| row.is_reranker());
    let largest =
        |value: fn(&crate::measure::results::Row) -> usize| rows.iter().map(value).max().unwrap_or(0);
    Results {
        command: reproduction.command.clone(),
        environment: reproduction.environment.clone(),
        workload: Workload {
            source: reproduction.source.clone(),
            // Of the rerankers: what the note on intervals is about.
            questions: rerankers.map(|row| row.times_ms.len()).filter(|&n| n > 0).min().unwrap_or(0),
            candidates: largest(|row| row.candidates),
            top_k: largest(|row| row.top_k),
            dimension: reproduction.dimension,
            tokens: None,
        },
        rows,
    }
}

fn tokens(reproduction: &Reproduction) -> Option<String> {
    let line = |name: String, t: Tokens| {
        let whole = |value: f64| format!("{value:.0}");
        vec![name, format!("{:.1}", t.mean), whole(t.p50), whole(t.p95), whole(t.max)]
    };
    let rows: Vec<Vec<String>> = reproduction
        .part(Part::Table13)
        .filter_map(|finding| Some(line(name(finding), finding.row.tokens?)))
        .collect();
    if rows.is_empty() {
        return None;
    }
    let locomo = Tokens { mean: 60.6, p50: 57.0, p95: 96.0, max: 150.0 };
    let rows = rows
        .into_iter()
        .chain([line("for comparison, not of this run: LoCoMo's pairs, XLM-R's word pieces".into(), locomo)]);
    let headings = ["", "mean", "median", "P95", "longest"];
    Some(text_table::markdown(&headings, &[false, true, true, true, true], rows))
}
