// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How long the packages take that are still to be installed.

use std::collections::BTreeMap;
use std::time::Duration;

/// A package that is not there yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open<'a> {
    /// How long it takes, if that is known.
    pub(super) expected: Option<Duration>,
    /// How long it has been worked on.
    pub(super) gone: Duration,
    /// What must be there before it.
    pub(super) needs: &'a [String],
}

/// Estimates how long the rest takes: at least as long as the longest chain of packages
/// that need each other, and as long as all of them in so many lanes. `None` if too
/// little is known.
pub(super) fn left(open: &BTreeMap<&str, Open<'_>>, lanes: u32) -> Option<Duration> {
    let known: Vec<Duration> = open.values().filter_map(|one| one.expected).collect();
    let unknown = open.len() - known.len();
    if known.is_empty() || unknown * 4 > known.len() {
        return None;
    }
    let count = u32::try_from(known.len()).unwrap_or(u32::MAX);
    let mean = known.iter().sum::<Duration>() / count;
    let mut chains = BTreeMap::new();
    let longest = open.keys().map(|hash| chain(hash, open, mean, &mut chains)).max();
    let all: Duration = open.values().map(|one| one.left(mean)).sum();
    Some((all / lanes.max(1)).max(longest.unwrap_or_default()))
}

impl Open<'_> {
    fn left(&self, mean: Duration) -> Duration {
        self.expected.unwrap_or(mean).saturating_sub(self.gone)
    }
}

/// How long a package takes with those that it waits for.
fn chain<'a>(
    hash: &'a str,
    open: &BTreeMap<&'a str, Open<'a>>,
    mean: Duration,
    known: &mut BTreeMap<&'a str, Duration>,
) -> Duration {
    if let Some(found) = known.get(hash) {
        return *found;
    }
    let Some(one) = open.get(hash) else {
        return Duration::ZERO;
    };
    let own = one.left(mean);
    // Should packages need each other in a circle, it ends here.
    known.insert(hash, own);
    let before = one.needs.iter().map(|need| chain(need, open, mean, known)).max();
    let all = own + before.unwrap_or_default();
    known.insert(hash, all);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of `a`, which needs `b`, and `c`.
    fn left_of(seconds: [Option<u64>; 3], lanes: u32) -> Option<u64> {
        let needs = ["b".to_owned()];
        let needs: [&[String]; 3] = [&needs, &[], &[]];
        let packages = ["a", "b", "c"].into_iter().zip(seconds).zip(needs);
        let open = packages.map(|((name, seconds), needs)| {
            let one =
                Open { expected: seconds.map(Duration::from_secs), gone: Duration::ZERO, needs };
            (name, one)
        });
        left(&open.collect(), lanes).map(|left| left.as_secs())
    }

    #[test]
    fn what_is_left_is_at_least_the_longest_chain() {
        assert_eq!(left_of([Some(100), Some(60), Some(20)], 3), Some(160));
    }

    #[test]
    fn in_one_lane_everything_comes_one_after_the_other() {
        assert_eq!(left_of([Some(100), Some(60), Some(20)], 1), Some(180));
    }

    #[test]
    fn with_too_little_known_nothing_is_estimated() {
        assert_eq!(left_of([Some(100), None, None], 1), None);
    }

    #[test]
    fn packages_that_need_each_other_in_a_circle_do_no_harm() {
        let needs = ["a".to_owned()];
        let one = Open {
            expected: Some(Duration::from_secs(7)),
            gone: Duration::from_secs(2),
            needs: &needs,
        };
        let left = left(&BTreeMap::from([("a", one)]), 1);
        assert_eq!(left, Some(Duration::from_secs(10)));
    }
}
