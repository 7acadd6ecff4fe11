// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Reasons in words.

use std::fmt;

use super::{Comparison, Reason};

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotCompiled { message } => write!(f, "does not compile: {message}"),
            Self::NoCompiler => f.write_str(
                "no compiler wrapper, and no other installation has a program for its library",
            ),
            Self::NoLauncher => f.write_str("no mpiexec or mpirun"),
            Self::NotStarted { code, message } if *code < 0 => {
                write!(f, "signal {}: {message}", -code)
            }
            Self::NotStarted { code, message } => write!(f, "exit code {code}: {message}"),
            Self::OtherSize { found, wanted, groups } => write!(
                f,
                "{groups} times {found} of {wanted} ranks: the launcher belongs to another library"
            ),
            Self::OtherLibrary { loaded } => write!(f, "another library was loaded: {loaded}"),
            Self::WrongData { what } => write!(f, "wrong data arrived: {what}"),
            Self::TooLate { seconds, stage } => write!(f, "no end within {seconds} s, {stage}"),
            Self::SharedProcessors { node, processors } => {
                let all: Vec<_> = processors.iter().map(ToString::to_string).collect();
                write!(f, "more ranks than processors: all on {} of {node}", all.join(", "))
            }
            Self::Slow(one) => {
                write!(f, "{one}")?;
                one.way.map_or(Ok(()), |way| write!(f, "{way}"))
            }
            Self::Compared(one) => write!(f, "at worst, {one}"),
            Self::NothingToCompare { peers } => {
                write!(f, "nothing to compare with: {peers} healthy")
            }
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (size, measured, factor) = (size(self.bytes), self.measured, self.factor());
        write!(f, "{size} take {} µs, {factor:.1} times ", short(measured))?;
        match self.peers {
            Some(peers) => write!(f, "the median of {peers}"),
            None => f.write_str("the reference"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_latency_is_told_with_whom_it_was_compared() {
        let comparison =
            Comparison { bytes: 32768, measured: 12.34, expected: 2.9, peers: Some(14), way: None };
        assert_eq!(
            Reason::Slow(comparison).to_string(),
            "32 KiB take 12.3 µs, 4.3 times the median of 14"
        );
    }

    #[test]
    fn silent_singletons_are_told_by_their_number() {
        let reason = Reason::OtherSize { found: 1, wanted: 2, groups: 2 };
        assert_eq!(
            reason.to_string(),
            "2 times 1 of 2 ranks: the launcher belongs to another library"
        );
    }
}
