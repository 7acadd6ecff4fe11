// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What was decided: which packages a stack has, where they come from, and why a package of
//! the system is not used.

use std::collections::{BTreeMap, BTreeSet};

use cabane_recipe::{Yaml, YamlMap, package_name};
use cabane_spack::Spec;
use serde::Serialize;

use super::watch::Watch;
use super::{SpackEngine, inputs, lock};
use crate::Result;

/// The packages of a stack, before they are built.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Concretized {
    /// The packages, by name and version.
    pub packages: Vec<ConcretePackage>,
    /// Why packages are built although the system has them, one sentence for each.
    pub not_chosen: Vec<String>,
}

/// A package of a stack.
#[derive(Clone, Debug, Serialize)]
pub struct ConcretePackage {
    /// The name.
    pub name: String,
    /// The version.
    pub version: String,
    /// The variants and flags, as Spack writes them.
    pub variants: String,
    /// The processors that it is built for.
    pub target: String,
    /// The hash that Spack knows it by.
    pub hash: String,
    /// Where it comes from.
    pub from: ComesFrom,
    /// Where it is, if it is of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
}

/// Where a package comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ComesFrom {
    /// It is built, unless a cache elsewhere has it.
    Build,
    /// It was built before on this machine.
    Cache,
    /// The system has it.
    System,
}

/// Says what was decided, as far as it was before anything is built.
pub(super) fn read(engine: &SpackEngine) -> Result<Concretized> {
    let mut watch = Watch::new(engine);
    let mut all = BTreeMap::<String, Spec>::new();
    for environment in engine.stack.environments.iter().filter(|one| one.needs.is_empty()) {
        let path = inputs::lock_file(&engine.layout, &environment.name);
        watch.expect(&path)?;
        all.extend(lock::read(&path)?);
    }
    let mut packages: Vec<_> = all.iter().map(|(hash, one)| package(hash, one, &watch)).collect();
    packages.sort_by(|a, b| (&a.name, &a.version, &a.hash).cmp(&(&b.name, &b.version, &b.hash)));
    let described =
        [&engine.recipe.packages, &engine.system.network_packages, &engine.system.packages];
    Ok(Concretized { packages, not_chosen: not_chosen(&all, described) })
}

fn package(hash: &str, spec: &Spec, watch: &Watch<'_>) -> ConcretePackage {
    let external = spec.external.as_ref();
    let prefix = external.and_then(|external| external.get("path")?.as_str());
    ConcretePackage {
        name: spec.name.clone(),
        version: spec.version.clone(),
        variants: spec.variants(),
        target: spec.target().to_owned(),
        hash: hash.to_owned(),
        from: match external {
            Some(_) => ComesFrom::System,
            None if watch.has(hash) => ComesFrom::Cache,
            None => ComesFrom::Build,
        },
        prefix: prefix.map(str::to_owned),
    }
}

/// Says of each package that is built although the system has one in what they differ.
fn not_chosen(all: &BTreeMap<String, Spec>, described: [&YamlMap; 3]) -> Vec<String> {
    let used: BTreeSet<&str> =
        all.values().filter(|one| one.is_external()).map(|one| one.name.as_str()).collect();
    let mut reasons = BTreeSet::new();
    for spec in all.values().filter(|one| !used.contains(one.name.as_str())) {
        let entries = described.into_iter().filter_map(|map| map.get(&spec.name));
        let lists = entries.filter_map(|one| one.at(&["externals"])?.as_list());
        for external in lists.flatten() {
            let text = |key: &str| external.at(&[key]).and_then(Yaml::as_text);
            if let Some(written) = text("spec") {
                let place = text("prefix").map_or(String::new(), |prefix| format!("{prefix} has "));
                let differences = differences(written, spec);
                let why = if differences.is_empty() {
                    "a requirement of the recipe or of another package excludes it".to_owned()
                } else {
                    differences.join(", ")
                };
                let id = spec.id();
                reasons.insert(format!("{id} is built although {place}`{written}`: {why}"));
            }
        }
    }
    reasons.into_iter().collect()
}

/// In what a package of the system differs from the one that was chosen.
fn differences(external: &str, chosen: &Spec) -> Vec<String> {
    let rest = external.trim_start().strip_prefix(package_name(external)).unwrap_or_default();
    let (version, keys) = parts(rest);
    let mut found = Vec::new();
    let is_version = |version: &str| {
        let more = chosen.version.strip_prefix(version);
        more.is_some_and(|more| more.is_empty() || more.starts_with(['.', '-']))
    };
    if let Some(version) = version.filter(|version| !is_version(version)) {
        found.push(format!("its version is {version}, not {}", chosen.version));
    }
    for (name, value) in &chosen.parameters {
        let wanted = match value {
            serde_json::Value::Bool(is_on) => is_on.to_string(),
            serde_json::Value::String(text) => text.clone(),
            _ => continue,
        };
        if let Some(has) = keys.get(name.as_str()).filter(|has| **has != wanted) {
            found.push(match (*has, wanted.as_str()) {
                ("true", "false") => format!("it is `+{name}`, not `~{name}`"),
                ("false", "true") => format!("it is `~{name}`, not `+{name}`"),
                (has, wanted) => format!("its `{name}` is {has}, not {wanted}"),
            });
        }
    }
    let is_missing = |(name, value): &(&String, &serde_json::Value)| {
        value.as_bool() == Some(true) && !keys.contains_key(name.as_str())
    };
    let missing = chosen.parameters.iter().filter(is_missing);
    let missing: Vec<String> = missing.map(|(name, _)| format!("`+{name}`")).collect();
    if !missing.is_empty() {
        found.push(format!("its description does not say {}", missing.join(", ")));
    }
    found
}

/// Splits what follows the name in a spec: the version, and variants with their values.
fn parts(rest: &str) -> (Option<&str>, BTreeMap<&str, &str>) {
    let mut version = None;
    let mut keys = BTreeMap::new();
    for word in rest.split_whitespace() {
        if let Some((key, value)) = word.split_once('=').filter(|_| !word.starts_with('@')) {
            keys.insert(key.trim_end_matches(':'), value.trim_matches(['\'', '"']));
            continue;
        }
        let mut start = 0;
        let signs = word.match_indices(['@', '+', '~']).map(|(at, _)| at).chain([word.len()]);
        for end in signs {
            let piece = &word[start..end];
            start = end;
            match piece.chars().next() {
                Some('@') => version = Some(piece[1..].trim_start_matches('=')),
                Some('+') => drop(keys.insert(&piece[1..], "true")),
                Some('~') => drop(keys.insert(&piece[1..], "false")),
                _ => {}
            }
        }
    }
    (version, keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_package_of_the_system_lacks_is_named() {
        let chosen = r#"{"name": "openmpi", "version": "5.0.10", "arch": {"target": "x"},
            "parameters": {"cuda": true, "romio": false, "fabrics": "ofi", "legacy": true}}"#;
        let chosen: Spec = serde_json::from_str(chosen).expect("a package");
        let written = "openmpi@4.1.4~cuda+romio fabrics=verbs";
        let expected = [
            "its version is 4.1.4, not 5.0.10",
            "it is `~cuda`, not `+cuda`",
            "its `fabrics` is verbs, not ofi",
            "it is `+romio`, not `~romio`",
            "its description does not say `+legacy`",
        ];
        assert_eq!(differences(written, &chosen), expected);
        assert!(differences("openmpi@5.0+cuda~romio fabrics=ofi +legacy", &chosen).is_empty());
    }
}
