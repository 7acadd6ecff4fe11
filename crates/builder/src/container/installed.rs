// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which packages are in a root file system: what dpkg, apk, and pip have written down, and what rpm
//! says.
//!
//! The files are those of an image, in which anything may be: they are read up to a limit, and only
//! where the root of this process is that of the image.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cabane_mount::BuildRoot;
use cabane_process::child::ask;
use cabane_view::PackageRecord;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::{BuildError, Result};

/// The most that is read of one file, in bytes.
const MOST: u64 = 64 << 20;
/// The most files that are read below one directory.
const MOST_FILES: usize = 20_000;
const DPKG: &str = "var/lib/dpkg/status";
/// Images without a shell have a file for each package.
const DPKG_PARTS: &str = "var/lib/dpkg/status.d";
const APK: [&str; 2] = ["lib/apk/db/installed", "usr/lib/apk/db/installed"];
/// Where rpm has its database.
const RPM: [&str; 2] = ["var/lib/rpm", "usr/lib/sysimage/rpm"];
/// Below these, a directory for each version of Python.
const PYTHONS: [&str; 4] = ["usr/lib", "usr/lib64", "usr/local/lib", "usr/local/lib64"];
const SITES: [&str; 2] = ["site-packages", "dist-packages"];

/// What was found.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct Installed {
    pub(super) packages: Vec<PackageRecord>,
    /// Whether rpm has a database, which only rpm can read.
    pub(super) has_rpm: bool,
}

/// Looks into a root, in a copy of this process.
pub(super) fn look(root: BuildRoot) -> Result<Installed> {
    let answer = ask(move || {
        root.enter().map_err(|error| error.to_string())?;
        serde_json::to_vec(&found_below(Path::new("/"))).map_err(|error| error.to_string())
    });
    let answer = answer.map_err(|error| error.to_string()).and_then(|answer| answer);
    let read = |bytes: Vec<u8>| serde_json::from_slice(&bytes).map_err(|error| error.to_string());
    answer.and_then(read).map_err(|error| {
        BuildError::refused(format!("cannot list the packages in the image: {error}"), None)
    })
}

fn found_below(root: &Path) -> Installed {
    let mut packages = dpkg(&text(&root.join(DPKG)));
    for path in entries(&root.join(DPKG_PARTS)) {
        // Beside each is a list of its files.
        if path.extension().is_none_or(|end| end != "md5sums") {
            packages.extend(dpkg(&text(&path)));
        }
    }
    let apk = APK.iter().find_map(|path| {
        let path = root.join(path);
        path.is_file().then(|| text(&path))
    });
    packages.extend(apk_of(&apk.unwrap_or_default()));
    packages.extend(python(root));
    packages.sort();
    packages.dedup();
    let has_rpm = RPM.iter().any(|path| !entries(&root.join(path)).is_empty());
    Installed { packages, has_rpm }
}

/// Reads a file; what is none is empty.
fn text(path: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        // It may be a pipe, for which others would wait.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let file =
            File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
        let mut bytes = Vec::new();
        if file.metadata()?.is_file() {
            file.take(MOST).read_to_end(&mut bytes)?;
        }
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.take(MOST_FILES).map(|entry| entry.path()).collect()
}

fn package(manager: &str, name: &str, version: &str) -> Option<PackageRecord> {
    let is_one = |text: &str| !text.is_empty() && !text.contains(char::is_control);
    (is_one(name) && is_one(version)).then(|| PackageRecord {
        name: name.to_owned(),
        version: version.to_owned(),
        manager: manager.to_owned(),
        ..PackageRecord::default()
    })
}

