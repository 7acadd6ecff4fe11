// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What differs between two environments: images, views, variables.

use cabane_resolve::{ConcreteEnvironment, ConcreteImage};
use serde::Serialize;

use super::variables::{VariableDifference, compare_variables};

/// An image that only one environment has, or another one in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImageDifference {
    /// The name of the image.
    pub name: String,
    /// What the first has: the label or the file, and the mount point.
    pub from: Option<String>,
    /// What the second has.
    pub to: Option<String>,
}

/// What differs between two environments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EnvironmentDifference {
    /// Images.
    pub images: Vec<ImageDifference>,
    /// The views of the first, if those of the second are others, in their order.
    pub views_from: Vec<String>,
    /// The views of the second, if those of the first are others.
    pub views_to: Vec<String>,
    /// What is done to variables, by everything together.
    pub variables: Vec<VariableDifference>,
}

/// Compares two environments. An image is compared with the one of the same name.
#[must_use]
pub fn compare_environments(
    from: &ConcreteEnvironment,
    to: &ConcreteEnvironment,
) -> EnvironmentDifference {
    let mut images = Vec::new();
    let named = |environment: &ConcreteEnvironment, name: &str, position: usize| {
        let of_name = environment.images.iter().filter(|one| one.name() == name);
        of_name.map(shown).nth(position)
    };
    for image in from.images.iter().chain(&to.images) {
        let position = images
            .iter()
            .filter(|(name, _, _): &&(String, _, _)| name == image.name())
            .count();
        let (one, other) = (
            named(from, image.name(), position),
            named(to, image.name(), position),
        );
        if one.is_some() || other.is_some() {
            images.push((image.name().to_owned(), one, other));
        }
    }
    let differing = images.into_iter().filter(|(_, from, to)| from != to);
    let (views_from, views_to) = match (views(from), views(to)) {
        (one, other) if one == other => (Vec::new(), Vec::new()),
        different => different,
    };
    EnvironmentDifference {
        images: differing
            .map(|(name, from, to)| ImageDifference { name, from, to })
            .collect(),
        views_from,
        views_to,
        variables: compare_variables(&from.patch, &to.patch),
    }
}

fn shown(image: &ConcreteImage) -> String {
    let path = || image.path.display().to_string();
    let title = image.label.as_ref().map_or_else(path, ToString::to_string);
    let digest = image.digest.as_ref();
    let id = digest.map(|digest| format!(" ({})", digest.id()));
    format!("{title}{} at {}", id.unwrap_or_default(), image.mount_point)
}

fn views(environment: &ConcreteEnvironment) -> Vec<String> {
    let name = |view: &cabane_resolve::ConcreteView| {
        let image = environment.images.get(view.image);
        format!("{}:{}", image.map_or("", ConcreteImage::name), view.name)
    };
    environment.views.iter().map(name).collect()
}
