// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `compilers.yaml`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::compiler_name::CompilerName;
use super::recipe::{CompilerRequest, CompilerSource, Compilers};
use super::spec_fields::{SpecItem, Wanted, spec};
use super::system::SystemConfig;
use super::value::{Yaml, YamlMap};
use super::written::{SpecPurpose, WrittenPackage, WrittenSpec, WrittenWord};
use super::{format_one, keys};
use crate::ask::{Field, Section, each, instead};
use crate::diagnostic::quote;
use crate::node::Node;
use crate::recipe::FormatVersion;
use crate::report::Report;

const EXAMPLE: &str = "begin with the version of gcc:\ngcc:\n  version: \"14\"";

pub(super) fn read(report: &Report<'_>, root: &Node, format: FormatVersion) -> Option<Compilers> {
    let file = report.file(root, EXAMPLE)?;
    if format == FormatVersion::V1 {
        return format_one::compilers(&file);
    }
    let has_bootstrap = file.get("bootstrap").is_some();
    file.refuse_unknown(&keys::names(keys::COMPILERS), |key| match key {
        "bootstrap" => Some((
            Some("`bootstrap` is of format 1, but this recipe is of a later one".to_owned()),
            "remove it: gcc is built by the compiler of the system".to_owned(),
        )),
        "intel" | "oneapi" | "intel-oneapi" => instead("did you mean `intel-oneapi-compilers`?"),
        _ => None,
    });
    let gcc = file.needed("gcc", EXAMPLE, |field| {
        refuse_specs(field, has_bootstrap)?;
        source(field, CompilerName::GCC)
    });
    let others = CompilerName::all().skip(1);
    let others: Vec<_> =
        others.filter_map(|name| Some((name, file.given(name.package())?))).collect();
    let others = each(&others, |(name, field)| Some((*name, source(field, *name)?)));
    let mut sources: BTreeMap<_, _> = others?;
    sources.insert(CompilerName::GCC, gcc?);
    Some(Compilers { sources })
}

/// Reports compilers that cannot come from where the recipe takes them: those that are built
/// although the system forbids it, and those of the system that its packages.yaml does not
/// describe. Spack says so as well, in many lines, and after a minute.
pub(super) fn refuse_unavailable(
    report: &Report<'_>,
    root: &Node,
    compilers: &Compilers,
    system: &SystemConfig,
    packages: &YamlMap,
) {
    let Some(file) = report.file(root, EXAMPLE) else {
        return;
    };
    for (name, source) in &compilers.sources {
        let package = name.package();
        // What comes later replaces the whole of what was reported before.
        let described = [packages, &system.network_packages, &system.packages];
        let last = described.into_iter().find_map(|map| map.get(package));
        // Toolchains of format 1 have other keys than their compilers.
        let Some(field) = file.given(package).or_else(|| file.given("llvm")) else {
            continue;
        };
        if *source == CompilerSource::System {
            // Without gcc, the system itself is reported.
            if *name != CompilerName::GCC && !last.is_some_and(|entry| has_programs(entry, *name)) {
                let message = format!(
                    "packages.yaml of the system does not describe the compilers of {package}"
                );
                report.problem_with_hint(field.key_place, &message, &external_example(*name));
            }
            continue;
        }
        let buildable = last.and_then(|entry| entry.at(&["buildable"]));
        if buildable == Some(&Yaml::Bool(false)) {
            let message =
                format!("{package} is to be built, but the system says `buildable: false` for it");
            let hint = "remove that line from its packages.yaml, or write here `version: system`";
            report.problem_with_hint(field.key_place, &message, hint);
        }
    }
}

/// Tells whether the settings of a compiler's package say which programs compile.
fn has_programs(package: &Yaml, name: CompilerName) -> bool {
    let externals = package.at(&["externals"]).and_then(Yaml::as_list).unwrap_or_default();
    let says = |external: &Yaml, language| {
        external.at(&["extra_attributes", "compilers", language]).is_some()
    };
    externals.iter().any(|one| name.programs().any(|(language, _)| says(one, language)))
}

/// Shows how a system describes a compiler.
fn external_example(name: CompilerName) -> String {
    let package = name.package();
    let programs: Vec<String> =
        name.programs().map(|(language, program)| format!("{language}: …/bin/{program}")).collect();
    format!(
        "describe it below `packages:` such as\n  {package}:\n    externals:\n    \
         - spec: {package}@…\n      prefix: …\n      extra_attributes:\n        \
         compilers: {{{}}}",
        programs.join(", ")
    )
}

