// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Times and sizes as people write them: `30d`, `500G`.

use std::time::Duration;

use crate::diagnostic::quote;

/// A text that is no time or no size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// It is no time.
    #[error("{} is no time; write one such as `30d`, `12h`, or `2w`", quote(.0))]
    Time(String),
    /// It is no size.
    #[error("{} is no size; write one such as `500G` or `1T`", quote(.0))]
    Size(String),
}

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Reads a time: a whole number and its unit, `s`, `m`, `h`, `d`, or `w`.
///
/// # Errors
///
/// [`AmountError::Time`] if it is none.
pub fn parse_time(text: &str) -> Result<Duration, AmountError> {
    let units = [("s", 1), ("m", MINUTE), ("h", HOUR), ("d", DAY), ("w", 7 * DAY)];
    scaled(text, &units).map(Duration::from_secs).ok_or_else(|| AmountError::Time(text.to_owned()))
}

/// Reads a size in bytes: a whole number and its unit, `K`, `M`, `G`, `T`, or `P` for powers of
/// 1,000, and `KiB` and so on for those of 1,024.
///
/// # Errors
///
/// [`AmountError::Size`] if it is none.
pub fn parse_size(text: &str) -> Result<u64, AmountError> {
    let mut units = vec![("", 1), ("B", 1)];
    let prefixes = [
        ["K", "KB", "KiB"],
        ["M", "MB", "MiB"],
        ["G", "GB", "GiB"],
        ["T", "TB", "TiB"],
        ["P", "PB", "PiB"],
    ];
    let mut scales = (1, 1);
    for [short, long, binary] in prefixes {
        scales = (scales.0 * 1000, scales.1 * 1024);
        units.extend([(short, scales.0), (long, scales.0), (binary, scales.1)]);
    }
    let bytes = scaled(text, &units).or_else(|| scaled(&text.replacen('k', "K", 1), &units));
    bytes.ok_or_else(|| AmountError::Size(text.to_owned()))
}

fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, scale) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.parse::<u64>().ok()?.checked_mul(*scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        let seconds =
            ["90s", "5m", "12h", "30d", "2w"].map(|text| parse_time(text).unwrap().as_secs());
        assert_eq!(seconds, [90, 300, 43_200, 2_592_000, 1_209_600]);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        let all = ["", "30", "d", "-1d", "1.5d", "3 months", "99999999999999999999d"];
        assert!(all.iter().all(|text| parse_time(text).is_err()));
    }

    #[test]
    fn sizes_have_units_of_both_kinds() {
        let bytes = ["500", "3k", "500G", "1 TB", "2GiB"].map(|text| parse_size(text).unwrap());
        assert_eq!(bytes, [500, 3_000, 500_000_000_000, 1_000_000_000_000, 2_147_483_648]);
    }

    #[test]
    fn what_is_no_size_is_refused() {
        let all = ["", "G", "1.5G", "-1", "7X", "99999999999P"];
        assert!(all.iter().all(|text| parse_size(text).is_err()));
    }
}
