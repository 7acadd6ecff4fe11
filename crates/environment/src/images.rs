// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Finding the images and views that a command names.

use std::collections::BTreeMap;

use cabane_label::{
    Digest, ImageDescription, Label, LabelDefaults, LabelPattern, UenvDescription, escape,
    is_container, parse_uenv_list,
};
use cabane_mount::ImageFile;
use cabane_recipe::EnvironmentFile;
use cabane_report::{Kind, Report, Result};
use cabane_resolve::{
    ConcreteEnvironment, DefaultView, LocatedBase, LocatedImage, RequestedImage, Resolver, assemble,
};
use cabane_run::loaded::Additions;
use cabane_run::{metadata, open_image};
use cabane_signature_policy::check_at_start;
use cabane_site::Context;
use cabane_view::{Meta, ViewDescription, parse_view_list};
use serde::{Deserialize, Serialize};

use crate::bases;
use crate::builds::choose_here;
use crate::channels;
use crate::files;
use crate::metadata_cache::MetadataCache;

/// Which images and views to load, as it was typed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ImageRequest {
    /// Images, separated by commas; also the path of an environment file.
    pub images: Option<String>,
    /// An environment file, by path or by name.
    pub environment: Option<String>,
    /// Views, separated by commas.
    pub view: Option<String>,
    /// Whether no view is loaded unless one is named.
    pub no_default_view: bool,
    /// Whether the answer names which build of an image is taken, if there are several.
    pub tells_choice: bool,
    /// The container images among them that are in a repository by now: what was typed, and the image.
    #[serde(default)]
    pub kept: BTreeMap<String, Digest>,
}

const NAMED_IN_FILE: &str = "the environment file names this image, or one of its bases does";

impl ImageRequest {
    /// Names images, or an environment file by its path.
    #[must_use]
    pub fn new(images: &str, view: Option<&str>, no_default_view: bool) -> Self {
        Self {
            images: Some(images.to_owned()),
            view: view.map(str::to_owned),
            no_default_view,
            ..Self::default()
        }
    }

    /// The same, and the answer names which build of an image is taken, if there are several.
    #[must_use]
    pub fn telling_choice(self) -> Self {
        Self { tells_choice: true, ..self }
    }
}

/// One image that was named, and the builds of it that there are.
#[derive(Debug)]
pub struct FoundImage {
    /// One or several.
    pub builds: Vec<LocatedImage>,
    /// The images on which each of them is built, once they are ready.
    bases: Vec<Vec<LocatedBase>>,
    description: UenvDescription,
    default_view: DefaultView,
}

/// What was typed, and what the environment files say that were.
#[derive(Debug)]
pub struct FoundImages {
    /// The images, in the order in which they were named.
    pub images: Vec<FoundImage>,
    /// Views that were named, and the first so many images, whose they are.
    views: Vec<ViewDescription>,
    with_views: usize,
    /// What the environment files add.
    pub additions: Additions,
}

/// Finds what was typed, with the builds that this machine takes.
///
/// # Errors
///
/// Whatever is malformed, missing or ambiguous.
pub fn find_environment(
    context: &Context,
    request: &ImageRequest,
) -> Result<(ConcreteEnvironment, Additions)> {
    let mut found = find_builds(context, request)?;
    for image in &mut found.images {
        let is_reported = request.tells_choice;
        let place = choose_here(context, &image.description, &image.builds, is_reported)?;
        image.builds.swap(0, place);
        image.builds.truncate(1);
    }
    found.make_ready(context)?;
    let environment = found.assemble(&vec![0; found.images.len()])?;
    for warning in &environment.warnings {
        context.warning(warning);
    }
    Ok((environment, found.additions))
}

/// Returns the container images that were typed, or that environment files name: those that are
/// imported before the environment can be found.
///
/// # Errors
///
/// Something that is malformed, or an environment file that cannot be read.
pub fn named_containers(context: &Context, request: &ImageRequest) -> Result<Vec<String>> {
    let images = request.images.as_deref().unwrap_or_default();
    // Mostly there is none, and nothing is read.
    let has_file = request.environment.is_some() || images.contains(".toml");
    if !has_file && !images.split(',').any(is_container) {
        return Ok(Vec::new());
    }
    let (file, typed) = what_was_typed(context, request)?;
    let container = |description: UenvDescription| match description.image {
        ImageDescription::Container(text) => Some(text),
        _ => None,
    };
    let of_file: Vec<String> = file.images.into_iter().filter_map(container).collect();
    of_file.iter().try_for_each(|text| check_encryption(context, text))?;
    Ok(of_file.into_iter().chain(typed.into_iter().filter_map(container)).collect())
}

