// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Another MPI for a command in a root image: `cabane run --mpi`.
//!
//! Whether and how it can be done is found out by looking into the image, which is mounted at
//! some place for that: by this program again, since the process that mounts becomes the
//! command. What it finds is data. The libraries are then shown in the image at a place of
//! their own, each at its path below that, and variables point there.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cabane_mount::Policy;
use cabane_mpi::{LauncherKind, Places, Plan, Side, Tree, Verdict, judge};
use cabane_resolve::ConcreteImage;
use cabane_run::loaded::{Additions, Bind};
use cabane_view::VariableSetting;
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::commands::mpi::probe::Wanted;
use crate::commands::mpi::substitute::{Asked, Launchers, substitute_for, substitute_image};
use crate::commands::mpi::swap::{
    Judged, Words, accepted, check_launcher, is_program, needs_mpi, no_program, nothing_behind,
};
use crate::commands::sight::Sight;
use crate::exit_codes::{self, ExitCode};
use crate::format::json;
use crate::report::{CommandResult, IoContext, Kind, Report};
use crate::setup::Setup;

/// Where a substitute is seen in a root image.
const PRIVATE: &str = "/run/cabane/mpi";
/// Where a root image is looked into if no policy names a place.
const USUAL_PLACES: [&str; 2] = ["/user-environment", "/user-tools"];

/// Find out how a command in a root image gets another MPI
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// Where the image is mounted
    #[arg(long)]
    root: PathBuf,
    /// The substitute
    #[arg(long)]
    with: String,
    /// Where programs are looked for in the image
    #[arg(long)]
    path: OsString,
    /// Where the loader looks first in the image
    #[arg(long, default_value = "")]
    library_path: String,
    /// The file that needs MPI, if it is not in the command
    #[arg(long)]
    program: Option<PathBuf>,
    /// Directories that are seen in the image, and where they are
    #[arg(long = "seen", num_args = 2, value_names = ["TARGET", "SOURCE"])]
    seen: Vec<PathBuf>,
    /// The command begins with a launcher that is not in the image
    #[arg(long)]
    launched: bool,
    /// The command, after `--`
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// What is found out.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Found {
    /// The program for which it is.
    pub(crate) file: PathBuf,
    /// Its place among the words of the command.
    pub(crate) begin: usize,
    /// Whether words before it are a launcher's.
    pub(crate) is_launched: bool,
    pub(crate) verdict: Verdict,
    /// What a probe must ask for to be loaded as the program is.
    pub(crate) wanted: Option<Wanted>,
    /// What starts ranks of the substitute.
    pub(crate) launchers: Launchers,
}

#[derive(Debug, thiserror::Error)]
#[error("looking into the image for its MPI gave no answer")]
struct NoAnswer;

#[derive(Debug, thiserror::Error)]
#[error("there is no free place to look into the image: something is mounted at {0}")]
struct NoFreePlace(String);

/// What a command in a root image gets.
pub(crate) struct Given {
    /// Files and directories of the substitute, and where they are seen.
    pub(crate) binds: Vec<Bind>,
    /// Lines about it, for whoever wants to know.
    pub(crate) notes: Vec<String>,
}

/// What is looked into.
#[derive(Clone, Copy)]
pub(crate) struct Looked<'a> {
    pub(crate) asked: Asked<'a>,
    /// The image, and what else is seen there.
    pub(crate) tree: &'a Tree,
    /// Where programs are looked for in it.
    pub(crate) path: &'a OsStr,
    /// Where the loader looks first in it.
    pub(crate) library_path: &'a str,
    pub(crate) command: &'a [OsString],
    /// Whether the command begins with a launcher that is not in the image.
    pub(crate) is_launched: bool,
}

