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

/// Why a process could not be attached to.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// It does not exist, has ended, or belongs to another user. Which of these is
    /// not told: the processes of others are no one's business.
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
        /// The job of Slurm to which the process belongs.
        job: Option<u32>,
    },
    /// The caller is where the process is, and may not mount there.
    #[error("process {id} is in your own environment, where nothing more can be mounted")]
    Inside {
        /// The process.
        id: u32,
    },
    /// None of the caller's processes on this node belongs to the job.
    #[error("you have no task of job {job} on this node")]
    NoTask {
        /// The job, as it was typed.
        job: String,
    },
    /// The job runs here, with nothing loaded.
    #[error("job {job} has no images on this node")]
    NoImages {
        /// The job, as it was typed.
        job: String,
    },
    /// Which one is meant?
    #[error("job {job} has several steps on this node")]
    SeveralSteps {
        /// The job, as it was typed.
        job: String,
        /// The steps with images.
        steps: Vec<String>,
    },
    /// A number is that of a process and of a job.
    #[error("{number} is the number of a process and of a job")]
    ProcessAndJob {
        /// The number.
        number: u32,
    },
    /// There is no looking for tasks.
    #[error("cannot list the processes of this node")]
    Processes(#[source] io::Error),
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
            Self::OtherUser { id, user } => {
                Some(format!("be that user: `sudo -u '#{user}' cabane attach {id}`"))
            }
            Self::NoTask { job } => Some(format!(
                "`squeue --me --jobs={}` tells on which nodes it runs",
                job.split(['.', '_']).next().unwrap_or(job)
            )),
            Self::NoImages { job } => Some(format!(
                "`srun --jobid={} --overlap --pty bash` starts a shell beside it",
                job.split('.').next().unwrap_or(job)
            )),
            Self::SeveralSteps { steps, .. } => {
                let typed = |step| format!("`cabane attach {step}`");
                Some(steps.iter().map(typed).collect::<Vec<_>>().join(", "))
            }
            Self::ProcessAndJob { number } => Some(format!(
                "`cabane attach --process {number}` or `cabane attach --job {number}`"
            )),
            Self::Processes(_) => None,
            Self::Privileged { job: Some(job), .. } => Some(format!(
                "`srun --jobid={job} --overlap --uenv=IMAGE --pty bash` starts a shell beside it, \
                 with the images mounted once more"
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
        // Root gets this far. With the variables of another user it would run
        // whatever he likes.
        if owner != geteuid().as_raw() {
            return Err(AttachError::OtherUser { id, user: owner });
        }
        if !has_environment(&variables) {
            return Err(AttachError::NoEnvironment { id });
        }
        Ok(Self { id, namespaces, variables, working_directory })
    }

    /// Returns the job of Slurm to which the process belongs.
    pub(crate) fn job(&self) -> Option<u32> {
        let value = self.variables.get(OsStr::new("SLURM_JOB_ID"))?;
        value.to_str()?.parse().ok()
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