/// Refuses a registry without encryption in an environment file, which somebody else may have written: a
/// password for it would be readable on the way. On this machine there is no way, and the registry of the
/// site is chosen by the site.
pub(crate) fn check_encryption(context: &Context, text: &str) -> Result<()> {
    let Some((_, rest)) = text.split_once("http://") else { return Ok(()) };
    let host = rest.split(['/', '#']).next().unwrap_or_default();
    let name = host.strip_prefix("[::1]").map_or(host, |_| "localhost");
    let name = name.split_once(':').map_or(name, |(name, _)| name);
    let of_site = context.settings.container.default_registry.value.as_deref();
    let is_of_site =
        of_site.is_some_and(|one| one.trim_end_matches('/') == format!("http://{host}"));
    if is_of_site || matches!(name, "localhost" | "127.0.0.1") {
        return Ok(());
    }
    let text = escape(text);
    let message = format!("the environment file names `{text}`, a registry without encryption");
    let hint = format!(
        "name it on the command line, or import it first: `cabane import {text} NAME/VERSION`"
    );
    Err(Report::new(Kind::BadInput, message).hinted(hint))
}

/// Finds what was typed, with all builds that there are.
///
/// # Errors
///
/// Whatever is malformed, missing or ambiguous.
pub fn find_builds(context: &Context, request: &ImageRequest) -> Result<FoundImages> {
    let (mut file, typed) = what_was_typed(context, request)?;
    files::announce_ignored(context, &file);
    let additions = files::additions(&mut file);
    // No one who types an image beside a file expects it to come without its view.
    let typed_default = default_view(!request.no_default_view, request.view.is_none());
    let file_default = default_view(
        !request.no_default_view && file.default_views != Some(false),
        request.view.is_none() && file.views.is_empty(),
    );
    let first_typed = file.images.len();
    let descriptions = [file.images, typed].concat();
    let (views, with_views) = match &request.view {
        Some(text) => {
            let views = parse_view_list(text)?;
            (views, descriptions.len())
        }
        // What is typed beside a file does not change what its names mean.
        None => (file.views, first_typed),
    };
    let resolver = resolver_for(context, &descriptions)?;
    let mut images = Vec::with_capacity(descriptions.len());
    for (position, mut description) in descriptions.into_iter().enumerate() {
        if let ImageDescription::Container(text) = &description.image
            && let Some(digest) = request.kept.get(text)
        {
            description.image = ImageDescription::Digest(digest.clone());
        }
        let is_typed = position >= first_typed;
        let builds = resolver
            .locate_builds(&description)
            .map_err(|error| error.hinted((!is_typed).then(|| NAMED_IN_FILE.to_owned())))?;
        images.push(FoundImage {
            builds,
            bases: Vec::new(),
            description,
            default_view: if is_typed { typed_default } else { file_default },
        });
    }
    Ok(FoundImages { images, views, with_views, additions })
}

pub(crate) fn default_view(is_wanted: bool, none_is_named: bool) -> DefaultView {
    match (is_wanted, none_is_named) {
        (true, true) => DefaultView::Used,
        (true, false) => DefaultView::UsedOfRoot,
        (false, _) => DefaultView::Left,
    }
}

impl FoundImages {
    /// Looks whether all builds are trusted, reads their metadata, and says which are retired.
    ///
    /// # Errors
    ///
    /// That one is not trusted, or has malformed metadata.
    pub fn make_ready(&mut self, context: &Context) -> Result<()> {
        for image in &mut self.images {
            image.bases.clear();
            for located in &mut image.builds {
                make_ready(context, &image.description.image, located)?;
                image.bases.push(bases::of(context, &image.description.image, located)?);
            }
        }
        Ok(())
    }

    /// Refuses builds of one image that are built on different images, or on the same one at different
    /// mount points: no node could choose among them.
    ///
    /// # Errors
    ///
    /// There are such builds.
    pub fn refuse_different_bases(&self) -> Result<()> {
        for image in &self.images {
            if !bases::are_same(&image.bases) {
                let typed = &image.description.image;
                let message = format!("the builds of `{typed}` are built on different images");
                let label = image.builds.iter().find_map(|build| build.label.as_ref());
                let hint = label.map(|label| format!("name one of them: `{label}`"));
                return Err(Report::new(Kind::BadInput, message).hinted(hint));
            }
        }
        Ok(())
    }

    /// Returns for each image the place of the build that this machine takes; the first where
    /// it takes none, since it is others that run them.
    pub fn places_here(&self, context: &Context) -> Vec<usize> {
        let place = |image: &FoundImage| {
            choose_here(context, &image.description, &image.builds, false).unwrap_or(0)
        };
        self.images.iter().map(place).collect()
    }

