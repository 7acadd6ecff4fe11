// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images of a registry become images of the repository.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};

use cabane_evidence as evidence;
use cabane_label::{
    Digest, ImageDescription, Label, LabelPattern, NameMatch, SystemPattern, escape, import_command,
};
use cabane_process::Scratch;
use cabane_registry::{Listed, Place, RemoteImage, Wanted};
use cabane_report::{IoContext, Kind, Report, Result, size};
use cabane_repository::{
    Access, Added, FollowedName, ImageFormat, Incoming, Repository, VerifiedRequest, groups,
};
use cabane_run::{metadata, open_image};
use cabane_signature_policy as signature_policy;
use cabane_site::Context;
use cabane_site::settings::RestrictedSetting;

use crate::bases;
use crate::channel::{check_revoked, follow, released_image};
use crate::import::place::find_or_make;
use crate::import::{close, restrict};
use crate::list::{compare, labeled_image, listed_image, say_differences};
use crate::registry::Connection;

/// What is to be pulled, and how.
#[derive(Clone, Debug)]
pub struct PullRequest {
    /// A label, an ID or a digest, as it is typed.
    pub image: String,
    /// Whether the label is taken from the image that has it in the repository.
    pub force: bool,
    /// The Unix group whose members alone may read the image here.
    pub group: Option<String>,
}

/// How many images are looked through for what they have in common with one.
pub(crate) const MOST_BASES: usize = 2;

/// Downloads what was typed into the repository, and calls `done` for each image that was added.
///
/// # Errors
///
/// What is malformed or not there, a signature that is required and missing, a label that is taken,
/// and those of downloading and writing.
pub fn pull(
    context: &Context,
    connection: &Connection,
    request: &PullRequest,
    done: &mut dyn FnMut(&Added),
) -> Result<()> {
    let description: ImageDescription = request.image.parse()?;
    let released = match &description {
        ImageDescription::Pattern(pattern) => released_image(context, connection, pattern)?,
        _ => None,
    };
    let images = match &released {
        Some(released) => vec![released.image.clone()],
        None => find_remote(context, connection, &request.image, &description)?,
    };
    let written = context.repository_to_write()?;
    for image in images {
        let (group, force) = (request.group.as_ref(), request.force);
        let wanted = ToAdd { group, ..ToAdd::new(&image, force) };
        done(&add_image(context, connection, &written.repository, &wanted)?);
        // Before the name changes: without its bases the image cannot be started.
        bases::pull(context, connection, &written.repository, (&image, group), done)?;
        if let (Some(released), ImageDescription::Pattern(pattern)) = (&released, &description) {
            let name = FollowedName::new(pattern, &image.place.label);
            follow(connection, &written.repository, released, &name)?;
        }
    }
    Ok(())
}

/// An image of a registry that is to be in the repository.
#[derive(Clone)]
pub(crate) struct ToAdd<'a> {
    pub(crate) image: &'a RemoteImage,
    /// The label that it gets.
    pub(crate) label: Label,
    /// The Unix group whose members alone may read it.
    pub(crate) group: Option<&'a String>,
    /// Whether the label is taken from the image that has it.
    pub(crate) force: bool,
}

impl<'a> ToAdd<'a> {
    /// An image that gets the label that it has in the registry.
    pub(crate) fn new(image: &'a RemoteImage, force: bool) -> Self {
        Self { image, label: image.place.label.clone(), group: None, force }
    }
}

/// Downloads an image into a repository, if it is trusted.
///
/// # Errors
///
/// As [`pull`].
pub(crate) fn add_image(
    context: &Context,
    connection: &Connection,
    repository: &Repository,
    wanted: &ToAdd<'_>,
) -> Result<Added> {
    let ToAdd { image, label, group, force } = wanted;
    check_revoked(context, &image.place, &image.digest)?;
    // `--force` is about labels, and no way around it.
    let checked = signature_policy::check_at_pull(context, &connection.registry, image)?;
    let access = access(context, *group, &image.place)?;
    let pulled = Pulled { image, label, is_signed: checked.is_signed, access, force: *force };
    let added = one(context, connection, repository, pulled)?;
    if let Some(record) = checked.record {
        signature_policy::remember(context, repository, &image.digest, record);
    }
    if let Err(error) = evidence::bring(&connection.registry, image, repository) {
        context.detail(format_args!("the evidence of {} was not pulled: {error}", image.place));
    }
    Ok(added)
}

