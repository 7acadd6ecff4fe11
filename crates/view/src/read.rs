// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From `env.json` to metadata.
//!
//! The file was written by the builder of the image, and is not trusted. What
//! is not known is skipped, and so is `null` where a value may be missing;
//! what is known but wrong is refused, with its place.

use std::collections::BTreeMap;
use std::fmt::Display;

use cabane_label::{ParseError, escape};
use serde_json::value::RawValue;

use crate::document::{Document, Member, is_null};
use crate::{CheckList, Meta, MetaError, View, ViewName};

impl Meta {
    /// Reads the contents of an `env.json`.
    ///
    /// It never panics, whatever the file holds, and reads at most
    /// [`Meta::MAX_SIZE`] bytes.
    pub fn from_json(text: &[u8]) -> Result<Self, MetaError> {
        let (document, root) = Document::parse(text)?;
        Reader { document }.meta(root)
    }
}

pub(crate) struct Reader<'a> {
    pub(crate) document: Document<'a>,
}

impl<'a> Reader<'a> {
    fn meta(&self, root: &'a RawValue) -> Result<Meta, MetaError> {
        let mut meta = Meta {
            // What the existing tool calls an image that does not say.
            name: "unnamed".to_owned(),
            ..Meta::default()
        };
        let mut default_view = None;
        for Member { key, value, .. } in self.members(root, &"the file")? {
            match key.as_str() {
                "name" => meta.name = self.text(value, &"`name`")?,
                "description" => meta.description = Some(self.text(value, &"`description`")?),
                "mount" => {
                    let mount = self.text(value, &"`mount`")?.parse();
                    let refuse = |e: ParseError| self.document.error(value, e.to_string());
                    meta.mount = Some(mount.map_err(refuse)?);
                }
                "default-view" => default_view = Some(value),
                "views" => meta.views = self.views(value)?,
                "cabane" => self.own_section(value, &mut meta)?,
                _ => {}
            }
        }
        if let Some(value) = default_view {
            meta.default_view = Some(self.default_view(value, &meta.views)?);
        }
        Ok(meta)
    }

    fn default_view(
        &self,
        value: &'a RawValue,
        views: &BTreeMap<ViewName, View>,
    ) -> Result<ViewName, MetaError> {
        let name = self.text(value, &"`default-view`")?;
        if let Some((name, _)) = views.get_key_value(name.as_str()) {
            return Ok(name.clone());
        }
        let reason = format!("the default view `{}` is not one of the views", escape(&name));
        Err(self.document.error(value, reason))
    }

    fn views(&self, value: &'a RawValue) -> Result<BTreeMap<ViewName, View>, MetaError> {
        let mut views = BTreeMap::new();
        for Member { key, written_key, value } in self.document.object(value, &"`views`")? {
            let refuse = |e: ParseError| self.document.error(written_key, e.to_string());
            let name: ViewName = key.parse().map_err(refuse)?;
            let view = self.view(value, &name)?;
            views.insert(name, view);
        }
        Ok(views)
    }

    fn view(&self, value: &'a RawValue, name: &ViewName) -> Result<View, MetaError> {
        let mut view = View::default();
        for Member { key, value, .. } in self.members(value, &format_args!("view `{name}`"))? {
            let text = || self.text(value, &format_args!("`{key}` of view `{name}`")).map(Some);
            match key.as_str() {
                "description" => view.description = text()?,
                "root" => view.root = text()?,
                "activate" => view.activate = text()?,
                "env" => view.patch = self.env(value, name)?,
                _ => {}
            }
        }
        Ok(view)
    }

    fn own_section(&self, value: &'a RawValue, meta: &mut Meta) -> Result<(), MetaError> {
        for Member { key, value, .. } in self.members(value, &"`cabane`")? {
            match key.as_str() {
                "version" => self.check_version(value, "`cabane`")?,
                "engine" => meta.engine = Some(self.text(value, &"`engine`")?),
                "needs" => meta.needs = self.needs(value)?,
                "container" => meta.container = Some(self.container(value)?),
                "bases" => meta.bases = self.bases(value)?,
                "checks" => meta.checks = CheckList::of_text(value.get()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads an object in which `null` means that the key is not there.
    pub(crate) fn members(
        &self,
        value: &'a RawValue,
        what: &dyn Display,
    ) -> Result<Vec<Member<'a>>, MetaError> {
        let mut members = self.document.object(value, what)?;
        members.retain(|member| !is_null(member.value));
        Ok(members)
    }

    pub(crate) fn text(
        &self,
        value: &'a RawValue,
        what: &dyn Display,
    ) -> Result<String, MetaError> {
        self.document.read(value, what, "a text")
    }

    pub(crate) fn check_nul(
        &self,
        text: &str,
        place: &RawValue,
        what: &dyn Display,
    ) -> Result<(), MetaError> {
        if text.contains('\0') {
            let what = what.to_string();
            let reason = format!("{} contains a NUL character", escape(&what));
            return Err(self.document.error(place, reason));
        }
        Ok(())
    }

    pub(crate) fn check_version(&self, value: &RawValue, what: &str) -> Result<(), MetaError> {
        if value.get() == "1" {
            return Ok(());
        }
        let found: String = value.get().chars().take(20).collect();
        let (what, found) = (escape(what), escape(&found));
        let reason = format!("{what} has version {found}, and only version 1 is known");
        Err(self.document.error(value, reason))
    }
}
