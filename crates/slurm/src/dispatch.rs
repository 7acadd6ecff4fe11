// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which part of the plugin answers which callback in which program, and what one callback
//! leaves for the next.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cabane_mount::JOB_FAILURES;

use crate::failures::{Collector, Heard};
use crate::node::{self, Outcome};
use crate::options::{self, Given};
use crate::record::Recorded;
use crate::spank::{Context, Spank};
use crate::submit;

/// What is known so far in this process.
#[derive(Debug)]
struct State {
    given: Given,
    prepared: Option<Given>,
    outcome: Outcome,
    /// Whether the user hears of a failure elsewhere.
    heard: Heard,
    /// In `srun`: what hears of it.
    collector: Option<Collector>,
    /// What the user sees once on each node.
    notes: Vec<String>,
    /// What is recorded when the step ends.
    recorded: Option<Recorded>,
}

static STATE: Mutex<State> = Mutex::new(State {
    given: Given::none(),
    prepared: None,
    outcome: Outcome::Nothing,
    heard: Heard::No,
    collector: None,
    notes: Vec::new(),
    recorded: None,
});

fn state() -> MutexGuard<'static, State> {
    // One callback runs at a time, and each leaves something whole.
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells whether the options of pyxis are added: they are, unless the line of the plugin says
/// `container-options=no` or pyxis is there. All plugins are loaded before the first one begins.
pub(crate) fn has_shared_options(arguments: &[OsString]) -> bool {
    match value_of(arguments, "container-options=").map(OsStr::as_bytes) {
        Some(b"no") => false,
        Some(b"yes") => true,
        _ => {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
            !has_pyxis(&maps)
        }
    }
}

fn has_pyxis(maps: &str) -> bool {
    let mut files = maps.lines().filter_map(|line| line.rsplit('/').next());
    files.any(|file| file.contains("pyxis") && file.contains(".so"))
}

/// The plugin was loaded; options are not known yet.
pub(crate) fn program_begins(spank: &dyn Spank) {
    if matches!(spank.context(), Context::Srun | Context::Allocator) {
        for name in options::inherited() {
            spank.change_own_variable(name.as_ref(), None);
        }
    }
}

/// An option was given. In `slurmstepd` they arrive, too, and mean nothing: what the user
/// wants is in the variables by then.
pub(crate) fn option_given(place: usize, value: Option<String>, is_step: bool) {
    if !is_step {
        state().given.set(place, value);
    }
}

/// All options are known.
///
/// # Errors
///
/// That the program must not go on.
pub(crate) fn options_known(spank: &dyn Spank, arguments: &[OsString]) -> Result<(), ()> {
    match spank.context() {
        Context::Srun | Context::Allocator => {
            let given = state().given.clone();
            // Once for each part of a heterogeneous job, whose parts have the variables of one
            // process.
            let prepared = state().prepared.replace(given.clone());
            match prepared {
                None => submit::prepare(spank, &given, command_of(arguments).as_deref()),
                Some(prepared) if prepared == given => Ok(()),
                Some(_) => {
                    submit::refuse_parts(spank);
                    Err(())
                }
            }
        }
        Context::Step => {
            let command = command_of(arguments);
            let (outcome, notes) = node::mount(spank, command.as_deref());
            let recorded = value_of(arguments, "record=").and_then(|destination| {
                node::record(spank, destination, command.as_deref(), &outcome)
            });
            let heard = node::say_failure(spank, command.as_deref(), &outcome);
            let mut state = state();
            (state.recorded, state.heard) = (recorded, heard);
            (state.outcome, state.notes) = (outcome, notes);
            Ok(())
        }
        Context::Other => Ok(()),
    }
}

/// In `srun`: the nodes are known, and the step is about to be started.
pub(crate) fn nodes_known(spank: &dyn Spank, arguments: &[OsString]) {
    let mut state = state();
    if spank.context() != Context::Srun || state.collector.is_some() {
        return;
    }
    // It may be that of a step in which this one is started.
    spank.change_own_variable(JOB_FAILURES.as_ref(), None);
    // A part of a heterogeneous job may have one node, and another one more.
    if submit::has_images() && spank.nodes().is_ok_and(|nodes| nodes > 1) {
        let program = submit::find_command(command_of(arguments).as_deref());
        // Without it, each node tells the user itself.
        state.collector = Collector::start(spank, &program).ok();
    }
}

/// A task is about to start, still as root.
///
/// # Errors
///
/// That it must not.
pub(crate) fn task_starts(spank: &dyn Spank) -> Result<(), ()> {
    let state = state();
    if !state.notes.is_empty() && spank.is_first_task() && is_among_the_first(spank) {
        state.notes.iter().for_each(|line| spank.note(line));
    }
    node::enter_task(spank, &state.outcome, state.heard)
}

/// A task is about to start, as the user.
pub(crate) fn task_begins(spank: &dyn Spank) {
    let state = state();
    node::end_failed(spank, &state.outcome, state.heard);
    node::start_task(spank, &state.outcome);
}

/// No one reads what a thousand nodes say, one after the other.
const NODES_THAT_TELL: u32 = 64;

fn is_among_the_first(spank: &dyn Spank) -> bool {
    spank.step().is_ok_and(|step| step.node < NODES_THAT_TELL)
}

/// A task was forked.
pub(crate) fn task_forked(spank: &dyn Spank) {
    if spank.is_first_task() {
        node::end_servers_with_task(spank, &state().outcome);
    }
}

/// A task has ended.
pub(crate) fn task_ended(spank: &dyn Spank) {
    if let (Some(recorded), Ok(status)) = (&mut state().recorded, spank.task_status()) {
        recorded.task_ended(status);
    }
}

/// The program ends.
pub(crate) fn program_ends(spank: &dyn Spank) {
    // It has its last words now.
    drop(state().collector.take());
    if spank.context() == Context::Step {
        let recorded = state().recorded.take();
        if let Some(recorded) = recorded {
            recorded.end();
        }
        let outcome = std::mem::replace(&mut state().outcome, Outcome::Nothing);
        node::leave(outcome);
    }
}

/// Finds `cabane=PATH` among the arguments after the plugin in `plugstack.conf`.
fn command_of(arguments: &[OsString]) -> Option<PathBuf> {
    value_of(arguments, "cabane=").map(PathBuf::from)
}

fn value_of<'a>(arguments: &'a [OsString], prefix: &str) -> Option<&'a OsStr> {
    let mut arguments = arguments.iter().map(|argument| argument.as_bytes());
    arguments.find_map(|argument| argument.strip_prefix(prefix.as_bytes()).map(OsStr::from_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pyxis_is_known_by_the_name_of_its_file() {
        let line = "7f4e00000000-7f4e00021000 r--p 00000000 08:01 1";
        let other = format!("{line}    /home/pyxis/cabane-slurm.so\n");
        let pyxis = format!("{other}{line}    /usr/lib/x86_64-linux-gnu/slurm/spank_pyxis.so\n");
        assert_eq!([other, pyxis].map(|maps| has_pyxis(&maps)), [false, true]);
    }

    #[test]
    fn the_line_in_the_plugstack_decides_first() {
        let decided = |text: &str| has_shared_options(&[OsString::from(text)]);
        assert_eq!(
            ["container-options=no", "container-options=yes", "record=syslog"].map(decided),
            [false, true, true]
        );
    }
}
