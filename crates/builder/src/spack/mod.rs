// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The engine `spack`: a stack from a recipe and the configuration of a system.
//!
//! What Spack gets is decided by `cabane-spack`; here it is written down, Spack is
//! run in the sandbox, with the tree at the mount point, and what it leaves becomes
//! views, module files and the configuration for those who build on top. The reasons
//! are in `docs/design/0007-the-spack-engine.md`.

mod activation;
mod ask;
mod bases;
mod bytecode;
mod compilers;
mod concretized;
mod durations;
mod estimate;
mod fetch;
mod guarded;
mod hooks;
mod index;
mod inputs;
mod inside;
mod install;
mod installer_output;
mod keys;
mod lock;
mod lock_file;
mod mpi_wrappers;
mod names;
mod normalize;
mod notes;
mod own_packages;
mod package_cache;
mod port;
mod read;
mod relock;
mod repository_files;
mod session;
mod shared_packages;
mod solutions;
mod solver;
mod sources;
mod unused;
mod user;
mod views;
mod watch;
mod workers;

pub use concretized::{ComesFrom, ConcretePackage, Concretized};
pub(crate) use lock_file::DIRECTORY as SPACK_LOCKS;
pub use names::{NameLookUp, Names};
pub use port::{PortedPackages, has_old_packages};
pub use read::{StackTexts, read_system};
pub(crate) use sources::{is_archive, is_commit};
pub use workers::{WorkerTask, work_on_packages};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bases::Bases;
use cabane_label::MountPoint;
use cabane_recipe::{
    InterpreterRequest, Recipe, SpackVersion, StackOptions, StackRecipe, SystemConfig,
};
use cabane_spack::{DATABASE, RECIPE_REPOSITORY, SpackEnvironment, SpackStack};
use cabane_view::{HostNeeds, Needs};
use guarded::Guarded;
use lock_file::{LockFile, LockedSources};
use own_packages::OwnPackages;
use solver::{REQUIREMENTS, Solver};
use sources::{Commits, Source, Sources};

use crate::build_context::BuildContext;
use crate::engine::{Engine, Facts, RecipeDir, StepDraft};
use crate::fingerprint::{self, Inputs};
use crate::git_commit::public_address;
use crate::layout::Layout;
use crate::lock_packages::{LockWish, Locked};
use crate::materials::Material;
use crate::pack::Tree;
use crate::python::{Uv, find_interpreter};
use crate::sandbox::Invocation;
use crate::{BuildError, BuildRequest, Pins, Result, StepName, program};

/// A stack that becomes an image.
#[derive(Debug)]
pub(crate) struct SpackEngine {
    request: BuildRequest,
    layout: Layout,
    recipe_dir: RecipeDir,
    recipe: StackRecipe,
    /// What Spack gets if the recipe names its version.
    guessed: SpackStack,
    /// What it gets because its files are of another version.
    by_version: OnceLock<SpackStack>,
    system: SystemConfig,
    /// Where the file is that names the mirrors.
    mirrors_dir: PathBuf,
    packages: OwnPackages,
    /// Changes with any of them.
    packages_digest: String,
    store: PathBuf,
    store_here: PathBuf,
    sources: Sources,
    /// The sources as the recipe names them.
    requested: Vec<Source>,
    /// The lock file that decides about the packages.
    lock: Option<LockFile>,
    solver: Solver,
    guarded: Guarded,
    host: String,
    bases: Bases,
}

impl SpackEngine {
    pub(crate) fn prepare(
        request: &BuildRequest,
        recipe: &Recipe,
        directory: &RecipeDir,
        layout: &Layout,
    ) -> Result<Self> {
        let system_dir = request.system_dir.as_deref().ok_or_else(BuildError::no_system)?;
        let lock = LockFile::find(&directory.path, system_dir)?;
        let locked = lock.as_ref().map(LockFile::sources).unwrap_or_default();
        let engine = Self::prepare_with(request, recipe, directory, layout, &locked)?;
        Ok(Self { lock, ..engine })
    }

    /// Returns the same without its lock file, which keeps commits of it: to decide about the packages anew.
    fn unlocked(&self, recipe: &Recipe, commits: &LockedSources) -> Result<Self> {
        Self::prepare_with(&self.request, recipe, &self.recipe_dir, &self.layout, commits)
    }

