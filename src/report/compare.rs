//! The table of `compare`.

use super::chart::{Chart, Marker, Scale, Series};
use super::figures::{milliseconds, ratio};
use super::{notes, text_table};
use crate::measure::compare::{Batch, Comparison, Layout};

/// The comparison as a table with its notes.
pub fn table(comparison: &Comparison) -> String {
    let vectors = |batch: &Batch| match batch.layout {
        Layout::Shared => "one store, resident".to_string(),
        Layout::Spread => "one store, resident, no row twice".into(),
        Layout::Distinct => "brought along".into(),
    };
    let agreement = |batch: &Batch| format!("{} of {}", batch.agreeing, batch.pools);
    let batches = comparison.batches.iter();
    let table = if comparison.timed {
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
        let rows = batches.map(|batch| {
            vec![
                batch.pools.to_string(),
                vectors(batch),
                milliseconds(Some(batch.cpu_one_thread_ms)),
                milliseconds(Some(batch.cpu_all_threads_ms)),
                milliseconds(Some(batch.gpu_ms)),
                milliseconds(Some(batch.gpu_ms * 1e3 / batch.pools.max(1) as f64)),
                ratio(Some(batch.cpu_all_threads_ms / batch.gpu_ms)),
                agreement(batch),
            ]
        });
        text_table::plain(&headings, &[true, false, true, true, true, true, true, true], rows)
    } else {
        let rows = batches.map(|batch| vec![batch.pools.to_string(), vectors(batch), agreement(batch)]);
        text_table::plain(&["pools", "vectors", "same order"], &[true, false, true], rows)
    };
    let (agreeing, pools) = comparison.agreement();
    let crossing = comparison.crossing.map_or_else(
        || match comparison.timed {
            true => "Within these batches the GPU does not pay beside all CPU threads.".to_string(),
            false => "The kernels ran on the CPU: nothing was timed.".into(),
        },
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

/// Time a pool over the pools in one call, of both sides and both layouts.
pub fn chart(comparison: &Comparison) -> Chart {
    type Side = (&'static str, fn(&Batch) -> f64);
    let sides: [Side; 3] = [
        ("CPU, 1 thread", |batch| batch.cpu_one_thread_ms),
        ("CPU, all threads", |batch| batch.cpu_all_threads_ms),
        ("GPU", |batch| batch.gpu_ms),
    ];
    let mut series = Vec::new();
    for (look, (side, milliseconds)) in sides.into_iter().enumerate() {
        for (line, layout) in [Layout::Shared, Layout::Spread, Layout::Distinct].into_iter().enumerate() {
            let batches = comparison.batches.iter().filter(|batch| batch.layout == layout);
            let point =
                |batch: &Batch| (batch.pools as f64, milliseconds(batch) * 1e3 / batch.pools.max(1) as f64);
            let points: Vec<(f64, f64)> = batches.map(point).filter(|(_, time)| time.is_finite()).collect();
            if points.is_empty() {
                continue;
            }
            let (label, marker) = match layout {
                Layout::Shared => (format!("{side}, one store"), Marker::Filled),
                Layout::Spread => (format!("{side}, no row twice"), Marker::Filled),
                Layout::Distinct => (format!("{side}, brought along"), Marker::Hollow),
            };
            series.push(Series { label, points, look, marker, line: Some(line) });
        }
    }
    let mut pools: Vec<f64> = comparison.batches.iter().map(|batch| batch.pools as f64).collect();
    pools.sort_by(f64::total_cmp);
    pools.dedup();
    let (p, k, d) = (comparison.candidates, comparison.top_k, comparison.dimension);
    Chart {
        title: "MemPursuit on the CPU and on the GPU".into(),
        subtitle: format!("P = {p}, K = {k}, d = {d}; {}", comparison.gpu),
        x_label: "pools in one call (log scale)".into(),
        x_scale: Scale::LogAt(pools),
        y_label: "time a pool, µs (log scale)".into(),
        y_scale: Scale::Log10,
        series,
        levels: Vec::new(),
    }
}
