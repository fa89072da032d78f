//! Vectors: from the text of a JSON list to f32 numbers, each rounded once.

use serde_json::value::RawValue;

/// Appends the numbers of a raw JSON list to `matrix`, each the f32 nearest to its text, and returns their
/// count.
///
/// # Errors
/// The value is not a list, is empty, or has an entry that is not a number or overflows f32: as the rest of a
/// sentence that begins with the field's name.
pub fn append_vector(raw: &RawValue, matrix: &mut Vec<f32>) -> Result<usize, String> {
    let text = raw.get();
    let Some(list) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
        return Err(format!("is {}, and must be a list of numbers", kind(text)));
    };
    let mut rest = list.trim_ascii_start();
    if rest.is_empty() {
        return Err("is an empty list".into());
    }
    let start = matrix.len();
    loop {
        let (number, length) = match short_decimal(rest.as_bytes()) {
            Some(read) => read,
            None => any_number(rest)
                .map_err(|what| format!("{what} at position {} (from 0)", matrix.len() - start))?,
        };
        matrix.push(number);
        // The JSON around is valid: after a number come white space and a comma, or nothing.
        match rest[length..].trim_ascii_start().strip_prefix(',') {
            Some(next) => rest = next.trim_ascii_start(),
            None => return Ok(matrix.len() - start),
        }
    }
}

/// Reads the number that `text` begins with, if it is a plain decimal of at most 15 digits, and returns its
/// length.
///
/// The digits are a whole number below 2^53 and their scale a power of ten that f64 holds exactly, so that one
/// f64 division rounds correctly. Rounding its result to f32 is a second rounding, and harmless: numbers half
/// way between two f32 are exact in f64, so the first rounding never crosses one. It can only land on one, and
/// then this refuses, as it does where f32 is subnormal and where it overflows.
fn short_decimal(text: &[u8]) -> Option<(f32, usize)> {
    const POWERS: [f64; 16] =
        [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    let negative = text.first() == Some(&b'-');
    let (mut at, mut digits, mut count, mut point) = (usize::from(negative), 0u64, 0, None);
    loop {
        match text.get(at) {
            Some(digit @ b'0'..=b'9') => {
                digits = digits * 10 + u64::from(digit - b'0');
                count += 1;
                if count > 15 {
                    return None;
                }
            }
            Some(b'.') => point = Some(count),
            Some(b'e' | b'E') => return None,
            _ => break,
        }
        at += 1;
    }
    let scale = POWERS[count - point.unwrap_or(count)];
    let exact = digits as f64 / scale;
    let half_way = exact.to_bits() & 0x1fff_ffff == 0x1000_0000;
    let ordinary = exact == 0.0 || (f64::from(f32::MIN_POSITIVE)..1e38).contains(&exact);
    if count == 0 || half_way || !ordinary {
        return None;
    }
    let number = exact as f32;
    Some((if negative { -number } else { number }, at))
}

/// Reads the number that `text` begins with, and returns its length.
fn any_number(text: &str) -> Result<(f32, usize), String> {
    let entry = text.split(',').next().unwrap_or(text).trim_ascii_end();
    match entry.parse::<f32>() {
        Ok(number) if number.is_finite() => Ok((number, entry.len())),
        Ok(_) => Err(format!("overflows f32 with {entry}")),
        Err(_) => Err(format!("must hold numbers only, and has {}", kind(entry))),
    }
}

/// What a JSON value is, in words, told by its first byte.
pub fn kind(json: &str) -> &'static str {
    match json.as_bytes().first() {
        Some(b'"') => "a string",
        Some(b'[') => "a list",
        Some(b'{') => "an object",
        Some(b'n') => "null",
        Some(b't' | b'f') => "a truth value",
        _ => "a number",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::{append_vector, short_decimal};

    fn read(list: &str) -> Result<Vec<f32>, String> {
        let mut numbers = Vec::new();
        append_vector(serde_json::from_str::<&RawValue>(list).unwrap(), &mut numbers).map(|_| numbers)
    }

    #[test]
    fn the_short_way_leaves_half_way_cases_to_the_long_one() {
        // From 2^24 on, f32 holds every other whole number.
        assert_eq!(short_decimal(b"16777217"), None);
        assert_eq!(read("[16777217, 16777219]").unwrap(), [16777216.0, 16777220.0]);
        assert_eq!(short_decimal(b"0.1,"), Some((0.1, 3)));
        assert_eq!(short_decimal(b"-0]").map(|(number, _)| number.to_bits()), Some((-0.0f32).to_bits()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        /// The standard library's parser rounds correctly.
        #[test]
        fn decimals_are_rounded_to_the_nearest(digits in "-?(0|[1-9][0-9]{0,18})(\\.[0-9]{1,18})?([eE][+-]?[0-9]{1,2})?") {
            let expected: f32 = digits.parse().unwrap();
            match read(&format!("[ {digits} ,1]")) {
                Ok(numbers) => prop_assert_eq!(numbers[0].to_bits(), expected.to_bits()),
                Err(_) => prop_assert!(expected.is_infinite()),
            }
        }

        /// Decimals close to the middle of two neighbours: where rounding twice goes wrong.
        #[test]
        fn decimals_near_the_middle_are_rounded_to_the_nearest(bits in 0x3000_0000u32..0x4f00_0000, places in 0usize..17) {
            let (low, high) = (f32::from_bits(bits), f32::from_bits(bits + 1));
            let text = format!("{:.places$}", (f64::from(low) + f64::from(high)) / 2.0);
            let expected: f32 = text.parse().unwrap();
            prop_assert_eq!(read(&format!("[{text}]")).unwrap()[0].to_bits(), expected.to_bits());
        }

        #[test]
        fn numbers_read_back_as_written(bits in any::<u32>()) {
            let number = f32::from_bits(bits);
            prop_assume!(number.is_finite());
            let text = serde_json::to_string(&[number]).unwrap();
            prop_assert_eq!(read(&text).unwrap()[0].to_bits(), bits);
        }
    }
}
