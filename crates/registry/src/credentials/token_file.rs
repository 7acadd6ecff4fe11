// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Token files: the way to restricted software on many systems. A group is given a file that
//! only its members can read, and a name to use it with.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cabane_label::{escape, shown};
use cabane_report::{Kind, Report, Result};

use super::{Credential, read};
use crate::files::{KeptBadly, unreadable};

/// The name of the file in a directory that is given for a token.
const NAME: &str = "TOKEN";

impl Credential {
    /// Reads a token: the first line of a file, or of the file `TOKEN` in a directory.
    ///
    /// It is used like the password of the user who is named.
    pub fn from_token_file(
        path: &Path,
        username: Option<&str>,
    ) -> Result<(Self, Option<KeptBadly>)> {
        let username = username.ok_or_else(|| {
            let path = shown(path);
            let message = format!("the token {path} was given without a user name");
            Report::new(Kind::Failure, message)
                .hinted(format!("`--token {path} --username NAME` says whose it is"))
        })?;
        check_username(username)?;
        let path = file_of(path)?;
        let file = File::open(&path).map_err(unreadable("", &path))?;
        let text = read::text_of(&file, &path)?;
        let token = text.lines().next().unwrap_or_default().trim();
        if token.is_empty() {
            let path = shown(&path);
            let message = format!("the first line of {path} is empty, and should be a token");
            let hint = "write the token, and nothing else, into its first line".to_owned();
            return Err(Report::new(Kind::Failure, message).hinted(hint));
        }
        Ok((Self::password(username, token), warning(&file, &path)))
    }
}

fn check_username(username: &str) -> Result<()> {
    let reason = if username.is_empty() {
        "it is empty"
    } else if username.contains(':') {
        "a colon ends the name"
    } else if username.contains(char::is_control) {
        "it has a control character"
    } else {
        return Ok(());
    };
    let username = escape(username);
    Err(Report::new(Kind::Failure, format!("`{username}` cannot be a user name: {reason}")))
}

/// The file that is meant, when a directory may be given for it.
fn file_of(path: &Path) -> Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let file = path.join(NAME);
    // Other problems with it are reported when it is read.
    match fs::symlink_metadata(&file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let path = shown(path);
            let message = format!("{path} is a directory without a file TOKEN");
            let hint =
                format!("`ls {path}` shows what is there; name the file with `--token PATH`");
            Err(Report::new(Kind::Failure, message).hinted(hint))
        }
        _ => Ok(file),
    }
}

/// Looks whether everyone can read a file.
fn warning(file: &File, path: &Path) -> Option<KeptBadly> {
    let metadata = file.metadata().ok()?;
    let is_open = metadata.mode() & 0o004 != 0 && is_reachable(path);
    let path = shown(path);
    is_open.then(|| KeptBadly {
        warning: format!("every user can read the token {path}"),
        hint: format!("`chmod o-rwx {path}` leaves it to its owner and group"),
    })
}

/// Whether others get as far as a file, through all directories on the way to it.
fn is_reachable(path: &Path) -> bool {
    let Ok(path) = fs::canonicalize(path) else {
        return true;
    };
    let mut directories = path.ancestors().skip(1);
    directories.all(|directory| {
        fs::metadata(directory).map_or(true, |metadata| metadata.mode() & 0o001 != 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn written(directory: &Path, name: &str, text: &[u8]) -> PathBuf {
        let path = directory.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn token(path: &Path) -> Result<String, String> {
        match Credential::from_token_file(path, Some("svc")) {
            Ok((credential, _)) => match credential {
                Credential::Password { username, password } => {
                    Ok(format!("{username}:{}", password.reveal()))
                }
                other => Err(format!("{other:?}")),
            },
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn the_token_is_the_first_line() {
        let directory = tempfile::tempdir().unwrap();
        for text in ["t0ken", "t0ken\n", "t0ken\r\nmore\n", "  t0ken \n\n"] {
            let path = written(directory.path(), "file", text.as_bytes());
            assert_eq!(token(&path).as_deref(), Ok("svc:t0ken"), "{text:?}");
        }
    }

    #[test]
    fn the_token_of_a_directory_is_in_its_file_of_that_name() {
        let directory = tempfile::tempdir().unwrap();
        written(directory.path(), "TOKEN", b"t0ken\n");
        assert_eq!(token(directory.path()).as_deref(), Ok("svc:t0ken"));
    }

    #[test]
    fn a_directory_without_a_token_is_distinguished_from_a_missing_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().display();
        let missing = directory.path().join("none");
        assert_eq!(
            (token(directory.path()), token(&missing)),
            (
                Err(format!("{path} is a directory without a file TOKEN")),
                Err(format!("cannot read {path}/none"))
            )
        );
    }

    #[test]
    fn a_file_without_a_token_is_refused_and_not_shown() {
        let directory = tempfile::tempdir().unwrap();
        let empty = "the first line of FILE is empty, and should be a token";
        let long = vec![b'x'; (1 << 20) + 1];
        let table: [(&[u8], &str); 4] = [
            (b"", empty),
            (b"\nhunter2\n", empty),
            (b"hunter2\xff\n", "FILE is not a text in UTF-8"),
            (&long, "FILE has more than 1048576 bytes, and is not read"),
        ];
        for (text, expected) in table {
            let path = written(directory.path(), "file", text);
            let error = token(&path).unwrap_err();
            assert_eq!(error.replace(&*path.to_string_lossy(), "FILE"), expected);
        }
    }

    #[test]
    fn a_token_needs_a_name_that_can_be_sent() {
        let directory = tempfile::tempdir().unwrap();
        let path = written(directory.path(), "file", b"t0ken");
        let warning_of = |username| match Credential::from_token_file(&path, username) {
            Ok(_) => "taken".to_owned(),
            Err(error) => error.to_string().replace(&*path.to_string_lossy(), "FILE"),
        };
        assert_eq!(
            [None, Some(""), Some("a:b"), Some("a\u{1b}b"), Some("Zoë Bär")].map(warning_of),
            [
                "the token FILE was given without a user name",
                "`` cannot be a user name: it is empty",
                "`a:b` cannot be a user name: a colon ends the name",
                "`a\\u{1b}b` cannot be a user name: it has a control character",
                "taken"
            ]
        );
    }

    #[test]
    fn a_warning_is_given_when_every_user_can_read_the_token() {
        let directory = tempfile::tempdir_in("/tmp").unwrap();
        let path = written(directory.path(), "file", b"t0ken");
        let warned = |directory_mode, mode| {
            let open = fs::Permissions::from_mode(directory_mode);
            fs::set_permissions(directory.path(), open).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            Credential::from_token_file(&path, Some("svc")).unwrap().1.is_some()
        };
        let is_warned = [
            warned(0o755, 0o644),
            warned(0o755, 0o640),
            warned(0o755, 0o600),
            warned(0o750, 0o644),
        ];
        assert_eq!(is_warned, [true, false, false, false]);
    }

    #[test]
    fn a_token_may_come_through_a_pipe() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        std::io::Write::write_all(&mut writer, b"t0ken\n").unwrap();
        drop(writer);
        let number = std::os::fd::AsRawFd::as_raw_fd(&reader);
        let path = format!("/proc/self/fd/{number}");
        assert_eq!(token(Path::new(&path)).as_deref(), Ok("svc:t0ken"));
    }
}
