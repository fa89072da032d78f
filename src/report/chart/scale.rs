//! How values become places on an axis, and where its ticks stand.

use crate::report::figures::thousands;

/// Spacing of an axis.
#[derive(Debug, Clone, PartialEq)]
pub enum Scale {
    Linear,
    /// Logarithmic, a tick at each decade (and at 2 and 5 where there are few decades).
    Log10,
    /// Logarithmic, ticks at these values.
    LogAt(Vec<f64>),
}

/// An axis with its range.
#[derive(Debug, Clone)]
pub struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Axis {
    /// An axis that holds all `values` with some air around them; logarithmic ones pass over values that are not
    /// positive.
    pub fn around(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let log = scale != Scale::Linear;
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite() && (!log || *value > 0.0)) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        let axis = Self { scale, low, high };
        let (mut from, mut to) = (axis.place(low), axis.place(high));
        if to - from < 1e-9 {
            (from, to) = (from - 0.5, to + 0.5);
        }
        let air = 0.06 * (to - from);
        let (from, to) = (from - air, to + air);
        let (low, high) = if log { (from.exp2(), to.exp2()) } else { (from, to) };
        Self { low, high, ..axis }
    }

    fn place(&self, value: f64) -> f64 {
        if self.scale == Scale::Linear { value } else { value.log2() }
    }

    /// The value's place along the axis: 0 at its beginning, 1 at its end.
    pub fn fraction(&self, value: f64) -> f64 {
        let (from, to) = (self.place(self.low), self.place(self.high));
        (self.place(value) - from) / (to - from)
    }

    /// Where ticks stand, and what is written at them.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let values = match &self.scale {
            Scale::LogAt(values) => values.clone(),
            Scale::Log10 => decades(self.low, self.high),
            Scale::Linear => steps(self.low, self.high),
        };
        let inside = |value: &f64| (self.low..=self.high).contains(value);
        values.into_iter().filter(inside).map(|value| (value, written(value))).collect()
    }
}

fn decades(low: f64, high: f64) -> Vec<f64> {
    let wide = (high / low).log10() > 3.0;
    let factors: &[f64] = if wide { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    (first..=last).flat_map(|e| factors.iter().map(move |factor| factor * 10f64.powi(e))).collect()
}

fn steps(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 6.0;
    let decade = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|s| s * decade).into_iter().find(|&s| s >= rough).unwrap_or(rough);
    let (first, last) = ((low / step).ceil() as i64, (high / step).floor() as i64);
    (first..=last).map(|i| i as f64 * step).collect()
}

/// As few digits as the value needs.
fn written(value: f64) -> String {
    if value >= 1000.0 && value.fract() == 0.0 {
        return thousands(value as u64);
    }
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written_at(axis: &Axis) -> Vec<String> {
        axis.ticks().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round_and_inside() {
        let axis = Axis::around(Scale::Log10, [0.4, 23_000.0].into_iter());
        assert_eq!(written_at(&axis), ["1", "10", "100", "1,000", "10,000"]);
        let axis = Axis::around(Scale::Log10, [0.4, 9.0].into_iter());
        assert_eq!(written_at(&axis), ["0.5", "1", "2", "5", "10"]);
        let axis = Axis::around(Scale::Linear, [79.5, 87.1].into_iter());
        assert_eq!(written_at(&axis), ["80", "82", "84", "86"]);
        let batches = Scale::LogAt(vec![1.0, 2.0, 128.0, 144.0]);
        assert_eq!(written_at(&Axis::around(batches, [1.0, 130.0].into_iter())), ["1", "2", "128", "144"]);
    }

    #[test]
    fn places_run_from_end_to_end() {
        for scale in [Scale::Linear, Scale::Log10] {
            let axis = Axis::around(scale, [1.0, 4.0, 16.0, f64::NAN].into_iter());
            let places = [1.0, 4.0, 16.0].map(|value| axis.fraction(value));
            assert!(places[0] > 0.0 && places[0] < places[1] && places[1] < places[2] && places[2] < 1.0);
        }
        let axis = Axis::around(Scale::Log10, [1.0, 4.0, 16.0, -3.0, 0.0].into_iter());
        assert!((axis.fraction(4.0) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn one_value_and_none_have_an_axis_too() {
        assert!((Axis::around(Scale::Log10, [7.0].into_iter()).fraction(7.0) - 0.5).abs() < 1e-12);
        assert!(!Axis::around(Scale::Linear, [].into_iter()).ticks().is_empty());
    }
}
