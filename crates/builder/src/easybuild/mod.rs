// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The engine `easybuild`: packages from easyconfigs.
//!
//! EasyBuild runs in the sandbox, with the tree at the mount point, and without a network except to fetch
//! sources. Its module files become views. The reasons are in `docs/design/0029-easybuild.md`.

mod compilers;
mod contents;
mod install;
mod installed;
mod mirrors;
mod order;
mod own_code;
mod requested;
mod session;
mod tool;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cabane_compat::present_features;
use cabane_process::installation;
use cabane_recipe::{EasyBuildConfig, Recipe};
use cabane_report::{Kind, Report};
use cabane_view::{Needs, ProcessorNeed};

use crate::build_context::BuildContext;
use crate::engine::{Engine, Facts, Kind as FileKind, RecipeDir, StepDraft};
use crate::fingerprint::Inputs;
use crate::layout::Layout;
use crate::metadata::directories_patch;
use crate::modules::ModuleViews;
use crate::pack::Tree;
use crate::{BuildError, BuildRequest, Result, StepName};

use compilers::Compilers;
pub(crate) use contents::parts;
use own_code::OwnCode;
use requested::Requested;
use tool::Tool;

/// What the step `views` depends on, beside the step before it.
const INSTALLED: &str = "what EasyBuild has installed";

/// Packages that become an image.
#[derive(Debug)]
pub(crate) struct EasyBuildEngine {
    request: BuildRequest,
    layout: Layout,
    recipe_dir: RecipeDir,
    store: PathBuf,
    store_here: PathBuf,
    /// What is built.
    requested: Vec<Requested>,
    /// The easyconfigs of the recipe and their digests.
    easyconfigs: Inputs,
    /// Its easyblocks and hooks.
    own_code: OwnCode,
    /// Directories with sources.
    sources: Vec<PathBuf>,
    optimization: String,
    compilers: Compilers,
    tool: Tool,
    /// The program behind `module`.
    command: PathBuf,
    modules: Option<ModuleViews>,
}

impl EasyBuildEngine {
    /// What nodes need if the compiler used all that this processor has.
    fn processor(&self) -> Option<ProcessorNeed> {
        (self.optimization == ProcessorNeed::NATIVE).then(|| ProcessorNeed {
            targets: vec![ProcessorNeed::NATIVE.to_owned()],
            features: present_features().into_iter().map(str::to_owned).collect(),
        })
    }

    pub(crate) fn prepare(
        request: &BuildRequest,
        recipe: &Recipe,
        config: &EasyBuildConfig,
        directory: &RecipeDir,
        layout: &Layout,
    ) -> Result<Self> {
        let tool = Tool::find(request, config, directory)?;
        let requested = requested::find(config, directory, &tool)?;
        let sources = config.sources.iter().map(|path| directory.find(path, FileKind::Directory));
        let mut sources = sources.collect::<Result<Vec<_>>>()?;
        sources.extend(mirrors::directories(request)?);
        let easyconfigs = requested::easyconfigs(directory)?;
        let texts = requested::texts(directory, &easyconfigs);
        requested::check_views(&recipe.views, &requested, &easyconfigs, &texts)?;
        let own_code = OwnCode::find(config, directory, &tool)?;
        let compilers = Compilers::find();
        compilers.check(&texts)?;
        let command = request.programs.modules.clone().ok_or_else(no_command)?;
        let store_here = layout.store();
        let modules =
            ModuleViews::prepare(&recipe.views, Some(&command), &store_here, &recipe.store, None)?;
        Ok(Self {
            request: request.clone(),
            layout: layout.clone(),
            recipe_dir: directory.clone(),
            store: recipe.store.as_path().to_owned(),
            store_here,
            requested,
            easyconfigs,
            own_code,
            sources,
            optimization: config.optimization.clone(),
            compilers,
            tool,
            command,
            modules,
        })
    }

    /// Where downloads are kept, for all builds.
    fn downloads(&self) -> PathBuf {
        self.request.cache_dir.join(session::DOWNLOADS)
    }

    /// What decides about the packages.
    fn inputs(&self) -> Inputs {
        let mut inputs = self.inputs_of_system();
        inputs.extend(self.easyconfigs.clone());
        let requested: Vec<_> =
            self.requested.iter().map(|one| one.path.to_string_lossy()).collect();
        inputs.insert("easyconfigs".to_owned(), requested.join(" "));
        inputs
    }

    /// What decides about every package, whatever its easyconfig.
    fn inputs_of_system(&self) -> Inputs {
        let mut inputs = self.own_code.inputs.clone();
        inputs.extend(self.compilers.inputs().clone());
        inputs.insert("mount point".to_owned(), self.store.display().to_string());
        inputs.insert("optimization".to_owned(), self.optimization.clone());
        // It decides about the text of module files.
        inputs.insert("module command".to_owned(), session::modules_tool(self).to_owned());
        inputs
    }

