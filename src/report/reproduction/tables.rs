//! Tables 12 and 13: every reranker beside MemPursuit, the published figures beside ours.

use super::{Section, Table, name, number, published, rows_as_csv};
use crate::error::Result;
use crate::measure::reproduction::{CANDIDATES, Finding, Part, Reproduction};
use crate::report::columns::outcome;
use crate::report::figures::{milliseconds, ratio_with_interval, thousands};

pub fn batch_128(reproduction: &Reproduction) -> Result<Section> {
    let about = "At most 128 candidates in a forward pass (Table 12).";
    table(reproduction, Part::Table12, "table-12", "Table 12: batches of 128", about)
}

pub fn full_batch(reproduction: &Reproduction) -> Result<Section> {
    let about = "All candidates of a pool in one forward pass; a row whose pass does not fit into memory says so (Table 13). \
                 On a CPU the packed networks compute a pass in groups of one or two thousand tokens, which changes no \
                 score.";
    table(reproduction, Part::Table13, "table-13", "Table 13: the full batch", about)
}

const HEADINGS: &[&str] = &[
    "model",
    "P / K",
    "batch",
    "passes",
    "questions",
    "tokens a pool",
    "padded",
    "mean ms",
    "median ms",
    "P95 ms",
    "MemPursuit beside it, median ms",
    "here: by mean [95 %]",
    "here: by median [95 %]",
    "published: mean / median / P95 ms",
    "published: by mean",
    "published: by median",
];
const RIGHT: [bool; 16] =
    [false, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true];

fn table(
    reproduction: &Reproduction,
    part: Part,
    file: &'static str,
    title: &str,
    about: &str,
) -> Result<Section> {
    let csv = rows_as_csv(
        reproduction.part(part),
        &[
            "mempursuit_median_ms",
            "published_mean_ms",
            "published_median_ms",
            "published_p95_ms",
            "published_speedup_mean",
            "published_speedup_median",
        ],
        |finding| {
            let p = published(part, finding);
            vec![
                number(finding.row.mempursuit_median_ms()),
                number(p.map(|p| p.mean_ms)),
                number(p.map(|p| p.median_ms)),
                number(p.map(|p| p.p95_ms)),
                number(p.and_then(|p| p.speedup_mean)),
                number(p.map(|p| p.speedup_median)),
            ]
        },
    )?;
    let smaller = reproduction.part(part).any(|finding| finding.cell.candidates != CANDIDATES);
    let brackets = if smaller {
        " Published figures in brackets belong to pools of 200, and must not be read beside a row with another P."
    } else {
        ""
    };
    let table = Table {
        file,
        title: title.into(),
        about: format!(
            "{about} Speedups divide by MemPursuit's own figure from the same interleaving, pool by pool, which stands \
             beside; MemPursuit's own row was measured alone.{brackets}"
        ),
        headings: HEADINGS,
        right: &RIGHT,
        rows: reproduction.part(part).map(|finding| cells(part, finding)).collect(),
    };
    Ok(table.section(csv))
}

fn cells(part: Part, finding: &Finding) -> Vec<String> {
    let row = &finding.row;
    let reranker = |text: String| if row.is_reranker() { text } else { "-".into() };
    let pools = row.times_ms.len();
    let a_pool = |tokens: usize| match pools {
        0 => "-".into(),
        _ => reranker(thousands((tokens / pools) as u64)),
    };
    let mut cells = vec![
        name(finding),
        format!("{} / {}", finding.cell.candidates, finding.cell.top_k),
        reranker(finding.cell.batch.to_string()),
        reranker(if pools == 0 { "-".into() } else { row.passes.to_string() }),
        pools.to_string(),
        a_pool(row.real_tokens),
        a_pool(row.padded_tokens),
        milliseconds(row.mean_ms),
        outcome(row, milliseconds(row.median_ms)),
        milliseconds(row.p95_ms),
        row.mempursuit_median_ms().map_or("-".into(), |ms| milliseconds(Some(ms))),
        ratio_with_interval(row.speedup_mean, row.speedup_mean_ci95),
        ratio_with_interval(row.speedup_median, row.speedup_median_ci95),
    ];
    // As printed in the paper, digit by digit.
    let as_printed = |value: f64| format!("{value:.2}x");
    let comparable =
        |text: String| if finding.cell.candidates == CANDIDATES { text } else { format!("[{text}]") };
    cells.extend(match published(part, finding) {
        Some(p) => [
            comparable(format!("{:.2} / {:.2} / {:.2}", p.mean_ms, p.median_ms, p.p95_ms)),
            p.speedup_mean.map_or("-".into(), |speedup| comparable(as_printed(speedup))),
            comparable(as_printed(p.speedup_median)),
        ],
        None => ["-".into(), "-".into(), "-".into()],
    });
    cells
}
