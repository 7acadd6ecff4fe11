// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! On a node, as the owner of a job: how the program of a step gets another MPI.
//!
//! The Slurm plugin asks once for a step, before there are tasks and with the images mounted: one
//! that will be the root at a directory of its own. The judgment is that of `cabane run --mpi`. Only
//! here it is known how Slurm lets ranks find each other.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cabane_label::escape;
use cabane_mount::JobBind;
use cabane_mpi::{Inspected, Library, Loader, Protocol, Refusal, Tree, Verdict, inspect};
use cabane_report::{Kind, Report, Result};
use cabane_site::Context;

use crate::container::{binds_of, is_list};
use crate::judgment::{Judgment, SwapCommand, judge_command};
use crate::substitute::{refined, search};
use crate::{
    CommandLine, SubstituteRequest, accepted, check_launcher, judge_here, make_links, warn,
};

/// A step of a job, as its program will see it.
#[derive(Clone, Copy, Debug)]
pub struct StepRequest<'a> {
    /// The directory in which the step was started.
    pub directory: Option<&'a Path>,
    /// Where the image is mounted that will be the root, if one will.
    pub root: Option<&'a Path>,
    /// Directories of this machine in it: targets and sources follow each other.
    pub seen: &'a [PathBuf],
    /// Where other images are mounted, also in it.
    pub stacks: &'a [PathBuf],
    /// The value of `LD_LIBRARY_PATH`.
    pub library_path: &'a str,
    /// The kind of PMI that Slurm offers, as `srun --mpi` names it.
    pub pmi: Option<&'a str>,
    /// The number of tasks of the step.
    pub tasks: u32,
    /// The program and its arguments.
    pub command: &'a [OsString],
}

/// Returns what the step gets, as lines for the Slurm plugin.
///
/// # Errors
///
/// It cannot have that MPI.
pub fn step_mpi(
    context: &Context,
    substitute: SubstituteRequest<'_>,
    request: &StepRequest<'_>,
) -> Result<Vec<String>> {
    judge(context, substitute, request).map_err(|error| {
        if is_list_of_programs(request.command) {
            several(substitute.with)
        } else {
            error
                .with_hints_about("--mpi-program", "--uenv-mpi-program")
                .with_hints_about("--with", "--uenv-mpi")
        }
    })
}