    /// Puts together the builds at these places, one for each image.
    ///
    /// # Errors
    ///
    /// Images or views that do not go together.
    pub fn assemble(&self, places: &[usize]) -> Result<ConcreteEnvironment> {
        let pairs = self.images.iter().zip(places);
        let requested = pairs.filter_map(|(image, place)| {
            Some(RequestedImage {
                located: image.builds.get(*place)?.clone(),
                description: image.description.clone(),
                default_view: image.default_view,
                bases: image.bases.get(*place).cloned().unwrap_or_default(),
            })
        });
        assemble(requested.collect(), self.with_views, &self.views)
    }
}

/// Looks whether an image is trusted, reads its metadata, and says whether it is retired.
pub(crate) fn make_ready(
    context: &Context,
    typed: &ImageDescription,
    located: &mut LocatedImage,
) -> Result<()> {
    check_at_start(context, located)?;
    fill_in_metadata(context, located)?;
    channels::announce(context, typed, located);
    Ok(())
}

/// Returns what the environment files say together, and the images beside them.
fn what_was_typed(
    context: &Context,
    request: &ImageRequest,
) -> Result<(EnvironmentFile, Vec<UenvDescription>)> {
    let mut file = EnvironmentFile::default();
    if let Some(environment) = &request.environment {
        file = files::load(context, environment)?;
    }
    let mut images = Vec::new();
    let typed = request.images.as_deref().map(parse_uenv_list);
    for description in typed.unwrap_or(Ok(Vec::new()))? {
        match files::as_path(&description) {
            Some(path) => {
                let path = path.to_string_lossy();
                file = file.merge(files::load(context, &path)?);
            }
            None => images.push(description),
        }
    }
    file.images.splice(0..0, file.container.clone());
    Ok((file, images))
}

/// Opens the repositories only if something has to be looked up in them.
pub(crate) fn resolver_for(
    context: &Context,
    descriptions: &[UenvDescription],
) -> Result<Resolver> {
    let is_path =
        |description: &UenvDescription| matches!(description.image, ImageDescription::Path(_));
    let repositories =
        if descriptions.iter().all(is_path) { Vec::new() } else { context.repositories()? };
    Ok(Resolver::new(repositories, context.system()))
}

/// Finds one image.
///
/// # Errors
///
/// Nothing, or several, are what was typed.
pub fn find_image(context: &Context, image: &ImageDescription) -> Result<LocatedImage> {
    let description = UenvDescription { image: image.clone(), mount_point: None };
    resolver_for(context, std::slice::from_ref(&description))?.locate(&description)
}

/// Finds one image of which only the name, the digest, or the metadata is needed. A deduplicated image is
/// not assembled, and has no file then.
///
/// # Errors
///
/// Nothing, or several, are what was typed.
pub fn find_image_record(context: &Context, image: &ImageDescription) -> Result<LocatedImage> {
    let description = UenvDescription { image: image.clone(), mount_point: None };
    let resolver = resolver_for(context, std::slice::from_ref(&description))?;
    resolver.without_files().locate(&description)
}

/// Looks into the image if what is beside it says nothing about it.
pub fn fill_in_metadata(context: &Context, image: &mut LocatedImage) -> Result<()> {
    if image.meta.is_some() {
        return Ok(());
    }
    let file: ImageFile = open_image(&image.path, image.format)?;
    let cache = context.settings.cache_directory.value.as_deref();
    let cache = cache.and_then(|directory| MetadataCache::of(directory, &file.file));
    let cached = cache.as_ref().and_then(MetadataCache::read);
    image.meta = cached.and_then(|bytes| Meta::from_json(&bytes).ok());
    if image.meta.is_some() {
        return Ok(());
    }
    if let Some(bytes) = metadata::read(&file, &context.mount_methods())? {
        let meta = Meta::from_json(&bytes).map_err(|error| {
            let message =
                format!("malformed metadata in meta/env.json of {}", image.path.display());
            Report::caused(Kind::BadInput, message, error)
        })?;
        image.meta = Some(meta);
        cache.inspect(|cache| cache.write(&bytes));
    }
    Ok(())
}

/// Fills in the parts of a label that were left out.
///
/// # Errors
///
/// A name or version that is missing.
pub fn complete_label(context: &Context, pattern: &LabelPattern) -> Result<Label> {
    complete_label_for(context, pattern, std::env::consts::ARCH)
}

/// Fills what is missing in a label of an image for machines of this kind: for others than this
/// one, that is its microarchitecture.
///
/// # Errors
///
/// As [`complete_label`].
pub fn complete_label_for(
    context: &Context,
    pattern: &LabelPattern,
    machine: &str,
) -> Result<Label> {
    let fixed = |text: &str| text.parse().map_err(Report::from);
    let system = match context.system() {
        Some(system) => system,
        None => "local".parse()?,
    };
    let defaults = LabelDefaults {
        tag: fixed("v1")?,
        system,
        uarch: if machine == std::env::consts::ARCH {
            context.settings.uarch.value.clone()
        } else {
            machine.parse()?
        },
    };
    pattern.complete(&defaults)
}
