// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From the `env` of a view to the patch it makes.

use std::fmt::Display;

use cabane_label::escape;
use serde::Deserialize;
use serde::de::{IntoDeserializer, value};
use serde_json::value::RawValue;

use crate::document::Member;
use crate::read::Reader;
use crate::{Change, EnvPatch, ListOperation, MetaError, ViewName, is_variable_name};

impl<'a> Reader<'a> {
    pub(crate) fn env(&self, value: &'a RawValue, view: &ViewName) -> Result<EnvPatch, MetaError> {
        let mut values = None;
        let what = format!("`env` of view `{view}`");
        for Member { key, value, .. } in self.members(value, &what)? {
            match key.as_str() {
                "version" => self.check_version(value, &what)?,
                "values" => values = Some(value),
                _ => {}
            }
        }
        values.map_or_else(|| Ok(EnvPatch::new()), |values| self.patch(values, view))
    }

    fn patch(&self, value: &'a RawValue, view: &ViewName) -> Result<EnvPatch, MetaError> {
        let members = self.members(value, &format_args!("`values` of view `{view}`"))?;
        let find = |key| members.iter().find(|member| member.key == key);
        let mut patch = EnvPatch::new();
        // Scalars come first, wherever they are in the file.
        if let Some(scalar) = find("scalar") {
            let what = format!("`scalar` of view `{view}`");
            for member in self.variables(scalar.value, &what)? {
                patch.push(&member.key, self.scalar(&member)?);
            }
        }
        if let Some(list) = find("list") {
            let what = format!("`list` of view `{view}`");
            for member in self.variables(list.value, &what)? {
                let what = format_args!("the list of operations on `{}`", member.key);
                let operations: Vec<&RawValue> =
                    self.document.read(member.value, &what, "an array")?;
                for operation in operations {
                    patch.push(&member.key, self.operation(operation, &member.key)?);
                }
            }
        }
        Ok(patch)
    }

    fn scalar(&self, member: &Member<'a>) -> Result<Change, MetaError> {
        let what = format_args!("the value of `{}`", member.key);
        let text: Option<String> = self.document.read(member.value, &what, "a text or null")?;
        let Some(text) = text else {
            return Ok(Change::Unset);
        };
        self.check_nul(&text, member.value, &what)?;
        Ok(Change::Set(text))
    }

    fn operation(&self, value: &'a RawValue, variable: &str) -> Result<Change, MetaError> {
        let what = format_args!("an operation on `{variable}`");
        let members = self.document.object(value, &what)?;
        let find = |key| members.iter().find(|member| member.key == key);
        let missing = |key| {
            self.document.error(value, format!("{} lacks `{key}`", escape(&what.to_string())))
        };
        let op = find("op").ok_or_else(|| missing("op"))?.value;
        let name = self.text(op, &format_args!("`op` of {what}"))?;
        let refuse = |_: value::Error| {
            let (name, variable) = (escape(&name), escape(variable));
            let reason = format!(
                "`{name}` is not an operation on `{variable}`: it is `set`, `prepend`, `append`, or \
                 `unset`"
            );
            self.document.error(op, reason)
        };
        let operation = name.as_str().into_deserializer();
        let operation = ListOperation::deserialize(operation).map_err(refuse)?;
        let values = match find("value") {
            Some(member) => self.values(member.value, variable)?,
            None if operation == ListOperation::Unset => Vec::new(),
            None => return Err(missing("value")),
        };
        Ok(Change::List { operation, values })
    }

    fn values(&self, value: &'a RawValue, variable: &str) -> Result<Vec<String>, MetaError> {
        let expected = "an array of texts";
        let what = format_args!("`value` of an operation on `{variable}`");
        let elements: Vec<&RawValue> = self.document.read(value, &what, expected)?;
        let text = |element| {
            let text: String = self.document.read(element, &what, expected)?;
            self.check_nul(&text, element, &what)?;
            Ok(text)
        };
        elements.into_iter().map(text).collect()
    }

    /// Reads an object whose keys are variables.
    fn variables(
        &self,
        value: &'a RawValue,
        what: &dyn Display,
    ) -> Result<Vec<Member<'a>>, MetaError> {
        let members = self.document.object(value, what)?;
        match members.iter().find(|member| !is_variable_name(&member.key)) {
            None => Ok(members),
            Some(wrong) => {
                let name = escape(&wrong.key);
                let reason = format!("`{name}` cannot be the name of a variable");
                Err(self.document.error(wrong.written_key, reason))
            }
        }
    }
}
