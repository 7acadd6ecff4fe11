// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From the variables before and after modules are loaded to the changes of a view.
//!
//! One comparison cannot tell a variable that is set from a list that is extended: where a variable was
//! not there before, both look the same. So modules are loaded twice. The second time each variable
//! that the first one changed has a marker as its value. What is around the marker was added, and
//! where the marker is gone, the variable was set.

use std::collections::{BTreeMap, BTreeSet};

use cabane_view::{Change, EnvPatch};

use crate::layout::Inside;
use crate::metadata::{append, prepend};

/// Variables by their names.
pub(super) type Variables = BTreeMap<String, String>;

/// The name of the user while modules are loaded.
pub(super) const USER: &str = "user-of-cabane";
/// The beginning of markers; the name of the variable follows.
const MARKER: &str = "/cabane/value-of/";
/// The end of the list `PATH`, which needs more than a marker.
const END: &str = "/cabane/end-of-path";

/// What the module command and the shell keep in variables for themselves.
const OWN: [&str; 9] = [
    "LOADEDMODULES",
    "MODULEPATH",
    "MODULESHOME",
    "OLDPWD",
    "PWD",
    "SHLVL",
    "_",
    "_LMFILES_",
    "_ModuleTable_Sz_",
];
const OWN_BEGIN: [&str; 5] = ["LMOD_", "MODULES_", "_ModuleTable", "__LMOD_", "__MODULES_"];

/// What shells, the loader, and the languages of module commands read when they start. They have no
/// marker, and are set as the first load sets them.
const AT_START: [&str; 9] = [
    "BASHOPTS",
    "BASH_ENV",
    "ENV",
    "LD_AUDIT",
    "LD_PRELOAD",
    "LUA_INIT",
    "SHELLOPTS",
    "TCLLIBPATH",
    "TCL_LIBRARY",
];

/// What loading modules did.
#[derive(Clone, Debug, Default)]
pub(super) struct Loaded {
    pub(super) before: Variables,
    pub(super) after: Variables,
    /// What the module command wrote for the shell.
    pub(super) code: String,
}

/// Returns the variables that modules change, with the values that they have when the modules are
/// loaded again.
pub(super) fn markers(first: &Loaded) -> Variables {
    let with_marker = |name: String| {
        let marker = format!("{MARKER}{name}");
        let value = match (name.as_str(), first.before.get(&name)) {
            // Programs are found there.
            ("PATH", Some(path)) => format!("{marker}:{path}:{END}"),
            _ => marker,
        };
        (name, value)
    };
    let has_marker = |name: &String| !is_read_at_start(name);
    touched(first).into_iter().filter(has_marker).map(with_marker).collect()
}

fn is_read_at_start(name: &str) -> bool {
    // Versions of Lua have their own: `LUA_INIT_5_3`.
    AT_START.contains(&name) || name.starts_with("LUA_INIT_")
}

fn touched(loaded: &Loaded) -> BTreeSet<String> {
    let Loaded { before, after, code } = loaded;
    let names = before.keys().chain(after.keys());
    let changed = names.filter(|name| before.get(*name) != after.get(*name));
    // What is removed and was not there.
    let commands = code.lines().flat_map(|line| line.split(';'));
    let removed = commands.filter_map(|command| command.trim().strip_prefix("unset "));
    let mut names: BTreeSet<String> = changed.cloned().collect();
    names.extend(removed.map(|name| name.trim().to_owned()));
    names.retain(|name| is_variable(name) && !is_own(name));
    names
}

fn is_variable(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.chars().all(is_letter)
}

fn is_own(name: &str) -> bool {
    OWN.contains(&name) || OWN_BEGIN.iter().any(|begin| name.starts_with(begin))
}

/// Returns what modules do to variables. `second` began with [`markers`].
pub(super) fn patch(first: &Loaded, second: &Loaded) -> EnvPatch {
    let mut patch = EnvPatch::new();
    for name in touched(first) {
        let before = second.before.get(&name);
        match second.after.get(&name) {
            None => patch.push(&name, Change::Unset),
            // It is only set where it has no value.
            Some(value) if Some(value) == before => {
                if let Some(value) = first.after.get(&name) {
                    patch.push(&name, Change::Set(generalize(value)));
                }
            }
            Some(value) => push(&mut patch, &name, value),
        }
    }
    patch
}

