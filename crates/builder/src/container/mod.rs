// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The engine `container`: a container image becomes a root image, with files of the recipe on
//! top of it.
//!
//! There is no tree: layers, and the files as one more of them, are flattened into the image
//! as an import does it, so that the same container image gives the same bytes. Its metadata
//! are written with it. Where images come from is for the caller to know, who has registries
//! and passwords.

mod metadata;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use cabane_container::{
    Bytes, CONVERTER, ContainerImage, ImportRecord, Layer, MAX_UNPACKED, Open, Progress, Request,
    added, convert_with,
};
use cabane_label::escape;
use cabane_recipe::{ContainerConfig, Recipe};
use cabane_report::{Kind, Report};
use cabane_view::Meta;

use crate::bases::{OWN, check_pin};
use crate::build_context::BuildContext;
use crate::containers::{Containers, FoundContainer};
use crate::engine::{self, Engine, Facts, RecipeDir, StepDraft};
use crate::fingerprint::{self, Inputs};
use crate::layout::Layout;
use crate::marker::ImageMark;
use crate::materials::{Material, split_digest};
use crate::pack::{self, Tool, Tree};
use crate::{BuildError, BuildRequest, Result, StepName, disk};

/// What is locked, in the work directory.
const LOCK: &str = "lock/container.json";

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
        let from = request.pins.container(&config.from, config.platform.as_deref());
        Ok(Self {
            images,
            config: ContainerConfig { from, ..config.clone() },
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
        Ok(vec![StepDraft::new(StepName::Lock, what).from(inputs)])
    }

    fn execute(&self, _: StepName, bench: &mut BuildContext<'_>) -> Result<()> {
        self.write_lock(bench)
    }

    fn has_result(&self, _: StepName) -> bool {
        self.locked().is_some()
    }

    fn tree(&self) -> Tree<'_> {
        Tree { path: &self.work, ours: false }
    }

    fn facts(&self) -> Result<Facts> {
        Ok(Facts::default())
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

    fn make_image(&self, bench: &mut BuildContext<'_>, tool: &Tool) -> Result<ImageMark> {
        let gone = || BuildError::gone(&self.lock());
        let found = self.locked().ok_or_else(gone)?;
        let new = bench.layout.new_image();
        disk::remove(&new)?;
        let request = Request {
            name: self.recipe.name.as_str(),
            reference: &found.reference,
            working_directory: self.config.working_directory.as_deref(),
            packages: None,
            output: &new,
            mksquashfs: &tool.program,
            jobs: bench.request.jobs,
            max_unpacked: MAX_UNPACKED,
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
            let edit = |meta: &mut Meta, report: &mut ImportRecord| {
                metadata::edit(&self.recipe, &self.config, images.as_ref(), meta, report);
            };
            let made = convert_with(&image, &request, &watched, &edit);
            converted = Some(made.map_err(|error| match error {
                cabane_container::Error::Interrupted => BuildError::Interrupted,
                error => Report::from(error).with_kind(Kind::Build).into(),
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
