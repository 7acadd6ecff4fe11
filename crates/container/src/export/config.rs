// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a container image says about itself: a configuration of theirs, out of metadata of
//! ours.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use cabane_label::Digest;
use cabane_view::{Change, Container, EnvPatch, is_variable_name};
use serde_json::{Map, Value, json};

use crate::metadata::PATH;
use crate::{Platform, digest};

/// What is reported of an image.
#[derive(Clone, Debug)]
pub struct About<'a> {
    /// For which platform it is.
    pub platform: Platform,
    /// When it was made, as RFC 3339 has it.
    pub created: String,
    /// The configuration of what it is on, or an empty one. What is not set here stays.
    pub base: &'a Value,
    /// The variables, `NAME=value`.
    pub variables: Vec<String>,
    /// Labels, which are added to those of the base.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the manifest.
    pub annotations: BTreeMap<String, String>,
}

/// Variables as a container has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables {
    /// All of them, `NAME=value`: those of the base first, in its order.
    pub texts: Vec<String>,
    /// Names of those that depend on variables of the user who starts the image, and of those that
    /// are not text. They are left out.
    pub left_out: Vec<String>,
}

/// Returns what a root image says about itself as a configuration.
#[must_use]
pub fn config_of(container: &Container) -> Value {
    let mut run = object(&json!({
        "Entrypoint": container.entrypoint,
        "Cmd": container.command,
        "WorkingDir": container.working_directory,
        "User": container.user,
        "Labels": container.labels,
    }));
    let nothing = [Value::Null, json!([]), json!({})];
    run.retain(|_, value| !nothing.contains(value));
    json!({ "config": run })
}

/// Applies a patch to the variables of a configuration.
#[must_use]
pub fn variables_of(base: &Value, patch: &EnvPatch) -> Variables {
    let listed = base.pointer("/config/Env").and_then(Value::as_array);
    let texts = listed.into_iter().flatten().filter_map(Value::as_str);
    let mut order: Vec<OsString> = Vec::new();
    let mut before: BTreeMap<OsString, OsString> = BTreeMap::new();
    let usual = format!("PATH={PATH}");
    for text in texts.chain(std::iter::once(usual.as_str())) {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        if is_variable_name(name) && !before.contains_key(OsStr::new(name)) {
            order.push(name.into());
            before.insert(name.into(), value.into());
        }
    }
    let mut variables = Variables::default();
    let mut after = patch.apply(&before);
    for (name, changes) in patch.iter() {
        if changes.iter().any(depends_on_the_caller) {
            after.remove(OsStr::new(name));
            variables.left_out.push(name.to_owned());
        }
        if !order.iter().any(|known| known == name) {
            order.push(name.into());
        }
    }
    for name in order {
        let Some(value) = after.get(&name) else {
            continue;
        };
        match (name.to_str(), value.to_str()) {
            (Some(name), Some(value)) => variables.texts.push(format!("{name}={value}")),
            _ => variables.left_out.push(name.to_string_lossy().into_owned()),
        }
    }
    variables
}

/// Whether a change takes something from the variables of the user who starts the image: no one
/// knows these when the image is made.
fn depends_on_the_caller(change: &Change) -> bool {
    let takes = |text: &String| text.contains("${@") && text.contains("@}");
    match change {
        Change::Set(text) => takes(text),
        Change::List { values, .. } => values.iter().any(takes),
        Change::Unset => false,
    }
}

