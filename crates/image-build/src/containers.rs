// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Container images for recipes: from the same places, and with the same passwords, as for
//! `cabane import`.

use std::fmt::Display;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use cabane_builder::{
    AddedImage, AddedImages, BuildError, Containers, FoundContainer, StackBase, UseContainer,
};
use cabane_container::export::{config_of, variables_of};
use cabane_container::{
    Config, ContainerImage, DockerArchive, Layer, Layout, Platform, Sif, digest,
};
use cabane_environment::{ImageRequest, find_environment};
use cabane_label::{Digest, escape};
use cabane_registry::{ContainerName, sum};
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_repository::ImageFormat;
use cabane_resolve::{ConcreteEnvironment, ConcreteImage};
use cabane_site::Context;
use cabane_transfer::{
    ContainerQuery, Reference, Remote, directory_of, layer_of, of_containers, scratch_place,
};

/// How a root image of ours is named in a recipe.
const OWN: &str = "image:";

/// Container images as this user gets them.
#[derive(Debug)]
pub(crate) struct OwnContainers {
    pub(crate) context: Context,
}

impl OwnContainers {
    fn look_up(&self, reference: &Reference, platform: &Platform) -> Result<FoundContainer> {
        let chosen = match reference {
            Reference::Registry(name) => {
                let registry = of_containers(&self.context, &name.address, None, None)?;
                Remote::find(registry, name, platform)?.1
            }
            Reference::DockerArchive(path, name) => {
                let archive = DockerArchive::open(path, &scratch_place(&self.context)?)?;
                let (image, identity) = archive.image(name.as_deref(), platform)?;
                return Ok(of_whole(reference, &image.platform, &identity));
            }
            Reference::Layout(path, name) => {
                let layout = Layout::open(path, &scratch_place(&self.context)?)?;
                layout.choose(name.as_deref(), platform)?
            }
            Reference::Sif(path) => {
                Sif::open(path, platform)?;
                let summed = sum::file(path, &mut |_, _| ())?;
                return Ok(of_whole(reference, platform, &summed));
            }
            Reference::Directory(path) => {
                // It has no digest of its own: that of the layer which is made of it.
                let image = directory_of(path, platform)?;
                let open = |layer: &Layer<'_>| (layer.open)().and_then(digest::of_stream);
                let summed = image.layers.first().map_or_else(|| Ok(digest::of(&[])), open);
                let summed = summed.or_failed(|| format!("read {}", path.display()))?;
                return Ok(of_whole(reference, platform, &summed));
            }
        };
        Ok(FoundContainer {
            index: chosen.index.as_ref().map(digest::written),
            ..of_whole(reference, platform, &chosen.digest)
        })
    }

    /// Finds a root image of ours, with the variables of its default view.
    fn own_root(&self, label: &str) -> Result<(ConcreteEnvironment, ConcreteImage)> {
        let args = ImageRequest::new(label, None, false);
        let (environment, _) = find_environment(&self.context, &args)?;
        let root = environment.root().cloned();
        let root = root.ok_or_else(|| {
            let error = format!("`{}` has no root file system of its own", escape(label));
            Report::new(Kind::BadInput, error)
                .hinted("`images:` puts it on a root image".to_owned())
        })?;
        Ok((environment, root))
    }

    fn look_up_own(&self, label: &str) -> Result<FoundContainer> {
        let (_, root) = self.own_root(label)?;
        let source = root.meta.container.as_ref().and_then(|one| one.source.as_ref());
        let platform = match source {
            Some(source) => source.platform.clone(),
            None => platform_of(None)?.to_string(),
        };
        Ok(of_whole(&format_args!("{OWN}{label}"), &platform, &digest_of(&root)?))
    }

