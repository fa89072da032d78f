//! One paragraph that reads the numbers: sentences computed from them, none that praises.

use super::{Section, published};
use crate::error::Result;
use crate::measure::reproduction::{CANDIDATES, Finding, Part, Reproduction};
use crate::policy::{Kind, REFERENCE};
use crate::report::figures::{milliseconds, ratio};

pub fn section(reproduction: &Reproduction) -> Result<Section> {
    let sentences: Vec<String> = [hardware, implementations, sharing, tail, inference]
        .iter()
        .flat_map(|part| part(reproduction))
        .collect();
    Ok(Section { markdown: format!("## How to read it\n\n{}\n", sentences.join(" ")), files: Vec::new() })
}

/// A model's own and common (or unshared) implementation in the full batch, where both were measured.
struct Pair<'a> {
    own: &'a Finding,
    common: &'a Finding,
    own_ms: f64,
    common_ms: f64,
}

fn pairs(reproduction: &Reproduction, kind: Kind) -> Vec<Pair<'_>> {
    let of_kind = |finding: &&Finding| finding.row.description.kind == kind;
    let findings: Vec<&Finding> = reproduction.part(Part::Table13).filter(of_kind).collect();
    let is_own =
        |finding: &Finding| finding.cell.variant.engine == "packed" && !finding.cell.variant.unshared;
    let own = findings.iter().filter(|finding| is_own(finding));
    own.filter_map(|&own| {
        let same_model = |other: &&&Finding| other.row.model == own.row.model && !is_own(other);
        let common = findings.iter().find(same_model)?;
        Some(Pair { own, common, own_ms: own.row.median_ms?, common_ms: common.row.median_ms? })
    })
    .collect()
}

fn reranker_device(reproduction: &Reproduction) -> Option<&str> {
    let findings = reproduction.part(Part::Table13);
    findings
        .filter(|f| f.row.is_reranker() && f.row.median_ms.is_some())
        .map(|f| f.row.description.device.as_str())
        .next()
}

fn hardware(reproduction: &Reproduction) -> Vec<String> {
    let Some(device) = reranker_device(reproduction) else { return Vec::new() };
    vec![match device {
        "cpu" => "Published ratios set rerankers on an RTX 4090 against a selector on a CPU; here both ran on the same \
                  CPU, so ratios to MemPursuit are far above the published ones and say nothing about them. What carries \
                  over is the ratio between two implementations of one model."
            .into(),
        device => format!(
            "As in the paper, rerankers ran on a GPU ({device}) and the selector on a CPU; neither is the paper's, so a \
             ratio differs by hardware as well as by implementation."
        ),
    }]
}

fn implementations(reproduction: &Reproduction) -> Vec<String> {
    let mut sentences = Vec::new();
    for pair in pairs(reproduction, Kind::CrossEncoder) {
        let factor = pair.common_ms / pair.own_ms;
        let mut sentence = format!(
            "{}, all {} candidates in one batch: {} ms with the common padded implementation, {} ms with the packed one, \
             so {} of its ratio to MemPursuit here is implementation",
            pair.own.row.model,
            pair.own.cell.candidates,
            milliseconds(Some(pair.common_ms)),
            milliseconds(Some(pair.own_ms)),
            ratio(Some(factor)),
        );
        let (real, padded) = (pair.common.row.real_tokens, pair.common.row.padded_tokens);
        if padded > 0 && real > 0 {
            let slots = (real + padded) as f64 / real as f64;
            sentence += &format!(" ({} of it is padding)", ratio(Some(slots)));
        }
        if let Some(speedup) = pair.own.row.speedup_median {
            let rest =
                if pair.own.row.description.device == "cpu" { "the method's" } else { "method and hardware" };
            sentence += &format!(" and the remaining {} is {rest}", ratio(Some(speedup)));
        }
        if let Some(published) = published(Part::Table13, pair.own)
            && pair.own.cell.candidates == CANDIDATES
        {
            let left = published.speedup_median / factor;
            sentence += &format!(
                "; if the published baseline lost as much, its {} would be {} against a packed one",
                ratio(Some(published.speedup_median)),
                ratio(Some(left))
            );
        }
        sentences.push(sentence + ".");
    }
    sentences
}

fn sharing(reproduction: &Reproduction) -> Vec<String> {
    let sentence = |pair: Pair<'_>| {
        format!(
            "{}: running the prompts' common part once a pool instead of with each of {} candidates takes {} ms instead \
             of {} ms, {}.",
            pair.own.row.model,
            pair.own.cell.candidates,
            milliseconds(Some(pair.own_ms)),
            milliseconds(Some(pair.common_ms)),
            ratio(Some(pair.common_ms / pair.own_ms)),
        )
    };
    pairs(reproduction, Kind::LlmScorer).into_iter().map(sentence).collect()
}

fn tail(reproduction: &Reproduction) -> Vec<String> {
    let Some(own) = reproduction.part(Part::Table12).find(|finding| finding.row.model == REFERENCE) else {
        return Vec::new();
    };
    let (Some(mean), Some(median), Some(p95)) = (own.row.mean_ms, own.row.median_ms, own.row.p95_ms) else {
        return Vec::new();
    };
    let Some(paper) = published(Part::Table12, own) else { return Vec::new() };
    vec![format!(
        "The paper's MemPursuit has a mean of {:.2} ms, {:.2} times its median, with a P95 of {:.2} ms, for which it gives \
         no reason; its speedups by mean and by median differ by that factor. Here the mean is {:.2} times the median \
         and the P95 {} ms: a compiled selector has no such tail, so the published speedup by mean cannot be expected to \
         come out, and the two speedups stand closer together.",
        paper.mean_ms,
        paper.mean_ms / paper.median_ms,
        paper.p95_ms,
        mean / median,
        milliseconds(Some(p95)),
    )]
}

/// Said as inference: nothing here was measured by this run.
fn inference(_: &Reproduction) -> Vec<String> {
    vec![
        "Inferred from the published figures, not measured: the cross-encoders' latencies fit single precision at about \
         120 padded tokens a pair with about 40 ms of tokenising, rather than half precision; and of the 1.68 s of \
         Qwen3.5-0.8B about 1.4 s does not shrink with the parameters, which fits an unfused gated delta rule."
            .into(),
    ]
}
