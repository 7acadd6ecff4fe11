// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where systems keep things. Fixed places and what is in `/opt`, never `PATH`.

use std::collections::BTreeSet;

use crate::machine::Machine;
use crate::version::Version;

/// Where the programs of the system are, the most trusted first.
const BIN: [&str; 3] = ["/usr/bin", "/bin", "/usr/local/bin"];

/// Where its libraries are.
const LIB: [&str; 5] = [
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib",
    "/usr/local/lib",
];

/// Returns the directories with programs of the system, each once.
pub(crate) fn of_programs(machine: &Machine) -> Vec<&'static str> {
    let mut seen = BTreeSet::new();
    let is_new = |directory: &&str| machine.real(directory).is_some_and(|real| seen.insert(real));
    BIN.into_iter().filter(is_new).collect()
}

/// Returns a program of the system by its name.
pub(crate) fn program(machine: &Machine, name: &str) -> Option<String> {
    let mut paths = BIN.iter().map(|directory| format!("{directory}/{name}"));
    paths.find_map(|path| machine.program(&path))
}

/// Returns a library of the system with its whole version, such as
/// `libhwloc.so.15.6.2`, by the beginning of its name.
pub(crate) fn library(machine: &Machine, name: &str) -> Option<String> {
    let mut directories = LIB.iter();
    directories.find_map(|directory| library_in(machine, directory, name))
}

/// As [`library`], in one directory: the longest name is the most exact one.
pub(crate) fn library_in(machine: &Machine, directory: &str, name: &str) -> Option<String> {
    let begin = format!("{name}.so");
    let names = machine.names(directory).into_iter();
    let longest = names.filter(|found| found.starts_with(&begin)).max_by_key(String::len)?;
    machine.real_text(&format!("{directory}/{longest}"))
}

/// Returns a library below a prefix.
pub(crate) fn library_below(machine: &Machine, prefix: &str, name: &str) -> Option<String> {
    let directories = ["lib64", "lib", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"];
    let mut paths = directories.iter().map(|directory| format!("{prefix}/{directory}/{name}"));
    paths.find(|path| machine.has(path))
}

/// Returns a path in the same directory.
pub(crate) fn beside(path: &str, name: &str) -> String {
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    format!("{directory}/{name}")
}

/// Returns the version that the `pkg-config` file of a library names.
pub(crate) fn version_in_pc(
    machine: &Machine,
    prefixes: &[&str],
    name: &str,
) -> Option<(String, Version)> {
    let below = ["lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "lib", "share"];
    prefixes.iter().find_map(|prefix| {
        below.iter().find_map(|below| {
            let path = format!("{prefix}/{below}/pkgconfig/{name}.pc");
            let text = machine.text(&path)?;
            let mut lines = text.lines();
            let version =
                lines.find_map(|line| Version::at_start(line.strip_prefix("Version:")?))?;
            Some((path, version))
        })
    })
}

/// Returns the prefix of a program: what is above its `bin`.
pub(crate) fn prefix_of(program: &str) -> String {
    let above = |path: &str| path.rsplit_once('/').map(|(above, _)| above.to_owned());
    let prefix = above(program).and_then(|bin| above(&bin)).unwrap_or_default();
    if prefix.is_empty() { "/".to_owned() } else { prefix }
}

/// Returns what is in `directory`, newest version first, with `below` appended, as
/// far as that is there.
pub(crate) fn versions_in(
    machine: &Machine,
    directory: &str,
    below: &str,
) -> Vec<(Version, String)> {
    let names = machine.names(directory).into_iter();
    let mut found: Vec<_> = names
        .filter_map(|name| {
            let path = format!("{directory}/{name}{below}");
            Some((Version::new(&name)?, path)).filter(|(_, path)| machine.has(path))
        })
        .collect();
    found.sort_by_key(|(version, _)| version.order());
    found
}

#[cfg(test)]
mod tests {
    use super::prefix_of;

    #[test]
    fn the_prefix_lies_above_bin() {
        let programs = ["/usr/bin/sed", "/bin/sed", "/opt/gcc/12.3/bin/gcc"];
        assert_eq!(programs.map(prefix_of), ["/usr", "/", "/opt/gcc/12.3"]);
    }
}