/// Downloads only the metadata of an image, into a new directory, and returns its label.
///
/// # Errors
///
/// As [`pull`]; and an image without metadata.
pub fn pull_metadata(
    context: &Context,
    connection: &Connection,
    typed: &str,
    directory: &Path,
) -> Result<Label> {
    let (image, is_signed) = image_of_metadata(context, connection, typed)?;
    if is_signed {
        context.warning("no signature covers metadata that are pulled without their image");
    }
    // What was there could be mixed up with what comes.
    fs::create_dir(directory).or_failed(|| format!("make {}", directory.display()))?;
    let outcome = fetch_meta(connection, &image, directory);
    if outcome.is_err() {
        let _ = fs::remove_dir_all(directory);
    }
    outcome.map(|()| image.place.label)
}

/// What became of the metadata of an image that were pulled into a repository.
#[derive(Clone, Debug)]
pub struct AddedMetadata {
    /// The label of the image in the registry.
    pub label: Label,
    /// The image.
    pub digest: Digest,
    /// Where the metadata are.
    pub path: PathBuf,
    /// Whether they were there before.
    pub unchanged: bool,
}

/// Downloads only the metadata of an image, to where the repository has those of the image. Only the
/// users who may read the image, by the rules of the configuration, may read them.
///
/// # Errors
///
/// As [`pull`]; an image without metadata; and one that must be signed, because its signature does not
/// cover metadata that come without it.
pub fn add_metadata(
    context: &Context,
    connection: &Connection,
    typed: &str,
) -> Result<AddedMetadata> {
    let (image, is_signed) = image_of_metadata(context, connection, typed)?;
    if is_signed {
        let message = format!(
            "cannot add the metadata of {} without the image: the configuration requires a signature, and none covers them",
            image.place
        );
        let hint = format!("`cabane image pull {}` pulls the image", image.place);
        return Err(Report::new(Kind::Untrusted, message).hinted(hint));
    }
    let access = access(context, None, &image.place)?;
    let repository = context.repository_to_write()?.repository;
    let directory = Scratch::new().or_failed(|| "make a temporary directory".to_owned())?;
    fetch_meta(connection, &image, directory.path())?;
    let is_new = repository.add_metadata(&image.digest, directory.path(), access)?;
    let path = repository.meta_path(&image.digest);
    let RemoteImage { place, digest, .. } = image;
    Ok(AddedMetadata { label: place.label, digest, path, unchanged: !is_new })
}

/// Finds the image whose metadata alone are requested, unless it was revoked or is not trusted. Returns
/// also whether the configuration requires a signature, which the image then has.
fn image_of_metadata(
    context: &Context,
    connection: &Connection,
    typed: &str,
) -> Result<(RemoteImage, bool)> {
    let description: ImageDescription = typed.parse()?;
    let images = find_remote(context, connection, typed, &description)?;
    let image = images.into_iter().next().ok_or_else(|| not_found(connection, typed))?;
    check_revoked(context, &image.place, &image.digest)?;
    let checked = signature_policy::check_at_pull(context, &connection.registry, &image)?;
    Ok((image, checked.is_signed))
}

fn fetch_meta(connection: &Connection, image: &RemoteImage, directory: &Path) -> Result<()> {
    if connection.registry.fetch_meta(image, directory)? {
        return Ok(());
    }
    let hint = "the image itself may hold them: pull it".to_owned();
    Err(Report::new(Kind::NotFound, "the image has no metadata").hinted(hint))
}

/// Returns who may read an image here: whom the command line names, else the first rule of the
/// configuration that is for it.
fn access(context: &Context, group: Option<&String>, place: &Place) -> Result<Access> {
    let is_for = |one: &&RestrictedSetting| one.rule.is_for(&place.namespace, &place.label);
    let rule = context.settings.restricted.iter().find(is_for);
    let group = group.or(rule.map(|one| &one.rule.group));
    match group {
        None => Ok(Access::AsNewFiles),
        Some(group) => group_of(group).map(Access::Group),
    }
}

