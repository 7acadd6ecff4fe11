// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images of a registry in a file, and from there in the repository of a site without a network.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cabane_bundle::{BundledImage, Contents, Layout, WriteRequest};
use cabane_channel::{State, VerifiedChannel, read_channel, setting_of, today};
use cabane_label::{ChannelPattern, LabelPattern, NameMatch, SystemPattern};
use cabane_registry::{BaseImage, ChannelPlace, Mirrored, Place, Registry, RemoteImage};
use cabane_report::{Kind, Report, Result};
use cabane_repository::{Added, FollowedName, Repository};
use cabane_signature_policy as signature_policy;
use cabane_site::Context;

use crate::bases;
use crate::channel::{ReleasedImage, check_revoked, follow};
use crate::mirror::{MirrorRequest, mirror};
use crate::pull::{MOST_BASES, ToAdd, add_image};
use crate::registry::Connection;
use crate::upgrade::{plan_upgrade, upgrade};

/// What a bundle is made of.
pub struct BundleRequest<'a> {
    /// The registry with the images.
    pub source: &'a Connection,
    /// The file.
    pub path: &'a Path,
    /// The images of these channels, with the documents of the channels.
    pub channels: Vec<ChannelPattern>,
    /// The images under these labels.
    pub patterns: Vec<LabelPattern>,
    /// Bundles that were installed where this one is going to be.
    pub since: Vec<PathBuf>,
    /// The most bytes of a file, if it is to be cut.
    pub limit: Option<u64>,
}

/// A bundle that was made.
pub struct WrittenBundle {
    /// What is in it.
    pub contents: Contents,
    /// The files.
    pub files: Vec<PathBuf>,
}

/// A bundle that was opened.
pub struct OpenedBundle {
    /// What it says of itself.
    pub contents: Contents,
    connection: Connection,
}

impl OpenedBundle {
    /// Returns the registry in it.
    pub(crate) fn into_connection(self) -> Connection {
        self.connection
    }
}

/// Makes a bundle of images and channels of a registry, and calls `done` for each image. An image without
/// a signature that the configuration requires is refused.
///
/// # Errors
///
/// A channel or an image that is not trusted; and those of reading and writing. Then there is no
/// file, or the one that was there before.
pub fn create_bundle(
    context: &Context,
    request: &BundleRequest<'_>,
    done: &mut dyn FnMut(&BundledImage),
) -> Result<WrittenBundle> {
    let since: Vec<_> =
        request.since.iter().map(|path| open_bundle(context, path)).collect::<Result<_>>()?;
    let layout = Layout::new().map_err(|source| {
        Report::caused(Kind::Failure, "cannot make a temporary file".to_owned(), source)
    })?;
    let layout = Arc::new(layout);
    let shown = request.path.display().to_string();
    let target = Registry::of_backing(Arc::clone(&layout) as _, &shown, None)?;
    let target = Connection::new(context, target);
    let mut copied: Vec<RemoteImage> = Vec::new();
    let mirrored = MirrorRequest {
        source: request.source,
        target: &target,
        channels: request.channels.clone(),
        patterns: request.patterns.clone(),
        force: false,
        dry_run: false,
    };
    let summary =
        mirror(context, &mirrored, &mut |image, _: Option<Mirrored>| copied.push(image.clone()))?;
    let mut images = Vec::new();
    for image in &copied {
        let copy = target.registry.image_of_manifest(&image.place, &image.manifest)?;
        let new = difference(&target.registry, copy.as_ref().unwrap_or(image), &since)
            .as_base(summary.bases.contains(&image.digest));
        done(&new);
        images.push(new);
    }
    let channels = request
        .channels
        .iter()
        .map(|typed| cabane_channel::place_of(context, typed).map(|(_, place)| (&place).into()));
    let contents = Contents {
        version: 1,
        registry: request.source.registry.remembered_as(),
        channels: channels.collect::<Result<_>>()?,
        images,
    };
    let write = WriteRequest { path: request.path, contents: &contents, limit: request.limit };
    let watched = context.transfer(&format!("writing {shown}"));
    let files = layout.write(&write, &mut |at, all| watched.show(at, all));
    watched.end();
    let files = files?;
    Ok(WrittenBundle { contents, files })
}

