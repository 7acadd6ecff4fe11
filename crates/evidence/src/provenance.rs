// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From what and by what an image was built: the predicate *provenance* v1 of SLSA.
//!
//! Format: <https://slsa.dev/spec/v1.0/provenance>.

use std::collections::BTreeMap;

use cabane_label::Digest;
use cabane_registry::PublicKey;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::statement::{Details, Runner, Statement};

/// The type of such a statement.
pub const PROVENANCE: &str = "https://slsa.dev/provenance/v1";
/// How `cabane build` makes an image from a recipe.
pub const IMAGE_BUILD: &str = "https://cabane.dev/buildtypes/image/v1";
/// The name of the recipe in the list of what an image was built from.
pub const RECIPE: &str = "recipe";

/// From what and by what an image was built.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Provenance {
    /// What was asked for, and from what it was made.
    pub build_definition: BuildDefinition,
    /// What made it, and when.
    pub run_details: RunDetails,
}

/// What was asked for, and from what it was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildDefinition {
    /// The URI of the kind of build.
    pub build_type: String,
    /// What the user asked for: `label`, `system`, `recipe`, `format`.
    pub external_parameters: Map<String, Value>,
    /// What the builder decided.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub internal_parameters: Map<String, Value>,
    /// From what it was made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolved_dependencies: Vec<Resource>,
}

/// What made an image, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunDetails {
    /// What made it.
    pub builder: Builder,
    /// When.
    #[serde(default)]
    pub metadata: RunMetadata,
    /// Files that describe the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub byproducts: Vec<Resource>,
}

/// What made an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Builder {
    /// Its URI.
    pub id: String,
    /// The versions of its parts: `cabane` → `0.2.0`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub version: BTreeMap<String, String>,
}

/// Which run it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunMetadata {
    /// A name for the run that no other one has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invocation_id: Option<String>,
    /// When it began, if all steps were done in this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_on: Option<Timestamp>,
    /// When the image was complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_on: Option<Timestamp>,
}

/// Something that went into a build, or came out of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Resource {
    /// Its name: `recipe`, `spack`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// Its digests, by algorithm.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub digest: BTreeMap<String, String>,
    /// What else is known of it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub annotations: Map<String, Value>,
}

impl Builder {
    /// Gives a builder without a name that of its key.
    pub fn name_after(&mut self, key: &PublicKey) {
        if self.id.is_empty() {
            self.id = format!("https://cabane.dev/builder/{}", key.fingerprint());
        }
    }
}

impl Provenance {
    /// Makes a statement about an image; `manifest` is the sha256 of its manifest in a registry.
    #[must_use]
    pub fn statement(&self, subject: (&str, &Digest, Option<&Digest>)) -> Statement {
        // Strings, dates, lists and maps of them are always JSON.
        let predicate = serde_json::to_value(self).unwrap_or_default();
        Statement::new(subject, PROVENANCE, predicate)
    }

    /// Reads what a statement says; `None` if it is about something else or malformed.
    #[must_use]
    pub fn of(statement: &Statement) -> Option<Self> {
        let is_provenance = statement.predicate_type == PROVENANCE;
        is_provenance.then(|| Deserialize::deserialize(&statement.predicate).ok()).flatten()
    }

    /// Whether what is in the image comes from a directory that was packed as it was.
    #[must_use]
    pub fn is_packed_directory(&self) -> bool {
        let recipe = self.build_definition.external_parameters.get("recipe");
        recipe.and_then(|recipe| recipe.get("engine")).is_some_and(|engine| engine == "tree")
    }

    /// Returns the Git repository and the commit of the recipe, if it is an unchanged commit and decides
    /// what is in the image.
    #[must_use]
    pub fn recipe_commit(&self) -> Option<(&str, &str)> {
        if self.is_packed_directory() {
            return None;
        }
        let dependencies = self.build_definition.resolved_dependencies.iter();
        let mut recipes = dependencies.filter(|one| one.name.as_deref() == Some(RECIPE));
        let recipe = recipes.next()?;
        let is_changed = recipe.annotations.get("modified").is_some_and(|it| it != false);
        if is_changed || recipes.next().is_some() {
            return None;
        }
        Some((recipe.uri.as_deref()?, recipe.digest.get("gitCommit")?))
    }

