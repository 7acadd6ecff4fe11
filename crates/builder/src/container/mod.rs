// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The engine `container`: a container image becomes a root image, with files of the recipe on
//! top of it.
//!
//! There is no tree: layers, and the files as one more of them, are flattened into the image
//! as an import does it, so that the same container image gives the same bytes. Its metadata
//! are written with it. Where images come from is for the caller to know, who has registries
//! and passwords.
//!
//! With commands there are two more steps: `base` flattens the layers into an image, and `run` runs
//! the commands in it. What they change is a layer each; these and the first image are flattened again.

mod base;
mod commands;
mod installed;
mod metadata;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use cabane_container::{
    Bytes, CONVERTER, Config, ContainerImage, Converted, ImportRecord, Layer, MAX_UNPACKED, Open,
    Platform, Progress, Request, added, convert_with,
};
use cabane_label::{Digest, escape};
use cabane_recipe::{ContainerConfig, EngineConfig, Recipe};
use cabane_report::{Kind, Report};
use cabane_view::{Meta, PackageList};

use self::base::Base;
use self::commands::{Commands, fixed_variables};
use crate::bases::{OWN, check_pin};
use crate::build_context::BuildContext;
use crate::containers::{AddedImages, Containers, FoundContainer};
use crate::engine::{self, Engine, Facts, RecipeDir, StepDraft};
use crate::fingerprint::{self, Inputs};
use crate::layout::Layout;
use crate::marker::{ImageMark, Marker};
use crate::materials::{Material, split_digest};
use crate::pack::{self, Tool, Tree};
use crate::{BuildError, BuildRequest, Result, StepName, disk};

/// What is locked, in the work directory.
const LOCK: &str = "lock/container.json";
/// Which packages are in the image after the commands, in the work directory.
const PACKAGES: &str = "lock/packages.json";

/// A container image, and what is put on it.
#[derive(Debug)]
pub(crate) struct ContainerEngine {
    config: ContainerConfig,
    recipe: Recipe,
    recipe_dir: RecipeDir,
    layout: Layout,
    epoch: u32,
    /// What is run in it, and the program that makes the image for that.
    commands: Option<(Commands, Tool)>,
    /// What is put where, with what tells whether it changed.
    files: Vec<Added>,
    /// The images that are put on it, by their digests.
    images: Vec<(String, String)>,
}

#[derive(Debug)]
struct Added {
    place: String,
    source: PathBuf,
    fingerprint: String,
}

impl ContainerEngine {
    pub(crate) fn prepare(
        request: &BuildRequest,
        recipe: &Recipe,
        config: &ContainerConfig,
        directory: &RecipeDir,
        layout: &Layout,
    ) -> Result<Self> {
        if request.install.is_some() {
            return Err(BuildError::refused(
                "an image with a root file system cannot be installed in a directory",
                "leave `--install` out",
            ));
        }
        let mut files = Vec::new();
        for (place, source) in &config.files {
            let source = directory
                .find_inside(source, engine::Kind::Directory)
                .or_else(|_| directory.find_inside(source, engine::Kind::File))?;
            let fingerprint = if source.is_dir() {
                pack::scan(&source, None)?.fingerprint
            } else {
                fingerprint::of_file(&source).map_err(BuildError::file("read", &source))?
            };
            files.push(Added {
                place: place.clone(),
                source,
                fingerprint: fingerprint.to_string(),
            });
        }
        let mut images = Vec::new();
        if !config.images.is_empty() {
            let found = containers(request)?.images(&config.images)?;
            let found = found.images.into_iter();
            images.extend(found.map(|image| (image.name, image.digest)));
        }
        for label in &config.images {
            let digests = images.iter().map(|(_, digest)| digest.as_str());
            check_pin(&request.pins, label, digests)?;
        }
        let commands = commands_of(request, recipe, config, directory)?;
        let from = request.pins.container(&config.from, config.platform.as_deref());
        Ok(Self {
            images,
            config: ContainerConfig { from, ..config.clone() },
            recipe: recipe.clone(),
            recipe_dir: directory.clone(),
            layout: layout.clone(),
            epoch: request.epoch,
            commands,
            files,
        })
    }

