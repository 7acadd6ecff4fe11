// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The machine that is looked at: its files below a root, its programs.
//!
//! Nothing below a home is seen, by whatever link one comes there: what a user has
//! installed for himself is no part of the system. Paths are those of the machine;
//! only here is it known that it may be a tree in a directory, as in tests.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::ask::{self, Answer};

/// How long programs may take, and how much they may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For one question.
    pub answer: Duration,
    /// For all questions together.
    pub total: Duration,
    /// The number of bytes that are read of an answer.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { answer: Duration::from_secs(5), total: Duration::from_secs(15), bytes: 1 << 20 }
    }
}

/// Files larger than this hold nothing that is looked for.
const LARGEST_FILE: u64 = 8 << 20;

/// What belongs to the system, no matter whose home it is.
const SYSTEM: [&str; 5] = ["/usr/bin", "/usr/sbin", "/usr/lib", "/usr/local/bin", "/opt"];

/// The number of links that are followed on one path.
const LINKS: usize = 40;

/// A machine.
#[derive(Debug)]
pub(crate) struct Machine {
    root: PathBuf,
    homes: Vec<PathBuf>,
    limits: Limits,
    end: Instant,
    notes: Mutex<Vec<Note>>,
}

impl Machine {
    pub(crate) fn new(root: &Path, homes: &[PathBuf], limits: Limits) -> Self {
        let usual = ["/home", "/root"].map(PathBuf::from);
        // Users of services have homes such as `/bin`; that does not make it private.
        let is_home = |home: &PathBuf| {
            let mut places = SYSTEM.iter().map(Path::new);
            home.is_absolute() && !places.any(|place| place.starts_with(home))
        };
        let mut machine = Self {
            root: root.to_owned(),
            homes: Vec::new(),
            limits,
            end: Instant::now() + limits.total,
            notes: Mutex::new(Vec::new()),
        };
        // A home may be a link itself: `/users/me` to `/nfs/users/me`.
        let named = usual.iter().chain(homes).filter(|home| is_home(home));
        let real: Vec<PathBuf> =
            named.clone().filter_map(|home| machine.resolved(home)).filter(is_home).collect();
        machine.homes = named.cloned().chain(real).collect();
        machine
    }

    /// Says something about the machine.
    pub(crate) fn note(&self, subject: impl Into<String>, text: impl Into<String>) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.push(Note { subject: subject.into(), text: text.into() });
    }

    /// Returns what was reported, in an order that does not depend on time.
    pub(crate) fn into_notes(self) -> Vec<Note> {
        let notes = self.notes.into_inner();
        let mut notes = notes.unwrap_or_else(PoisonError::into_inner);
        notes.sort();
        notes.dedup();
        notes
    }

    /// Returns where a path of the machine is for this process.
    fn outside(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Follows all links, inside of the machine. `None` if there is nothing.
    fn resolved(&self, path: &Path) -> Option<PathBuf> {
        let mut done = PathBuf::from("/");
        let mut rest: Vec<_> = components(path);
        let mut links = 0;
        while let Some(part) = rest.pop() {
            if part == ".." {
                done.pop();
                continue;
            }
            let next = done.join(&part);
            let metadata = fs::symlink_metadata(self.outside(&next)).ok()?;
            if !metadata.is_symlink() {
                done = next;
                continue;
            }
            links += 1;
            if links > LINKS {
                return None;
            }
            let target = fs::read_link(self.outside(&next)).ok()?;
            if target.is_absolute() {
                done = PathBuf::from("/");
            }
            rest.extend(components(&target));
        }
        Some(done)
    }

    /// Follows all links; `None` if there is nothing, or if it is below a home.
    pub(crate) fn real(&self, path: &str) -> Option<PathBuf> {
        let path = self.resolved(Path::new(path))?;
        let is_private = self.homes.iter().any(|home| path.starts_with(home));
        (!is_private).then_some(path)
    }

    /// Returns a path as it is at the end of all links.
    pub(crate) fn real_text(&self, path: &str) -> Option<String> {
        self.real(path)?.into_os_string().into_string().ok()
    }

    /// Tells whether there is such a file, directory or device.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.real(path).is_some()
    }

    /// Reads a text; what is no file, or a very large one, has none.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        let path = self.outside(&self.real(path)?);
        // A pipe would wait for its writer.
        if !fs::metadata(&path).ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        let file = File::open(path).ok()?;
        file.take(LARGEST_FILE).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns which of some names are in a file, however large it is.
    pub(crate) fn names_in(&self, path: &str, wanted: &[&'static str]) -> Vec<&'static str> {
        let is_file = |path: &PathBuf| fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
        let path = self.real(path).map(|path| self.outside(&path));
        let Some(mut file) = path.filter(is_file).and_then(|path| File::open(path).ok()) else {
            return Vec::new();
        };
        let longest = wanted.iter().map(|name| name.len()).max().unwrap_or(0);
        let mut found = Vec::new();
        let mut window = Vec::new();
        let mut part = vec![0; 1 << 16];
        while let Ok(length @ 1..) = file.read(&mut part) {
            window.extend(part.iter().take(length));
            for name in wanted.iter().filter(|name| contains(&window, name.as_bytes())) {
                if !found.contains(name) {
                    found.push(*name);
                }
            }
            // The end may be the beginning of a name.
            window.drain(..window.len().saturating_sub(longest));
        }
        found
    }

    /// Lists a directory in order. Names that could not be in a file of ours
    /// without care are left out.
    pub(crate) fn names(&self, directory: &str) -> Vec<String> {
        let Some(path) = self.real(directory) else {
            return Vec::new();
        };
        let Ok(entries) = fs::read_dir(self.outside(&path)) else {
            return Vec::new();
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| is_plain_name(name)).collect();
        names.sort();
        names
    }

    /// Returns the path if it is a program of the system.
    pub(crate) fn program(&self, path: &str) -> Option<String> {
        let real = self.real(path)?;
        let metadata = fs::metadata(self.outside(&real)).ok()?;
        let is_program = metadata.is_file() && metadata.permissions().mode() & 0o111 != 0;
        is_program.then(|| path.to_owned())
    }

    /// Asks a program, and returns what it says if it ends well.
    pub(crate) fn ask(&self, program: &str, arguments: &[&str]) -> Option<String> {
        self.ask_anyway(program, arguments)
            .filter(|answer| answer.is_success)
            .map(|answer| answer.text)
    }

    /// Asks a program, and returns what it says however it ends.
    pub(crate) fn ask_anyway(&self, program: &str, arguments: &[&str]) -> Option<Answer> {
        // Where the root is a directory, absolute links would lead out of it.
        let path = match self.root.parent() {
            None => PathBuf::from(program),
            Some(_) => self.outside(&self.real(program)?),
        };
        let end = self.end.min(Instant::now() + self.limits.answer);
        match ask::ask(&path, arguments, end, self.limits.bytes) {
            Ok(answer) => Some(answer),
            Err(reason) => {
                self.note(program, format!("left out: {reason}"));
                None
            }
        }
    }
}

fn contains(bytes: &[u8], name: &[u8]) -> bool {
    let first = name.first().copied().unwrap_or_default();
    let mut rest = bytes;
    while let Some(place) = rest.iter().position(|byte| *byte == first) {
        rest = rest.get(place..).unwrap_or_default();
        if rest.starts_with(name) {
            return true;
        }
        rest = rest.get(1..).unwrap_or_default();
    }
    false
}

/// Returns the parts of a path, the last one first.
fn components(path: &Path) -> Vec<std::ffi::OsString> {
    path.components()
        .rev()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect()
}

fn is_plain_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+' | ':');
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_plain)
}

