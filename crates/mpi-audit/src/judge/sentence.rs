// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Comparisons as text.

use std::fmt;

use jiff::civil::Date;

use super::{Against, AuditChange, Comparison};

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (size, measured, factor) = (size(self.bytes), self.measured, self.factor());
        write!(f, "{size} take {} µs, {factor:.1} times ", short(measured))?;
        match (self.against, self.peers) {
            (Against::Peers, Some(peers)) => write!(f, "the median of {peers}"),
            (Against::Peers, None) => f.write_str("the median"),
            (Against::Kept, _) => f.write_str("what earlier audits of such nodes found"),
            (Against::Reference, _) => f.write_str("the reference"),
            (Against::Floor, _) => f.write_str("what shared memory takes without MPI"),
        }
    }
}

impl fmt::Display for AuditChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = |since: &Option<Date>, unknown: &str| {
            since.map_or_else(|| unknown.to_owned(), |day| format!(" on {day}"))
        };
        match self {
            Self::Added { name } => write!(f, "{name}: is new"),
            Self::Removed { name } => write!(f, "{name}: was not found"),
            Self::Class { name, before, now, since } => {
                write!(f, "{name}: was {before}{}, and is {now}", on(since, ""))
            }
            Self::Latency { name, bytes, before, now, since } => {
                let (what, before, now) = (size(*bytes), short(*before), short(*now));
                let when = on(since, " before");
                write!(f, "{name}: {what} took {before} µs{when}, and take {now} µs now")
            }
        }
    }
}

/// A size of messages as people write it.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

/// A figure with three digits or so.
pub fn short(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A part as people write it.
pub fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Reason;

    #[test]
    fn a_slow_latency_is_shown_with_what_it_was_compared() {
        let comparison = Comparison {
            bytes: 32768,
            measured: 12.34,
            expected: 2.9,
            against: Against::Peers,
            peers: Some(14),
            way: None,
            is_disturbed: false,
        };
        assert_eq!(
            Reason::Slow(comparison).to_string(),
            "32 KiB take 12.3 µs, 4.3 times the median of 14"
        );
    }

    #[test]
    fn silent_singletons_are_shown_by_their_number() {
        let reason = Reason::OtherSize { found: 1, wanted: 2, groups: 2 };
        assert_eq!(
            reason.to_string(),
            "2 times 1 of 2 ranks: the launcher belongs to another library"
        );
    }
}
