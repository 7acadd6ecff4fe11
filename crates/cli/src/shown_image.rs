// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! An image as programs see it: in JSON and in templates.

use std::path::PathBuf;

use cabane_label::{Label, escape};
use cabane_registry::RemoteImage;
use cabane_repository::Record;
use cabane_resolve::{LocatedImage, NamedRepository};
use cabane_view::Meta;
use serde::Serialize;

use crate::packages::FoundPackages;

/// The keys of a template. The names are those that scripts already use.
pub(crate) const KEYS: &[&str] = &[
    "name",
    "version",
    "tag",
    "system",
    "uarch",
    "label",
    "id",
    "digest",
    "sha256",
    "size",
    "date",
    "repository",
    "path",
    "sqfs",
    "meta",
    "mount",
    "description",
    "views",
    "default_view",
    "format",
];

/// An image as programs see it.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ShownImage {
    label: Option<String>,
    name: Option<String>,
    version: Option<String>,
    tag: Option<String>,
    system: Option<String>,
    uarch: Option<String>,
    id: Option<String>,
    digest: Option<String>,
    size: Option<u64>,
    date: Option<String>,
    repository: Option<String>,
    /// The directory of the image in its repository, or the file outside one.
    path: PathBuf,
    /// The image file.
    sqfs: PathBuf,
    meta: Option<PathBuf>,
    mount: Option<String>,
    description: Option<String>,
    views: Vec<String>,
    default_view: Option<String>,
    format: String,
    /// Those that were looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    packages: Option<FoundPackages>,
}

impl ShownImage {
    /// Adds the packages that were looked for.
    pub(crate) fn set_packages(&mut self, packages: Option<&FoundPackages>) {
        self.packages = packages.cloned();
    }

    /// Shows what a repository knows.
    pub(crate) fn of_record(repository: &NamedRepository, record: &Record) -> Self {
        let sqfs = repository.repository.image_path(&record.digest);
        let mut shown = Self {
            id: Some(record.digest.id().to_string()),
            digest: Some(record.digest.to_string()),
            size: Some(record.size),
            date: Some(format!("{:.0}", record.date)),
            repository: Some(repository.name.clone()),
            path: sqfs.parent().unwrap_or(&sqfs).to_owned(),
            sqfs,
            meta: Some(repository.repository.meta_path(&record.digest)),
            mount: record.mount.as_ref().map(ToString::to_string),
            description: record.description.clone(),
            views: record.views.iter().map(ToString::to_string).collect(),
            default_view: record.default_view.as_ref().map(ToString::to_string),
            format: record.format.to_string(),
            ..Self::default()
        };
        shown.set_label(&record.label);
        shown
    }

    /// Shows an image outside a repository.
    pub(crate) fn of_file(image: &LocatedImage) -> Self {
        let mut shown = Self {
            size: image.path.metadata().ok().map(|found| found.len()),
            path: image.path.clone(),
            sqfs: image.path.clone(),
            format: image.format.to_string(),
            ..Self::default()
        };
        if let Some(meta) = &image.meta {
            shown.set_meta(meta);
        }
        shown
    }

    /// Shows an image in a registry.
    pub(crate) fn of_remote(image: &RemoteImage, meta: Option<&Meta>) -> Self {
        let mut shown = Self {
            size: Some(image.size),
            date: image.created.map(|date| format!("{date:.0}")),
            ..Self::default()
        };
        if let Some(meta) = meta {
            shown.set_meta(meta);
        }
        shown.id = Some(image.digest.id().to_string());
        shown.digest = Some(image.digest.to_string());
        shown.set_label(&image.place.label);
        shown
    }

    /// Adds what the record of an image that is for a few does not say.
    pub(crate) fn complete(&mut self, meta: &Meta) {
        if self.mount.is_none() && self.description.is_none() && self.views.is_empty() {
            let name = self.name.clone();
            self.set_meta(meta);
            self.name = name;
        }
    }

    fn set_label(&mut self, label: &Label) {
        self.label = Some(label.to_string());
        self.name = Some(label.name.to_string());
        self.version = Some(label.version.to_string());
        self.tag = Some(label.tag.to_string());
        self.system = Some(label.system.to_string());
        self.uarch = Some(label.uarch.to_string());
    }

    fn set_meta(&mut self, meta: &Meta) {
        self.name = Some(meta.name.clone());
        self.mount = meta.mount.as_ref().map(ToString::to_string);
        self.description.clone_from(&meta.description);
        self.views = meta.views.keys().map(ToString::to_string).collect();
        self.default_view = meta.default_view.as_ref().map(ToString::to_string);
    }

    /// Returns the text of a key; what is not known is empty, what does not exist
    /// is none.
    pub(crate) fn value(&self, key: &str) -> Option<String> {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        Some(match key {
            "label" => text(&self.label),
            "name" => text(&self.name),
            "version" => text(&self.version),
            "tag" => text(&self.tag),
            "system" => text(&self.system),
            "uarch" => text(&self.uarch),
            "id" => text(&self.id),
            "digest" | "sha256" => text(&self.digest),
            "size" => self.size.map(|size| size.to_string()).unwrap_or_default(),
            "date" => text(&self.date),
            "repository" => text(&self.repository),
            "path" => self.path.display().to_string(),
            "sqfs" => self.sqfs.display().to_string(),
            "meta" => self
                .meta
                .as_ref()
                .map(|path| path.display().to_string())
                .unwrap_or_default(),
            "mount" => text(&self.mount),
            // Words of others: nothing in them may reach a terminal as a command.
            "description" => escape(&text(&self.description)).into_owned(),
            "views" => self.views.join(","),
            "default_view" => text(&self.default_view),
            "format" => self.format.clone(),
            "packages" => self.packages.as_ref()?.to_string(),
            _ => return None,
        })
    }
}