/// Looks into the image; prints what was found.
pub(crate) fn plan(setup: &Setup, args: &PlanArgs) -> CommandResult<ExitCode> {
    let tree = tree_of(&args.root, &args.seen);
    let looked = Looked {
        asked: Asked {
            with: &args.with,
            libraries: &[],
            program: args.program.as_deref(),
        },
        tree: &tree,
        path: &args.path,
        library_path: &args.library_path,
        command: &args.command,
        is_launched: args.launched,
    };
    setup.printer.data(json(&find(setup, looked)?));
    Ok(exit_codes::SUCCESS)
}

/// Returns what is seen in an image that is mounted at a place: targets and sources follow each
/// other.
pub(crate) fn tree_of(root: &Path, seen: &[PathBuf]) -> Tree {
    let mut tree = Tree::below(root);
    for pair in seen.chunks_exact(2) {
        if let [target, source] = pair {
            tree = tree.with(target, source);
        }
    }
    tree
}

/// Finds out how a command in an image gets a substitute.
///
/// # Errors
///
/// That it cannot, with the reason.
fn find(setup: &Setup, looked: Looked<'_>) -> CommandResult<Found> {
    let Judged {
        words,
        substitute,
        verdict,
        ..
    } = judge_inside(setup, looked)?;
    accepted(&verdict)?;
    check_launcher(words.launcher, &verdict, &substitute.launchers)?;
    let wanted = verdict.to.as_ref();
    Ok(Found {
        wanted: wanted.map(|library| Wanted::of(looked.tree, &words.file, library)),
        begin: words.before.len(),
        is_launched: looked.is_launched || words.launcher.is_some(),
        launchers: substitute.launchers,
        file: words.file,
        verdict,
    })
}

/// Judges whether a command in an image can have a substitute.
///
/// # Errors
///
/// There is no such program or substitute.
pub(crate) fn judge_inside(setup: &Setup, looked: Looked<'_>) -> CommandResult<Judged> {
    let words = take_apart(looked)?;
    let side = Side {
        tree: looked.tree,
        path: &words.file,
        library_path: looked.library_path,
    };
    let here = Tree::here();
    let substitute = substitute_for(setup, &here, looked.asked, side)?;
    let places = Places {
        private: Some(PRIVATE.into()),
        links: Path::new(PRIVATE).join("links"),
    };
    let verdict = judge(side, substitute.side(&here), &places);
    Ok(Judged {
        words,
        substitute,
        places,
        verdict,
    })
}

/// Finds the program of a command line: its first word, or the first program behind a launcher.
fn take_apart(looked: Looked<'_>) -> CommandResult<Words> {
    let (tree, command) = (looked.tree, looked.command);
    let find = |word: &OsString| find_in(tree, looked.path, Path::new(word));
    let first = command.first().cloned().unwrap_or_default();
    let mut begin = 0;
    let mut file = PathBuf::new();
    let mut launcher = None;
    if !looked.is_launched {
        file = find(&first).ok_or_else(|| no_program(Path::new(&first)))?;
        launcher = LauncherKind::of(tree, &file).filter(|_| !needs_mpi(tree, &file));
    }
    if looked.is_launched || launcher.is_some() {
        let mut rest = command.iter().enumerate().skip(1);
        let program = rest.find_map(|(place, word)| {
            let path = find(word).filter(|path| is_program(tree, path))?;
            Some((place, path))
        });
        (begin, file) = program.ok_or_else(|| nothing_behind(command))?;
    }
    if let Some(named) = looked.asked.program {
        let found = find_in(tree, looked.path, named);
        file = found.ok_or_else(|| no_program(named))?;
    }
    let (before, program) = command.split_at(begin);
    Ok(Words {
        launcher,
        before: before.to_vec(),
        program: program.to_vec(),
        file,
    })
}

/// Finds a program as a command in the image finds it.
pub(crate) fn find_in(tree: &Tree, path: &OsStr, name: &Path) -> Option<PathBuf> {
    if name.as_os_str().as_bytes().contains(&b'/') {
        let whole = std::path::absolute(name).ok()?;
        return tree.is_file(&whole).then_some(whole);
    }
    std::env::split_paths(path)
        .map(|directory| directory.join(name))
        .find(|whole| tree.is_file(whole))
}

