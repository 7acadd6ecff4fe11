// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which MPI is meant by a name: one of the configuration, one that is installed here, or a
//! prefix or library that is typed.

use std::path::{Path, PathBuf};

use cabane_check::find::usual_prefixes;
use cabane_mpi::{
    Inspected, Launcher, LauncherKind, Loader, Side, Tree, find_installation, inspect,
};

use serde::{Deserialize, Serialize};

use crate::commands::mpi::inspect::find_program;
use crate::report::{CommandResult, Kind, Report};
use crate::setup::Setup;
use cabane_environment::{ImageRequest, find_environment};
use cabane_site::settings::MpiSetting;

/// The word for whatever fits.
pub(crate) const HOST: &str = "host";

/// What was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// The substitute: a name, a prefix or a library.
    pub(crate) with: &'a str,
    /// Of a prefix or a library, where those are that it needs.
    pub(crate) libraries: &'a [PathBuf],
    /// The file that needs MPI, if it is not in the command.
    pub(crate) program: Option<&'a Path>,
}

/// A substitute.
#[derive(Clone, Debug)]
pub(crate) struct Substitute {
    /// Its prefix or library.
    pub(crate) path: PathBuf,
    /// Where the libraries are that it needs, and does not find by itself.
    pub(crate) library_path: String,
    /// What starts its ranks.
    pub(crate) launchers: Launchers,
}

/// What starts the ranks of a substitute.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Launchers {
    /// The words, if the configuration says so.
    pub(crate) named: Vec<String>,
    /// Whose the program among them is.
    pub(crate) kind: Option<LauncherKind>,
    /// What is found beside it.
    pub(crate) found: Vec<Launcher>,
}

#[derive(Debug, thiserror::Error)]
enum SubstituteError {
    #[error(
        "there is no MPI `{}` in the configuration, and no such file or image",
        cabane_label::escape(name)
    )]
    Unknown { name: String },
    #[error(
        "`{}` is a container image: what is in it is for its own root file system",
        cabane_label::escape(name)
    )]
    OfContainer { name: String },
    #[error("no MPI of this machine is of the family of the program")]
    NothingHere,
}

impl Substitute {
    /// Takes a prefix or library, and where the libraries are that it needs.
    pub(crate) fn new(tree: &Tree, path: PathBuf, libraries: &[PathBuf]) -> Self {
        let prefix = if path.is_dir() {
            path.clone()
        } else {
            above(&path)
        };
        let directories: Vec<String> = libraries
            .iter()
            .map(|one| one.to_string_lossy().into_owned())
            .collect();
        Self {
            launchers: Launchers {
                found: find_installation(tree, &prefix).launchers,
                ..Launchers::default()
            },
            library_path: directories.join(":"),
            path,
        }
    }

    fn configured(setup: &Setup, tree: &Tree, one: &MpiSetting) -> Self {
        let program = one.launcher.first().map(Path::new);
        let program = program.and_then(|program| find_program(setup, program));
        let mut substitute = Self::new(tree, one.prefix.clone(), &one.libraries);
        substitute.launchers.kind = program.and_then(|path| LauncherKind::of(tree, &path));
        substitute.launchers.named.clone_from(&one.launcher);
        substitute
    }

    pub(crate) fn side<'a>(&'a self, tree: &'a Tree) -> Side<'a> {
        Side {
            tree,
            path: &self.path,
            library_path: &self.library_path,
        }
    }
}

/// An image with a substitute.
pub(crate) struct SubstituteImage {
    /// How it is entered.
    pub(crate) images: ImageRequest,
    /// Where its files are then.
    pub(crate) prefix: PathBuf,
}

/// Finds the image that a name means, if it means nothing else: what its default view
/// shows, or all of it.
pub(crate) fn substitute_image(setup: &Setup, name: &str) -> Option<SubstituteImage> {
    let mut configured = setup.settings.mpi.iter();
    let is_other = name == HOST || configured.any(|one| one.name == name);
    let file = Path::new(name);
    if is_other
        || file.is_dir()
        || cabane_mpi::Name::of(&file.file_name()?.to_string_lossy()).is_some()
    {
        return None;
    }
    let images = ImageRequest::new(name, None, true).telling_choice();
    let (environment, _) = find_environment(setup, &images).ok()?;
    let image = environment
        .images
        .first()
        .filter(|_| environment.root().is_none())?;
    let view = image.meta.default_view.as_ref();
    let root = view.and_then(|view| image.meta.views.get(view.as_str())?.root.clone());
    let prefix = root.map_or_else(|| image.mount_point.as_path().to_owned(), PathBuf::from);
    Some(SubstituteImage { images, prefix })
}

