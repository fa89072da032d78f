//! How figures are written for people: as many digits as the measurement carries.

/// Milliseconds with about four significant digits.
pub fn milliseconds(time: Option<f64>) -> String {
    match time {
        None => "-".into(),
        Some(t) if t < 0.1 => format!("{t:.4}"),
        Some(t) if t < 10.0 => format!("{t:.3}"),
        Some(t) if t < 100.0 => format!("{t:.2}"),
        Some(t) if t < 1000.0 => format!("{t:.1}"),
        Some(t) => thousands(t.round() as u64),
    }
}

/// A ratio: `1.00x`, `32.9x`, `12,345x`.
pub fn ratio(value: Option<f64>) -> String {
    match value {
        None => "-".into(),
        Some(r) if r < 10.0 => format!("{r:.2}x"),
        Some(r) if r < 1000.0 => format!("{r:.1}x"),
        Some(r) => format!("{}x", thousands(r.round() as u64)),
    }
}

/// A ratio with its interval: `32.9x [31.0, 34.1]`.
pub fn ratio_with_interval(value: Option<f64>, interval: Option<[f64; 2]>) -> String {
    let bare = |value: f64| ratio(Some(value)).trim_end_matches('x').to_string();
    match interval {
        Some([low, high]) => format!("{} [{}, {}]", ratio(value), bare(low), bare(high)),
        None => ratio(value),
    }
}

/// Digits in groups of three.
pub fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_about_four_digits() {
        let written: Vec<String> = [0.012345, 0.5, 9.876, 57.76, 283.73, 10421.4]
            .into_iter()
            .map(|t| milliseconds(Some(t)))
            .collect();
        assert_eq!(written, ["0.0123", "0.500", "9.876", "57.76", "283.7", "10,421"]);
        assert_eq!(milliseconds(None), "-");
    }

    #[test]
    fn ratios_carry_their_interval() {
        assert_eq!(ratio(Some(1.0)), "1.00x");
        assert_eq!(ratio_with_interval(Some(32.94), None), "32.9x");
        assert_eq!(ratio_with_interval(Some(32.94), Some([31.0, 34.06])), "32.9x [31.0, 34.1]");
        assert_eq!(ratio_with_interval(Some(41234.5), Some([40000.0, 42000.0])), "41,235x [40,000, 42,000]");
    }

    #[test]
    fn thousands_are_grouped_from_the_right() {
        assert_eq!(["0", "999", "1,000", "12,345,678"], [0, 999, 1000, 12_345_678].map(thousands)[..]);
    }
}
