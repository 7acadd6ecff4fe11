// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What it takes to carry a plan out.

use cabane_recipe::Recipe;

use crate::BuildRequest;
use crate::deliver::Target;
use crate::engine::{Engine, RecipeDir};
use crate::layout::Layout;
use crate::pack::Tool;

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
}