fn refuse_specs(field: &Field<'_>, has_bootstrap: bool) -> Option<()> {
    if has_bootstrap && field.section()?.get("specs").is_some() {
        let hint =
            "write `version: 1` into config.yaml, or here `version:` with the version of gcc";
        let message = "`specs` is of format 1, but this recipe is of a later one";
        return field.report.refuse(field.key_place, message, hint);
    }
    Some(())
}

fn source(field: &Field<'_>, name: CompilerName) -> Option<CompilerSource> {
    let request = request(field, name)?;
    if request.version != "system" {
        return Some(CompilerSource::Built(request));
    }
    if request.spec.is_some()
        && let Some(spec) = field.section()?.get("spec")
    {
        field.report.remark(
            spec.key_place,
            "`spec` means nothing with `version: system`",
            "remove it",
        );
    }
    Some(CompilerSource::System)
}

fn request(field: &Field<'_>, name: CompilerName) -> Option<CompilerRequest> {
    let section = field.section()?;
    section.refuse_unknown(&["version", "spec"], |key| {
        (key == "variants").then(|| (None, "write variants behind `spec:`".to_owned()))
    });
    let package = name.package();
    let version_example = if name.can_be_built() { "\"14\"" } else { "system" };
    let hint = format!("add the version of {package}: `version: {version_example}`");
    let version = section.needed("version", &hint, |field| version(field, name));
    let item = spec_of(&section)?;
    note(field, &section, name, item.as_ref());
    let spec = item.map(|item| item.text.to_owned());
    Some(CompilerRequest { version: version?, spec })
}

/// Keeps the spec of a compiler with the places of its words.
fn note(field: &Field<'_>, section: &Section<'_>, name: CompilerName, spec: Option<&SpecItem<'_>>) {
    let version = section.given("version");
    let version = version.and_then(|field| Some((field.text()?.to_owned(), field.place())));
    let version = version.map(|(text, place)| WrittenWord { text, place: place.into() });
    if version.as_ref().is_some_and(|version| version.text == "system") {
        return;
    }
    let package = WrittenPackage {
        name: WrittenWord { text: name.package().to_owned(), place: field.key_place.into() },
        is_direct: false,
        version,
        variants: spec.map(SpecItem::variants).unwrap_or_default(),
    };
    let file = PathBuf::new();
    let purpose = SpecPurpose::Install;
    section.report.note_spec(WrittenSpec { file, purpose, packages: vec![package] });
}

/// Reads a version, which is put behind `@` as it is.
pub(super) fn version(field: &Field<'_>, name: CompilerName) -> Option<String> {
    let text = field.text()?;
    let is_version = |c: char| c.is_ascii_alphanumeric() || "._-:=,".contains(c);
    if text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '=')
        && text.chars().all(is_version)
    {
        if name.can_be_built() || text == "system" {
            return Some(text.to_owned());
        }
        let message = format!("Spack cannot build {}, only use that of the system", name.package());
        return field.refuse(&message, "write `version: system`");
    }
    let message = format!("{} is not a version", quote(text));
    let bare = text.trim_start_matches(name.package()).trim_start_matches('@');
    let digits = bare.split([' ', '+', '~', '%']).next().unwrap_or_default();
    let hint = if digits.starts_with(|c: char| c.is_ascii_digit()) && digits != text {
        format!("write `version: \"{digits}\"`; variants belong in `spec:`")
    } else {
        "write one such as `version: \"14.2\"`".to_owned()
    };
    field.refuse(&message, hint.as_str())
}

/// Reads the variants of a compiler; `None` if they are wrong.
#[expect(clippy::option_option, reason = "missing is right, wrong is not")]
fn spec_of<'n>(section: &Section<'n>) -> Option<Option<SpecItem<'n>>> {
    let Some(field) = section.given("spec") else { return Some(None) };
    let item = spec(field, Wanted::Anything)?;
    if let Some(package) = &item.parts.package {
        let message = format!("`spec` has variants, but {} is a package", quote(package));
        let hint = "the name and the version of the compiler are put before it";
        return item.field.refuse(&message, hint);
    }
    Some(Some(item))
}
