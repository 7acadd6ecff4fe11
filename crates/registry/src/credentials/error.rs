// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Why a credential could not be had.
//!
//! What a reader of JSON says about a mistake may quote what is there, so the answers of
//! others are not passed on: these errors have a place, and their own words.

use std::io;
use std::path::{Path, PathBuf};

use cabane_label::escape;

use super::helper::TIME_LIMIT;
use super::read::MOST_BYTES;

/// Why a credential could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialError {
    /// The file system refused.
    #[error("cannot read {}", shown(.path))]
    Read {
        /// The file.
        path: PathBuf,
        /// The answer of the file system.
        source: io::Error,
    },
    /// More passwords than anyone has.
    #[error("{} has more than {MOST_BYTES} bytes, and is not read", shown(.path))]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The file has bytes that are no text.
    #[error("{} is not a text in UTF-8", shown(.path))]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// A login file is not JSON, or something in it is not what it must be.
    #[error(
        "{} is not a login file: line {line}, column {column} is not what must stand there",
        shown(.path)
    )]
    LoginFile {
        /// The file.
        path: PathBuf,
        /// The line of the mistake.
        line: usize,
        /// The column of the mistake.
        column: usize,
    },
    /// What a login file says about a registry cannot be understood.
    #[error("{} has an entry for `{}`, but {problem}", shown(.path), escape(.key))]
    Entry {
        /// The file.
        path: PathBuf,
        /// The registry, as the file names it.
        key: String,
        /// What is wrong with it.
        problem: EntryProblem,
    },
    /// A netrc file cannot be understood.
    #[error("line {line} of {} has a quote that does not end", shown(.path))]
    Netrc {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },
    /// A login file names a helper in a way that could mean another program.
    #[error("{} names the helper `{}`, which cannot be the name of one", shown(.path), escape(.name))]
    HelperName {
        /// The login file.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// A login file names a helper that is not installed.
    #[error(
        "{} says that the program `{program}` has the password of {}, but it is nowhere in PATH",
        shown(.path), escape(.server)
    )]
    HelperMissing {
        /// The login file.
        path: PathBuf,
        /// The program.
        program: String,
        /// For which registry.
        server: String,
    },
    /// A helper cannot be started, or not be listened to.
    #[error("cannot run {}", shown(.program))]
    HelperRun {
        /// The program.
        program: PathBuf,
        /// The answer of the system.
        source: io::Error,
    },
    /// A helper says that it failed.
    #[error("{} failed to give a password for {}{}", shown(.program), escape(.server), suffix(.message))]
    HelperFailed {
        /// The program.
        program: PathBuf,
        /// For which registry.
        server: String,
        /// The beginning of what it said on standard error.
        message: String,
    },
    /// A helper does not answer.
    #[error("{} did not answer within {} seconds", shown(.program), TIME_LIMIT.as_secs())]
    HelperLate {
        /// The program.
        program: PathBuf,
        /// For which registry.
        server: String,
    },
    /// A helper says something else than it should.
    #[error("{} answered something that is not a name and a password", shown(.program))]
    HelperAnswer {
        /// The program.
        program: PathBuf,
        /// For which registry.
        server: String,
    },
    /// A directory was given for a token, and none is in it.
    #[error("{} is a directory without a file TOKEN", shown(.directory))]
    NoToken {
        /// The directory.
        directory: PathBuf,
    },
    /// A file was given for a token, and none is in it.
    #[error("the first line of {} is empty, and should be a token", shown(.path))]
    EmptyToken {
        /// The file.
        path: PathBuf,
    },
    /// A token was given, but not whose.
    #[error("the token {} was given without a user name", shown(.path))]
    NoUsername {
        /// The file or directory.
        path: PathBuf,
    },
    /// A name that HTTP has no way to send.
    #[error("`{}` cannot be a user name: {reason}", escape(.username))]
    Username {
        /// The name.
        username: String,
        /// Why not.
        reason: &'static str,
    },
}

/// Why an entry of a login file cannot be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryProblem {
    /// It is a list, or a value is a number.
    #[error("it is not an object of texts")]
    Shape,
    /// `auth` is not base64.
    #[error("its `auth` is not base64 of a text")]
    Encoding,
    /// `auth` has no colon in it.
    #[error("its `auth` is not a name, a colon and a password")]
    NoColon,
}

impl CredentialError {
    /// Returns what the user may type to get further, when there is such a thing.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Read { path, source } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some(format!("`ls -ld {}` shows who may", shown(path)))
            }
            Self::TooLarge { path } | Self::NotText { path } => {
                Some(format!("`file {}` shows what it is", shown(path)))
            }
            Self::LoginFile { path, .. } => Some(format!(
                "`python3 -m json.tool {}` tells more, and shows the passwords in it",
                shown(path)
            )),
            Self::Entry { key, .. } => Some(format!(
                "`podman login {0}` or `docker login {0}` writes it again",
                escape(key)
            )),
            Self::Netrc { .. } => Some(
                "a value that begins with \" must end with one; \\\" stands for a quote inside"
                    .to_owned(),
            ),
            Self::HelperName { .. } => Some(
                "`credHelpers` and `credsStore` have what follows `docker-credential-` in the \
                 name of a program"
                    .to_owned(),
            ),
            Self::HelperMissing { program, .. } => Some(format!(
                "`type {program}` shows where it is; `--token PATH --username NAME` needs no helper"
            )),
            Self::HelperFailed { program, server, .. }
            | Self::HelperLate { program, server }
            | Self::HelperAnswer { program, server } => Some(format!(
                "`echo {} | {} get` shows what it says, and the password when it succeeds",
                escape(server),
                shown(program)
            )),
            Self::NoToken { directory } => Some(format!(
                "`ls {}` shows what is there; name the file with `--token PATH`",
                shown(directory)
            )),
            Self::EmptyToken { .. } => {
                Some("write the token, and nothing else, into its first line".to_owned())
            }
            Self::NoUsername { path } => {
                Some(format!("`--token {} --username NAME` says whose it is", shown(path)))
            }
            Self::Read { .. } | Self::HelperRun { .. } | Self::Username { .. } => None,
        }
    }

    /// Returns a function that turns an answer of the file system into an error.
    pub(super) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Read { path: path.to_owned(), source }
    }
}

fn suffix(message: &str) -> String {
    if message.is_empty() {
        return String::new();
    }
    format!(": {}", escape(message))
}

fn shown(path: &Path) -> String {
    escape(&path.to_string_lossy()).into_owned()
}
