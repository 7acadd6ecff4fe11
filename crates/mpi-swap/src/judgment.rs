// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whether a command can have another MPI.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use cabane_label::escape;
use cabane_mpi::{
    LauncherKind, Library, Outcome, Places, Plan, Side, Tree, Verdict, judge_with_plugins,
};
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_site::Context;

use crate::substitute::{find_substitute, refined, search};
use crate::{CommandLine, Launchers, Search, Substitute, SubstituteRequest, SwapError};

/// Where the files of a substitute are visible in a container.
const PRIVATE: &str = "/run/cabane/mpi";

/// What is known about a command that is to get another MPI.
#[derive(Debug)]
pub struct Judgment {
    /// The command.
    pub line: CommandLine,
    /// The substitute.
    pub substitute: Substitute,
    /// Where the files and links of the substitute belong.
    pub places: Places,
    /// Whether it is possible, and how.
    pub verdict: Verdict,
}

/// Judges whether a command of this machine can have a substitute. `library_path` is the value of
/// `LD_LIBRARY_PATH`.
///
/// # Errors
///
/// There is no such program or substitute.
pub fn judge_here(
    context: &Context,
    request: SubstituteRequest<'_>,
    command: &[OsString],
    library_path: &str,
) -> Result<Judgment> {
    let files = Tree::here();
    let search = search(context, &files);
    let is_contained = false;
    let command = SwapCommand { search, library_path, command, is_launched: false, is_contained };
    judge_command(context, request, command, &files).map_err(|error| refined(context, error))
}

/// A command that is to get another MPI.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SwapCommand<'a> {
    /// The files that it sees, and its `PATH`.
    pub(crate) search: Search<'a>,
    /// The value of its `LD_LIBRARY_PATH`.
    pub(crate) library_path: &'a str,
    pub(crate) command: &'a [OsString],
    /// Whether it begins with a launcher of this machine that is not among these files.
    pub(crate) is_launched: bool,
    /// Whether it runs in a container, where the substitute gets a directory of its own.
    pub(crate) is_contained: bool,
}

/// Judges whether a command can have a substitute of this machine, whose files are `here`.
pub(crate) fn judge_command(
    context: &Context,
    request: SubstituteRequest<'_>,
    command: SwapCommand<'_>,
    here: &Tree,
) -> Result<Judgment, SwapError> {
    let SwapCommand { search, library_path, is_launched, .. } = command;
    let line = CommandLine::parse(search, command.command, request.program, is_launched)?;
    let side = Side { tree: search.tree, path: &line.file, library_path };
    let substitute = find_substitute(context, here, request, side)?;
    let places = if command.is_contained {
        Places { private: Some(PRIVATE.into()), links: Path::new(PRIVATE).join("links") }
    } else {
        Places { private: None, links: links_for(context, &line.file, &substitute) }
    };
    let verdict = judge_with_plugins(side, substitute.side(here), &places, &substitute.plugins);
    Ok(Judgment { line, substitute, places, verdict })
}

/// Returns where a file of a substitute is visible in a container.
pub fn path_in_container(path: &Path) -> PathBuf {
    Path::new(PRIVATE).join(path.strip_prefix("/").unwrap_or(path))
}

/// Returns the plan of a verdict.
///
/// # Errors
///
/// The substitution is refused.
pub fn accepted(verdict: &Verdict) -> Result<&Plan> {
    match &verdict.outcome {
        Outcome::Possible(plan) => Ok(plan),
        Outcome::Refused(refusal) => {
            let text = escape(&refusal.to_string()).into_owned();
            Err(Report::new(Kind::NotSwapped, text).hinted(refusal.hint()))
        }
    }
}

/// Warns of what a verdict has doubts about.
pub fn warn(context: &Context, verdict: &Verdict) {
    for warning in &verdict.warnings {
        context.warning(escape(&warning.to_string()));
    }
}

/// Checks that a launcher can start ranks of the substitute.
///
/// # Errors
///
/// It cannot.
pub fn check_launcher(
    launcher: Option<LauncherKind>,
    verdict: &Verdict,
    launchers: &Launchers,
) -> Result<()> {
    match (launcher, &verdict.to) {
        (Some(kind), Some(library)) if library.fits(kind) == Some(false) => {
            let (library_title, kind) = (library.title(), kind.name());
            let text = format!(
                "ranks with {library_title} do not find each other under {kind}: each would be alone"
            );
            Err(Report::new(Kind::NotSwapped, text).hinted(launcher_hint(library, launchers)))
        }
        _ => Ok(()),
    }
}

fn launcher_hint(library: &Library, launchers: &Launchers) -> Option<String> {
    if !launchers.named.is_empty() {
        let command = launchers.named.join(" ");
        return Some(format!("its own launcher is `{command}`"));
    }
    let directory = library.path.parent()?.parent()?;
    let beside = directory.join("bin/mpiexec");
    let text = format!("its own launcher is {}", beside.display());
    beside.exists().then_some(text)
}

/// Returns the directory for links. The same library has the same links, so that every node sees
/// them where homes are shared, and none must be removed.
fn links_for(context: &Context, program: &Path, substitute: &Substitute) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    (program, &substitute.path).hash(&mut hasher);
    let caches = context.settings.cache_directory.value.clone().unwrap_or_default();
    caches.join("mpi").join(format!("{:016x}", hasher.finish()))
}

/// Creates the links of a plan.
///
/// # Errors
///
/// There is no cache directory, or it cannot be written.
pub fn make_links(plan: &Plan, places: &Places) -> Result<()> {
    if plan.links.is_empty() {
        return Ok(());
    }
    if !places.links.is_absolute() {
        let hint = "name a place with `cache` in the section [build] of the configuration";
        return Err(Report::new(Kind::Failure, "there is no place for links: HOME is not set")
            .hinted(hint.to_owned()));
    }
    fs::create_dir_all(&places.links)
        .or_failed(|| format!("make the directory {}", places.links.display()))?;
    for (link, target) in &plan.links {
        if fs::read_link(link).is_ok_and(|found| &found == target) {
            continue;
        }
        // Ranks on several nodes may make it at the same time, and have the same number there.
        let node = rustix::system::uname();
        let node = node.nodename().to_string_lossy();
        let new = link.with_extension(format!("new-{node}-{}", std::process::id()));
        symlink(target, &new)
            .and_then(|()| fs::rename(&new, link))
            .or_failed(|| format!("make the link {}", link.display()))?;
    }
    Ok(())
}

/// Returns a variable of the caller, or an empty text.
pub fn variable(context: &Context, name: &str) -> String {
    let value = context.calling.get(OsStr::new(name));
    value.map(|value| value.to_string_lossy().into_owned()).unwrap_or_default()
}