impl About<'_> {
    /// Writes the configuration.
    pub(super) fn document<'l>(
        &self,
        diff_ids: impl Iterator<Item = &'l Digest>,
        comments: impl Iterator<Item = Option<&'l str>>,
    ) -> Vec<u8> {
        let mut whole = object(self.base);
        let mut run = whole.get("config").map(object).unwrap_or_default();
        run.insert("Env".to_owned(), json!(self.variables));
        let mut labels = run.get("Labels").map(object).unwrap_or_default();
        for (key, text) in &self.labels {
            labels.insert(key.clone(), json!(text));
        }
        if !labels.is_empty() {
            run.insert("Labels".to_owned(), Value::Object(labels));
        }
        // An identifier of the base, and an old copy of what is above.
        for key in ["container", "container_config", "id", "parent"] {
            whole.remove(key);
        }
        let diff_ids: Vec<String> = diff_ids.map(digest::written).collect();
        let history = self.history(whole.get("history"), comments);
        let fields = [
            ("os", json!(self.platform.os)),
            ("architecture", json!(self.platform.architecture)),
            ("created", json!(self.created)),
            ("config", Value::Object(run)),
            ("history", Value::Array(history)),
            ("rootfs", json!({"type": "layers", "diff_ids": diff_ids})),
        ];
        for (key, value) in fields {
            whole.insert(key.to_owned(), value);
        }
        match &self.platform.variant {
            Some(variant) => whole.insert("variant".to_owned(), json!(variant)),
            None => whole.remove("variant"),
        };
        // What was JSON is JSON.
        serde_json::to_vec(&Value::Object(whole)).unwrap_or_default()
    }

    /// Each layer has its line, as some programs insist; for layers of a base without a history
    /// it says no more than that.
    fn history<'l>(
        &self,
        before: Option<&Value>,
        comments: impl Iterator<Item = Option<&'l str>>,
    ) -> Vec<Value> {
        let before = before.and_then(Value::as_array).cloned();
        let mut history = before.unwrap_or_default();
        let is_layer =
            |line: &&Value| line.get("empty_layer").and_then(Value::as_bool) != Some(true);
        let comments: Vec<Option<&str>> = comments.collect();
        let kept = comments.iter().filter(|one| one.is_none()).count();
        if history.iter().filter(is_layer).count() != kept {
            history = vec![json!({"created_by": "the base"}); kept];
        }
        for comment in comments.into_iter().flatten() {
            history.push(json!({"created": self.created, "created_by": comment}));
        }
        history
    }
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cabane_view::ListOperation;

    #[test]
    fn views_add_to_the_variables_of_the_base() {
        let base = json!({"config": {"Env": ["B=1", "PATH=/bin", "A=2"]}});
        let mut patch = EnvPatch::new();
        let list = |values: &[&str]| Change::List {
            operation: ListOperation::Prepend,
            values: values.iter().map(|one| (*one).to_owned()).collect(),
        };
        patch.push("NEW", Change::Set("x=y".to_owned()));
        patch.push("PATH", list(&["/user-environment/bin"]));
        patch.push("A", Change::Unset);
        patch.push("CACHE", Change::Set("${@HOME@}/cache".to_owned()));
        let variables = variables_of(&base, &patch);
        assert_eq!(variables.texts, ["B=1", "PATH=/user-environment/bin:/bin", "NEW=x=y"]);
        assert_eq!(variables.left_out, ["CACHE"]);
    }

    #[test]
    fn programs_are_found_without_a_base_that_says_where() {
        let variables = variables_of(&json!({}), &EnvPatch::new());
        assert_eq!(variables.texts, [format!("PATH={PATH}")]);
    }

    #[test]
    fn what_the_base_says_stays_and_each_layer_has_its_line() {
        let base = json!({
            "id": "old",
            "config": {"Cmd": ["sh"], "Labels": {"a": "1", "b": "2"}},
            "history": [{"created_by": "x"}, {"created_by": "env", "empty_layer": true}],
        });
        let about = About {
            platform: "linux/arm64/v8".parse().unwrap(),
            created: "1980-01-01T00:00:00Z".to_owned(),
            base: &base,
            variables: vec!["A=1".to_owned()],
            labels: BTreeMap::from([("b".to_owned(), "3".to_owned())]),
            annotations: BTreeMap::new(),
        };
        let id = digest::of(b"");
        let bytes = about.document([&id, &id].into_iter(), [None, Some("new")].into_iter());
        let seen: Value = serde_json::from_slice(&bytes).unwrap();
        let expected = json!({
            "architecture": "arm64", "os": "linux", "variant": "v8",
            "created": "1980-01-01T00:00:00Z",
            "config": {"Cmd": ["sh"], "Env": ["A=1"], "Labels": {"a": "1", "b": "3"}},
            "history": [
                {"created_by": "x"}, {"created_by": "env", "empty_layer": true},
                {"created": "1980-01-01T00:00:00Z", "created_by": "new"},
            ],
            "rootfs": {"type": "layers", "diff_ids": vec![digest::written(&id); 2]},
        });
        assert_eq!(seen, expected);
    }
}