fn judge(
    context: &Context,
    substitute: SubstituteRequest<'_>,
    request: &StepRequest<'_>,
) -> Result<Vec<String>> {
    let command = whole(request);
    let judged = match request.root {
        Some(root) => judge_in_root(context, substitute, request, root, &command)?,
        None => judge_here(context, substitute, &command, request.library_path)?,
    };
    let verdict = &judged.verdict;
    let plan = accepted(verdict).map_err(|error| error.hinted(hint(verdict)))?;
    check_launcher(judged.line.launcher, verdict, &judged.substitute.launchers)?;
    check_ranks(request, verdict)?;
    warn(context, verdict);
    if request.root.is_none() {
        make_links(plan, &judged.places)?;
    }
    let places = binds_of(plan).into_iter().map(|bind| {
        JobBind::required(bind.source, bind.target.as_path().to_owned(), bind.read_only)
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
fn whole(request: &StepRequest<'_>) -> Vec<OsString> {
    let mut command = request.command.to_vec();
    if let (Some(first), Some(directory)) = (command.first_mut(), request.directory)
        && first.as_bytes().contains(&b'/')
    {
        *first = directory.join(&*first).into();
    }
    command
}

/// Judges for the image that will be the root.
fn judge_in_root(
    context: &Context,
    substitute: SubstituteRequest<'_>,
    request: &StepRequest<'_>,
    root: &Path,
    command: &[OsString],
) -> Result<Judgment> {
    let path = Path::new(substitute.with);
    if request.stacks.iter().any(|stack| path.starts_with(stack)) {
        return Err(Report::new(
            Kind::NotSwapped,
            format!(
                "{} is in another image, and nothing of that can be shown as an MPI in a container",
                path.display()
            ),
        )
        .hinted("name a prefix of the nodes, or `host`".to_owned()));
    }
    let tree = tree_in_root(request, root);
    let command = SwapCommand {
        search: search(context, &tree),
        library_path: request.library_path,
        command,
        is_launched: false,
        is_contained: true,
    };
    judge_command(context, substitute, command, &Tree::here())
        .map_err(|error| refined(context, error))
}

/// Returns the files as they are seen in the image that will be the root.
fn tree_in_root(request: &StepRequest<'_>, root: &Path) -> Tree {
    let mut tree = Tree::below(root);
    for pair in request.seen.chunks_exact(2) {
        if let [target, source] = pair
            && source.exists()
        {
            tree = tree.with(target, source);
        }
    }
    for stack in request.stacks {
        tree = tree.with(stack, stack);
    }
    tree
}

/// What helps in a job, beside what helps anywhere.
fn hint(verdict: &Verdict) -> Option<String> {
    use Refusal::{Inside, NoMpi, NoProgram, Static};
    let has_none = matches!(
        verdict.refusal(),
        Some(NoMpi { .. } | NoProgram { .. } | Static { .. } | Inside { .. })
    );
    has_none.then(|| "`srun --uenv-mpi=none` starts a step with what its program has".to_owned())
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
    let mut meant = lines.by_ref().filter(|line| !line.is_empty() && !line.starts_with('#'));
    meant.next().is_some_and(is_of_tasks) && meant.all(is_of_tasks)
}

fn several(with: &str) -> Report {
    Report::new(Kind::NotSwapped, "one step with several programs gets no other MPI: each may need something else").hinted(format!(
        "leave `--uenv` and `--uenv-mpi` out, and write `cabane run --mpi={with} IMAGES -- PROGRAM` \
         into the lines of the file: each rank judges for itself then"
    ))
}

/// Whether the ranks find each other in the way that Slurm offers them.
fn check_ranks(request: &StepRequest<'_>, verdict: &Verdict) -> Result<()> {
    let lone = verdict.to.as_ref().and_then(|library| lone_ranks(request, library));
    lone.map_or(Ok(()), |(error, hint)| Err(Report::new(Kind::NotProven, error).hinted(hint)))
}

/// Warns that the ranks of a step would not find each other, with the MPI that its program has.
///
/// Nothing is warned of where that is not certain: a program without MPI, a script, or a launcher,
/// which starts ranks in its own way.
pub fn warn_of_lone_ranks(context: &Context, request: &StepRequest<'_>) {
    let tree = request.root.map_or_else(Tree::here, |root| tree_in_root(request, root));
    let search = search(context, &tree);
    let Ok(line) = CommandLine::parse(search, &whole(request), None, false) else {
        return;
    };
    let loader = Loader::new(&tree).library_path(request.library_path);
    let look = |path: &Path| match inspect(&tree, &loader, path)? {
        Inspected::File(file) => Some(file),
        Inspected::Directory(_) => None,
    };
    let file = look(&line.file).filter(|file| file.library.is_some());
    let file = file.or_else(|| mpi4py(&tree, &line.file).and_then(|path| look(&path)));
    let Some(file) = file.filter(|_| line.launcher.is_none()) else {
        return;
    };
    // Slurm's own library finds the ranks with any kind of PMI.
    if file.files.iter().any(|one| one.name.starts_with("libpmi.so")) {
        return;
    }
    let reason = file.library.as_ref().and_then(|library| lone_ranks(request, library));
    if let Some((text, hint)) = reason {
        context.warning(format_args!("{}; {hint}", escape(&text)));
    }
}

/// Finds the part of mpi4py that needs MPI, for a Python that has it.
fn mpi4py(tree: &Tree, python: &Path) -> Option<PathBuf> {
    let name = python.file_name()?.to_str()?;
    let library = python.parent()?.parent()?.join("lib");
    let versions = tree.names(&library).into_iter().filter(|one| one.starts_with("python3"));
    let versions = versions.filter(|_| name.starts_with("python"));
    let mut parts = versions.flat_map(|version| {
        let directory = library.join(version).join("site-packages/mpi4py");
        let names = tree.names(&directory).into_iter();
        names.map(move |name| directory.join(name))
    });
    parts.find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("MPI.") && name.ends_with(".so")
    })
}

/// Returns why the ranks of a step do not find each other with a library, and what helps; `None` if
/// they do, or if that is not known.
fn lone_ranks(request: &StepRequest<'_>, library: &Library) -> Option<(String, String)> {
    let kind = request.pmi?;
    if request.tasks < 2 || speaks(library, kind) != Some(false) {
        return None;
    }
    let (title, tasks) = (library.title(), request.tasks);
    let error = format!(
        "ranks with {title} do not find each other under `srun --mpi={kind}`: each of {tasks} would \
         be alone"
    );
    let known = library.protocols.last()?.slurm_name();
    Some((error, format!("`srun --mpi={known}` is what it knows")))
}

/// Whether a library knows what Slurm calls by this name; `None` if that is not known.
fn speaks(library: &Library, kind: &str) -> Option<bool> {
    let has = |protocol| library.protocols.contains(&protocol);
    match kind {
        _ if library.protocols.is_empty() => None,
        // It may have parts for other ways, which are looked for while it runs.
        "none" | "pmi2" if is_old_open_mpi(library) => None,
        // Slurm's own `libpmi.so` works with each kind, and other launchers bring theirs.
        _ if has(Protocol::PmiLibrary) => None,
        "none" => Some(false),
        "pmi2" => {
            Some([Protocol::Pmi1, Protocol::Pmi2, Protocol::Pmi2Library].map(has).contains(&true))
        }
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
    fn a_file_with_programs_differs_from_an_argument() {
        let lists = ["0 ./a\n1-3 ./b x\n", "# all\n\n* /bin/true\n"];
        let others = ["", "0", "0 ", "input.dat", "0 ./a\nb c", "# 0 a"];
        let is_list = |text: &str| is_list_of_programs(&["conf".into(), text.into()]);
        assert_eq!(lists.map(is_list), [true; 2]);
        assert_eq!(others.map(is_list), [false; 6]);
    }
}
