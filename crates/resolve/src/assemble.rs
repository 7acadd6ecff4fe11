// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Putting located images and views together.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use cabane_label::{ImageDescription, UenvDescription, escape};
use cabane_report::{Kind, Report, Result};
use cabane_view::{CheckList, Container, EnvPatch, ImageBase, Meta, Needs, ViewDescription};

use crate::views::{choose_views, is_same};
use crate::{ConcreteEnvironment, ConcreteImage, ConcreteView, LocatedImage};

/// An image that was found, and what was reported about it.
#[derive(Clone, Debug)]
pub struct RequestedImage {
    /// The image.
    pub located: LocatedImage,
    /// How it was described.
    pub description: UenvDescription,
    /// Whether its default view is used without being named.
    pub default_view: DefaultView,
    /// The images on which it is built, the nearest first.
    pub bases: Vec<LocatedBase>,
}

/// An image on which another one is built.
#[derive(Clone, Debug)]
pub struct LocatedBase {
    /// What the other image says about it.
    pub record: ImageBase,
    /// The image.
    pub located: LocatedImage,
}

/// Whether a default view is used without being named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultView {
    /// It is.
    Used,
    /// It is if the image is a root image: without its `PATH` nothing in it is found.
    UsedOfRoot,
    /// It is not.
    Left,
}

/// Says where each image is mounted, which views are used, and which variables change.
///
/// An image is mounted where its description says, or else where its metadata say. The named
/// views are those of the `first` images alone. They come first, in their order; then the default
/// views that are used without being named, in the order of the images. Those of a root image come
/// before all others.
///
/// The images on which others are built are mounted as well, each once. Their views are used only if they
/// are named.
pub fn assemble(
    requested: Vec<RequestedImage>,
    first: usize,
    views: &[ViewDescription],
) -> Result<ConcreteEnvironment> {
    let (mut images, mut typed, mut defaults) = (Vec::new(), Vec::new(), Vec::new());
    let mut bases = Vec::new();
    for RequestedImage { located, description, default_view, bases: its } in requested {
        bases.extend(its.into_iter().map(|base| (typed.len(), base)));
        typed.push(description.image.to_string());
        images.push(with_mount_point(located, &description)?);
        defaults.push(default_view);
    }
    refuse_doubles(&images, &typed)?;
    // Where all images may be meant, so may their bases.
    let nameable = if first < images.len() { first } else { usize::MAX };
    add_bases(&mut images, &typed, bases)?;
    let mut views = choose_views(&images[..nameable.min(images.len())], views)?;
    let named = views.clone();
    // Bases have none: they come after all that were typed.
    for (image, (concrete, default_view)) in images.iter().zip(defaults).enumerate() {
        let Some(name) = concrete.meta.default_view.clone() else { continue };
        let (view, is_root) = (ConcreteView { image, name }, concrete.mount_point.is_root());
        let is_used = match default_view {
            DefaultView::Used => !named.contains(&view),
            DefaultView::UsedOfRoot => is_root && named.iter().all(|one| one.image != image),
            DefaultView::Left => false,
        };
        if is_used {
            views.push(view);
        }
    }
    // What a root image sets is what the others add to.
    views.sort_by_key(|view| !images[view.image].mount_point.is_root());
    let warnings = images.iter().filter_map(warning).collect();
    Ok(ConcreteEnvironment { patch: merged(&images, &views), images, views, warnings })
}

/// Adds the images on which others are built, each once. A base comes with the position of the image that
/// needs it.
fn add_bases(
    images: &mut Vec<ConcreteImage>,
    typed: &[String],
    bases: Vec<(usize, LocatedBase)>,
) -> Result<()> {
    // The image that needs the base at the same position after those that were typed.
    let mut owners: Vec<usize> = Vec::new();
    for (owner, LocatedBase { record, located }) in bases {
        let ImageBase { label, digest, mount } = record;
        let place = images.iter().position(|other| other.mount_point == mount);
        let Some(place) = place else {
            let image = ImageDescription::Digest(digest);
            let description = UenvDescription { image, mount_point: Some(mount) };
            let base = with_mount_point(located, &description)?;
            images.push(ConcreteImage { is_base: true, ..base });
            owners.push(owner);
            continue;
        };
        let other = &images[place];
        // A file that is named by its path has no known digest.
        if other.digest.as_ref() == Some(&digest) || is_same_file(&other.path, &located.path) {
            continue;
        }
        let (top, label) = (escape(&typed[owner]), escape(&label));
        let needs =
            format!("`{top}` is built on `{label}` ({}), which is mounted at {mount}", digest.id());
        let report =
            |message: String, hint: String| Err(Report::new(Kind::BadInput, message).hinted(hint));
        return match owners.get(place.wrapping_sub(typed.len())) {
            None => report(
                format!(
                    "{needs}, and `{}` is another {} for this place",
                    escape(&typed[place]),
                    if other.digest.is_some() { "image" } else { "file" }
                ),
                format!("leave `{}` out: `{top}` brings its base with it", escape(&typed[place])),
            ),
            Some(second) => report(
                format!(
                    "{needs}, and `{}` is built on another image for this place",
                    escape(&typed[*second])
                ),
                format!("build both on the same image; until then, start `{top}` alone"),
            ),
        };
    }
    Ok(())
}

