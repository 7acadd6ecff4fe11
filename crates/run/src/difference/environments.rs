// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What differs between two environments: images, views, what else is mounted, variables.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cabane_resolve::{ConcreteEnvironment, ConcreteImage};
use serde::Serialize;

use super::images::Field;
use super::variables::{VariableDifference, compare_variables};
use crate::loaded::{Additions, Bind};

/// One of two environments.
#[derive(Clone, Copy, Debug)]
pub struct EnvironmentSide<'a> {
    /// Images and views.
    pub environment: &'a ConcreteEnvironment,
    /// What an environment file adds.
    pub additions: &'a Additions,
}

/// Something mounted that only one environment has, or something else in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MountDifference {
    /// The name of the image, or the mount point of anything else.
    pub name: String,
    /// What the first has: label or file and mount point, or the directory.
    pub from: Option<String>,
    /// What the second has.
    pub to: Option<String>,
}

/// What differs between two environments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EnvironmentDifference {
    /// Images.
    pub images: Vec<MountDifference>,
    /// Directories and files that appear at other places.
    pub mounts: Vec<MountDifference>,
    /// The directory in which commands start, and devices.
    pub settings: Vec<Field>,
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
    from: EnvironmentSide<'_>,
    to: EnvironmentSide<'_>,
) -> EnvironmentDifference {
    let (views_from, views_to) = match (views(from.environment), views(to.environment)) {
        (one, other) if one == other => (Vec::new(), Vec::new()),
        different => different,
    };
    let directories = [from, to].map(|side| side.additions.working_directory.clone());
    let [patch_from, patch_to] = [from, to].map(|side| {
        let mut patch = side.environment.patch.clone();
        patch.merge(&side.additions.variables.patch());
        patch
    });
    EnvironmentDifference {
        images: compare_images(from.environment, to.environment),
        mounts: compare_mounts(&from.additions.binds, &to.additions.binds),
        settings: compare_directories(directories)
            .into_iter()
            .chain(compare_devices([from, to].map(|side| &side.additions.devices)))
            .collect(),
        views_from,
        views_to,
        variables: compare_variables(&patch_from, &patch_to),
    }
}

fn compare_directories([from, to]: [Option<PathBuf>; 2]) -> Option<Field> {
    let shown = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    (from != to).then(|| Field { name: "working directory", from: shown(&from), to: shown(&to) })
}

fn compare_devices([from, to]: [&Vec<String>; 2]) -> Option<Field> {
    let shown = |devices: &Vec<String>| (!devices.is_empty()).then(|| devices.join(", "));
    (from != to).then(|| Field { name: "devices", from: shown(from), to: shown(to) })
}

fn compare_mounts(from: &[Bind], to: &[Bind]) -> Vec<MountDifference> {
    let mut all: BTreeMap<String, [Option<String>; 2]> = BTreeMap::new();
    for (side, binds) in [from, to].into_iter().enumerate() {
        for bind in binds {
            let read_only = if bind.read_only { " (read-only)" } else { "" };
            let shown = format!("{}{read_only}", bind.source.display());
            if let Some(place) = all.entry(bind.target.to_string()).or_default().get_mut(side) {
                *place = Some(shown);
            }
        }
    }
    let differing = all.into_iter().filter(|(_, [from, to])| from != to);
    differing.map(|(name, [from, to])| MountDifference { name, from, to }).collect()
}

fn compare_images(from: &ConcreteEnvironment, to: &ConcreteEnvironment) -> Vec<MountDifference> {
    let mut images = Vec::new();
    let named = |environment: &ConcreteEnvironment, name: &str, position: usize| {
        let of_name = environment.images.iter().filter(|one| one.name() == name);
        of_name.map(shown).nth(position)
    };
    for image in from.images.iter().chain(&to.images) {
        let position =
            images.iter().filter(|(name, _, _): &&(String, _, _)| name == image.name()).count();
        let (one, other) = (named(from, image.name(), position), named(to, image.name(), position));
        if one.is_some() || other.is_some() {
            images.push((image.name().to_owned(), one, other));
        }
    }
    let differing = images.into_iter().filter(|(_, from, to)| from != to);
    differing.map(|(name, from, to)| MountDifference { name, from, to }).collect()
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
