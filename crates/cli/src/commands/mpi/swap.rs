// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane mpi swap`: a command with another MPI in the place of its own.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use cabane_mpi::{
    FileKind, Inspected, LauncherKind, Library, Loader, Places, Plan, Side, Tree, Verdict, inspect,
    judge,
};
use cabane_run::become_command;
use clap::Args;
use serde_json::json as value;

use crate::commands::mpi::inspect::find_program;
use crate::commands::mpi::probe::{Proof, Wanted, With, own_launcher};
use crate::commands::mpi::substitute::{
    Asked, Launchers, Substitute, SubstituteImage, substitute_for, substitute_image,
};
use crate::commands::mpi::swap_root;
use crate::commands::mpi::text;
use crate::commands::run::{enter, not_started};
use crate::exit_codes::{self, ExitCode};
use crate::format::json;
use crate::report::{CommandResult, IoContext, Kind, Report};
use crate::setup::Setup;

/// Run a command with a different MPI
#[derive(Debug, Args)]
#[command(after_help = "\
If the command begins with a launcher, only its ranks use the other MPI. A combination that
cannot work is refused with exit code 14: another MPI family, missing functions, an older C
library, missing Fortran support, or a launcher that cannot start the ranks. With
`--probe`, a small program runs first in the same way. If its ranks load another library, do
not find each other, or lose a message, the exit code is 15 and the command does not run.

Examples:
  cabane mpi swap --with /opt/mpich -- mpiexec -n 4 ./solver
  cabane mpi swap --with host --probe -- srun --mpi=pmi2 ./solver
  cabane mpi swap --with host --mpi-program MPI.so -- mpiexec -n 4 python3 solver.py
  cabane mpi swap --with host --in solver/1.0 --probe -- srun --mpi=pmi2 -n 8 solver
  cabane mpi swap --with /opt/mpich --measure -- mpiexec -n 2 ./solver
  cabane mpi swap --with /opt/mpich --dry-run -- ./solver")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub(crate) struct SwapArgs {
    /// The MPI to use: a prefix or a library, a name from the configuration, an image with an MPI, or `host` for the first one of this machine that fits
    #[arg(long, value_name = "MPI", default_value = "host")]
    pub(crate) with: String,
    /// The file that needs MPI, if the command does not: for example a Python extension
    #[arg(long = "mpi-program", visible_alias = "program", value_name = "PATH")]
    pub(crate) program: Option<PathBuf>,
    /// Run the program in this container image: a launcher starts `cabane run` for each rank
    #[arg(long = "in", value_name = "IMAGE")]
    image: Option<String>,
    /// Test the MPI before the command runs
    #[arg(long)]
    pub(crate) probe: bool,
    /// Test the MPI, and measure latency and bandwidth with it and with the program's own
    #[arg(long)]
    pub(crate) measure: bool,
    /// Show what would be done, and stop
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the verdict as JSON
    #[arg(long, requires = "dry_run")]
    pub(crate) json: bool,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// A substitution that was not made.
#[derive(Debug, thiserror::Error)]
enum SwapError {
    #[error("ranks with {library} do not find each other under {launcher}: each would be alone")]
    WrongLauncher {
        library: String,
        launcher: &'static str,
    },
    #[error(
        "`{}` has no program to start: none of its words is one: {}",
        cabane_label::escape(launcher),
        cabane_label::escape(words)
    )]
    NothingBehind { launcher: String, words: String },
    #[error("there is no program `{}` here", cabane_label::escape(.0))]
    NoProgram(String),
    #[error("there is no place for links: HOME is not set")]
    NoPlace,
}

/// A command line, taken apart.
pub(crate) struct Words {
    /// The launcher, if it begins with one.
    pub(crate) launcher: Option<LauncherKind>,
    /// Its words up to the program that is started for each rank.
    pub(crate) before: Vec<OsString>,
    /// That program and its words.
    pub(crate) program: Vec<OsString>,
    /// The file that needs MPI.
    pub(crate) file: PathBuf,
}

pub(crate) fn swap(setup: &Setup, args: &SwapArgs) -> CommandResult<ExitCode> {
    if let Some(image) = &args.image {
        return swap_root::swap(setup, args, image);
    }
    if let Some(image) = substitute_image(setup, &args.with) {
        return swap_inside(setup, args, &image);
    }
    let asked = Asked {
        with: &args.with,
        libraries: &[],
        program: args.program.as_deref(),
    };
    let search = variable(setup, "LD_LIBRARY_PATH");
    let Judged {
        words,
        substitute,
        places,
        verdict,
    } = judge_here(setup, asked, &args.command, &search)?;
    if args.json {
        setup.printer.data(json(&value!(verdict)));
    }
    let plan = accepted(&verdict)?;
    check_launcher(words.launcher, &verdict, &substitute.launchers)?;
    for warning in &verdict.warnings {
        setup
            .printer
            .warning(&cabane_label::escape(&warning.to_string()));
    }
    let variables = plan.environment(|name| Some(variable(setup, name)));
    if args.dry_run {
        if !args.json {
            setup
                .printer
                .data(text::plan(&verdict, plan, &variables, &words));
        }
        return Ok(exit_codes::SUCCESS);
    }
    make_links(plan, &places)?;
    if args.probe || args.measure {
        prove(
            setup,
            args.measure,
            (&words, &variables),
            &verdict,
            &substitute,
        )?;
    }
    Err(not_started(become_command(with_variables(
        &words.before,
        &variables,
        &words.program,
    ))))
}

