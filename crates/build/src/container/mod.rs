// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The engine `container`: a container image becomes a root image, with files of the recipe on
//! top of it.
//!
//! There is no tree: layers, and the files as one more of them, are flattened into the image
//! as an import does it, so that the same container image gives the same bytes. Its metadata
//! are written with it. Where images come from is for the caller to know, who has registries
//! and passwords.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use cabane_container::{
    Bytes, CONVERTER, ContainerImage, Layer, Open, Progress, Report, Request, added, convert_with,
};
use cabane_host::GlibcVersion;
use cabane_recipe::{ContainerConfig, Recipe};
use cabane_view::{EnvPatch, Meta, ProcessorNeed, View};
use serde::{Deserialize, Serialize};

use crate::engine::{Engine, Facts, Kind, RecipeDir, StepDraft};
use crate::fingerprint::{self, Inputs};
use crate::layout::Layout;
use crate::marker::ImageMark;
use crate::metadata::Words;
use crate::pack::{self, Tool, Tree};
use crate::workbench::Workbench;
use crate::{BuildError, BuildRequest, StepName, disk};

/// What is locked, in the work directory.
const LOCK: &str = "lock/container.json";

/// A container image that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundContainer {
    /// Its name in full.
    pub reference: String,
    /// For which platform it is.
    pub platform: String,
    /// The digest of its manifest, `sha256:…`, or of what tells it from others.
    pub digest: String,
    /// The digest of the list in which it was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
}

/// What is done with a container image while it can be read.
pub type UseContainer<'a> = dyn FnMut(ContainerImage<'_>) -> Result<(), BuildError> + 'a;

/// An image that is put on a container image.
pub struct AddedImage {
    /// By which name it is known.
    pub name: String,
    /// Its digest.
    pub digest: String,
    /// The C library that it needs, if that is known.
    pub glibc: Option<String>,
    /// The processor that it needs, if not every one will do.
    pub processor: Option<ProcessorNeed>,
    /// Its tree, at the place where it is mounted.
    pub layer: Layer<'static>,
}

/// Images that are put on a container image.
pub struct AddedImages {
    /// The images, in their order.
    pub images: Vec<AddedImage>,
    /// What their default views change.
    pub patch: EnvPatch,
}

/// Where container images come from.
pub trait Containers: fmt::Debug + Send + Sync {
    /// Finds out which image a name stands for now. Paths are relative to `directory`.
    ///
    /// # Errors
    ///
    /// There is none, or none for the platform.
    fn find(
        &self,
        from: &str,
        directory: &Path,
        platform: Option<&str>,
    ) -> Result<FoundContainer, BuildError>;

    /// Gets an image that was found before, and lets it be used.
    ///
    /// # Errors
    ///
    /// It is not there any more; whatever `use_it` returns.
    fn open(
        &self,
        from: &str,
        directory: &Path,
        found: &FoundContainer,
        interrupt: &AtomicBool,
        use_it: &mut UseContainer<'_>,
    ) -> Result<(), BuildError>;

    /// Finds images of ours that are put on it, by what is typed to enter them.
    ///
    /// # Errors
    ///
    /// One is not there, or has a root file system of its own.
    fn images(&self, names: &[String]) -> Result<AddedImages, BuildError>;
}

