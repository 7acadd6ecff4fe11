// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The test of a substitution: ranks of a small program send messages in a ring, and measure.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use cabane_label::escape;
use cabane_mpi::{
    Inspected, Language, LauncherKind, Library, Loader, Name, PROBE, PROBE_OPTIONS, ProbeSeen,
    Tree, c_library, family_option, inspect, stub,
};
use cabane_process::Scratch;
use cabane_process::output::{Limits, OutputError, output_within};
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_site::Context;
use serde::{Deserialize, Serialize};

use crate::Launchers;

/// Ranks without output for so long wait for each other.
const TIME_LIMIT: Duration = Duration::from_secs(120);
/// More than any ranks print.
const MOST_BYTES: usize = 16 << 20;
/// How many lines of the output of a failed probe are shown.
const MOST_LINES: usize = 16;

/// How a program loads MPI. The test program loads it in the same way.
#[derive(Debug, Serialize, Deserialize)]
pub struct Loading {
    /// The name of the library.
    name: String,
    /// The search path of the program, as options of the linker.
    search: Vec<String>,
}

/// A test of a substitution.
#[derive(Debug)]
pub struct RingTest<'a> {
    /// How the program loads MPI.
    pub loading: &'a Loading,
    /// The substitute, and the file that its ranks see.
    pub to: (&'a Library, &'a Path),
    /// The program's own library, if figures with it are wanted.
    pub from: Option<&'a Library>,
    /// How many ranks there must be, if that is known.
    pub ranks: Option<u32>,
    /// Whether latency and bandwidth are measured.
    pub measures: bool,
}

/// With which library ranks are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum With {
    /// With the library of the program.
    Own,
    /// With the substitute.
    Substitute,
}

impl RingTest<'_> {
    /// Runs the test program with the substitute. If figures are wanted, runs it with the library of
    /// the program before. `line` returns the command that starts its ranks; it gets the directory
    /// of the file `probe`.
    ///
    /// # Errors
    ///
    /// The test program cannot be compiled, or its ranks fail with the substitute.
    pub fn run(
        &self,
        context: &Context,
        line: impl Fn(With, &Path) -> Vec<OsString>,
    ) -> Result<RingResult> {
        let (to, file) = self.to;
        let home = compile(context, self.loading, to)?;
        let run = |with, library: &Library, file: &Path| {
            let mut line = line(with, home.path());
            line.extend(self.measures.then(|| OsString::from("measure")));
            run(&line, library, file, self.ranks)
        };
        let mut before = None;
        if let Some(from) = self.from.filter(|_| self.measures) {
            // What is wrong with it now is no reason not to replace it.
            match run(With::Own, from, &from.file) {
                Ok(seen) => before = Some(seen),
                Err(error) => context.warning(error.texts().0),
            }
        }
        let after = run(With::Substitute, to, file)?;
        Ok(RingResult { before, after })
    }
}

/// Returns the command that starts two ranks: that of the configuration, or a launcher that was found
/// beside the substitute.
///
/// # Errors
///
/// There is no launcher.
pub fn own_launcher(library: &Library, launchers: &Launchers) -> Result<Vec<OsString>> {
    if !launchers.named.is_empty() {
        let named = launchers.named.iter().map(OsString::from);
        return Ok(two_ranks(named.collect(), launchers.kind));
    }
    let mut found = launchers.found.iter();
    let launcher = found.find(|one| library.fits(one.kind) == Some(true));
    let launcher = launcher.ok_or_else(|| {
        let hint = "begin the command with a launcher, or name one in the configuration";
        Report::new(Kind::NotProven, "there is no launcher for the probe beside the substitute")
            .hinted(hint.to_owned())
    })?;
    let arguments = vec![launcher.path.clone().into_os_string()];
    Ok(two_ranks(arguments, Some(launcher.kind)))
}

/// What ranks of the test program have reported.
#[derive(Debug)]
pub struct RingResult {
    /// With the library of the program, if that was measured.
    pub before: Option<ProbeSeen>,
    /// With the substitute.
    pub after: ProbeSeen,
}

/// Compiles the test program, as the file `probe` in a directory of its own.
fn compile(context: &Context, loading: &Loading, library: &Library) -> Result<Scratch> {
    // Where homes are shared every node sees it.
    let caches = context.settings.cache_directory.value.as_deref();
    let home = caches.and_then(|caches| {
        std::fs::create_dir_all(caches).ok()?;
        Scratch::new_in(caches).ok()
    });
    let home =
        home.map_or_else(Scratch::new, Ok).or_failed(|| "make a temporary directory".to_owned())?;
    let path = |name: &str| home.path().join(name);
    let written = std::fs::write(path("probe.c"), PROBE)
        .and_then(|()| std::fs::write(path("mpi.c"), stub()))
        .and_then(|()| std::fs::write(path("libc.c"), c_library()));
    written.or_failed(|| "write the probe".to_owned())?;
    for (source, name, soname) in
        [("mpi.c", "libmpi.so", loading.name.as_str()), ("libc.c", "libc.so", "libc.so.6")]
    {
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-w", "-nostdlib", "-fno-builtin"]);
        compiler.arg(format!("-Wl,-soname,{soname}"));
        compiler.arg(path(source)).arg("-o").arg(path(name));
        compiled(&mut compiler)?;
    }
    let mut compiler = Command::new("cc");
    compiler.args(PROBE_OPTIONS).arg(family_option(library.family));
    compiler.args(["probe.c", "libmpi.so", "libc.so"].map(path));
    compiler.args(&loading.search).arg("-o").arg(path("probe"));
    compiled(&mut compiler)?;
    Ok(home)
}

