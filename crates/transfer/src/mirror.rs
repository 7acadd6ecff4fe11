// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A registry gets the images of another one: those of channels, or of labels.

use std::collections::BTreeSet;

use cabane_channel::{
    VerifiedChannel, current_document, document_of, newest, place_of, read_channel,
};
use cabane_label::{ChannelPattern, Digest, ImageDescription, LabelPattern, NameMatch};
use cabane_registry::{ChannelPlace, Mirrored, Place, RemoteImage};
use cabane_report::{Kind, Report, Result};
use cabane_signature_policy as signature_policy;
use cabane_site::Context;
use cabane_site::settings::ChannelSetting;

use crate::bases;
use crate::pull::look_up;
use crate::registry::Connection;
use crate::scratch::PartialDirectory;

/// What is copied from which registry to which.
pub struct MirrorRequest<'a> {
    /// From here.
    pub source: &'a Connection,
    /// To there.
    pub target: &'a Connection,
    /// The images of these channels, with the documents of the channels.
    pub channels: Vec<ChannelPattern>,
    /// The images under these labels.
    pub patterns: Vec<LabelPattern>,
    /// Whether labels are taken from other images of the target.
    pub force: bool,
    /// Whether nothing is copied.
    pub dry_run: bool,
}

/// What was copied.
#[derive(Clone, Debug, Default)]
pub struct MirrorSummary {
    /// The images that were selected.
    pub images: usize,
    /// Those that the target did not have under their label.
    pub new: usize,
    /// Metadata, chunk lists, and signatures that were added to images.
    pub attached: usize,
    /// The bytes that were sent.
    pub sent: u64,
    /// The documents of channels that were added.
    pub documents: usize,
    /// The images that were not selected, and on which selected ones are built.
    pub bases: BTreeSet<Digest>,
}

/// Copies images with the images on which they are built, and calls `done` for each that changed. An image without a signature that the
/// configuration requires is not copied. A channel comes after its images.
///
/// # Errors
///
/// A channel or an image that is not trusted; and those of reading and writing. What was copied before
/// stays.
pub fn mirror(
    context: &Context,
    request: &MirrorRequest<'_>,
    done: &mut dyn FnMut(&RemoteImage, Option<Mirrored>),
) -> Result<MirrorSummary> {
    let mut mirror = Mirror {
        context,
        request,
        seen: BTreeSet::new(),
        bases: BTreeSet::new(),
        summary: MirrorSummary::default(),
        done,
    };
    let selection = Selection {
        source: request.source,
        channels: &request.channels,
        patterns: &request.patterns,
    };
    let channels = selection.each(context, &mut |image, is_of_channel| {
        // It may have been copied before, as the base of another one.
        mirror.copy(image)?;
        if is_of_channel && !request.dry_run {
            request.target.registry.hold(image)?;
        }
        Ok(())
    })?;
    let mut summary = mirror.summary;
    for (setting, channel) in channels.iter().filter(|_| !request.dry_run) {
        summary.documents += copy_documents(context, request, setting, channel)?;
    }
    Ok(summary)
}

/// Images of a registry.
pub(crate) struct Selection<'a> {
    pub(crate) source: &'a Connection,
    /// Those of these channels.
    pub(crate) channels: &'a [ChannelPattern],
    /// Those under these labels.
    pub(crate) patterns: &'a [LabelPattern],
}

impl Selection<'_> {
    /// Calls `with` for each image, and whether it is of a channel. Returns the channels.
    ///
    /// # Errors
    ///
    /// Nothing is selected; a channel that is not trusted; and those of asking and of `with`.
    pub(crate) fn each<'c>(
        &self,
        context: &'c Context,
        with: &mut dyn FnMut(&RemoteImage, bool) -> Result<()>,
    ) -> Result<Vec<(&'c ChannelSetting, VerifiedChannel)>> {
        let registry = &self.source.registry;
        let mut channels = Vec::new();
        let mut count = 0;
        for typed in self.channels {
            let (setting, place) = place_of(context, typed)?;
            let channel = read_channel(context, registry, setting, &place)?;
            for image in images_of(self.source, &channel)? {
                with(&image, true)?;
            }
            channels.push((setting, channel));
        }
        for pattern in self.patterns {
            let description = ImageDescription::Pattern(pattern.clone());
            let how = NameMatch::Exact;
            for listed in look_up(context, self.source, Some(&description), how, false)? {
                if let Some(image) = registry.image_if_there(&listed.place())? {
                    count += 1;
                    with(&image, false)?;
                }
            }
        }
        if count == 0 && channels.is_empty() {
            let address = registry.address();
            let message = format!("no image in the registry {address} was selected");
            return Err(Report::new(Kind::NotFound, message).hinted(format!(
                "`cabane image find --registry {address} '@*'` lists all images"
            )));
        }
        Ok(channels)
    }
}

/// Gets the images of a channel by their manifests. Those that are retired may be gone.
fn images_of(source: &Connection, channel: &VerifiedChannel) -> Result<Vec<RemoteImage>> {
    let document = &channel.document;
    let mut images = Vec::new();
    for entry in &document.entries {
        let place = document.place_of(entry);
        match source.registry.image_of_manifest(&place, &entry.manifest)? {
            Some(image) => images.push(image),
            None if entry.retirement.is_some() => {}
            None => {
                let (channel, label) = (document.place(), &entry.label);
                let message =
                    format!("the registry has lost {label}, which the channel {channel} releases");
                return Err(Report::new(Kind::Registry, message).hinted(format!(
                    "a release manager pushes it again and promotes it, or retires it from {channel}"
                )));
            }
        }
    }
    Ok(images)
}