/// A command in a root image that is to get a substitute.
pub(crate) struct Question<'a> {
    pub(crate) asked: Asked<'a>,
    pub(crate) image: &'a ConcreteImage,
    pub(crate) sight: &'a Sight,
    pub(crate) command: &'a [OsString],
    /// Whether the command begins with a launcher of this machine.
    pub(crate) is_launched: bool,
}

/// Looks into the image for a plan.
///
/// # Errors
///
/// That it is refused, with the exit code of whoever looked and has said why.
pub(crate) fn look(
    setup: &Setup,
    question: &Question<'_>,
) -> CommandResult<Result<Found, ExitCode>> {
    let own = setup.own_program()?;
    let of_image = substitute_image(setup, question.asked.with);
    let prefix = of_image.as_ref().map(|image| image.prefix.as_path());
    let place = free_place(prefix)?;
    let mut words = own.clone();
    if of_image.is_some() {
        words.extend(["run", "--no-default-view", question.asked.with, "--"].map(OsString::from));
        words.extend(own.iter().cloned());
    }
    let mut description = question.image.path.clone().into_os_string();
    description.push(":");
    description.push(&place);
    words.extend(["run".into(), description, "--".into()]);
    words.extend(own);
    words.extend(["mpi-plan".into(), "--root".into(), place.into()]);
    let with = prefix.map_or(question.asked.with.as_ref(), Path::as_os_str);
    words.extend(["--with".into(), with.into()]);
    words.extend(["--path".into(), question.sight.path.clone()]);
    // One word: a value may begin with a dash.
    words.push(format!("--library-path={}", question.sight.library_path).into());
    if let Some(program) = question.asked.program {
        words.extend(["--program".into(), program.into()]);
    }
    for (target, source) in &question.sight.seen {
        words.extend(["--seen".into(), target.into(), source.into()]);
    }
    if question.is_launched {
        words.push("--launched".into());
    }
    words.push("--".into());
    words.extend(question.command.iter().cloned());
    let mut looking = Command::new(&words[0]);
    looking
        .args(&words[1..])
        .env_clear()
        .envs(&setup.calling)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let output = looking
        .output()
        .or_failed(|| "look into the image".to_owned())?;
    if !output.status.success() {
        let code = output.status.code();
        let known = exit_codes::ALL
            .iter()
            .find(|known| code == Some(known.code.into()));
        return Ok(Err(known.copied().unwrap_or(exit_codes::FAILURE)));
    }
    let found =
        serde_json::from_slice(&output.stdout).map_err(|_| Report::new(Kind::Failure, NoAnswer))?;
    Ok(Ok(found))
}

/// Finds a place at which an image can be looked into: nothing is mounted there, nor will the
/// prefix of the substitute be. What is covered would not be found, or taken for something else.
fn free_place(prefix: Option<&Path>) -> CommandResult<PathBuf> {
    let allowed = Policy::read().map_or_else(|_| Vec::new(), |policy| policy.mount_points);
    let places = if allowed.is_empty() {
        USUAL_PLACES.map(PathBuf::from).to_vec()
    } else {
        allowed
    };
    let is_taken =
        |place: &Path| prefix.is_some_and(|prefix| prefix.starts_with(place)) || is_mounted(place);
    first_free(&places, is_taken).cloned().ok_or_else(|| {
        let places: Vec<String> = places.iter().map(|one| one.display().to_string()).collect();
        Report::new(Kind::NotStarted, NoFreePlace(places.join(", ")))
            .hinted("`mount-point PATH` in the policy of the helper allows another one".to_owned())
    })
}

/// The first place that is not taken, and not below one that is.
fn first_free(places: &[PathBuf], is_taken: impl Fn(&Path) -> bool) -> Option<&PathBuf> {
    let taken: Vec<&PathBuf> = places.iter().filter(|place| is_taken(place)).collect();
    let is_below = |place: &Path| taken.iter().any(|taken| place.starts_with(taken));
    places.iter().find(|place| !is_below(place))
}

