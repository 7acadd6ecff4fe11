// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The processor, by its features and never by the name of its model.
//!
//! Four tools had four names for one machine; what a program needs is features. The
//! names that come out are Spack's names of sets of features.

use serde::Serialize;

use crate::machine::Machine;

/// The features that `x86_64_v2`, `v3`, and `v4` add, as the kernel calls them.
const X86: [(&str, &[&str]); 3] = [
    (
        "x86_64_v2",
        &["cx16", "lahf_lm", "mmx", "sse", "sse2", "ssse3", "sse4_1", "sse4_2", "popcnt"],
    ),
    ("x86_64_v3", &["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"]),
    ("x86_64_v4", &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]),
];

/// What all of the sets for Arm contain.
const NEOVERSE: &[&str] = &[
    "aes", "asimd", "asimddp", "asimdhp", "asimdrdm", "atomics", "crc32", "dcpop", "fphp", "lrcpc",
    "pmull", "sha1", "sha2",
];

/// Sets for Arm beyond that, the largest first. The two with vectors are no sequence.
const ARM: [(&str, &[&str]); 3] = [
    ("neoverse_v2", &["bf16", "flagm2", "frint", "i8mm", "sb", "sha3", "sha512", "sve", "sve2"]),
    (
        "neoverse_v1",
        &["bf16", "dit", "fcma", "flagm", "i8mm", "jscvt", "rng", "sha3", "sha512", "sve"],
    ),
    ("neoverse_n1", &[]),
];

/// The processor of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Processor {
    /// The largest set of features that it has, by Spack's name.
    pub has: Option<&'static str>,
    /// For what is built.
    pub target: Option<String>,
    /// Whether that was requested, and not chosen here.
    pub is_asked: bool,
}

/// What a user asks to build for: the name of a set of features.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetChoice(String);

/// A text that cannot be a target.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not the name of a target")]
pub struct TargetError {
    /// What was given.
    pub text: String,
}

impl TargetError {
    /// Returns what can be typed instead.
    #[must_use]
    pub fn hint(&self) -> String {
        "targets are called x86_64_v3, x86_64_v4, neoverse_v2, zen4 …; `spack arch \
         --known-targets` lists them"
            .to_owned()
    }
}

impl std::str::FromStr for TargetChoice {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        let is_target = text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.len() <= 40
            && text.chars().all(is_inner);
        if is_target {
            Ok(Self(text.to_owned()))
        } else {
            Err(TargetError { text: text.to_owned() })
        }
    }
}

/// Looks at the processor.
pub(crate) fn look(machine: &Machine, choice: Option<&TargetChoice>) -> Processor {
    let text = machine.text("/proc/cpuinfo").unwrap_or_default();
    let has = best(&text);
    if let (Some(has), Some(TargetChoice(wanted))) = (has, choice)
        && !is_within(wanted, has)
    {
        machine.note(
            "/proc/cpuinfo",
            format!(
                "{wanted} is requested, but this machine is {has}: what is built will not run here"
            ),
        );
    }
    // An image is for many nodes, and few clusters have the same in all of them.
    let usual = if has == Some("x86_64_v4") { Some("x86_64_v3") } else { has };
    Processor {
        has,
        target: match choice {
            Some(TargetChoice(wanted)) => Some(wanted.clone()),
            None => usual.map(str::to_owned),
        },
        is_asked: choice.is_some(),
    }
}

/// Tells whether a machine with all of `has` can run what is built for `wanted`, as far
/// as that is known here.
fn is_within(wanted: &str, has: &str) -> bool {
    let place = |name: &str| match name {
        "x86_64" => Some(0),
        name => X86.iter().position(|(level, _)| *level == name).map(|place| place + 1),
    };
    match (place(wanted), place(has)) {
        (Some(wanted), Some(has)) => wanted <= has,
        _ => true,
    }
}

/// Returns the name of the largest set that every processor has.
fn best(cpuinfo: &str) -> Option<&'static str> {
    let x86 = common(cpuinfo, "flags");
    if let Some(flags) = x86 {
        let has_all = |features: &[&str]| features.iter().all(|name| flags.contains(name));
        let levels = X86.iter().take_while(|(_, features)| has_all(features));
        return Some(levels.last().map_or("x86_64", |(name, _)| name));
    }
    if let Some(features) = common(cpuinfo, "Features") {
        let has_all = |names: &[&str]| names.iter().all(|name| features.contains(name));
        let mut sets = ARM.iter().filter(|(_, more)| has_all(NEOVERSE) && has_all(more));
        return Some(sets.next().map_or("aarch64", |(name, _)| name));
    }
    let value = |key| values(cpuinfo, key).next();
    if value("isa").is_some_and(|isa| isa.starts_with("rv64")) {
        return Some("riscv64");
    }
    let power = [("POWER10", "power10le"), ("POWER9", "power9le"), ("POWER8", "power8le")];
    let cpu = value("cpu")?;
    power.into_iter().find_map(|(begin, name)| cpu.starts_with(begin).then_some(name))
}

/// Returns the features that follow every occurrence of a key.
fn common<'a>(cpuinfo: &'a str, key: &'a str) -> Option<Vec<&'a str>> {
    let mut all = values(cpuinfo, key).map(|value| value.split_whitespace().collect::<Vec<_>>());
    let first = all.next()?;
    Some(all.fold(first, |mut common, features| {
        // Nearly always they are the same.
        if common != features {
            common.retain(|feature| features.contains(feature));
        }
        common
    }))
}

fn values<'a>(cpuinfo: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    cpuinfo.lines().filter_map(move |line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then_some(value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn x86(levels: usize) -> String {
        let features = X86.iter().take(levels).flat_map(|(_, features)| features.iter().copied());
        let flags = features.collect::<Vec<_>>().join(" ");
        format!("model name\t: x86_64_v4 Zen 5\nflags\t\t: fpu {flags}\n")
    }

    #[test]
    fn features_decide_and_not_the_name_of_the_model() {
        let found = [0, 1, 2, 3].map(|levels| best(&x86(levels)));
        let names = ["x86_64", "x86_64_v2", "x86_64_v3", "x86_64_v4"].map(Some);
        assert_eq!(found, names);
    }

    #[test]
    fn a_feature_that_one_core_lacks_does_not_count() {
        let found = best(&format!("{}\n{}", x86(3), x86(2)));
        assert_eq!(found, Some("x86_64_v3"));
    }

    #[test]
    fn an_arm_processor_without_new_features_is_what_all_are() {
        assert_eq!(best("Features : fp asimd\n"), Some("aarch64"));
    }

    #[test]
    fn an_arm_processor_has_the_set_of_which_it_has_all() {
        let (_, v1) = ARM[1];
        let features = [NEOVERSE, v1].concat().join(" ");
        assert_eq!(best(&format!("Features\t: {features}\n")), Some("neoverse_v1"));
    }
}
