// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! An image as programs see it: in JSON and in templates.

use std::path::PathBuf;

use cabane_image_search::Packages;
use cabane_label::{Digest, ImageId, Label, MountPoint, escape};
use cabane_registry::RemoteImage;
use cabane_repository::Record;
use cabane_resolve::{LocatedImage, NamedRepository};
use cabane_view::{Meta, ViewName};
use serde::Serialize;

use crate::format::Fields;

/// The keys of a template. The names are those that scripts already use.
pub(crate) const KEYS: &str = "\
    name, version, tag, system, uarch, label, id, digest, sha256, size, date, repository, \
    path, sqfs, meta, mount, description, views, default_view, format";

/// An image as programs see it.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ShownImage<'a> {
    label: Option<&'a Label>,
    name: Option<&'a str>,
    version: Option<&'a str>,
    tag: Option<&'a str>,
    system: Option<&'a str>,
    uarch: Option<&'a str>,
    id: Option<ImageId>,
    digest: Option<&'a Digest>,
    size: Option<u64>,
    date: Option<String>,
    repository: Option<&'a str>,
    /// The directory of the image in its repository, or the file outside one.
    path: PathBuf,
    /// The image file.
    sqfs: PathBuf,
    meta: Option<PathBuf>,
    mount: Option<&'a MountPoint>,
    description: Option<&'a str>,
    views: Vec<&'a str>,
    default_view: Option<&'a ViewName>,
    format: &'static str,
    /// Whether the image has no file, and is assembled when it is used.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) deduplicated: bool,
    /// Those that were looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) packages: Option<&'a Packages>,
}

impl<'a> ShownImage<'a> {
    /// Shows what a repository knows.
    pub(crate) fn of_record(repository: &'a NamedRepository, record: &'a Record) -> Self {
        let sqfs = repository.repository.image_path(&record.digest);
        let mut shown = Self {
            id: Some(record.digest.id()),
            digest: Some(&record.digest),
            size: Some(record.size),
            date: Some(format!("{:.0}", record.date)),
            repository: Some(&repository.name),
            path: sqfs.parent().unwrap_or(&sqfs).to_owned(),
            sqfs,
            meta: Some(repository.repository.meta_path(&record.digest)),
            mount: record.mount.as_ref(),
            description: record.description.as_deref(),
            views: record.views.iter().map(ViewName::as_str).collect(),
            default_view: record.default_view.as_ref(),
            format: record.format.as_str(),
            ..Self::default()
        };
        shown.set_label(&record.label);
        shown
    }

    /// Shows an image outside a repository.
    pub(crate) fn of_file(image: &'a LocatedImage) -> Self {
        let mut shown = Self {
            size: image.path.metadata().ok().map(|found| found.len()),
            path: image.path.clone(),
            sqfs: image.path.clone(),
            format: image.format.as_str(),
            ..Self::default()
        };
        if let Some(meta) = &image.meta {
            shown.set_meta(meta);
        }
        shown
    }

    /// Shows an image in a registry.
    pub(crate) fn of_remote(image: &'a RemoteImage, meta: Option<&'a Meta>) -> Self {
        let mut shown = Self {
            size: Some(image.size),
            date: image.created.map(|date| format!("{date:.0}")),
            ..Self::default()
        };
        if let Some(meta) = meta {
            shown.set_meta(meta);
        }
        shown.id = Some(image.digest.id());
        shown.digest = Some(&image.digest);
        shown.set_label(&image.place.label);
        shown
    }

    /// Adds the metadata that the record of a restricted image lacks.
    pub(crate) fn complete(&mut self, meta: &'a Meta) {
        if self.mount.is_none() && self.description.is_none() && self.views.is_empty() {
            let name = self.name;
            self.set_meta(meta);
            self.name = name;
        }
    }

    fn set_label(&mut self, label: &'a Label) {
        self.label = Some(label);
        self.name = Some(label.name.as_str());
        self.version = Some(label.version.as_str());
        self.tag = Some(label.tag.as_str());
        self.system = Some(label.system.as_str());
        self.uarch = Some(label.uarch.as_str());
    }

    fn set_meta(&mut self, meta: &'a Meta) {
        self.name = Some(&meta.name);
        self.mount = meta.mount.as_ref();
        self.description = meta.description.as_deref();
        self.views = meta.views.keys().map(ViewName::as_str).collect();
        self.default_view = meta.default_view.as_ref();
    }

    /// Returns the values of the keys of a template; what is not known is empty.
    pub(crate) fn fields(&self) -> Fields {
        let mut fields = Fields::of(self);
        fields.set("sha256", self.digest.map(ToString::to_string));
        fields.set("views", Some(self.views.join(",")));
        // Text of others: a terminal must not take it for a command.
        let description = self.description.map(escape);
        fields.set("description", description.map(Into::into));
        if let Some(packages) = self.packages {
            fields.set("packages", Some(packages.to_string()));
        }
        fields
    }
}
