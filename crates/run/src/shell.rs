// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which shell a person uses.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Returns the shell to start: the one the variable `SHELL` names if it can be
/// run, else the one of the user database, else `/bin/sh`.
///
/// Gets the value of `SHELL`, the number of the user and the text of
/// `/etc/passwd`.
pub fn login_shell(variable: Option<&OsStr>, user: u32, passwd: &str) -> PathBuf {
    variable
        .map(PathBuf::from)
        .filter(|path| can_run(path))
        .or_else(|| shell_in(passwd, user).filter(|path| can_run(path)))
        .unwrap_or_else(|| PathBuf::from("/bin/sh"))
}

fn shell_in(passwd: &str, user: u32) -> Option<PathBuf> {
    passwd
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|fields| fields.get(2).and_then(|uid| uid.parse().ok()) == Some(user))
        .and_then(|fields| fields.get(6).map(PathBuf::from))
}

fn can_run(path: &Path) -> bool {
    path.is_absolute()
        && path
            .metadata()
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\nalice:x:1000:1000::/home/a:/bin/sh\n";

    #[test]
    fn the_variable_wins() {
        assert_eq!(login_shell(Some("/bin/sh".as_ref()), 0, PASSWD), Path::new("/bin/sh"));
    }

    #[test]
    fn a_shell_that_does_not_exist_is_passed_over() {
        let shell = login_shell(Some("/nonexistent/zsh".as_ref()), 0, PASSWD);
        assert_eq!(shell, Path::new("/bin/bash"));
    }

    #[test]
    fn an_unknown_user_gets_the_standard_shell() {
        assert_eq!(login_shell(None, 4242, PASSWD), Path::new("/bin/sh"));
    }
}