    fn lock(&self) -> PathBuf {
        self.layout.work().join(LOCK)
    }

    fn locked(&self) -> Option<FoundContainer> {
        disk::read_json(&self.lock(), 1 << 20)
    }

    /// Finds out what the name stands for, and tells if that is another image than before.
    fn write_lock(&self, bench: &mut BuildContext<'_>) -> Result<()> {
        let before = self.locked();
        let containers = containers(bench.request)?;
        let found = containers.find(
            &self.config.from,
            &self.recipe_dir.path,
            self.config.platform.as_deref(),
        )?;
        if let Some(label) = self.config.from.strip_prefix(OWN) {
            check_pin(&bench.request.pins, label, [found.digest.as_str()].into_iter())?;
        }
        if let Some(before) = before
            .filter(|before| before.reference == found.reference && before.digest != found.digest)
        {
            bench.progress.warning(&format!(
                "`{}` is another image now: it was {}, and is {}",
                escape(&self.config.from),
                before.digest,
                found.digest
            ));
        }
        if let Some(parent) = self.lock().parent() {
            disk::make_directory(parent)?;
        }
        // Text and names are always JSON.
        disk::write_json(&self.lock(), &found)
    }

    fn added_images(&self, request: &BuildRequest) -> Result<Option<AddedImages>> {
        match self.config.images.as_slice() {
            [] => Ok(None),
            names => containers(request)?.images(names).map(Some),
        }
    }

    /// What decides about the layers of the container image, and those on them.
    fn inputs_of_layers(&self, tool: &Tool) -> Inputs {
        let mut inputs = Inputs::from([
            ("converter".to_owned(), CONVERTER.to_string()),
            ("program".to_owned(), tool.identity()),
        ]);
        if let Some(found) = self.locked() {
            inputs.insert("image".to_owned(), found.digest);
        }
        if !self.files.is_empty() {
            inputs.insert("epoch".to_owned(), self.epoch.to_string());
        }
        for (name, digest) in &self.images {
            inputs.insert(format!("image {name}"), digest.clone());
        }
        for one in &self.files {
            inputs.insert(one.place.clone(), one.fingerprint.clone());
        }
        inputs
    }

