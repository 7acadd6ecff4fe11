// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What of a node is seen in the root image of a job.
//!
//! Where the job is submitted its owner says what, in more kinds of texts of the list in
//! [`JobImages`](crate::JobImages):
//!
//! ```text
//! bind:SOURCE:TARGET[:ro][:must]      a file or directory; one that is missing on a node is
//!                                     left out, but for those that must be there
//! lines:FILE:TEXT                     lines at the beginning of a text file
//! home=no                             the home directory was to be left out
//! device:NAME[:must]                  what a device of the node brings, which is found out there;
//!                                     one that is missing is left out, but for those that must
//!                                     be there
//! ```

use std::fmt;
use std::path::PathBuf;

use cabane_privileged::{Error, PrivilegedBind, PrivilegedRoot, Request};
use cabane_process::open_as::Opened;
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::Operation;
use crate::job_text::{escaped, plain, printable};

pub(crate) const BIND: &str = "bind";
pub(crate) const LINES: &str = "lines";
pub(crate) const HOME: &str = "home";
pub(crate) const NO: &str = "no";
pub(crate) const DEVICE: &str = "device";

/// What of a node is seen in the root image of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobRoot {
    /// Files and directories.
    pub binds: Vec<JobBind>,
    /// Text files, and lines at their beginning.
    pub lines: Vec<(PathBuf, String)>,
    /// Whether the home directory was left out, for the steps of the job.
    pub without_home: bool,
    /// Devices of the node.
    pub devices: Vec<JobDevice>,
}

/// A device of a node that a job has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDevice {
    /// Its name, or a text for several.
    pub name: String,
    /// Whether the step fails on a node that does not have it.
    pub must_be: bool,
}

/// A file or directory of a node, and where it is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobBind {
    /// Where it is.
    pub source: PathBuf,
    /// Where it is seen.
    pub target: PathBuf,
    /// Whether writing is refused there.
    pub read_only: bool,
    /// Whether the step fails on a node that does not have it.
    pub must_be: bool,
}

impl JobBind {
    /// Makes one without which the step fails.
    #[must_use]
    pub fn required(source: PathBuf, target: PathBuf, read_only: bool) -> Self {
        Self { source, target, read_only, must_be: true }
    }
}

impl JobRoot {
    /// Takes what is seen from operations of a plan, as far as it exists on a node.
    #[must_use]
    pub fn of(operations: &[Operation]) -> Self {
        let mut root = Self::default();
        for operation in operations {
            match operation {
                Operation::Bind { source, target, read_only } => root.binds.push(JobBind {
                    source: source.clone(),
                    target: target.clone(),
                    read_only: *read_only,
                    must_be: false,
                }),
                Operation::Extend { file, lines } => root.lines.push((file.clone(), lines.clone())),
                _ => {}
            }
        }
        root
    }

    /// Reads one of its texts, of a known kind.
    pub(crate) fn take(&mut self, kind: &str, fields: &[&str]) -> Option<()> {
        let path =
            |field: &str| Some(PathBuf::from(plain(field)?)).filter(|path| path.is_absolute());
        match (kind, fields) {
            (BIND, [source, target, flags @ ..]) => self.binds.push(JobBind {
                source: path(source)?,
                target: path(target)?,
                read_only: flags.contains(&"ro"),
                must_be: flags.contains(&"must"),
            }),
            (LINES, [file, text]) => {
                let text = plain(text)?.into_string().ok()?;
                self.lines.push((path(file)?, text));
            }
            (DEVICE, [name, flags @ ..]) => {
                // It becomes an argument of a command line.
                let name = printable(name).filter(|name| name.starts_with(is_letter))?;
                self.devices.push(JobDevice { name, must_be: flags.contains(&"must") });
            }
            _ => return None,
        }
        Some(())
    }

    /// Reads one text about a place of the node, as it is written in a list.
    ///
    /// # Errors
    ///
    /// That it is none.
    #[expect(clippy::result_unit_err, reason = "there is no more to say")]
    pub fn add_place(&mut self, text: &str) -> Result<(), ()> {
        let fields: Vec<&str> = text.split(':').collect();
        match fields.as_slice() {
            [BIND, fields @ ..] if self.binds.len() < Request::MAX_BINDS => {
                self.take(BIND, fields).ok_or(())
            }
            _ => Err(()),
        }
    }

    /// Returns the places that are to be opened as the owner.
    pub(crate) fn named(&self) -> impl Iterator<Item = PathBuf> {
        self.binds.iter().map(|bind| bind.source.clone())
    }

    /// Takes what was opened of the places, in their order.
    pub(crate) fn with(
        &self,
        opened: impl IntoIterator<Item = Result<Opened, Errno>>,
    ) -> Result<PrivilegedRoot, Error> {
        let mut binds = Vec::with_capacity(self.binds.len());
        for (bind, opened) in self.binds.iter().zip(opened) {
            match opened {
                Ok(Opened { file, mode }) => binds.push(PrivilegedBind {
                    source: file,
                    is_directory: FileType::from_raw_mode(mode) == FileType::Directory,
                    target: bind.target.clone(),
                    read_only: bind.read_only,
                }),
                Err(Errno::NOENT | Errno::ACCESS | Errno::NOTDIR) if !bind.must_be => {}
                Err(errno) => return Err(Error::step("show", &bind.source)(errno)),
            }
        }
        Ok(PrivilegedRoot { binds, lines: self.lines.clone() })
    }
}

fn is_letter(c: char) -> bool {
    c.is_ascii_alphanumeric()
}

impl fmt::Display for JobBind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, target) = (escaped(self.source.as_os_str()), escaped(self.target.as_os_str()));
        write!(f, "{BIND}:{source}:{target}")?;
        for (is_set, flag) in [(self.read_only, "ro"), (self.must_be, "must")] {
            if is_set {
                write!(f, ":{flag}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for JobRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.without_home {
            write!(f, ",{HOME}={NO}")?;
        }
        for bind in &self.binds {
            write!(f, ",{bind}")?;
        }
        for (file, lines) in &self.lines {
            let file = escaped(file.as_os_str());
            write!(f, ",{LINES}:{file}:{}", escaped(lines.as_ref()))?;
        }
        for device in &self.devices {
            write!(f, ",{DEVICE}:{}", escaped(device.name.as_ref()))?;
            if device.must_be {
                f.write_str(":must")?;
            }
        }
        Ok(())
    }
}
