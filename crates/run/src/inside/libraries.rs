// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which libraries a program gets, as its loader finds them.
//!
//! The loader knows every rule: variables, rpath and runpath, also those of libraries
//! that others need, the cache. So it is run, with `--list`, and does not start the
//! program. Only a loader of the host is run: one in an image would be a program that
//! someone else put there, and to explain something must not run it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use cabane_compat::Binary;
use cabane_label::escape;
use cabane_report::{Kind, Report, Result};

use super::lookup::{NeededLibrary, is_program};
use super::{Explanation, ProcessEnvironment};

impl ProcessEnvironment {
    /// Tells which libraries a program gets: a command, or a file if there is a `/` in
    /// the name.
    ///
    /// # Errors
    ///
    /// That there is no such program, or that it has no loader that can be run.
    pub fn libraries_of(&self, program: &str) -> Result<Explanation> {
        let found = if program.contains('/') {
            self.file(Path::new(program)).ok()
        } else {
            match self.command(program) {
                Some(Explanation::Command { found, .. }) => Some(found),
                _ => None,
            }
        };
        let found = found.filter(|found| is_program(Path::new(&found.path))).ok_or_else(|| {
            let message = format!("there is no program `{}` here", escape(program));
            Report::new(Kind::NotFound, message)
        })?;
        let path = PathBuf::from(&found.path);
        let failed =
            |what: String| Report::new(Kind::Failure, format!("{} has {what}", path.display()));
        let Some(loader) = loader_of(&path) else {
            return Err(failed("no loader: it is a script, or linked statically".to_owned()));
        };
        let of_host = |real: &Path| {
            ["/usr/lib", "/usr/lib64", "/lib", "/lib64"]
                .iter()
                .any(|directory| real.starts_with(directory))
        };
        let is_of_host = std::fs::canonicalize(&loader)
            .is_ok_and(|real| of_host(&real) && self.place(&real).image.is_none());
        if !is_of_host {
            let loader = loader.display();
            return Err(failed(format!("a loader of its own, {loader}, which is not run")));
        }
        let libraries = self.ask(&loader, &path)?;
        Ok(Explanation::Libraries { program: program.to_owned(), found, libraries })
    }

    fn ask(&self, loader: &Path, path: &Path) -> Result<Vec<NeededLibrary>> {
        let refused = |answer: &str| {
            let (loader, path) = (loader.display(), path.display());
            let message =
                format!("the loader {loader} does not tell the libraries of {path}: {answer}");
            Report::new(Kind::Failure, message)
        };
        let answer = Command::new(loader)
            .arg("--list")
            .arg(path)
            .env_clear()
            .envs(&self.variables)
            .output()
            .map_err(|error| refused(&error.to_string()))?;
        let text = String::from_utf8_lossy(&answer.stdout);
        let needed: Vec<(&str, Option<&str>)> = text.lines().filter_map(needed).collect();
        if needed.is_empty() && !answer.status.success() {
            let messages = String::from_utf8_lossy(&answer.stderr);
            return Err(refused(&escape(messages.trim())));
        }
        let library = |(name, file): (&str, Option<&str>)| NeededLibrary {
            name: name.to_owned(),
            found: file.and_then(|file| self.file(Path::new(file)).ok()),
        };
        Ok(needed.into_iter().map(library).collect())
    }
}

/// Reads a line of the loader's answer: `NAME => FILE (0x…)` or `NAME => not found`.
fn needed(line: &str) -> Option<(&str, Option<&str>)> {
    let (name, file) = line.trim().split_once(" => ")?;
    let file = file.rsplit_once(" (0x").map_or(file, |(file, _)| file);
    Some((name, Some(file).filter(|file| file.starts_with('/'))))
}

/// Returns the loader that a program names.
fn loader_of(path: &Path) -> Option<PathBuf> {
    Binary::open(&File::open(path).ok()?)?.interpreter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_a_loader_is_read_line_by_line() {
        let lines = [
            "\tlinux-vdso.so.1 (0x00007ffc)",
            "\tlibm.so.6 => /lib/a b/libm.so.6 (0x00007f)",
            "\tlibx.so => not found",
        ];
        assert_eq!(
            lines.map(needed),
            [None, Some(("libm.so.6", Some("/lib/a b/libm.so.6"))), Some(("libx.so", None))]
        );
    }

    #[test]
    fn a_script_has_no_loader() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("script");
        std::fs::write(&script, "#!/bin/sh\n".repeat(20)).unwrap();
        assert_eq!(loader_of(&script), None);
    }

    #[test]
    fn a_header_that_lies_is_no_loader() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("program");
        let mut bytes = b"\x7fELF\x02\x01".to_vec();
        bytes.resize(64, 0xff);
        std::fs::write(&program, bytes).unwrap();
        assert_eq!(loader_of(&program), None);
    }
}
