// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Dates, as the releases of uenv have written them.
//!
//! A day alone, a day and a time, with or without parts of a second and the offset to UTC;
//! where there is none it is UTC.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Reads a date; `None` if it is none.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    if let Ok(date) = text.parse::<Timestamp>() {
        return Some(date);
    }
    let date: DateTime = text.parse().ok()?;
    TimeZone::UTC.to_timestamp(date).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        parse(text).map(|date| date.to_string())
    }

    #[test]
    fn a_date_of_any_release_is_read() {
        let dates = [
            "2024-03-11 17:08:35.976000+00:00",
            "2024-03-11T17:08:35.976Z",
            "2024-03-11 17:08:35",
            "2024-03-11",
        ];
        assert_eq!(
            dates.map(|date| read(date).unwrap_or_default()),
            [
                "2024-03-11T17:08:35.976Z",
                "2024-03-11T17:08:35.976Z",
                "2024-03-11T17:08:35Z",
                "2024-03-11T00:00:00Z"
            ]
        );
    }

    #[test]
    fn a_word_is_no_date() {
        assert_eq!(read("monday"), None);
    }
}
