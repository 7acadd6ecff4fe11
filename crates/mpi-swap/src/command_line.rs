// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Command lines: a launcher, and the program of its ranks.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cabane_mpi::{FileKind, Inspected, LauncherKind, Loader, Tree, inspect};

use crate::SwapError;

/// Where programs are searched.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    /// The files.
    pub tree: &'a Tree,
    /// The value of `PATH`.
    pub path: &'a OsStr,
}

impl Search<'_> {
    /// Finds a program as a shell does. A name that is not in `PATH` is a path below the working
    /// directory.
    pub fn find(self, name: &Path) -> Option<PathBuf> {
        let in_path = || {
            let directories = std::env::split_paths(self.path);
            let mut paths = directories.map(|directory| directory.join(name));
            paths.find(|path| self.is_executable(path))
        };
        let is_plain = !name.as_os_str().as_bytes().contains(&b'/');
        let found = is_plain.then(in_path).flatten();
        std::path::absolute(found.as_deref().unwrap_or(name)).ok()
    }

    fn find_file(self, name: &Path) -> Option<PathBuf> {
        self.find(name).filter(|path| self.tree.is_file(path))
    }

    fn is_executable(self, path: &Path) -> bool {
        let place = self.tree.find(path);
        let found = place.and_then(|place| place.outside.metadata().ok());
        found.is_some_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    }

    /// Returns which launcher a file is, if it is one and needs no MPI itself.
    pub fn launcher(self, path: &Path) -> Option<LauncherKind> {
        LauncherKind::of(self.tree, path).filter(|_| !self.needs_mpi(path))
    }

    fn inspect(self, path: &Path) -> Option<Inspected> {
        inspect(self.tree, &Loader::new(self.tree), path)
    }

    fn needs_mpi(self, path: &Path) -> bool {
        matches!(self.inspect(path), Some(Inspected::File(file)) if !file.functions.is_empty())
    }

    fn is_program(self, path: &Path) -> bool {
        if let Some(Inspected::File(file)) = self.inspect(path) {
            return file.kind != FileKind::Library;
        }
        let (file, mut start) = (self.tree.open(path), [0; 2]);
        file.is_some_and(|mut file| file.read_exact(&mut start).is_ok()) && start == *b"#!"
    }
}

/// A command line, in its parts.
#[derive(Clone, Debug)]
pub struct CommandLine {
    /// The launcher, if the command begins with one.
    pub launcher: Option<LauncherKind>,
    /// The launcher and its options.
    pub before: Vec<OsString>,
    /// The program that each rank runs, and its arguments.
    pub program: Vec<OsString>,
    /// The file that needs MPI.
    pub file: PathBuf,
}

impl CommandLine {
    /// Finds the launcher, and the program behind its options: the first argument that is one.
    /// `file` is the file that needs MPI, if it is not the program. With `is_launched`, the first
    /// argument is a launcher that is not among the files that are searched.
    ///
    /// # Errors
    ///
    /// There is no such program.
    pub fn parse(
        search: Search<'_>,
        command: &[OsString],
        file: Option<&Path>,
        is_launched: bool,
    ) -> Result<Self, SwapError> {
        let find = |name: &Path| {
            let none = || SwapError::NoProgram(name.to_string_lossy().into_owned());
            search.find_file(name).ok_or_else(none)
        };
        let (mut begin, mut found, mut launcher) = (0, PathBuf::new(), None);
        if !is_launched {
            found = find(command.first().map_or(Path::new(""), Path::new))?;
            launcher = search.launcher(&found);
        }
        if is_launched || launcher.is_some() {
            let mut rest = command.iter().enumerate().skip(1);
            let mut program = None;
            while let (None, Some((place, argument))) = (&program, rest.next()) {
                // Its values may be programs, too.
                for _ in 0..values_of(argument) {
                    rest.next();
                }
                let found = search.find_file(Path::new(argument));
                program = found.filter(|path| search.is_program(path)).map(|path| (place, path));
            }
            (begin, found) = program.ok_or_else(|| nothing_behind(command))?;
        }
        let (before, program) = command.split_at(begin);
        Ok(Self {
            launcher,
            before: before.to_vec(),
            program: program.to_vec(),
            file: file.map_or(Ok(found), find)?,
        })
    }
}

/// How many values an option of a launcher has, if one of them may be a program: `mpiexec` of Open MPI 4 and 5, and of
/// MPICH (Hydra), as their manual pages list them.
fn values_of(argument: &OsStr) -> usize {
    let Some(option) = argument.as_bytes().strip_prefix(b"-") else { return 0 };
    match option.strip_prefix(b"-").unwrap_or(option) {
        b"mca" | b"gmca" | b"omca" | b"prtemca" | b"pmixmca" | b"env" | b"genv" => 2,
        b"launcher" | b"launcher-exec" | b"bootstrap" | b"bootstrap-exec" | b"launch-agent" => 1,
        _ => 0,
    }
}

fn nothing_behind(command: &[OsString]) -> SwapError {
    let mut arguments = command.iter().map(|argument| argument.to_string_lossy());
    SwapError::NothingBehind {
        launcher: arguments.next().unwrap_or_default().into_owned(),
        arguments: arguments.collect::<Vec<_>>().join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_options_are_not_the_program() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["sh", "solver"] {
            let path = directory.path().join(name);
            std::fs::write(&path, "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        let tree = Tree::here();
        let search = Search { tree: &tree, path: directory.path().as_os_str() };
        for options in [
            "--mca plm_rsh_agent sh -n 2",
            "-mca plm_rsh_agent sh",
            "-genv SHELL sh -n 2",
            "-launcher-exec sh",
            "-n 2",
        ] {
            let typed = format!("mpiexec {options} solver sh");
            let command: Vec<OsString> = typed.split(' ').map(OsString::from).collect();
            let line = CommandLine::parse(search, &command, None, true).unwrap();
            assert_eq!(line.program, ["solver", "sh"], "{typed}");
            assert_eq!(line.file, directory.path().join("solver"), "{typed}");
        }
    }
}
