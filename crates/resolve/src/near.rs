// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a user may have meant who requested something that is not there.

use std::collections::BTreeSet;

use cabane_label::{Label, LabelPattern, NameMatch, System, SystemPattern, enumerate};
use strsim::osa_distance;

use crate::names::some_of;

/// Looks for what may have been meant by a pattern that matches nothing, and says so.
pub(crate) fn near_miss<'a>(
    pattern: &LabelPattern,
    labels: impl Iterator<Item = &'a Label> + Clone,
) -> Option<String> {
    other_systems(pattern, labels.clone())
        .or_else(|| same_name(pattern, labels.clone()))
        .or_else(|| similar_names(pattern, labels))
}

fn other_systems<'a>(
    pattern: &LabelPattern,
    labels: impl Iterator<Item = &'a Label>,
) -> Option<String> {
    let with = |system| LabelPattern { system: Some(system), ..pattern.clone() };
    let anywhere = with(SystemPattern::Any);
    let fitting = labels.filter(|label| anywhere.matches(label, NameMatch::Exact));
    let systems: BTreeSet<&System> = fitting.map(|label| &label.system).collect();
    let first = with(SystemPattern::Is(System::clone(systems.first()?)));
    let names: Vec<String> = systems.iter().map(|system| format!("@{system}")).collect();
    let built_for = enumerate(&names, "or");
    Some(format!("it is built for {built_for}: write `{first}` or `{anywhere}`"))
}

fn same_name<'a>(
    pattern: &LabelPattern,
    labels: impl Iterator<Item = &'a Label>,
) -> Option<String> {
    let name = pattern.name.as_ref()?;
    let labels: BTreeSet<Label> = labels.filter(|label| label.name == *name).cloned().collect();
    // What fits in the most parts comes first; the newest version is likely the last.
    let mut labels: Vec<Label> = labels.into_iter().rev().collect();
    labels.sort_by_key(|label| differences(pattern, label));
    (!labels.is_empty()).then(|| format!("there is {}", some_of(&labels)))
}

fn differences(pattern: &LabelPattern, label: &Label) -> usize {
    let system = match &pattern.system {
        Some(SystemPattern::Is(system)) => *system != label.system,
        _ => false,
    };
    let differs = [
        pattern.version.as_ref().is_some_and(|version| *version != label.version),
        pattern.tag.as_ref().is_some_and(|tag| *tag != label.tag),
        system,
        pattern.uarch.as_ref().is_some_and(|uarch| *uarch != label.uarch),
    ];
    differs.into_iter().filter(|differs| *differs).count()
}

fn similar_names<'a>(
    pattern: &LabelPattern,
    labels: impl Iterator<Item = &'a Label>,
) -> Option<String> {
    let name = pattern.name.as_ref()?.as_str();
    let names: BTreeSet<&str> = labels.map(|label| label.name.as_str()).collect();
    let longer = names.iter().filter(|other| other.starts_with(name)).take(3);
    let mut meant: Vec<String> = longer.map(ToString::to_string).collect();
    if meant.is_empty() {
        meant = vec![similar(name, names.into_iter())?.to_owned()];
    }
    Some(format!("did you mean {}?", enumerate(&meant, "or")))
}

/// Returns the candidate that differs least from the one that was typed, if it differs little.
#[must_use]
pub fn similar<'a>(typed: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (typed.chars().count() / 3).clamp(1, 3);
    let distances = candidates.map(|one| (osa_distance(typed, one), one));
    distances.filter(|(distance, _)| *distance <= allowed).min().map(|(_, one)| one)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(pattern: &str, labels: &[&str]) -> Option<String> {
        let labels: Vec<Label> = labels.iter().map(|label| label.parse().unwrap()).collect();
        near_miss(&pattern.parse().unwrap(), labels.iter())
    }

    #[test]
    fn an_image_for_another_system_is_named_with_its_system() {
        assert_eq!(
            hint("cp2k/2024.1@daint", &["cp2k/2024.1:v1@todi%gh200"]).unwrap(),
            "it is built for `@todi`: write `cp2k/2024.1@todi` or `cp2k/2024.1@*`"
        );
    }

    #[test]
    fn another_version_of_the_same_name_is_named() {
        assert_eq!(
            hint("cp2k/2024.2", &["cp2k/2024.1:v1@daint%gh200", "vasp/1:v1@daint%gh200"]).unwrap(),
            "there is `cp2k/2024.1:v1@daint%gh200`"
        );
    }

    #[test]
    fn what_differs_least_is_named_first() {
        assert_eq!(
            hint("a/1:v3%zen2", &["a/2:v1@s%zen3", "a/1:v1@s%zen3", "a/1:v2@s%zen2"]).unwrap(),
            "there is `a/1:v2@s%zen2`, `a/1:v1@s%zen3`, or `a/2:v1@s%zen3`"
        );
    }

    #[test]
    fn a_name_that_goes_on_is_named() {
        assert_eq!(
            hint("prgenv", &["prgenv-gnu/1:v1@s%u", "prgenv-nvidia/1:v1@s%u"]).unwrap(),
            "did you mean `prgenv-gnu` or `prgenv-nvidia`?"
        );
    }

    #[test]
    fn a_name_with_two_letters_swapped_is_corrected() {
        assert_eq!(
            hint("pregnv-gnu", &["prgenv-gnu/1:v1@s%u"]).unwrap(),
            "did you mean `prgenv-gnu`?"
        );
    }

    #[test]
    fn other_names_give_no_hint() {
        assert_eq!(hint("gromacs", &["cp2k/1:v1@s%u"]), None);
    }

    #[test]
    fn the_distance_counts_single_mistakes() {
        let names = ["gromacs", "gromac", "gromacss", "gromaxs", "groamcs", "cp2k"];
        assert_eq!(names.map(|name| osa_distance("gromacs", name)), [0, 1, 1, 1, 1, 7]);
    }
}