/// Describes an image, of which only those parts are needed that the bundles before it do not have.
fn difference(target: &Registry, image: &RemoteImage, since: &[OpenedBundle]) -> BundledImage {
    let place = &image.place;
    let whole = BundledImage::new(place, image.digest.clone(), image.size, image.manifest.clone());
    let is_same = |one: &&BundledImage| one.digest == image.digest;
    if since.iter().any(|before| before.contents.images.iter().any(|one| is_same(&one))) {
        let itself = BaseImage { place: place.clone(), digest: image.digest.clone() };
        return whole.only(Vec::new(), &[itself]);
    }
    // The newest bundle is named last.
    let mut bases: Vec<(&Registry, RemoteImage)> = Vec::new();
    for before in since.iter().rev() {
        let names = before.contents.images.iter().rev();
        for one in names.filter(|one| one.place().label.name == place.label.name) {
            let found = before.connection.registry.image_of_manifest(&one.place(), &one.manifest);
            if let Ok(Some(found)) = found {
                bases.push((&before.connection.registry, found));
            }
        }
    }
    bases.sort_by_key(|(_, base)| base.place.label.uarch != place.label.uarch);
    bases.truncate(MOST_BASES);
    let pairs: Vec<(&Registry, &RemoteImage)> =
        bases.iter().map(|(registry, base)| (*registry, base)).collect();
    match target.missing_parts(image, &pairs) {
        Some(parts) => {
            let base =
                |(_, base): (_, RemoteImage)| BaseImage { place: base.place, digest: base.digest };
            let bases: Vec<BaseImage> = bases.into_iter().map(base).collect();
            whole.only(parts, &bases)
        }
        None => whole,
    }
}

/// Opens a bundle. Nothing in it is trusted yet.
///
/// # Errors
///
/// It is not there, none, or not complete.
pub fn open_bundle(context: &Context, path: &Path) -> Result<OpenedBundle> {
    let (layout, contents) = Layout::open(path)?;
    let shown = path.display().to_string();
    let registry = Registry::of_backing(Arc::new(layout), &shown, Some(contents.registry.clone()))?;
    Ok(OpenedBundle { contents, connection: Connection::new(context, registry) })
}

/// How a bundle is installed.
pub struct InstallRequest {
    /// The images under these labels; by default all for this system.
    pub patterns: Vec<LabelPattern>,
    /// Whether labels are taken from other images here.
    pub force: bool,
}

/// An image of a bundle that is going to be installed.
pub struct PlannedImage {
    /// What the bundle says of it.
    pub listed: BundledImage,
    image: RemoteImage,
    /// Whether it is here already.
    pub is_here: bool,
    /// Whether it is installed only because another image is built on it.
    is_base: bool,
}

/// What is going to be installed. All of it is trusted, as far as the configuration demands it.
pub struct InstallPlan<'a> {
    bundle: &'a OpenedBundle,
    /// The images.
    pub images: Vec<PlannedImage>,
    channels: Vec<(ChannelPlace, VerifiedChannel)>,
    force: bool,
}

/// Checks what is to be installed: signatures, channels, and whether the images are here of which a
/// bundle has only differences. Nothing is changed.
///
/// # Errors
///
/// An image or a channel that is not trusted, or not complete.
pub fn plan_install<'a>(
    context: &Context,
    bundle: &'a OpenedBundle,
    request: &InstallRequest,
) -> Result<InstallPlan<'a>> {
    let registry = &bundle.connection.registry;
    let repository = context.repository_to_write()?.repository;
    let mut channels = Vec::new();
    for place in bundle.contents.channels.iter().map(cabane_bundle::BundledChannel::place) {
        // Which tags are channels is decided by the configuration.
        match setting_of(context, &place.namespace, &place.name) {
            Ok(setting) => {
                let channel = read_channel(context, registry, setting, &place)?;
                channels.push((place, channel));
            }
            Err(_) => context.note(format_args!(
                "the channel {place} in the bundle is none of the configuration, and is ignored"
            )),
        }
    }
    let is_selected =
        |one: &&BundledImage| !one.is_base && is_wanted(context, one, &request.patterns);
    let mut images = Vec::new();
    for listed in bundle.contents.images.iter().filter(is_selected) {
        images.push(plan_image(context, bundle, &repository, listed)?);
    }
    if images.is_empty() {
        let message = format!("no image in the bundle {} was selected", registry.address());
        return Err(Report::new(Kind::NotFound, message)
            .hinted("`cabane bundle ls FILE` lists all images in it".to_owned()));
    }
    plan_bases(context, bundle, &repository, &mut images)?;
    Ok(InstallPlan { bundle, images, channels, force: request.force })
}

/// Adds the images on which the selected ones are built, as far as the bundle has them.
fn plan_bases(
    context: &Context,
    bundle: &OpenedBundle,
    repository: &Repository,
    images: &mut Vec<PlannedImage>,
) -> Result<()> {
    let repositories = context.repositories()?;
    let mut records = Vec::new();
    for planned in images.iter() {
        records.extend(bases::of_remote(&bundle.connection, &planned.image)?);
    }
    for base in records {
        let is_elsewhere = repositories.iter().any(|one| one.repository.has_image(&base.digest));
        if is_elsewhere || images.iter().any(|one| one.image.digest == base.digest) {
            continue;
        }
        if let Some(listed) = bundle.contents.images.iter().find(|one| one.digest == base.digest) {
            let planned = plan_image(context, bundle, repository, listed)?;
            images.push(PlannedImage { is_base: true, ..planned });
        }
    }
    Ok(())
}

