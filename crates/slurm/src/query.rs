// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! On a node: a question to `cabane slurm node`, with the rights of the owner of the job.
//!
//! What it reads is in languages that root does not read here, or belongs to the user. Its
//! answer is the owner's, who could have changed it: it names places that are opened with his
//! rights, and variables of his tasks.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use cabane_mount::{JobBind, JobOwner, JobRoot};
use cabane_process::as_user::{Finished, User, output_as};

use crate::record::find_command;
use crate::spank::{Spank, change_variable};

/// After which time a node without an answer fails the step. It is a matter of milliseconds,
/// unless a file system hangs.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The command that answers, and for whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query<'a> {
    /// The command, if `plugstack.conf` names it.
    pub(crate) command: Option<&'a Path>,
    /// The owner of the job.
    pub(crate) owner: &'a JobOwner,
}

/// What the node answers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    places: JobRoot,
    variables: Vec<(OsString, OsString)>,
    /// Lists, and what comes first in them.
    lists: Vec<(OsString, OsString)>,
}

impl Query<'_> {
    /// Asks with the arguments of a command line, and waits for so long. The process has these
    /// variables alone, and sees the files of a mount namespace if one is given.
    ///
    /// # Errors
    ///
    /// That it could not be started, or did not end.
    pub(crate) fn ask(
        &self,
        arguments: &[OsString],
        variables: &[(&str, OsString)],
        mounts: Option<&File>,
        limit: Duration,
    ) -> io::Result<Finished> {
        let nothing = || io::Error::other("cannot find the `cabane` command");
        let program = find_command(self.command).ok_or_else(nothing)?;
        let mut command = Command::new(&program);
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
            .envs(variables.iter().map(|(name, value)| (*name, value)))
            .args(["slurm", "node"])
            .args(arguments);
        let user = User {
            user: self.owner.user,
            group: self.owner.group,
            groups: self.owner.groups.clone(),
        };
        output_as(&mut command, &user, mounts, limit).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", program.display()))
        })
    }
}

/// What a command complained about, as lines for the user.
pub(crate) fn lines_of(errors: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(errors);
    let lines = text.lines().map(|line| line.trim_start_matches("error: "));
    lines.map(|line| line.escape_debug().to_string()).collect()
}

impl Answer {
    /// Reads the answer: texts, each ended by a zero byte; an empty one is the last.
    ///
    /// ```text
    /// bind:…              a place, as in the list of a job
    /// set:NAME=VALUE      a variable
    /// before:NAME=VALUE   what comes first in a variable that is a list
    /// ```
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let texts = bytes
            .strip_suffix(b"\0\0")
            .or(bytes.strip_suffix(b"\0").filter(|rest| rest.is_empty()))?;
        let mut answer = Self::default();
        for text in texts.split(|byte| *byte == 0).filter(|text| !text.is_empty()) {
            let (kind, rest) = split(text, b':')?;
            match kind {
                b"bind" => answer.places.add_place(str::from_utf8(text).ok()?).ok()?,
                b"set" => answer.variables.push(variable(rest)?),
                b"before" => answer.lists.push(variable(rest)?),
                _ => return None,
            }
        }
        Some(answer)
    }

    /// Sets the variables of the step, and adds the places to those that are seen.
    ///
    /// # Errors
    ///
    /// That Slurm does not take a variable.
    pub(crate) fn execute(self, spank: &dyn Spank, root: &mut JobRoot) -> Result<(), Vec<String>> {
        for (name, value) in &self.variables {
            change_variable(spank, name, Some(value))?;
        }
        for (name, value) in &self.lists {
            let now = spank.variable(&name.to_string_lossy()).ok().flatten();
            let value = put_before(value, now.unwrap_or_default());
            change_variable(spank, name, Some(&value))?;
        }
        for bind in self.places.binds {
            if !is_seen(&root.binds, &bind) {
                root.binds.push(bind);
            }
        }
        Ok(())
    }
}

fn split(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| *byte == at)?;
    Some((text.get(..end)?, text.get(end.checked_add(1)?..)?))
}

fn variable(text: &[u8]) -> Option<(OsString, OsString)> {
    let owned = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    let (name, value) = split(text, b'=')?;
    (!name.is_empty()).then(|| (owned(name), owned(value)))
}

/// Puts something before a list. A step that was started in another one finds it there.
fn put_before(first: &OsStr, list: OsString) -> OsString {
    let rest = list.as_bytes().strip_prefix(first.as_bytes());
    let is_there = rest.is_some_and(|rest| rest.first().is_none_or(|byte| *byte == b':'));
    if is_there || first.is_empty() {
        return list;
    }
    let mut whole = first.to_owned();
    if !list.is_empty() {
        whole.push(":");
        whole.push(list);
    }
    whole
}

/// Tells whether a place is seen where it is anyhow, or something else is wanted there.
fn is_seen(binds: &[JobBind], place: &JobBind) -> bool {
    let is_same = place.source == place.target;
    binds.iter().any(|other| {
        let around = other.source == other.target && place.source.starts_with(&other.source);
        other.target == place.target || is_same && around
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_places_and_variables() {
        let bytes = b"bind:/a%2c:/b:ro\0set:A=1=2\0before:LIST=/run/lib\0\0";
        let answer = Answer::parse(bytes).unwrap();
        let expected = Answer {
            places: JobRoot {
                binds: vec![JobBind {
                    source: "/a,".into(),
                    target: "/b".into(),
                    read_only: true,
                    must_be: false,
                }],
                ..JobRoot::default()
            },
            variables: vec![("A".into(), "1=2".into())],
            lists: vec![("LIST".into(), "/run/lib".into())],
        };
        assert_eq!(answer, expected);
    }

    #[test]
    fn an_answer_may_be_nothing_but_not_half() {
        assert_eq!(Answer::parse(b"\0"), Some(Answer::default()));
        let broken = [
            &b""[..],
            b"set:A=1\0",
            b"set:=1\0\0",
            b"before:A\0\0",
            b"bind:a:/b\0\0",
            b"else:1\0\0",
            b"lines:/a:b\0\0",
        ];
        assert_eq!(broken.map(Answer::parse), [const { None }; 7]);
    }

    #[test]
    fn what_comes_first_comes_once() {
        let lists = [("/a", ""), ("/a", "/b"), ("/a", "/a:/b"), ("/a", "/ab")];
        let found = lists.map(|(first, list)| put_before(first.as_ref(), list.into()));
        assert_eq!(found, ["/a", "/a:/b", "/a:/b", "/a:/ab"].map(OsString::from));
    }

    #[test]
    fn what_is_seen_anyhow_is_not_put_in_place_again() {
        let bind = |source: &str, target: &str| JobBind {
            source: source.into(),
            target: target.into(),
            read_only: false,
            must_be: false,
        };
        let seen = [bind("/tmp", "/tmp"), bind("/a", "/b")];
        let places = [
            bind("/tmp/x", "/tmp/x"),
            bind("/c", "/b"),
            bind("/a/x", "/a/x"),
            bind("/x", "/tmp/x"),
        ];
        let found = places.map(|place| is_seen(&seen, &place));
        assert_eq!(found, [true, true, false, false]);
    }
}
