// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The process that is attached to: who it is, what it has, how to get in.
//!
//! Everything is opened here and nothing is looked up later, so that it does not
//! matter when the process ends.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use cabane_mount::helper::Unavailable;
use cabane_mount::{JOB_IMAGES, JobImages};
use cabane_report::{Kind, Report, Result};
use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::loaded::{CABANE_LOADED, Loaded};
use crate::process::{NamespaceNumbers, Namespaces, Process};

/// What belongs to the terminal or the session of the caller, not to the process.
const OF_THE_CALLER: &[&str] = &[
    "COLORTERM",
    "COLUMNS",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "LINES",
    "NO_COLOR",
    "SHLVL",
    "SSH_AUTH_SOCK",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_TTY",
    "STY",
    "TERM",
    "TERMCAP",
    "TERM_PROGRAM",
    "TMUX",
    "TMUX_PANE",
    "WAYLAND_DISPLAY",
    "WINDOWID",
    "XAUTHORITY",
];

/// What tells a process which rank it is and how to reach its launcher: a program
/// started beside the rank must not take itself for it.
const OF_THE_RANK: &[&str] = &[
    "FLUX_TASK_",
    "JSM_NAMESPACE_",
    "MPI_LOCAL",
    "MV2_COMM_WORLD_",
    "OMPI_COMM_WORLD_",
    "PALS_RANKID",
    "PMIX_",
    "PMI_",
    "PRTE_",
    "SLURM_LOCALID",
    "SLURM_PROCID",
];

/// What a user can do who is in an environment.
const FROM_OUTSIDE: &str = "attach from a shell outside of every environment";

/// A process in an environment, with its namespaces opened: it may end now.
#[derive(Debug)]
pub struct Target {
    pub(crate) id: u32,
    pub(crate) namespaces: Namespaces,
    variables: BTreeMap<OsString, OsString>,
    pub(crate) working_directory: Option<PathBuf>,
}

impl Target {
    /// Looks at a process.
    ///
    /// # Errors
    ///
    /// Why it cannot be attached to.
    pub fn open(id: u32) -> Result<Self> {
        let failed = |source: io::Error| match source.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT | Errno::SRCH | Errno::ACCESS | Errno::PERM) => {
                // Which of these is not reported: the processes of others are no one's business.
                let hint = "list your processes with `ps -u $USER -o pid,args`";
                not_attached(format!("you have no process {id}"), hint)
            }
            _ => not_entered(id, source),
        };
        let process = Process::open(id).map_err(failed)?;
        let namespaces = process.namespaces().map_err(failed)?;
        let variables = process.variables().map_err(failed)?;
        let working_directory = process.working_directory().ok();
        let owner = process.owner().map_err(failed)?;
        // A process that has ended meanwhile has lost its variables first.
        process.status().map_err(failed)?;
        // Root gets this far. With the variables of another user it would run
        // whatever he likes.
        if owner != geteuid().as_raw() {
            return Err(not_attached(
                format!("process {id} belongs to another user"),
                format!("be that user: `sudo -u '#{owner}' cabane attach {id}`"),
            ));
        }
        if !has_environment(&variables) {
            let hint = "name a process that was started in an image; for a program outside, \
                        `cabane run IMAGE -- COMMAND` is enough";
            return Err(not_attached(format!("process {id} is in no environment"), hint));
        }
        Ok(Self { id, namespaces, variables, working_directory })
    }

    /// Returns the variables of a command beside the process: its own, without what
    /// makes it a rank, and with the caller's terminal.
    pub fn variables(
        &self,
        calling: &BTreeMap<OsString, OsString>,
    ) -> BTreeMap<OsString, OsString> {
        let mut variables = self.variables.clone();
        variables.retain(|name, _| !is_of_the_rank(name));
        for name in OF_THE_CALLER {
            let name = OsStr::new(name);
            match calling.get(name) {
                Some(value) => variables.insert(name.to_owned(), value.clone()),
                None => variables.remove(name),
            };
        }
        variables
    }

    /// Tells what is between this process and that one.
    pub(crate) fn door(&self) -> Result<Door> {
        let failed = |source| not_entered(self.id, source);
        let there = self.namespaces.numbers().map_err(failed)?;
        let here = NamespaceNumbers::own().map_err(failed)?;
        Ok(if there.user != here.user {
            Door::User
        } else if there.mount != here.mount {
            Door::Mounts
        } else {
            Door::None
        })
    }

    /// Goes through the door. The process must have one thread.
    pub(crate) fn enter(&self, door: Door) -> Result<()> {
        let entered = match door {
            Door::None => Ok(()),
            Door::User => self.namespaces.enter(),
            Door::Mounts => {
                let mounts = self.namespaces.mount.as_fd();
                move_into_link_name_space(mounts, Some(LinkNameSpaceType::Mount))
                    .map_err(io::Error::from)
            }
        };
        entered.map_err(|source| not_entered(self.id, source))
    }

    /// Says that the caller is where the process is, and may not mount there.
    pub(crate) fn inside(&self) -> Report {
        let id = self.id;
        not_attached(
            format!("process {id} is in your own environment, where nothing more can be mounted"),
            FROM_OUTSIDE,
        )
    }

    /// Says that the mounts were made with privilege, which this process does not have and
    /// cannot borrow.
    pub(crate) fn privileged(&self, reason: &Unavailable) -> Report {
        let value = self.variables.get(OsStr::new("SLURM_JOB_ID"));
        let job: Option<u32> = value.and_then(|value| value.to_str()?.parse().ok());
        let hint = match job {
            Some(job) => format!(
                "`srun --jobid={job} --overlap --uenv=IMAGE --pty bash` starts a shell beside it, \
                 with the images mounted once more"
            ),
            None => format!(
                "{FROM_OUTSIDE}, or start the program with `cabane --backend user-namespace run …`"
            ),
        };
        let id = self.id;
        not_attached(format!("process {id} was started with privilege, but {reason}"), hint)
    }
}

fn not_attached(message: String, hint: impl Into<String>) -> Report {
    Report::new(Kind::NotStarted, message).hinted(hint.into())
}

pub(crate) fn not_entered(id: u32, source: io::Error) -> Report {
    let message = format!("cannot enter the environment of process {id}");
    Report::caused(Kind::NotStarted, message, source).hinted(FROM_OUTSIDE.to_owned())
}

/// Tells whether variables say that something is loaded. Where they were kept from a job,
/// the list of images is there all the same.
pub(crate) fn has_environment(variables: &BTreeMap<OsString, OsString>) -> bool {
    let value = |name: &str| variables.get(OsStr::new(name))?.to_str();
    let loaded = value(CABANE_LOADED).and_then(Loaded::from_variable);
    let of_job = value(JOB_IMAGES).and_then(|value| JobImages::parse(value).ok());
    loaded.is_some_and(|loaded| !loaded.images.is_empty())
        || of_job.is_some_and(|list| !list.images.is_empty())
}

fn is_of_the_rank(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    OF_THE_RANK.iter().any(|prefix| name.starts_with(prefix))
}

/// What is between this process and another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// A user namespace of the user's own, which he may enter.
    User,
    /// Mounts only: that needs privilege in the user namespace of both.
    Mounts,
    /// Nothing.
    None,
}
