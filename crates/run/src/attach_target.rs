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
use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::loaded::{CABANE_LOADED, Loaded};
use crate::process::{NamespaceNumbers, Namespaces, Process};

/// What belongs to the terminal or the session of whoever types, not to the process.
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
];

/// Why a process could not be attached to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// It does not exist, has ended, or belongs to somebody else. Which of these is
    /// not told: the processes of others are nobody's business.
    #[error("you have no process {id}")]
    NoProcess {
        /// The number that was typed.
        id: u32,
    },
    /// Nothing is loaded in it.
    #[error("process {id} is in no environment")]
    NoEnvironment {
        /// The process.
        id: u32,
    },
    /// It is another user's, and the caller is root.
    #[error("process {id} belongs to another user")]
    OtherUser {
        /// The process.
        id: u32,
        /// Who could attach to it.
        user: u32,
    },
    /// Its mounts were made with privilege, which this process does not have and
    /// cannot borrow.
    #[error("process {id} was started with privilege, but {reason}")]
    Privileged {
        /// The process.
        id: u32,
        /// Why the helper cannot be used.
        reason: Unavailable,
    },
    /// The caller is where the process is, and may not mount there.
    #[error("process {id} is in your own environment, where nothing more can be mounted")]
    Inside {
        /// The process.
        id: u32,
    },
    /// The namespaces cannot be entered.
    #[error("cannot enter the environment of process {id}")]
    Enter {
        /// The process.
        id: u32,
        /// What the system answered.
        source: io::Error,
    },
}

impl AttachError {
    /// Returns what the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoProcess { .. } => {
                Some("list your processes with `ps -u $USER -o pid,args`".to_owned())
            }
            Self::NoEnvironment { .. } => Some(
                "name a process that was started in an image; for a program outside, `cabane run \
                 IMAGE -- COMMAND` is enough"
                    .to_owned(),
            ),
            Self::OtherUser { id, user } => Some(format!(
                "be that user: `sudo -u '#{user}' cabane attach {id}`"
            )),
            Self::Privileged { .. } => Some(
                "attach from a shell outside of every environment, or start the program with \
                 `cabane --backend user-namespace run …`"
                    .to_owned(),
            ),
            Self::Inside { .. } | Self::Enter { .. } => {
                Some("attach from a shell outside of every environment".to_owned())
            }
        }
    }
}

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
    /// [`AttachError`] that says why it cannot be attached to.
    pub fn open(id: u32) -> Result<Self, AttachError> {
        let failed = |source: io::Error| match source.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT | Errno::SRCH | Errno::ACCESS | Errno::PERM) => {
                AttachError::NoProcess { id }
            }
            _ => AttachError::Enter { id, source },
        };
        let process = Process::open(id).map_err(failed)?;
        let namespaces = process.namespaces().map_err(failed)?;
        let variables = process.variables().map_err(failed)?;
        let working_directory = process.working_directory().ok();
        let owner = process.owner().map_err(failed)?;
        // A process that has ended meanwhile has lost its variables first.
        process.status().map_err(failed)?;
        // Root gets this far. With the variables of somebody else it would run
        // whatever he likes.
        if owner != geteuid().as_raw() {
            return Err(AttachError::OtherUser { id, user: owner });
        }
        let loaded = variables
            .get(OsStr::new(CABANE_LOADED))
            .and_then(|value| Loaded::from_variable(value.to_str()?));
        if loaded.is_none_or(|loaded| loaded.images.is_empty()) {
            return Err(AttachError::NoEnvironment { id });
        }
        Ok(Self {
            id,
            namespaces,
            variables,
            working_directory,
        })
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

    /// Tells what lies between this process and that one.
    pub(crate) fn door(&self) -> Result<Door, AttachError> {
        let failed = |source| self.not_entered(source);
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
    pub(crate) fn enter(&self, door: Door) -> Result<(), AttachError> {
        let entered = match door {
            Door::None => Ok(()),
            Door::User => self.namespaces.enter(),
            Door::Mounts => {
                let mounts = self.namespaces.mount.as_fd();
                move_into_link_name_space(mounts, Some(LinkNameSpaceType::Mount))
                    .map_err(io::Error::from)
            }
        };
        entered.map_err(|source| self.not_entered(source))
    }

    pub(crate) fn not_entered(&self, source: io::Error) -> AttachError {
        let id = self.id;
        AttachError::Enter { id, source }
    }
}

fn is_of_the_rank(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    OF_THE_RANK.iter().any(|prefix| name.starts_with(prefix))
}

/// What lies between this process and another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// A user namespace of the user's own, which he may enter.
    User,
    /// Mounts only: that needs privilege in the user namespace of both.
    Mounts,
    /// Nothing.
    None,
}
