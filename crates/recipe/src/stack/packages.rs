// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `packages.yaml`, of a recipe or of a system: its shape is checked, the rest
//! is Spack's.

use super::keys;
use super::spec;
use super::spec_fields::{self, SpecItem, Wanted};
use super::value::YamlMap;
use super::written::{SpecPurpose, WrittenSpec, WrittenWord};
use crate::ask::{Field, Section, instead};
use crate::diagnostic::quote;
use crate::node::{Entry, Node, Value};
use crate::report::Report;
use crate::suggest::suggestion;

const EXAMPLE: &str = "begin with packages and what holds for them:\npackages:\n  hdf5:\n    \
                       require: [+mpi]";

/// What Spack knows to say about a package.
const PACKAGE_KEYS: &[&str] = &[
    "buildable",
    "compiler",
    "conflict",
    "externals",
    "package_attributes",
    "permissions",
    "prefer",
    "providers",
    "require",
    "target",
    "variants",
    "version",
];

/// Reads a whole file.
pub(super) fn read(report: &Report<'_>, root: &Node) -> Option<YamlMap> {
    let file = report.file(root, EXAMPLE)?;
    file.refuse_unknown(&keys::names(keys::PACKAGES), |_| {
        instead("packages belong below `packages:`, indented by two spaces")
    });
    let field = file.require("packages", EXAMPLE)?;
    section(&field)
}

/// Reads packages with what holds for them.
pub(super) fn section(field: &Field<'_>) -> Option<YamlMap> {
    let section = field.section()?;
    for entry in section.entries {
        package(field.report, entry);
        if entry.key != "all" {
            // With a colon at its end, a key replaces what others say.
            field.report.note_spec(WrittenSpec::naming(name_of(entry), None));
        }
        note_specs(field.report, entry);
    }
    Some(YamlMap::of(section.entries))
}

/// Keeps the specs of the settings of a package, for looking up what they name. What Spack would
/// not read is left out.
fn note_specs(report: &Report<'_>, package: &Entry) {
    let Value::Section(settings) = &package.value.value else {
        return;
    };
    for setting in settings {
        match setting.key.trim_end_matches(':') {
            "require" | "prefer" | "variants" | "conflict" => {
                note_rule(report, package, &setting.value);
            }
            "version" if package.key != "all" => note_versions(report, package, &setting.value),
            _ => {}
        }
    }
}

/// The package that settings are for.
fn name_of(package: &Entry) -> WrittenWord {
    let text = package.key.trim_end_matches(':').to_owned();
    WrittenWord { text, place: package.key_place.into() }
}

/// Keeps the versions that are preferred.
fn note_versions(report: &Report<'_>, package: &Entry, versions: &Node) {
    match &versions.value {
        Value::Scalar(scalar) => {
            let field = Field::item(report, "a version", versions);
            // Spack accepts the sign before a version as well.
            let text = scalar.text.trim_start_matches('@');
            let place = field.place_within(scalar.text.len() - text.len());
            let version = WrittenWord { text: text.to_owned(), place: place.into() };
            report.note_spec(WrittenSpec::naming(name_of(package), Some(version)));
        }
        Value::List(all) => all.iter().for_each(|one| note_versions(report, package, one)),
        Value::Section(_) | Value::Null => {}
    }
}

/// Keeps the specs of a rule: a spec, a list of rules, or a section with alternatives.
fn note_rule(report: &Report<'_>, package: &Entry, rule: &Node) {
    match &rule.value {
        Value::Scalar(scalar) => {
            let field = Field::item(report, "a spec", rule);
            if let Ok(parts) = spec::read(&scalar.text) {
                let item = SpecItem { field, text: &scalar.text, parts };
                item.note_for(&name_of(package));
            }
        }
        Value::List(rules) => rules.iter().for_each(|rule| note_rule(report, package, rule)),
        Value::Section(entries) => {
            let alternatives = ["spec", "any_of", "one_of"];
            for entry in entries.iter().filter(|one| alternatives.contains(&one.key.as_str())) {
                note_rule(report, package, &entry.value);
            }
        }
        Value::Null => {}
    }
}

fn package(report: &Report<'_>, entry: &Entry) -> Option<()> {
    let field = Field::named(report, "the package", entry);
    let section = field.section()?;
    for entry in section.entries {
        // With a colon at its end, a key replaces what others say.
        let key = entry.key.trim_end_matches(':');
        if !PACKAGE_KEYS.contains(&key) {
            let message = format!("unknown key {} in {}", quote(key), field.name);
            let hint = suggestion(key, PACKAGE_KEYS, "the keys here are");
            report.problem_with_hint(entry.key_place, &message, &hint);
        }
    }
    if let Some(buildable) = section.given("buildable") {
        // YAML 1.1 has other words for it, which recipes use.
        let is_word = Field::of(report, section.entries.iter().find(|e| e.key == "buildable")?);
        let text = matches!(&is_word.node.value, crate::node::Value::Scalar(s)
            if matches!(s.text.to_ascii_lowercase().as_str(), "yes" | "no" | "on" | "off"));
        if !text {
            buildable.truth();
        }
    }
    let externals = section.given("externals")?;
    for item in externals.list()? {
        external(report, item);
    }
    Some(())
}

fn external(report: &Report<'_>, item: &Node) -> Option<()> {
    let field = Field::item(report, "an external package", item);
    let section = field.section()?;
    let hint = "add what it is: `spec: hdf5@1.14`";
    let field = require(&section, item, "spec", hint)?;
    spec_fields::spec(field, Wanted::Package)?.note(SpecPurpose::External);
    if section.get("modules").is_none() {
        let hint = "add its directory: `prefix: /usr`";
        let prefix = require(&section, item, "prefix", hint)?;
        prefix.text()?;
    }
    Some(())
}

/// Returns a value of an item that must be there.
fn require<'n>(section: &Section<'n>, item: &Node, key: &str, hint: &str) -> Option<Field<'n>> {
    let found = section.given(key);
    if found.is_none() {
        let message = format!("this external package has no `{key}`");
        section.report.problem_with_hint(item.place, &message, hint);
    }
    found
}
