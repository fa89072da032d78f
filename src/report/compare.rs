//! The table of `compare`.

use super::figures::{milliseconds, ratio};
use super::{notes, text_table};
use crate::measure::compare::{Comparison, Layout};

/// The comparison as a table with its notes.
pub fn table(comparison: &Comparison) -> String {
    let headings = [
        "pools",
        "vectors",
        "CPU, 1 thread, ms",
        "CPU, all, ms",
        "GPU ms",
        "GPU µs/pool",
        "all CPU / GPU",
        "same order",
    ];
    let rows = comparison.batches.iter().map(|batch| {
        vec![
            batch.pools.to_string(),
            match batch.layout {
                Layout::Shared => "one store, resident".into(),
                Layout::Distinct => "brought along".to_string(),
            },
            milliseconds(Some(batch.cpu_one_thread_ms)),
            milliseconds(Some(batch.cpu_all_threads_ms)),
            milliseconds(Some(batch.gpu_ms)),
            milliseconds(Some(batch.gpu_ms * 1e3 / batch.pools.max(1) as f64)),
            ratio(Some(batch.cpu_all_threads_ms / batch.gpu_ms)),
            format!("{} of {}", batch.agreeing, batch.pools),
        ]
    });
    let table = text_table::plain(&headings, &[true, false, true, true, true, true, true, true], rows);
    let (agreeing, pools) = comparison.agreement();
    let crossing = comparison.crossing.map_or_else(
        || "Within these batches the GPU does not pay beside all CPU threads.".to_string(),
        |pools| {
            format!(
                "From {} at a time over one store the GPU beats all CPU threads.",
                notes::plural(pools, "pool")
            )
        },
    );
    let mut lines = vec![
        format!(
            "GPU: {}. P = {}, K = {}, d = {}. CPU: {}, {}.",
            comparison.gpu,
            comparison.candidates,
            comparison.top_k,
            comparison.dimension,
            comparison.environment.cpu,
            notes::plural(comparison.environment.threads, "thread")
        ),
        format!("Orders agree on {agreeing} of {pools} pools. {crossing}"),
    ];
    lines.extend(comparison.left_out.iter().cloned());
    format!("{table}\n{}\n", lines.join("\n"))
}
