// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a build and its workers say to each other: lines of JSON over pipes.

use std::io::{self, BufRead, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Failure, Origin, PackageChange, StackBase, StepName};

/// The longest line.
const LONGEST: u64 = 1 << 20;
/// How often a worker shows that it is alive.
pub(super) const BEAT: Duration = Duration::from_secs(5);

/// What a worker builds, and from what. Both sides are the same version of Cabane.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WorkerTask {
    /// The version of Cabane that shares out the packages.
    pub version: String,
    /// The directory of the recipe.
    pub recipe: PathBuf,
    /// The sum of the recipe's own packages: a copy of the recipe may be older.
    pub(super) own_packages: String,
    /// The configuration of the system.
    pub system: Option<PathBuf>,
    /// Mirrors and caches, instead of those of the system.
    pub mirrors: Option<PathBuf>,
    /// The cache directory: all workers see it.
    pub cache: PathBuf,
    pub(super) shared_cache: Option<PathBuf>,
    pub(super) epoch: u32,
    pub(super) mount_point: String,
    /// The bases of the recipe, as the build has found them: all workers see their files.
    pub(super) bases: Vec<StackBase>,
    /// What was concretized.
    pub(super) inputs: PathBuf,
    /// The directory of the worker.
    pub(super) directory: PathBuf,
    pub(super) environment: String,
    /// The distribution and the processor for which the packages were chosen.
    pub(super) machine: String,
    /// The Python that runs Spack.
    pub(super) python: PathBuf,
}

/// What the build says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Question {
    Begin(Box<WorkerTask>),
    Build {
        hashes: Vec<String>,
        /// Packages that other workers have put into the cache.
        from_others: Vec<String>,
    },
}

/// What a worker says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    /// It understands what it is to build. A worker of another version may not.
    Begun,
    /// It is ready to build.
    Ready {
        node: String,
        jobs: usize,
    },
    /// It is alive.
    Beat,
    Package {
        hash: String,
        change: Change,
    },
    Remark(String),
    /// Everything that it was given is built.
    Idle,
    /// A package was not built.
    Failed(Box<Failed>),
    /// It cannot go on, and why.
    Ended(String),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Change {
    Phase(String),
    Built(f64),
    FromCache(f64),
    Failed,
}

/// As [`Failure`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Failed {
    package: Option<String>,
    command: String,
    status: i32,
    pub(super) log: PathBuf,
    tail: Vec<String>,
}

impl Change {
    pub(super) fn of(change: PackageChange<'_>) -> Self {
        match change {
            PackageChange::Phase(phase) => Self::Phase(phase.to_owned()),
            // Spack says so of none.
            PackageChange::Ready => Self::Phase("ready".to_owned()),
            PackageChange::Done { origin: Origin::Built, took } => Self::Built(took.as_secs_f64()),
            PackageChange::Done { took, .. } => Self::FromCache(took.as_secs_f64()),
            PackageChange::Failed => Self::Failed,
        }
    }

    pub(super) fn as_change(&self) -> PackageChange<'_> {
        let took = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        match self {
            Self::Phase(phase) => PackageChange::Phase(phase),
            Self::Built(seconds) => {
                PackageChange::Done { origin: Origin::Built, took: took(*seconds) }
            }
            Self::FromCache(seconds) => {
                PackageChange::Done { origin: Origin::Cache, took: took(*seconds) }
            }
            Self::Failed => PackageChange::Failed,
        }
    }
}

impl Failed {
    pub(super) fn of(failure: Failure) -> Self {
        Self {
            package: failure.package,
            command: failure.command,
            status: failure.status.into_raw(),
            log: failure.log,
            tail: failure.tail,
        }
    }

    pub(super) fn into_failure(self) -> Failure {
        Failure {
            step: StepName::Install,
            package: self.package,
            phase: None,
            place: None,
            command: self.command,
            status: ExitStatus::from_raw(self.status),
            log: self.log,
            tail: self.tail,
        }
    }
}

/// Writes a message.
pub(super) fn send(output: &mut dyn Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.flush()
}

/// Reads the next message; none at the end. Other lines are ignored: programs that start workers, such as
/// `srun`, may also write.
pub(super) fn receive<T: DeserializeOwned>(input: &mut dyn BufRead) -> io::Result<Option<T>> {
    loop {
        let mut line = Vec::new();
        if Read::take(&mut *input, LONGEST).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        if let Ok(message) = serde_json::from_slice(&line) {
            return Ok(Some(message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_between_what_others_write() {
        let mut bytes = b"srun: job 7 queued\n{\"other\": 1}\n".to_vec();
        send(&mut bytes, &Answer::Idle).unwrap();
        bytes.extend_from_slice(b"{\"half");
        let mut input = &bytes[..];
        let first = receive::<Answer>(&mut input).unwrap();
        assert!(matches!(first, Some(Answer::Idle)));
        assert!(receive::<Answer>(&mut input).unwrap().is_none());
    }

    #[test]
    fn a_failure_arrives_as_it_was() {
        let failure = Failure {
            step: StepName::Install,
            package: Some("lz4@1.10.0".to_owned()),
            phase: None,
            place: None,
            command: "spack install".to_owned(),
            status: ExitStatus::from_raw(256),
            log: "/x/lz4.log".into(),
            tail: vec!["no".to_owned()],
        };
        let before = format!("{failure:?}");
        let text = serde_json::to_string(&Failed::of(failure)).unwrap();
        let arrived: Failed = serde_json::from_str(&text).unwrap();
        assert_eq!(format!("{:?}", arrived.into_failure()), before);
    }
}
