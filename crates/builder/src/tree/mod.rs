// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The engine `tree`: a directory that is there already becomes an image.
//!
//! The directory is read and never written; it is packed from where it is.

use std::path::PathBuf;

use cabane_label::shown;
use cabane_recipe::{Recipe, TreeConfig};

use crate::build_context::BuildContext;
use crate::engine::{Engine, Facts, Kind, RecipeDir, StepDraft};
use crate::fingerprint::Inputs;
use crate::metadata::directories_patch;
use crate::pack::{self, META, Tree};
use crate::{BuildError, BuildRequest, Result, StepName};

/// A directory that becomes an image.
#[derive(Debug)]
pub(crate) struct TreeEngine {
    source: PathBuf,
    mount_point: String,
    fingerprint: String,
}

impl TreeEngine {
    pub(crate) fn prepare(
        request: &BuildRequest,
        recipe: &Recipe,
        config: &TreeConfig,
        directory: &RecipeDir,
    ) -> Result<Self> {
        let source = directory.find(&config.source, Kind::Directory)?;
        let build_dir = std::path::absolute(&request.build_dir)
            .map_err(BuildError::file("find", &request.build_dir))?;
        if build_dir.starts_with(&source) {
            let (build_dir, tree) = (shown(&build_dir), shown(&source));
            let message = format!("the build directory {build_dir} lies in the tree {tree}");
            return Err(BuildError::refused(message, None));
        }
        let meta = source.join(META);
        if meta.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
            let message =
                format!("{} must be a directory: it is where the metadata goes", shown(&meta));
            return Err(BuildError::refused(message, None));
        }
        let census = pack::scan(&source, None)?;
        Ok(Self {
            source,
            mount_point: recipe.store.to_string(),
            fingerprint: census.fingerprint.to_string(),
        })
    }
}

impl Engine for TreeEngine {
    fn name(&self) -> &'static str {
        "tree"
    }

    fn steps(&self) -> Result<Vec<StepDraft>> {
        Ok(Vec::new())
    }

    fn execute(&self, _: StepName, _: &mut BuildContext<'_>) -> Result<()> {
        Ok(())
    }

    fn has_result(&self, _: StepName) -> bool {
        true
    }

    fn tree(&self) -> Tree<'_> {
        Tree { path: &self.source, ours: false }
    }

    fn facts(&self) -> Result<Facts> {
        let meta = self.source.join(META);
        let existing = meta.is_dir().then_some(meta);
        Ok(Facts {
            patch: directories_patch(&self.source, &self.mount_point),
            view_root: self.mount_point.clone(),
            existing,
            ..Facts::default()
        })
    }

    fn inputs_of_facts(&self) -> Inputs {
        Inputs::from([("tree".to_owned(), self.fingerprint.clone())])
    }

    fn outside_recipe(&self) -> Vec<PathBuf> {
        vec![self.source.clone()]
    }
}