/// Returns the number of a group that was typed.
///
/// # Errors
///
/// A name that no one knows.
pub(crate) fn group_of(name: &str) -> Result<u32> {
    groups::number_of(name).ok_or_else(|| {
        Report::new(Kind::Usage, format!("there is no group `{}`", escape(name)))
            .hinted("`id` lists your groups".to_owned())
    })
}

fn not_found(connection: &Connection, typed: &str) -> Report {
    let registry = connection.registry.address();
    let error = format!("no image in the registry {registry} matches `{typed}`");
    let hint = "`cabane image find '@*'` lists all images".to_owned();
    Report::new(Kind::NotFound, error).hinted(hint)
}

/// Refuses a container image where images of Cabane are meant.
///
/// # Errors
///
/// What was typed names a container image.
pub fn refuse_container(description: &ImageDescription) -> Result<()> {
    let ImageDescription::Container(text) = description else {
        return Ok(());
    };
    let message = format!("`{}` is a container image, not a Cabane image", escape(text));
    Err(Report::new(Kind::Usage, message).hinted(format!("type `{}`", import_command(text))))
}

/// Finds what was typed in a registry: one image, or all labels of one digest.
///
/// # Errors
///
/// Nothing, or several, are what was typed; and those of asking.
pub fn find_remote(
    context: &Context,
    connection: &Connection,
    typed: &str,
    description: &ImageDescription,
) -> Result<Vec<RemoteImage>> {
    refuse_container(description)?;
    if let ImageDescription::Path(path) = description {
        let error = format!("`{}` is a file, and not an image in a registry", path.display());
        return Err(Report::new(Kind::Usage, error));
    }
    if let ImageDescription::Pattern(pattern) = description
        && let Some(released) = released_image(context, connection, pattern)?
    {
        return Ok(vec![released.image]);
    }
    if let Some(place) = whole_place(context, connection, description) {
        return Ok(vec![labeled_image(context, connection, &place)?]);
    }
    let found = look_up_listed(context, connection, typed, description);
    if let (Err(error), ImageDescription::Digest(digest)) = (&found, description)
        && error.kind() == Kind::NotFound
        && let Some(held) = held_image(context, connection, digest)?
    {
        return Ok(vec![held]);
    }
    let mut images = Vec::new();
    for listed in found? {
        images.extend(listed_image(context, connection, &listed)?);
    }
    // A digest is that image, whatever image its labels have now.
    match description {
        ImageDescription::Id(id) => images.retain(|image| image.digest.id() == *id),
        ImageDescription::Digest(digest) => images.retain(|image| image.digest == *digest),
        _ => {}
    }
    if images.is_empty() {
        let held = match description {
            ImageDescription::Digest(digest) => held_image(context, connection, digest)?,
            _ => None,
        };
        images.push(held.ok_or_else(|| not_found(connection, typed))?);
    }
    Ok(images)
}

/// Finds an image that has no label any more, and on which others are built. Its tag is its ID.
fn held_image(
    context: &Context,
    connection: &Connection,
    digest: &Digest,
) -> Result<Option<RemoteImage>> {
    let (namespace, listing) =
        (connection.namespace_of(None), context.settings.registry.listing.value);
    Ok(connection.registry.find_held_base(&namespace, digest, listing)?)
}

/// Returns the place that a pattern names, if nothing is left open: then no one has to list
/// anything.
fn whole_place(
    context: &Context,
    connection: &Connection,
    description: &ImageDescription,
) -> Option<Place> {
    let ImageDescription::Pattern(pattern) = description else {
        return None;
    };
    let system = match &pattern.system {
        Some(SystemPattern::Is(system)) => system.clone(),
        Some(SystemPattern::Any) => return None,
        None => context.system()?,
    };
    let LabelPattern { name, version, tag, uarch, .. } = pattern.clone();
    let label = Label { name: name?, version: version?, tag: tag?, system, uarch: uarch? };
    Some(Place { namespace: connection.namespace_of(Some(pattern)), label })
}

