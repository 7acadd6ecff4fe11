// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! An image as programs see it: in JSON and in templates.

use std::path::PathBuf;

use cabane_image_search::Packages;
use cabane_label::{Label, escape};
use cabane_registry::RemoteImage;
use cabane_repository::Record;
use cabane_resolve::{LocatedImage, NamedRepository};
use cabane_view::Meta;
use serde::Serialize;

use crate::format::Fields;

/// The keys of a template. The names are those that scripts already use.
pub(crate) const KEYS: &str = "\
    name, version, tag, system, uarch, label, id, digest, sha256, size, date, repository, \
    path, sqfs, meta, mount, description, views, default_view, format";

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
    pub(crate) packages: Option<Packages>,
}

impl ShownImage {
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

    /// Adds the metadata that the record of a restricted image lacks.
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

    /// Returns the values of the keys of a template; what is not known is empty.
    pub(crate) fn fields(&self) -> Fields {
        let mut fields = Fields::of(self);
        fields.set("sha256", self.digest.clone());
        fields.set("views", Some(self.views.join(",")));
        // Text of others: a terminal must not take it for a command.
        let description = self.description.as_deref().map(escape);
        fields.set("description", description.map(Into::into));
        if let Some(packages) = &self.packages {
            fields.set("packages", Some(packages.to_string()));
        }
        fields
    }
}
