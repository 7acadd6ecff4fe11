// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What it takes to carry a plan out.

use std::path::PathBuf;

use cabane_label::MountPoint;
use cabane_recipe::Recipe;

use crate::BuildRequest;
use crate::debug_symbols::Objcopy;
use crate::deliver::Target;
use crate::engine::{Engine, RecipeDir};
use crate::layout::Layout;
use crate::pack::{Tool, Tree};

/// What it takes to carry a plan out.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) request: BuildRequest,
    pub(crate) recipe: Recipe,
    pub(crate) recipe_dir: RecipeDir,
    pub(crate) layout: Layout,
    /// What is reported about the place where it happens.
    pub(crate) place: Option<String>,
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) tool: Tool,
    /// The directory that gets the tree, instead of an image.
    pub(crate) target: Option<Target>,
    /// How debug symbols are separated, if they are.
    pub(crate) separated: Option<Separated>,
}

/// How debug symbols are separated.
#[derive(Debug)]
pub(crate) struct Separated {
    pub(crate) objcopy: Objcopy,
    /// The tree without them.
    pub(crate) tree: PathBuf,
    /// Where their image is mounted, if there is to be one.
    pub(crate) mount_point: Option<MountPoint>,
}

impl Job {
    /// The tree that becomes the image.
    pub(crate) fn tree(&self) -> Tree<'_> {
        let tree = self.engine.tree();
        match &self.separated {
            Some(separated) => Tree { path: &separated.tree, ..tree },
            None => tree,
        }
    }
}