    /// Opens a root image of ours: its tree is one layer, and what it says about itself is what
    /// the container image declared from which it was made.
    fn use_own(
        &self,
        label: &str,
        found: &FoundContainer,
        use_it: &mut dyn FnMut(ContainerImage<'_>) -> Result<()>,
    ) -> Result<()> {
        check_unmoved(found, &self.look_up_own(label)?)?;
        let (environment, root) = self.own_root(label)?;
        let platform = platform_of(Some(&found.platform))?;
        let mut config = root.meta.container.as_ref().map(config_of).unwrap_or_default();
        config["config"]["Env"] = variables_of(&config, &environment.patch).texts.into();
        config["os"] = platform.os.clone().into();
        config["architecture"] = platform.architecture.clone().into();
        let config = Config::read(config.to_string().as_bytes());
        use_it(ContainerImage {
            config: config?,
            layers: vec![layer_of(&self.context, &root).0],
            platform,
            manifest: None,
            index: None,
            configuration: None,
        })
    }

    fn find_added(&self, names: &[String]) -> Result<AddedImages> {
        let args = ImageRequest::new(&names.join(","), None, false);
        let (environment, _) = find_environment(&self.context, &args)?;
        if let Some(root) = environment.root() {
            let error = format!(
                "`{}` has a root file system of its own, and cannot be put on another one",
                escape(root.name())
            );
            return Err(Report::new(Kind::BadInput, error));
        }
        let image = |image: &ConcreteImage| {
            Ok(AddedImage {
                name: image.name().to_owned(),
                digest: digest_of(image)?.to_string(),
                glibc: image.meta.needs.glibc.clone(),
                processor: image.meta.needs.processor.clone(),
                layer: layer_of(&self.context, image).0,
            })
        };
        let images = environment.images.iter().map(image);
        Ok(AddedImages { images: images.collect::<Result<_>>()?, patch: environment.patch.clone() })
    }

    fn find_stack(&self, name: &str) -> Result<Vec<StackBase>> {
        let (environment, _) =
            find_environment(&self.context, &ImageRequest::new(name, None, true))?;
        let base = |image: &ConcreteImage| {
            if image.mount_point.is_root() {
                let message = format!("`{}` has a root file system of its own", escape(name));
                let hint = "`base` in config.yaml must name an image of a recipe for Spack";
                return Err(Report::new(Kind::BadInput, message).hinted(hint.to_owned()));
            }
            let meta = &image.meta;
            let label = image.label.as_ref().filter(|_| image.is_base).map(ToString::to_string);
            let directory = image.digest.as_ref().and(image.path.parent());
            Ok(StackBase {
                label: label.unwrap_or_else(|| name.to_owned()),
                digest: digest_of(image)?,
                mount_point: image.mount_point.clone(),
                file: image.path.clone(),
                format: match image.format {
                    ImageFormat::Squashfs => cabane_builder::ImageFormat::Squashfs,
                    ImageFormat::Erofs => cabane_builder::ImageFormat::Erofs,
                },
                metadata: directory.map(|directory| directory.join("meta")),
                // Stackinator names no engine.
                is_stack: meta.engine.as_deref() == Some("spack")
                    || meta.engine.is_none() && meta.views.contains_key("spack"),
            })
        };
        environment.images.iter().map(base).collect()
    }

    /// Opens what was found, and nothing else under the same name.
    fn use_found(
        &self,
        reference: Reference,
        found: &FoundContainer,
        interrupt: &AtomicBool,
        use_it: &mut dyn FnMut(ContainerImage<'_>) -> Result<()>,
    ) -> Result<()> {
        let platform = platform_of(Some(&found.platform))?;
        let reference = match reference {
            Reference::Registry(name) => {
                let locked = found.index.as_ref().unwrap_or(&found.digest);
                Reference::Registry(Box::new(ContainerName {
                    tag: None,
                    digest: digest::parse(locked),
                    ..*name
                }))
            }
            other => {
                check_unmoved(found, &self.look_up(&other, &platform)?)?;
                other
            }
        };
        let query = ContainerQuery {
            context: &self.context,
            platform: &platform,
            token: None,
            username: None,
            interrupt,
            scratch: scratch_place(&self.context)?,
        };
        query.with(&reference, Box::new(use_it))
    }
}

impl Containers for OwnContainers {
    fn find(
        &self,
        from: &str,
        directory: &Path,
        platform: Option<&str>,
    ) -> Result<FoundContainer, BuildError> {
        let found = if let Some(label) = from.strip_prefix(OWN) {
            self.look_up_own(label).and_then(|found| of_platform(found, platform))
        } else {
            Reference::in_file(from, directory).and_then(|reference| {
                let platform = platform_of(platform)?;
                self.look_up(&reference, &platform)
            })
        };
        found.map_err(|error| as_build_error(&error))
    }

    fn open(
        &self,
        from: &str,
        directory: &Path,
        found: &FoundContainer,
        interrupt: &AtomicBool,
        use_it: &mut UseContainer<'_>,
    ) -> Result<(), BuildError> {
        // Its own errors need no translation.
        let mut failure = None;
        let mut used = |image: ContainerImage<'_>| {
            use_it(image).map_err(|error| {
                let report = Report::new(Kind::Build, error.to_string());
                failure = Some(error);
                report
            })
        };
        let opened = if let Some(label) = from.strip_prefix(OWN) {
            self.use_own(label, found, &mut used)
        } else {
            Reference::in_file(from, directory)
                .and_then(|reference| self.use_found(reference, found, interrupt, &mut used))
        };
        match (opened, failure) {
            (_, Some(failure)) => Err(failure),
            (opened, None) => opened.map_err(|error| as_build_error(&error)),
        }
    }

    fn images(&self, names: &[String]) -> Result<AddedImages, BuildError> {
        self.find_added(names).map_err(|error| as_build_error(&error))
    }

    fn stack_bases(&self, name: &str) -> Result<Vec<StackBase>, BuildError> {
        self.find_stack(name).map_err(|error| as_build_error(&error))
    }
}

/// Fails if a name stands for another image now.
fn check_unmoved(locked: &FoundContainer, now: &FoundContainer) -> Result<()> {
    if now.digest == locked.digest {
        return Ok(());
    }
    let moved = format!(
        "`{reference}` is another image now: it should be {locked}, and is {found}",
        reference = locked.reference,
        locked = locked.digest,
        found = now.digest
    );
    let hint = "`cabane build --from lock` takes the new one".to_owned();
    Err(Report::new(Kind::Failure, moved).hinted(hint))
}

/// Fails if an image is for another platform than the recipe wants.
fn of_platform(found: FoundContainer, wanted: Option<&str>) -> Result<FoundContainer> {
    let (Some(wanted), its) = (wanted, platform_of(Some(&found.platform))?) else {
        return Ok(found);
    };
    if platform_of(Some(wanted))?.takes(&its) {
        return Ok(found);
    }
    let other = format!(
        "`{}` is for {found}, and the recipe wants {wanted}",
        escape(&found.reference),
        found = found.platform
    );
    Err(Report::new(Kind::BadInput, other)
        .hinted("leave `platform` out, or name an image that is for it".to_owned()))
}

/// Returns the digest of an image, which has to be summed where it is outside of a repository.
fn digest_of(image: &ConcreteImage) -> Result<Digest> {
    match &image.digest {
        Some(digest) => Ok(digest.clone()),
        None => sum::file(&image.path, &mut |_, _| ()).map_err(Report::from),
    }
}

/// What is known of a file or a directory as a whole.
fn of_whole(reference: &dyn Display, platform: &dyn Display, summed: &Digest) -> FoundContainer {
    FoundContainer {
        reference: reference.to_string(),
        platform: platform.to_string(),
        digest: digest::written(summed),
        index: None,
    }
}

fn as_build_error(error: &Report) -> BuildError {
    let (message, hint) = error.texts();
    Report::new(Kind::Build, message).hinted(hint).into()
}

fn platform_of(text: Option<&str>) -> Result<Platform> {
    match text {
        None => Ok(Platform::of_machine(std::env::consts::ARCH)),
        Some(text) => text.parse::<Platform>().map_err(|error| Report::new(Kind::BadInput, error)),
    }
}
