// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where archives of releases are: a file, a directory, or a URL.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cabane_label::{escape, shown};
use cabane_process::installation::hint;
use cabane_report::{IoContext, Kind, Report, Result};

/// The largest list and the largest signature that are read, in bytes.
const MAX_LIST: u64 = 1024 * 1024;

/// Where archives are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// An archive.
    Archive(PathBuf),
    /// A directory with archives and the list of their sums.
    Directory(PathBuf),
    /// The URL of such a directory, without a slash at the end.
    Url(String),
}

impl Place {
    /// Reads what was typed or set.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        if let Some((scheme, rest)) = text.split_once("://") {
            if scheme != "https" || rest.is_empty() {
                let message = format!(
                    "releases are downloaded with https only, and not from {}",
                    escape(text)
                );
                let hint =
                    "name a URL such as https://example.org/cabane, or a directory".to_owned();
                return Err(Report::new(Kind::Usage, message).hinted(hint));
            }
            return Ok(Self::Url(text.trim_end_matches('/').to_owned()));
        }
        let path = Path::new(text);
        let found = fs::metadata(path).or_failed(|| format!("find the release {}", shown(path)))?;
        let path = path.to_owned();
        Ok(if found.is_dir() { Self::Directory(path) } else { Self::Archive(path) })
    }

    /// Returns the content of a small file beside the archives.
    pub(crate) fn read(&self, name: &str, scratch: &Path) -> Result<Vec<u8>> {
        let path = self.bring(name, scratch)?;
        let mut content = Vec::new();
        let file = File::open(&path).or_failed(|| format!("open {}", shown(&path)))?;
        let read = file.take(MAX_LIST + 1).read_to_end(&mut content);
        read.or_failed(|| format!("read {}", shown(&path)))?;
        if content.len() as u64 > MAX_LIST {
            return Err(Report::new(Kind::BadInput, format!("{name} has more than 1 MiB")));
        }
        Ok(content)
    }

    /// Copies or downloads a file into a directory of one's own, where nobody changes it after it is checked.
    pub(crate) fn bring(&self, name: &str, scratch: &Path) -> Result<PathBuf> {
        let copy = scratch.join(name);
        let directory = match self {
            Self::Url(url) => return download(&format!("{url}/{name}"), &copy).map(|()| copy),
            Self::Directory(directory) => directory,
            Self::Archive(archive) => archive.parent().unwrap_or_else(|| Path::new("")),
        };
        let path = directory.join(name);
        fs::copy(&path, &copy).or_failed(|| format!("copy {}", shown(&path)))?;
        Ok(copy)
    }

    /// Returns where an archive is unpacked by hand: hints of the command name the installer there.
    pub(crate) fn unpacked(&self, name: &str) -> Option<PathBuf> {
        let directory = match self {
            Self::Archive(archive) => archive.parent()?,
            Self::Directory(directory) => directory,
            Self::Url(_) => return None,
        };
        let directory = fs::canonicalize(Path::new(".").join(directory)).ok()?;
        Some(directory.join(name.strip_suffix(".tar.gz")?))
    }

    /// Returns whether the list of sums is beside an archive. A directory and a URL must have it.
    pub(crate) fn must_have_list(&self, name: &str) -> bool {
        match self {
            Self::Archive(archive) => archive.with_file_name(name).exists(),
            Self::Directory(_) | Self::Url(_) => true,
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Archive(path) | Self::Directory(path) => shown(path).fmt(f),
            Self::Url(url) => escape(url).fmt(f),
        }
    }
}

/// Downloads a file with curl, which knows the proxies and certificates of the site.
fn download(url: &str, target: &Path) -> Result<()> {
    // A configuration file, since what is an argument can be an option as well.
    let settings =
        format!("url = {}\noutput = {}\n", quoted(url), quoted(&target.to_string_lossy()));
    let mut curl = Command::new("curl");
    curl.args(["--fail", "--silent", "--show-error", "--location", "--proto", "=https"]);
    curl.args([
        "--connect-timeout",
        "30",
        "--speed-limit",
        "1000",
        "--speed-time",
        "60",
        "--config",
        "-",
    ]);
    let started = curl.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = started.map_err(|error| {
        Report::caused(Kind::NotFound, "cannot start curl, which downloads releases", error)
            .hinted(hint("curl"))
    })?;
    if let Some(mut stdin) = child.stdin.take() {
        // If curl has ended, it says why.
        let _ = stdin.write_all(settings.as_bytes());
    }
    let ended = child.wait_with_output().or_failed(|| "wait for curl".to_owned())?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    let said =
        said.lines().find(|line| line.starts_with("curl: ")).unwrap_or("curl failed").to_owned();
    Err(Report::new(Kind::Failure, format!("cannot download {}: {}", escape(url), escape(&said))))
}

/// A value in a configuration file of curl.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars().filter(|one| !one.is_control()) {
        if matches!(character, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted + "\""
}