fn push(patch: &mut EnvPatch, name: &str, value: &str) {
    let marker = format!("{MARKER}{name}");
    let parts: Vec<&str> = value.split(':').collect();
    let Some(start) = parts.iter().position(|part| *part == marker) else {
        patch.push(name, Change::Set(generalize(value)));
        return;
    };
    let is_end = |part: &&str| *part == END || *part == marker;
    let end = parts.iter().rposition(is_end).unwrap_or(start);
    let list = |parts: &[&str]| -> Vec<String> {
        let parts = parts.iter().filter(|part| !part.is_empty());
        parts.map(|part| generalize(part)).collect()
    };
    let (before, after) = (list(&parts[..start]), list(&parts[end + 1..]));
    if !before.is_empty() {
        patch.push(name, prepend(before));
    }
    if !after.is_empty() {
        patch.push(name, append(after));
    }
    if name == "MANPATH" {
        // An empty element stands for the pages of the system.
        patch.push(name, append(vec![String::new()]));
    }
}

/// Replaces what is only so in the build: values of variables, the home, and the user.
fn generalize(value: &str) -> String {
    let mut text = value.replace(Inside::HOME, "${@HOME@}").replace(USER, "${@USER@}");
    while let Some(start) = text.find(MARKER) {
        let rest = &text[start + MARKER.len()..];
        let is_end = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        let length = rest.find(is_end).unwrap_or(rest.len());
        let reference = format!("${{@{}@}}", &rest[..length]);
        text.replace_range(start..start + MARKER.len() + length, &reference);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module command that does this to variables.
    fn load(before: &[(&str, &str)], module: &dyn Fn(&mut Variables)) -> Loaded {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let before: Variables = before.iter().map(owned).collect();
        let mut after = before.clone();
        module(&mut after);
        Loaded { before, after, code: "unset GONE;\nunset -f which; x=1; unset NAMED;".to_owned() }
    }

    /// The changes of a module, as a text.
    fn changes(module: &dyn Fn(&mut Variables)) -> String {
        let first = load(&[("PATH", "/usr/bin:/bin")], module);
        let mut again = first.before.clone();
        again.extend(markers(&first));
        let again: Vec<_> = again.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let patch = patch(&first, &load(&again, module));
        let one = |(name, changes): (&str, &[Change])| format!("{name} {changes:?}");
        patch.iter().map(one).collect::<Vec<_>>().join("\n")
    }

    fn put(variables: &mut Variables, name: &str, value: &str) {
        variables.insert(name.to_owned(), value.to_owned());
    }

    fn extend(variables: &mut Variables, name: &str, separator: &str, first: &str, last: &str) {
        let old = variables.get(name).cloned().unwrap_or_default();
        let parts = [first, &old, last].map(str::to_owned);
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        put(variables, name, &parts.join(separator));
    }

    #[test]
    fn a_variable_that_was_not_there_is_a_list_if_a_module_extends_it() {
        let seen = changes(&|variables| {
            variables.remove("GONE");
            variables.remove("NAMED");
            put(variables, "EBROOTX", "/apps/x");
            extend(variables, "LD_LIBRARY_PATH", ":", "/apps/x/lib", "");
            extend(variables, "PATH", ":", "/apps/x/bin:/apps/x/sbin", "/apps/last");
            extend(variables, "TCL_LIBRARY", ":", "/apps/x/tcl", "");
            put(variables, "LOADEDMODULES", "x");
        });
        assert_eq!(
            seen,
            "EBROOTX [Set(\"/apps/x\")]\n\
             GONE [Unset]\n\
             LD_LIBRARY_PATH [List { operation: Prepend, values: [\"/apps/x/lib\"] }]\n\
             NAMED [Unset]\n\
             PATH [List { operation: Prepend, values: [\"/apps/x/bin\", \"/apps/x/sbin\"] }, \
             List { operation: Append, values: [\"/apps/last\"] }]\n\
             TCL_LIBRARY [Set(\"/apps/x/tcl\")]"
        );
    }

    #[test]
    fn values_of_the_build_become_those_of_the_user() {
        let seen = changes(&|variables| {
            variables.remove("GONE");
            variables.remove("NAMED");
            put(variables, "CACHE", &format!("{}/.x/{USER}", Inside::HOME));
            extend(variables, "FLAGS", " ", "-I/apps/x", "");
            if !variables.contains_key("THREADS") {
                put(variables, "THREADS", "1");
            }
        });
        assert_eq!(
            seen,
            "CACHE [Set(\"${@HOME@}/.x/${@USER@}\")]\n\
             FLAGS [Set(\"-I/apps/x ${@FLAGS@}\")]\n\
             GONE [Unset]\n\
             NAMED [Unset]\n\
             THREADS [Set(\"1\")]"
        );
    }
}
