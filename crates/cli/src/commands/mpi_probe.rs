// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The proof of a substitution: a small program is run in the place of the real one.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use cabane_label::escape;
use cabane_mpi::{
    Inspected, Language, Launcher, LauncherKind, Library, Loader, Name, PROBE, ProbeFailure,
    ProbeSeen, Tree, Verdict, family_option, inspect, stub,
};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use super::mpi_substitute::Substitute;
use super::mpi_swap::Words;
use super::mpi_text;
use crate::exit_codes;
use crate::report::{CommandError, CommandResult, IoContext};
use crate::setup::Setup;

/// Ranks that have said nothing for so long wait for each other.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(20);
/// What is shown of what a failed probe said.
const MOST_LINES: usize = 8;

#[derive(Debug, thiserror::Error)]
enum ProveError {
    #[error("the probe cannot be compiled: {0}")]
    Compiler(String),
    #[error("there is no launcher for the probe beside the substitute")]
    NoLauncher,
    #[error("the probe has not ended after {} seconds", PATIENCE.as_secs())]
    Hangs,
    #[error("with {with}, {failure}")]
    Failed { with: String, failure: ProbeFailure },
}

/// Runs the probe with the substitute, and tells what it saw; before that with the
/// program's own library, if figures are wanted.
pub(super) fn prove(
    setup: &Setup,
    words: &Words,
    verdict: &Verdict,
    variables: &[(String, String)],
    substitute: &Substitute,
    measures: bool,
) -> CommandResult<()> {
    let Some(to) = &verdict.to else {
        return Ok(());
    };
    let probe = Probe::compile(setup, words, to)?;
    let own = verdict
        .from
        .as_ref()
        .filter(|from| measures && from.file != to.file);
    let mut before = None;
    if let Some(from) = own.filter(|from| {
        words
            .launcher
            .is_none_or(|kind| from.fits(kind) != Some(false))
    }) {
        // What is wrong with it now is no reason not to replace it.
        match probe.run(words, &[], &substitute.launchers, from, measures) {
            Ok(seen) => before = Some(seen),
            Err(error) => setup.printer.warning(&error.texts().0),
        }
    }
    let after = probe.run(words, variables, &substitute.launchers, to, measures)?;
    setup.printer.note(mpi_text::proven(to, &after));
    if measures {
        setup
            .printer
            .note(mpi_text::figures(before.as_ref(), &after).trim_end());
    }
    Ok(())
}

struct Probe {
    home: TempDir,
}

impl Probe {
    fn compile(setup: &Setup, words: &Words, library: &Library) -> CommandResult<Self> {
        let made = || "make a directory for the probe".to_owned();
        // Where homes are shared every node sees it.
        let caches = setup.settings.cache_directory.value.as_deref();
        let home = caches.and_then(|caches| {
            std::fs::create_dir_all(caches).ok()?;
            tempfile::Builder::new()
                .prefix("probe-")
                .tempdir_in(caches)
                .ok()
        });
        let home = home.map_or_else(tempfile::tempdir, Ok).or_failed(made)?;
        let path = |name: &str| home.path().join(name);
        let written = std::fs::write(path("stub.c"), stub())
            .and_then(|()| std::fs::write(path("probe.c"), PROBE));
        written.or_failed(|| "write the probe".to_owned())?;
        let (name, search) = wanted(words, library);
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-w"]);
        compiler.arg(format!("-Wl,-soname,{name}"));
        compiler
            .arg(path("stub.c"))
            .arg("-o")
            .arg(path("libstub.so"));
        compiled(&mut compiler)?;
        let mut compiler = Command::new("cc");
        // Addresses of objects of a library are asked for, and not copied.
        compiler.args(["-O2", "-fPIC", "-pie", family_option(library.family)]);
        compiler.arg(path("probe.c")).arg(path("libstub.so"));
        compiler.args(search).arg("-o").arg(path("probe"));
        compiled(&mut compiler)?;
        Ok(Self { home })
    }