    fn request<'a>(
        &'a self,
        bench: &BuildContext<'_>,
        tool: &'a Tool,
        reference: &'a str,
        output: &'a Path,
    ) -> Request<'a> {
        Request {
            reference,
            working_directory: self.config.working_directory.as_deref(),
            packages: None,
            output,
            mksquashfs: &tool.program,
            jobs: bench.request.jobs,
            max_unpacked: MAX_UNPACKED,
        }
    }

    /// Flattens the layers of the container image, with images and files on them.
    fn flatten(
        &self,
        bench: &BuildContext<'_>,
        tool: &Tool,
        output: &Path,
        edit: &dyn Fn(&mut Meta, &mut ImportRecord),
    ) -> Result<Converted> {
        let gone = || BuildError::gone(&self.lock());
        let found = self.locked().ok_or_else(gone)?;
        let request = self.request(bench, tool, &found.reference, output);
        let mut images = self.added_images(bench.request)?;
        let mut converted = None;
        let watched = Watched(bench.interrupt);
        let mut use_it = |mut image: ContainerImage<'_>| {
            let layers = images.iter_mut().flat_map(|added| &mut added.images);
            for one in layers {
                image.layers.push(taken(&mut one.layer));
            }
            for one in &self.files {
                let layer = added(&one.source, &one.place, bench.request.epoch);
                image.layers.push(layer);
            }
            let made = convert_with(&image, &request, &watched, edit);
            converted = Some(made.map_err(as_build_error)?);
            Ok(())
        };
        let directory = &self.recipe_dir.path;
        containers(bench.request)?.open(
            &self.config.from,
            directory,
            &found,
            bench.interrupt,
            &mut use_it,
        )?;
        converted.ok_or_else(gone)
    }

    /// Makes the image in which commands run.
    fn make_base(&self, bench: &mut BuildContext<'_>) -> Result<()> {
        let Some((_, tool)) = &self.commands else { return Ok(()) };
        let found = self.locked().ok_or_else(|| BuildError::gone(&self.lock()))?;
        check_platform(&found.platform)?;
        let work = bench.layout.work();
        let output = Base::prepare(&work)?;
        let converted = self.flatten(bench, tool, &output, &|_, _| ())?;
        let images = self.added_images(bench.request)?;
        metadata::check_library(images.as_ref(), &converted.meta)?;
        Base::keep(&work, &converted)
    }

    /// The fingerprint of the step that made the image for the commands.
    fn base_fingerprint(&self) -> Result<Digest> {
        let marker = Marker::read(&self.layout, StepName::Base);
        let gone = || BuildError::gone(&self.layout.markers());
        Ok(marker.ok_or_else(gone)?.fingerprint)
    }

    fn run_commands(&self, bench: &mut BuildContext<'_>) -> Result<()> {
        let Some((commands, _)) = &self.commands else { return Ok(()) };
        let base = Base::require(&bench.layout.work())?;
        let fingerprint = self.base_fingerprint()?;
        let images = self.added_images(bench.request)?;
        let mut meta = base.meta.clone();
        let mut record = ImportRecord::default();
        metadata::edit(&self.recipe, &self.config, images.as_ref(), &mut meta, &mut record);
        let view = meta.default_view.as_ref().and_then(|view| meta.views.get(view));
        let of_image = view.map(|view| view.patch.apply(&BTreeMap::new()));
        let variables = fixed_variables(of_image.unwrap_or_default(), bench.request.epoch);
        let pack = StepName::Pack.to_string();
        let again = bench.request.part.from.as_ref().is_some_and(|from| *from != pack);
        let lower = commands.run(bench, &base, &fingerprint, &variables, again)?;
        let look = commands::root(bench, &base, &lower, None, false)?;
        let found = installed::look(look)?;
        let mut packages = found.packages;
        if found.has_rpm {
            let text = Commands::ask_rpm(bench, &base, &lower, &variables)?;
            packages.extend(installed::rpm(&text));
        }
        commands::remove_tmp(bench)?;
        let list = PackageList::new(packages).to_json();
        disk::write(&bench.layout.work().join(PACKAGES), list.as_bytes())
    }

    /// What the commands have changed, the lowest layer first.
    fn changes(&self) -> Result<Vec<Layer<'static>>> {
        let work = self.layout.work();
        let base = self.base_fingerprint()?;
        let commands = self.commands.iter();
        let mut changes = commands.map(|(commands, _)| commands.changes(&work, &base, self.epoch));
        changes.next().flatten().ok_or_else(|| BuildError::gone(&work))
    }

    fn packages(&self) -> Option<PackageList> {
        let path = self.layout.work().join(PACKAGES);
        let text = disk::read_start(&path, PackageList::MAX_SIZE).ok()?;
        PackageList::from_json(&text).ok()
    }

    /// Flattens what the commands have changed on the image in which they ran.
    fn flatten_changes(
        &self,
        bench: &BuildContext<'_>,
        tool: &Tool,
        output: &Path,
        commands: &Commands,
        edit: &dyn Fn(&mut Meta, &mut ImportRecord),
    ) -> Result<Converted> {
        let base = Base::require(&bench.layout.work())?;
        let packages = self.packages();
        let working_directory = base.meta.container.as_ref();
        let working_directory = working_directory.and_then(|one| one.working_directory.as_deref());
        let mut request = self.request(bench, tool, &base.record.reference, output);
        request.packages = packages.as_ref();
        request.working_directory = request.working_directory.or(working_directory);
        let platform = base.record.platform.parse();
        let platform = platform.unwrap_or_else(|_| Platform::of_machine(std::env::consts::ARCH));
        let image = ContainerImage {
            config: Config::default(),
            layers: std::iter::once(base.layer(bench.request)).chain(self.changes()?).collect(),
            platform,
            manifest: None,
            index: None,
            configuration: None,
        };
        let whole_edit = |meta: &mut Meta, report: &mut ImportRecord| {
            base.describe(meta, report);
            report.commands = commands.recorded();
            edit(meta, report);
        };
        let watched = Watched(bench.interrupt);
        convert_with(&image, &request, &watched, &whole_edit).map_err(as_build_error)
    }
}

