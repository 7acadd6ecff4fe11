// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which package which worker builds next.
//!
//! Nothing is read or written here. Workers are numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The packages that are built, by their hashes.
#[derive(Debug)]
pub(super) struct Queue {
    packages: BTreeMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    /// Packages of the queue that must be built before.
    needs: BTreeSet<String>,
    /// How long the longest chain takes that begins with this package.
    weight: Duration,
    state: State,
    /// How many workers were lost with it.
    losses: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    With(usize),
    Done,
}

impl Queue {
    /// `needs` contains each package with the packages of the queue that it needs. `expected` returns how
    /// long a package may take.
    pub(super) fn new(
        needs: BTreeMap<String, BTreeSet<String>>,
        expected: &dyn Fn(&str) -> Duration,
    ) -> Self {
        let mut dependents: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (hash, needs) in &needs {
            for need in needs {
                dependents.entry(need).or_default().push(hash);
            }
        }
        let mut weights = BTreeMap::new();
        for hash in needs.keys() {
            weigh(hash, &dependents, expected, &mut weights);
        }
        let weights: BTreeMap<String, Duration> =
            weights.into_iter().map(|(hash, weight)| (hash.to_owned(), weight)).collect();
        let entry = |(hash, needs): (String, BTreeSet<String>)| {
            let weight = weights.get(&hash).copied().unwrap_or_default();
            (hash, Entry { needs, weight, state: State::Open, losses: 0 })
        };
        Self { packages: needs.into_iter().map(entry).collect() }
    }

    /// Gives packages to a worker: those that the longest chains wait for. `idle` is the number of workers
    /// that have none, and `most` how many packages the worker takes at once.
    pub(super) fn next(&mut self, worker: usize, idle: usize, most: usize) -> Vec<String> {
        let mut ready: Vec<(Duration, usize, String)> = Vec::new();
        for (hash, entry) in &self.packages {
            if entry.state == State::Open && entry.needs.iter().all(|need| self.is_built(need)) {
                ready.push((entry.weight, entry.losses, hash.clone()));
            }
        }
        ready.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.2.cmp(&other.2)));
        let count = ready.len().div_ceil(idle.max(1)).clamp(1, most.max(1));
        // A package that cost a worker already costs no other package.
        let is_alone = ready.first().is_some_and(|(_, losses, _)| *losses > 0);
        let mut given: Vec<String> = Vec::new();
        for (_, losses, hash) in ready {
            if given.len() == count || !given.is_empty() && (is_alone || losses > 0) {
                break;
            }
            given.push(hash);
        }
        for hash in &given {
            self.set(hash, State::With(worker));
        }
        given
    }

    /// Whether a worker builds a package.
    pub(super) fn is_with(&self, hash: &str, worker: usize) -> bool {
        self.packages.get(hash).is_some_and(|entry| entry.state == State::With(worker))
    }

    /// Notes that a package is built.
    pub(super) fn finish(&mut self, hash: &str) {
        self.set(hash, State::Done);
    }

    /// Takes back what a worker has not built. Returns each package, with the number of workers that were lost
    /// with it if this one `is_lost`.
    pub(super) fn take_back(&mut self, worker: usize, is_lost: bool) -> Vec<(String, usize)> {
        let mut taken = Vec::new();
        for (hash, entry) in &mut self.packages {
            if entry.state == State::With(worker) {
                entry.state = State::Open;
                entry.losses += usize::from(is_lost);
                taken.push((hash.clone(), entry.losses));
            }
        }
        taken
    }

    /// Whether all packages are built.
    pub(super) fn is_done(&self) -> bool {
        self.packages.values().all(|entry| entry.state == State::Done)
    }

    fn is_built(&self, hash: &str) -> bool {
        self.packages.get(hash).is_none_or(|entry| entry.state == State::Done)
    }

    fn set(&mut self, hash: &str, state: State) {
        if let Some(entry) = self.packages.get_mut(hash) {
            entry.state = state;
        }
    }
}

/// How long a package takes, with the longest chain of those that need it.
fn weigh<'a>(
    hash: &'a str,
    dependents: &BTreeMap<&'a str, Vec<&'a str>>,
    expected: &dyn Fn(&str) -> Duration,
    weights: &mut BTreeMap<&'a str, Duration>,
) -> Duration {
    if let Some(known) = weights.get(hash) {
        return *known;
    }
    let own = expected(hash);
    // Should packages need each other in a circle, it ends here.
    weights.insert(hash, own);
    let next = dependents.get(hash).into_iter().flatten();
    let after = next.map(|next| weigh(next, dependents, expected, weights)).max();
    let weight = own + after.unwrap_or_default();
    weights.insert(hash, weight);
    weight
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packages with what they need: `app` needs `lib`, which needs `tool`; `other` needs nothing.
    fn queue() -> Queue {
        let needs =
            [("app", vec!["lib"]), ("lib", vec!["tool"]), ("other", vec![]), ("tool", vec![])];
        let needs = needs
            .into_iter()
            .map(|(hash, needs)| (hash.to_owned(), needs.into_iter().map(str::to_owned).collect()));
        Queue::new(needs.collect(), &|_| Duration::from_secs(1))
    }

    #[test]
    fn a_package_waits_for_what_it_needs_and_the_longest_chain_begins_first() {
        let mut queue = queue();
        assert_eq!(queue.next(0, 2, 1), ["tool"]);
        assert_eq!(queue.next(1, 1, 1), ["other"]);
        assert_eq!(queue.next(1, 1, 1), [""; 0]);
        queue.finish("tool");
        assert_eq!(queue.next(0, 1, 4), ["lib"]);
        queue.finish("lib");
        queue.finish("other");
        assert_eq!(queue.next(1, 1, 4), ["app"]);
        queue.finish("app");
        assert!(queue.is_done());
    }

    #[test]
    fn packages_that_are_ready_are_shared_out_among_the_workers() {
        let mut queue = queue();
        assert_eq!(queue.next(0, 1, 4), ["tool", "other"]);
    }

    #[test]
    fn what_a_lost_worker_had_is_built_by_another_one_and_alone() {
        let mut queue = queue();
        assert_eq!(queue.next(0, 1, 4), ["tool", "other"]);
        queue.finish("other");
        assert_eq!(queue.take_back(0, true), [("tool".to_owned(), 1)]);
        assert!(!queue.is_with("tool", 0));
        assert_eq!(queue.next(1, 1, 4), ["tool"]);
        assert!(queue.is_with("tool", 1));
        assert_eq!(queue.take_back(1, true), [("tool".to_owned(), 2)]);
    }

    #[test]
    fn a_package_that_cost_a_worker_is_not_given_out_with_others() {
        let mut queue = queue();
        queue.next(0, 1, 4);
        queue.take_back(0, true);
        assert_eq!(queue.next(1, 1, 4), ["tool"]);
        assert_eq!(queue.next(2, 1, 4), ["other"]);
    }

    #[test]
    fn packages_that_need_each_other_in_a_circle_do_no_harm() {
        let both = [("a", "b"), ("b", "a")];
        let both = both.map(|(one, need)| (one.to_owned(), BTreeSet::from([need.to_owned()])));
        let mut queue = Queue::new(both.into(), &|_| Duration::from_secs(1));
        assert_eq!(queue.next(0, 1, 4), [""; 0]);
        assert!(!queue.is_done());
    }
}