/// Returns whether two paths lead to one file.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let file = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    file(one).is_some_and(|found| Some(found) == file(other))
}

fn with_mount_point(located: LocatedImage, description: &UenvDescription) -> Result<ConcreteImage> {
    let LocatedImage { path, digest, label, repository, format, meta } = located;
    let is_bare = meta.is_none();
    let mut meta = meta.unwrap_or_else(|| no_meta(&path));
    let mount_point = description.mount_point.clone().or_else(|| meta.mount.clone());
    let image = description.image.to_string();
    let image = escape(&image);
    let refused = |message: String| {
        Report::new(Kind::BadInput, message)
            .hinted(format!("write the place after the image: `{image}:/user-environment`"))
    };
    let mount_point = mount_point.ok_or_else(|| {
        refused(format!("the image `{image}` does not say where it is to be mounted"))
    })?;
    if mount_point.is_root() && is_bare {
        // One of another tool, of which nothing is known but what was typed.
        meta.container = Some(Container::default());
    }
    if mount_point.is_root() && meta.container.is_none() {
        let message =
            format!("the image `{image}` cannot be mounted at `/`: it is no root file system");
        return Err(refused(message));
    }
    meta.relocate_views(&mount_point);
    Ok(ConcreteImage { path, digest, label, repository, format, meta, mount_point, is_base: false })
}

/// Returns metadata that say nothing, for an image that has none.
fn no_meta(path: &Path) -> Meta {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Meta {
        name,
        description: None,
        mount: None,
        default_view: None,
        views: BTreeMap::new(),
        needs: Needs::default(),
        engine: None,
        container: None,
        checks: CheckList::default(),
        bases: Vec::new(),
    }
}

/// Refuses two images at one place. One image at two places is allowed.
fn refuse_doubles(images: &[ConcreteImage], typed: &[String]) -> Result<()> {
    for (position, image) in images.iter().enumerate() {
        let mut earlier = images[..position].iter().zip(typed);
        let same_place = earlier.find(|(other, _)| other.mount_point == image.mount_point);
        let Some((other, first)) = same_place else { continue };
        let (first, second) = (escape(first), escape(&typed[position]));
        return Err(if is_same(image, other) {
            Report::new(Kind::BadInput, format!("the image `{second}` was named twice"))
        } else {
            let place = &other.mount_point;
            let message = format!("`{first}` and `{second}` would both be mounted at {place}");
            Report::new(Kind::BadInput, message)
                .hinted(format!("write another place after one of them: `{second}:/mount/point`"))
        });
    }
    Ok(())
}

fn merged(images: &[ConcreteImage], views: &[ConcreteView]) -> EnvPatch {
    let mut patch = EnvPatch::new();
    for ConcreteView { image, name } in views {
        if let Some(view) = images.get(*image).and_then(|image| image.meta.views.get(name)) {
            patch.merge(&view.patch);
        }
    }
    patch
}

/// Returns what may surprise in how an image is mounted, though it is allowed.
fn warning(image: &ConcreteImage) -> Option<String> {
    let (built_for, mounted_at) = (image.meta.mount.as_ref()?, &image.mount_point);
    // Who mounts a root image elsewhere wants to look into it.
    (built_for != mounted_at && !built_for.is_root()).then(|| {
        format!(
            "`{}` was built for {built_for} and is mounted at {mounted_at}: \
             paths inside may not work",
            escape(image.name())
        )
    })
}