    fn prepare_with(
        request: &BuildRequest,
        recipe: &Recipe,
        directory: &RecipeDir,
        layout: &Layout,
        locked: &LockedSources,
    ) -> Result<Self> {
        let system_dir = request.system_dir.clone().ok_or_else(BuildError::no_system)?;
        let mut system = read_system(&system_dir, request.mirrors.as_deref())?;
        let variables = &request.path_variables;
        system.mirrors = read::expand(system.mirrors, &|name| variables.get(name).cloned())?;
        let profiles = guarded::without_profiles(&mut system.mirrors);
        let options = StackOptions { system: Some(&system), ..StackOptions::default() };
        let texts = StackTexts::read(&directory.path)?;
        let mut stack_recipe = texts.parse(&options)?;
        stack_recipe.config.store = recipe.store.clone();
        let requested = list_of_sources(&stack_recipe);
        pin(&mut stack_recipe, &request.pins);
        let bases = Bases::find(request, recipe, &stack_recipe.spack)
            .map_err(|error| bases::at_its_place(&texts, error))?;
        let mut packages = own_packages::find(&directory.path, &system_dir, &system)?;
        bases.name_mpi(&mut stack_recipe, &system);
        // The packages of a base are described as they were when they were built.
        for repository in bases.repositories() {
            packages.entry(RECIPE_REPOSITORY.to_owned()).or_default().push(repository);
        }
        let git = program::find("git", request.programs.git.as_deref())?;
        let solver = match &request.programs.spack_python {
            Some(path) => Solver::named(path),
            None => Solver::made(
                Uv::find(request)?,
                request.cache_dir.clone(),
                find_interpreter(request, &InterpreterRequest::Any)?,
                REQUIREMENTS,
            ),
        };
        let sources = Sources {
            list: lock_file::pinned(list_of_sources(&stack_recipe), locked),
            git,
            tar: tool("tar", request.programs.tar.as_ref()),
            curl: tool("curl", request.programs.curl.as_ref()),
            cache: request.cache_dir.clone(),
        };
        let commits = sources.commits(layout).unwrap_or_default();
        let stack = inputs::lower(&stack_recipe, &system, &packages, &commits, &bases, None)?;
        let mirrors_dir = match request.mirrors.as_deref().and_then(Path::parent) {
            Some(directory) => directory.to_owned(),
            None => system_dir,
        };
        keys::check(&stack.keys, &mirrors_dir)?;
        let value = |name: &str| request.path_variables.get(name).cloned();
        let push_to = stack.push_to.as_deref();
        let mut guarded = Guarded::of(&system.mirrors, push_to, &value, &solver);
        guarded.warnings.extend(profiles);
        Ok(Self {
            guessed: stack,
            by_version: OnceLock::new(),
            mirrors_dir,
            sources,
            requested,
            lock: None,
            solver,
            guarded,
            store: recipe.store.as_path().to_owned(),
            store_here: layout.store(),
            request: request.clone(),
            recipe_dir: directory.clone(),
            recipe: stack_recipe,
            host: session::host(),
            packages_digest: own_packages::digest(&packages)?,
            packages,
            system,
            layout: layout.clone(),
            bases,
        })
    }

    /// Returns what Spack gets. The version of Spack decides about it: the one in its files when
    /// these are here, and before that the one that the name of the commit suggests.
    fn stack(&self) -> &SpackStack {
        if let Some(stack) = self.by_version.get() {
            return stack;
        }
        let commits = self.commits();
        let Some(version) =
            self.sources.version(&commits).filter(|one| *one != self.guessed.version)
        else {
            return &self.guessed;
        };
        let lowered = self.lower_for(&self.recipe, &commits, version);
        // A version that is too old is reported when Spack is asked for it.
        lowered.map_or(&self.guessed, |stack| self.by_version.get_or_init(|| stack))
    }

    /// The commits of this build, as far as all are known.
    fn commits(&self) -> Commits {
        self.sources.commits(&self.layout).unwrap_or_default()
    }

    /// Whether mirrors need a Python that builds do not have.
    fn has_other_python(&self) -> bool {
        self.guarded.python.program != self.solver.program
    }

    /// The configuration for those who build on top, with the commits that are known
    /// now.
    fn upstream(&self) -> BTreeMap<String, String> {
        let stack = self.lower(&self.recipe);
        stack.map_or_else(|_| self.stack().upstream.clone(), |stack| stack.upstream)
    }

    /// What concretization depends on, beside the sources.
    fn handed_inputs(&self) -> Inputs {
        self.inputs_with(self.stack())
    }