fn look_up_listed(
    context: &Context,
    connection: &Connection,
    typed: &str,
    description: &ImageDescription,
) -> Result<Vec<Listed>> {
    let mut found = look_up(context, connection, Some(description), NameMatch::Exact, false)?;
    if found.is_empty() {
        // It may have been pushed a moment ago, or by another tool.
        found = look_up(context, connection, Some(description), NameMatch::Exact, true)?;
    }
    if found.is_empty() {
        return Err(not_found(connection, typed));
    }
    if matches!(description, ImageDescription::Pattern(_)) && found.len() > 1 {
        let lines: Vec<_> = found.iter().map(|image| format!("  {}", image.label)).collect();
        let error = format!("several images in the registry match `{typed}`");
        return Err(Report::new(Kind::Ambiguous, error)
            .detailed(lines.join("\n"))
            .hinted("name the one you mean".to_owned()));
    }
    Ok(found)
}

/// What is pulled, and how.
#[derive(Clone, Copy)]
struct Pulled<'a> {
    image: &'a RemoteImage,
    /// The label that it gets here.
    label: &'a Label,
    /// Whether it had to be signed, and is.
    is_signed: bool,
    /// Who may read it here.
    access: Access,
    force: bool,
}

fn one(
    context: &Context,
    connection: &Connection,
    repository: &Repository,
    pulled: Pulled<'_>,
) -> Result<Added> {
    let Pulled { image, label, force, .. } = pulled;
    // Before gigabytes are on their way.
    let known = repository.by_label(label)?;
    if let Some(known) = known.filter(|known| known.digest != image.digest && !force) {
        let label = Box::new(label.clone());
        return Err(cabane_repository::Error::LabelTaken { label, digest: known.digest }.into());
    }
    let waits = |is_first: bool| {
        if is_first {
            context.note(format_args!("waiting for another pull of {}", image.digest.id()));
        }
        Ok(())
    };
    let mut is_damaged = false;
    let find = || {
        // It is looked for again in the place of the download, where nothing can be assembled meanwhile.
        let is_still_damaged = is_damaged && repository.is_deduplicated(&image.digest);
        if is_still_damaged || !repository.has_whole_image(&image.digest, image.size) {
            return Ok(None);
        }
        match repository.plain_image(&image.digest) {
            Err(error @ cabane_repository::Error::DamagedParts { .. }) => {
                context.warning(error);
                is_damaged = true;
                return Ok(None);
            }
            assembled => drop(assembled?),
        }
        restrict(context, repository, &image.digest, pulled.access)?;
        match repository.tag(&image.digest, label.clone(), force) {
            // It was in no one's use, and someone tidied up.
            Err(cabane_repository::Error::NoSuchImage { .. }) => Ok(None),
            tagged => {
                // It may have been signed since it came here.
                let root_signature = connection.registry.root_signature(image)?;
                keep_root_signature(repository, image, root_signature)?;
                Ok(Some(tagged?))
            }
        }
    };
    let download = |incoming| download(context, connection, repository, pulled, incoming);
    find_or_make(repository, &image.digest, waits, find, download)
}

fn download(
    context: &Context,
    connection: &Connection,
    repository: &Repository,
    pulled: Pulled<'_>,
    incoming: Incoming,
) -> Result<Added> {
    let image = pulled.image;
    let registry = &connection.registry;
    let access = close(&incoming, pulled.access)?;
    let alive = incoming.keep_alive();
    let directory = Scratch::new().or_failed(|| "make a temporary directory".to_owned())?;
    // What is attached to an image is not signed with it; what is in the image is.
    let has_meta = !pulled.is_signed && registry.fetch_meta(image, directory.path())?;
    let watched = context.transfer(&format!("pulling {}", image.place.label));
    let bases = bases_of(connection, repository, image)?;
    let fetched = registry.fetch_image(image, incoming.path(), &bases, &mut |done, total| {
        watched.show(done, total);
    });
    watched.end();
    let fetched = fetched?;
    if fetched.reused > 0 {
        let (reused, whole) = (size(fetched.reused), size(image.size));
        context.note(format_args!("{reused} of {whole} were in other images of that name"));
    }
    // What mounts must have no other thread.
    drop(alive);
    // Only a kernel can tell what it is worth.
    let root_signature = registry.root_signature(image)?;
    if !has_meta {
        let path = &fetched.path;
        let file = fs::File::open(path).or_failed(|| format!("read {}", path.display()))?;
        let format = ImageFormat::of_file(&file)
            .map_err(|source| cabane_repository::Error::Image { path: path.clone(), source })?;
        copy_metadata(context, path, format, directory.path())?;
    }
    // A large file may take long until it is on disk.
    let _alive = incoming.keep_alive();
    let added = repository.add_verified(VerifiedRequest {
        label: pulled.label.clone(),
        incoming,
        digest: &image.digest,
        meta: directory.path(),
        access,
        replace: pulled.force,
    })?;
    keep_root_signature(repository, image, root_signature)?;
    Ok(added)
}

