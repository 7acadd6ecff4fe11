// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the metadata of two images say differently.

use std::collections::BTreeSet;
use std::path::Path;

use cabane_repository::ImageFormat;
use cabane_view::{Meta, View, ViewName};
use serde::Serialize;

use super::variables::{VariableDifference, compare_variables};

/// What is known about one of two images.
#[derive(Clone, Copy, Debug)]
pub struct ImageSide<'a> {
    /// The digest, for an image of a repository.
    pub digest: Option<&'a str>,
    /// The image file.
    pub path: &'a Path,
    /// The file system in it.
    pub format: ImageFormat,
    /// Its size in bytes.
    pub size: Option<u64>,
    /// Its metadata.
    pub meta: &'a Meta,
}

/// Something that is known about both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Field {
    /// What it is.
    pub name: &'static str,
    /// What the first says.
    pub from: Option<String>,
    /// What the second says.
    pub to: Option<String>,
}

/// A view that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ViewDifference {
    /// The view of the first.
    pub from: Option<ViewName>,
    /// The view of the second.
    pub to: Option<ViewName>,
    /// What is reported about the views.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
    /// What they do differently.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<VariableDifference>,
}

/// Compares everything but the views; what is the same is left out.
#[must_use]
pub fn compare_metadata(from: ImageSide<'_>, to: ImageSide<'_>) -> Vec<Field> {
    fields([from, to].map(|side| {
        let meta = side.meta;
        let needs = meta.needs.texts().join(", ");
        [
            ("digest", side.digest.map(str::to_owned)),
            ("format", Some(side.format.to_string())),
            ("size", side.size.map(|size| size.to_string())),
            ("name", Some(meta.name.clone())),
            ("description", meta.description.clone()),
            ("mount point", meta.mount.as_ref().map(ToString::to_string)),
            ("engine", meta.engine.clone()),
            ("needs", (!needs.is_empty()).then_some(needs)),
            ("default view", meta.default_view.as_ref().map(ToString::to_string)),
        ]
    }))
}

fn fields<const N: usize>([from, to]: [[(&'static str, Option<String>); N]; 2]) -> Vec<Field> {
    from.into_iter()
        .zip(to)
        .map(|((name, from), (_, to))| Field { name, from, to })
        .filter(|field| field.from != field.to)
        .collect()
}

/// Compares the views of two images; only those named, where any are: the first of the
/// one with the last of the other.
#[must_use]
pub fn compare_views(from: &Meta, to: &Meta, named: &[ViewName]) -> Vec<ViewDifference> {
    if let (Some(first), Some(last)) = (named.first(), named.last()) {
        let difference = compare(from.views.get_key_value(first), to.views.get_key_value(last));
        return difference.into_iter().collect();
    }
    let every: BTreeSet<&ViewName> = from.views.keys().chain(to.views.keys()).collect();
    every
        .into_iter()
        .filter_map(|name| compare(from.views.get_key_value(name), to.views.get_key_value(name)))
        .collect()
}

fn compare(
    from: Option<(&ViewName, &View)>,
    to: Option<(&ViewName, &View)>,
) -> Option<ViewDifference> {
    let mut difference = ViewDifference {
        from: from.map(|(name, _)| name.clone()),
        to: to.map(|(name, _)| name.clone()),
        fields: Vec::new(),
        variables: Vec::new(),
    };
    let empty = View::default();
    let (one, other) = (from.map_or(&empty, |(_, view)| view), to.map_or(&empty, |(_, view)| view));
    difference.fields = fields(
        [one, other]
            .map(|view| [("description", view.description.clone()), ("root", view.root.clone())]),
    );
    difference.variables = compare_variables(&one.patch, &other.patch);
    let is_same = from.is_some() == to.is_some()
        && difference.fields.is_empty()
        && difference.variables.is_empty();
    (!is_same).then_some(difference)
}
