// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a container gets with the devices that were chosen.

use std::fs;
use std::path::{Path, PathBuf};

use cabane_label::{escape, shown};
use cabane_recipe::{ContainerEdits, DeviceHook, DeviceMount, DeviceNode};
use rustix::process::{getegid, getgroups};

use crate::hooks::{self, Purpose};
use crate::libraries::{Seen, Sonames, add_libraries, add_links};
use crate::{Chosen, DeviceError, DeviceWarning, nodes};

/// What of the kernel's is seen in every container as it is.
const OF_KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];

/// How much of it is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Everything: the container has files of its own.
    Everything,
    /// Variables: the files of the host are there.
    Variables,
}

/// What a container gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// Files and directories of the host, but for what comes with a directory among them.
    pub places: Vec<Place>,
    /// Variables and their values; of two with one name the last one holds.
    pub variables: Vec<(String, String)>,
    /// Where the loader looks before other directories.
    pub library_path: Vec<PathBuf>,
    /// Libraries of the image that may be newer than those of the driver.
    pub compatibility: Option<Compatibility>,
    /// What the user should know.
    pub warnings: Vec<DeviceWarning>,
}

/// A file or directory of the host, and where it is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where it is.
    pub source: PathBuf,
    /// Where it is seen, a path without `.` and `..`.
    pub target: PathBuf,
    /// Whether writing is refused there.
    pub read_only: bool,
}

/// Libraries that an image may have for drivers that are older than it expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compatibility {
    /// Where the image has them, if it has any.
    pub directory: PathBuf,
    /// The version of the driver. Those of the image win if their first number is higher.
    pub driver: String,
}

type Link<'a> = (PathBuf, PathBuf, (&'a Path, u32));

/// What is gathered from all specifications.
#[derive(Default)]
struct Gathered<'a> {
    given: Given,
    seen: Seen,
    links: Vec<Link<'a>>,
    folders: Vec<PathBuf>,
    /// Nodes that the user may not open, and what the kernel says.
    closed: Vec<(PathBuf, String)>,
}

impl Chosen<'_> {
    /// Says what a container gets, after looking whether everything is there. `is_set` tells of a variable
    /// whether the container has it anyhow.
    ///
    /// # Errors
    ///
    /// What is not there, or another one than a specification says.
    pub fn give(
        &self,
        wanted: Wanted,
        is_set: &dyn Fn(&str) -> bool,
    ) -> Result<Given, DeviceError> {
        let mut gathered = Gathered::default();
        for (file, edits) in &self.edits {
            gathered.take(file, edits, wanted, is_set)?;
        }
        Ok(gathered.finish())
    }
}

impl<'a> Gathered<'a> {
    fn take(
        &mut self,
        file: &'a Path,
        edits: &ContainerEdits,
        wanted: Wanted,
        is_set: &dyn Fn(&str) -> bool,
    ) -> Result<(), DeviceError> {
        self.given.variables.extend_from_slice(&edits.env);
        for node in &edits.nodes {
            self.node(file, node)?;
        }
        self.groups(file, &edits.groups);
        for (key, line) in &edits.unsupported {
            let why = "it takes the rights of root";
            self.leave_out(file, *line, &format!("`{key}`"), why);
        }
        if wanted == Wanted::Everything {
            for mount in &edits.mounts {
                self.mount(file, mount)?;
            }
            for hook in &edits.hooks {
                self.hook(file, hook, is_set);
            }
        }
        Ok(())
    }

    fn node(&mut self, file: &Path, node: &DeviceNode) -> Result<(), DeviceError> {
        let looked = nodes::look(node, file)?;
        if let Some((source, target)) = looked.place {
            self.seen.insert(target, (source, false));
        }
        if let Some(error) = looked.refusal {
            self.closed.push((node.host_path.clone(), error.to_string()));
        }
        Ok(())
    }