/// The images that are being copied.
struct Mirror<'a, 'b> {
    context: &'a Context,
    request: &'a MirrorRequest<'a>,
    /// The images that were copied, and under which labels; none for those without a label.
    seen: BTreeSet<(Digest, Option<Place>)>,
    /// The images on which others are built, as far as they were copied.
    bases: BTreeSet<Digest>,
    summary: MirrorSummary,
    done: &'b mut dyn FnMut(&RemoteImage, Option<Mirrored>),
}

impl Mirror<'_, '_> {
    /// Copies an image under its label, after the images on which it is built. Returns `false` if it was
    /// copied before.
    fn copy(&mut self, image: &RemoteImage) -> Result<bool> {
        self.copy_bases(image)?;
        self.summary.bases.remove(&image.digest);
        self.copy_one(image, Some(&image.place), self.request.force)
    }

    /// Copies the images on which an image is built. The target may have the image without them: an earlier
    /// version did not copy them.
    fn copy_bases(&mut self, image: &RemoteImage) -> Result<()> {
        let MirrorRequest { source, target, dry_run, .. } = *self.request;
        for base in bases::of_remote(source, image)? {
            let is_done = |(digest, _): &(Digest, Option<Place>)| *digest == base.digest;
            if self.bases.contains(&base.digest) {
                continue;
            }
            let Some(found) = bases::find(self.context, source, &image.place, &base)? else {
                bases::warn_unless_there(self.context, target, (image, &image.place), &base)?;
                continue;
            };
            let (base, is_selected) = (&found.image, self.seen.iter().any(is_done));
            // Its label in the target stays what it is.
            let other = target.registry.image_if_there(&base.place)?;
            let is_free = other.is_none_or(|other| other.manifest == base.manifest);
            let label = Some(&base.place).filter(|_| found.has_label && is_free);
            if self.copy_one(base, label, false)? && !is_selected {
                self.summary.bases.insert(base.digest.clone());
            }
            if !dry_run {
                target.registry.hold_base(base)?;
            }
            self.bases.insert(base.digest.clone());
        }
        Ok(())
    }

    /// Copies an image under a label, or without one. Returns `false` if it was copied before.
    fn copy_one(
        &mut self,
        image: &RemoteImage,
        label: Option<&Place>,
        force: bool,
    ) -> Result<bool> {
        if !self.seen.insert((image.digest.clone(), label.cloned())) {
            return Ok(false);
        }
        self.summary.images += 1;
        let MirrorRequest { source, target, dry_run, .. } = *self.request;
        signature_policy::check_at_pull(self.context, &source.registry, image)?;
        if dry_run {
            let there = match label {
                Some(place) => target.registry.image_if_there(place)?,
                None => target.registry.held_base(&image.place, &image.digest)?,
            };
            if there.is_none_or(|there| there.manifest != image.manifest) {
                self.summary.new += 1;
                (self.done)(image, None);
            }
            return Ok(true);
        }
        let directory = PartialDirectory::of(self.context, "mirror", image)?;
        let watched = self.context.transfer(&format!("mirroring {}", image.place.label));
        let (source, target) = (&source.registry, &target.registry);
        let mut progress = |at, all| watched.show(at, all);
        let mirrored = match label {
            Some(_) => target.mirror(source, image, force, directory.path(), &mut progress),
            None => target.mirror_base(source, image, directory.path(), &mut progress),
        };
        watched.end();
        let mirrored = mirrored?;
        directory.remove();
        self.summary.new += usize::from(mirrored.is_new);
        self.summary.attached += mirrored.attached;
        self.summary.sent += mirrored.sent;
        if mirrored.is_new || mirrored.attached > 0 {
            (self.done)(image, Some(mirrored));
        }
        Ok(true)
    }
}

/// Copies the documents of a channel that the target does not have, the current one last. Those that
/// are not trusted are left out.
///
/// # Errors
///
/// The target has a newer document, or another one with the same number.
fn copy_documents(
    context: &Context,
    request: &MirrorRequest<'_>,
    setting: &ChannelSetting,
    channel: &VerifiedChannel,
) -> Result<usize> {
    let place: ChannelPlace = channel.document.place();
    let (source, target) = (&request.source.registry, &request.target.registry);
    let serial = channel.document.serial;
    let there = newest(context, target, setting, &place);
    let there = match there {
        Ok(there) => there.pending.or(there.current),
        // It is replaced.
        Err(error) if error.kind() == Kind::Untrusted => None,
        Err(error) => return Err(error),
    };
    let is_newer = |there: &&VerifiedChannel| {
        there.document.serial > serial
            || there.document.serial == serial && there.digest != channel.digest
    };
    if let Some(there) = there.as_ref().filter(is_newer) {
        let (address, number) = (target.address(), there.document.serial);
        let message = format!(
            "the channel {place} in {address} is at number {number}, and that of the source, number \
             {serial}, is not the next"
        );
        return Err(Report::new(Kind::Untrusted, message).hinted(format!(
            "`cabane channel log {place} --registry {address}` shows its states"
        )));
    }
    let known = target.channel_numbers(&place)?;
    let numbers = source.channel_numbers(&place)?.into_iter();
    let mut copied = 0;
    for number in numbers.filter(|number| *number <= serial && !known.contains(number)) {
        match document_of(source, setting, &place, number) {
            Ok(Some(document)) => {
                target.put_channel_document(&place, Some(number), &document.envelope)?;
                copied += 1;
            }
            Ok(None) => {}
            Err(error) if error.kind() == Kind::Untrusted => {
                context.warning(format_args!("`{}.{number}` is left out: {error}", place.name));
            }
            Err(error) => return Err(error),
        }
    }
    let current = current_document(target, setting, &place).ok().flatten();
    if current.is_none_or(|current| current.digest != channel.digest) {
        target.put_channel_document(&place, None, &channel.envelope)?;
    }
    Ok(copied)
}
