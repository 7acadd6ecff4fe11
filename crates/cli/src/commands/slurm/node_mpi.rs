// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! On a node, as the owner of a job: how the program of a step gets another MPI.
//!
//! Asked once for a step, before there are tasks, with the images mounted: one that will be the
//! root at a place of its own. The judgement is that of `cabane run --mpi`; beside it, only
//! here it is known in which way Slurm lets the ranks find each other.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cabane_mount::JobBind;
use cabane_mpi::{Library, Protocol, Refusal, Verdict};
use clap::Args;

use crate::commands::mpi::root::{Looked, binds_of, is_list, judge_inside, tree_of};
use crate::commands::mpi::substitute::Asked;
use crate::commands::mpi::swap::{Judged, accepted, check_launcher, judge_here, make_links};
use crate::report::{CommandResult, Kind, Report};
use crate::setup::Setup;
use cabane_site::env_vars;

/// What a step is, and which MPI it is to get.
#[derive(Debug, Args)]
pub(crate) struct NodeMpiArgs {
    /// The MPI that the program of the step gets
    #[arg(long = "mpi", value_name = "MPI")]
    pub(crate) with: Option<String>,
    /// Where a prefix or library has what it needs
    #[arg(long = "mpi-library", value_name = "DIRECTORY")]
    libraries: Vec<PathBuf>,
    /// The file that needs MPI, if the program does not itself
    #[arg(long = "mpi-program", value_name = "FILE")]
    program: Option<PathBuf>,
    /// Where the step was started
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Where the image is mounted that will be the root
    #[arg(long)]
    root: Option<PathBuf>,
    /// What else is seen in it, and where that is
    #[arg(long = "seen", num_args = 2, value_names = ["TARGET", "SOURCE"])]
    seen: Vec<PathBuf>,
    /// Where other images are mounted, also in it
    #[arg(long = "stack", value_name = "DIRECTORY")]
    stacks: Vec<PathBuf>,
    /// Where the loader looks first
    #[arg(long, value_name = "DIRECTORIES", default_value = "")]
    library_path: String,
    /// In which way Slurm lets ranks find each other
    #[arg(long, value_name = "KIND")]
    pmi: Option<String>,
    /// How many tasks the step has
    #[arg(long, default_value_t = 1)]
    tasks: u32,
    /// The program of the step and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Debug, thiserror::Error)]
enum NotInStep {
    #[error("one step with several programs gets no other MPI: each may need something else")]
    Several,
    #[error(
        "ranks with {library} do not find each other under `srun --mpi={kind}`: each of {tasks} \
         would be alone"
    )]
    Alone {
        library: String,
        kind: String,
        tasks: u32,
    },
    #[error(
        "{} lies in another image, and nothing of that can be shown as an MPI in a container",
        path.display()
    )]
    InStack { path: PathBuf },
}

/// Works out what the step gets, as texts of the answer.
///
/// # Errors
///
/// That it cannot have that MPI, with the reason.
pub(crate) fn texts(setup: &Setup, with: &str, args: &NodeMpiArgs) -> CommandResult<Vec<String>> {
    let asked = Asked {
        with,
        libraries: &args.libraries,
        program: args.program.as_deref(),
    };
    work_out(setup, asked, args).map_err(|error| {
        if is_list_of_programs(&args.command) {
            several(with)
        } else {
            error
                .with_hints_about("--mpi-program", "--uenv-mpi-program")
                .with_hints_about("--with", "--uenv-mpi")
        }
    })
}

fn work_out(setup: &Setup, asked: Asked<'_>, args: &NodeMpiArgs) -> CommandResult<Vec<String>> {
    let command = whole(args);
    let judged = match &args.root {
        Some(root) => inside(setup, asked, (root, &command), args)?,
        None => judge_here(setup, asked, &command, &args.library_path)?,
    };
    let verdict = &judged.verdict;
    let plan = accepted(verdict).map_err(|error| error.hinted(hint(verdict)))?;
    check_launcher(judged.words.launcher, verdict, &judged.substitute.launchers)?;
    check_ranks(args, verdict)?;
    for warning in &verdict.warnings {
        let text = warning.to_string();
        setup.printer.warning(&cabane_label::escape(&text));
    }
    if args.root.is_none() {
        make_links(plan, &judged.places)?;
    }
    let places = binds_of(plan).into_iter().map(|bind| JobBind {
        source: bind.source,
        target: bind.target.as_path().to_owned(),
        read_only: bind.read_only,
        must_be: true,
    });
    let variables = plan.environment(|_| None).into_iter();
    let text = |(name, value): (String, String)| {
        let kind = if is_list(&name) { "before" } else { "set" };
        format!("{kind}:{name}={value}")
    };
    let places = places.map(|place| place.to_string());
    Ok(places.chain(variables.map(text)).collect())
}

/// Returns the command with the whole path of a program that is named from where the step was
/// started.
fn whole(args: &NodeMpiArgs) -> Vec<OsString> {
    let mut command = args.command.clone();
    if let (Some(first), Some(directory)) = (command.first_mut(), &args.directory)
        && first.as_bytes().contains(&b'/')
    {
        *first = directory.join(&*first).into();
    }
    command
}