/// Whether a file system begins at a directory.
fn is_mounted(place: &Path) -> bool {
    let device = |path: &Path| path.metadata().ok().map(|found| found.dev());
    let above = place.parent().unwrap_or(place);
    device(place).is_some_and(|own| device(above) != Some(own))
}

/// Returns where a file of a substitute is seen in a root image.
pub(crate) fn seen_at(path: &Path) -> PathBuf {
    Path::new(PRIVATE).join(path.strip_prefix("/").unwrap_or(path))
}

/// Finds out how a command gets a substitute, and adds the variables for it.
///
/// # Errors
///
/// As [`look`].
pub(crate) fn give(
    setup: &Setup,
    question: &Question<'_>,
    additions: &mut Additions,
) -> CommandResult<Result<Given, ExitCode>> {
    let found = match look(setup, question)? {
        Ok(found) => found,
        Err(code) => return Ok(Err(code)),
    };
    let plan = accepted(&found.verdict)?;
    for (name, value) in plan.environment(|_| None) {
        let setting = if is_list(&name) {
            VariableSetting {
                prepend: vec![value],
                ..VariableSetting::default()
            }
        } else {
            VariableSetting::to(&value)
        };
        additions.variables.0.insert(name, setting);
    }
    let title = |library: &cabane_mpi::Library| library.title();
    let (from, to) = (&found.verdict.from, &found.verdict.to);
    let mut notes = vec![format!(
        "{} gets {} in place of {}",
        found.file.display(),
        to.as_ref().map(title).unwrap_or_default(),
        from.as_ref().map_or("nothing".to_owned(), title)
    )];
    notes.extend(found.verdict.warnings.iter().map(ToString::to_string));
    Ok(Ok(Given {
        binds: binds_of(plan),
        notes,
    }))
}

/// Tells whether what a plan has for a variable comes before what stands there.
pub(crate) fn is_list(name: &str) -> bool {
    matches!(name, "LD_PRELOAD" | "LD_LIBRARY_PATH")
}

/// Returns what is seen of a substitute. What lies in a directory that is seen as a whole comes
/// with it.
pub(crate) fn binds_of(plan: &Plan) -> Vec<Bind> {
    let mut pairs: Vec<(&Path, &Path)> = plan
        .carried
        .iter()
        .map(|one| (one.target.as_path(), one.source.as_path()))
        .collect();
    let links: Vec<(&Path, &Path)> = plan
        .links
        .iter()
        .filter_map(|(link, target)| {
            let carried = plan.carried.iter().find(|one| one.target == *target)?;
            Some((link.as_path(), carried.source.as_path()))
        })
        .collect();
    pairs.extend(links);
    pairs.sort();
    pairs.dedup();
    let mut seen: Vec<(&Path, &Path)> = Vec::with_capacity(pairs.len());
    for (target, source) in pairs {
        let is_inside = seen.iter().any(|(outer, _)| target.starts_with(outer));
        if !is_inside {
            seen.push((target, source));
        }
    }
    let bind = |(target, source): (&Path, &Path)| {
        Some(Bind {
            source: source.to_owned(),
            target: target.to_str()?.parse().ok()?,
            read_only: false,
        })
    };
    seen.into_iter().filter_map(bind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_looked_into_where_it_covers_nothing() {
        let places = ["/a", "/a/inner", "/b"].map(PathBuf::from);
        let free = |taken: &[&str]| {
            let is_taken = |place: &Path| taken.iter().any(|taken| place == Path::new(taken));
            first_free(&places, is_taken).map(|place| place.display().to_string())
        };
        assert_eq!(free(&[]).as_deref(), Some("/a"));
        assert_eq!(free(&["/a"]).as_deref(), Some("/b"));
        assert_eq!(free(&["/a", "/b"]), None);
    }

    #[test]
    fn a_file_system_is_seen_where_it_begins() {
        assert_eq!(
            ["/proc", "/proc/self"].map(|one| is_mounted(Path::new(one))),
            [true, false]
        );
    }
}
