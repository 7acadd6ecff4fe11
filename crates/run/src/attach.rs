// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Entering the environment of a process that runs.
//!
//! A debugger must see the files that the process sees, and it must be in the same
//! user namespace, or the kernel keeps it away. So nothing is mounted again: the
//! process's own namespaces are entered. Further images go into a copy of its mounts
//! that it does not see, in the same user namespace.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use cabane_mount::helper::{Helper, Unavailable};
use cabane_mount::{
    Backend, FusePrograms, Layer, MountPlan, Place, perform_in_current_user_namespace,
};
use cabane_report::{Kind, Report, Result};
use cabane_resolve::ConcreteEnvironment;
use cabane_view::VariableSettings;
use rustix::thread::{
    CapabilitySet, capabilities, configure_capability_in_ambient_set, set_capabilities,
};

use crate::RunWarning;
use crate::attach_target::{Door, Target, not_entered};
use crate::become_command::exec;
use crate::loaded::Additions;
use crate::needs::{check_architectures, check_before, name_of, warnings};
use crate::prepare::{Need, not_mounted, operations_of, settle, variables_inside};
use crate::through_helper::{WorkingDirectory, become_helper};

/// What is to be started beside a process.
#[derive(Debug)]
pub struct Attachment {
    /// The process.
    pub target: Target,
    /// Images for the command alone.
    pub with: Option<(ConcreteEnvironment, Additions)>,
    /// The best way to mount that the caller has outside of a user namespace.
    pub backend: Backend,
    /// The set-uid helper, or why it cannot be used.
    pub helper: Result<Helper, Unavailable>,
    /// The programs that serve images through FUSE.
    pub fuse: FusePrograms,
    /// The variables of the caller.
    pub calling: BTreeMap<OsString, OsString>,
    /// The program and its arguments.
    pub command: Vec<OsString>,
}

impl Attachment {
    /// Enters the environment and becomes the command. The process must have one
    /// thread. What the machine lacks for the images that are added is handed to `tell`.
    ///
    /// Returns only if that failed: nothing of the user's has been started then.
    pub fn exec(self, tell: impl FnMut(&RunWarning)) -> Report {
        match self.try_exec(tell) {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }

    fn try_exec(mut self, tell: impl FnMut(&RunWarning)) -> Result<Infallible> {
        let mut variables = self.target.variables(&self.calling);
        let mut needs = Vec::new();
        let mut operations = Vec::new();
        // Opened before anything is entered: a path names the caller's file.
        if let Some((environment, additions)) = &self.with {
            if let Some(image) = environment.root() {
                let image = name_of(image);
                let message = format!(
                    "the image {image} has a root file system of its own, and cannot be added"
                );
                let hint = "`cabane run` and `cabane start` take it, with the others beside it";
                return Err(Report::new(Kind::NotStarted, message).hinted(hint.to_owned()));
            }
            check_architectures(environment)?;
            (operations, needs) = operations_of(environment, additions, &Layer::None)?;
            // The devices are those of the process whose environment this is.
            let of_devices = VariableSettings::default();
            (variables, _) = variables_inside(environment, additions, &variables, &of_devices);
            warnings(environment, &variables).iter().for_each(tell);
        }
        let door = self.target.door()?;
        let mut plan =
            MountPlan { backend: self.backend, fuse: std::mem::take(&mut self.fuse), operations };
        match door {
            Door::User => plan.backend = Backend::UserNamespace,
            Door::Mounts if self.backend != Backend::Root => {
                plan.backend = Backend::Helper;
                return self.exec_through_helper(plan, &variables, &needs);
            }
            Door::None if self.backend != Backend::Root && !plan.operations.is_empty() => {
                return Err(self.target.inside());
            }
            Door::Mounts | Door::None => {}
        }
        let from = std::env::current_dir().ok();
        self.target.enter(door)?;
        self.go_to_work(from);
        if !plan.operations.is_empty() {
            perform_in_current_user_namespace(plan).map_err(not_mounted)?;
            if door == Door::User {
                keep_door_open().map_err(|source| not_entered(self.target.id, source))?;
            }
        }
        settle(&needs)?;
        Err(exec(self.command, Some(variables)))
    }

    /// Lets the set-uid helper enter the mounts. It opens them itself, with the rights
    /// of the user: what it would be given could be anything.
    fn exec_through_helper(
        self,
        mut plan: MountPlan,
        variables: &BTreeMap<OsString, OsString>,
        needs: &[Need],
    ) -> Result<Infallible> {
        let refused = |reason| self.target.privileged(&reason);
        let helper = self.helper.map_err(refused)?;
        let mut command = self.command;
        if !plan.operations.is_empty() {
            look_for_files_here(&mut command);
        }
        helper.choose_ways(&mut plan).map_err(refused)?;
        check_before(needs, &plan)?;
        become_helper(
            &helper.path,
            &plan,
            Place::In(self.target.id),
            command,
            variables,
            WorkingDirectory::May(self.target.working_directory),
            || {},
        )
    }

    /// Goes where the process is, or else where the caller was, or else to `/`.
    fn go_to_work(&self, from: Option<PathBuf>) {
        let places = [self.target.working_directory.clone(), from, Some("/".into())];
        for place in places.into_iter().flatten() {
            if std::env::set_current_dir(place).is_ok() {
                return;
            }
        }
    }
}

/// Makes gdb, in a copy of the mounts of a process, read the files of the program where it is itself.
/// By itself it would enter the mounts of the process, which the helper gives no right to.
fn look_for_files_here(command: &mut Vec<OsString>) {
    let program = command.first().map(Path::new).and_then(Path::file_name);
    let is_gdb = program.is_some_and(|name| name == "gdb" || name == "gdb-multiarch");
    if is_gdb {
        // Before the first file is read; what the user types comes later, and holds.
        command.splice(1..1, ["-iex", "set sysroot /"].map(OsString::from));
    }
}

/// Lets the command, which has mounts of its own, look into those of the process: a
/// debugger enters them to read the programs there. These rights reach no farther
/// than the user namespace, which is the user's own.
fn keep_door_open() -> io::Result<()> {
    let mut sets = capabilities(None)?;
    for capability in [CapabilitySet::SYS_ADMIN, CapabilitySet::SYS_CHROOT] {
        sets.inheritable |= capability;
        set_capabilities(None, sets)?;
        configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(command: &[&str]) -> Vec<OsString> {
        let mut command: Vec<OsString> = command.iter().map(OsString::from).collect();
        look_for_files_here(&mut command);
        command
    }

    #[test]
    fn a_debugger_gets_its_option_before_those_of_the_user_and_no_other_program_does() {
        let expected = ["/a/gdb", "-iex", "set sysroot /", "-iex", "set sysroot /b", "-p", "7"];
        assert_eq!(looked(&["/a/gdb", "-iex", "set sysroot /b", "-p", "7"]), expected);
        assert_eq!(looked(&["gdbserver", "x"]), ["gdbserver", "x"]);
        assert_eq!(looked(&[]), Vec::<OsString>::new());
    }
}
