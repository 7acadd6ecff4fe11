// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A patch as a script for `sh`.
//!
//! The script changes what is there when it is read, as entering the view does.

use crate::{Change, EnvPatch, ListOperation};

impl EnvPatch {
    /// Returns the changes as a POSIX shell script, one line each. Variables whose names no shell
    /// accepts are left out.
    #[must_use]
    pub fn to_shell_script(&self) -> String {
        let mut script = String::new();
        for (variable, changes) in self.iter().filter(|(name, _)| is_name(name)) {
            for change in changes {
                script.push_str(&line(variable, change));
                script.push('\n');
            }
        }
        script
    }
}

fn line(variable: &str, change: &Change) -> String {
    let (operation, values) = match change {
        Change::Set(value) => return format!("export {variable}={}", argument(value)),
        Change::Unset => return format!("unset {variable}"),
        Change::List { operation, values } => (operation, argument(&values.join(":"))),
    };
    match operation {
        ListOperation::Set => format!("export {variable}={values}"),
        ListOperation::Unset => format!("unset {variable}"),
        ListOperation::Prepend => {
            format!("export {variable}={values}\"${{{variable}:+:${variable}}}\"")
        }
        ListOperation::Append => {
            format!("export {variable}=\"${{{variable}:+${variable}:}}\"{values}")
        }
    }
}

/// A value as one argument of a shell; `${@VAR@}` in it is the variable of that name.
fn argument(value: &str) -> String {
    let mut argument = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("${@") {
        let variable = after.split_once("@}").filter(|(name, _)| is_name(name));
        let Some((name, after)) = variable else {
            break;
        };
        argument.push_str(&quoted(before));
        argument.push_str(&format!("\"${{{name}-}}\""));
        rest = after;
    }
    argument + &quoted(rest)
}

fn is_name(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !text.is_empty()
        && text.chars().all(is_inner)
        && !text.starts_with(|c: char| c.is_ascii_digit())
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// What a shell with one variable makes of a patch.
    fn seen(patch: &EnvPatch, before: Option<&str>, question: &str) -> String {
        let mut shell = Command::new("sh");
        shell.arg("-euc").arg(patch.to_shell_script() + question).env_clear();
        shell.envs(before.map(|value| ("LIST", value)));
        let output = shell.env("PATH", "/usr/bin:/bin").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    fn list(operation: ListOperation, values: &[&str]) -> Change {
        Change::List { operation, values: values.iter().map(ToString::to_string).collect() }
    }

    #[test]
    fn a_list_keeps_what_was_in_it() {
        let mut patch = EnvPatch::new();
        patch.push("LIST", list(ListOperation::Prepend, &["/a b", "/c"]));
        patch.push("LIST", list(ListOperation::Append, &["/z"]));
        let question = "echo \"$LIST\"";
        let lists = [None, Some(""), Some("/mine")].map(|before| seen(&patch, before, question));
        assert_eq!(lists, ["/a b:/c:/z\n", "/a b:/c:/z\n", "/a b:/c:/mine:/z\n"]);
    }

    #[test]
    fn an_empty_element_at_the_end_stays() {
        let mut patch = EnvPatch::new();
        patch.push("LIST", list(ListOperation::Prepend, &["/man"]));
        patch.push("LIST", list(ListOperation::Append, &[""]));
        assert_eq!(seen(&patch, None, "echo \"$LIST\""), "/man:\n");
    }

    #[test]
    fn nothing_in_a_value_is_run_and_other_variables_are_put_in() {
        let mut patch = EnvPatch::new();
        let value = "it's $(echo bad) ${@LIST@}/data ${@NONE@}!".to_owned();
        patch.push("VALUE", Change::Set(value));
        let value = seen(&patch, Some("/scratch"), "echo \"$VALUE\"");
        assert_eq!(value, "it's $(echo bad) /scratch/data !\n");
    }

    #[test]
    fn a_name_that_is_shell_code_is_left_out() {
        let mut patch = EnvPatch::new();
        patch.push("A;echo bad;B", Change::Set("1".to_owned()));
        patch.push("$(echo bad)", Change::Unset);
        patch.push("GOOD", Change::Set("1".to_owned()));
        assert_eq!(patch.to_shell_script(), "export GOOD='1'\n");
    }
}
