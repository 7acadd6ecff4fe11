// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! On a node: what its devices bring into the images of a step.
//!
//! The files that say so are the node's, and in languages that root does not read here. So
//! `cabane slurm node` reads them, with the rights of the owner of the job, once for a step. Its
//! answer is the owner's, who could have changed it: it names places that are opened with his
//! rights, and variables of his tasks.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use cabane_mount::{JobBind, JobImage, JobOwner, JobRoot};
use cabane_sys::as_user::{Said, User, output_as};

use crate::record::find_command;
use crate::spank::Spank;

/// The list in which the loader looks for libraries before all others.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";
/// After which time a node whose devices are not known fails the step. It is a matter of
/// milliseconds, unless a file system hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// For whom it is asked.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    /// The command, if `plugstack.conf` names it.
    pub(crate) command: Option<&'a Path>,
    /// The owner of the job.
    pub(crate) owner: &'a JobOwner,
    /// The images of the step.
    pub(crate) images: &'a [JobImage],
}

/// What the node answers.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    places: JobRoot,
    variables: Vec<(OsString, OsString)>,
    /// Put before the library path.
    directories: Vec<OsString>,
}

/// Adds what the devices of a list bring on this node. Returns what the user is told.
///
/// # Errors
///
/// A device that must be there and is not, in lines for the user.
pub(crate) fn add(
    spank: &dyn Spank,
    asked: &Asked<'_>,
    root: &mut JobRoot,
) -> Result<Vec<String>, Vec<String>> {
    let said = ask(asked, root)?;
    let mut lines = lines_of(&said.errors);
    if !said.is_well {
        if lines.is_empty() {
            lines.push("the devices of this node are not known".to_owned());
        }
        return Err(lines);
    }
    let answer = parse(&said.output).ok_or_else(|| {
        vec![
            "the answer about the devices of this node is malformed: is `cabane` another version?"
                .to_owned(),
        ]
    })?;
    for (name, value) in &answer.variables {
        set(spank, name, value)?;
    }
    if !answer.directories.is_empty() {
        let now = spank.variable(LIBRARY_PATH).ok().flatten();
        let now = now.filter(|value| !value.is_empty());
        let list: Vec<OsString> = answer.directories.into_iter().chain(now).collect();
        set(spank, LIBRARY_PATH.as_ref(), &list.join(OsStr::new(":")))?;
    }
    for bind in answer.places.binds {
        if !is_seen(&root.binds, &bind) {
            root.binds.push(bind);
        }
    }
    Ok(lines)
}

/// Tells whether a place is seen where it is anyhow, or something else is wanted there.
fn is_seen(binds: &[JobBind], place: &JobBind) -> bool {
    let is_same = place.source == place.target;
    binds.iter().any(|other| {
        let around = other.source == other.target && place.source.starts_with(&other.source);
        other.target == place.target || is_same && around
    })
}

fn ask(asked: &Asked<'_>, root: &JobRoot) -> Result<Said, Vec<String>> {
    let failed =
        |reason: String| vec![format!("cannot ask for the devices of this node: {reason}")];
    let program = find_command(asked.command)
        .ok_or_else(|| failed("there is no `cabane` where it is looked for".to_owned()))?;
    let mut command = Command::new(&program);
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
        .args(["slurm", "node"]);
    let root_image = asked
        .images
        .iter()
        .find(|image| image.mount_point == Path::new("/"));
    if let Some(image) = root_image {
        command.arg("--image").arg(&image.path);
    }
    for device in &root.devices {
        let option = if device.must_be {
            "--device"
        } else {
            "--usual-device"
        };
        command.arg(option).arg(&device.name);
    }
    let user = User {
        user: asked.owner.user,
        group: asked.owner.group,
        groups: asked.owner.groups.clone(),
    };
    output_as(&mut command, &user, PATIENCE)
        .map_err(|error| failed(format!("{}: {error}", program.display())))
}

/// What a command complained about, as lines for the user.
fn lines_of(errors: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(errors);
    let lines = text.lines().map(|line| line.trim_start_matches("error: "));
    lines.map(|line| line.escape_debug().to_string()).collect()
}

/// Reads the answer: texts, each ended by a zero byte; an empty one is the last.
///
/// ```text
/// bind:…              a place, as in the list of a job
/// set:NAME=VALUE      a variable
/// path:DIRECTORY      where libraries are
/// ```
fn parse(bytes: &[u8]) -> Option<Answer> {
    let texts = bytes
        .strip_suffix(b"\0\0")
        .or(bytes.strip_suffix(b"\0").filter(|rest| rest.is_empty()))?;
    let mut answer = Answer::default();
    for text in texts
        .split(|byte| *byte == 0)
        .filter(|text| !text.is_empty())
    {
        let end = text.iter().position(|byte| *byte == b':')?;
        let (kind, rest) = (text.get(..end)?, text.get(end.checked_add(1)?..)?);
        let owned = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        match kind {
            b"bind" => answer.places.add_place(str::from_utf8(text).ok()?).ok()?,
            b"set" => {
                let equals = rest.iter().position(|byte| *byte == b'=')?;
                let value = rest.get(equals.checked_add(1)?..)?;
                let name = rest.get(..equals).filter(|name| !name.is_empty())?;
                answer.variables.push((owned(name), owned(value)));
            }
            b"path" => answer.directories.push(owned(rest)),
            _ => return None,
        }
    }
    Some(answer)
}

fn set(spank: &dyn Spank, name: &OsStr, value: &OsStr) -> Result<(), Vec<String>> {
    spank
        .change_step_variable(name, Some(value))
        .map_err(|error| {
            let name = name.to_string_lossy();
            vec![format!(
                "cannot set the variable {} of the step: {}",
                name.escape_debug(),
                error.0
            )]
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_places_and_variables() {
        let bytes = b"bind:/a%2c:/b:ro\0set:A=1=2\0path:/run/lib\0\0";
        let answer = parse(bytes).unwrap();
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
            directories: vec!["/run/lib".into()],
        };
        assert_eq!(answer, expected);
    }

    #[test]
    fn an_answer_may_be_nothing_but_not_half() {
        assert_eq!(parse(b"\0"), Some(Answer::default()));
        let broken = [
            &b""[..],
            b"set:A=1\0",
            b"set:=1\0\0",
            b"bind:a:/b\0\0",
            b"else:1\0\0",
            b"lines:/a:b\0\0",
        ];
        assert_eq!(broken.map(parse), [const { None }; 6]);
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
