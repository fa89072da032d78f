//! One pool's line of `rank`: the JSON object of the interfaces page, in selection order or by time.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::error::Error;
use crate::policy::{Description, Kind, Pick, Selection};
use crate::pool::Pool;

/// In which order a pool's results are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// As selected, best first.
    #[default]
    Score,
    /// The selected candidates by their time stamps, oldest first (the paper's A.3); those without one last.
    Time,
}

#[derive(Serialize)]
struct Line<'a> {
    id: &'a str,
    model: &'a str,
    results: Vec<Entry<'a>>,
    selected: usize,
    truncated: usize,
    truncated_tokens: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    weights: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_hash: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: &'a Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<Vec<TraceStep<'a>>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    rank: usize,
    index: usize,
    id: std::borrow::Cow<'a, str>,
    score: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    probability: Option<f64>,
}

#[derive(Serialize)]
struct TraceStep<'a> {
    step: usize,
    index: usize,
    score: f64,
    residual: f64,
    objective: f64,
    reduction: f64,
    nu: f64,
    certificate: f64,
    weights: &'a [f64],
}

#[derive(Serialize)]
struct Failure<'a> {
    id: &'a str,
    error: String,
}

/// The line of a pool that was ordered, without a line break.
pub fn line(pool: &Pool, model: &str, about: &Description, selection: &Selection, order: Order) -> String {
    let reranker = about.kind != Kind::Selector;
    let trace = (!selection.trace.is_empty()).then(|| {
        let steps = selection.trace.iter().enumerate();
        steps
            .map(|(i, step)| TraceStep {
                step: i + 1,
                index: step.index as usize,
                score: step.score,
                residual: step.residual,
                objective: step.objective,
                reduction: step.reduction,
                nu: step.nu,
                certificate: step.certificate,
                weights: &step.weights,
            })
            .collect()
    });
    let line = Line {
        id: &pool.id,
        model,
        results: listed(pool, &selection.picks, order)
            .into_iter()
            .map(|(rank, pick)| Entry {
                rank,
                index: pick.index,
                id: pool.candidate_id(pick.index),
                score: score(pick.score, reranker),
                weight: pick.weight,
                probability: pick.probability,
            })
            .collect(),
        selected: selection.picks.len(),
        truncated: selection.work.truncated,
        truncated_tokens: selection.work.truncated_tokens,
        weights: reranker.then_some(about.weights.as_str()),
        revision: about.revision.as_deref(),
        prompt_hash: about.prompt_hash.as_deref(),
        warnings: &selection.warnings,
        trace,
    };
    // Strings, finite numbers and vectors of them always serialise.
    serde_json::to_string(&line).unwrap_or_default()
}

/// The line of a pool that failed, without a line break.
pub fn failure(id: &str, error: &Error) -> String {
    serde_json::to_string(&Failure { id, error: error.to_string() }).unwrap_or_default()
}

/// A logit is an f32 and is written with an f32's shortest digits; both forms read back exactly.
fn score(score: f64, is_logit: bool) -> Box<RawValue> {
    let written = if is_logit { to_raw_value(&(score as f32)) } else { to_raw_value(&score) };
    written.unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// The picks with their selection step, in the order asked for.
fn listed<'a>(pool: &Pool, picks: &'a [Pick], order: Order) -> Vec<(usize, &'a Pick)> {
    let mut listed: Vec<_> = picks.iter().enumerate().map(|(i, pick)| (i + 1, pick)).collect();
    if order == Order::Time {
        let time = |pick: &Pick| pool.candidates[pick.index].timestamp.as_deref().and_then(instant);
        // Stable: equal times, and candidates without one, keep their selection order.
        listed.sort_by_key(|(_, pick)| {
            let time = time(pick);
            (time.is_none(), time)
        });
    }
    listed
}

/// Nanoseconds since 1970 of an RFC 3339 time stamp, or of a bare date (its midnight, UTC).
fn instant(stamp: &str) -> Option<i128> {
    use time::format_description::well_known::Rfc3339;
    let stamp = stamp.trim();
    let whole =
        if stamp.len() == "2023-07-11".len() { format!("{stamp}T00:00:00Z") } else { stamp.to_string() };
    let zoned = |text: &str| time::OffsetDateTime::parse(text, &Rfc3339).ok();
    zoned(&whole).or_else(|| zoned(&format!("{whole}Z"))).map(time::OffsetDateTime::unix_timestamp_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_stamps_compare_as_instants() {
        let utc = instant("2023-07-11T10:00:00Z");
        assert!(utc.is_some());
        assert_eq!(utc, instant("2023-07-11T12:00:00+02:00"));
        assert_eq!(utc, instant("2023-07-11T10:00:00"));
        assert!(instant("2023-07-11") < utc);
        assert_eq!(instant("last summer"), None);
    }
}
