// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which view of which image is meant by `view` and `uenv:view`.

use cabane_view::{ViewDescription, ViewName};

use crate::assemble::is_same;
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
        let qualified = |(_, image): &Placed<'_>| format!("{}:{}", image.name(), view.view);
        let qualified = having.iter().map(qualified).collect();
        return Err(AssembleError::AmbiguousView {
            view: view.clone(),
            qualified,
        });
    }
    // Of one image at several places the paths in the views are right at one only.
    let in_place = |(_, image): &&Placed<'_>| image.meta.mount.as_ref() == Some(&image.mount_point);
    let (image, _) = having.iter().find(in_place).unwrap_or(first);
    Ok(ConcreteView {
        image: *image,
        name: view.view.clone(),
    })
}

/// Returns the images that may be meant: all, or those with the name before the view.
fn considered<'a>(
    images: &'a [ConcreteImage],
    view: &ViewDescription,
) -> Result<Vec<Placed<'a>>, AssembleError> {
    let is_meant = |name: &str| view.uenv.as_ref().is_none_or(|uenv| uenv == name);
    let all = images.iter().enumerate();
    let meant: Vec<Placed<'_>> = all.filter(|(_, image)| is_meant(image.name())).collect();
    if meant.is_empty() && view.uenv.is_some() {
        let images = images.iter().map(|image| image.name().to_owned()).collect();
        return Err(AssembleError::UnknownImage {
            view: view.clone(),
            images,
        });
    }
    Ok(meant)
}

fn unknown(
    images: &[ConcreteImage],
    considered: &[Placed<'_>],
    view: &ViewDescription,
) -> AssembleError {
    let names = |image: &ConcreteImage| image.meta.views.keys().map(ToString::to_string).collect();
    let views = considered
        .iter()
        .map(|(_, image)| (image.name().to_owned(), names(image)));
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
    if let Some(other) = images
        .iter()
        .find(|image| image.meta.views.contains_key(&view.view))
    {
        return Some(format!("{}:{}", other.name(), view.view));
    }
    let names = considered
        .iter()
        .flat_map(|(_, image)| image.meta.views.keys());
    let similar = similar(view.view.as_str(), names.map(ViewName::as_str))?;
    let prefix = view
        .uenv
        .as_ref()
        .map_or_else(String::new, |uenv| format!("{uenv}:"));
    Some(format!("{prefix}{similar}"))
}