/// Looks into the image that will be the root.
fn inside(
    setup: &Setup,
    asked: Asked<'_>,
    (root, command): (&Path, &[OsString]),
    args: &NodeMpiArgs,
) -> CommandResult<Judged> {
    let path = Path::new(asked.with);
    if args.stacks.iter().any(|stack| path.starts_with(stack)) {
        let path = path.to_owned();
        return Err(Report::new(Kind::NotSwapped, NotInStep::InStack { path })
            .hinted("name a prefix of the nodes, or `host`".to_owned()));
    }
    // What is not on this node is not seen.
    let is_there = |pair: &&[PathBuf]| pair.last().is_some_and(|source| source.exists());
    let mut seen: Vec<PathBuf> = args
        .seen
        .chunks_exact(2)
        .filter(is_there)
        .flatten()
        .cloned()
        .collect();
    for stack in &args.stacks {
        seen.extend([stack.clone(), stack.clone()]);
    }
    let path = setup.calling.get(OsStr::new(env_vars::PATH));
    let looked = Looked {
        asked,
        tree: &tree_of(root, &seen),
        path: path.map_or(OsStr::new(""), OsString::as_os_str),
        library_path: &args.library_path,
        command,
        is_launched: false,
    };
    judge_inside(setup, looked)
}

/// What helps in a job, beside what helps anywhere.
fn hint(verdict: &Verdict) -> Option<String> {
    let has_none = |refusal: &Refusal| {
        matches!(
            refusal,
            Refusal::NoMpi { .. } | Refusal::NoProgram { .. } | Refusal::Static { .. }
        )
    };
    verdict.refusal().filter(|refusal| has_none(refusal))?;
    Some("`srun --uenv-mpi=none` starts a step with what its program has".to_owned())
}

/// Tells whether Slurm was given a file with programs: it hands on the text of that as the first
/// argument, lines with the numbers of tasks before a program.
fn is_list_of_programs(command: &[OsString]) -> bool {
    let Some(text) = command.get(1).and_then(|text| text.to_str()) else {
        return false;
    };
    let mut lines = text.lines().map(str::trim);
    let is_of_tasks = |line: &str| {
        let (tasks, program) = line.split_once(char::is_whitespace).unwrap_or_default();
        let is_number = |c: char| c.is_ascii_digit() || ",-*".contains(c);
        !program.is_empty() && !tasks.is_empty() && tasks.chars().all(is_number)
    };
    let mut meant = lines
        .by_ref()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    meant.next().is_some_and(is_of_tasks) && meant.all(is_of_tasks)
}

fn several(with: &str) -> Report {
    Report::new(Kind::NotSwapped, NotInStep::Several).hinted(format!(
        "leave `--uenv` and `--uenv-mpi` out, and write `cabane run --mpi={with} IMAGES -- PROGRAM` \
         into the lines of the file: each rank judges for itself then"
    ))
}

/// Whether the ranks find each other in the way that Slurm offers them.
fn check_ranks(args: &NodeMpiArgs, verdict: &Verdict) -> CommandResult<()> {
    let (Some(library), Some(kind)) = (&verdict.to, &args.pmi) else {
        return Ok(());
    };
    if args.tasks < 2 || speaks(library, kind) != Some(false) {
        return Ok(());
    }
    let error = NotInStep::Alone {
        library: library.title(),
        kind: kind.clone(),
        tasks: args.tasks,
    };
    let is_new = library.protocols.contains(&Protocol::Pmix);
    let other = if is_new { "pmix" } else { "pmi2" };
    Err(Report::new(Kind::NotProven, error)
        .hinted(format!("`srun --mpi={other}` is what it knows")))
}

/// Whether a library knows what Slurm calls by this name; `None` if that is not known.
fn speaks(library: &Library, kind: &str) -> Option<bool> {
    let has = |protocol| library.protocols.contains(&protocol);
    match kind {
        _ if library.protocols.is_empty() => None,
        // It may have parts for other ways, which are looked for while it runs.
        "none" | "pmi2" if is_old_open_mpi(library) => None,
        "none" => Some(false),
        "pmi2" => Some(has(Protocol::Pmi1) || has(Protocol::Pmi2)),
        kind if kind.starts_with("pmix") => Some(has(Protocol::Pmix)),
        _ => None,
    }
}

/// Since version 5, Open MPI knows one way.
fn is_old_open_mpi(library: &Library) -> bool {
    let version = library.version.as_deref().unwrap_or_default();
    let first = version.trim_start_matches('v').split('.').next();
    let number = first.and_then(|number| number.parse::<u32>().ok());
    library.product == "Open MPI" && number.is_none_or(|number| number < 5)
}

#[cfg(test)]
mod tests {
    use super::is_list_of_programs;

    #[test]
    fn a_file_with_programs_is_told_from_an_argument() {
        let lists = ["0 ./a\n1-3 ./b x\n", "# all\n\n* /bin/true\n"];
        let others = ["", "0", "0 ", "input.dat", "0 ./a\nb c", "# 0 a"];
        let is_list = |text: &str| is_list_of_programs(&["conf".into(), text.into()]);
        assert_eq!(lists.map(is_list), [true; 2]);
        assert_eq!(others.map(is_list), [false; 6]);
    }
}
