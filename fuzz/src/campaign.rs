// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Feeding a target, and noticing when it panics, hangs or errs.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::mutator::mutate;
use crate::random::Random;
use crate::targets::{Target, Verdict};

/// The longest that one input may take.
const LIMIT: Duration = Duration::from_secs(1);

/// How often a slow input is tried again before it counts: on a busy machine
/// everything is slow now and then.
const TRIES: usize = 3;

/// How many inputs are kept to be damaged further.
const POOL: usize = 2000;

/// What a campaign did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// How many inputs were fed.
    pub inputs: u64,
    /// How many of them were read.
    pub accepted: u64,
}

/// An input that a target failed on.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The input.
    pub input: Vec<u8>,
    /// What happened.
    pub reason: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = &self.input[..self.input.len().min(400)];
        let reason: String = self.reason.chars().take(1000).collect();
        write!(
            f,
            "{reason}\ninput ({} bytes): {}",
            self.input.len(),
            start.escape_ascii()
        )
    }
}

/// Feeds the seeds, and then what becomes of them, until the time is over.
///
/// Which inputs are fed depends on the seed only; how many, on the time.
pub fn run(
    target: &Target,
    seeds: Vec<Vec<u8>>,
    seed: u64,
    time: Duration,
) -> Result<Summary, Failure> {
    let end = Instant::now() + time;
    let mut summary = Summary::default();
    for input in &seeds {
        summary.count(feed(target, input)?);
    }
    let mut random = Random::new(seed);
    let mut pool = if seeds.is_empty() {
        vec![Vec::new()]
    } else {
        seeds
    };
    let kept = pool.len();
    while Instant::now() < end {
        let input = mutate(&pool, target.dictionary, &mut random);
        if !summary.count(feed(target, &input)?) {
            continue;
        }
        // What was accepted is closer to what is right than a random text; of
        // it, more is made.
        if pool.len() < kept + POOL {
            pool.push(input);
        } else {
            let place = kept + random.below(POOL);
            pool[place] = input;
        }
    }
    Ok(summary)
}

impl Summary {
    /// Counts one input; returns whether it was accepted.
    fn count(&mut self, is_accepted: bool) -> bool {
        self.inputs += 1;
        self.accepted += u64::from(is_accepted);
        is_accepted
    }
}

/// Feeds one input; returns whether it was accepted.
pub fn feed(target: &Target, input: &[u8]) -> Result<bool, Failure> {
    let failure = |reason| {
        Err(Failure {
            input: input.to_vec(),
            reason,
        })
    };
    for tries_left in (0..TRIES).rev() {
        let start = Instant::now();
        let verdict = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
        let duration = start.elapsed();
        match verdict {
            Err(_) => return failure("the target panicked".to_owned()),
            Ok(Verdict::Wrong(reason)) => return failure(reason),
            Ok(_) if duration > LIMIT && tries_left == 0 => {
                return failure(format!("the target took {duration:?}"));
            }
            Ok(_) if duration > LIMIT => {}
            Ok(verdict) => return Ok(verdict == Verdict::Accepted),
        }
    }
    unreachable!("the last try returns");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(run: fn(&[u8]) -> Verdict) -> Target {
        Target {
            name: "test",
            run,
            dictionary: &[],
        }
    }

    fn outcome(run_target: fn(&[u8]) -> Verdict) -> String {
        let time = Duration::from_millis(200);
        let summary = run(&target(run_target), vec![b"seed".to_vec()], 1, time);
        summary.map_err(|failure| failure.reason).unwrap_err()
    }

    #[test]
    fn a_panic_is_noticed() {
        assert_eq!(outcome(|input| panic!("{input:?}")), "the target panicked");
    }

    #[test]
    fn a_verdict_is_passed_on() {
        assert_eq!(
            outcome(|_| Verdict::Wrong("so wrong".to_owned())),
            "so wrong"
        );
    }

    #[test]
    fn slowness_is_noticed() {
        let slow = |_: &[u8]| {
            std::thread::sleep(LIMIT + Duration::from_millis(100));
            Verdict::Accepted
        };
        assert!(outcome(slow).starts_with("the target took 1."));
    }

    #[test]
    fn something_rare_is_found() {
        let rare = |input: &[u8]| {
            if input.windows(3).any(|three| three == b"eee") {
                return Verdict::Wrong("found".to_owned());
            }
            Verdict::Refused
        };
        assert_eq!(outcome(rare), "found");
    }
}
