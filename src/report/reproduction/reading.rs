//! One paragraph that reads the numbers: sentences computed from them, none that praises.

use super::{Section, published};
use crate::error::Result;
use crate::measure::reproduction::{CANDIDATES, Finding, Part, Reproduction};
use crate::measure::statistics::Summary;
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

/// Median of MemPursuit's times beside both rows of a pair: what both ratios are to divide by.
fn beside(pair: &Pair<'_>) -> Option<f64> {
    let times = [&pair.own.row.mempursuit_times_ms[..], &pair.common.row.mempursuit_times_ms].concat();
    Summary::of(&times).map(|summary| summary.median)
}

/// Where the rerankers ran, by the name of the card where it is known.
fn hardware(reproduction: &Reproduction) -> Vec<String> {
    let mut rerankers =
        reproduction.part(Part::Table13).filter(|f| f.row.is_reranker() && f.row.median_ms.is_some());
    let Some(row) = rerankers.next().map(|finding| &finding.row) else { return Vec::new() };
    let cpu = &reproduction.environment.cpu;
    vec![match row.description.device.as_str() {
        "cpu" => format!(
            "Published ratios set rerankers on an RTX 4090 against a selector on a CPU; here both ran on one CPU ({cpu}), so \
             their ratios say nothing about the published ones. Two implementations of one model, on the same texts, can \
             be compared."
        ),
        device => format!(
            "As in the paper, rerankers ran on a GPU ({}) and the selector on a CPU ({cpu}); the paper's are an RTX 4090 and \
             Xeon Gold 5117, so a ratio differs by hardware as well as by implementation.",
            reproduction.environment.gpu.as_deref().unwrap_or(device)
        ),
    }]
}

fn implementations(reproduction: &Reproduction) -> Vec<String> {
    pairs(reproduction, Kind::CrossEncoder).iter().map(implementation).collect()
}

fn implementation(pair: &Pair<'_>) -> String {
    let factor = pair.common_ms / pair.own_ms;
    let mut sentence = format!(
        "{}, all {} candidates in one batch{}: {} ms with the common padded implementation, {} ms with the packed one",
        pair.own.row.model,
        pair.own.cell.candidates,
        if pair.own.row.times_ms.len() == 1 { ", one question" } else { "" },
        milliseconds(Some(pair.common_ms)),
        milliseconds(Some(pair.own_ms)),
    );
    if factor <= 1.0 {
        return sentence + ", which gains nothing here.";
    }
    let (real, padded) = (pair.common.row.real_tokens, pair.common.row.padded_tokens);
    if padded > 0 && real > 0 {
        let slots = (real + padded) as f64 / real as f64;
        sentence += &format!("; the former computed {} as many token slots", ratio(Some(slots)));
    }
    if let Some(mempursuit) = beside(pair) {
        sentence += &format!(
            ". Of its {} MemPursuit's median, {} is implementation and {} the rest (method, and hardware where the two ran on \
             different devices)",
            ratio(Some(pair.common_ms / mempursuit)),
            ratio(Some(factor)),
            ratio(Some(pair.own_ms / mempursuit)),
        );
    }
    if let Some(published) = published(Part::Table13, pair.own)
        && pair.own.cell.candidates == CANDIDATES
    {
        sentence += &format!(
            ". If the published baseline lost as much to its implementation (an inference: it ran on other hardware), its \
             {:.2}x would be {} against a packed one",
            published.speedup_median,
            ratio(Some(published.speedup_median / factor))
        );
    }
    sentence + "."
}

fn sharing(reproduction: &Reproduction) -> Vec<String> {
    let sentence = |pair: Pair<'_>| {
        format!(
            "{}: running the prompts' common part once a pool instead of with each of {} candidates takes {} ms instead \
             of {} ms, a factor of {}.",
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
    let (theirs, ours) = (paper.mean_ms / paper.median_ms, mean / median);
    let here =
        format!("Here the mean is {ours:.2} times the median and the P95 {} ms", milliseconds(Some(p95)));
    vec![
        format!(
            "The paper's MemPursuit has a mean of {:.2} ms, {theirs:.2} times its median, with a P95 of {:.2} ms, for which it \
             gives no reason; its speedups by mean and by median differ by that factor.",
            paper.mean_ms, paper.p95_ms,
        ),
        if ours < theirs {
            here + ": without such a tail the published speedup by mean cannot be expected to come out, and the two speedups \
                    stand closer together."
        } else {
            here + ", a tail as long as the paper's: this machine was not quiet, and the figures of this run mean little."
        },
    ]
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
