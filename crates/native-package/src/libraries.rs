// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Libraries of the system that a package needs.

use std::path::Path;

use cabane_compat::{HostLibraries, LibraryLack};
use cabane_label::escape;
use cabane_report::{Kind, Report, Result};
use cabane_view::{HostNeeds, NeededLibrary};

/// A library of the system.
pub(crate) struct Library<'a> {
    pub(crate) needed: &'a NeededLibrary,
    /// What this machine lacks of it.
    pub(crate) lack: Option<LibraryLack>,
}

impl Library<'_> {
    /// Whether the package works without it: this machine lacks it, and only plugins need it.
    pub(crate) fn is_optional(&self) -> bool {
        self.needed.later && self.lack.is_some()
    }
}

/// The libraries of the system that a package needs.
pub(crate) struct Libraries<'a> {
    pub(crate) all: Vec<Library<'a>>,
    /// Whether programs of this machine could use them.
    pub(crate) is_for_this_machine: bool,
    is_wide: bool,
}

impl<'a> Libraries<'a> {
    pub(crate) fn new(needs: &'a HostNeeds) -> Result<Self> {
        let here = HostLibraries::default();
        let architecture = needs.architectures.first().map(String::as_str);
        let directories = || needs.search_paths.iter().map(Path::new);
        let mut all = Vec::new();
        for needed in &needs.libraries {
            let texts = [&needed.name].into_iter().chain(&needed.versions);
            if let Some(bad) = texts.into_iter().find(|text| !is_plain(text)) {
                let message =
                    format!("a file needs the library `{}`, which is no name", escape(bad));
                return Err(Report::new(Kind::BadInput, message)
                    .detailed(format!("needed by {}", escape(&needed.users.join(", ")))));
            }
            let lack = here.lack(&needed.name, &needed.versions, directories());
            all.push(Library { needed, lack });
        }
        Ok(Self {
            all,
            is_for_this_machine: architecture.is_none_or(|one| one == std::env::consts::ARCH),
            is_wide: architecture != Some("i386"),
        })
    }

    /// Returns what some of the libraries are called by the generator of rpm.
    pub(crate) fn as_rpm(&self, is_meant: impl Fn(&Library<'a>) -> bool) -> Vec<String> {
        let mark = if self.is_wide { "(64bit)" } else { "" };
        let mut names = Vec::new();
        for library in self.all.iter().filter(|library| is_meant(library)) {
            let name = &library.needed.name;
            let whole = if self.is_wide { format!("{name}(){mark}") } else { name.clone() };
            names.push(whole);
            let versions = library.needed.versions.iter();
            names.extend(versions.map(|version| format!("{name}({version}){mark}")));
        }
        names
    }
}

fn is_plain(name: &str) -> bool {
    let is_inner = |one: char| one.is_ascii_alphanumeric() || "._+-~@:".contains(one);
    !name.is_empty() && name.chars().all(is_inner)
}
