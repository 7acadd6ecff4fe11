// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Machines with installations that are well, and others that are broken on purpose.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use cabane_testkit::{Finished, Tree};
use serde_json::Value;

use crate::cabane::{Cabane, Who, everybody};

pub(crate) const INCONCLUSIVE: &str = "inconclusive";

/// Anyone who can read the clone.
pub(crate) fn cabane() -> Cabane {
    Cabane::new(everybody().into_iter().next().unwrap_or(Who::OrdinaryUser))
}

/// A machine with healthy installations, and others that are not.
pub(crate) struct Machine {
    pub(crate) cabane: Cabane,
    pub(crate) prefixes: Vec<String>,
    pub(crate) modules: PathBuf,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let cabane = cabane();
        let modules = cabane.world.directory("modules");
        Self { cabane, prefixes: Vec::new(), modules }
    }

    pub(crate) fn with_prefix(mut self, prefix: &Path) -> Self {
        self.prefixes.push(prefix.to_string_lossy().into_owned());
        self
    }

    /// Adds a copy without some files.
    pub(crate) fn with_copy(self, name: &str, original: &Path, without: &[&str]) -> Self {
        let copy = self.cabane.world.path(name);
        let _ = Tree::new(&copy).copy_of(original, "");
        for file in without {
            fs::remove_file(copy.join(file)).unwrap();
        }
        self.with_prefix(&copy)
    }

    /// Adds a prefix with the wrapper of one library and a launcher of its own.
    pub(crate) fn with_launcher(self, name: &str, original: &Path, launcher: &str) -> Self {
        let bin = self.cabane.world.directory(&format!("{name}/bin"));
        let wrapper = format!("exec {}/bin/mpicc \"$@\"", original.display());
        for (program, text) in [("mpicc", wrapper.as_str()), ("mpiexec", launcher)] {
            let path = bin.join(program);
            fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let prefix = bin.parent().unwrap().to_owned();
        self.with_prefix(&prefix)
    }

    /// Adds a prefix with the launcher of one library and a wrapper of its own.
    pub(crate) fn with_wrapper(self, name: &str, original: &Path, wrapper: &str) -> Self {
        let launcher = format!("exec {}/bin/mpiexec \"$@\"", original.display());
        let machine = self.with_launcher(name, original, &launcher);
        let path = machine.cabane.world.path(&format!("{name}/bin/mpicc"));
        fs::write(path, format!("#!/bin/sh\n{wrapper}\n")).unwrap();
        machine
    }

    /// Adds a copy in which one file is empty.
    pub(crate) fn with_emptied(self, name: &str, original: &Path, file: &str) -> Self {
        let machine = self.with_copy(name, original, &[file]);
        fs::write(machine.cabane.world.path(name).join(file), "").unwrap();
        machine
    }

    /// Adds a module for a library, with variables.
    pub(crate) fn with_module(self, name: &str, prefix: &Path, variables: &[(&str, &str)]) -> Self {
        let mut text = format!("#%Module1.0\nprepend-path PATH {}/bin\n", prefix.display());
        for (variable, value) in variables {
            text += &format!("setenv {variable} {value}\n");
        }
        fs::write(self.modules.join(name), text).unwrap();
        self
    }

    pub(crate) fn audit(&self, arguments: &[&str]) -> Finished {
        self.cabane.finish(&mut self.command(arguments))
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let work = self.cabane.world.directory("w");
        let prefixes = self.prefixes.iter().map(String::as_str);
        let mut all = vec!["mpi", "audit", "--work-directory", work.to_str().unwrap()];
        all.extend(arguments);
        all.extend(prefixes);
        let mut command = self.cabane.command(&all);
        command.env("MODULEPATH", &self.modules);
        command
    }

    /// The class and the explanation of every installation. The exit code says whether one is
    /// inconclusive.
    pub(crate) fn classes(&self, arguments: &[&str]) -> BTreeMap<String, (String, String)> {
        let seen = self.audit(&[arguments, &["--json"]].concat());
        let classes = Self::classes_of(&seen);
        let is_inconclusive = classes.values().any(|(class, _)| class == INCONCLUSIVE);
        assert_eq!(seen.code, if is_inconclusive { 19 } else { 0 }, "{seen:?}");
        classes
    }

    pub(crate) fn classes_of(seen: &Finished) -> BTreeMap<String, (String, String)> {
        let all: Value = serde_json::from_str(&seen.stdout).unwrap();
        let text = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
        let row = |one: &Value| {
            let name = text(one, "name");
            let name = name.rsplit('/').next().unwrap_or_default().to_owned();
            (name, (text(one, "class"), text(one, "explanation")))
        };
        let rows = all["installations"].as_array().unwrap();
        rows.iter().map(row).collect()
    }

    /// Files and processes of the audit that are still there.
    pub(crate) fn left_behind(&self) -> Vec<PathBuf> {
        let work = self.cabane.world.path("w");
        let files = fs::read_dir(&work).unwrap().flatten().map(|entry| entry.path());
        let mark = format!("CABANE_CHECK_RUN={}", work.display());
        let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let is_ours = |path: &PathBuf| {
            let variables = fs::read(path.join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&variables).contains(&mark)
        };
        files.chain(processes.filter(is_ours)).collect()
    }
}
