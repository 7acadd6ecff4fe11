// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The files and search paths of an environment, read before it is entered.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use cabane_environment::{ImageRequest, RootOptions, find_environment, root_request};
use cabane_mount::{ImageFile, Operation};
use cabane_mpi::{Plan, Tree};
use cabane_report::{Kind, Report, Result};
use cabane_resolve::{ConcreteEnvironment, ConcreteImage};
use cabane_run::loaded::Additions;
use cabane_run::metadata::look_into;
use cabane_run::{RootRequest, open_image, seen_in_root, variables_in};
use cabane_site::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::SubstituteImage;

/// The files and search paths of an environment.
#[derive(Clone, Debug)]
pub struct EnvironmentFiles {
    /// Its images.
    pub images: Vec<ConcreteImage>,
    /// Files and directories of this machine in it: targets and sources.
    binds: Vec<(PathBuf, PathBuf)>,
    /// The value of `PATH` in it.
    pub path: OsString,
    /// The value of `LD_LIBRARY_PATH` in it.
    pub library_path: String,
}

impl EnvironmentFiles {
    /// Takes what an environment consists of. `additions` and `root` are what it has beside the
    /// images.
    pub fn new(
        context: &Context,
        environment: &ConcreteEnvironment,
        additions: &Additions,
        root: &RootRequest,
    ) -> Self {
        let calling = &context.calling;
        let operations = if environment.root().is_some() {
            let here = std::env::current_dir().ok();
            seen_in_root(root, additions, calling, here.as_deref())
        } else {
            Vec::new()
        };
        let of_operation = |operation: Operation| match operation {
            Operation::Bind { source, target, .. } => Some((target, source)),
            _ => None,
        };
        let named = additions.binds.iter();
        let named = named.map(|bind| (bind.target.as_path().to_owned(), bind.source.clone()));
        let variables = variables_in(environment, additions, root, calling);
        let value = |name: &str| variables.get(OsStr::new(name)).cloned().unwrap_or_default();
        Self {
            images: environment.images.clone(),
            binds: operations.into_iter().filter_map(of_operation).chain(named).collect(),
            path: value("PATH"),
            library_path: value("LD_LIBRARY_PATH").to_string_lossy().into_owned(),
        }
    }

    /// Resolves an environment without options.
    ///
    /// # Errors
    ///
    /// As [`find_environment`] and [`root_request`].
    pub fn of_images(context: &Context, images: &ImageRequest) -> Result<Self> {
        let (environment, mut additions) = find_environment(context, images)?;
        let options = RootOptions::default();
        let root = root_request(context, &options, &environment, &mut additions)?;
        Ok(Self::new(context, &environment, &additions, &root))
    }

    /// Returns whether the environment is a container.
    pub fn has_root(&self) -> bool {
        let mut images = self.images.iter();
        images.any(|image| image.mount_point.is_root())
    }

    /// Calls `look` with the files of the environment, and with those of this machine, to which the
    /// image of a substitute is added. The images are mounted only for this call, which may be in
    /// another process.
    ///
    /// # Errors
    ///
    /// An image cannot be mounted.
    pub fn read<T: Serialize + DeserializeOwned>(
        &self,
        context: &Context,
        substitute: Option<&SubstituteImage>,
        look: impl FnOnce(&Tree, &Tree) -> T,
    ) -> Result<T> {
        let substitute = substitute.map(|substitute| &substitute.image);
        let images: Vec<&ConcreteImage> = self.images.iter().chain(substitute).collect();
        let files = images.iter().map(|image| open_image(&image.path, image.format));
        let files: Vec<ImageFile> = files.collect::<Result<_, _>>()?;
        let files: Vec<&ImageFile> = files.iter().collect();
        let answer = look_into(&files, &context.mount_methods(), |mounts| {
            let with = |tree: Tree, image: &ConcreteImage, mount: &OwnedFd| {
                tree.with(image.mount_point.as_path(), directory_of(mount))
            };
            let (own, other) = mounts.split_at(self.images.len());
            let own = self.images.iter().zip(own);
            let mut tree = own.fold(Tree::here(), |tree, (image, mount)| with(tree, image, mount));
            for (target, source) in &self.binds {
                tree = tree.with(target, source);
            }
            let other = substitute.into_iter().zip(other);
            let here = other.fold(Tree::here(), |tree, (image, mount)| with(tree, image, mount));
            serde_json::to_vec(&look(&tree, &here)).map_err(io::Error::other)
        })?;
        serde_json::from_slice(&answer).map_err(|error| Report::new(Kind::Failure, error))
    }
}

/// The path of an image that is mounted nowhere.
fn directory_of(mount: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", mount.as_raw_fd()).into()
}

/// Replaces paths that are valid only while the image of a substitute is being read.
pub(crate) fn with_mount_point(plan: &mut Plan, tree: &Tree, image: &SubstituteImage) {
    let mount_point = image.image.mount_point.as_path();
    let Some(place) = tree.find(mount_point) else {
        return;
    };
    for one in &mut plan.carried {
        if let Ok(rest) = one.source.strip_prefix(&place.outside) {
            one.source = mount_point.join(rest);
        }
    }
}
