// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! In `slurmstepd`, on every node of a step: the images, before there is a task.
//!
//! A callback that fails there drains the node of a batch job, and the user of `srun` sees
//! success. So it never does: what went wrong is kept, and then every task ends before anything
//! of the user's runs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use cabane_mount::{
    JOB_IMAGES, JOB_PLAN, JOB_STAGE, JOB_TASK, JobBind, JobImage, JobImages, JobMounts, JobOwner,
    JobRoot, PrivilegedError, Stage, empty_bounding_set,
};

use crate::abort_step::{end_everywhere, tell_once};
use crate::builds;
use crate::devices;
use crate::failures::{self, Heard};
use crate::hints::lines;
use crate::query::Query;
use crate::ranks;
use crate::record::{self, Mounted, Recorded};
use crate::spank::{SlurmError, Spank, change_variable, node_name};
use crate::substitute::{self, On, Refusal};

/// The usual place for what Slurm keeps on a node while jobs run.
const SPOOL: &str = "/var/spool/slurmd";
/// So much later than the first task of a node the others end.
const HEAD_START: Duration = Duration::from_millis(200);

/// What became of the images of a step.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// There are none.
    Nothing,
    /// These are mounted, for tasks of the owner to enter, and to start as is said.
    Mounted(Box<JobMounts>, JobOwner, Vec<JobImage>, Start),
    /// Each task enters them itself, with the rights of the user.
    ByTasks(Start),
    /// They are not; lines for the user.
    Failed(Vec<String>),
    /// The step cannot have the MPI that was requested.
    Refused(Refusal),
}

/// How tasks start.
#[derive(Debug)]
pub(crate) struct Start {
    /// In which directory, unless it is that of the job.
    directory: Option<PathBuf>,
    /// Whether `PyTorch` gets its variables.
    has_ranks: bool,
    /// The command by which a task enters the images itself.
    command: Option<PathBuf>,
}

impl From<Vec<String>> for Outcome {
    fn from(lines: Vec<String>) -> Self {
        Self::Failed(lines)
    }
}

/// Mounts the images of a step; what the user sees beside that, a line each.
pub(crate) fn mount(spank: &dyn Spank, command: Option<&Path>) -> (Outcome, Vec<String>) {
    let mut notes = Vec::new();
    let outcome = try_mount(spank, command, &mut notes).unwrap_or_else(|outcome| outcome);
    (outcome, notes)
}

/// Returns what became of it; as an error, that there will be no tasks.
fn try_mount(
    spank: &dyn Spank,
    command: Option<&Path>,
    notes: &mut Vec<String>,
) -> Result<Outcome, Outcome> {
    let list = list(spank)?;
    let mpi = substitute::wanted(spank)?;
    if list.images.is_empty() && mpi.is_none() {
        return Ok(Outcome::Nothing);
    }
    let owner = spank
        .owner()
        .map_err(|error| vec![format!("cannot find out whose job this is: {}", error.0)])?;
    let start = |command| Start {
        directory: list.workdir.clone().filter(|_| Option::is_none(&command)),
        has_ranks: list.ranks_for_pytorch,
        command,
    };
    if list.by_tasks {
        return Ok(Outcome::ByTasks(start(Some(by_tasks(spank, command)?))));
    }
    let stage = stage(spank)?;
    let taken = builds::take(&list)?;
    notes.clone_from(&taken.notes);
    if !list.images.is_empty() {
        builds::set_variables(spank, &list.views, &taken)?;
    }
    let mut root = seen(list.root.clone());
    let query = Query { command, owner: &owner };
    if !root.devices.is_empty() {
        notes.extend(devices::add(spank, query, &taken.images, &mut root)?);
    }
    let on = On { query, owner: &owner, images: &taken.images, stage };
    if let Some(mpi) = &mpi {
        let given = substitute::give(spank, &on, mpi, &mut root);
        notes.extend(given.map_err(Outcome::Refused)?);
    }
    if taken.images.is_empty() {
        return Ok(Outcome::Nothing);
    }
    let has_root = taken.images.iter().any(|image| image.mount_point == Path::new("/"));
    let mounts = match JobMounts::make(&taken.images, &root, &owner, stage) {
        Ok(mounts) => mounts,
        // Through FUSE root may not look into a root image. Its user may.
        Err(PrivilegedError::Refused { .. }) if mpi.is_none() && stage.is_none() && has_root => {
            let command = by_tasks(spank, command)?;
            return Ok(Outcome::ByTasks(start(Some(command))));
        }
        Err(error) => return Err(lines(&error).into()),
    };
    if mpi.is_none() {
        notes.extend(ranks::warn(spank, &on, &mounts, &root));
    }
    if let Some(directory) = &list.workdir {
        change_variable(spank, "PWD".as_ref(), Some(directory.as_ref()))?;
    }
    Ok(Outcome::Mounted(Box::new(mounts), owner, taken.images, start(None)))
}

