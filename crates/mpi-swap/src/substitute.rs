// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which MPI a name means: one of the configuration, one that is installed, a prefix, a library, or
//! an image.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use cabane_environment::{ImageRequest, find_environment};
use cabane_label::escape;
use cabane_mpi::{
    Inspected, Launcher, LauncherKind, Loader, Name, Side, Tree, find_installation, inspect,
    usual_prefixes,
};
use cabane_report::{Kind, Report};
use cabane_resolve::ConcreteImage;
use cabane_site::settings::MpiSetting;
use cabane_site::{Context, env_vars};
use serde::{Deserialize, Serialize};

use crate::{Search, SwapError};

/// The name for whatever fits.
pub const HOST: &str = "host";

/// Which MPI a program is to get.
#[derive(Clone, Copy, Debug)]
pub struct SubstituteRequest<'a> {
    /// The substitute: a name, a prefix or a library.
    pub with: &'a str,
    /// Of a prefix or a library, where those are that it needs.
    pub libraries: &'a [PathBuf],
    /// The file that needs MPI, if it is not in the command.
    pub program: Option<&'a Path>,
}

/// A substitute.
#[derive(Clone, Debug)]
pub struct Substitute {
    /// Its prefix or library.
    pub path: PathBuf,
    /// Where the libraries are that it needs, and does not find by itself.
    pub library_path: String,
    /// The plug-ins that it gets.
    pub plugins: Vec<PathBuf>,
    /// What starts its ranks.
    pub launchers: Launchers,
}

/// What starts the ranks of a substitute.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Launchers {
    /// The command, if the configuration has one.
    pub named: Vec<String>,
    /// Whose the program among them is.
    pub kind: Option<LauncherKind>,
    /// What is found beside it.
    pub found: Vec<Launcher>,
}

impl Substitute {
    /// Takes a prefix or library, and where the libraries are that it needs.
    pub(crate) fn new(tree: &Tree, path: PathBuf, libraries: &[PathBuf]) -> Self {
        let place = tree.find(&path);
        let prefix = if place.is_some_and(|place| place.outside.is_dir()) {
            path.clone()
        } else {
            above(&path)
        };
        let directories: Vec<String> =
            libraries.iter().map(|one| one.to_string_lossy().into_owned()).collect();
        Self {
            launchers: Launchers {
                found: find_installation(tree, &prefix).launchers,
                ..Launchers::default()
            },
            library_path: directories.join(":"),
            plugins: Vec::new(),
            path,
        }
    }

    /// The same, with the plug-ins of the configuration for this prefix or library: jobs name an MPI by
    /// its path.
    fn named(context: &Context, tree: &Tree, path: PathBuf, libraries: &[PathBuf]) -> Self {
        let mut configured = context.settings.mpi.iter();
        let plugins = configured.find(|one| one.prefix == path).map(|one| one.plugins.clone());
        Self { plugins: plugins.unwrap_or_default(), ..Self::new(tree, path, libraries) }
    }

    fn configured(context: &Context, tree: &Tree, one: &MpiSetting) -> Self {
        let program = one.launcher.first().map(Path::new);
        let program = program.and_then(|program| search(context, tree).find(program));
        let mut substitute = Self::new(tree, one.prefix.clone(), &one.libraries);
        substitute.launchers.kind = program.and_then(|path| LauncherKind::of(tree, &path));
        substitute.launchers.named.clone_from(&one.launcher);
        substitute.plugins.clone_from(&one.plugins);
        substitute
    }

    pub(crate) fn side<'a>(&'a self, tree: &'a Tree) -> Side<'a> {
        Side { tree, path: &self.path, library_path: &self.library_path }
    }
}

/// An image with a substitute.
pub struct SubstituteImage {
    /// How it is entered.
    pub images: ImageRequest,
    /// Where its files are then.
    pub prefix: PathBuf,
    pub(crate) image: ConcreteImage,
}

