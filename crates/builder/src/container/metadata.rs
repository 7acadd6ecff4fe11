// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a recipe, and images that are put on a container image, change in its metadata.

use cabane_compat::GlibcVersion;
use cabane_container::ImportRecord;
use cabane_label::escape;
use cabane_recipe::{ContainerConfig, Recipe};
use cabane_view::{CheckList, Meta, View};

use crate::bases::OWN;
use crate::containers::AddedImages;
use crate::metadata::Placeholders;
use crate::{BuildError, Result};

/// Whether the image is another one than an import makes.
fn alters(recipe: &Recipe, config: &ContainerConfig) -> bool {
    let ContainerConfig { images, files, run, entrypoint, command, working_directory, .. } = config;
    !files.is_empty()
        || !run.is_empty()
        || !images.is_empty()
        || entrypoint.is_some()
        || command.is_some()
        || working_directory.is_some()
        || !recipe.views.is_empty()
        || recipe.description.is_some()
        || !recipe.checks.is_empty()
}

/// Puts what the recipe says into metadata that say what the container image does.
pub(super) fn edit(
    recipe: &Recipe,
    config: &ContainerConfig,
    added: Option<&AddedImages>,
    meta: &mut Meta,
    report: &mut ImportRecord,
) {
    report.altered = alters(recipe, config);
    if report.altered || config.from.starts_with(OWN) {
        meta.name = recipe.name.to_string();
    }
    meta.description = recipe.description.clone().or(meta.description.take());
    if let Some(added) = added {
        put_views(added, meta);
    }
    let of_image = meta.default_view.as_ref().and_then(|view| meta.views.get(view));
    let of_image = of_image.cloned().unwrap_or_default();
    for (name, view_recipe) in &recipe.views {
        let mut patch = of_image.patch.clone();
        let placeholders = Placeholders { mount: "", view_path: "", view_name: name.as_str() };
        placeholders.apply(&view_recipe.env_vars, &mut patch);
        let view = View {
            description: view_recipe.description.clone().or(of_image.description.clone()),
            patch,
            ..View::default()
        };
        meta.views.insert(name.clone(), view);
    }
    meta.checks = CheckList::new(&recipe.checks);
    meta.default_view = recipe.default_view.clone().or(meta.default_view.take());
    let container = meta.container.get_or_insert_default();
    let config = config.clone();
    if let Some(arguments) = config.entrypoint {
        // Its arguments were meant for what the container image starts.
        container.command.clear();
        container.entrypoint = arguments;
    }
    if let Some(arguments) = config.command {
        container.command = arguments;
    }
    if let Some(directory) = config.working_directory {
        container.working_directory = Some(directory);
    }
}

/// Lets the default view do what those of the images do, and says which processor they need.
fn put_views(added: &AddedImages, meta: &mut Meta) {
    let default = meta.default_view.clone();
    if let Some(view) = default.and_then(|view| meta.views.get_mut(&view)) {
        view.patch.merge(&added.patch);
    }
    let needs = added.images.iter().filter_map(|image| image.processor.as_ref());
    for need in needs {
        let whole = meta.needs.processor.get_or_insert_default();
        let pairs = [(&mut whole.targets, &need.targets), (&mut whole.features, &need.features)];
        for (all, new) in pairs {
            let missing = new.iter().filter(|one| !all.contains(one));
            let missing: Vec<String> = missing.cloned().collect();
            all.extend(missing);
        }
    }
}

/// Fails if an image needs a newer C library than there is.
pub(super) fn check_library(added: Option<&AddedImages>, meta: &Meta) -> Result<()> {
    let found = meta.container.as_ref().and_then(|one| one.glibc.clone());
    let version: Option<GlibcVersion> = found.as_deref().and_then(|text| text.parse().ok());
    let images = added.into_iter().flat_map(|added| &added.images);
    for image in images {
        let needed: Option<GlibcVersion> =
            image.glibc.as_deref().and_then(|text| text.parse().ok());
        if let Some(needed) = needed.filter(|needed| version.is_none_or(|found| found < *needed)) {
            let (image, found) = (escape(&image.name), found.as_deref().unwrap_or("none"));
            let message = format!(
                "`{image}` needs the GNU C library {needed}, and the container image has {found}"
            );
            return Err(BuildError::refused(message, None));
        }
    }
    Ok(())
}
