// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The C library of the machine in the place of that of a container.
//!
//! A substitute that was built for a newer C library cannot be loaded with an older one. A newer C
//! library runs what was built for an older one, so the container can have that of the machine.
//! Its loader and its libraries are of one build: all of them are replaced, or none, and at the
//! places at which the container has them. So each program of the container gets them, whatever
//! starts it, and with whatever variables.

use std::path::{Path, PathBuf};

use cabane_compat::{Binary, GlibcVersion, Kind};

use crate::candidate::Side;
use crate::closure::{Closure, GLIBC_NAMES, Loaded, glibc_version};
use crate::library::Texts;
use crate::plan::{Carried, Places};
use crate::verdict::Refusal;
use crate::{Loader, Place, Tree};

const C_LIBRARY: &str = "libc.so.6";
/// The loaders of programs, for an extension that names none.
const LOADERS: [&str; 4] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib64/ld64.so.2",
    "/lib/ld-linux-riscv64-lp64d.so.1",
];

/// Returns the release of a C library: its functions may have no newer version than one before.
pub(crate) fn release(tree: &Tree, library: &Loaded) -> Option<GlibcVersion> {
    let opened = tree.open(&library.path)?;
    let texts = Texts::of(&Binary::open(&opened)?);
    let is_number = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    let release = texts.behind(" release version ", is_number);
    let release = release.and_then(|text| text.trim_end_matches('.').parse().ok());
    release.or_else(|| library.has.iter().filter_map(|text| glibc_version(text)).max())
}

/// A newer C library for a container.
#[derive(Debug)]
pub(crate) struct CLibrary {
    /// The version of the container.
    pub(crate) from: GlibcVersion,
    /// The version of the machine.
    pub(crate) to: GlibcVersion,
    /// The files that take the place of those of the container.
    pub(crate) carried: Vec<Carried>,
    /// Libraries that the substitute needs and the container does not have.
    pub(crate) added: Vec<Loaded>,
    /// Files of the container that the machine has not.
    left: Vec<Place>,
}

impl CLibrary {
    /// Finds the C library of the substitute's system, if it is newer than that of the program and
    /// the program has a private directory. `loader` is the loader that the program names.
    pub(crate) fn newer(
        program: Side<'_>,
        loader: Option<&Path>,
        substitute: Side<'_>,
        (closures, places): (&[Closure], &Places),
    ) -> Option<Self> {
        places.private.as_ref()?;
        let kind = Binary::open(&program.tree.open(program.path)?)?.kind();
        let mut usual = LOADERS.iter().map(Path::new);
        let loader = loader.or_else(|| usual.find(|path| program.tree.is_file(path)))?;
        // Search paths lead to what is not of the system.
        let (inside, outside) = (Loader::new(program.tree), Loader::new(substitute.tree));
        let version = |of: &Loader<'_>, tree| {
            let library = of.of_system_named(C_LIBRARY, kind).into_iter().next()?;
            release(tree, &library)
        };
        let (from, to) = (version(&inside, program.tree)?, version(&outside, substitute.tree)?);
        if to <= from {
            return None;
        }
        let of_loader = Carried {
            source: substitute.tree.find(loader)?.outside,
            target: program.tree.find(loader)?.path,
        };
        let mut found =
            Self { from, to, carried: vec![of_loader], added: Vec::new(), left: Vec::new() };
        for name in GLIBC_NAMES {
            found.replace(&inside, &outside, name, (kind, closures));
        }
        Some(found)
    }

    fn replace(
        &mut self,
        inside: &Loader<'_>,
        outside: &Loader<'_>,
        name: &str,
        (kind, closures): (Kind, &[Closure]),
    ) {
        let old = inside.of_system_named(name, kind);
        let new = outside.of_system_named(name, kind).into_iter().next();
        let Some(new) = new else {
            self.left.extend(old.into_iter().map(|file| file.place));
            return;
        };
        if old.is_empty() && closures.iter().any(|closure| closure.by_name(name).is_some()) {
            self.added.push(new);
            return;
        }
        for file in old {
            let target = file.place.path;
            if !self.carried.iter().any(|one| one.target == target) {
                self.carried.push(Carried { source: new.place.outside.clone(), target });
            }
        }
    }

    /// Checks that a program would be loaded with one C library, and not with parts of two.
    pub(crate) fn check(&self, closure: &Closure) -> Result<(), Refusal> {
        let is_left =
            |file: &&Loaded| self.left.iter().any(|one| one.outside == file.place.outside);
        match closure.files.iter().find(is_left) {
            Some(file) => Err(Refusal::MixedCLibrary { path: file.path.clone() }),
            None => Ok(()),
        }
    }

    /// Returns the directories in which the added libraries will be.
    pub(crate) fn directories(&self, places: &Places) -> Vec<PathBuf> {
        places.directories(self.added.iter().map(|file| file.path.as_path()))
    }
}