/// Returns the last lines of what ranks have written, each once: the reason of a failure stands
/// after the warnings that all of them give.
fn last_lines(text: &str, most: usize) -> Vec<&str> {
    let mut known = BTreeSet::new();
    let mut lines: Vec<&str> =
        text.lines().filter(|line| !line.trim().is_empty() && known.insert(*line)).collect();
    lines.split_off(lines.len().saturating_sub(most))
}

/// Starts ranks of the probe, and checks what they say.
fn run(line: &[OsString], library: &Library, file: &Path, ranks: Option<u32>) -> Result<ProbeSeen> {
    let (text, errors) = finish(line)?;
    let seen = ProbeSeen::read(&text);
    seen.check(file, ranks).map_err(|failure| {
        let error = format!("with {with}, {failure}", with = library.title());
        let lines = last_lines(&errors, MOST_LINES);
        let lines = lines.iter();
        let detail: Vec<String> = lines.map(|line| format!("    {}", escape(line))).collect();
        let error = Report::new(Kind::NotProven, error);
        if detail.is_empty() { error } else { error.detailed(detail.join("\n")) }
    })?;
    Ok(seen)
}

fn two_ranks(launcher: Vec<OsString>, kind: Option<LauncherKind>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    let is_openmpi = kind == Some(LauncherKind::OpenMpi);
    if is_openmpi && rustix::process::geteuid().is_root() {
        let allowed = ["OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"];
        arguments.push("env".into());
        arguments.extend(allowed.map(OsString::from));
    }
    arguments.extend(launcher);
    if is_openmpi {
        arguments.push("--oversubscribe".into());
    }
    arguments.extend(["-n".into(), "2".into()]);
    arguments
}

impl Loading {
    /// Reads how a program loads MPI; `library` is what it gets.
    pub fn of(tree: &Tree, program: &Path, library: &Library) -> Self {
        let loader = Loader::new(tree);
        let Some(Inspected::File(file)) = inspect(tree, &loader, program) else {
            return Self { name: library.soname.clone(), search: Vec::new() };
        };
        let is_core =
            |name: &&String| Name::of(name).is_some_and(|name| name.language == Language::C);
        let name = file.names.iter().find(is_core).unwrap_or(&library.soname);
        let origin = file.file.parent().unwrap_or(Path::new("/"));
        let origin = origin.to_string_lossy();
        let put = |value: &String| value.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin);
        let option = |value: &Option<String>, kind: &str| {
            let value = put(value.as_ref()?);
            Some(vec![format!("-Wl,{kind}"), format!("-Wl,-rpath,{value}")])
        };
        let search = option(&file.runpath, "--enable-new-dtags")
            .or_else(|| option(&file.rpath, "--disable-new-dtags"));
        Self { name: name.clone(), search: search.unwrap_or_default() }
    }
}

fn compiled(compiler: &mut Command) -> Result<()> {
    let failed = |reason: String| {
        Report::new(Kind::NotProven, format!("the probe cannot be compiled: {reason}"))
            .hinted("it needs a compiler called `cc`, and nothing else".to_owned())
    };
    let output = compiler.output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let messages = String::from_utf8_lossy(&output.stderr);
    let line = messages.lines().find(|line| line.contains("error")).unwrap_or_default();
    Err(failed(escape(line).into_owned()))
}

/// Runs a command to its end, with everything that it started, and returns what it printed.
fn finish(line: &[OsString]) -> Result<(String, String)> {
    let program = line.first().cloned().unwrap_or_default();
    let mut command = Command::new(&program);
    command.args(line.get(1..).unwrap_or_default());
    // Ranks may outlive their launcher.
    let limits = Limits { end: Instant::now() + TIME_LIMIT, bytes: MOST_BYTES, has_group: true };
    let output = output_within(&mut command, b"", limits).map_err(|error| match error {
        OutputError::Late => {
            not_proven(&format!("has not ended after {} seconds", TIME_LIMIT.as_secs()))
        }
        OutputError::TooMuch => not_proven(&format!("prints more than {MOST_BYTES} bytes")),
        OutputError::Start(error) | OutputError::Read(error) => {
            let message = format!("cannot start {}", Path::new(&program).display());
            Report::caused(Kind::Failure, message, error)
        }
    })?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok((text(output.stdout), text(output.stderr)))
}

fn not_proven(problem: &str) -> Report {
    Report::new(Kind::NotProven, format!("the probe {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_stands_after_the_warnings_of_all() {
        let text = "warning\n\nwarning\nnote\nwarning\nreason\n";
        assert_eq!(last_lines(text, 2), ["note", "reason"]);
        assert_eq!(last_lines(text, 8), ["warning", "note", "reason"]);
    }
}