/// Reads the status of dpkg: of each paragraph its name and version, if it is installed.
fn dpkg(text: &str) -> Vec<PackageRecord> {
    let paragraph = |paragraph: &str| {
        let fields: BTreeMap<&str, &str> =
            paragraph.lines().filter_map(|line| line.split_once(": ")).collect();
        // A list of one package each has no status.
        let status = fields.get("Status").copied().unwrap_or("installed");
        let is_there = status.split(' ').next_back() == Some("installed");
        let version = fields.get("Version").filter(|_| is_there)?;
        package("dpkg", fields.get("Package")?, version.trim())
    };
    text.split("\n\n").filter_map(paragraph).collect()
}

/// Reads the database of apk.
fn apk_of(text: &str) -> Vec<PackageRecord> {
    let paragraph = |paragraph: &str| {
        let field = |key: &str| paragraph.lines().find_map(|line| line.strip_prefix(key));
        package("apk", field("P:")?, field("V:")?)
    };
    text.split("\n\n").filter_map(paragraph).collect()
}

/// Reads what `rpm -qa` says: a name and a version on each line.
pub(super) fn rpm(text: &str) -> Vec<PackageRecord> {
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    lines.filter_map(|(name, version)| package("rpm", name, version)).collect()
}

/// Finds packages of Python that dpkg does not know.
fn python(root: &Path) -> Vec<PackageRecord> {
    let libraries = PYTHONS.iter().flat_map(|directory| entries(&root.join(directory)));
    let is_python = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python"))
    };
    let sites = libraries.filter(is_python).flat_map(|path| SITES.map(|site| path.join(site)));
    let installed = sites.flat_map(|site| entries(&site));
    let is_one = |path: &PathBuf| path.extension().is_some_and(|end| end == "dist-info");
    let metadata = installed.filter(is_one).map(|path| text(&path.join("METADATA")));
    let read = |text: String| {
        let head = || text.lines().take_while(|line| !line.is_empty());
        let field = |key: &str| head().find_map(|line| line.strip_prefix(key));
        package("python", field("Name: ")?, field("Version: ")?)
    };
    metadata.filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(packages: &[PackageRecord]) -> Vec<String> {
        let line = |one: &PackageRecord| format!("{} {} {}", one.manager, one.name, one.version);
        packages.iter().map(line).collect()
    }

    #[test]
    fn what_each_manager_has_written_down_is_found() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put(
            DPKG,
            "Package: zlib1g\nStatus: install ok installed\nVersion: 1:1.2\nDescription: a: b\n \
             Version: 3\n\nPackage: gone\nStatus: deinstall ok config-files\nVersion: 1\n\n",
        );
        put("var/lib/dpkg/status.d/base", "Package: base\nVersion: 12\n");
        put("var/lib/dpkg/status.d/base.md5sums", "Package: no\nVersion: 1\n");
        put(APK[0], "C:Q1\nP:musl\nV:1.2.4\n\nP:busybox\nV:1.36\n");
        let site = "usr/local/lib/python3.12/site-packages/numpy-2.0.dist-info/METADATA";
        put(site, "Metadata-Version: 2.1\nName: numpy\nVersion: 2.0\n\nName: no\n");
        put("var/lib/rpm/rpmdb.sqlite", "");
        let found = found_below(root.path());
        let expected = [
            "dpkg base 12",
            "apk busybox 1.36",
            "apk musl 1.2.4",
            "python numpy 2.0",
            "dpkg zlib1g 1:1.2",
        ];
        assert_eq!(lines(&found.packages), expected);
        assert!(found.has_rpm);
    }

    #[test]
    fn what_rpm_says_is_read_and_the_rest_is_skipped() {
        let found = rpm("bash\t5.2-1.fc40\nwarning: no\n\t1\nzlib\t\n");
        assert_eq!(lines(&found), ["rpm bash 5.2-1.fc40"]);
    }

    #[test]
    fn a_pipe_in_the_place_of_a_list_is_not_waited_for() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let root = tempfile::tempdir().unwrap();
        let status = root.path().join(DPKG);
        fs::create_dir_all(status.parent().unwrap()).unwrap();
        mknodat(CWD, &status, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
        assert!(found_below(root.path()).packages.is_empty());
    }
}