/// What was found out about a command of this machine.
pub(crate) struct Judged {
    pub(crate) words: Words,
    pub(crate) substitute: Substitute,
    /// Where links for it belong.
    pub(crate) places: Places,
    pub(crate) verdict: Verdict,
}

/// Judges whether a command of this machine can have a substitute, where `search` is the search
/// path of the loader.
///
/// # Errors
///
/// There is no such program or substitute.
pub(crate) fn judge_here(
    setup: &Setup,
    asked: Asked<'_>,
    command: &[OsString],
    search: &str,
) -> CommandResult<Judged> {
    let tree = Tree::here();
    let words = take_apart(setup, &tree, (asked.program, command))?;
    let side = Side {
        tree: &tree,
        path: &words.file,
        library_path: search,
    };
    let substitute = substitute_for(setup, &tree, asked, side)?;
    let places = Places {
        private: None,
        links: links_for(setup, &words.file, &substitute),
    };
    let verdict = judge(side, substitute.side(&tree), &places);
    Ok(Judged {
        words,
        substitute,
        places,
        verdict,
    })
}

/// Runs the probe in the place of the program.
fn prove(
    setup: &Setup,
    measures: bool,
    (words, variables): (&Words, &[(String, String)]),
    verdict: &Verdict,
    substitute: &Substitute,
) -> CommandResult<()> {
    let Some(to) = &verdict.to else {
        return Ok(());
    };
    let own = if words.launcher.is_none() {
        own_launcher(to, &substitute.launchers)?
    } else {
        words.before.clone()
    };
    let is_known = |from: &&Library| {
        let mut kinds = words.launcher.into_iter();
        from.file != to.file && kinds.all(|kind| from.fits(kind) != Some(false))
    };
    let wanted = Wanted::of(&Tree::here(), &words.file, to);
    let proof = Proof {
        wanted: &wanted,
        to: (to, &to.file),
        from: verdict.from.as_ref().filter(is_known),
        ranks: words.launcher.is_none().then_some(2),
        image: None,
        measures,
    };
    proof.run(setup, |with, probe| {
        let variables = match with {
            With::Own => &[],
            With::Substitute => variables,
        };
        with_variables(&own, variables, &[probe.join("probe").into_os_string()])
    })
}

/// Starts itself where the image of the substitute is mounted, for all that the command
/// starts.
fn swap_inside(setup: &Setup, args: &SwapArgs, image: &SubstituteImage) -> CommandResult<ExitCode> {
    let mut command = setup.own_program()?;
    command.extend(["mpi", "swap", "--with"].map(OsString::from));
    command.push(image.prefix.clone().into_os_string());
    if let Some(program) = &args.program {
        command.extend(["--program".into(), program.clone().into_os_string()]);
    }
    let options = [
        ("--probe", args.probe),
        ("--measure", args.measure),
        ("--dry-run", args.dry_run),
        ("--json", args.json),
    ];
    let given = options.iter().filter(|(_, is_given)| *is_given);
    command.extend(given.map(|(option, _)| OsString::from(option)));
    command.push("--".into());
    command.extend(args.command.iter().cloned());
    enter(setup, &image.images, command)
}

/// Puts variables in front of a program, and both behind a launcher.
fn with_variables(
    before: &[OsString],
    variables: &[(String, String)],
    program: &[OsString],
) -> Vec<OsString> {
    let mut words = before.to_vec();
    if !variables.is_empty() {
        words.push("env".into());
        let each = variables
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        words.extend(each.map(OsString::from));
    }
    words.extend(program.iter().cloned());
    words
}

fn variable(setup: &Setup, name: &str) -> String {
    let value = setup.calling.get(OsStr::new(name));
    value
        .map(|value| value.to_string_lossy().into_owned())
        .unwrap_or_default()
}

pub(crate) fn no_program(path: &Path) -> Report {
    let name = path.to_string_lossy().into_owned();
    Report::new(Kind::CommandNotFound, SwapError::NoProgram(name))
}

