// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The command that starts a shell for a person.
//!
//! The settings of a shell, such as `~/.bashrc`, are read when the variables of the environment are set
//! already. `conda init` there puts another Python before that of the image. So the shell is started such
//! that the directories of the environment are first in `PATH` again once its settings have been read.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use cabane_view::{EnvPatch, VariableSettings};

/// Which settings of the user a shell reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShellSettings {
    /// Those that it always reads.
    Own,
    /// None, if the shell is bash, as with Apptainer. Other shells read theirs.
    None,
}

/// Gets the shell, its name first, and the directories in `PATH`.
const SCRIPT: &str = include_str!("shell/start.sh");
/// Stands for what was in `PATH` before.
const BEFORE: &[u8] = b"\x01";
const PATH: &str = "PATH";
const BASH: &str = "/bin/bash";

/// Returns the command that starts a shell, or bash or sh if there is no such shell. `is_of_host` says that
/// programs of the host are there.
pub(crate) fn command(
    shell: OsString,
    first: OsString,
    settings: ShellSettings,
    is_of_host: bool,
) -> Vec<OsString> {
    let settings = match settings {
        ShellSettings::Own => "",
        ShellSettings::None => "bare",
    };
    // dash drops exported functions of bash, such as `module`. With `-p`, bash hands them on, and does not
    // read what BASH_ENV names.
    let interpreter: &[&str] = if is_of_host && Path::new(BASH).exists() {
        &[BASH, "-p", "-c"]
    } else {
        &["/bin/sh", "-c"]
    };
    let interpreter = interpreter.iter().map(OsString::from);
    interpreter.chain([SCRIPT.into(), shell, first, settings.into()]).collect()
}

/// Returns the directories that an environment puts at the start of `PATH`, separated by `:`: all of
/// `PATH`, if the environment sets it.
pub(crate) fn first_of_path(patch: &EnvPatch, settings: &VariableSettings) -> OsString {
    let before = OsStr::from_bytes(BEFORE).to_owned();
    let variables = patch.apply(&BTreeMap::from([(PATH.into(), before)]));
    let variables = settings.apply(&variables);
    let whole = variables.get(OsStr::new(PATH)).map_or(&[][..], |value| value.as_bytes());
    let first: Vec<&[u8]> =
        whole.split(|byte| *byte == b':').take_while(|one| *one != BEFORE).collect();
    OsString::from_vec(first.join(&b':'))
}

#[cfg(test)]
mod tests {
    use cabane_view::{Change, ListOperation, VariableSetting};

    use super::*;

    fn list(operation: ListOperation, value: &str) -> Change {
        Change::List { operation, values: vec![value.to_owned()] }
    }

    #[test]
    fn what_comes_before_the_path_of_the_caller_is_first() {
        let mut patch = EnvPatch::new();
        patch.push(PATH, list(ListOperation::Prepend, "/a/bin:/a/sbin"));
        patch.push(PATH, list(ListOperation::Append, "/last"));
        let none = VariableSettings::default();
        assert_eq!(first_of_path(&patch, &none), "/a/bin:/a/sbin");
        patch.push(PATH, Change::Set("/usr/bin:/bin".to_owned()));
        assert_eq!(first_of_path(&patch, &none), "/usr/bin:/bin");
        let more = VariableSetting { prepend: vec!["/more".to_owned()], ..Default::default() };
        let more = VariableSettings(BTreeMap::from([(PATH.to_owned(), more)]));
        assert_eq!(first_of_path(&EnvPatch::new(), &more), "/more");
        assert_eq!(first_of_path(&EnvPatch::new(), &none), "");
    }
}
