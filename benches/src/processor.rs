// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The processor time that children took.
//!
//! It comes from `/proc/self/stat`, where the kernel adds up the children that have
//! ended and theirs, in ticks of usually 10 ms: fine for work of seconds, too coarse
//! for starts, for which it is not reported.

use std::fs;
use std::process::Command;
use std::time::Instant;

use crate::measure::{NotMeasured, finish};

/// What one command cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Wall time in seconds.
    pub(crate) wall: f64,
    /// Processor time in seconds that the command and all its children computed.
    pub(crate) user: f64,
    /// Processor time in seconds that the kernel worked for them.
    pub(crate) system: f64,
}

/// Runs a command to its end and returns what it cost.
pub(crate) fn cost_of(command: &mut Command) -> Result<Cost, NotMeasured> {
    cost_of_work(|| finish(command)).map(|(cost, _)| cost)
}

/// Does something with children, and returns what they cost.
pub(crate) fn cost_of_work<T>(
    work: impl FnOnce() -> Result<T, NotMeasured>,
) -> Result<(Cost, T), NotMeasured> {
    let (before, start) = (children_ticks()?, Instant::now());
    let done = work()?;
    let wall = start.elapsed().as_secs_f64();
    let after = children_ticks()?;
    let seconds = |after: u64, before: u64| {
        to_float(after.saturating_sub(before)) / to_float(rustix::param::clock_ticks_per_second())
    };
    let cost = Cost { wall, user: seconds(after.0, before.0), system: seconds(after.1, before.1) };
    Ok((cost, done))
}

fn children_ticks() -> Result<(u64, u64), NotMeasured> {
    let text = fs::read_to_string("/proc/self/stat")
        .map_err(|error| format!("cannot read /proc/self/stat: {error}"))?;
    children_ticks_in(&text).ok_or_else(|| "/proc/self/stat is not understood".to_owned())
}

/// Reads the fields `cutime` and `cstime`, the 16th and 17th of `proc(5)`. The
/// second field is a name that may hold anything; it ends with the last `)`.
fn children_ticks_in(text: &str) -> Option<(u64, u64)> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(13);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some((next()?, next()?))
}

/// Turns a count into a number to calculate with.
#[expect(clippy::cast_precision_loss, reason = "counts of bytes and ticks are far below 2^52")]
pub(crate) fn to_float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_children_is_found_behind_an_odd_name() {
        let text = "7 (a) b) R 1 2 3 4 5 6 7 8 9 10 11 12 30 4 20 0 1";
        assert_eq!(children_ticks_in(text), Some((30, 4)));
    }

    #[test]
    fn a_child_that_computes_costs_processor_time() {
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let cost = cost_of(Command::new("/bin/sh").args(["-c", script])).unwrap();
        assert!(cost.user > 0.0, "{cost:?}");
    }
}
