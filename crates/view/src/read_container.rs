// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Reads what a root image says about itself.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::MetaError;
use crate::container::{Container, ContainerSource};
use crate::document::Member;
use crate::read::Reader;
use crate::read_needs::TEXTS;

impl<'a> Reader<'a> {
    pub(crate) fn container(&self, value: &'a RawValue) -> Result<Container, MetaError> {
        let mut container = Container::default();
        for Member { key, value, .. } in self.members(value, &"`container`")? {
            let what = format!("`{key}` of `container`");
            let text = || self.plain_text(value, &what).map(Some);
            let texts = || {
                let texts: Vec<String> = self.document.read(value, &what, TEXTS)?;
                texts.iter().try_for_each(|text| self.check_nul(text, value, &what))?;
                Ok(texts)
            };
            match key.as_str() {
                "entrypoint" => container.entrypoint = texts()?,
                "command" => container.command = texts()?,
                "working-directory" => {
                    container.working_directory = text()?;
                    self.absolute_path(value, "`working-directory` of `container`")?;
                }
                "user" => container.user = text()?,
                "labels" => container.labels = self.labels(value)?,
                "glibc" => container.glibc = text()?,
                "source" => container.source = Some(self.container_source(value)?),
                _ => {}
            }
        }
        Ok(container)
    }

    fn labels(&self, value: &'a RawValue) -> Result<BTreeMap<String, String>, MetaError> {
        let members = self.members(value, &"`labels`")?.into_iter();
        let label = |Member { key, value, .. }: Member<'a>| {
            let text = self.text(value, &format_args!("label `{key}`"))?;
            Ok((key, text))
        };
        members.map(label).collect()
    }

    fn container_source(&self, value: &'a RawValue) -> Result<ContainerSource, MetaError> {
        let mut source = ContainerSource::default();
        for Member { key, value, .. } in self.members(value, &"`source`")? {
            let text = || self.plain_text(value, &format!("`{key}` of `source`"));
            match key.as_str() {
                "reference" => source.reference = text()?,
                "platform" => source.platform = text()?,
                "manifest" => source.manifest = Some(text()?),
                "index" => source.index = Some(text()?),
                "configuration" => source.configuration = Some(text()?),
                _ => {}
            }
        }
        Ok(source)
    }

    fn plain_text(&self, value: &'a RawValue, what: &str) -> Result<String, MetaError> {
        let text = self.text(value, &what)?;
        self.check_nul(&text, value, &what)?;
        Ok(text)
    }
}