    /// As [`Self::handed_inputs`], but the same for every mount point: which packages are
    /// built, and how, does not depend on it.
    fn inputs_anywhere(&self) -> Result<Inputs> {
        let mut recipe = self.recipe.clone();
        recipe.config.store = MountPoint::root();
        Ok(self.inputs_with(&self.lower(&recipe)?))
    }

    fn lower(&self, recipe: &StackRecipe) -> Result<SpackStack> {
        self.lower_for(recipe, &self.commits(), self.stack().version)
    }

    fn lower_for(
        &self,
        recipe: &StackRecipe,
        commits: &Commits,
        version: SpackVersion,
    ) -> Result<SpackStack> {
        inputs::lower(recipe, &self.system, &self.packages, commits, &self.bases, Some(version))
    }

    fn inputs_with(&self, stack: &SpackStack) -> Inputs {
        let mut inputs = Inputs::from([
            ("host".to_owned(), self.host.clone()),
            ("solver".to_owned(), self.solver.input.clone()),
            ("own packages".to_owned(), self.packages_digest.clone()),
        ]);
        for (name, text) in inputs::files(stack) {
            inputs.insert(name, fingerprint::of_bytes(text.as_bytes()).to_string());
        }
        for (name, commit) in self.commits() {
            inputs.insert(format!("commit of {name}"), commit);
        }
        inputs.extend(self.bases.inputs());
        inputs.extend(hooks::input(self, hooks::PRE_INSTALL));
        inputs
    }
}

/// A program that few recipes need: that it is missing is reported when it is started.
fn tool(name: &str, found: Option<&PathBuf>) -> PathBuf {
    found.map_or_else(|| name.into(), Clone::clone)
}

/// Replaces branches and tags by what they mean in this build.
fn pin(recipe: &mut StackRecipe, pins: &Pins) {
    if pins.is_empty() {
        return;
    }
    let mut packages = cabane_spack::package_repositories(&recipe.spack, recipe.version);
    for one in &mut packages {
        one.source.commit = pins.commit_of(&one.source);
    }
    recipe.spack.package_repositories = packages;
    recipe.spack.source.commit = pins.commit_of(&recipe.spack.source);
}

fn list_of_sources(recipe: &StackRecipe) -> Vec<Source> {
    let mut sources = vec![Source::of("spack", &recipe.spack.source)];
    for one in cabane_spack::package_repositories(&recipe.spack, recipe.version) {
        sources.push(Source::of(&one.name, &one.source));
    }
    sources
}