fn keep_root_signature(
    repository: &Repository,
    image: &RemoteImage,
    bytes: Option<Vec<u8>>,
) -> Result<()> {
    let kept = bytes.map(|bytes| repository.keep_root_signature(&image.digest, &bytes));
    Ok(kept.transpose().map(drop)?)
}

/// Returns images of the repository that may have much in common with one: those without which it is
/// not complete, or those of the same name, the newest first.
pub(crate) fn bases_of(
    connection: &Connection,
    repository: &Repository,
    image: &RemoteImage,
) -> Result<Vec<PathBuf>> {
    let needed = connection.registry.bases_of(&image.digest);
    if !needed.is_empty() {
        return Ok(needed.iter().flat_map(|base| repository.files_of(&base.digest)).collect());
    }
    let label = &image.place.label;
    let pattern = LabelPattern { name: Some(label.name.clone()), ..LabelPattern::default() };
    let mut found = repository.find(&pattern, NameMatch::Exact)?;
    // Those for the same processors have the same programs in them.
    found.sort_by_key(|record| (record.label.uarch != label.uarch, Reverse(record.date)));
    let mut digests: Vec<_> = found.into_iter().map(|record| record.digest).collect();
    digests.dedup();
    digests.truncate(MOST_BASES);
    let mut files: Vec<PathBuf> = Vec::new();
    for file in digests.iter().flat_map(|digest| repository.files_of(digest)) {
        if !files.contains(&file) {
            files.push(file);
        }
    }
    Ok(files)
}

/// Looks into an image that came without metadata, or whose own are wanted.
pub(crate) fn copy_metadata(
    context: &Context,
    path: &Path,
    format: ImageFormat,
    directory: &Path,
) -> Result<()> {
    let file = open_image(path, format)?;
    metadata::copy(&file, &context.mount_methods(), directory)
        .map_err(|error| error.with_kind(Kind::Failure))
}

/// Finds what was typed in the list of a registry, among the images of this system unless another
/// is named. With `refresh` the registry is asked for each image, whatever its list says.
///
/// # Errors
///
/// Those of asking.
pub fn look_up(
    context: &Context,
    connection: &Connection,
    description: Option<&ImageDescription>,
    how: NameMatch,
    refresh: bool,
) -> Result<Vec<Listed>> {
    let typed = match description {
        Some(ImageDescription::Pattern(pattern)) => Some(pattern),
        _ => None,
    };
    if let Some(pattern) = typed
        && let Some(released) = released_image(context, connection, pattern)?
    {
        let image = released.image;
        return Ok(vec![Listed {
            namespace: image.place.namespace,
            label: image.place.label,
            digest: image.digest,
            size: image.size,
            date: image.created,
            manifest: Some(image.manifest),
        }]);
    }
    let by_digest =
        matches!(description, Some(ImageDescription::Id(_) | ImageDescription::Digest(_)));
    let namespace = connection.namespace_of(typed);
    let mut pattern = typed.cloned().unwrap_or_default();
    // A digest is meant wherever it is.
    if pattern.system.is_none() && !by_digest {
        pattern.system = context.system().map(SystemPattern::Is);
    }
    let wanted = Wanted { namespace: &namespace, pattern: Some(&pattern), how };
    let mut found = if refresh {
        connection.registry.forget_list(&namespace);
        let comparison = compare(context, connection, &wanted)?;
        say_differences(context, &comparison);
        comparison.images
    } else {
        connection.registry.find(&wanted, context.settings.registry.listing.value)?
    };
    match description {
        Some(ImageDescription::Id(id)) => found.retain(|image| image.digest.id() == *id),
        Some(ImageDescription::Digest(digest)) => found.retain(|image| image.digest == *digest),
        _ => {}
    }
    Ok(found)
}
