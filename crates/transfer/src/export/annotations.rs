// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What an exported image says about itself: labels and annotations, from the
//! metadata of the images alone, so that they do not depend on who exports it.

use std::collections::BTreeMap;

use cabane_compat::GlibcVersion;
use cabane_container::export::About;
use cabane_container::{ContainerImage, digest};
use cabane_resolve::{ConcreteEnvironment, ConcreteImage};
use serde_json::Value;

use crate::import::reference::Reference;

const TITLE: &str = "org.opencontainers.image.title";
const DESCRIPTION: &str = "org.opencontainers.image.description";
const CREATED: &str = "org.opencontainers.image.created";
const BASE_NAME: &str = "org.opencontainers.image.base.name";
const BASE_DIGEST: &str = "org.opencontainers.image.base.digest";

/// What the metadata of the images say, as labels.
pub(crate) fn labels_of(
    environment: &ConcreteEnvironment,
    base: &Value,
) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let known = |key: &str| base.pointer("/config/Labels").and_then(|all| all.get(key));
    let images: Vec<&ConcreteImage> =
        environment.images.iter().filter(|image| !image.mount_point.is_root()).collect();
    let names: Vec<&str> = images.iter().map(|image| image.meta.name.as_str()).collect();
    let root = environment.root();
    let title = match (names.is_empty(), root) {
        (true, Some(root)) if known(TITLE).is_none() => root.meta.name.clone(),
        (true, _) => String::new(),
        (false, _) => names.join(", "),
    };
    let described = images.iter().find_map(|image| image.meta.description.clone());
    let needs = images.iter().map(|image| &image.meta.needs);
    let targets: Vec<String> = needs
        .clone()
        .filter_map(|needs| needs.processor.as_ref())
        .flat_map(|need| need.targets.iter().cloned())
        .collect();
    let glibc = needs.filter_map(|needs| needs.glibc.clone());
    let glibc = glibc.max_by_key(|text| text.parse::<GlibcVersion>().ok());
    let views = environment.views.iter().filter_map(|view| {
        let image = environment.images.get(view.image)?;
        Some(format!("{}:{}", image.meta.name, view.name))
    });
    let views: Vec<String> = views.collect();
    let texts = [
        (TITLE, Some(title)),
        (DESCRIPTION, described),
        ("org.cabane.views", Some(views.join(","))),
        ("org.cabane.needs.processor", Some(targets.join(","))),
        ("org.cabane.needs.glibc", glibc),
    ];
    for (key, text) in texts {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            labels.insert(key.to_owned(), text);
        }
    }
    labels
}

/// What the manifest says, so that no one has to get the configuration for it.
pub(crate) fn annotations_of(
    about: &About<'_>,
    base: Option<&ContainerImage<'_>>,
    reference: Option<&Reference>,
) -> BTreeMap<String, String> {
    let mut annotations = about.labels.clone();
    annotations.insert(CREATED.to_owned(), about.created.clone());
    // The path of a file would be another one for the next who makes the same.
    if let Some(name @ Reference::Registry(_)) = reference {
        annotations.insert(BASE_NAME.to_owned(), name.to_string());
    }
    if let Some(manifest) = base.and_then(|base| base.manifest.as_ref()) {
        annotations.insert(BASE_DIGEST.to_owned(), digest::written(manifest));
    }
    annotations
}

/// Returns what an image is called in a history.
pub(crate) fn title_of(image: &ConcreteImage) -> String {
    match image.meta.name.as_str() {
        "" => image.mount_point.as_str().to_owned(),
        name => name.to_owned(),
    }
}

/// The architecture as container images and Linux name it, by its number in ELF.
pub(crate) fn architecture_of(machine: u16) -> Option<(&'static str, &'static str)> {
    Some(match machine {
        3 => ("386", "x86"),
        21 => ("ppc64le", "powerpc64"),
        62 => ("amd64", "x86_64"),
        183 => ("arm64", "aarch64"),
        243 => ("riscv64", "riscv64"),
        _ => return None,
    })
}
