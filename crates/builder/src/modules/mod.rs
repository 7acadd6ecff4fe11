// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Views from module files: the build loads modules and keeps what they change. To start the image
//! takes no module command.
//!
//! `docs/design/0027-views-from-modules.md` has the reasons.

mod difference;
mod failure;
mod load;
mod places;
mod survey;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cabane_label::{MountPoint, enumerate, escape, shown};
use cabane_recipe::{ModuleView, ViewRecipe};
use cabane_report::{Kind, Report};
use cabane_view::{EnvPatch, Meta, View, ViewName};

use crate::build_context::BuildContext;
use crate::engine::StepDraft;
use crate::fingerprint::Inputs;
use crate::layout::Layout;
use crate::{BuildError, Result, StepName, disk};

use difference::Variables;
use failure::Failure;
use load::ModuleCommand;

/// What the step leaves for the metadata, in the work directory.
const RESULT: &str = "views-of-modules.json";
/// How many paths a warning names.
const NAMED: usize = 5;

/// The views of a recipe that come from module files. There is at least one.
#[derive(Debug)]
pub(crate) struct ModuleViews {
    command: ModuleCommand,
    views: BTreeMap<ViewName, ModuleView>,
    tree: PathBuf,
    mount_point: MountPoint,
    installed_at: Option<MountPoint>,
}