/// A remark on something that is not used or missing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Note {
    /// About what.
    pub subject: String,
    /// What there is to say.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn machine(root: &Path) -> Machine {
        Machine::new(root, &[PathBuf::from("/users/me")], Limits::default())
    }

    fn shim(root: &Path, place: &str) {
        let place = root.join(place);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::create_dir_all(root.join("usr/bin")).unwrap();
        fs::write(&place, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn a_link_to_a_program_below_a_home_leads_nowhere() {
        let root = tempfile::tempdir().unwrap();
        shim(root.path(), "nfs/me/shims/cmake");
        fs::create_dir_all(root.path().join("users")).unwrap();
        symlink("/nfs/me", root.path().join("users/me")).unwrap();
        symlink("/users/me/shims/cmake", root.path().join("usr/bin/cmake")).unwrap();
        assert_eq!(machine(root.path()).program("/usr/bin/cmake"), None);
    }

    #[test]
    fn a_service_whose_home_is_a_directory_of_the_system_hides_nothing() {
        let root = tempfile::tempdir().unwrap();
        shim(root.path(), "usr/bin/cmake");
        symlink("usr/bin", root.path().join("bin")).unwrap();
        let homes = ["/", "/bin", "/usr"].map(PathBuf::from);
        let machine = Machine::new(root.path(), &homes, Limits::default());
        assert!(machine.program("/usr/bin/cmake").is_some());
    }

    #[test]
    fn links_are_followed_inside_of_the_machine() {
        let root = tempfile::tempdir().unwrap();
        shim(root.path(), "opt/tool/bin/cmake");
        symlink("../../../../opt/tool/bin/cmake", root.path().join("usr/bin/cmake")).unwrap();
        let real = machine(root.path()).real_text("/usr/bin/cmake");
        assert_eq!(real.as_deref(), Some("/opt/tool/bin/cmake"));
    }

    #[test]
    fn a_name_is_found_across_the_parts_in_which_a_file_is_read() {
        let root = tempfile::tempdir().unwrap();
        let text = [vec![b'c'; (1 << 16) - 4], b"cudaMemcpy".to_vec()].concat();
        fs::write(root.path().join("library"), text).unwrap();
        let found = machine(root.path()).names_in("/library", &["zeInit", "cudaMemcpy"]);
        assert_eq!(found, ["cudaMemcpy"]);
    }

    #[test]
    fn links_in_a_circle_end_somewhere() {
        let root = tempfile::tempdir().unwrap();
        symlink("/b", root.path().join("a")).unwrap();
        symlink("/a", root.path().join("b")).unwrap();
        assert!(!machine(root.path()).has("/a"));
    }
}