    fn groups(&mut self, file: &Path, groups: &[u32]) {
        let mine = getgroups().unwrap_or_default();
        let is_mine = |group: u32| {
            let own = getegid().as_raw() == group;
            own || mine.iter().any(|one| one.as_raw() == group)
        };
        for group in groups.iter().copied().filter(|group| *group != 0) {
            let file = shown(file);
            let text = format!("{file} wants you to be in the group {group}, and you are not");
            let is_known = self.given.warnings.iter().any(|known| known.text == text);
            if !is_mine(group) && !is_known {
                self.warn(text);
            }
        }
    }

    fn warn(&mut self, text: String) {
        self.given.warnings.push(DeviceWarning { text, is_no_access: false });
    }

    fn leave_out(&mut self, file: &Path, line: u32, what: &str, why: &str) {
        self.warn(format!("{}:{line}: {} is left out: {why}", shown(file), escape(what)));
    }

    fn mount(&mut self, file: &Path, mount: &DeviceMount) -> Result<(), DeviceError> {
        let target = mount.target.as_path();
        if let Some(kind) = &mount.file_system {
            let what = format!("{kind} at {}", target.display());
            self.leave_out(file, mount.line, &what, "only files of the host are shown");
            return Ok(());
        }
        fs::metadata(&mount.source)
            .map_err(|error| DeviceError::place(file, mount.line, &mount.source, error))?;
        if !OF_KERNEL.iter().any(|place| target.starts_with(place)) {
            let source = (mount.source.clone(), mount.read_only);
            self.seen.insert(target.to_owned(), source);
        } else if target != mount.source {
            let what = target.display().to_string();
            let why = "it is in a directory of the kernel, which is that of the host";
            self.leave_out(file, mount.line, &what, why);
        }
        Ok(())
    }

    fn hook(&mut self, file: &'a Path, hook: &DeviceHook, is_set: &dyn Fn(&str) -> bool) {
        match hooks::purpose(hook, is_set) {
            Some(Purpose::Links(links)) => {
                let about = (file, hook.line);
                let links = links.into_iter();
                let link = |(target, link): (String, String)| (target.into(), link.into(), about);
                self.links.extend(links.map(link));
            }
            Some(Purpose::Folders(folders)) => {
                for folder in folders {
                    if !self.folders.contains(&folder) {
                        self.folders.push(folder);
                    }
                }
            }
            Some(Purpose::Compatibility(one)) => self.given.compatibility = Some(one),
            Some(Purpose::Nothing) => {}
            None => {
                let (file, line, title) = (shown(file), hook.line, hooks::title(hook));
                let title = escape(&title);
                self.warn(format!("{file}:{line}: {title} is not run: no program of a device is"));
            }
        }
    }

    fn finish(mut self) -> Given {
        let links = std::mem::take(&mut self.links);
        let mut sonames = Sonames::default();
        let left = add_links(&mut self.seen, &self.folders, &mut sonames, links);
        for (target, link, (file, line)) in left {
            let what = format!("the link {} to {}", link.display(), target.display());
            let why = "the device does not bring what it leads to";
            self.leave_out(file, line, &what, why);
        }
        self.given.library_path = add_libraries(&mut self.seen, &self.folders, &mut sonames);
        self.warn_of_closed();
        for (target, (source, read_only)) in self.seen {
            let comes_with = |outer: &Place| {
                let rest = target.strip_prefix(&outer.target);
                rest.is_ok_and(|rest| outer.source.join(rest).exists())
            };
            if !self.given.places.iter().any(comes_with) {
                self.given.places.push(Place { source, target, read_only });
            }
        }
        self.given
    }

    fn warn_of_closed(&mut self) {
        let mut closed = std::mem::take(&mut self.closed);
        closed.sort();
        closed.dedup();
        while let Some((_, reason)) = closed.first().cloned() {
            let same = closed.extract_if(.., |(_, other)| *other == reason);
            let nodes: Vec<String> = same.map(|(node, _)| node.display().to_string()).collect();
            let text = format!("you cannot use {}: {reason}", nodes.join(", "));
            self.given.warnings.push(DeviceWarning { text, is_no_access: true });
        }
    }
}
