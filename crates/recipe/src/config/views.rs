// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The section `views:` of recipes whose engine leaves the views to them.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use cabane_label::ParseError;
use cabane_view::ViewName;

use super::{description, env_vars};
use crate::ask::{Field, Section, each, instead, similar_word};
use crate::node::{Entry, Value};
use crate::recipe::{EnvVars, ModuleView, ViewRecipe};
use crate::report::Report;

const KEYS: &[&str] = &["description", "env_vars"];
/// The keys of views that come from module files.
const MODULE_KEYS: &[&str] = &["description", "env_vars", "modules", "modulepath"];
/// Where EasyBuild has all module files.
const MODULE_PATH: &str = "modules/all";

/// Reads all views; `None` if any of them is wrong. `has_modules` tells whether they can come from
/// module files.
pub(super) fn read(
    file: &Section<'_>,
    has_modules: bool,
) -> Option<BTreeMap<ViewName, ViewRecipe>> {
    file.chosen("views", |report, entry| view(report, entry, has_modules))
}

/// Reads the name of a view, which is a key.
pub(crate) fn view_name(report: &Report<'_>, entry: &Entry) -> Option<ViewName> {
    let noted = |error: ParseError| {
        let hint = similar_word::<ViewName>(&entry.key).map(|word| format!("write `{word}:`"));
        report.note(Some(entry.key_place), &error.to_string(), hint.as_deref());
    };
    entry.key.parse().map_err(noted).ok()
}

fn view(report: &Report<'_>, entry: &Entry, has_modules: bool) -> Option<(ViewName, ViewRecipe)> {
    let name = view_name(report, entry);
    let section = Field::named(report, "the view", entry).section()?;
    let keys = if has_modules { MODULE_KEYS } else { KEYS };
    section.refuse_unknown(keys, |key| match key {
        "uenv" => instead("write `env_vars:` directly below the view"),
        "set" | "prepend_path" | "append_path" => {
            instead("it belongs in `env_vars:`, indented by two spaces")
        }
        "link" | "select" | "exclude" | "projections" => {
            instead("only the views of Spack recipes have it: remove it")
        }
        "modules" | "modulepath" => instead(
            "only views of the engines `easybuild` and `tree` come from module files: remove it",
        ),
        "load" => instead("write `modules: [NAME/VERSION]`"),
        _ => None,
    });
    let description = description(&section);
    let env_vars = section.given_or("env_vars", EnvVars::default(), env_vars::read);
    let modules = if has_modules { modules(&section) } else { Some(None) };
    Some((name?, ViewRecipe { description, modules: modules?, env_vars: env_vars? }))
}

/// Reads what a view loads. `None` if it is wrong; nothing if it loads no modules.
#[expect(clippy::option_option, reason = "missing is right, wrong is not")]
fn modules(section: &Section<'_>) -> Option<Option<ModuleView>> {
    let Some(field) = section.given("modules") else {
        if let Some(path) = section.get("modulepath") {
            let message = "`modulepath` is given, but no modules";
            let hint = "add what is loaded: `modules: [NAME/VERSION]`";
            section.report.problem_with_hint(path.key_place, message, hint);
            return None;
        }
        return Some(None);
    };
    let load: Option<Vec<String>> =
        each(field.list()?, |item| module(&Field::item(field.report, "the module", item)));
    let paths = match section.given("modulepath") {
        None => Some(vec![PathBuf::from(MODULE_PATH)]),
        Some(one) if matches!(one.node.value, Value::Scalar(_)) => {
            module_path(&one).map(|path| vec![path])
        }
        Some(list) => each(list.list()?, |item| {
            module_path(&Field::item(list.report, "the path of modules", item))
        }),
    };
    let (load, path) = (load?, paths?);
    if load.is_empty() || path.is_empty() {
        let hint = "write `modules: [NAME/VERSION]`, or remove the key";
        return field.refuse("a list of modules is empty", hint);
    }
    Some(Some(ModuleView { load, path }))
}

/// Reads the name of a module. It becomes an argument of the module command.
fn module(field: &Field<'_>) -> Option<String> {
    let is_right = |text: &str| {
        let is_odd = |c: char| c.is_whitespace() || c.is_control();
        !text.is_empty() && !text.starts_with(['-', '/']) && !text.contains(is_odd)
    };
    field.text_if(is_right, "is not the name of a module", "write it as `NAME/VERSION`")
}

/// Reads a path in the tree.
fn module_path(field: &Field<'_>) -> Option<PathBuf> {
    let is_right = |text: &str| {
        let is_normal = |part: Component<'_>| matches!(part, Component::Normal(_));
        let has_odd = text.contains(|c: char| c.is_control() || c == ':');
        !text.is_empty() && !has_odd && Path::new(text).components().all(is_normal)
    };
    let hint = "write a path that is relative to the tree, such as `modulepath: modules/all`";
    field.text_if(is_right, "is not a directory in the tree", hint).map(PathBuf::from)
}