impl Engine for SpackEngine {
    fn name(&self) -> &'static str {
        "spack"
    }

    fn steps(&self) -> Result<Vec<StepDraft>> {
        let all = |command: &dyn Fn(&str) -> Invocation| -> Vec<Invocation> {
            let environments = self.stack().environments.iter();
            environments.map(|one| command(&one.name)).collect()
        };
        let mut sources = self.sources.inputs();
        sources.insert("solver".to_owned(), self.solver.input.clone());
        let mut get = self.sources.invocations();
        get.extend(self.solver.invocations());
        if self.has_other_python() {
            get.extend(self.guarded.python.invocations());
            sources.insert("python for S3".to_owned(), self.guarded.python.input.clone());
        }
        let mut handed = self.handed_inputs();
        let mut decide = all(&session::concretize);
        let mut what = "decide which packages are built, and how";
        if let Some(lock) = &self.lock {
            handed.extend([lock.input()?]);
            decide.clear();
            what = "take over the packages of the lock file";
        }
        Ok(vec![
            StepDraft::new(StepName::Sources, "get Spack, its packages, and its solver")
                .running(&get)
                .from(sources),
            StepDraft::new(StepName::Concretize, what).running(&decide).from(handed),
            StepDraft::new(StepName::Install, "build the packages, or take them from caches")
                .running(&install::invocations(self))
                .from(install::inputs(self)?),
            StepDraft::new(StepName::Views, "create views, module files, and configuration")
                .running(&views::invocations(self))
                .from(views::inputs(self)),
        ])
    }

    fn execute(&self, step: StepName, bench: &mut BuildContext<'_>) -> Result<()> {
        match step {
            StepName::Sources => {
                self.sources.execute(bench)?;
                self.solver.execute(session::sandbox(self), bench)?;
                self.guarded.python.execute(session::sandbox(self), bench)
            }
            StepName::Concretize => {
                names::check(self, bench)?;
                install::concretize(self, bench)
            }
            StepName::Install => install::install(self, bench),
            StepName::Views => views::execute(self, bench),
            _ => Ok(()),
        }
    }

    fn has_result(&self, step: StepName) -> bool {
        match step {
            StepName::Sources => {
                let pythons = [&self.solver, &self.guarded.python];
                self.sources.commits(&self.layout).is_some()
                    && pythons.iter().all(|one| one.exists())
            }
            // With what Spack gets the store is made.
            StepName::Concretize => install::is_concretized(self, step) && self.store_here.is_dir(),
            StepName::Install => {
                install::is_concretized(self, step) && self.store_here.join(DATABASE).exists()
            }
            _ => self.store_here.join("config/upstreams.yaml").exists() && views::are_known(self),
        }
    }

    fn check_lock(&self) -> Result<()> {
        self.lock.as_ref().map_or(Ok(()), |lock| lock.check(self))
    }

    fn lock(&self, bench: &mut BuildContext<'_>, wish: &LockWish) -> Result<Locked> {
        relock::lock(self, bench, wish)
    }

    /// The image has what its lock file says, and is the same without one.
    fn outside_recipe(&self) -> Vec<PathBuf> {
        vec![self.recipe_dir.path.join(lock_file::DIRECTORY)]
    }

    fn tree(&self) -> Tree<'_> {
        Tree { path: &self.store_here, ours: true }
    }

    fn facts(&self) -> Result<Facts> {
        let environments = self.stack().environments.iter();
        let lock_of = |one: &SpackEnvironment| {
            let name = format!("lock/{}/spack.lock", one.name);
            (name, inputs::lock_file(&self.layout, &one.name))
        };
        let installs = inside::installs(&self.store_here)?;
        let parts = inside::parts(self, &installs);
        Ok(Facts {
            view_root: self.store.to_string_lossy().into_owned(),
            needs: Needs {
                processor: inside::processor(self, &parts)?,
                outside: inside::outside(&installs),
                ..Needs::default()
            },
            parts,
            commits: self.commits(),
            files: environments.map(lock_of).collect(),
            views: Some(views::metadata(self)?),
            bases: self.bases.records(),
            ..Facts::default()
        })
    }

    fn tools(&self) -> BTreeMap<String, String> {
        BTreeMap::from([("python".to_owned(), self.solver.input.clone())])
    }

    fn complete_needs(&self, needs: &mut HostNeeds) {
        self.bases.take_from(needs);
    }

    fn inputs_of_facts(&self) -> Inputs {
        let labels = self.bases.iter().map(|base| base.label.as_str());
        let labels: Vec<&str> = labels.collect();
        let is_any = !labels.is_empty();
        is_any.then(|| ("labels of bases".to_owned(), labels.join(" "))).into_iter().collect()
    }

    fn materials(&self) -> Result<Vec<Material>> {
        let commits = self.commits();
        let of = |source: &Source| {
            let commit = commits.get(&source.name)?;
            let is_archive = sources::is_archive(&source.address);
            let algorithm = if is_archive { "sha256" } else { "gitCommit" };
            let uri = public_address(&source.address);
            let uri = uri.map(|uri| {
                let of_archive = is_archive.then(|| uri.strip_prefix("git+")).flatten();
                of_archive.map_or_else(|| uri.clone(), str::to_owned)
            });
            Some(Material::new(&source.name, algorithm, commit).at(uri))
        };
        Ok(self.sources.list.iter().filter_map(of).chain(self.bases.materials()).collect())
    }

    fn system_directory(&self) -> Option<&Path> {
        self.request.system_dir.as_deref()
    }

    fn needs_visible(&self) -> Vec<PathBuf> {
        vec![self.solver.program.clone()]
    }

    fn port_packages(&self, bench: &mut BuildContext<'_>) -> Result<Option<PortedPackages>> {
        port::port(self, bench).map(Some)
    }

    fn concretized(&self) -> Result<Option<Concretized>> {
        concretized::read(self).map(Some)
    }

    fn warnings(&self) -> Vec<String> {
        let remarks = self.recipe.remarks.iter();
        let mut warnings: Vec<String> = remarks.map(ToString::to_string).collect();
        warnings.extend(self.guarded.warnings.iter().cloned());
        warnings.extend(match (&self.lock, &self.request.system_dir) {
            (Some(lock), _) => lock.remark(),
            (None, Some(system)) => lock_file::remark_without(&self.recipe_dir.path, system),
            (None, None) => None,
        });
        warnings
    }
}

/// The path of something as Spack writes it.
fn text_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
