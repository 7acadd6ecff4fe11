// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What Spack's database says about the packages of a store.
//!
//! `<store>/.spack-db/index.json`, versions 6 to 8: `/database/installs` has a record for
//! every hash, with the same description of the package as a lock file.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde::Deserialize;
use serde_json::{Map, Value};

/// The database, below a store.
pub const DATABASE: &str = ".spack-db/index.json";
/// The versions of databases that can be read. Spack 1.0 and later write 8.
pub const DATABASE_VERSIONS: [&str; 3] = ["6", "7", "8"];
/// The versions of lock files that can be read: 6 is that of Spack 1.0 and 1.1, 7 has groups
/// of specs.
pub const LOCK_VERSIONS: RangeInclusive<u32> = 6..=7;
/// Variants of every package that are flags of its compiler.
const FLAGS: [&str; 6] = ["cflags", "cxxflags", "fflags", "cppflags", "ldflags", "ldlibs"];

/// The packages of a store, by their hashes.
pub type Installs = BTreeMap<String, Install>;

/// One package in the store, or of the system.
#[derive(Clone, Debug, Deserialize)]
pub struct Install {
    /// How it was built; what is not there was written by no Spack.
    pub spec: Option<Spec>,
    /// Where it is.
    #[serde(default)]
    pub path: Option<String>,
    /// Whether someone requested it by its name.
    #[serde(default)]
    pub explicit: bool,
    /// What was only used from a cache to be unpacked is not.
    #[serde(default = "yes")]
    pub installed: bool,
}

/// How a package was built.
#[derive(Clone, Debug, Deserialize)]
pub struct Spec {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// For which machines.
    pub arch: Arch,
    /// Its variants and the flags of its compiler.
    #[serde(default)]
    pub parameters: Map<String, Value>,
    /// There for packages of the system.
    #[serde(default)]
    pub external: Option<Value>,
    /// What it needs.
    #[serde(default)]
    pub dependencies: Vec<Dependency>,
}

/// What a package was built for.
#[derive(Clone, Debug, Deserialize)]
pub struct Arch {
    /// The kind of system, such as `linux`.
    #[serde(default)]
    pub platform: Option<String>,
    /// The system, such as `sles15`.
    #[serde(default)]
    pub platform_os: Option<String>,
    /// A name, or an object with one.
    target: Value,
}

/// A package that another one needs.
#[derive(Clone, Debug, Deserialize)]
pub struct Dependency {
    /// Its name.
    pub name: String,
    /// Its hash, by which it is in the database.
    pub hash: String,
    /// What for.
    #[serde(default)]
    pub parameters: DependencyParameters,
}

/// What it needs it for.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct DependencyParameters {
    /// To be built, linked or run.
    #[serde(default)]
    pub deptypes: Vec<String>,
    /// The interfaces that it provides, such as `mpi`.
    #[serde(default)]
    pub virtuals: Vec<String>,
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

/// The head of a database alone.
#[derive(Deserialize)]
struct Head {
    database: Version,
}

#[derive(Deserialize)]
struct Version {
    version: String,
}

/// Why a database cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// It is of another version.
    #[error("its version is {0}, but this version of cabane reads only {known}", known = DATABASE_VERSIONS.join(", "))]
    Version(String),
    /// It is something else, or was cut off.
    #[error(transparent)]
    Malformed(#[from] serde_json::Error),
}

/// Reads a database. Records that hold nothing in the store are left out.
///
/// # Errors
///
/// It is something else, was cut off, or is of another version.
pub fn installs(database: &[u8]) -> Result<Installs, DatabaseError> {
    let Head { database: Version { version } } = serde_json::from_slice(database)?;
    if !DATABASE_VERSIONS.contains(&version.as_str()) {
        return Err(DatabaseError::Version(version));
    }
    let index: Index = serde_json::from_slice(database)?;
    let mut installs = index.database.installs;
    installs.retain(|_, install| install.installed);
    Ok(installs)
}

impl Spec {
    /// Its name and version, as Spack calls it.
    pub fn id(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }

    /// Whether it is one of the system.
    pub fn is_external(&self) -> bool {
        self.external.is_some()
    }

    /// The processors it was built for.
    pub fn target(&self) -> &str {
        match &self.arch.target {
            Value::String(name) => name,
            other => other.get("name").and_then(Value::as_str).unwrap_or_default(),
        }
    }

    /// Its variants and flags as Spack writes them: first what is on or off.
    pub fn variants(&self) -> String {
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
    if value.chars().all(is_plain) { value.to_owned() } else { format!("'{value}'") }
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
    fn what_is_not_in_the_store_is_left_out() {
        let spec = r#"{"name":"zlib","version":"1.3","arch":{"target":"zen4"}}"#;
        let text = format!(
            r#"{{"database":{{"version":"8","installs":{{
                "aaa":{{"spec":{spec},"path":"/store/zlib","installed":true}},
                "bbb":{{"spec":{spec},"path":"/store/gone","installed":false}},
                "ccc":{{"spec":{spec}}}}}}}}}"#
        );
        let all = installs(text.as_bytes()).unwrap();
        assert_eq!(all.keys().collect::<Vec<_>>(), ["aaa", "ccc"]);
    }

    #[test]
    fn a_database_of_another_version_is_refused() {
        let error = installs(br#"{"database":{"version":"9","records":[]}}"#).unwrap_err();
        let expected = "its version is 9, but this version of cabane reads only 6, 7, 8";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn a_value_with_a_plus_is_quoted() {
        let parameters = r#"{"languages": ["c", "c++"]}"#;
        assert_eq!(variants(parameters), "languages:='c,c++'");
    }
}
