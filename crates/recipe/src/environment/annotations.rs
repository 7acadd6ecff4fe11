// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Annotations: what container engines tell their hooks.
//!
//! No hook is run here. What an annotation asks for is done in another way, has no effect, or is
//! refused where the environment would not be what its author needs.

use std::collections::BTreeMap;

use super::EnvironmentFile;
use super::read::Reader;
use crate::DeviceRequest;
use crate::ask::{Field, Section};
use crate::diagnostic::quote;
use crate::node::{Kind, Value};

/// Hooks for the network cards of HPE Slingshot. The second needs what the first one brings.
const SLINGSHOT: [&str; 2] = ["com.hooks.cxi.enabled", "com.hooks.aws_ofi_nccl.enabled"];
/// The device that stands for them, where a site describes it.
const SLINGSHOT_DEVICE: &str = "hpe.com/cxi=all";
/// The hook that starts an SSH server.
const SSH: &str = "com.hooks.ssh.enabled";
/// What sets the ranks of `PyTorch` in jobs.
const PYTORCH: &str = "com.pyxis.pytorch_remap_vars";
/// Deeper tables than annotations have anywhere.
const MAX_DEPTH: usize = 16;

impl EnvironmentFile {
    /// Returns the devices that annotations ask for, which a container has if they are there.
    #[must_use]
    pub fn devices_of_annotations(&self) -> Vec<DeviceRequest> {
        let is_wanted = SLINGSHOT.iter().any(|name| self.is_annotated(name));
        SLINGSHOT_DEVICE.parse().ok().filter(|_| is_wanted).into_iter().collect()
    }

    /// Tells whether the tasks of a job get the variables by which `PyTorch` knows its ranks.
    #[must_use]
    pub fn has_ranks_for_pytorch(&self) -> bool {
        self.is_annotated(PYTORCH)
    }

    /// Returns the annotations that have no effect here, by their names. Those that switch
    /// something off, or belong to something that is not switched on, are not among them.
    #[must_use]
    pub fn ignored_annotations(&self) -> Vec<&str> {
        let is_ignored = |name: &str, value: &str| {
            let switch = name.rsplit_once('.').map(|(hook, _)| format!("{hook}.enabled"));
            let is_on = switch.is_none_or(|switch| {
                !self.annotations.contains_key(&switch) || self.is_annotated(&switch)
            });
            is_on && !is_no(value) && ![SLINGSHOT[0], PYTORCH].contains(&name)
        };
        let annotations = self.annotations.iter();
        annotations
            .filter(|(name, value)| is_ignored(name, value))
            .map(|(name, _)| name.as_str())
            .collect()
    }

    fn is_annotated(&self, name: &str) -> bool {
        self.annotations.get(name).is_some_and(|value| !is_no(value))
    }
}

fn is_no(value: &str) -> bool {
    matches!(value, "false" | "0" | "no" | "")
}

impl Reader<'_, '_> {
    /// Reads the annotations, with the names of tables joined by dots.
    pub(super) fn annotations(&self, file: &Section<'_>) -> BTreeMap<String, String> {
        let mut read = BTreeMap::new();
        if let Some(section) = file.get("annotations").and_then(|field| field.section()) {
            self.annotations_in(&section, "", 0, &mut read);
        }
        read
    }

    fn annotations_in(
        &self,
        section: &Section<'_>,
        before: &str,
        depth: usize,
        read: &mut BTreeMap<String, String>,
    ) {
        for entry in section.entries {
            let field = Field::of(self.report, entry);
            let name = format!("{before}{}", entry.key);
            if matches!(entry.value.value, Value::Section(_)) {
                if depth == MAX_DEPTH {
                    self.report.problem(entry.key_place, "these tables are too deep");
                } else if let Some(section) = field.section() {
                    self.annotations_in(&section, &format!("{name}."), depth + 1, read);
                }
            } else if let Some(value) = self.annotation(&field, &name) {
                read.insert(name, value);
            }
        }
    }

    fn annotation(&self, field: &Field<'_>, name: &str) -> Option<String> {
        // `true` without quotes is meant as the text.
        let value = match &field.node.value {
            Value::Scalar(scalar) if scalar.kind != Kind::Quoted => scalar.text.clone(),
            _ => self.filled(field)?,
        };
        if name == SSH && !is_no(&value) {
            let message = format!("{}: no SSH server is started in a container", quote(name));
            let hint = "leave it out: `cabane attach JOB` opens a shell in a job, on its node";
            self.report.note(Some(field.place()), &message, Some(hint));
            return None;
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(annotations: &[(&str, &str)]) -> EnvironmentFile {
        let pairs = annotations.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        EnvironmentFile { annotations: pairs.collect(), ..EnvironmentFile::default() }
    }

    #[test]
    fn hooks_for_the_network_ask_for_its_device() {
        let devices = |annotations: &[(&str, &str)]| {
            let devices = file(annotations).devices_of_annotations();
            devices.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(devices(&[(SLINGSHOT[0], "true")]), ["hpe.com/cxi=all"]);
        assert_eq!(devices(&[(SLINGSHOT[1], "true")]), ["hpe.com/cxi=all"]);
        assert_eq!(devices(&[(SLINGSHOT[0], "false"), ("x", "true")]), [""; 0]);
    }

    #[test]
    fn what_has_no_effect_is_named_unless_it_is_switched_off() {
        let file = file(&[
            ("com.hooks.aws_ofi_nccl.enabled", "true"),
            ("com.hooks.aws_ofi_nccl.variant", "cuda12"),
            ("com.hooks.cxi.enabled", "true"),
            ("com.hooks.dcgm.enabled", "false"),
            ("com.hooks.ssh.enabled", "false"),
            ("com.hooks.ssh.port", "15263"),
        ]);
        let expected = ["com.hooks.aws_ofi_nccl.enabled", "com.hooks.aws_ofi_nccl.variant"];
        assert_eq!(file.ignored_annotations(), expected);
    }
}
