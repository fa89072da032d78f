//! The lines under a table: what was measured, on what, by which clock, and what must not be read into it.

use crate::measure::results::{Results, Row};
use crate::measure::statistics::QUESTIONS_FOR_INTERVAL;

/// One sentence each.
pub fn lines(results: &Results) -> Vec<String> {
    let mut lines = vec![environment(results), workload(results), clock(results)];
    lines.extend(interval(results));
    lines.extend(random_weights(results));
    lines.extend(truncation(results));
    lines.extend(results.rows.iter().filter_map(sharing));
    lines.extend(by_text(results, "", |row| &row.description.notes));
    lines.extend(by_text(results, "", |row| row.error.as_slice()));
    lines.extend(by_text(results, "Warning: ", |row| &row.warnings));
    lines
}

/// What several models have in common is said once.
fn by_text(results: &Results, before: &str, texts: fn(&Row) -> &[String]) -> Vec<String> {
    let mut said: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in &results.rows {
        for text in texts(row) {
            let at = said.iter().position(|(other, _)| other == text).unwrap_or_else(|| {
                said.push((text, Vec::new()));
                said.len() - 1
            });
            if !said[at].1.contains(&row.model.as_str()) {
                said[at].1.push(&row.model);
            }
        }
    }
    said.into_iter().map(|(text, models)| format!("{before}{}: {text}.", models.join(", "))).collect()
}

fn environment(results: &Results) -> String {
    let e = &results.environment;
    let threads = plural(e.threads, "thread");
    let gpu = e.gpu.as_ref().map_or(String::new(), |gpu| format!("; {gpu}"));
    let (version, commit) = (&e.build.version, &e.build.commit);
    let flags = if e.build.cpu_flags.is_empty() { "none".into() } else { e.build.cpu_flags.join(" ") };
    format!(
        "Environment: {} ({} cores, {threads}; vector instructions: {flags}){gpu}; {}; rerank-bench {version} ({commit}).",
        e.cpu, e.cores, e.system
    )
}

fn workload(results: &Results) -> String {
    let w = &results.workload;
    let dimension = w.dimension.map_or(String::new(), |d| format!(", d = {d}"));
    let tokens = w.tokens.map_or(String::new(), |t| {
        format!(
            "; tokens a pair: mean {:.1}, median {:.0}, P95 {:.0}, max {:.0}",
            t.mean, t.p50, t.p95, t.max
        )
    });
    format!(
        "Workload: {}; {}, P = {}, K = {}{dimension}{tokens}.",
        w.source,
        plural(w.questions, "question"),
        w.candidates,
        w.top_k
    )
}

fn clock(results: &Results) -> String {
    let mut line = String::from(
        "Clock: selectors from vectors in memory to the finished order, each pool met cold; rerankers from texts in \
         memory to the finished order (tokenising, packing, forward, sort); loading and retrieval are outside. ",
    );
    line.push_str("Speedups divide by MemPursuit's own figure from the same interleaving, pool by pool.");
    let beside: Vec<f64> = results.rows.iter().flat_map(|row| &row.mempursuit_times_ms).copied().collect();
    let others = results.rows.iter().filter(|row| !row.mempursuit_times_ms.is_empty()).count();
    if others > 1 && results.rows.first().is_some_and(|row| row.times_ms == beside) {
        line.push_str(" MemPursuit's row sums up all its interleavings.");
    }
    line
}

fn interval(results: &Results) -> Option<String> {
    let timed = |row: &Row| !row.mempursuit_times_ms.is_empty();
    (results.workload.questions < QUESTIONS_FOR_INTERVAL && results.rows.iter().any(timed)).then(|| {
        format!("No 95 % interval below {QUESTIONS_FOR_INTERVAL} questions; --questions sets their number.")
    })
}

fn random_weights(results: &Results) -> Option<String> {
    let mut names: Vec<&str> =
        results.rows.iter().filter(|row| row.random_weights()).map(|row| row.model.as_str()).collect();
    // Rows of one model follow each other.
    names.dedup();
    (!names.is_empty()).then(|| {
        format!(
            "Random weights ({}): latencies are those of the real architecture, scores and orders mean nothing.",
            names.join(", ")
        )
    })
}

fn truncation(results: &Results) -> Option<String> {
    let cut: Vec<String> = results
        .rows
        .iter()
        .filter(|row| row.truncated > 0)
        .map(|row| {
            format!("{}: {} lost {} tokens", row.model, plural(row.truncated, "pair"), row.truncated_tokens)
        })
        .collect();
    (!cut.is_empty()).then(|| format!("Cut to the length limit: {}.", cut.join("; ")))
}

fn sharing(row: &Row) -> Option<String> {
    let pools = row.times_ms.len().max(1);
    let (prefix, naive) = (row.prefix_tokens? / pools, row.naive_tokens? / pools);
    let saved = naive.saturating_sub(row.real_tokens / pools);
    Some(format!(
        "{}: {prefix} tokens that a pool's prompts share were run once a pool; {saved} of {naive} tokens a pool \
         saved ({:.0} %).",
        row.model,
        100.0 * saved as f64 / naive as f64
    ))
}

/// `1 question`, `2 questions`.
pub fn plural(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