    /// As [`Self::inputs_of_system`], with what is the same during a build: packages of an earlier one stay only
    /// if it was as this one.
    fn inputs_of_all(&self) -> Inputs {
        let mut inputs = self.inputs_of_system();
        inputs.insert("easybuild".to_owned(), self.tool.input.clone());
        inputs.insert("cabane".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        inputs.insert("epoch".to_owned(), self.request.epoch.to_string());
        let features = self.processor().map(|need| need.features.join(" "));
        inputs.extend(features.map(|features| ("processor".to_owned(), features)));
        inputs
    }

    /// Says what EasyBuild is asked, and for which compilers.
    fn question(&self) -> String {
        let versions = self.compilers.versions();
        let named: Vec<_> =
            versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
        let question = "find out what is built, in which order";
        if named.is_empty() {
            return question.to_owned();
        }
        format!("{question}; the system has {}", named.join(", "))
    }

    /// Says what is built, as far as that is known.
    fn what(&self) -> String {
        let Some(planned) = order::read(&self.layout) else {
            return "build the packages at the mount point, without a network".to_owned();
        };
        let modules: Vec<_> = planned.iter().map(|one| one.module.as_str()).collect();
        format!("build {}", cabane_label::enumerate(&modules, "and"))
    }
}

fn no_command() -> BuildError {
    let message = "EasyBuild needs Lmod or Environment Modules, and neither is installed here";
    let named = || "name the program behind `module` in the variable `LMOD_CMD`".to_owned();
    let hint = installation::hint("lmod").unwrap_or_else(named);
    Report::new(Kind::Build, message).hinted(hint).into()
}

impl Engine for EasyBuildEngine {
    fn name(&self) -> &'static str {
        "easybuild"
    }

    fn files_of_tool(&self) -> Vec<PathBuf> {
        let is_unknown =
            |one: &&Requested| !one.is_of_recipe && self.tool.brings(&one.path).is_none();
        self.requested.iter().filter(is_unknown).map(|one| one.path.clone()).collect()
    }

    fn steps(&self) -> Result<Vec<StepDraft>> {
        let tool = Inputs::from([("easybuild".to_owned(), self.tool.input.clone())]);
        let mut steps = vec![
            StepDraft::new(StepName::Sources, "get EasyBuild")
                .running(&self.tool.invocations())
                .from(tool),
            StepDraft::new(StepName::Concretize, self.question())
                .running(&[order::invocation(self)])
                .from(self.inputs()),
            StepDraft::new(StepName::Fetch, "get the sources, and compare their checksums")
                .running(&[install::fetch_invocation(self)]),
            StepDraft::new(StepName::Install, self.what()).running(&[install::invocation(self)]),
        ];
        steps.extend(self.modules.iter().map(|modules| modules.draft(INSTALLED)));
        Ok(steps)
    }

    fn execute(&self, step: StepName, bench: &mut BuildContext<'_>) -> Result<()> {
        match step {
            StepName::Sources => self.tool.make(session::sandbox_of_tool(self), bench),
            StepName::Concretize => order::execute(self, bench),
            StepName::Fetch => install::fetch(self, bench),
            StepName::Install => install::install(self, bench),
            StepName::Views => self.modules.as_ref().map_or(Ok(()), |modules| {
                modules.check_paths()?;
                modules.execute(bench)
            }),
            _ => Ok(()),
        }
    }

    fn has_result(&self, step: StepName) -> bool {
        match step {
            StepName::Sources => self.tool.exists(),
            StepName::Concretize => order::read(&self.layout).is_some(),
            StepName::Fetch => install::is_fetched(self),
            StepName::Views => ModuleViews::has_result(&self.layout),
            _ => install::is_installed(self),
        }
    }

    fn tree(&self) -> Tree<'_> {
        Tree { path: &self.store_here, ours: true }
    }

    fn facts(&self) -> Result<Facts> {
        let mount_point = self.store.to_string_lossy();
        let explicit: BTreeSet<&str> =
            self.requested.iter().filter_map(|one| one.path.file_name()?.to_str()).collect();
        Ok(Facts {
            patch: directories_patch(&self.store_here, &mount_point),
            parts: contents::parts(&self.store_here, &mount_point, Some(&explicit)),
            view_root: mount_point.into_owned(),
            needs: Needs { processor: self.processor(), ..Needs::default() },
            patches: match self.modules {
                Some(_) => ModuleViews::patches(&self.layout)?,
                None => BTreeMap::new(),
            },
            ..Facts::default()
        })
    }

    fn tools(&self) -> BTreeMap<String, String> {
        let mut tools = self.compilers.versions();
        tools.insert("easybuild".to_owned(), self.tool.version.clone());
        tools
    }

    fn outside_recipe(&self) -> Vec<PathBuf> {
        self.sources.clone()
    }

    fn named_files(&self) -> Vec<PathBuf> {
        let easyconfigs = self.easyconfigs.keys().map(Path::new);
        let named = easyconfigs.chain(self.own_code.files().map(PathBuf::as_path));
        named.map(|path| self.recipe_dir.path.join(path)).filter(|path| path.is_file()).collect()
    }

    fn needs_visible(&self) -> Vec<PathBuf> {
        let beside = self.command.parent().and_then(Path::parent).map(Path::to_owned);
        self.tool.needs_visible().into_iter().chain(beside).collect()
    }
}
