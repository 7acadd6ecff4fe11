// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The views of an environment.

use std::collections::HashMap;

use cabane_view::ViewName;

use super::keys;
use super::recipe::{Link, StackView};
use super::spec_fields::{Wanted, specs};
use super::value::YamlMap;
use super::written::SpecPurpose;
use crate::ask::{Field, Section, each, instead};
use crate::config::{PATH_LISTS, env_vars, view_name};
use crate::diagnostic::quote;
use crate::node::{Entry, Place};
use crate::recipe::EnvVars;
use crate::report::Report;
use crate::suggest::suggestion;

/// Reads the views of an environment; `None` if any of them is wrong.
pub(super) fn read(
    environment: &Section<'_>,
    places: &mut HashMap<String, Place>,
) -> Option<Vec<StackView>> {
    environment.chosen("views", |report, entry| view(report, entry, places))
}

fn view(
    report: &Report<'_>,
    entry: &Entry,
    places: &mut HashMap<String, Place>,
) -> Option<StackView> {
    let name = name(report, entry, places);
    let section = Field::named(report, "the view", entry).section()?;
    let in_uenv = keys::names(keys::VIEW_UENV);
    section.refuse_unknown(&keys::names(keys::VIEW), |key| match key {
        "root" | "group" => instead("remove it: the view has its place already"),
        "set" | "prepend_path" | "append_path" => {
            instead("it belongs in `uenv:` and there in `env_vars:`")
        }
        key if in_uenv.contains(&key) => instead("it belongs in `uenv:`, indented by two spaces"),
        _ => None,
    });
    let link = section.given_or("link", Link::default(), |field| field.choice(LINKS));
    let select = chosen(&section, "select");
    let exclude = chosen(&section, "exclude");
    let projections = projections(&section);
    let uenv = uenv(&section);
    let uenv = uenv?;
    Some(StackView {
        name: name?,
        link: link?,
        select: select?,
        exclude: exclude?,
        projections: projections?,
        add_compilers: uenv.add_compilers,
        prefix_paths: uenv.prefix_paths,
        env_vars: uenv.env_vars,
    })
}

/// Reads specs that choose among what is installed.
fn chosen(section: &Section<'_>, key: &str) -> Option<Vec<String>> {
    let Some(field) = section.given(key) else {
        return Some(Vec::new());
    };
    let specs = specs(&field, Wanted::Anything)?;
    for spec in &specs {
        spec.note(SpecPurpose::Choose);
    }
    Some(specs.iter().map(|spec| spec.text.to_owned()).collect())
}

const LINKS: &[(&str, Link)] = &[("roots", Link::Roots), ("all", Link::All), ("run", Link::Run)];

/// Reads the name of a view, which no other view of the recipe has.
fn name(
    report: &Report<'_>,
    entry: &Entry,
    places: &mut HashMap<String, Place>,
) -> Option<ViewName> {
    let name = view_name(report, entry)?;
    if matches!(name.as_str(), "modules" | "spack") {
        let message = format!("the name `{name}` is taken: such a view is made by itself");
        return report.refuse(entry.key_place, &message, "give the view another name");
    }
    if let Some(first) = places.get(name.as_str()) {
        let line = report.source.line_number(first.start);
        let message = format!("another view has the name `{name}`");
        let hint = format!("rename one of the two; the other is in line {line}");
        return report.refuse(entry.key_place, &message, hint.as_str());
    }
    places.insert(entry.key.clone(), entry.key_place);
    Some(name)
}

fn projections(section: &Section<'_>) -> Option<YamlMap> {
    section.chosen("projections", |_, entry| {
        Some((entry.key.as_str(), Field::of(section.report, entry).text()?.into()))
    })
}

struct Uenv {
    add_compilers: bool,
    prefix_paths: Vec<(String, Vec<String>)>,
    env_vars: EnvVars,
}

fn uenv(view: &Section<'_>) -> Option<Uenv> {
    let section = view.inner("uenv")?;
    section.refuse_unknown(&keys::names(keys::VIEW_UENV), |key| match key {
        "set" | "prepend_path" | "append_path" => {
            instead("it belongs in `env_vars:`, indented by two spaces")
        }
        "link" | "select" | "exclude" | "projections" => {
            instead("it belongs to the view, not below `uenv:`")
        }
        _ => None,
    });
    let add_compilers = section.get("add_compilers").map_or(Some(true), |field| field.truth());
    let prefix_paths = section.given_or("prefix_paths", Vec::new(), prefix_paths);
    let env_vars = section.given_or("env_vars", EnvVars::default(), env_vars::read_for_lists);
    Some(Uenv { add_compilers: add_compilers?, prefix_paths: prefix_paths?, env_vars: env_vars? })
}

/// Reads which directories of the view are put into which variables.
fn prefix_paths(field: &Field<'_>) -> Option<Vec<(String, Vec<String>)>> {
    let section = field.section()?;
    each(section.entries, |entry| {
        let is_known = check_list_variable(field.report, entry);
        let paths = Field::of(field.report, entry).items("a directory of the view")?;
        let paths = each(paths, |item| prefix_path(&item))?;
        is_known.then(|| (entry.key.clone(), paths))
    })
}

fn prefix_path(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    if text.is_empty() || text.starts_with('/') || text.split('/').any(|part| part == "..") {
        let message = "a directory of the view is written without `/` at the beginning";
        return field.refuse(message, "write one such as `lib64`");
    }
    if let Some(at) = text.find([':', ',', '=']) {
        let place = field.place_within(at);
        let message = "a directory of the view cannot contain `:`, `,`, or `=`";
        return field.report.refuse(place, message, "write an item for each directory");
    }
    Some(text.to_owned())
}

/// Checks that a variable is one that holds a list of paths.
fn check_list_variable(report: &Report<'_>, entry: &Entry) -> bool {
    if PATH_LISTS.contains(&entry.key.as_str()) {
        return true;
    }
    let message = format!("{} is not known as a list of paths", quote(&entry.key));
    let hint = suggestion(&entry.key, PATH_LISTS, "such variables are");
    report.problem_with_hint(entry.key_place, &message, &hint);
    false
}
