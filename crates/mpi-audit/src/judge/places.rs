// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whether ranks are in each other's way.

use std::collections::{BTreeMap, BTreeSet};

use crate::benchmark::Place;

/// Returns a node and its processors on which there are more ranks than processors.
///
/// Ranks wait by looking again and again: two that share a processor wait for the end of
/// each other's turn, a thousand times as long as a message takes. Ranks that were put
/// together differ from too many of them: `available` is how many processors there
/// would be.
pub fn shared_processors(places: &[Place], available: usize) -> Option<(&str, &BTreeSet<u32>)> {
    let mut groups: BTreeMap<(&str, &BTreeSet<u32>), usize> = BTreeMap::new();
    let mut on_node: BTreeMap<&str, usize> = BTreeMap::new();
    for place in places.iter().filter(|place| !place.processors.is_empty()) {
        *groups.entry((&place.node, &place.processors)).or_default() += 1;
        *on_node.entry(&place.node).or_default() += 1;
    }
    let is_crowded = |((node, processors), ranks): &(&(&str, &BTreeSet<u32>), &usize)| {
        let is_possible = on_node.get(node).is_some_and(|all| *all <= available);
        **ranks > processors.len() && is_possible
    };
    let crowded = groups.iter().find(is_crowded);
    crowded.map(|(group, _)| *group)
}

/// Returns the node and the processor that the first and the last rank share, if they may use no
/// other one.
pub(super) fn only_processor(places: &[Place]) -> Option<(&str, u32)> {
    let (first, last) = (places.first()?, places.last()?);
    let processor = *first.processors.first()?;
    let is_only = |place: &Place| place.processors.len() == 1;
    let is_shared = first.node == last.node && first.processors == last.processors;
    (first.rank != last.rank && is_shared && is_only(first)).then_some((&first.node, processor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(rank: u32, node: &str, processors: &[u32]) -> Place {
        Place { rank, node: node.to_owned(), processors: processors.iter().copied().collect() }
    }

    #[test]
    fn two_ranks_that_may_use_one_processor_share_it() {
        let places = [place(0, "a", &[3]), place(1, "a", &[3])];
        let (node, processors) = shared_processors(&places, 8).unwrap();
        assert_eq!((node, processors.len()), ("a", 1));
    }

    #[test]
    fn ranks_with_enough_processors_share_none() {
        let free = [place(0, "a", &[0, 1]), place(1, "a", &[0, 1])];
        let bound = [place(0, "a", &[0]), place(1, "a", &[1])];
        let apart = [place(0, "a", &[0]), place(1, "b", &[0])];
        let shared = [&free, &bound, &apart].map(|places| shared_processors(places, 8));
        assert_eq!(shared, [None; 3]);
    }

    #[test]
    fn ranks_on_a_machine_with_one_processor_were_not_put_together_by_mistake() {
        let places = [place(0, "a", &[0]), place(1, "a", &[0])];
        assert_eq!(shared_processors(&places, 1), None);
    }

    #[test]
    fn two_ranks_with_one_processor_have_no_other() {
        let one = [place(0, "a", &[3]), place(1, "a", &[3])];
        let apart = [place(0, "a", &[3]), place(1, "b", &[3])];
        let two = [place(0, "a", &[2, 3]), place(1, "a", &[2, 3])];
        let seen = [&one, &apart, &two].map(|places| only_processor(places));
        assert_eq!(seen, [Some(("a", 3)), None, None]);
    }
}