    fn run(
        &self,
        words: &Words,
        variables: &[(String, String)],
        launchers: &[Launcher],
        library: &Library,
        measures: bool,
    ) -> CommandResult<ProbeSeen> {
        let mut program: Vec<OsString> = vec![self.home.path().join("probe").into_os_string()];
        program.extend(measures.then(|| OsString::from("measure")));
        let (line, ranks) = if words.launcher.is_some() {
            (words.with(variables, &program), None)
        } else {
            let launcher = launchers
                .iter()
                .find(|one| library.fits(one.kind) == Some(true));
            let no_launcher = || {
                CommandError::new(exit_codes::NOT_PROVEN, ProveError::NoLauncher)
                    .hinted("begin the command with a launcher".to_owned())
            };
            let before = own_words(launcher.ok_or_else(no_launcher)?);
            let words = Words {
                before,
                launcher: None,
                program: Vec::new(),
                file: PathBuf::new(),
            };
            (words.with(variables, &program), Some(2))
        };
        let (text, errors) = finish(&line)?;
        let seen = ProbeSeen::read(&text);
        seen.check(&library.file, ranks).map_err(|failure| {
            let error = ProveError::Failed {
                with: library.title(),
                failure,
            };
            let lines: Vec<&str> = errors
                .lines()
                .filter(|line| !line.trim().is_empty())
                .collect();
            let lines = lines.get(..MOST_LINES).unwrap_or(&lines).iter();
            let detail: Vec<String> = lines.map(|line| format!("    {}", escape(line))).collect();
            let error = CommandError::new(exit_codes::NOT_PROVEN, error);
            if detail.is_empty() {
                error
            } else {
                error.detailed(detail.join("\n"))
            }
        })?;
        Ok(seen)
    }
}

/// The words that start two ranks.
fn own_words(launcher: &Launcher) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    if launcher.kind == LauncherKind::OpenMpi && rustix::process::geteuid().is_root() {
        let allowed = [
            "OMPI_ALLOW_RUN_AS_ROOT=1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
        ];
        words.push("env".into());
        words.extend(allowed.map(OsString::from));
    }
    words.push(launcher.path.clone().into_os_string());
    if launcher.kind == LauncherKind::OpenMpi {
        words.push("--oversubscribe".into());
    }
    words.extend(["-n".into(), "2".into()]);
    words
}

/// The name that the program asks for, and the search path in it, for the linker.
fn wanted(words: &Words, library: &Library) -> (String, Vec<String>) {
    let tree = Tree::here();
    let loader = Loader::new(&tree);
    let Some(Inspected::File(file)) = inspect(&tree, &loader, &words.file) else {
        return (library.soname.clone(), Vec::new());
    };
    let is_core = |name: &&String| Name::of(name).is_some_and(|name| name.language == Language::C);
    let name = file
        .names
        .iter()
        .find(is_core)
        .unwrap_or(&library.soname)
        .clone();
    let origin = file
        .file
        .parent()
        .unwrap_or(Path::new("/"))
        .to_string_lossy()
        .into_owned();
    let put = |value: &str| {
        value
            .replace("${ORIGIN}", &origin)
            .replace("$ORIGIN", &origin)
    };
    let option = |value: &Option<String>, kind: &str| {
        let value = value.as_ref().map(|value| put(value));
        value.map(|value| vec![format!("-Wl,{kind}"), format!("-Wl,-rpath,{value}")])
    };
    let search = option(&file.runpath, "--enable-new-dtags")
        .or_else(|| option(&file.rpath, "--disable-new-dtags"));
    (name, search.unwrap_or_default())
}

fn compiled(compiler: &mut Command) -> CommandResult<()> {
    let failed = |reason: String| {
        CommandError::new(exit_codes::NOT_PROVEN, ProveError::Compiler(reason))
            .hinted("it needs a compiler called `cc`, and nothing else".to_owned())
    };
    let output = compiler
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said
        .lines()
        .find(|line| line.contains("error"))
        .unwrap_or_default();
    Err(failed(escape(line).into_owned()))
}

/// Runs a command to its end, with everything that it started, and returns what it said.
fn finish(line: &[OsString]) -> CommandResult<(String, String)> {
    let program = line.first().cloned().unwrap_or_default();
    let failed = || format!("start {}", Path::new(&program).display());
    let mut child = Command::new(&program)
        .args(line.get(1..).unwrap_or_default())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .or_failed(failed)?;
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let read = |stream: Option<Box<dyn Read + Send>>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stream.map(|mut stream| stream.read_to_end(&mut bytes));
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let out = read(child.stdout.take().map(|stream| Box::new(stream) as Box<_>));
    let errors = read(child.stderr.take().map(|stream| Box::new(stream) as Box<_>));
    let start = Instant::now();
    let is_done = loop {
        match child.try_wait().or_failed(failed)? {
            Some(_) => break true,
            None if start.elapsed() > PATIENCE => break false,
            None => thread::sleep(PAUSE),
        }
    };
    // Ranks may outlive their launcher, and hold what they write to open.
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::KILL);
    }
    if !is_done {
        let _ = child.wait();
        return Err(CommandError::new(exit_codes::NOT_PROVEN, ProveError::Hangs));
    }
    Ok((
        out.join().unwrap_or_default(),
        errors.join().unwrap_or_default(),
    ))
}