/// Checks an image of a bundle that is to be installed.
fn plan_image(
    context: &Context,
    bundle: &OpenedBundle,
    repository: &Repository,
    listed: &BundledImage,
) -> Result<PlannedImage> {
    let (registry, place) = (&bundle.connection.registry, listed.place());
    check_revoked(context, &place, &listed.digest)?;
    let found = registry.image_of_manifest(&place, &listed.manifest)?;
    let image = found.filter(|image| image.digest == listed.digest).ok_or_else(|| {
        let message = format!("the bundle {} lacks {place}, which it lists", registry.address());
        Report::new(Kind::BadInput, message)
    })?;
    signature_policy::check_at_pull(context, registry, &image)?;
    let is_here = repository.has_whole_image(&image.digest, image.size);
    if !is_here {
        check_bases(repository, listed, registry)?;
    }
    Ok(PlannedImage { listed: listed.clone(), image, is_here, is_base: false })
}

fn is_wanted(context: &Context, image: &BundledImage, patterns: &[LabelPattern]) -> bool {
    let Place { namespace, label } = image.place();
    let is_system = |system: Option<&SystemPattern>| match system {
        Some(SystemPattern::Any) => true,
        Some(SystemPattern::Is(wanted)) => *wanted == label.system,
        None => context.system().is_none_or(|here| here == label.system),
    };
    if patterns.is_empty() {
        return is_system(None);
    }
    patterns.iter().any(|pattern| {
        pattern.namespace.as_ref().is_none_or(|one| *one == namespace)
            && pattern.matches(&label, NameMatch::Exact)
            && is_system(pattern.system.as_ref())
    })
}

/// Fails if a bundle has only what differs from images that are not here.
fn check_bases(repository: &Repository, image: &BundledImage, registry: &Registry) -> Result<()> {
    let mut bases = registry.bases_of(&image.digest).into_iter();
    let Some(missing) = bases.find(|base| !repository.has_image(&base.digest)) else {
        return Ok(());
    };
    let (place, id, address) = (image.place(), missing.digest.id(), registry.address());
    let message = format!("the bundle {address} has only what {place} does not share with {id}");
    Err(Report::new(Kind::NotFound, message).hinted(format!(
        "{id} is not here: install the bundle that was named by `--since` when this one was made, or \
         make one without `--since`"
    )))
}

impl InstallPlan<'_> {
    /// Adds the images to the repository, and calls `done` for each. Names that follow the channels of the
    /// bundle become the images that these release.
    ///
    /// # Errors
    ///
    /// A label that is taken, content that is not what the bundle says; and those of writing. The
    /// images before it stay.
    pub fn execute(&self, context: &Context, done: &mut dyn FnMut(&Added)) -> Result<()> {
        let connection = &self.bundle.connection;
        let repository = context.repository_to_write()?.repository;
        // The others bring their bases.
        for planned in self.images.iter().filter(|one| !one.is_base) {
            let image = &planned.image;
            let force = self.force || self.is_of_followed(&repository, image)?;
            let wanted = ToAdd::new(image, force);
            done(&add_image(context, connection, &repository, &wanted)?);
            bases::pull(context, connection, &repository, (image, None), done)?;
        }
        for (place, channel) in &self.channels {
            self.follow_new(&repository, place, channel)?;
        }
        if self.channels.is_empty() {
            return Ok(());
        }
        let mut planned = plan_upgrade(context, connection, &[])?;
        planned.retain(|one| self.channels.iter().any(|(place, _)| *place == one.channel));
        upgrade(context, connection, &planned, &mut |_, _| ())
    }

    /// Whether the label of an image is here that of one which followed the same channel: then the
    /// channel moves it.
    fn is_of_followed(&self, repository: &Repository, image: &RemoteImage) -> Result<bool> {
        let label = &image.place.label;
        for (place, channel) in &self.channels {
            let entries = &channel.document.entries;
            if !entries.iter().any(|entry| entry.digest == image.digest && entry.label == *label) {
                continue;
            }
            let followed = repository.followed(&place.name, &place.system)?;
            if followed.values().any(|now| now.release.label == *label) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Lets names follow a channel that did not: those of the images that were installed.
    fn follow_new(
        &self,
        repository: &Repository,
        place: &ChannelPlace,
        channel: &VerifiedChannel,
    ) -> Result<()> {
        let connection = &self.bundle.connection;
        let known = repository.followed(&place.name, &place.system)?;
        for entry in
            channel.document.entries.iter().filter(|entry| entry.state(today()) != State::Retired)
        {
            let planned = self.images.iter().find(|planned| planned.image.digest == entry.digest);
            let Some(planned) = planned else { continue };
            let label = &entry.label;
            let version =
                LabelPattern { version: Some(label.version.clone()), ..LabelPattern::default() };
            let patterns = [Some(version), entry.is_default.then(LabelPattern::default)];
            for pattern in patterns.into_iter().flatten() {
                let name = FollowedName::new(&pattern, label);
                if known.contains_key(&name) {
                    continue;
                }
                let released = ReleasedImage {
                    image: planned.image.clone(),
                    entry: entry.clone(),
                    channel: channel.clone(),
                };
                follow(connection, repository, &released, &name)?;
            }
        }
        Ok(())
    }
}