/// Finds the image that a name means, if it means nothing else: what its default view
/// shows, or all of it.
pub fn substitute_image(context: &Context, name: &str) -> Option<SubstituteImage> {
    let mut configured = context.settings.mpi.iter();
    let is_other = name == HOST || configured.any(|one| one.name == name);
    let file = Path::new(name);
    if is_other || file.is_dir() || Name::of(&file.file_name()?.to_string_lossy()).is_some() {
        return None;
    }
    let images = ImageRequest::new(name, None, true).telling_choice();
    let (environment, _) = find_environment(context, &images).ok()?;
    let image = environment.images.first().filter(|_| environment.root().is_none())?;
    let view = image.meta.default_view.as_ref();
    let root = view.and_then(|view| image.meta.views.get(view.as_str())?.root.clone());
    let prefix = root.map_or_else(|| image.mount_point.as_path().to_owned(), PathBuf::from);
    Some(SubstituteImage { images, prefix, image: image.clone() })
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

/// Finds the substitute that was requested. `files` are those of this machine, and `program` is what
/// gets it.
pub(crate) fn find_substitute(
    context: &Context,
    files: &Tree,
    request: SubstituteRequest<'_>,
    program: Side<'_>,
) -> Result<Substitute, SwapError> {
    let name = request.with;
    if !request.libraries.is_empty() {
        return Ok(Substitute::named(context, files, name.into(), request.libraries));
    }
    if name == HOST {
        return find_fitting(context, files, program);
    }
    let mut configured = context.settings.mpi.iter();
    if let Some(one) = configured.find(|one| one.name == name) {
        return Ok(Substitute::configured(context, files, one));
    }
    let path = std::path::absolute(name).unwrap_or_else(|_| name.into());
    if files.find(&path).is_none() {
        return Err(unknown(context, name));
    }
    Ok(Substitute::named(context, files, path, &[]))
}

/// Finds the first MPI of this machine that has the family of the program: of the configuration, of
/// the launcher in `PATH`, or where systems install them.
fn find_fitting(
    context: &Context,
    files: &Tree,
    program: Side<'_>,
) -> Result<Substitute, SwapError> {
    let family = match inspect(program.tree, &Loader::new(program.tree), program.path) {
        Some(Inspected::File(file)) => file.family,
        _ => None,
    };
    let fits = |prefix: &Path| {
        let found = find_installation(files, prefix);
        family.is_none_or(|family| found.library(family).is_some())
    };
    let mut configured = context.settings.mpi.iter();
    if let Some(one) = configured.find(|one| fits(&one.prefix)) {
        return Ok(Substitute::configured(context, files, one));
    }
    let launcher = search(context, files).find(Path::new("mpiexec"));
    let launcher = launcher.and_then(|path| std::fs::canonicalize(path).ok());
    let of_launcher = launcher.and_then(|path| Some(path.parent()?.parent()?.to_owned()));
    of_launcher
        .into_iter()
        .chain(usual_prefixes(Path::new("/")))
        .find(|prefix| fits(prefix))
        .map(|prefix| Substitute::new(files, prefix, &[]))
        .ok_or(SwapError::NothingHere)
}

/// Returns the error for a name that means no MPI.
pub(crate) fn unknown(context: &Context, name: &str) -> SwapError {
    let known = context.settings.mpi.iter().map(|one| one.name.clone());
    SwapError::Unknown { name: name.to_owned(), known: known.collect() }
}

/// Reports an error. A name that means no MPI may be that of a container image.
pub(crate) fn refined(context: &Context, error: SwapError) -> Report {
    if let SwapError::Unknown { name, .. } = &error {
        let images = ImageRequest::new(name, None, true).telling_choice();
        let found = find_environment(context, &images);
        if found.is_ok_and(|(environment, _)| environment.root().is_some()) {
            let name = escape(name);
            let text = format!(
                "`{name}` is a container image: what is in it is for its own root file system"
            );
            return Report::new(Kind::NotFound, text)
                .hinted("name a stack, a prefix, or a library".to_owned());
        }
    }
    error.into()
}

/// Returns where commands of the caller are searched.
pub fn search<'a>(context: &'a Context, files: &'a Tree) -> Search<'a> {
    let path = context.calling.get(OsStr::new(env_vars::PATH));
    Search { tree: files, path: path.map_or(OsStr::new(""), AsRef::as_ref) }
}
