// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which view of which image is meant by `view` and `uenv:view`.

use cabane_label::{NameMatch, enumerate, escape};
use cabane_report::{Kind, Report, Result};
use cabane_view::{ViewDescription, ViewName, ViewOwner};

use crate::names::quoted;
use crate::near::similar;
use crate::{ConcreteImage, ConcreteView};

/// An image with its place in the environment.
type Placed<'a> = (usize, &'a ConcreteImage);

/// Finds the image of each view. A view that is named twice takes effect once, at first.
pub(crate) fn choose_views(
    images: &[ConcreteImage],
    views: &[ViewDescription],
) -> Result<Vec<ConcreteView>> {
    let mut chosen = Vec::with_capacity(views.len());
    for view in views {
        let view = choose_view(images, view)?;
        if !chosen.contains(&view) {
            chosen.push(view);
        }
    }
    Ok(chosen)
}

fn choose_view(images: &[ConcreteImage], view: &ViewDescription) -> Result<ConcreteView> {
    let considered = considered(images, view)?;
    let has_view = |(_, image): &Placed<'_>| image.meta.views.contains_key(&view.view);
    let mut having: Vec<Placed<'_>> = considered.iter().copied().filter(has_view).collect();
    // A view of a base does not make that of an image ambiguous which was named.
    if having.iter().any(|(_, image)| !image.is_base) {
        having.retain(|(_, image)| !image.is_base);
    }
    let Some((first, rest)) = having.split_first() else {
        return Err(unknown(images, &considered, view));
    };
    if rest.iter().any(|(_, image)| !is_same(image, first.1)) {
        let qualified = |(_, image): &Placed<'_>| qualified(images, image, &view.view);
        let qualified: Vec<String> = having.iter().map(qualified).collect();
        return Err(Report::new(Kind::Ambiguous, format!("several images have a view `{view}`"))
            .hinted(format!("write {}", enumerate(&qualified, "or"))));
    }
    // Of one image at several places the paths in the views are right at one only.
    let in_place = |(_, image): &&Placed<'_>| image.meta.mount.as_ref() == Some(&image.mount_point);
    let (image, _) = having.iter().find(in_place).unwrap_or(first);
    Ok(ConcreteView { image: *image, name: view.view.clone() })
}

/// Writes a view with the shortest owner before it that means one image only.
fn qualified(images: &[ConcreteImage], image: &ConcreteImage, view: &ViewName) -> String {
    let is_alone = |is_alike: &dyn Fn(&ConcreteImage) -> bool| {
        images.iter().filter(|other| is_alike(other)).count() == 1
    };
    let owner = match &image.label {
        _ if is_alone(&|other| other.name() == image.name()) => image.name().to_owned(),
        Some(label) if is_alone(&|other| is_version(other, image)) => {
            format!("{}/{}", label.name, label.version)
        }
        _ => image.mount_point.to_string(),
    };
    format!("{owner}:{view}")
}

/// Tells whether an image has the same name and version as the other, which has a label.
fn is_version(image: &ConcreteImage, other: &ConcreteImage) -> bool {
    let parts = |image: &ConcreteImage| {
        let label = image.label.as_ref()?;
        Some((label.name.clone(), label.version.clone()))
    };
    parts(image) == parts(other)
}

/// Tells whether the image before the name of a view means this image.
#[must_use]
pub fn is_meant(owner: &ViewOwner, image: &ConcreteImage) -> bool {
    match (owner, owner.name()) {
        (_, Some(name)) => image.name() == name.as_str(),
        (ViewOwner::MountPoint(mount_point), _) => image.mount_point == *mount_point,
        (ViewOwner::Label(pattern), _) => {
            let matches = |label| pattern.matches(label, NameMatch::Exact);
            image.label.as_ref().is_some_and(matches)
        }
    }
}

/// Returns the images that may be meant: all, or those that the owner of the view names.
fn considered<'a>(images: &'a [ConcreteImage], view: &ViewDescription) -> Result<Vec<Placed<'a>>> {
    let owner = view.uenv.as_ref();
    let all = images.iter().enumerate();
    let meant: Vec<Placed<'_>> =
        all.filter(|(_, image)| owner.is_none_or(|owner| is_meant(owner, image))).collect();
    if let Some(owner) = owner.filter(|_| meant.is_empty()) {
        let message = match owner {
            ViewOwner::MountPoint(place) => format!("no image is mounted at `{place}`"),
            ViewOwner::Label(pattern) if owner.name().is_some() => {
                format!("no image is called `{pattern}`")
            }
            ViewOwner::Label(pattern) => format!("no image that is mounted matches `{pattern}`"),
        };
        let hint = format!("the images are {}", quoted(&names_like(owner, images)));
        return Err(Report::new(Kind::NotFound, message).hinted(hint));
    }
    Ok(meant)
}

/// Names the images in the way in which one was named in vain.
fn names_like(owner: &ViewOwner, images: &[ConcreteImage]) -> Vec<String> {
    let name = |image: &ConcreteImage| match (owner, owner.name(), &image.label) {
        (ViewOwner::MountPoint(_), ..) => image.mount_point.to_string(),
        (ViewOwner::Label(_), None, Some(label)) => label.to_string(),
        _ => image.name().to_owned(),
    };
    images.iter().map(name).collect()
}

fn unknown(images: &[ConcreteImage], considered: &[Placed<'_>], view: &ViewDescription) -> Report {
    let offered = |(_, image): &Placed<'_>| {
        let views: Vec<String> = image.meta.views.keys().map(ToString::to_string).collect();
        let list = if views.is_empty() { "no views".to_owned() } else { quoted(&views) };
        format!("`{}` has {list}", escape(image.name()))
    };
    let mut offers: Vec<String> = considered.iter().map(offered).collect();
    if offers.is_empty() {
        offers.push("there is no image".to_owned());
    }
    let similar = similar_view(images, considered, view);
    let message = format!("there is no view `{view}`: {}", offers.join(", "));
    Report::new(Kind::NotFound, message)
        .hinted(similar.map(|similar| format!("did you mean `{}`?", escape(&similar))))
}

/// Returns a view of this name of another image, or else one of almost this name.
fn similar_view(
    images: &[ConcreteImage],
    considered: &[Placed<'_>],
    view: &ViewDescription,
) -> Option<String> {
    if let Some(other) = images.iter().find(|image| image.meta.views.contains_key(&view.view)) {
        return Some(qualified(images, other, &view.view));
    }
    let names = considered.iter().flat_map(|(_, image)| image.meta.views.keys());
    let similar = similar(view.view.as_str(), names.map(ViewName::as_str))?;
    let prefix = view.uenv.as_ref().map_or_else(String::new, |uenv| format!("{uenv}:"));
    Some(format!("{prefix}{similar}"))
}

/// Tells whether two entries are the same image, maybe at two places.
pub(crate) fn is_same(one: &ConcreteImage, other: &ConcreteImage) -> bool {
    one.path == other.path || one.digest.is_some() && one.digest == other.digest
}
