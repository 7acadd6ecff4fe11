// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The plan of a build: which steps, from what, and what is left to do.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use cabane_label::{Digest, MountPoint, Name, escape, shown};
use cabane_mount::ImageFormat;
use cabane_recipe::{ConfigText, EngineConfig, MAX_FILE_SIZE, Recipe, parse_config};
use cabane_report::{Kind, Report};
use serde::{Serialize, Serializer};

use crate::container::ContainerEngine;
use crate::debug_symbols::{self, Objcopy};
use crate::deliver::Target;
use crate::easybuild::EasyBuildEngine;
use crate::engine::{Engine, RecipeDir, StepDraft};
use crate::fingerprint::{self, Inputs};
use crate::job::{Job, Separated};
use crate::layout::{Inside, Layout};
use crate::marker::Marker;
use crate::pack::{self, Tool};
use crate::python::PythonEngine;
use crate::sandbox::Sandbox;
use crate::spack::{Concretized, SpackEngine};
use crate::step::{State, Step, StepName};
use crate::tree::TreeEngine;
use crate::{BuildError, BuildRequest, Result, disk, metadata, place};

/// The file in which a recipe begins.
pub(crate) const CONFIG: &str = "config.yaml";

/// What a build would do: data, to be printed, compared, or carried out.
#[derive(Debug, Serialize)]
pub struct Plan {
    /// The name of the image.
    pub name: Name,
    /// What builds the tree: `python`, `tree`.
    pub engine: &'static str,
    /// For which platform the image is, if the recipe says so: `linux/arm64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// Where the image will be mounted.
    pub mount_point: MountPoint,
    /// The format of the image.
    #[serde(serialize_with = "as_name")]
    pub format: ImageFormat,
    /// The recipe.
    pub recipe_dir: PathBuf,
    /// Where the build happens.
    pub build_dir: PathBuf,
    /// Where the image will be.
    pub image: PathBuf,
    /// The directory that gets the tree instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install: Option<PathBuf>,
    /// What is done, first to last.
    pub steps: Vec<Step>,
    /// Where its large files are meanwhile, if that is in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<PathBuf>,
    /// Why they are not there, if they could be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// What the user should know before the build.
    pub warnings: Vec<String>,
    /// What it takes to carry the plan out.
    #[serde(skip)]
    pub(crate) job: Job,
}

impl Plan {
    /// Returns the files that the recipe names and does not have. Whether its engine brings them is known
    /// once the step `sources` is done.
    #[must_use]
    pub fn files_of_engine(&self) -> Vec<PathBuf> {
        self.job.engine.files_of_tool()
    }
}

/// Returns which packages a stack has, after its step `concretize`; `None` for other engines.
///
/// # Errors
///
/// The step has not been done, or what it left cannot be read.
pub fn concretized(plan: &Plan) -> Result<Option<Concretized>> {
    plan.job.engine.concretized()
}

/// Reads a recipe and finds out what is to be done; changes nothing.
///
/// # Errors
///
/// Everything that can be wrong without asking a network: the recipe, missing
/// files, programs and interpreters.
pub fn plan(request: &BuildRequest) -> Result<Plan> {
    let job = Job::prepare(request)?;
    job.engine.check_lock()?;
    let mut steps = job.steps()?;
    let again = job.index_of_from(&steps)?;
    for step in steps.iter_mut().skip(again) {
        if step.state == State::Done {
            step.state = State::ToDo("it is requested".to_owned());
        }
    }
    let is_open = |step: &Step| step.name == StepName::Pack && step.state != State::Done;
    if let Some(target) = job.target.as_ref().filter(|_| steps.iter().any(is_open)) {
        // Now, and not when everything is built.
        target.check(&job.layout)?;
    }
    let mut warnings = job.engine.warnings();
    warnings.sort();
    Ok(Plan {
        name: job.recipe.name.clone(),
        engine: job.engine.name(),
        platform: job.engine.platform().map(str::to_owned),
        mount_point: job.recipe.store.clone(),
        format: job.request.format,
        recipe_dir: job.recipe_dir.path.clone(),
        build_dir: job.layout.root.clone(),
        image: job.layout.image(job.request.format),
        install: job.target.as_ref().map(|target| target.path.clone()),
        memory: place::to_be_shown(&job.layout),
        place: job.place.clone(),
        steps,
        warnings,
        job,
    })
}

