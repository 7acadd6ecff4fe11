// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! In `srun`, `sbatch`, and `salloc`: which images and variables the job gets.
//!
//! `cabane slurm submit` finds that out, as the user, and writes down what becomes of the
//! variables of this process; those are then the ones of the job. Where neither an option
//! nor a variable asks for an image, nothing is started.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use cabane_mount::JOB_LOOKUP;

use crate::options::Given;
use crate::spank::Spank;

/// Where the command is, unless `plugstack.conf` says `cabane=PATH`.
pub(crate) const COMMANDS: [&str; 2] = ["/usr/local/bin/cabane", "/usr/bin/cabane"];

/// Variables that tell of images that are loaded, or were, and of what a job has.
const LOADED: [&str; 4] =
    ["CABANE_LOADED", "UENV_MOUNT_LIST", cabane_mount::JOB_IMAGES, cabane_mount::JOB_MPI];

/// Finds out and sets what there is to be set.
///
/// # Errors
///
/// That it failed; the user knows why.
pub(crate) fn prepare(spank: &dyn Spank, given: &Given, command: Option<&Path>) -> Result<(), ()> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let from = own_name();
    let all = given.or_variables(prefixes(&from), variable);
    // Variables that only say how, as in someone's profile, are about nothing without images.
    let has_request = !given.is_none() || all.has_images();
    if !has_request && !LOADED.iter().any(|name| variable(name).is_some()) {
        return Ok(());
    }
    let given = all;
    let program = find_command(command);
    let begin = Instant::now();
    let changes = ask(&program, &from, &given).map_err(|error| {
        if let Some(error) = error {
            spank.error(&format!("cannot start {}: {error}", program.display()));
        }
    })?;
    for (name, value) in changes {
        spank.change_own_variable(&name, value.as_deref());
    }
    if is_multi_prog() {
        // Each task has a program of its own, which cannot be started through another.
        spank.change_own_variable(cabane_mount::JOB_PLAN.as_ref(), None);
    }
    let taken = begin.elapsed().as_micros().to_string();
    spank.change_own_variable(JOB_LOOKUP.as_ref(), Some(taken.as_ref()));
    Ok(())
}

/// Tells whether steps of this process have images, or another MPI.
pub(crate) fn has_images() -> bool {
    let names = [cabane_mount::JOB_IMAGES, cabane_mount::JOB_MPI];
    names.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Tells that the parts of a heterogeneous job ask for different images.
pub(crate) fn refuse_parts(spank: &dyn Spank) {
    spank.error("the parts of a heterogeneous job have one environment, and these ask for several");
    spank.error(
        "hint: name all images in the first part, or give the steps of a part theirs: \
         `srun --het-group=1 --uenv=LABEL …`",
    );
}

pub(crate) fn find_command(configured: Option<&Path>) -> PathBuf {
    let there = COMMANDS.iter().map(Path::new).find(|path| path.is_file());
    configured.or(there).unwrap_or(Path::new("cabane")).to_owned()
}

/// Tells whether the tasks of the step have programs of their own, as well as is known here: a word
/// of the command line is the option that says so, or as much of it as Slurm understands.
fn is_multi_prog() -> bool {
    let words = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    words.split(|byte| *byte == 0).any(is_option_of_several)
}

fn is_option_of_several(word: &[u8]) -> bool {
    word.len() >= b"--mu".len() && b"--multi-prog".starts_with(word)
}

type Change = (OsString, Option<OsString>);

/// Runs the command. Without a reason in the error, it has printed the reason itself.
fn ask(program: &Path, from: &str, given: &Given) -> Result<Vec<Change>, Option<io::Error>> {
    let link = link_beside(program);
    let output = Command::new(program)
        .arg0(link.as_deref().unwrap_or(program))
        .args(given.arguments_before())
        .args(["slurm", "submit"])
        // `--uenv` is an option of Cabane: the order is that of `cabane run`.
        .args(link.map(|_| "--cabane-first"))
        .arg(format!("--from={from}"))
        .args(given.arguments())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(Some)?;
    if !output.status.success() {
        return Err(None);
    }
    parse(&output.stdout)
        .ok_or_else(|| Some(io::Error::other("its answer is malformed: is it another version?")))
}

/// Returns the link `uenv` beside the command, if it leads to it: called by that name, it finds the
/// repositories of uenv, too, and errors are in its words. `None` if the site has configured this name itself.
fn link_beside(program: &Path) -> Option<PathBuf> {
    let link = program.with_file_name("uenv");
    let leads_there =
        link.canonicalize().is_ok_and(|link| program.canonicalize().is_ok_and(|own| own == link));
    (leads_there && link != program).then_some(link)
}

/// Reads the answer: texts, each ended by a zero byte, `NAME=VALUE` to set a variable and
/// `NAME` to remove it; an empty one is the last.
fn parse(bytes: &[u8]) -> Option<Vec<Change>> {
    let texts =
        bytes.strip_suffix(b"\0\0").or(bytes.strip_suffix(b"\0").filter(|rest| rest.is_empty()))?;
    let change = |text: &[u8]| {
        let end = text.iter().position(|byte| *byte == b'=');
        let (name, value) = text.split_at(end.unwrap_or(text.len()));
        let text = |bytes| OsStr::from_bytes(bytes).to_owned();
        (!name.is_empty()).then(|| (text(name), value.get(1..).map(text)))
    };
    if texts.is_empty() {
        return Some(Vec::new());
    }
    texts.split(|byte| *byte == 0).map(change).collect()
}

/// With what the variables begin that stand for options of a program, as those of Slurm do.
fn prefixes(program: &str) -> &'static [&'static str] {
    match program {
        "srun" => &["SLURM"],
        "salloc" => &["SALLOC", "SBATCH"],
        _ => &["SBATCH"],
    }
}

/// The name of the program that submits: `srun`, `sbatch`, `salloc`, …
fn own_name() -> String {
    let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let name = program.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(name: &str, value: Option<&str>) -> Change {
        (name.into(), value.map(Into::into))
    }

    #[test]
    fn an_answer_sets_and_removes_variables() {
        let found = parse(b"A=1=2\0B=\0C\0\0");
        let expected = [change("A", Some("1=2")), change("B", Some("")), change("C", None)];
        assert_eq!(found, Some(expected.into()));
    }

    #[test]
    fn an_answer_may_be_to_change_nothing() {
        assert_eq!(parse(b"\0"), Some(Vec::new()));
    }

    #[test]
    fn an_answer_that_was_cut_off_is_none() {
        let found = [&b""[..], b"A=1", b"A=1\0", b"A=1\0=\0\0"].map(parse);
        assert_eq!(found, [None, None, None, None]);
    }
}
