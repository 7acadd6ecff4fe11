// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Names of nodes as Slurm writes a list of them: `n[1-4,7],login`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What names have in common that are written as one: what is before the number and behind it,
/// and the number of digits if it begins with a zero.
type Family<'a> = (&'a str, &'a str, usize);

/// Writes names of nodes as Slurm does: each once, those that differ in their last number
/// together.
pub fn node_list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut families: BTreeMap<Family<'_>, Vec<u64>> = BTreeMap::new();
    let mut others: Vec<&str> = Vec::new();
    for name in names {
        match split(name) {
            Some((family, number)) => families.entry(family).or_default().push(number),
            None => others.push(name),
        }
    }
    let mut list: Vec<String> = families.into_iter().map(written).collect();
    others.sort_unstable();
    others.dedup();
    list.extend(others.into_iter().map(str::to_owned));
    list.join(",")
}

/// Splits a name around the last number of its first part: the rest of it is a domain.
fn split(name: &str) -> Option<(Family<'_>, u64)> {
    let (host, domain) = name.split_at(name.find('.').unwrap_or(name.len()));
    let end = host.trim_end_matches(|letter: char| !letter.is_ascii_digit()).len();
    let (front, back) = host.split_at(end);
    let start = front.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
    let (prefix, digits) = front.split_at(start);
    let number = digits.parse().ok()?;
    let width = if digits.len() > 1 && digits.starts_with('0') { digits.len() } else { 0 };
    let suffix = name.get(name.len() - back.len() - domain.len()..)?;
    Some(((prefix, suffix, width), number))
}

fn written(((prefix, suffix, width), mut numbers): (Family<'_>, Vec<u64>)) -> String {
    numbers.sort_unstable();
    numbers.dedup();
    if let [number] = numbers.as_slice() {
        return format!("{prefix}{number:0width$}{suffix}");
    }
    let mut text = format!("{prefix}[");
    let runs = numbers.chunk_by(|one, next| one.checked_add(1) == Some(*next));
    for (place, run) in runs.enumerate() {
        let comma = if place == 0 { "" } else { "," };
        // Writing to a string does not fail.
        let _ = match run {
            [first, .., last] => write!(text, "{comma}{first:0width$}-{last:0width$}"),
            [first] => write!(text, "{comma}{first:0width$}"),
            [] => Ok(()),
        };
    }
    text + "]" + suffix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_written(names: &[&str], expected: &str) {
        assert_eq!(node_list(names.iter().copied()), expected);
    }

    #[test]
    fn numbers_in_a_row_are_written_as_a_range() {
        assert_written(&["n4", "n1", "n2", "n3", "n7", "n2"], "n[1-4,7]");
    }

    #[test]
    fn a_single_node_has_no_brackets() {
        assert_written(&["n1"], "n1");
        assert_written(&["login", "login"], "login");
        assert_written(&[], "");
    }

    #[test]
    fn zeros_before_a_number_are_kept() {
        assert_written(&["nid001", "nid002", "nid010"], "nid[001-002,010]");
        assert_written(&["n9", "n10", "n09"], "n[9-10],n09");
        assert_written(&["n0", "n1"], "n[0-1]");
    }

    #[test]
    fn domains_and_names_without_numbers_are_kept() {
        assert_written(&["n1.site2", "n2.site2", "gpu"], "n[1-2].site2,gpu");
        assert_written(&["a1b2", "a1b3", "a1-login"], "a1-login,a1b[2-3]");
    }

    #[test]
    fn a_thousand_nodes_are_one_range() {
        let names: Vec<String> = (1..=1000).map(|number| format!("n{number}")).collect();
        assert_eq!(node_list(names.iter().map(String::as_str)), "n[1-1000]");
    }
}