/// The prefix of a library.
fn above(library: &Path) -> PathBuf {
    let directory = library.parent().unwrap_or(Path::new("/"));
    let is_library_directory = |name: &std::ffi::OsStr| {
        let name = name.to_string_lossy();
        name.starts_with("lib") || name.ends_with("-linux-gnu") || name == "release"
    };
    let mut above = directory.ancestors();
    let prefix = above.find(|one| !one.file_name().is_some_and(is_library_directory));
    prefix.unwrap_or(directory).to_owned()
}

/// Finds what was asked for.
pub(crate) fn substitute_for(
    setup: &Setup,
    tree: &Tree,
    asked: Asked<'_>,
    program: Side<'_>,
) -> CommandResult<Substitute> {
    if asked.libraries.is_empty() {
        return find_substitute(setup, tree, asked.with, program);
    }
    Ok(Substitute::new(tree, asked.with.into(), asked.libraries))
}

/// Finds what a name means.
fn find_substitute(
    setup: &Setup,
    tree: &Tree,
    name: &str,
    program: Side<'_>,
) -> CommandResult<Substitute> {
    let configured = setup.settings.mpi.iter();
    if name == HOST {
        let family = match inspect(program.tree, &Loader::new(program.tree), program.path) {
            Some(Inspected::File(file)) => file.family,
            _ => None,
        };
        let fits = |prefix: &Path| {
            let found = find_installation(tree, prefix);
            family.is_none_or(|family| found.library(family).is_some())
        };
        let mut configured = configured;
        if let Some(one) = configured.find(|one| fits(&one.prefix)) {
            return Ok(Substitute::configured(setup, tree, one));
        }
        return installed(setup)
            .find(|prefix| fits(prefix))
            .map(|prefix| Substitute::new(tree, prefix, &[]))
            .ok_or_else(|| {
                let error = SubstituteError::NothingHere;
                Report::new(Kind::NotFound, error)
                    .hinted("name a prefix with `--with`, or in the configuration".to_owned())
            });
    }
    let mut configured = configured;
    if let Some(one) = configured.find(|one| one.name == name) {
        return Ok(Substitute::configured(setup, tree, one));
    }
    let path = std::path::absolute(name).unwrap_or_else(|_| name.into());
    if !path.exists() {
        return Err(unknown(setup, name));
    }
    Ok(Substitute::new(tree, path, &[]))
}

/// Says that a name means no MPI, and which ones do.
pub(crate) fn unknown(setup: &Setup, name: &str) -> Report {
    let images = ImageRequest::new(name, None, true).telling_choice();
    let found = find_environment(setup, &images);
    if found.is_ok_and(|(environment, _)| environment.root().is_some()) {
        let name = name.to_owned();
        return Report::new(Kind::NotFound, SubstituteError::OfContainer { name })
            .hinted("name a stack, a prefix or a library".to_owned());
    }
    let error = SubstituteError::Unknown {
        name: name.to_owned(),
    };
    let names = setup.settings.mpi.iter().map(|one| one.name.as_str());
    let names: Vec<&str> = names.collect();
    let hint = (!names.is_empty()).then(|| format!("there are {}", names.join(", ")));
    Report::new(Kind::NotFound, error).hinted(hint)
}

/// Prefixes of MPIs of this machine: of the launcher in PATH, and where systems put them.
fn installed(setup: &Setup) -> impl Iterator<Item = PathBuf> {
    let launcher = find_program(setup, Path::new("mpiexec")).filter(|path| path.exists());
    let launcher = launcher.and_then(|path| std::fs::canonicalize(path).ok());
    let of_launcher = launcher.and_then(|path| Some(path.parent()?.parent()?.to_owned()));
    of_launcher
        .into_iter()
        .chain(usual_prefixes(Path::new("/")))
}