/// Says that a launcher has nothing to start.
pub(crate) fn nothing_behind(command: &[OsString]) -> Report {
    let mut words = command.iter().map(|word| word.to_string_lossy());
    let nothing = SwapError::NothingBehind {
        launcher: words.next().unwrap_or_default().into_owned(),
        words: words.collect::<Vec<_>>().join(" "),
    };
    Report::new(Kind::CommandNotFound, nothing)
        .hinted("write the path of the program, if it is not in `PATH`".to_owned())
}

/// Finds the launcher, and the program behind its options: the first word that is one.
fn take_apart(
    setup: &Setup,
    tree: &Tree,
    (named, command): (Option<&Path>, &[OsString]),
) -> CommandResult<Words> {
    let first = command.first().map_or(Path::new(""), Path::new);
    let found = find_program(setup, first)
        .filter(|path| tree.is_file(path))
        .ok_or_else(|| no_program(first))?;
    let launcher = LauncherKind::of(tree, &found).filter(|_| !needs_mpi(tree, &found));
    let mut begin = 0;
    let mut file = found;
    if launcher.is_some() {
        let mut rest = command.iter().enumerate().skip(1);
        let program = rest.find_map(|(place, word)| {
            let path = find_program(setup, Path::new(word)).filter(|path| tree.is_file(path))?;
            is_program(tree, &path).then_some((place, path))
        });
        let (place, path) = program.ok_or_else(|| nothing_behind(command))?;
        (begin, file) = (place, path);
    }
    if let Some(named) = named {
        file = find_program(setup, named)
            .filter(|path| tree.is_file(path))
            .ok_or_else(|| no_program(named))?;
    }
    let (before, program) = command.split_at(begin);
    Ok(Words {
        launcher,
        before: before.to_vec(),
        program: program.to_vec(),
        file,
    })
}

fn look(tree: &Tree, path: &Path) -> Option<Inspected> {
    inspect(tree, &Loader::new(tree), path)
}

pub(crate) fn needs_mpi(tree: &Tree, path: &Path) -> bool {
    matches!(look(tree, path), Some(Inspected::File(file)) if !file.functions.is_empty())
}

pub(crate) fn is_program(tree: &Tree, path: &Path) -> bool {
    let is_script = || {
        let text = tree.open(path).and_then(|mut file| {
            let mut start = [0; 2];
            std::io::Read::read_exact(&mut file, &mut start).ok()?;
            Some(start)
        });
        text == Some(*b"#!")
    };
    match look(tree, path) {
        Some(Inspected::File(file)) => file.kind != FileKind::Library,
        _ => is_script(),
    }
}

/// Links last: the same ones for the same library, so that every node sees them where homes
/// are shared, and nothing is left to be removed.
fn links_for(setup: &Setup, program: &Path, substitute: &Substitute) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    (program, &substitute.path).hash(&mut hasher);
    let caches = setup
        .settings
        .cache_directory
        .value
        .clone()
        .unwrap_or_default();
    caches.join("mpi").join(format!("{:016x}", hasher.finish()))
}

pub(crate) fn make_links(plan: &Plan, places: &Places) -> CommandResult<()> {
    if plan.links.is_empty() {
        return Ok(());
    }
    if !places.links.is_absolute() {
        return Err(Report::new(Kind::Failure, SwapError::NoPlace).hinted(
            "name a place with `cache` in the section [build] of the configuration".to_owned(),
        ));
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

/// Returns the plan, or the refusal as an error.
pub(crate) fn accepted(verdict: &Verdict) -> CommandResult<&Plan> {
    match (verdict.plan(), verdict.refusal()) {
        (Some(plan), _) => Ok(plan),
        (None, refusal) => {
            let hint = refusal.and_then(cabane_mpi::Refusal::hint);
            let text = refusal.map(ToString::to_string).unwrap_or_default();
            let text = cabane_label::escape(&text).into_owned();
            Err(Report::new(Kind::NotSwapped, text).hinted(hint))
        }
    }
}

pub(crate) fn check_launcher(
    launcher: Option<LauncherKind>,
    verdict: &Verdict,
    launchers: &Launchers,
) -> CommandResult<()> {
    let Some(kind) = launcher else {
        return Ok(());
    };
    match &verdict.to {
        Some(library) if library.fits(kind) == Some(false) => {
            let error = SwapError::WrongLauncher {
                library: library.title(),
                launcher: kind.name(),
            };
            let hint = launcher_hint(library, launchers);
            Err(Report::new(Kind::NotSwapped, error).hinted(hint))
        }
        _ => Ok(()),
    }
}

fn launcher_hint(library: &Library, launchers: &Launchers) -> Option<String> {
    if !launchers.named.is_empty() {
        let words = launchers.named.join(" ");
        return Some(format!("its own launcher is `{words}`"));
    }
    let directory = library.path.parent()?.parent()?;
    let beside = directory.join("bin/mpiexec");
    let text = format!("its own launcher is {}", beside.display());
    beside.exists().then_some(text)
}
