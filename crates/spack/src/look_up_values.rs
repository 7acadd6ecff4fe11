// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whether a variant can have the values that a spec names.

use std::ops::Range;

use cabane_label::enumerate;
use cabane_recipe::{WrittenVariant, WrittenWord, nearest};

use crate::look_up::Finding;
use crate::variant_values::{Values, is_switch};

/// How many values a hint lists.
const LISTED: usize = 10;

/// Returns what is wrong with the values of a variant of a package; nothing if they are not known.
pub(crate) fn look_up(
    package: &str,
    variant: &WrittenVariant,
    values: &Values,
    is_mistake: bool,
) -> Vec<Finding> {
    if values.is_open {
        return Vec::new();
    }
    let name = variant.name.text.as_str();
    let finding = |place, message, hint| Finding { place, message, hint, is_mistake };
    let Some(value) = &variant.value else {
        // On or off.
        let known: Vec<&str> = values.known.iter().map(String::as_str).collect();
        let message = format!("the variant `{name}` of the package `{package}` needs a value");
        let hint = format!("write `{name}=` with {}", listed(&known));
        let is_wrong = !values.is_switch && !known.is_empty();
        let place = variant.name.place.clone();
        return is_wrong.then(|| finding(place, message, hint)).into_iter().collect();
    };
    let is_allowed = |word: &str| {
        // Any value that the variant has.
        word == "*" || values.known.contains(word) || values.is_switch && is_switch(word)
    };
    let wrong = words(value).filter(|(word, _)| !is_allowed(word));
    let findings = wrong.map(|(word, place)| {
        if values.known.is_empty() {
            let message = format!(
                "the variant `{name}` of the package `{package}` is on or off, not `{word}`"
            );
            return finding(place, message, format!("write `+{name}` or `~{name}`"));
        }
        let message =
            format!("the variant `{name}` of the package `{package}` has no value `{word}`");
        finding(place, message, hint(word, values))
    });
    findings.collect()
}

/// The values of a spec with their places: `ofi` and `ucx` of `ofi,ucx`.
fn words(value: &WrittenWord) -> impl Iterator<Item = (&str, Range<usize>)> {
    let mut at = 0;
    // With escapes in the file, only the place of the whole is known.
    let is_exact = value.place.len() == value.text.len();
    let words = value.text.split(',').map(move |word| {
        let start = value.place.start + at;
        at += word.len() + 1;
        let place = if is_exact { start..start + word.len() } else { value.place.clone() };
        (word, place)
    });
    words.filter(|(word, _)| !word.is_empty())
}

fn hint(wanted: &str, values: &Values) -> String {
    let known: Vec<&str> = values.known.iter().map(String::as_str).collect();
    // `sm_90` and `90`, `release` and `Release`.
    let is_same = |one: &&&str| one.eq_ignore_ascii_case(wanted);
    let is_end = |one: &&&str| one.len() > 1 && wanted.ends_with(**one);
    let similar = known.iter().find(is_same);
    let similar = similar.or_else(|| known.iter().filter(is_end).max_by_key(|one| one.len()));
    match similar.copied().or_else(|| nearest(wanted, &known)) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("its values are {}", listed(&known)),
    }
}

/// Lists values, at most as many as a person reads.
fn listed(known: &[&str]) -> String {
    match known.len().checked_sub(LISTED) {
        None | Some(0) => enumerate(known, "and"),
        Some(more) => {
            let shown: Vec<String> =
                known[..LISTED].iter().map(|value| format!("`{value}`")).collect();
            format!("{}, and {more} others", shown.join(", "))
        }
    }
}
