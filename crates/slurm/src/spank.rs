// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the plugin needs of Slurm, without its C interface.

use std::ffi::{OsStr, OsString};

use cabane_mount::JobOwner;

/// The program that has loaded the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    /// `srun`.
    Srun,
    /// `sbatch`, `salloc` and others that ask for nodes.
    Allocator,
    /// `slurmstepd`, before and in the tasks of a step.
    Step,
    /// `slurmd`, prolog, epilog, or one that is not known.
    Other,
}

/// Slurm refused a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlurmError(pub(crate) i32);

/// A step of a job, as one node sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    /// The job.
    pub(crate) job: u32,
    /// The step; the highest numbers stand for special ones.
    pub(crate) number: u32,
    /// The array of jobs, or 0.
    pub(crate) array_job: u32,
    /// The place in the array.
    pub(crate) array_task: u32,
    /// How many nodes the step has.
    pub(crate) nodes: u32,
    /// Which of them this is, from 0.
    pub(crate) node: u32,
    /// How many tasks the step has, on all nodes.
    pub(crate) tasks: u32,
}

/// From here on the numbers of steps stand for batch scripts and the like, on one node.
const FIRST_SPECIAL: u32 = 0xffff_fff0;

impl Step {
    /// Tells whether it is one that `srun` has started.
    pub(crate) const fn is_ordinary(&self) -> bool {
        self.number < FIRST_SPECIAL
    }
}

/// Slurm, as a callback sees it.
pub(crate) trait Spank {
    /// Returns the program.
    fn context(&self) -> Context;

    /// Returns a variable of the job, in `slurmstepd`.
    fn variable(&self, name: &str) -> Result<Option<OsString>, SlurmError>;

    /// Returns to whom the job belongs, in `slurmstepd`.
    fn owner(&self) -> Result<JobOwner, SlurmError>;

    /// Returns how many nodes the step has, in `srun` once it has them.
    fn nodes(&self) -> Result<u32, SlurmError>;

    /// Returns the step, in `slurmstepd`.
    fn step(&self) -> Result<Step, SlurmError>;

    /// Returns the program of the step and its arguments, in `slurmstepd`.
    fn arguments(&self) -> Result<Vec<OsString>, SlurmError>;

    /// Sets a variable of this process, or removes it.
    fn change_own_variable(&self, name: &OsStr, value: Option<&OsStr>);

    /// Sets a variable of the tasks of this step, or removes it, in `slurmstepd` before
    /// there are tasks.
    fn change_step_variable(&self, name: &OsStr, value: Option<&OsStr>) -> Result<(), SlurmError>;

    /// Tells whether this task is the first one on its node.
    fn is_first_task(&self) -> bool;

    /// Returns the process of a task that was forked, in `slurmstepd`.
    fn task_process(&self) -> Result<u32, SlurmError>;

    /// Returns with what a task has ended, as `wait` tells it.
    fn task_status(&self) -> Result<i32, SlurmError>;

    /// Runs another program in the place of that of a task, with the same arguments, in the
    /// process of the task.
    fn replace_program(&self, program: &OsStr) -> Result<(), SlurmError>;

    /// Ends the process of a task.
    fn end_task(&self, code: u8);

    /// Tells the user something that is no failure, a line.
    fn note(&self, line: &str);

    /// Tells the user that something failed, a line.
    fn error(&self, line: &str);
}

/// Returns the name of this node.
pub(crate) fn node_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Sets a variable of the tasks of this step, or removes it, and says in a line why it cannot.
///
/// # Errors
///
/// That Slurm does not take it.
pub(crate) fn change_variable(
    spank: &dyn Spank,
    name: &OsStr,
    value: Option<&OsStr>,
) -> Result<(), Vec<String>> {
    spank.change_step_variable(name, value).map_err(|error| {
        let name = name.to_string_lossy();
        vec![format!("cannot set the variable {} of the step: {}", name.escape_debug(), error.0)]
    })
}
