// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where records of steps go: `file:PATH`, `syslog` or the address of a collector.

use std::fmt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Where `syslog` is on every system.
const SYSLOG: &str = "/dev/log";

/// Where records go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A line at the end of a file.
    File(PathBuf),
    /// A message to a socket of a log daemon.
    Syslog(PathBuf),
    /// A request to a collector.
    Collector(String),
}

/// A text that is no destination.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is no place for records")]
pub struct DestinationError(String);

impl FromStr for Destination {
    type Err = DestinationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // It is one field in a file of Slurm, which knows no quotes.
        let is_one_field =
            !text.contains(|letter: char| letter.is_whitespace() || letter.is_control());
        let absolute = |path: &str| path.starts_with('/').then(|| PathBuf::from(path));
        let found = if text == "syslog" {
            Some(Self::Syslog(SYSLOG.into()))
        } else if let Some(path) = text.strip_prefix("syslog:") {
            absolute(path).map(Self::Syslog)
        } else if let Some(path) = text.strip_prefix("file:") {
            absolute(path).map(Self::File)
        } else {
            cabane_registry::is_address_of_collector(text).then(|| Self::Collector(text.to_owned()))
        };
        let shown = || cabane_label::escape(text).into_owned();
        found.filter(|_| is_one_field).ok_or_else(|| DestinationError(shown()))
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Syslog(path) if path == Path::new(SYSLOG) => f.write_str("syslog"),
            Self::Syslog(path) => write!(f, "syslog:{}", path.display()),
            Self::Collector(address) => f.write_str(address),
        }
    }
}

impl Destination {
    /// Says what is in the way on this machine, as far as that shows without a record.
    pub fn fault(&self) -> Option<String> {
        match self {
            Self::File(path) => fault_of_directory(path.parent()?),
            Self::Syslog(path) => {
                let found = std::fs::metadata(path);
                let is_there = found.is_ok_and(|found| found.file_type().is_socket());
                (!is_there).then(|| format!("there is no socket {} for records", path.display()))
            }
            Self::Collector(_) => None,
        }
    }
}

/// Who can write to the directory decides what the file is.
fn fault_of_directory(path: &Path) -> Option<String> {
    let shown = path.display();
    match std::fs::metadata(path) {
        Ok(found) if !found.is_dir() => Some(format!("{shown} is no directory for records")),
        Ok(found) if found.uid() != 0 || found.mode() & 0o022 != 0 => Some(format!(
            "the directory {shown} for records does not belong to root, or others may change it"
        )),
        Ok(_) => None,
        Err(_) => {
            Some(format!("there is no directory {shown} for records: `install -d -m 750 {shown}`"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_written_as_it_is_read() {
        let texts = [
            "syslog",
            "syslog:/run/log",
            "file:/var/log/steps.jsonl",
            "https://collector.example:8080/steps",
        ];
        let again = texts.map(|text| text.parse::<Destination>().unwrap().to_string());
        assert_eq!(again, texts);
    }

    #[test]
    fn what_names_no_place_is_refused() {
        let texts = ["", "file:steps", "file:/a b", "syslog:log", "ftp://a", "http://", "a"];
        assert!(texts.iter().all(|text| text.parse::<Destination>().is_err()));
    }
}
