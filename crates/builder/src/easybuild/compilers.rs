// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The compilers of the system: packages are built with them, at least the compilers of toolchains.

use std::collections::BTreeMap;
use std::path::Path;

use cabane_process::installation;
use cabane_report::{Kind, Report};

use super::contents;
use super::session::PATH;
use crate::fingerprint::Inputs;
use crate::{Result, program};

/// Programs whose versions decide about packages.
const PROGRAMS: [&str; 4] = ["g++", "gcc", "gfortran", "ld"];
/// The toolchains whose version `system` means the compilers of the system, which is `gcc`.
const OF_SYSTEM: [&str; 2] = ["GCC", "GCCcore"];
const SYSTEM: &str = "system";
const GCC: &str = "gcc";

/// The compilers that the sandbox has: their names, and what they say about their version.
#[derive(Clone, Debug, Default)]
pub(super) struct Compilers(Inputs);

impl Compilers {
    /// Asks the compilers of the system; those that are not there are left out.
    pub(super) fn find() -> Self {
        let ask = |name: &str| {
            let mut paths = PATH.split(':').map(|directory| Path::new(directory).join(name));
            let path = paths.find(|path| path.is_file())?;
            let line = program::first_line(&path, "--version").ok()?;
            Some((name.to_owned(), line))
        };
        Self(PROGRAMS.iter().filter_map(|name| ask(name)).collect())
    }

    /// What decides about packages.
    pub(super) fn inputs(&self) -> &Inputs {
        &self.0
    }

    /// Their names and versions: `gcc` → `12.2.0`.
    pub(super) fn versions(&self) -> BTreeMap<String, String> {
        let of_line = |(name, line): (&String, &String)| (name.clone(), version(line));
        self.0.iter().map(of_line).collect()
    }

    /// Fails if an easyconfig needs a compiler of the system that is not there: before EasyBuild finds out,
    /// which may be after hours. `easyconfigs` are their names and texts.
    pub(super) fn check(&self, easyconfigs: &[(String, String)]) -> Result<()> {
        if self.0.contains_key(GCC) {
            return Ok(());
        }
        for (name, text) in easyconfigs {
            let Some((toolchain, version)) = contents::toolchain(text) else { continue };
            if version != SYSTEM || !OF_SYSTEM.contains(&toolchain.as_str()) {
                continue;
            }
            let name = cabane_label::escape(name);
            let message = format!(
                "{name} needs the toolchain {toolchain}/{SYSTEM}, but `{GCC}` is not installed here"
            );
            let named = || format!("install `{GCC}`, or use another toolchain");
            let hint = installation::hint(GCC).unwrap_or_else(named);
            return Err(Report::new(Kind::Build, message).hinted(hint).into());
        }
        Ok(())
    }
}

/// Finds the version in a line such as `gcc (Debian 12.2.0-14+deb12u1) 12.2.0`: the first number outside of
/// parentheses; the whole line if there is none.
fn version(line: &str) -> String {
    let mut depth = 0_u32;
    let outside: String = line
        .chars()
        .filter(|c| {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => return depth == 0,
            }
            false
        })
        .collect();
    let mut words = outside.split_whitespace();
    let found = words.find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    found.unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_compiler_is_outside_of_parentheses() {
        let lines = [
            "gcc (Debian 12.2.0-14+deb12u1) 12.2.0",
            "gcc (GCC) 11.4.1 20230605 (Red Hat 11.4.1-2)",
            "GNU ld (GNU Binutils for Debian) 2.40",
            "GNU ld version 2.35.2-42.el9",
            "a compiler without a number",
        ];
        let expected = ["12.2.0", "11.4.1", "2.40", "2.35.2-42.el9", "a compiler without a number"];
        assert_eq!(lines.map(version), expected);
    }

    #[test]
    fn a_toolchain_of_the_system_needs_its_compiler() {
        let easyconfig = |toolchain: &str| {
            vec![("a-1.0.eb".to_owned(), format!("name = 'a'\ntoolchain = {toolchain}\n"))]
        };
        let of_system = easyconfig("{'name': 'GCC', 'version': 'system'}");
        let error = Compilers::default().check(&of_system).unwrap_err().to_string();
        let expected = "a-1.0.eb needs the toolchain GCC/system, but `gcc` is not installed here";
        assert_eq!(error, expected);
        for other in ["SYSTEM", "{'name': 'GCC', 'version': '13.2.0'}"] {
            Compilers::default().check(&easyconfig(other)).unwrap();
        }
        let gcc = Compilers(Inputs::from([("gcc".to_owned(), "gcc 12".to_owned())]));
        gcc.check(&of_system).unwrap();
    }
}
