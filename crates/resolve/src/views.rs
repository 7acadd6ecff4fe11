// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which view of which image is meant by `view` and `uenv:view`.

use cabane_label::NameMatch;
use cabane_view::{ViewDescription, ViewName, ViewOwner};

use crate::near::similar;
use crate::{AssembleError, ConcreteImage, ConcreteView};

/// An image with its place in the environment.
type Placed<'a> = (usize, &'a ConcreteImage);

/// Finds the image of each view. A view that is named twice takes effect once, at first.
pub(crate) fn choose_views(
    images: &[ConcreteImage],
    views: &[ViewDescription],
) -> Result<Vec<ConcreteView>, AssembleError> {
    let mut chosen = Vec::with_capacity(views.len());
    for view in views {
        let view = choose_view(images, view)?;
        if !chosen.contains(&view) {
            chosen.push(view);
        }
    }
    Ok(chosen)
}

fn choose_view(
    images: &[ConcreteImage],
    view: &ViewDescription,
) -> Result<ConcreteView, AssembleError> {
    let considered = considered(images, view)?;
    let has_view = |(_, image): &Placed<'_>| image.meta.views.contains_key(&view.view);
    let having: Vec<Placed<'_>> = considered.iter().copied().filter(has_view).collect();
    let Some((first, rest)) = having.split_first() else {
        return Err(unknown(images, &considered, view));
    };
    if rest.iter().any(|(_, image)| !is_same(image, first.1)) {
        let qualified = |(_, image): &Placed<'_>| qualified(images, image, &view.view);
        let qualified = having.iter().map(qualified).collect();
        return Err(AssembleError::AmbiguousView { view: view.clone(), qualified });
    }
    // Of one image at several places the paths in the views are right at one only.
    let in_place = |(_, image): &&Placed<'_>| image.meta.mount.as_ref() == Some(&image.mount_point);
    let (image, _) = having.iter().find(in_place).unwrap_or(first);
    Ok(ConcreteView { image: *image, name: view.view.clone() })
}

/// Writes a view with the shortest words before it that mean one image only.
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

fn is_meant(owner: &ViewOwner, image: &ConcreteImage) -> bool {
    match (owner, owner.name()) {
        (_, Some(name)) => image.name() == name.as_str(),
        (ViewOwner::MountPoint(mount_point), _) => image.mount_point == *mount_point,
        (ViewOwner::Label(pattern), _) => {
            let matches = |label| pattern.matches(label, NameMatch::Exact);
            image.label.as_ref().is_some_and(matches)
        }
    }
}

/// Returns the images that may be meant: all, or those that the words before the view mean.
fn considered<'a>(
    images: &'a [ConcreteImage],
    view: &ViewDescription,
) -> Result<Vec<Placed<'a>>, AssembleError> {
    let owner = view.uenv.as_ref();
    let all = images.iter().enumerate();
    let meant: Vec<Placed<'_>> =
        all.filter(|(_, image)| owner.is_none_or(|owner| is_meant(owner, image))).collect();
    if let Some(owner) = owner.filter(|_| meant.is_empty()) {
        return Err(AssembleError::UnknownImage {
            owner: owner.clone(),
            images: words_for(images, owner),
        });
    }
    Ok(meant)
}

/// Names the images in the way in which one was named in vain.
fn words_for(images: &[ConcreteImage], owner: &ViewOwner) -> Vec<String> {
    let word = |image: &ConcreteImage| match (owner, owner.name(), &image.label) {
        (ViewOwner::MountPoint(_), ..) => image.mount_point.to_string(),
        (ViewOwner::Label(_), None, Some(label)) => label.to_string(),
        _ => image.name().to_owned(),
    };
    images.iter().map(word).collect()
}

fn unknown(
    images: &[ConcreteImage],
    considered: &[Placed<'_>],
    view: &ViewDescription,
) -> AssembleError {
    let names = |image: &ConcreteImage| image.meta.views.keys().map(ToString::to_string).collect();
    let views = considered.iter().map(|(_, image)| (image.name().to_owned(), names(image)));
    AssembleError::UnknownView {
        view: view.clone(),
        views: views.collect(),
        similar: similar_view(images, considered, view),
    }
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
