//! Mean, median, P95, and a bootstrap interval for a ratio of medians.

use rand::SeedableRng;
use rand::distr::{Distribution, Uniform};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Resamples drawn for an interval.
const RESAMPLES: usize = 10_000;
/// Below this many questions no interval is given: a bootstrap of so few says little.
pub const QUESTIONS_FOR_INTERVAL: usize = 10;

/// Summary of one row's times, milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    pub mean: f64,
    pub median: f64,
    pub p95: f64,
    pub min: f64,
}

impl Summary {
    /// Summary of `times`; `None` where there are none.
    pub fn of(times: &[f64]) -> Option<Self> {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            min: *sorted.first()?,
            mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
            median: quantile(&sorted, 0.5),
            p95: quantile(&sorted, 0.95),
        })
    }
}

/// Quantile `q` of ascending `sorted` by linear interpolation between the two nearest ranks (Hyndman and
/// Fan's type 7, as NumPy's default). NaN for no values.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let position = q.clamp(0.0, 1.0) * last as f64;
    let (low, fraction) = (position.floor() as usize, position.fract());
    let high = (low + 1).min(last);
    sorted[low] + fraction * (sorted[high] - sorted[low])
}

/// 95 % percentile-bootstrap interval of `median(slow) / median(fast)`; see `ratio_interval`.
pub fn median_ratio_interval(slow: &[f64], fast: &[f64]) -> Option<[f64; 2]> {
    ratio_interval(slow, fast, |times| {
        times.sort_by(f64::total_cmp);
        quantile(times, 0.5)
    })
}

/// 95 % percentile-bootstrap interval of `mean(slow) / mean(fast)`; see `ratio_interval`.
pub fn mean_ratio_interval(slow: &[f64], fast: &[f64]) -> Option<[f64; 2]> {
    ratio_interval(slow, fast, |times| times.iter().sum::<f64>())
}

/// 95 % percentile-bootstrap interval of `statistic(slow) / statistic(fast)`.
///
/// Times are paired: `slow[i]` and `fast[i]` belong to the same pool, measured one after the other, so pools
/// are resampled and not single times. Seeded: the same times give the same interval. `None` below
/// [`QUESTIONS_FOR_INTERVAL`] pairs. The statistic may reorder what it is given.
fn ratio_interval(slow: &[f64], fast: &[f64], statistic: fn(&mut [f64]) -> f64) -> Option<[f64; 2]> {
    let pairs = slow.len().min(fast.len());
    if pairs < QUESTIONS_FOR_INTERVAL {
        return None;
    }
    let pick = Uniform::new(0, pairs).ok()?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(0x9e37_79b9);
    let (mut a, mut b) = (vec![0.0; pairs], vec![0.0; pairs]);
    let mut ratios: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            for (a, b) in a.iter_mut().zip(&mut b) {
                let i = pick.sample(&mut rng);
                (*a, *b) = (slow[i], fast[i]);
            }
            statistic(&mut a) / statistic(&mut b)
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    Some([quantile(&ratios, 0.025), quantile(&ratios, 0.975)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate_between_ranks() {
        let sorted = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(quantile(&sorted, 0.0), 1.0);
        assert_eq!(quantile(&sorted, 0.5), 2.5);
        assert!((quantile(&sorted, 0.95) - 3.85).abs() < 1e-12);
        assert_eq!(quantile(&sorted, 1.0), 4.0);
        assert_eq!(quantile(&[7.0], 0.95), 7.0);
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn a_summary_holds_the_four_figures() {
        let summary = Summary::of(&[3.0, 1.0, 2.0, 10.0]).unwrap();
        assert_eq!((summary.mean, summary.median, summary.min), (4.0, 2.5, 1.0));
        assert!((summary.p95 - 8.95).abs() < 1e-12);
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn no_interval_below_ten_questions() {
        assert_eq!(median_ratio_interval(&[2.0; 9], &[1.0; 9]), None);
        assert_eq!(median_ratio_interval(&[2.0; 10], &[1.0; 10]), Some([2.0, 2.0]));
    }

    #[test]
    fn the_interval_covers_the_ratio_and_is_repeatable() {
        let fast: Vec<f64> = (0..40).map(|i| 1.0 + f64::from(i % 7) * 0.01).collect();
        let slow: Vec<f64> = fast.iter().enumerate().map(|(i, t)| t * (30.0 + (i % 5) as f64)).collect();
        let [low, high] = median_ratio_interval(&slow, &fast).unwrap();
        assert!(low <= 32.0 && 32.0 <= high && low > 29.0 && high < 35.0, "{low} {high}");
        assert_eq!(median_ratio_interval(&slow, &fast), Some([low, high]));
    }
}
