// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which MPI the steps of a job get in place of their own, as it is written into a variable.
//!
//! Each node finds out for each step whether and how that can be done. The value is
//!
//! ```text
//! 1,mpi=host                              whatever fits of the node's own
//! 1,mpi=PATH[,library=DIRECTORY]…         a prefix or a library, and where it finds its own
//! 1,mpi=…,program=PATH                    the file that needs MPI, if the program does not
//! 1,mpi=…,directory=PATH                  where the step was started
//! ```
//!
//! with bytes escaped as in [`JobImages`](crate::JobImages). A key that is not known is
//! refused: a step that runs with another library than was requested is worse than none.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use crate::job_text::{escaped, plain};

/// Names the variable with the MPI of a job. Slurm hands on what begins like this also where the
/// user wants no variables to be handed on (`--export=NONE`).
pub const JOB_MPI: &str = "SLURM_CABANE_MPI";

const VERSION: &str = "1";
/// The value for the MPI of each node.
const HOST: &str = "host";
/// More directories than any MPI needs.
const MAX_LIBRARIES: usize = 64;

/// Which MPI the steps of a job get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobMpi {
    /// A prefix or a library; none for whatever fits of the node's own.
    pub path: Option<PathBuf>,
    /// Directories with libraries that it needs.
    pub libraries: Vec<PathBuf>,
    /// The file that needs MPI, if it is not the program of the step.
    pub program: Option<PathBuf>,
    /// Where the step was started, by which its program may be named.
    pub directory: Option<PathBuf>,
}

impl JobMpi {
    /// Reads what was written; `None` if it is malformed.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut texts = text.split(',').map(|text| text.split_once('='));
        let first = text.split(',').next();
        if first != Some(VERSION) {
            return None;
        }
        texts.next();
        let (key, with) = texts.next()??;
        let mut mpi = Self {
            path: (with != HOST).then_some(absolute(with)).flatten(),
            libraries: Vec::new(),
            program: None,
            directory: None,
        };
        if key != "mpi" || mpi.path.is_none() && with != HOST {
            return None;
        }
        for text in texts {
            match text? {
                ("library", text) if mpi.libraries.len() < MAX_LIBRARIES => {
                    mpi.libraries.push(absolute(text)?);
                }
                ("program", text) if mpi.program.is_none() => {
                    mpi.program = Some(some(text)?.into());
                }
                ("directory", text) if mpi.directory.is_none() => {
                    mpi.directory = Some(absolute(text)?);
                }
                _ => return None,
            }
        }
        Some(mpi)
    }

    /// Returns the prefix, the library or `host`, as it is typed.
    #[must_use]
    pub fn name(&self) -> OsString {
        match &self.path {
            Some(path) => path.clone().into(),
            None => HOST.into(),
        }
    }
}

fn some(text: &str) -> Option<OsString> {
    plain(text).filter(|text| !text.is_empty())
}

fn absolute(text: &str) -> Option<PathBuf> {
    Some(PathBuf::from(some(text)?)).filter(|path| path.is_absolute())
}

impl fmt::Display for JobMpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION},mpi={}", escaped(&self.name()))?;
        for library in &self.libraries {
            write!(f, ",library={}", escaped(library.as_os_str()))?;
        }
        if let Some(program) = &self.program {
            write!(f, ",program={}", escaped(program.as_os_str()))?;
        }
        if let Some(directory) = &self.directory {
            write!(f, ",directory={}", escaped(directory.as_os_str()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read_again() {
        let host = JobMpi { path: None, libraries: Vec::new(), program: None, directory: None };
        let named = JobMpi {
            path: Some("/opt/my, mpi=5".into()),
            libraries: vec!["/opt/fabric:1/lib".into(), "/lib".into()],
            program: Some("venv/MPI.so".into()),
            directory: Some("/home/me".into()),
        };
        let texts = [&host, &named].map(ToString::to_string);
        assert_eq!(
            texts,
            [
                "1,mpi=host",
                "1,mpi=/opt/my%2c%20mpi%3d5,library=/opt/fabric%3a1/lib,library=/lib,\
                 program=venv/MPI.so,directory=/home/me"
            ]
        );
        assert_eq!(texts.map(|text| JobMpi::parse(&text)), [Some(host), Some(named)]);
    }

    #[test]
    fn what_is_malformed_is_none() {
        let broken = [
            "",
            "1",
            "2,mpi=host",
            "1,mpi",
            "1,mpi=",
            "1,mpi=opt/mpich",
            "1,program=a",
            "1,mpi=host,program=",
            "1,mpi=host,program=a,program=b",
            "1,mpi=host,library=lib",
            "1,mpi=host,later=1",
            "1,mpi=/a%00",
        ];
        assert_eq!(broken.map(JobMpi::parse), [const { None }; 12]);
    }

    proptest::proptest! {
        #[test]
        fn whatever_is_in_the_variable_is_read_or_refused(text in ".*") {
            let _ = JobMpi::parse(&text);
            let _ = JobMpi::parse(&format!("1,mpi=host,{text}"));
        }
    }
}