/// A container image, and what is put on it.
#[derive(Debug)]
pub(crate) struct ContainerEngine {
    config: ContainerConfig,
    recipe: Recipe,
    recipe_dir: RecipeDir,
    work: PathBuf,
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
    ) -> Result<Self, BuildError> {
        if request.install.is_some() {
            return Err(BuildError::NotForContainers);
        }
        let mut files = Vec::new();
        for (place, source) in &config.files {
            let source = directory
                .find_inside(source, Kind::Directory)
                .or_else(|_| directory.find_inside(source, Kind::File))?;
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
        Ok(Self {
            images,
            config: config.clone(),
            recipe: recipe.clone(),
            recipe_dir: directory.clone(),
            work: layout.work(),
            files,
        })
    }

    fn lock(&self) -> PathBuf {
        self.work.join(LOCK)
    }

    fn locked(&self) -> Option<FoundContainer> {
        let bytes = disk::read_start(&self.lock(), 1 << 20).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Finds out what the name stands for, and tells if that is another image than before.
    fn write_lock(&self, bench: &mut Workbench<'_>) -> Result<(), BuildError> {
        let before = self.locked();
        let containers = containers(bench.request)?;
        let found = containers.find(
            &self.config.from,
            &self.recipe_dir.path,
            self.config.platform.as_deref(),
        )?;
        if let Some(before) = before
            .filter(|before| before.reference == found.reference && before.digest != found.digest)
        {
            bench.progress.warning(&format!(
                "`{}` is another image now: it was {}, and is {}",
                cabane_label::escape(&self.config.from),
                before.digest,
                found.digest
            ));
        }
        if let Some(parent) = self.lock().parent() {
            disk::make_directory(parent)?;
        }
        // Text and names are always JSON.
        let bytes = serde_json::to_vec_pretty(&found).unwrap_or_default();
        disk::write(&self.lock(), &bytes)
    }

    /// Whether the image is another one than an import makes.
    fn alters(&self) -> bool {
        let ContainerConfig {
            images,
            files,
            entrypoint,
            command,
            working_directory,
            ..
        } = &self.config;
        !files.is_empty()
            || !images.is_empty()
            || entrypoint.is_some()
            || command.is_some()
            || working_directory.is_some()
            || !self.recipe.views.is_empty()
            || self.recipe.description.is_some()
    }

    /// Puts what the recipe says into metadata that say what the container image does.
    fn edit(&self, added: Option<&AddedImages>, meta: &mut Meta, report: &mut Report) {
        report.altered = self.alters();
        if let Some(description) = &self.recipe.description {
            meta.description = Some(description.clone());
        }
        if let Some(added) = added {
            put_views(added, meta);
        }
        let of_image = meta
            .default_view
            .as_ref()
            .and_then(|view| meta.views.get(view));
        let of_image = of_image.cloned().unwrap_or_default();
        for (name, said) in &self.recipe.views {
            let mut patch = of_image.patch.clone();
            let words = Words {
                mount: "",
                view_path: "",
                view_name: name.as_str(),
            };
            words.apply(&said.env_vars, &mut patch);
            let view = View {
                description: said.description.clone().or(of_image.description.clone()),
                patch,
                ..View::default()
            };
            meta.views.insert(name.clone(), view);
        }
        if let Some(view) = &self.recipe.default_view {
            meta.default_view = Some(view.clone());
        }
        let container = meta.container.get_or_insert_default();
        let config = self.config.clone();
        if let Some(words) = config.entrypoint {
            // Its arguments were meant for what the container image starts.
            container.command.clear();
            container.entrypoint = words;
        }
        if let Some(words) = config.command {
            container.command = words;
        }
        if let Some(directory) = config.working_directory {
            container.working_directory = Some(directory);
        }
    }

    fn make(&self, bench: &mut Workbench<'_>, tool: &Tool) -> Result<ImageMark, BuildError> {
        let gone = || BuildError::file("find", &self.lock())(std::io::ErrorKind::NotFound.into());
        let found = self.locked().ok_or_else(gone)?;
        let new = bench.layout.new_image();
        disk::remove(&new)?;
        let request = Request {
            name: self.recipe.name.as_str(),
            reference: &found.reference,
            output: &new,
            mksquashfs: &tool.program,
            jobs: bench.request.jobs,
        };
        let mut images = match self.config.images.as_slice() {
            [] => None,
            names => Some(containers(bench.request)?.images(names)?),
        };
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
            let edit = |meta: &mut Meta, report: &mut Report| {
                self.edit(images.as_ref(), meta, report);
            };
            let made = convert_with(&image, &request, &watched, &edit);
            converted = Some(made.map_err(|error| match error {
                cabane_container::Error::Interrupted => BuildError::Interrupted,
                error => BuildError::Container(Box::new(error)),
            })?);
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
        let converted = converted.ok_or_else(gone)?;
        if let Err(error) = check_library(images.as_ref(), &converted.meta) {
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

/// Takes the opening of a layer, which is used once, for layers that live less long.
fn taken<'a>(layer: &mut Layer<'static>) -> Layer<'a> {
    let gone: Open<'static> = Box::new(|| Err(std::io::ErrorKind::NotFound.into()));
    let open = std::mem::replace(&mut layer.open, gone);
    Layer {
        name: layer.name.clone(),
        size: layer.size,
        digest: layer.digest.clone(),
        diff_id: layer.diff_id.clone(),
        has_whiteouts: layer.has_whiteouts,
        open: Box::new(move || {
            let bytes: Bytes<'a> = open()?;
            Ok(bytes)
        }),
    }
}

/// Lets the default view do what those of the images do, and says which processor they need.
fn put_views(added: &AddedImages, meta: &mut Meta) {
    let default = meta.default_view.clone();
    if let Some(view) = default.and_then(|view| meta.views.get_mut(&view)) {
        view.patch.merge(&added.patch);
    }
    let needs = added
        .images
        .iter()
        .filter_map(|image| image.processor.as_ref());
    for need in needs {
        let whole = meta.needs.processor.get_or_insert_default();
        let pairs = [
            (&mut whole.targets, &need.targets),
            (&mut whole.features, &need.features),
        ];
        for (all, new) in pairs {
            let missing = new.iter().filter(|one| !all.contains(one));
            let missing: Vec<String> = missing.cloned().collect();
            all.extend(missing);
        }
    }
}

/// Fails if an image needs a newer C library than there is.
fn check_library(added: Option<&AddedImages>, meta: &Meta) -> Result<(), BuildError> {
    let found = meta.container.as_ref().and_then(|one| one.glibc.clone());
    let version: Option<GlibcVersion> = found.as_deref().and_then(|text| text.parse().ok());
    let images = added.into_iter().flat_map(|added| &added.images);
    for image in images {
        let needed: Option<GlibcVersion> =
            image.glibc.as_deref().and_then(|text| text.parse().ok());
        if let Some(needed) = needed.filter(|needed| version.is_none_or(|found| found < *needed)) {
            return Err(BuildError::OldLibrary {
                image: image.name.clone(),
                needed: needed.to_string(),
                found: found.unwrap_or_else(|| "none".to_owned()),
            });
        }
    }
    Ok(())
}

fn containers(request: &BuildRequest) -> Result<&dyn Containers, BuildError> {
    let containers = request.containers.as_deref();
    containers.ok_or(BuildError::UnknownEngine {
        engine: "container",
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

    fn steps(&self) -> Result<Vec<StepDraft>, BuildError> {
        let what = format!("find out which image `{}` is", self.config.from);
        let platform = self.config.platform.clone().unwrap_or_default();
        let inputs = Inputs::from([
            ("from".to_owned(), self.config.from.clone()),
            ("platform".to_owned(), platform),
        ]);
        Ok(vec![StepDraft::new(StepName::Lock, what).from(inputs)])
    }

    fn carry_out(&self, _: StepName, bench: &mut Workbench<'_>) -> Result<(), BuildError> {
        self.write_lock(bench)
    }

    fn has_result(&self, _: StepName) -> bool {
        self.locked().is_some()
    }

    fn tree(&self) -> Tree<'_> {
        Tree {
            path: &self.work,
            ours: false,
        }
    }

    fn facts(&self) -> Result<Facts, BuildError> {
        Ok(Facts::default())
    }

    fn draft_of_image(&self, request: &BuildRequest, tool: &Tool) -> Option<StepDraft> {
        let mut inputs = Inputs::from([
            ("converter".to_owned(), CONVERTER.to_string()),
            ("program".to_owned(), tool.identity()),
            (
                "recipe".to_owned(),
                fingerprint::of_bytes(format!("{:?}", self.recipe).as_bytes()).to_string(),
            ),
        ]);
        if let Some(found) = self.locked() {
            inputs.insert("image".to_owned(), found.digest);
        }
        if !self.files.is_empty() {
            inputs.insert("epoch".to_owned(), request.epoch.to_string());
        }
        for (name, digest) in &self.images {
            inputs.insert(format!("image {name}"), digest.clone());
        }
        for one in &self.files {
            inputs.insert(one.place.clone(), one.fingerprint.clone());
        }
        let what = "get the layers, and flatten them into an image";
        Some(StepDraft::new(StepName::Pack, what).from(inputs))
    }

    fn make_image(&self, bench: &mut Workbench<'_>, tool: &Tool) -> Result<ImageMark, BuildError> {
        self.make(bench, tool)
    }
}
