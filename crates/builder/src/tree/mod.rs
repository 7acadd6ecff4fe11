// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The engine `tree`: a directory that is there already becomes an image.
//!
//! The directory is read and never written; it is packed from where it is. Views can come from the
//! module files in it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cabane_label::shown;
use cabane_recipe::{Recipe, TreeConfig};

use crate::build_context::BuildContext;
use crate::easybuild;
use crate::engine::{Engine, Facts, Kind, RecipeDir, StepDraft};
use crate::fingerprint::Inputs;
use crate::layout::Layout;
use crate::metadata::directories_patch;
use crate::modules::ModuleViews;
use crate::pack::{self, META, Tree};
use crate::{BuildError, BuildRequest, Result, StepName};

/// A directory that becomes an image.
#[derive(Debug)]
pub(crate) struct TreeEngine {
    source: PathBuf,
    mount_point: String,
    fingerprint: String,
    modules: Option<ModuleViews>,
    layout: Layout,
}

impl TreeEngine {
    pub(crate) fn prepare(
        request: &BuildRequest,
        recipe: &Recipe,
        config: &TreeConfig,
        directory: &RecipeDir,
        layout: &Layout,
    ) -> Result<Self> {
        let source = directory.find(&config.source, Kind::Directory)?;
        let build_dir = std::path::absolute(&request.build_dir)
            .map_err(BuildError::file("find", &request.build_dir))?;
        if build_dir.starts_with(&source) {
            let (build_dir, tree) = (shown(&build_dir), shown(&source));
            let message = format!("the build directory {build_dir} is in the tree {tree}");
            return Err(BuildError::refused(message, None));
        }
        let meta = source.join(META);
        if meta.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
            let message =
                format!("{} must be a directory: it is where the metadata goes", shown(&meta));
            return Err(BuildError::refused(message, None));
        }
        let modules = ModuleViews::prepare(
            &recipe.views,
            request.programs.modules.as_deref(),
            &source,
            &recipe.store,
            config.installed_at.as_ref(),
        )?;
        modules.iter().try_for_each(ModuleViews::check_paths)?;
        let census = pack::scan(&source, None)?;
        Ok(Self {
            modules,
            layout: layout.clone(),
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
        let modules = self.modules.iter();
        Ok(modules.map(|modules| modules.draft(&self.fingerprint)).collect())
    }

    fn execute(&self, _: StepName, bench: &mut BuildContext<'_>) -> Result<()> {
        self.modules.as_ref().map_or(Ok(()), |modules| modules.execute(bench))
    }

    fn has_result(&self, _: StepName) -> bool {
        ModuleViews::has_result(&self.layout)
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
            parts: easybuild::parts(&self.source, &self.mount_point, None),
            patches: match self.modules {
                Some(_) => ModuleViews::patches(&self.layout)?,
                None => BTreeMap::new(),
            },
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
