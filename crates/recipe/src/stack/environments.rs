// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `environments.yaml`.

use std::collections::HashMap;

use super::compiler_name::CompilerName;
use super::context::Context;
use super::network;
use super::recipe::{Duplicates, StackEnvironment, Unify};
use super::spec_fields::{SpecItem, Wanted, place_of, specs, texts, texts_of};
use super::written::SpecPurpose;
use super::{format_one, keys, views};
use crate::ask::{Field, Section, each, instead};
use crate::diagnostic::quote;
use crate::node::{Entry, Kind, Node, Place, Scalar, Value};
use crate::recipe::FormatVersion;
use crate::report::Report;
use crate::suggest::nearest;

const EXAMPLE: &str = "begin with an environment:\ntools:\n  compiler: [gcc]\n  \
                       specs: [cmake]\n  views:\n    default:";

pub(super) fn read(
    report: &Report<'_>,
    root: &Node,
    context: &Context<'_>,
) -> Option<Vec<StackEnvironment>> {
    let file = report.file(root, EXAMPLE)?;
    if file.entries.is_empty() {
        report.note(None, "this file has no environments", Some(EXAMPLE));
    }
    let mut view_places = HashMap::new();
    each(file.entries, |entry| environment(report, entry, context, &mut view_places))
}

fn environment(
    report: &Report<'_>,
    entry: &Entry,
    context: &Context<'_>,
    view_places: &mut HashMap<String, Place>,
) -> Option<StackEnvironment> {
    check_name(report, entry, context);
    let section = Field::named(report, "the environment", entry).section()?;
    refuse_unknown(&section, context.format);

    let compilers = compilers(&section, context);
    let network = network::read(&section, context);
    let specs = section.needed("specs", "add what is installed: `specs: [cmake]`", |field| {
        specs(field, Wanted::Package)
    });
    for spec in specs.iter().flatten() {
        spec.note(SpecPurpose::Install);
    }
    if let (Some(specs), Some(compilers)) = (&specs, &compilers) {
        check_compilers_of_specs(report, specs, compilers, context);
    }
    let variants = texts_of(&section, "variants", Wanted::Anything);
    let prefer = section.optional("prefer", |field| texts(field, Wanted::Anything));
    let packages = texts_of(&section, "packages", Wanted::Package);
    remark_packages(&section, context.format);
    let deprecated = section.get("deprecated").map_or(Some(false), |field| field.truth());
    let unify = section.get("unify").map_or(Some(Unify::Yes), |field| unify(&field));
    let duplicates = duplicates(&section);
    let views = views::read(&section, view_places);

    let network = network?;
    Some(StackEnvironment {
        name: entry.key.clone(),
        compilers: compilers?,
        mpi: network.mpi,
        network_specs: network.specs,
        specs: specs?.iter().map(|spec| spec.text.to_owned()).collect(),
        variants: variants?,
        prefer: prefer?.filter(|prefer| !prefer.is_empty()),
        deprecated: deprecated?,
        unify: unify?,
        duplicates: duplicates?,
        packages: packages?,
        views: views?,
    })
}

fn refuse_unknown(section: &Section<'_>, format: FormatVersion) {
    let known = match format {
        FormatVersion::V1 => keys::ENVIRONMENT_ONE.to_vec(),
        FormatVersion::V2 | FormatVersion::V3 => keys::names(keys::ENVIRONMENT),
    };
    section.refuse_unknown(&known, |key| {
        network::elsewhere(key, format).or_else(|| match key {
            "view" => instead("did you mean `views`?"),
            "strategy" => instead("write `duplicates: {strategy: …}`"),
            "link" | "uenv" | "exclude" | "select" | "projections" => {
                instead("it belongs to a view: below `views:` and the name of the view")
            }
            _ => None,
        })
    });
}

/// Checks the name of an environment, which becomes that of a group of specs.
fn check_name(report: &Report<'_>, entry: &Entry, context: &Context<'_>) {
    let name = entry.key.as_str();
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        || !name.chars().all(is_word)
    {
        let message = format!("{} is not the name of an environment", quote(name));
        let hint = "such a name has letters, digits, `_`, `-`, and `.`";
        return report.problem_with_hint(entry.key_place, &message, hint);
    }
    let is_built = |compiler| {
        let file = context.compilers;
        file.is_some_and(|file| file.request(compiler).is_some())
    };
    if CompilerName::of(name).is_some_and(is_built) {
        let message = format!("the name `{name}` is taken: it means the compiler");
        let hint = format!("write `{name}-env:`");
        report.problem_with_hint(entry.key_place, &message, &hint);
    }
}

/// Reads the compilers of an environment: at least one, each in compilers.yaml.
fn compilers(section: &Section<'_>, context: &Context<'_>) -> Option<Vec<CompilerName>> {
    let field = section.require("compiler", "add its compilers: `compiler: [gcc]`")?;
    let items = field.list()?;
    if items.is_empty() {
        let message = "an environment needs a compiler";
        return field.refuse(message, "write `compiler: [gcc]`");
    }
    let mut compilers: Vec<CompilerName> = Vec::new();
    let mut is_right = true;
    for item in items {
        match compiler(section.report, item, context) {
            Some(name) if !compilers.contains(&name) => compilers.push(name),
            Some(_) => {}
            None => is_right = false,
        }
    }
    is_right.then_some(compilers)
}