/// Returns the command by which tasks enter a root image themselves.
fn by_tasks(spank: &dyn Spank, command: Option<&Path>) -> Result<PathBuf, Vec<String>> {
    let has_plan = matches!(spank.variable(JOB_PLAN), Ok(Some(plan)) if !plan.is_empty());
    if !has_plan {
        return Err(vec![
            "this step cannot have its container: each task would have to enter it by itself"
                .to_owned(),
            "hint: `srun cabane run IMAGE -- COMMAND` does so, also in the lines of a file for \
             `--multi-prog`"
                .to_owned(),
        ]);
    }
    record::find_command(command).ok_or_else(|| vec!["cannot find the `cabane` command".to_owned()])
}

/// Reads the list of images; an empty one if there is none.
fn list(spank: &dyn Spank) -> Result<JobImages, Vec<String>> {
    let text = spank
        .variable(JOB_IMAGES)
        .map_err(|error| vec![format!("cannot read the variable {JOB_IMAGES}: {}", error.0)])?;
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(JobImages::default());
    };
    JobImages::parse(&text.to_string_lossy())
        .map_err(|error| vec![format!("the variable {JOB_IMAGES} is malformed: {error}")])
}

/// Adds the directory through which Slurm and the libraries of parallel programs talk to each
/// other. A site that has it elsewhere says so in the policy.
fn seen(mut root: JobRoot) -> JobRoot {
    root.binds.push(JobBind {
        source: SPOOL.into(),
        target: SPOOL.into(),
        read_only: false,
        must_be: false,
    });
    root
}

/// Finds out whether the images are to be copied first.
fn stage(spank: &dyn Spank) -> Result<Option<Stage>, Vec<String>> {
    let text = spank
        .variable(JOB_STAGE)
        .map_err(|error| vec![format!("cannot read the variable {JOB_STAGE}: {}", error.0)])?;
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let stage = text.to_str().and_then(Stage::from_name);
    let wrong = || vec![format!("the variable {JOB_STAGE} should be memory or local")];
    stage.map(Some).ok_or_else(wrong)
}

/// Has recorded what became of the images of a step, if it has any. Returns what is recorded
/// at its end.
pub(crate) fn record(
    spank: &dyn Spank,
    to: &OsStr,
    command: Option<&Path>,
    outcome: &Outcome,
) -> Option<Recorded> {
    match outcome {
        Outcome::Nothing | Outcome::ByTasks(_) => None,
        Outcome::Mounted(mounts, _, images, _) => {
            let ways = Mounted::Ways(mounts.ways().collect(), mounts.times());
            record::hand_over(spank, to, command, images, &ways)
        }
        Outcome::Failed(lines) | Outcome::Refused(Refusal { lines, .. }) => {
            let wanted = wanted(spank).unwrap_or_default();
            let reason = reason_in(lines);
            record::hand_over(spank, to, command, &wanted, &Mounted::Not(&reason))
        }
    }
}

/// Returns what failed with its causes, without what helps.
fn reason_in(lines: &[String]) -> String {
    let mut reason = lines.first().cloned().unwrap_or_default();
    for cause in lines.iter().skip(1).filter_map(|line| line.strip_prefix("cause: ")) {
        reason += &format!(": {cause}");
    }
    reason
}

/// Returns what this node would have taken. Of several builds of which it takes none there is
/// no telling.
fn wanted(spank: &dyn Spank) -> Option<Vec<JobImage>> {
    let text = spank.variable(JOB_IMAGES).ok()??;
    let list = JobImages::parse(&text.to_string_lossy()).ok()?;
    let only = |builds: &Vec<JobImage>| match builds.as_slice() {
        [only] => Some(only.clone()),
        _ => None,
    };
    let taken = builds::take(&list).map(|taken| taken.images);
    Some(taken.unwrap_or_else(|_| list.images.iter().filter_map(only).collect()))
}

/// In a task that is about to start, as root: lets it go on or not.
///
/// # Errors
///
/// That it must not go on; the user knows why.
pub(crate) fn enter_task(spank: &dyn Spank, outcome: &Outcome, heard: Heard) -> Result<(), ()> {
    match outcome {
        Outcome::Nothing | Outcome::ByTasks(_) => Ok(()),
        Outcome::Mounted(mounts, owner, ..) => {
            if let Err(error) = mounts.enter(owner) {
                tell(spank, &lines(&error), Heard::No);
                return Err(());
            }
            // What is mounted is under the user's control; no program may trust it with more
            // rights than the user has.
            let given_up = rustix::thread::set_no_new_privs(true).map_err(std::io::Error::from);
            let given_up = given_up.and_then(|()| match owner.user {
                // The jobs of root have its rights.
                0 => Ok(()),
                _ => empty_bounding_set(),
            });
            given_up.map_err(|error| {
                spank.error(&format!("cannot give up gaining privileges: {error}"));
            })
        }
        Outcome::Failed(lines) | Outcome::Refused(Refusal { lines, .. }) => {
            tell(spank, lines, heard);
            Ok(())
        }
    }
}