/// What is run in the image, and the program that makes the image for that.
fn commands_of(
    request: &BuildRequest,
    recipe: &Recipe,
    config: &ContainerConfig,
    directory: &RecipeDir,
) -> Result<Option<(Commands, Tool)>> {
    if config.run.is_empty() {
        return Ok(None);
    }
    if let Some(platform) = &config.platform {
        check_platform(platform)?;
    }
    let default = recipe.default_view.as_ref().map_or("default", |view| view.as_str());
    let view = recipe.views.iter().find(|(name, _)| name.as_str() == default);
    let environment = format!("{view:?} {:?}", config.working_directory);
    let commands = Commands {
        list: config.run.clone(),
        recipe: cabane_label::shown(&directory.path.join("config.yaml")),
        working_directory: config.working_directory.clone(),
        environment: fingerprint::of_bytes(environment.as_bytes()).to_string(),
    };
    commands.check(request.command_network)?;
    Ok(Some((commands, Tool::find(request)?)))
}

/// Fails if programs for a platform do not run here.
fn check_platform(text: &str) -> Result<()> {
    let own = Platform::of_machine(std::env::consts::ARCH);
    let is_own = |its: Platform| its.os == own.os && its.architecture == own.architecture;
    if text.parse().is_ok_and(is_own) {
        return Ok(());
    }
    let message = format!("commands of an image for {} cannot be run here, on {own}", escape(text));
    Err(BuildError::refused(message, "build it on such a machine, or remove `run` from the recipe"))
}

/// The recipe without what changes nothing: in which lines commands are.
fn without_lines(recipe: &Recipe) -> Recipe {
    let mut recipe = recipe.clone();
    if let EngineConfig::Container(config) = &mut recipe.engine {
        config.run.iter_mut().for_each(|command| command.line = 0);
    }
    recipe
}

fn as_build_error(error: cabane_container::Error) -> BuildError {
    match error {
        cabane_container::Error::Interrupted => BuildError::Interrupted,
        error => Report::from(error).with_kind(Kind::Build).into(),
    }
}

/// The address of a container image of a registry; files of this machine have none.
fn uri(reference: &str) -> Option<String> {
    let is_file = ["oci:", "oci-archive:", "docker-archive:", "sif:", "dir:", "image:"];
    let is_file = is_file.iter().any(|kind| reference.starts_with(kind));
    let name = reference.strip_prefix("docker://").unwrap_or(reference);
    (!is_file && !name.starts_with('/')).then(|| format!("docker://{name}"))
}

/// Takes the opening of a layer, which is used once, for layers that live less long.
fn taken<'a>(layer: &mut Layer<'static>) -> Layer<'a> {
    let gone: Open<'static> = Box::new(|| Err(std::io::ErrorKind::NotFound.into()));
    let open = std::mem::replace(&mut layer.open, gone);
    Layer {
        name: layer.name.clone(),
        size: layer.size,
        digest: layer.digest.clone(),
        diff_id: layer.diff_id.clone(),
        is_of_container: layer.is_of_container,
        open: Box::new(move || {
            let bytes: Bytes<'a> = open()?;
            Ok(bytes)
        }),
    }
}

fn containers(request: &BuildRequest) -> Result<&dyn Containers> {
    let containers = request.containers.as_deref();
    containers.ok_or_else(|| {
        BuildError::refused(
            "the engine `container` is not there yet",
            "write `engine: python` or `engine: tree` in config.yaml",
        )
    })
}

/// Ends the work when the build is to end.
struct Watched<'a>(&'a AtomicBool);