impl Plan {
    /// Whether nothing is left to do.
    pub fn is_done(&self) -> bool {
        self.steps.iter().all(|step| step.state == State::Done)
    }
}

impl Job {
    pub(crate) fn prepare(request: &BuildRequest) -> Result<Self> {
        let mut recipe = read_recipe(&request.recipe_dir)?;
        let mut request = request.clone();
        let is_container = matches!(recipe.engine, EngineConfig::Container(_));
        if is_container {
            // Whatever the site prefers for trees: layers become squashfs, as in an import.
            request.format = ImageFormat::Squashfs;
        }
        let request = &request;
        let target = request.install.as_ref().map(|install| {
            // What is built knows its path, and is there without being mounted.
            recipe.store = install.directory.clone();
            Target { path: install.directory.as_path().to_owned(), replace: install.replace }
        });
        let path = fs::canonicalize(&request.recipe_dir)
            .map_err(BuildError::file("open", &request.recipe_dir))?;
        let recipe_dir = RecipeDir { path };
        let root = std::path::absolute(&request.build_dir)
            .map_err(BuildError::file("find", &request.build_dir))?;
        let tool = match target {
            Some(_) => Tool::unused(request.format),
            None => Tool::find(request)?,
        };
        let (layout, place) = match recipe.engine {
            // Trees and containers make no large files. The next build needs the packages of EasyBuild.
            EngineConfig::Tree(_) | EngineConfig::Container(_) | EngineConfig::EasyBuild(_) => {
                (Layout::new(root), None)
            }
            _ => place::decide(request, recipe.name.as_str(), root),
        };
        let separated = match Objcopy::find(request, &recipe)? {
            None => None,
            Some(objcopy) => {
                let mount_point = debug_symbols::mount_point(&recipe.store);
                let mount_point = request.debug_symbols.then_some(mount_point).transpose()?;
                Some(Separated { objcopy, tree: layout.split(), mount_point })
            }
        };
        let engine = engine_of(request, &recipe, &recipe_dir, &layout)?;
        if !is_container {
            check_store(&recipe.store, &engine.needs_visible())?;
        }
        Ok(Self {
            request: request.clone(),
            recipe,
            recipe_dir,
            layout,
            place,
            engine,
            tool,
            target,
            separated,
        })
    }

    /// Compares what is to be done with what has been done.
    pub(crate) fn steps(&self) -> Result<Vec<Step>> {
        let mut drafts = self.engine.steps()?;
        if let Some(draft) = self.engine.draft_of_image(&self.request, &self.tool) {
            drafts.push(draft);
        } else {
            drafts.extend(self.separated.as_ref().map(|separated| separated.objcopy.draft()));
            drafts.push(metadata::draft(self)?);
            drafts.push(self.draft_of_packing());
            drafts.extend(self.draft_of_symbols());
        }
        // An image that is there and up to date needs nothing of what it was made of.
        let part = &self.request.part;
        let pack = StepName::Pack.to_string();
        let is_whole = part.from.is_none() && part.until.as_ref().is_none_or(|it| *it == pack);
        let assumed = self.judge_all(drafts.clone(), true);
        let is_done = |step: &Step| step.state == State::Done;
        let mut steps = if is_whole && assumed.iter().all(is_done) {
            assumed
        } else {
            self.judge_all(drafts, false)
        };
        if let Some(until) = &self.request.part.until {
            let last = index_of(&steps, until)?;
            let first = self.index_of_from(&steps)?;
            if let Some(from) = steps.get(first).filter(|_| first > last) {
                let (from, until) = (from.name, steps[last].name);
                let message = format!("`{from}` comes after `{until}`, where the build is to stop");
                let hint = format!("`--until {from}`, or a later one");
                return Err(Report::new(Kind::Usage, message).hinted(hint).into());
            }
            steps.truncate(last + 1);
        }
        Ok(steps)
    }

