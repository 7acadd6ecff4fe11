// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Settings of Spack that a system has: `config.yaml`, `concretizer.yaml`, `toolchains.yaml`. Spack gets
//! them as they are. Refused is what decides where things are, or what Cabane decides itself.

use super::value::YamlMap;
use crate::node::Node;
use crate::report::Report;

/// Settings of Spack: what is below the key that has the name of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpackSettings {
    /// Of `config.yaml`.
    pub config: YamlMap,
    /// Of `concretizer.yaml`.
    pub concretizer: YamlMap,
    /// Of `toolchains.yaml`.
    pub toolchains: YamlMap,
}

/// Keys that are refused, and what to do instead.
type Refused = &'static [(&'static str, &'static str)];

const CONFIG: Refused = &[
    ("install_tree", "remove it: `store` of the recipe decides where packages are installed"),
    ("build_stage", "remove it, and set the build directory in the configuration of Cabane"),
    ("test_stage", "remove it: builds run no tests"),
    ("source_cache", "remove it: sources are kept in the cache directory of Cabane"),
    ("misc_cache", "remove it: indexes are kept in the cache directory of Cabane"),
    ("environments_root", "remove it: builds create their own environments"),
    ("build_jobs", "write `jobs` into the configuration of Cabane"),
];

const CONCRETIZER: Refused = &[
    ("reuse", "remove it: the same recipe must give the same image with any cache"),
    ("unify", "write `unify` into the environments of a recipe"),
    ("concretization_cache", "name it in mirrors.yaml: `concretizer:`"),
];

pub(super) fn config(report: &Report<'_>, root: &Node) -> Option<YamlMap> {
    read(report, root, "config", CONFIG)
}

pub(super) fn concretizer(report: &Report<'_>, root: &Node) -> Option<YamlMap> {
    read(report, root, "concretizer", CONCRETIZER)
}

pub(super) fn toolchains(report: &Report<'_>, root: &Node) -> Option<YamlMap> {
    read(report, root, "toolchains", &[])
}

fn read(report: &Report<'_>, root: &Node, name: &str, refused: Refused) -> Option<YamlMap> {
    let example = format!("write all settings below `{name}:`, indented by two spaces");
    let file = report.file_with(root, &example, &[name])?;
    let field = file.require(name, &example)?;
    let section = field.section()?;
    for entry in section.entries {
        // With a colon at its end, a key replaces what others say.
        let key = entry.key.trim_end_matches(':');
        if let Some((_, hint)) = refused.iter().find(|(name, _)| *name == key) {
            let message = format!("`{key}` cannot be set in {name}.yaml of a system");
            report.problem_with_hint(entry.key_place, &message, hint);
        }
    }
    Some(YamlMap::of(section.entries))
}
