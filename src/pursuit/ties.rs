//! The tie rule: of all within 1e-12 of the best, the lowest position wins.

/// Scores closer than this are one score.
pub(super) const TIE: f64 = 1e-12;

/// Of `(position, score)` pairs, the one that the tie rule picks: where in the list it is.
pub(super) fn pick(pairs: &[(u32, f64)]) -> Option<usize> {
    let best = pairs.iter().fold(f64::NEG_INFINITY, |best, pair| best.max(pair.1));
    (0..pairs.len()).filter(|&k| pairs[k].1 >= best - TIE).min_by_key(|&k| pairs[k].0)
}

/// Orders pairs as repeated picking would: by score descending, the lowest position first within the reach of
/// each next best.
pub(super) fn sort(pairs: &mut [(u32, f64)]) {
    pairs.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    for at in 0..pairs.len() {
        let best = pairs[at].1;
        let run = pairs[at..].iter().take_while(|pair| pair.1 >= best - TIE).count();
        if let Some(lowest) = (at..at + run).min_by_key(|&k| pairs[k].0) {
            pairs[at..=lowest].rotate_right(1);
        }
    }
}