fn compiler(report: &Report<'_>, item: &Node, context: &Context<'_>) -> Option<CompilerName> {
    let name = match context.format {
        FormatVersion::V1 => format_one::compiler(report, item)?,
        FormatVersion::V2 | FormatVersion::V3 => named_compiler(report, item)?,
    };
    let Some(file) = context.compilers else {
        return Some(name);
    };
    if file.has(name) {
        return Some(name);
    }
    let package = name.package();
    let message = format!("compilers.yaml does not have `{package}`");
    let known: Vec<&str> = file.sources.keys().map(|name| name.package()).collect();
    let hint =
        format!("add it there, or use what it has: {}", cabane_label::enumerate(&known, "and"));
    report.refuse(item.place, &message, hint.as_str())
}

fn named_compiler(report: &Report<'_>, item: &Node) -> Option<CompilerName> {
    let field = Field::item(report, "a compiler", item);
    if let Value::Section(entries) = &item.value
        && entries.iter().any(|entry| entry.key == "toolchain")
    {
        let hint = "write their names: `compiler: [gcc]`";
        return field.wrong_type("a name", Some(hint));
    }
    let text = field.text()?;
    if let Some(name) = CompilerName::of(text) {
        return Some(name);
    }
    let known: Vec<&str> = CompilerName::all().map(CompilerName::package).collect();
    let bare = text.split('@').next().unwrap_or_default();
    let meant = CompilerName::of_spec(bare).map(CompilerName::package);
    let (message, hint) = match meant.or_else(|| nearest(bare, &known)) {
        Some(meant) if bare == meant => (
            "the version of a compiler belongs in compilers.yaml alone".to_owned(),
            format!("write `{meant}`"),
        ),
        Some(meant) => {
            (format!("there is no compiler {}", quote(text)), format!("write `{meant}`"))
        }
        None => (
            format!("there is no compiler {}", quote(text)),
            format!("the compilers are {}", cabane_label::enumerate(&known, "and")),
        ),
    };
    field.refuse(&message, hint.as_str())
}

/// Checks that specs ask for no compiler that the environment does not have.
fn check_compilers_of_specs(
    report: &Report<'_>,
    specs: &[SpecItem<'_>],
    compilers: &[CompilerName],
    context: &Context<'_>,
) {
    for spec in specs {
        for found in &spec.parts.built_with {
            let Some(compiler) = CompilerName::of_spec(&found.name) else {
                continue;
            };
            if compilers.contains(&compiler) {
                continue;
            }
            let is_listed = context.compilers.is_some_and(|file| file.has(compiler));
            if compiler.is_rare() && !is_listed {
                continue;
            }
            let place = place_of(&spec.field, found.place.clone());
            let package = compiler.package();
            let has = context.compilers.is_none_or(|file| file.has(compiler));
            let message = format!("the environment does not have the compiler `{}`", found.name);
            let mut names: Vec<&str> = compilers.iter().map(|name| name.package()).collect();
            names.push(package);
            let list = names.join(", ");
            let hint = if has {
                format!("write `compiler: [{list}]`, or remove it here")
            } else {
                format!("add `{package}:` to compilers.yaml and write `compiler: [{list}]`")
            };
            // llvm is a library as well, on which packages depend.
            if compiler == CompilerName::LLVM && !found.is_compiler {
                report.remark(place, &message, &hint);
            } else {
                report.problem_with_hint(place, &message, &hint);
            }
        }
    }
}

fn remark_packages(section: &Section<'_>, format: FormatVersion) {
    if format == FormatVersion::V3
        && let Some(field) = section.given("packages")
    {
        section.report.remark(
            field.key_place,
            "`packages` means nothing in format 3",
            "describe packages of the system in packages.yaml, of the recipe or of the system",
        );
    }
}

fn unify(field: &Field<'_>) -> Option<Unify> {
    if let Value::Scalar(Scalar { text, kind: Kind::Boolean }) = &field.node.value {
        return Some(if text.eq_ignore_ascii_case("true") { Unify::Yes } else { Unify::No });
    }
    field.choice(&[
        ("true", Unify::Yes),
        ("false", Unify::No),
        ("when_possible", Unify::WhenPossible),
    ])
}

fn duplicates(section: &Section<'_>) -> Option<Duplicates> {
    let Some(field) = section.given("duplicates") else {
        return Some(Duplicates::default());
    };
    let section = field.section_with(&["strategy"])?;
    let field = section.require("strategy", "write `strategy: full`")?;
    field.choice(&[
        ("minimal", Duplicates::Minimal),
        ("full", Duplicates::Full),
        ("none", Duplicates::None),
    ])
}