impl ModuleViews {
    /// Takes the views that load modules; `None` if there are none. `command` is the program behind
    /// `module`, `tree` the directory that becomes the image.
    pub(crate) fn prepare(
        views: &BTreeMap<ViewName, ViewRecipe>,
        command: Option<&Path>,
        tree: &Path,
        mount_point: &MountPoint,
        installed_at: Option<&MountPoint>,
    ) -> Result<Option<Self>> {
        let modules =
            |(name, view): (&ViewName, &ViewRecipe)| Some((name.clone(), view.modules.clone()?));
        let views: BTreeMap<_, _> = views.iter().filter_map(modules).collect();
        if views.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self {
            command: ModuleCommand::find(command)?,
            views,
            tree: tree.to_owned(),
            mount_point: mount_point.clone(),
            installed_at: installed_at.filter(|place| *place != mount_point).cloned(),
        }))
    }

    /// Fails if a view names a directory of module files that is not in the tree.
    pub(crate) fn check_paths(&self) -> Result<()> {
        let places = self.views.values().flat_map(|view| &view.path);
        let mut places = places.map(|path| self.tree.join(path));
        let Some(place) = places.find(|place| !place.is_dir()) else { return Ok(()) };
        let message = format!("there is no directory {} for module files", shown(&place));
        let hint = "name the directory of module files in the tree: `modulepath: modules/all`";
        Err(BuildError::refused(message, hint))
    }

    /// The modules that each view loads.
    pub(crate) fn loaded(&self) -> impl Iterator<Item = (&ViewName, &[String])> {
        self.views.iter().map(|(name, view)| (name, view.load.as_slice()))
    }

    /// Describes the step. `tree` is the sum over the files of the tree.
    pub(crate) fn draft(&self, tree: &str) -> StepDraft {
        let mut inputs = Inputs::from([
            ("tree".to_owned(), tree.to_owned()),
            ("mount point".to_owned(), self.mount_point.to_string()),
            ("module command".to_owned(), self.command.path.display().to_string()),
        ]);
        if let Some(place) = &self.installed_at {
            inputs.insert("relocate".to_owned(), place.to_string());
        }
        let mut draft = StepDraft::new(StepName::Views, "load modules and keep what they change");
        for (name, view) in &self.views {
            let paths: Vec<_> = view.path.iter().map(|path| path.to_string_lossy()).collect();
            let modules = view.load.join(" ");
            inputs.insert(format!("view {name}"), format!("{modules} in {}", paths.join(":")));
            draft.commands.push(format!("module load {modules}"));
        }
        draft.from(inputs)
    }

    /// Whether the step has left its result.
    pub(crate) fn has_result(layout: &Layout) -> bool {
        layout.work().join(RESULT).exists()
    }

    /// Does the step.
    pub(crate) fn execute(&self, bench: &mut BuildContext<'_>) -> Result<()> {
        let mut meta = Meta::default();
        for (name, view) in &self.views {
            let mut patch = self.load(bench, name, view)?;
            if let Some(from) = &self.installed_at {
                patch.relocate(from.as_str(), self.mount_point.as_str());
            }
            meta.views.insert(name.clone(), View { patch, ..View::default() });
        }
        if let Some(from) = &self.installed_at {
            self.warn_of_old_place(bench, from)?;
        }
        let text = meta.to_json();
        disk::put(&bench.layout.work().join(RESULT), text.as_bytes())?;
        disk::remove(&bench.layout.work().join(load::DIRECTORY))
    }

    /// Returns what the views change.
    pub(crate) fn patches(layout: &Layout) -> Result<BTreeMap<ViewName, EnvPatch>> {
        let path = layout.work().join(RESULT);
        let meta = Meta::from_json(&disk::read(&path)?).map_err(|source| {
            Report::caused(Kind::Build, format!("cannot use {}", shown(&path)), source)
        })?;
        Ok(meta.views.into_iter().map(|(name, view)| (name, view.patch)).collect())
    }

    fn load(
        &self,
        bench: &mut BuildContext<'_>,
        name: &ViewName,
        view: &ModuleView,
    ) -> Result<EnvPatch> {
        let place = self.installed_at.as_ref().unwrap_or(&self.mount_point).as_path();
        let shown_at = (self.tree.as_path(), place);
        let log = bench.log();
        let failure = Failure { command: &self.command, name, view, tree: &self.tree, log: &log };
        let first = self.command.load(bench, shown_at, view, &Variables::new())?;
        if !first.is_right {
            return Err(failure.explain(&first));
        }
        failure.check_all_loaded(&first)?;
        let markers = difference::markers(&first.loaded);
        let second = self.command.load(bench, shown_at, view, &markers)?;
        if !second.is_right {
            return Err(failure.explain(&second));
        }
        let patch = difference::patch(&first.loaded, &second.loaded);
        self.check_places(bench, name, &patch, place)?;
        for (kind, names) in [("aliases", &first.aliases), ("shell functions", &first.functions)] {
            if !names.is_empty() {
                let names = enumerate(names, "and");
                bench.progress.warning(&format!(
                    "the modules of the view `{name}` define {kind}, which a view cannot have: {names}"
                ));
            }
        }
        Ok(patch)
    }

    /// Fails if the view names paths of another place; warns of those outside of the image.
    fn check_places(
        &self,
        bench: &mut BuildContext<'_>,
        name: &ViewName,
        patch: &EnvPatch,
        place: &Path,
    ) -> Result<()> {
        let found = places::places(patch, &self.tree, place);
        if let Some(elsewhere) = found.elsewhere {
            let (tree, elsewhere) = (shown(&self.tree), shown(&elsewhere));
            let message = if self.installed_at.is_some() {
                format!(
                    "the modules of the view `{name}` name paths below {elsewhere}, not below {}",
                    shown(place)
                )
            } else {
                format!(
                    "the tree {tree} was installed at {elsewhere}, but the image is mounted at {}: \
                     the modules of the view `{name}` name the old path",
                    self.mount_point
                )
            };
            let hint = format!(
                "write `store: {elsewhere}`. If the files work at another path, write \
                 `relocate: {{from: {elsewhere}}}` in the section `tree`"
            );
            return Err(Report::new(Kind::Build, message).hinted(hint).into());
        }
        if !found.outside.is_empty() {
            let paths: Vec<_> = found.outside.iter().map(|path| shown(path)).collect();
            bench.progress.warning(&format!(
                "the view `{name}` names paths that are not in the image: {}",
                some_of(&paths, paths.len() as u64)
            ));
        }
        Ok(())
    }

    /// Warns of files that name the path where the tree was installed.
    fn warn_of_old_place(&self, bench: &mut BuildContext<'_>, from: &MountPoint) -> Result<()> {
        let modules: Vec<PathBuf> =
            self.views.values().flat_map(|view| view.path.clone()).collect();
        let mut go_on = || bench.check_interrupt();
        let found = survey::survey(&self.tree, from.as_path(), &modules, &mut go_on)?;
        if found.others > 0 {
            let named: Vec<_> = found.named.iter().map(|path| shown(path)).collect();
            let files = if found.others == 1 { "1 file names" } else { "files name" };
            let count =
                if found.others == 1 { String::new() } else { format!("{} ", found.others) };
            bench.progress.warning(&format!(
                "{count}{files} {from}, where the tree was installed, and may not work at {}: {}",
                self.mount_point,
                some_of(&named, found.others)
            ));
        }
        if found.modules > 0 {
            let place = escape(self.mount_point.as_str()).into_owned();
            bench.progress.warning(&format!(
                "the module files in the image name {from}: views work, but `module load` does not \
                 find what is at {place}"
            ));
        }
        Ok(())
    }
}

/// Writes the first names of a list, and how many more there are.
fn some_of(names: &[String], count: u64) -> String {
    let first = &names[..names.len().min(NAMED)];
    let rest = count.saturating_sub(first.len() as u64);
    let list = first.join(", ");
    if rest == 0 { list } else { format!("{list}, and {rest} more") }
}
