// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Everything that an environment file names and that this machine does not have.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cabane_device::Wanted;
use cabane_label::{ImageDescription, UenvDescription};
use cabane_recipe::{EnvironmentFile, Part};
use cabane_report::{Kind, Report, Result};
use cabane_resolve::{
    ConcreteEnvironment, DefaultView, RequestedImage, Resolver, assemble, is_meant,
};
use cabane_run::loaded::Additions;
use cabane_run::{check_bind, no_directory};
use cabane_site::Context;
use cabane_view::ViewDescription;

use crate::bases;
use crate::builds::choose_here;
use crate::devices::give;
use crate::files;
use crate::images::{check_encryption, default_view, make_ready, resolver_for};

/// A part of a file that cannot be used.
#[derive(Debug)]
pub struct MissingPart {
    /// The part.
    pub part: Part,
    /// Why it cannot be used.
    pub report: Report,
}

/// What was found out about a file.
#[derive(Debug, Default)]
pub struct Checked {
    /// The images and views that can be used.
    pub environment: ConcreteEnvironment,
    /// The other parts, in the order in which a start needs them.
    pub missing: Vec<MissingPart>,
    /// The container images that the first start imports. They were not looked for in their registries.
    pub to_import: Vec<String>,
    /// The views that may belong to images that are missing.
    pub views_of_missing: Vec<ViewDescription>,
    /// The working directory, if only the mounted images can show whether it exists.
    pub directory_in_image: Option<PathBuf>,
}

/// Looks for everything that a file names.
///
/// # Errors
///
/// The repositories cannot be opened.
pub fn check_file(context: &Context, mut file: EnvironmentFile) -> Result<Checked> {
    files::announce_ignored(context, &file);
    let mut checked = Checked::default();
    let images = checked.find_images(context, &file)?;
    checked.find_views(&images, &file.views);
    let additions = files::additions(&mut file);
    checked.find_mounts(&additions);
    let is_container = checked.environment.root().is_some() || !checked.to_import.is_empty();
    let wanted = if is_container { Wanted::Everything } else { Wanted::Variables };
    for device in &file.devices {
        let found = give(context, &[], std::slice::from_ref(device), wanted);
        checked.take(Part::Device(device.clone()), found);
    }
    if let Some(directory) = &additions.working_directory {
        checked.find_directory(directory, &additions);
    }
    Ok(checked)
}

impl Checked {
    /// Returns the value; an error is noted as that of a part.
    fn take<T>(&mut self, part: Part, found: Result<T>) -> Option<T> {
        let note = |report: Report| {
            // Nothing was to be started.
            let is_start = report.kind() == Kind::NotStarted;
            let report = if is_start { report.with_kind(Kind::NotFound) } else { report };
            self.missing.push(MissingPart { part, report });
        };
        found.map_err(note).ok()
    }

    /// Finds the images that go together.
    fn find_images(
        &mut self,
        context: &Context,
        file: &EnvironmentFile,
    ) -> Result<Vec<RequestedImage>> {
        let all: Vec<&UenvDescription> = file.container.iter().chain(&file.images).collect();
        let is_container =
            |image: &UenvDescription| matches!(image.image, ImageDescription::Container(_));
        let here: Vec<UenvDescription> =
            all.iter().filter(|image| !is_container(image)).map(|image| (*image).clone()).collect();
        let resolver = resolver_for(context, &here)?;
        let default_view = default_view(file.default_views != Some(false), file.views.is_empty());
        let mut images: Vec<RequestedImage> = Vec::new();
        for description in all {
            let part = Part::Image(description.clone());
            if let ImageDescription::Container(text) = &description.image {
                if self.take(part, check_encryption(context, text)).is_some() {
                    self.to_import.push(text.clone());
                }
                continue;
            }
            let found = find_image(context, &resolver, description, default_view);
            let found = found.and_then(|image| {
                images.push(image);
                assemble(images.clone(), images.len(), &[]).inspect_err(|_| drop(images.pop()))
            });
            if let Some(environment) = self.take(part, found) {
                self.environment = environment;
            }
        }
        Ok(images)
    }

    fn find_views(&mut self, images: &[RequestedImage], views: &[ViewDescription]) {
        let is_complete = self.missing.is_empty() && self.to_import.is_empty();
        let together = |views: &[ViewDescription]| assemble(images.to_vec(), images.len(), views);
        let mut known: Vec<ViewDescription> = Vec::new();
        for view in views {
            match together(std::slice::from_ref(view)) {
                Ok(_) => known.push(view.clone()),
                Err(report) => {
                    let is_here =
                        |owner| self.environment.images.iter().any(|image| is_meant(owner, image));
                    let is_known = is_complete
                        || report.kind() != Kind::NotFound
                        || view.uenv.as_ref().is_some_and(is_here);
                    if is_known {
                        self.missing.push(MissingPart { part: Part::View(view.clone()), report });
                    } else {
                        self.views_of_missing.push(view.clone());
                    }
                }
            }
        }
        if let Ok(environment) = together(&known) {
            self.environment = environment;
        }
    }

    fn find_mounts(&mut self, additions: &Additions) {
        for bind in &additions.binds {
            let found = check_bind(&self.environment, additions, bind);
            self.take(Part::Mount(bind.target.clone()), found);
        }
    }

    /// Looks for the working directory where it is on this machine, as far as it is not in an image.
    fn find_directory(&mut self, directory: &Path, additions: &Additions) {
        let targets =
            additions.binds.iter().map(|bind| (bind.target.as_path(), Some(&bind.source)));
        let images = &self.environment.images;
        let mut places: Vec<(&Path, Option<&PathBuf>)> =
            images.iter().map(|image| (image.mount_point.as_path(), None)).chain(targets).collect();
        // Mounting makes the directories above a target.
        if places.iter().any(|(place, _)| place.starts_with(directory)) {
            return;
        }
        // The innermost one is seen.
        places.retain(|(place, _)| directory.starts_with(place));
        let place = places.into_iter().max_by_key(|(place, _)| place.components().count());
        let on_host = match place {
            Some((target, Some(source))) => directory
                .strip_prefix(target)
                .map_or_else(|_| source.clone(), |rest| source.join(rest)),
            // A directory on this machine is good enough where an image is missing.
            None if self.has_all_images() || directory.is_dir() => directory.to_owned(),
            _ => {
                self.directory_in_image = Some(directory.to_owned());
                return;
            }
        };
        let found = fs::metadata(&on_host).and_then(|found| {
            if found.is_dir() { Ok(()) } else { Err(io::ErrorKind::NotADirectory.into()) }
        });
        self.take(Part::WorkingDirectory, found.map_err(|source| no_directory(directory, source)));
    }

    /// Tells whether no image is missing that could contain the working directory.
    fn has_all_images(&self) -> bool {
        let is_image = |missing: &MissingPart| matches!(missing.part, Part::Image(_));
        self.to_import.is_empty() && !self.missing.iter().any(is_image)
    }
}

/// Finds an image for this machine, with its metadata and its bases.
fn find_image(
    context: &Context,
    resolver: &Resolver,
    description: &UenvDescription,
    default_view: DefaultView,
) -> Result<RequestedImage> {
    let mut builds = resolver.locate_builds(description)?;
    let place = choose_here(context, description, &builds, false)?;
    let mut located = builds.swap_remove(place);
    make_ready(context, &description.image, &mut located)?;
    let bases = bases::of(context, &description.image, &located)?;
    Ok(RequestedImage { located, description: description.clone(), default_view, bases })
}
