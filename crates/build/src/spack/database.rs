// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What Spack's database says about the packages of a store.
//!
//! `<store>/.spack-db/index.json`, version 8 and near it: `/database/installs` has a
//! record for every hash, with the same description of the package as a lock file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::BuildError;

/// The database, below a store.
pub(super) const INDEX: &str = ".spack-db/index.json";
/// Variants of every package that are flags of its compiler.
const FLAGS: [&str; 6] = [
    "cflags", "cxxflags", "fflags", "cppflags", "ldflags", "ldlibs",
];

/// The packages of a store, by their hashes.
pub(super) type Installs = BTreeMap<String, Install>;

/// One package in the store, or of the system.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Install {
    /// How it was built; what is not there was written by no Spack.
    pub(super) spec: Option<Spec>,
    /// Where it is.
    #[serde(default)]
    pub(super) path: Option<String>,
    #[serde(default)]
    pub(super) explicit: bool,
    /// What was only used from a cache to be unpacked is not.
    #[serde(default = "yes")]
    pub(super) installed: bool,
}

/// How a package was built.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Spec {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) arch: Arch,
    #[serde(default)]
    pub(super) parameters: Map<String, Value>,
    /// There for packages of the system.
    #[serde(default)]
    pub(super) external: Option<Value>,
    #[serde(default)]
    pub(super) dependencies: Vec<Dependency>,
}

/// What a package was built for.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Arch {
    #[serde(default)]
    pub(super) platform_os: Option<String>,
    /// A name, or an object with one.
    target: Value,
}

/// A package that another one needs.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Dependency {
    pub(super) name: String,
    pub(super) hash: String,
    #[serde(default)]
    pub(super) parameters: DependencyParameters,
}

/// What it needs it for.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct DependencyParameters {
    #[serde(default)]
    pub(super) deptypes: Vec<String>,
    #[serde(default)]
    pub(super) virtuals: Vec<String>,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
struct Index {
    database: Database,
}

#[derive(Deserialize)]
struct Database {
    installs: Installs,
}

/// Reads the database of a store. Records that hold nothing in the store are left out.
pub(super) fn read(store: &Path) -> Result<Installs, BuildError> {
    let path = store.join(INDEX);
    let text = fs::read(&path).map_err(BuildError::file("read", &path))?;
    let index: Index = serde_json::from_slice(&text)
        .map_err(|error| BuildError::file("read", &path)(error.into()))?;
    let mut installs = index.database.installs;
    installs.retain(|_, install| install.installed);
    Ok(installs)
}

impl Spec {
    /// The processors it was built for.
    pub(super) fn target(&self) -> &str {
        match &self.arch.target {
            Value::String(name) => name,
            other => other
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default(),
        }
    }

    /// Its variants and flags as Spack writes them: first what is on or off.
    pub(super) fn variants(&self) -> String {
        let mut text = String::new();
        let variants = self.parameters.iter();
        for (name, value) in variants.filter(|(name, _)| !FLAGS.contains(&name.as_str())) {
            if let Value::Bool(is_on) = value {
                text.push(if *is_on { '+' } else { '~' });
                text.push_str(name);
            }
        }
        for (name, value) in &self.parameters {
            let is_flag = FLAGS.contains(&name.as_str());
            let (delimiter, written) = match value {
                Value::Array(values) if values.is_empty() => continue,
                Value::Array(values) if is_flag => ("=", joined(values, " ")),
                Value::Array(values) => (":=", joined(values, ",")),
                Value::String(value) => ("=", value.clone()),
                Value::Bool(_) | Value::Null => continue,
                other => ("=", other.to_string()),
            };
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&format!("{name}{delimiter}{}", quoted(&written)));
        }
        text
    }
}

fn joined(values: &[Value], by: &str) -> String {
    let texts = values.iter().filter_map(Value::as_str);
    texts.collect::<Vec<_>>().join(by)
}

/// As Spack quotes values: where it could not read them otherwise.
fn quoted(value: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ",/_.-[]".contains(c);
    if value.chars().all(is_plain) {
        value.to_owned()
    } else {
        format!("'{value}'")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variants(parameters: &str) -> String {
        let text = format!(
            r#"{{"name":"a","version":"1","arch":{{"target":{{"name":"zen4"}}}},"parameters":{parameters}}}"#
        );
        serde_json::from_str::<Spec>(&text).unwrap().variants()
    }

    #[test]
    fn variants_are_written_as_spack_writes_them() {
        let parameters = r#"{"pic": true, "debug": false, "build_system": "makefile",
            "libs": ["shared", "static"], "cflags": ["-O2", "-g"], "ldflags": []}"#;
        assert_eq!(
            variants(parameters),
            "~debug+pic build_system=makefile cflags='-O2 -g' libs:=shared,static",
        );
    }

    #[test]
    fn a_value_with_a_plus_is_quoted() {
        let parameters = r#"{"languages": ["c", "c++"]}"#;
        assert_eq!(variants(parameters), "languages:='c,c++'");
    }
}
