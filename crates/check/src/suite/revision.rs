// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which revision of a suite was run: its commit in git, where it has one.

use std::path::Path;
use std::process::Command;

use cabane_evidence::Configuration;
use cabane_site::Context;
use serde_json::json;

use crate::bench::find_program;

/// Adds the commit of a suite and where it comes from. A suite with changes that are in no commit has
/// no digest.
pub(super) fn describe(context: &Context, suite: &Path, configuration: &mut Configuration) {
    let Some(git) = find_program(context, "git") else {
        return;
    };
    let ask = |arguments: &[&str]| {
        let mut command = Command::new(&git);
        // A suite may belong to someone else. Its tests are run anyway.
        command.args(["-c", "safe.directory=*"]);
        // They would name another repository.
        for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            command.env_remove(variable);
        }
        let output = command.arg("-C").arg(suite).args(arguments).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(text)
    };
    let Some(commit) = ask(&["rev-parse", "HEAD"]).filter(|text| is_commit(text)) else {
        return;
    };
    let is_changed = ask(&["status", "--porcelain", "--", "."]).is_none_or(|text| !text.is_empty());
    if is_changed {
        configuration.annotations.insert("changedSince".to_owned(), json!(commit));
    } else {
        configuration.digest.insert("gitCommit".to_owned(), commit);
    }
    configuration.uri = ask(&["config", "--get", "remote.origin.url"]).and_then(|url| uri(&url));
}

fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.chars().all(|c| c.is_ascii_hexdigit())
}

/// Returns the URI of a repository. An address that can have a password in it, or that is a directory of
/// this machine, is no URI for others.
fn uri(url: &str) -> Option<String> {
    let is_public = url.starts_with("https://") || url.starts_with("http://");
    let is_plain = !url.contains(['@', '?', '#']) && !url.contains(char::is_whitespace);
    (is_public && is_plain).then(|| format!("git+{url}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_gets_into_a_statement() {
        let plain = "https://git.example.org/tests.git";
        assert_eq!(uri(plain).as_deref(), Some("git+https://git.example.org/tests.git"));
        for other in
            ["https://me:secret@git.example.org/t", "/home/me/tests", "git@example.org:tests", ""]
        {
            assert_eq!(uri(other), None, "{other}");
        }
    }

    #[test]
    fn only_digits_are_a_commit() {
        assert!(is_commit(&"a1".repeat(20)));
        assert!(!is_commit("HEAD") && !is_commit(&"g".repeat(40)));
    }
}