/// In `slurmstepd`, for the first task: what ends it ends the FUSE programs of the step.
pub(crate) fn end_servers_with_task(spank: &dyn Spank, outcome: &Outcome) {
    if let (Outcome::Mounted(mounts, ..), Ok(task)) = (outcome, spank.task_process()) {
        mounts.end_servers_with(task);
    }
}

/// In a task of which `slurmstepd` knows by now: ends it, if there are no images for it. Slurm
/// says several things of its own about a task whose callback fails, for each task.
///
/// A node that was heard leaves the exit code to the first one: `srun` has a line for each node
/// whose tasks end with another one than 0, and the highest one is that of the step.
pub(crate) fn end_failed(spank: &dyn Spank, outcome: &Outcome, heard: Heard) {
    let code = match outcome {
        Outcome::Nothing | Outcome::Mounted(..) | Outcome::ByTasks(_) => return,
        Outcome::Failed(_) => 1,
        Outcome::Refused(refusal) => refusal.code,
    };
    spank.end_task(if heard == Heard::Yes { 0 } else { code });
}

/// The variables by which `PyTorch` knows its ranks, and those of Slurm with the same values.
const RANKS: [(&str, &str); 2] = [("RANK", "SLURM_PROCID"), ("LOCAL_RANK", "SLURM_LOCALID")];
/// The variable that images with `PyTorch` set.
const PYTORCH: &str = "PYTORCH_VERSION";

/// In a task, as the user: goes to the directory in which the step starts, or ends; and tells
/// `PyTorch` which rank it is.
pub(crate) fn start_task(spank: &dyn Spank, outcome: &Outcome) {
    let (Outcome::Mounted(.., start) | Outcome::ByTasks(start)) = outcome else {
        return;
    };
    if let Some(command) = &start.command
        && let Err(error) = start_through(spank, command)
    {
        spank.error(&format!("cannot start a task in its container: {}", error.0));
        spank.end_task(1);
    }
    if start.has_ranks && matches!(spank.variable(PYTORCH), Ok(Some(_))) {
        for (name, of_slurm) in RANKS {
            if let Ok(Some(value)) = spank.variable(of_slurm) {
                let _ = spank.change_step_variable(name.as_ref(), Some(&value));
            }
        }
    }
    let Some(directory) = &start.directory else {
        return;
    };
    if let Err(error) = std::env::set_current_dir(directory) {
        if spank.is_first_task() {
            let directory = directory.to_string_lossy();
            let directory = directory.escape_debug();
            spank.error(&format!("cannot start in the directory {directory}: {error}"));
            spank.error(
                "hint: it must exist in the image; `--container-workdir=PATH` names another one",
            );
        }
        spank.end_task(1);
    }
}

/// Lets a task become the command, which enters the container and becomes the program of the task.
fn start_through(spank: &dyn Spank, command: &Path) -> Result<(), SlurmError> {
    let arguments = spank.arguments()?;
    let program = arguments.first().ok_or(SlurmError(-1))?;
    spank.change_step_variable(JOB_TASK.as_ref(), Some(program))?;
    spank.replace_program(command.as_os_str())
}

/// In a task: the first one of a node tells the user why, unless the node was heard before.
fn tell(spank: &dyn Spank, lines: &[String], heard: Heard) {
    match (heard, spank.is_first_task()) {
        (Heard::No, true) => tell_once(spank, lines),
        // What the first one tells is to be on its way when Slurm sees that this one has ended.
        (Heard::No, false) => sleep(HEAD_START),
        (Heard::First, true) => end_everywhere(spank.step().unwrap_or_default()),
        (Heard::First, false) | (Heard::Yes, _) => {}
    }
}

/// In `slurmstepd`: says why there are no images, into the log of the node, and where the
/// failures of all nodes are reported as one.
pub(crate) fn say_failure(spank: &dyn Spank, command: Option<&Path>, outcome: &Outcome) -> Heard {
    let (Outcome::Failed(lines) | Outcome::Refused(Refusal { lines, .. })) = outcome else {
        return Heard::No;
    };
    for line in lines {
        spank.error(line);
    }
    failures::say(spank, command, &node_name(), lines)
}

/// The tasks of the step have ended. An image that stays mounted a while longer is no reason
/// to fail.
pub(crate) fn leave(outcome: Outcome) {
    if let Outcome::Mounted(mounts, ..) = outcome {
        let _ = mounts.leave();
    }
}