    /// Returns what is shown of it beside test results.
    pub(crate) fn details(&self) -> Details {
        let run = &self.run_details;
        let system = self.build_definition.external_parameters.get("system");
        let version = run.builder.version.get("cabane").cloned();
        let runner = Runner {
            name: if version.is_some() { "cabane".to_owned() } else { run.builder.id.clone() },
            version: version.unwrap_or_default(),
        };
        Details {
            system: system.and_then(Value::as_str).map(str::to_owned),
            started: run.metadata.started_on,
            finished: run.metadata.finished_on,
            runner,
            ..Details::default()
        }
    }
}

/// Whether two addresses are of one Git repository, however it is reached: `git+https://host/path.git`,
/// `ssh://host/path`.
pub(crate) fn is_same_repository(one: &str, other: &str) -> bool {
    fn place(address: &str) -> Option<(String, &str)> {
        let rest = address.split_once("://")?.1;
        let (host, path) = rest.split_once('/')?;
        let path = path.trim_end_matches('/');
        Some((host.to_ascii_lowercase(), path.strip_suffix(".git").unwrap_or(path)))
    }
    let (one, other) = (place(one), place(other));
    one.is_some() && one == other
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn provenance(uri: &str, is_changed: bool) -> Provenance {
        let value = json!({
            "buildDefinition": {
                "buildType": IMAGE_BUILD,
                "externalParameters": {"system": "daint"},
                "resolvedDependencies": [
                    {"name": "recipe", "uri": uri, "digest": {"gitCommit": "c".repeat(40)},
                     "annotations": {"modified": is_changed}},
                ],
            },
            "runDetails": {
                "builder": {"id": "https://example.org/builder"},
                "metadata": {"finishedOn": "2026-11-20T00:00:00Z"},
            },
        });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_statement_is_read_as_it_was_written() {
        let written = provenance("git+https://example.org/recipes", false);
        let image: Digest = "a".repeat(64).parse().unwrap();
        let statement = written.statement(("app", &image, None));
        assert_eq!(Provenance::of(&statement), Some(written));
        assert_eq!(statement.outcome(), None);
        let details = statement.details();
        assert_eq!(details.system.as_deref(), Some("daint"));
        assert_eq!(details.finished.unwrap().to_string(), "2026-11-20T00:00:00Z");
        assert_eq!(details.runner.name, "https://example.org/builder");
    }

    #[test]
    fn a_changed_recipe_has_no_commit() {
        let address = "git+https://example.org/recipes";
        assert_eq!(provenance(address, false).recipe_commit().unwrap().0, address);
        assert_eq!(provenance(address, true).recipe_commit(), None);
        let mut packed = provenance(address, false);
        let recipe = json!({"engine": "tree"});
        packed.build_definition.external_parameters.insert("recipe".to_owned(), recipe);
        assert_eq!(packed.recipe_commit(), None);
        let mut two = provenance(address, false);
        let recipe = two.build_definition.resolved_dependencies[0].clone();
        two.build_definition.resolved_dependencies.push(recipe);
        assert_eq!(two.recipe_commit(), None);
    }

    #[test]
    fn one_repository_has_several_addresses() {
        let address = "git+https://GitHub.com/eth-cscs/alps-uenv.git";
        for other in
            ["https://github.com/eth-cscs/alps-uenv", "ssh://github.com/eth-cscs/alps-uenv/"]
        {
            assert!(is_same_repository(address, other), "{other}");
        }
        for other in
            ["https://github.com/eth-cscs/other", "https://gitlab.com/eth-cscs/alps-uenv", "x"]
        {
            assert!(!is_same_repository(address, other), "{other}");
        }
        assert!(!is_same_repository("x", "x"));
    }
}