impl Progress for Watched<'_> {
    fn read(&self, _: u64, _: Option<u64>) {}

    fn go_on(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

impl Engine for ContainerEngine {
    fn name(&self) -> &'static str {
        "container"
    }

    fn platform(&self) -> Option<&str> {
        self.config.platform.as_deref()
    }

    fn steps(&self) -> Result<Vec<StepDraft>> {
        let what = format!("find out which image `{}` is", self.config.from);
        let platform = self.config.platform.clone().unwrap_or_default();
        let inputs = Inputs::from([
            ("from".to_owned(), self.config.from.clone()),
            ("platform".to_owned(), platform),
        ]);
        let mut steps = vec![StepDraft::new(StepName::Lock, what).from(inputs)];
        if let Some((commands, tool)) = &self.commands {
            let mut inputs = self.inputs_of_layers(tool);
            let directory = self.config.working_directory.clone().unwrap_or_default();
            inputs.insert("working directory".to_owned(), directory);
            let what = "get the layers, and flatten them into an image for the commands";
            steps.push(StepDraft::new(StepName::Base, what).from(inputs));
            let inputs = commands.inputs(self.epoch);
            let mut run = StepDraft::new(StepName::Run, "run the commands in it").from(inputs);
            run.commands = commands.lines();
            steps.push(run);
        }
        Ok(steps)
    }

    fn execute(&self, step: StepName, bench: &mut BuildContext<'_>) -> Result<()> {
        match step {
            StepName::Base => self.make_base(bench),
            StepName::Run => self.run_commands(bench),
            _ => self.write_lock(bench),
        }
    }

    fn has_result(&self, step: StepName) -> bool {
        match step {
            StepName::Base => Base::find(&self.layout.work()).is_some(),
            StepName::Run => self.changes().is_ok() && self.packages().is_some(),
            _ => self.locked().is_some(),
        }
    }

    fn tree(&self) -> Tree<'_> {
        // The engine makes the image itself.
        Tree { path: &self.layout.root, ours: false }
    }

    fn facts(&self) -> Result<Facts> {
        Ok(Facts::default())
    }

    fn source(&self) -> Option<String> {
        self.locked().map(|found| found.reference).filter(|reference| !reference.starts_with(OWN))
    }

    fn materials(&self) -> Result<Vec<Material>> {
        let of = |name: &str, digest: &str| {
            let (algorithm, digest) = split_digest(digest);
            Material::new(name, algorithm, digest)
        };
        let base = self.locked().map(|found| of("base", &found.digest).at(uri(&found.reference)));
        // A path may have the name of a user.
        let shown = |name: &'_ str| {
            let is_path = name.starts_with(['/', '.', '~']);
            if is_path { "image".to_owned() } else { name.to_owned() }
        };
        let images = self.images.iter().map(|(name, digest)| of(&shown(name), digest));
        Ok(base.into_iter().chain(images).collect())
    }

    fn draft_of_image(&self, _: &BuildRequest, tool: &Tool) -> Option<StepDraft> {
        let mut inputs = self.inputs_of_layers(tool);
        let recipe = format!("{:?}", without_lines(&self.recipe));
        let recipe = fingerprint::of_bytes(recipe.as_bytes()).to_string();
        inputs.insert("recipe".to_owned(), recipe);
        let what = match self.commands {
            None => "get the layers, and flatten them into an image",
            Some(_) => "flatten what the commands changed into an image",
        };
        Some(StepDraft::new(StepName::Pack, what).from(inputs))
    }

    fn make_image(&self, bench: &mut BuildContext<'_>, tool: &Tool) -> Result<ImageMark> {
        let new = bench.layout.new_image();
        disk::remove(&new)?;
        let images = self.added_images(bench.request)?;
        let edit = |meta: &mut Meta, report: &mut ImportRecord| {
            metadata::edit(&self.recipe, &self.config, images.as_ref(), meta, report);
        };
        let converted = match &self.commands {
            None => self.flatten(bench, tool, &new, &edit)?,
            Some((commands, _)) => self.flatten_changes(bench, tool, &new, commands, &edit)?,
        };
        if let Err(error) = metadata::check_library(images.as_ref(), &converted.meta) {
            disk::remove(&new)?;
            return Err(error);
        }
        let meta = bench.layout.meta();
        disk::make_empty(&meta)?;
        for (name, bytes) in converted.documents() {
            disk::write(&meta.join(name), &bytes)?;
        }
        for line in converted.report.changed.lines() {
            bench.progress.remark(&line);
        }
        let image = bench.layout.image(tool.format);
        pack::put_in_place(&new, &image, bench.interrupt)
    }
}
