// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What an engine does: everything until there is a tree.
//!
//! Writing the metadata and packing come after that and are the same for all.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use cabane_label::shown;
use cabane_view::{EnvPatch, HostNeeds, ImageBase, Needs, View, ViewName};

use crate::build_context::BuildContext;
use crate::fingerprint::Inputs;
use crate::inside::Part;
use crate::lock_packages::{LockWish, Locked, no_lock};
use crate::marker::ImageMark;
use crate::materials::Material;
use crate::pack::{self, Packed, Tool, Tree};
use crate::sandbox::Invocation;
use crate::spack::{Concretized, PortedPackages};
use crate::{BuildError, BuildRequest, Result, StepName};

/// A way to get from a recipe to a tree. What can be checked without a network
/// has been checked when an engine exists.
pub(crate) trait Engine: fmt::Debug + Send + Sync {
    /// Its name in recipes and metadata.
    fn name(&self) -> &'static str;

    /// For which platform the image is, where that need not be this one.
    fn platform(&self) -> Option<&str> {
        None
    }

    /// The steps before the metadata is written.
    fn steps(&self) -> Result<Vec<StepDraft>>;

    /// Does one of them.
    fn execute(&self, step: StepName, bench: &mut BuildContext<'_>) -> Result<()>;

    /// Returns the files that the recipe names and that may come with a tool that is not here yet.
    fn files_of_tool(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Whether what a step made is there still.
    fn has_result(&self, step: StepName) -> bool;

    /// The tree that the steps lead to.
    fn tree(&self) -> Tree<'_>;

    /// What goes into the metadata apart from the recipe.
    fn facts(&self) -> Result<Facts>;

    /// Leaves out of what the tree needs what comes with it in another way.
    fn complete_needs(&self, _needs: &mut HostNeeds) {}

    /// What the metadata depends on beyond the recipe and the steps before.
    fn inputs_of_facts(&self) -> Inputs {
        Inputs::new()
    }

    /// The step that makes the image, where the engine does that itself: then there is no tree,
    /// and the metadata are made with the image.
    fn draft_of_image(&self, _request: &BuildRequest, _tool: &Tool) -> Option<StepDraft> {
        None
    }

    /// Makes the image, if [`Engine::draft_of_image`] says that it does.
    fn make_image(&self, bench: &mut BuildContext<'_>, tool: &Tool) -> Result<ImageMark> {
        pack::pack(bench, tool, &Packed::image(bench.layout, bench.recipe, &self.tree()))
    }

    /// The programs that make it: `uv` → `0.13.8`. They are recorded beside the image: another version
    /// that makes the same files makes the same image.
    fn tools(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// The container image from which the image is made, as an import records it.
    fn source(&self) -> Option<String> {
        None
    }

    /// From what the image is made beside the recipe, as far as it has digests.
    fn materials(&self) -> Result<Vec<Material>> {
        Ok(Vec::new())
    }

    /// The configuration of the system, if it decides about the image.
    fn system_directory(&self) -> Option<&Path> {
        None
    }

    /// Directories below the recipe that are no part of it.
    fn outside_recipe(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Files of the recipe that it names, wherever they are in it.
    fn named_files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Programs and files that must not disappear behind the mount point.
    fn needs_visible(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Ports the packages of the recipe itself to the package API of its Spack; `None` for engines
    /// without Spack.
    fn port_packages(&self, _bench: &mut BuildContext<'_>) -> Result<Option<PortedPackages>> {
        Ok(None)
    }

    /// Fails if the recipe has a lock file that does not match it any more.
    fn check_lock(&self) -> Result<()> {
        Ok(())
    }

    /// Resolves the packages of the recipe for its lock file, or checks the one that is there.
    fn lock(&self, _bench: &mut BuildContext<'_>, _wish: &LockWish) -> Result<Locked> {
        Err(no_lock(self.name()))
    }

    /// What was decided about the packages, if a step has decided.
    fn concretized(&self) -> Result<Option<Concretized>> {
        Ok(None)
    }

    /// What its user should know before the build.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A step before it is known whether it has been done.
#[derive(Clone, Debug)]
pub(crate) struct StepDraft {
    pub(crate) name: StepName,
    pub(crate) what: String,
    pub(crate) commands: Vec<String>,
    pub(crate) inputs: Inputs,
}

impl StepDraft {
    pub(crate) fn new(name: StepName, what: impl Into<String>) -> Self {
        Self { name, what: what.into(), commands: Vec::new(), inputs: Inputs::new() }
    }

    pub(crate) fn running(mut self, commands: &[Invocation]) -> Self {
        self.commands = commands.iter().map(Invocation::shown).collect();
        self
    }

    pub(crate) fn from(mut self, inputs: Inputs) -> Self {
        self.inputs = inputs;
        self
    }
}

/// What an engine knows about its tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// The directory that views show.
    pub(crate) view_root: String,
    /// A script that does what a view does.
    pub(crate) activate: Option<String>,
    /// What every view does before its own changes.
    pub(crate) patch: EnvPatch,
    /// What the image needs from the system.
    pub(crate) needs: Needs,
    /// The commits of the sources that decide about its content: `spack` → `5817ab96…`.
    pub(crate) commits: BTreeMap<String, String>,
    /// Metadata that the tree brings; it is completed, not replaced.
    pub(crate) existing: Option<PathBuf>,
    /// The views, where the engine makes them itself from its own files of the recipe.
    pub(crate) views: Option<BTreeMap<ViewName, View>>,
    /// What views do in the place of `patch`, by their names.
    pub(crate) patches: BTreeMap<ViewName, EnvPatch>,
    /// The packages in the tree, as far as they are known.
    pub(crate) parts: Vec<Part>,
    /// The images on which it was built.
    pub(crate) bases: Vec<ImageBase>,
    /// Further files: the name in `meta/`, and where they are.
    pub(crate) files: Vec<(String, PathBuf)>,
}

/// Where a recipe is.
#[derive(Clone, Debug)]
pub(crate) struct RecipeDir {
    /// The path without links.
    pub(crate) path: PathBuf,
}

impl RecipeDir {
    /// Finds a file or directory that the recipe names relative to itself.
    pub(crate) fn find(&self, relative: &Path, want: Kind) -> Result<PathBuf> {
        let path = self.path.join(relative);
        let (there, expected) = match want {
            Kind::File => (path.is_file(), "a file"),
            Kind::Directory => (path.is_dir(), "a directory"),
        };
        let real = path.canonicalize().ok().filter(|_| there);
        real.ok_or_else(|| {
            let path = shown(&path);
            let message = format!("the recipe names {path}, which is not {expected}");
            BuildError::refused(message, None)
        })
    }

    /// As [`Self::find`], but nothing outside of the recipe, which would be
    /// missing in the sandbox and in the metadata.
    pub(crate) fn find_inside(&self, relative: &Path, want: Kind) -> Result<PathBuf> {
        let found = self.find(relative, want)?;
        if found.starts_with(&self.path) {
            return Ok(found);
        }
        Err(BuildError::refused(
            format!("{} is outside of the recipe", shown(&self.path.join(relative))),
            "copy the file into the directory of the recipe",
        ))
    }
}

/// What is expected at a path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    File,
    Directory,
}
