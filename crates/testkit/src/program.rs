// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Programs that the set-up brings for tests: a registry, and other clients of registries.

use std::env;
use std::path::PathBuf;

/// What is known about a program that a test would like to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// It is here.
    Here(PathBuf),
    /// The distribution has none, as the set-up found out.
    NotInDistribution,
    /// It should be here and is not.
    Missing,
}

impl Program {
    /// Looks for a program: where the variable `CABANE_TEST_…` of its name says, as in
    /// `CABANE_TEST_DOCKER_REGISTRY`, or in the usual places.
    pub fn find(name: &str) -> Self {
        let variable = format!("CABANE_TEST_{}", name.to_uppercase().replace('-', "_"));
        match env::var(variable) {
            Ok(none) if none == "none" => Self::NotInDistribution,
            Ok(path) => Self::Here(path.into()),
            Err(_) => in_path(name).map_or(Self::Missing, Self::Here),
        }
    }

    /// The path, if the program is here.
    pub fn path(self) -> Option<PathBuf> {
        match self {
            Self::Here(path) => Some(path),
            Self::NotInDistribution | Self::Missing => None,
        }
    }
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/bin", "/usr/sbin"].map(PathBuf::from);
    let mut candidates = env::split_paths(&path).chain(usual).map(|directory| directory.join(name));
    candidates.find(|candidate| candidate.is_file())
}

/// The path of a program that a test needs. Without it the test says that it did not run,
/// and returns; that fails in CI, but for what the distribution does not have.
#[macro_export]
macro_rules! needs {
    ($name:literal) => {
        match $crate::Program::find($name) {
            $crate::Program::Here(path) => path,
            $crate::Program::NotInDistribution => {
                $crate::say(concat!("not run: the distribution has no ", $name));
                return;
            }
            $crate::Program::Missing => {
                $crate::not_run!("there is no {}: `scripts/setup test` brings it", $name)
            }
        }
    };
}

/// Ends a test, and says so, where the registry is none of these: the test looks into its files or its log, or at
/// something that others do in their own way.
#[macro_export]
macro_rules! only_for_registries {
    ($($name:literal),*) => {
        if !$crate::is_registry_one_of(&[$($name),*]) {
            $crate::say(concat!("not run: only for", $(" ", $name),*));
            return;
        }
    };
}

/// Whether the registry of tests is one of these.
pub fn is_registry_one_of(names: &[&str]) -> bool {
    let registry = Program::find("docker-registry").path();
    let name = registry.as_ref().and_then(|path| path.file_name()?.to_str());
    name.is_none_or(|name| names.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_in_the_usual_places() {
        let found = Program::find("sh").path();
        assert!(found.is_some_and(|path| path.ends_with("sh")));
    }

    #[test]
    fn what_is_nowhere_is_missing() {
        assert_eq!(Program::find("no-such-program"), Program::Missing);
    }
}