    /// Compares step by step; `assume` that what steps made before the image is there.
    fn judge_all(&self, drafts: Vec<StepDraft>, assume: bool) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::with_capacity(drafts.len());
        for draft in drafts {
            let step = self.judge(draft, steps.last(), assume);
            steps.push(step);
        }
        steps
    }

    /// Returns the first step that is done again in any case; the number of all steps
    /// if there is none.
    pub(crate) fn index_of_from(&self, steps: &[Step]) -> Result<usize> {
        match &self.request.part.from {
            Some(from) => index_of(steps, from),
            None => Ok(steps.len()),
        }
    }

    fn draft_of_packing(&self) -> StepDraft {
        if let Some(target) = &self.target {
            let what = format!("copy the tree to {}", target.path.display());
            return StepDraft::new(StepName::Pack, what);
        }
        let what = format!("pack the tree as {}", self.tool.format);
        self.draft_of_image(StepName::Pack, what, &self.recipe.store)
    }

    /// The step that packs the debug symbols, if they are to be an image.
    fn draft_of_symbols(&self) -> Option<StepDraft> {
        let mount_point = self.separated.as_ref()?.mount_point.as_ref()?;
        let what = format!("pack the debug symbols as {}", self.tool.format);
        Some(self.draft_of_image(StepName::Symbols, what, mount_point))
    }

    fn draft_of_image(&self, name: StepName, what: String, store: &MountPoint) -> StepDraft {
        let mut sandbox = Sandbox::new(&self.request, &self.layout);
        let invocation = self.tool.invocation(&mut sandbox, &self.request, store.as_path());
        StepDraft::new(name, what).running(&[invocation]).from(Inputs::from([
            ("format".to_owned(), self.tool.format.to_string()),
            ("program".to_owned(), self.tool.identity()),
            ("epoch".to_owned(), self.request.epoch.to_string()),
        ]))
    }

    fn judge(&self, draft: StepDraft, previous: Option<&Step>, assume: bool) -> Step {
        let StepDraft { name, what, commands, inputs } = draft;
        let before = previous.map(|step| &step.fingerprint);
        let fingerprint = fingerprint::of_step(&name.to_string(), &inputs, before);
        let state = match self.reason_to_do(name, &inputs, &fingerprint, previous, assume) {
            None => State::Done,
            Some(reason) => State::ToDo(reason),
        };
        Step { name, what, commands, inputs, fingerprint, state }
    }

    fn reason_to_do(
        &self,
        name: StepName,
        inputs: &Inputs,
        fingerprint: &Digest,
        previous: Option<&Step>,
        assume: bool,
    ) -> Option<String> {
        let Some(marker) = Marker::read(&self.layout, name) else {
            return Some("not done yet".to_owned());
        };
        if let Some(step) = previous.filter(|step| step.state != State::Done) {
            return Some(format!("`{}` comes before it", step.name));
        }
        if marker.fingerprint != *fingerprint {
            return Some(difference(&marker.inputs, inputs));
        }
        let is_there = match (&marker.image, name) {
            (_, StepName::Pack) if self.target.is_some() => {
                let mut target = self.target.iter();
                target.all(|target| target.holds(&self.layout))
            }
            (Some(made), StepName::Symbols) => {
                pack::is_unchanged(&self.layout.symbols_image(self.tool.format), made)
            }
            // No file had debug symbols.
            (None, StepName::Symbols) => true,
            (Some(made), _) => pack::is_unchanged(&self.layout.image(self.tool.format), made),
            (None, StepName::Pack) => false,
            (None, StepName::Metadata) => self.layout.meta().join(metadata::ENV_JSON).exists(),
            (None, StepName::Split) => assume || self.layout.split().is_dir(),
            (None, _) => assume || self.engine.has_result(name),
        };
        (!is_there).then(|| "its result is gone".to_owned())
    }
}

/// Finds a step by its name.
fn index_of(steps: &[Step], name: &str) -> Result<usize> {
    let found = steps.iter().position(|step| step.name.to_string() == name);
    found.ok_or_else(|| {
        let steps: Vec<_> = steps.iter().map(|step| step.name.to_string()).collect();
        Report::new(Kind::Usage, format!("there is no step `{}` in this build", escape(name)))
            .hinted(format!("its steps are {}", steps.join(", ")))
            .into()
    })
}

