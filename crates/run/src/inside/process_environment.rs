// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a process inside an environment finds around it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use cabane_view::{EnvPatch, Meta};

use super::mounts::Mounts;
use crate::loaded::{CABANE_LOADED, Loaded, LoadedImage};

/// An image around a process.
#[derive(Clone, Debug)]
pub struct InsideImage {
    /// What is known about it from the variables.
    pub loaded: LoadedImage,
    /// Its metadata, if they can be read.
    pub meta: Option<Meta>,
    /// Whether something is mounted at its mount point here.
    pub is_mounted: bool,
}

impl InsideImage {
    /// Returns the label, or else the file.
    pub fn title(&self) -> String {
        let path = || self.loaded.path.display().to_string();
        self.loaded.label.clone().unwrap_or_else(path)
    }
}

/// A view that is in use.
#[derive(Clone, Debug)]
pub struct InsideView {
    /// The place of its image in [`ProcessEnvironment::images`].
    pub image: usize,
    /// `IMAGE:VIEW`; of two images of one name, `MOUNT_POINT:VIEW`.
    pub name: String,
    /// The directory that the view shows.
    pub root: Option<String>,
    /// What it changes.
    pub patch: EnvPatch,
}

/// Everything around a process.
#[derive(Debug)]
pub struct ProcessEnvironment {
    /// The images, those of the outermost environment first.
    pub images: Vec<InsideImage>,
    /// The views, in the order in which they were applied.
    pub views: Vec<InsideView>,
    /// The variables.
    pub variables: BTreeMap<OsString, OsString>,
    /// What environment files change after the views.
    pub(super) settings: EnvPatch,
    pub(super) replaced: BTreeMap<String, String>,
    pub(super) mounts: Mounts,
}

impl ProcessEnvironment {
    /// Looks around: reads the metadata of the images that the variables name.
    /// Metadata that cannot be read count as none.
    pub fn look(variables: BTreeMap<OsString, OsString>) -> Self {
        let loaded = variables
            .get(OsStr::new(CABANE_LOADED))
            .and_then(|value| value.to_str())
            .and_then(Loaded::from_variable)
            .unwrap_or_default();
        let mounts = Mounts::read();
        let order = loaded.views;
        let image = |loaded: LoadedImage| {
            let is_mounted = mounts.has(&loaded.mount_point);
            let mut meta = read_meta(&loaded, is_mounted);
            let place = loaded.mount_point.to_str().and_then(|text| text.parse().ok());
            if let (Some(meta), Some(place)) = (&mut meta, &place) {
                meta.relocate_views(place);
            }
            InsideImage { loaded, meta, is_mounted }
        };
        let images: Vec<InsideImage> = loaded.images.into_iter().map(image).collect();
        let mut views = Vec::with_capacity(order.len());
        for wanted in order {
            let at = |image: &InsideImage| image.loaded.mount_point == wanted.mount_point;
            let Some((place, image)) = images.iter().enumerate().find(|(_, image)| at(image))
            else {
                continue;
            };
            let meta = image.meta.as_ref();
            let view = meta.and_then(|meta| meta.views.get(wanted.view.as_str()));
            views.push(InsideView {
                image: place,
                name: format!("{}:{}", qualifier(&images, image), wanted.view),
                root: view.and_then(|view| view.root.clone()),
                patch: view.map(|view| view.patch.clone()).unwrap_or_default(),
            });
        }
        Self {
            images,
            views,
            variables,
            settings: loaded.additions.variables.patch(),
            replaced: loaded.replaced,
            mounts,
        }
    }
}

/// Returns what precedes the `:` of a view.
fn qualifier(images: &[InsideImage], image: &InsideImage) -> String {
    let same = |other: &&InsideImage| other.loaded.name == image.loaded.name;
    if images.iter().filter(same).count() > 1 {
        image.loaded.mount_point.display().to_string()
    } else {
        image.loaded.name.clone()
    }
}

/// Reads the metadata in the image, or those beside it in its repository.
fn read_meta(loaded: &LoadedImage, is_mounted: bool) -> Option<Meta> {
    let inside = is_mounted.then(|| loaded.mount_point.join("meta/env.json"));
    let beside = loaded.digest.as_ref().and(loaded.path.parent());
    let beside = beside.map(|directory| directory.join("meta/env.json"));
    let mut places = inside.into_iter().chain(beside);
    places.find_map(|path| Meta::from_json(&read_bounded(&path)?).ok())
}

fn read_bounded(path: &Path) -> Option<Vec<u8>> {
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    let mut file = File::open(path).ok()?.take(Meta::MAX_SIZE + 1);
    file.read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