/// Says what changed between two sets of inputs.
fn difference(before: &Inputs, now: &Inputs) -> String {
    let changed = now
        .iter()
        .find(|&(name, value)| before.get(name) != Some(value))
        .map(|(name, _)| name)
        .or_else(|| before.keys().find(|&name| !now.contains_key(name)));
    match changed {
        Some(name) => format!("`{name}` changed"),
        None => "it was done by another version of Cabane".to_owned(),
    }
}

/// Reads the recipe in a directory.
///
/// # Errors
///
/// There is none, or [`BuildError::Recipe`] with every mistake in it.
pub fn read_recipe(directory: &Path) -> Result<Recipe> {
    let path = directory.join(CONFIG);
    if !path.exists() {
        return Err(BuildError::no_recipe(directory));
    }
    // One byte more than is allowed tells the parser that there is too much.
    let text =
        disk::read_start(&path, MAX_FILE_SIZE + 1).map_err(BuildError::file("read", &path))?;
    let text = ConfigText { path: &path, text: &text };
    Ok(parse_config(&text)?)
}

/// Fails if mounting at `store` would hide what the build needs.
fn check_store(store: &MountPoint, visible: &[PathBuf]) -> Result<()> {
    let fixed = [
        Inside::ROOT,
        Inside::TMP,
        "/usr",
        "/bin",
        "/sbin",
        "/lib",
        "/lib64",
        "/etc",
        "/proc",
        "/sys",
        "/dev",
    ];
    let reserved = [Inside::ROOT, "/proc", "/sys", "/dev"];
    let hidden = fixed
        .iter()
        .map(Path::new)
        .chain(visible.iter().map(PathBuf::as_path))
        .find(|path| path.starts_with(store.as_path()));
    let around = reserved.iter().map(Path::new).find(|path| store.as_path().starts_with(path));
    match hidden.or(around) {
        None => Ok(()),
        Some(path) => Err(BuildError::refused(
            format!("an image cannot be built for {store}: the build needs {}", shown(path)),
            "take another mount point, for example `store: /user-environment`",
        )),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn as_name<S: Serializer>(format: &ImageFormat, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(format.name())
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "recipe  {} ({})", shown(&self.recipe_dir), self.engine)?;
        if let Some(directory) = &self.install {
            writeln!(f, "install {}", shown(directory))?;
        } else {
            writeln!(f, "image   {}", shown(&self.image))?;
            writeln!(f, "mount   {}", self.mount_point)?;
        }
        if let Some(memory) = &self.memory {
            writeln!(f, "memory  {}", shown(memory))?;
        }
        if let Some(place) = &self.place {
            writeln!(f, "{place}")?;
        }
        for step in &self.steps {
            writeln!(f, "\n{:<9} {} ({})", step.name, escape(&step.what), step.state)?;
            for command in &step.commands {
                writeln!(f, "          $ {}", escape(command))?;
            }
        }
        Ok(())
    }
}

/// Prepares the engine that a recipe asks for.
fn engine_of(
    request: &BuildRequest,
    recipe: &Recipe,
    directory: &RecipeDir,
    layout: &Layout,
) -> Result<Box<dyn Engine>> {
    Ok(match &recipe.engine {
        EngineConfig::Python(config) => {
            Box::new(PythonEngine::prepare(request, recipe, config, directory, layout)?)
        }
        EngineConfig::Tree(config) => {
            Box::new(TreeEngine::prepare(request, recipe, config, directory, layout)?)
        }
        EngineConfig::Spack(_) => {
            Box::new(SpackEngine::prepare(request, recipe, directory, layout)?)
        }
        EngineConfig::EasyBuild(config) => {
            Box::new(EasyBuildEngine::prepare(request, recipe, config, directory, layout)?)
        }
        EngineConfig::Container(config) => {
            Box::new(ContainerEngine::prepare(request, recipe, config, directory, layout)?)
        }
    })
}
