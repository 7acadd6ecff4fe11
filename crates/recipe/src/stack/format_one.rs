// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What format 1 says in other words: compilers, and the MPI.

use std::collections::BTreeMap;

use super::compiler_name::CompilerName;
use super::recipe::{CompilerRequest, CompilerSource, Compilers, MpiRequest};
use super::spec_fields::{Wanted, spec};
use crate::ask::{Elsewhere, Field, Section};
use crate::diagnostic::quote;
use crate::node::{Kind, Node, Scalar, Value};
use crate::report::Report;

const KEYS: &[&str] = &["bootstrap", "gcc", "llvm"];
const EXAMPLE: &str = "begin with the versions of gcc:\nbootstrap:\n  spec: gcc@12\n\
                       gcc:\n  specs: [gcc@12]";

/// What to say about a key that later formats have.
pub(super) fn of_later_format(key: &str) -> Elsewhere {
    let message = format!("`{key}` is of a later format, but this recipe is of format 1");
    let hint = "write `version: 3` into config.yaml if the recipe is for Spack 1.0 or later";
    (Some(message), hint.to_owned())
}

/// Reads `compilers.yaml` of format 1: lists of compilers, of which later
/// formats have one of a kind.
pub(super) fn compilers(file: &Section<'_>) -> Option<Compilers> {
    file.refuse_unknown(KEYS, |key| CompilerName::of(key).map(|_| of_later_format(key)));
    // What builds gcc is the compiler of the system by now.
    if let Some(field) = file.get("bootstrap")
        && let Some(section) = field.section()
    {
        section.refuse_unknown(&["spec"], |_| None);
    }
    let gcc = file.needed("gcc", EXAMPLE, |field| versions(field, &[CompilerName::GCC]));
    let others = match file.given("llvm") {
        None => Some(BTreeMap::new()),
        Some(field) => versions(&field, &[CompilerName::LLVM, CompilerName::NVHPC]),
    };
    let all = gcc?.into_iter().chain(others?);
    Some(Compilers { sources: all.map(|(name, one)| (name, CompilerSource::Built(one))).collect() })
}

/// Reads the section of a toolchain: `specs`, of which the first of each
/// compiler is taken.
fn versions(
    field: &Field<'_>,
    known: &[CompilerName],
) -> Option<BTreeMap<CompilerName, CompilerRequest>> {
    let section = field.section()?;
    section.refuse_unknown(&["specs", "requires"], |key| {
        (key == "version").then(|| of_later_format(key))
    });
    let hint = format!("add the compilers: `specs: [{}@…]`", known[0].package());
    let specs = section.require("specs", &hint)?;
    let mut found = BTreeMap::new();
    let mut is_right = true;
    for field in specs.items("a compiler")? {
        match version(&field, known) {
            None => is_right = false,
            Some((name, _)) if found.contains_key(&name) => {
                let message = format!("only the first {} of this list is built", name.package());
                let hint = "later formats have one version of each compiler; remove the others";
                field.report.remark(field.place(), &message, hint);
            }
            Some((name, request)) => drop(found.insert(name, request)),
        }
    }
    if is_right && found.is_empty() {
        field.report.problem_with_hint(specs.place(), "this list of compilers is empty", &hint);
    }
    (is_right && !found.is_empty()).then_some(found)
}

/// Reads `gcc@12.3`.
fn version(field: &Field<'_>, known: &[CompilerName]) -> Option<(CompilerName, CompilerRequest)> {
    let text = field.text()?;
    let (package, version) = text.split_once('@').unwrap_or((text, ""));
    let name = known.iter().find(|name| name.package() == package);
    let is_version = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    match name {
        Some(name) if !version.is_empty() && version.chars().all(is_version) => {
            let version = version.to_owned();
            Some((*name, CompilerRequest { version, spec: None }))
        }
        _ => {
            let names: Vec<&str> = known.iter().map(|name| name.package()).collect();
            let message = format!("{} is not a compiler with its version", quote(text));
            let hint = format!(
                "write one such as `{}@13`; the compilers here are {}",
                names[0],
                cabane_label::enumerate(&names, "and")
            );
            field.refuse(&message, hint.as_str())
        }
    }
}

/// Reads one compiler of an environment: `{toolchain: gcc, spec: gcc@12}`.
pub(super) fn compiler(report: &Report<'_>, item: &Node) -> Option<CompilerName> {
    let field = Field::item(report, "a compiler", item);
    if let Value::Scalar(_) = item.value {
        let hint = "write `- toolchain: gcc` and below it `spec: gcc@12`; \
                    or `version: 3` into config.yaml, if the recipe is for Spack 1.0 or later";
        return field.wrong_type("a section with `toolchain` and `spec`", Some(hint));
    }
    let section = field.section_with(&["toolchain", "spec"])?;
    let hint = "add the compiler: `spec: gcc`";
    let field = section.require("spec", hint)?;
    let text = field.text()?;
    let package = super::spec::package_name(text);
    let name = CompilerName::of(package);
    if name.is_none() {
        let message = format!("{} is not a compiler", quote(text));
        let hint = "the compilers of format 1 are `gcc`, `llvm`, and `nvhpc`";
        report.problem_with_hint(field.place(), &message, hint);
    }
    name
}

/// Reads `mpi:`, in which later formats have the GPU as a variant.
///
/// The outer `None` says that something is wrong.
#[expect(clippy::option_option, reason = "missing is right, wrong is not")]
pub(super) fn mpi(environment: &Section<'_>) -> Option<Option<MpiRequest>> {
    let Some(field) = environment.given("mpi") else {
        return Some(None);
    };
    if let Value::Scalar(Scalar { text, kind: Kind::Boolean }) = &field.node.value
        && text.eq_ignore_ascii_case("false")
    {
        return Some(None);
    }
    let section = field.section_with(&["spec", "gpu"])?;
    let gpu = match section.given("gpu") {
        None => None,
        Some(field) => {
            field.choice(&[("cuda", Some("cuda")), ("rocm", Some("rocm")), ("false", None)])?
        }
    };
    let Some(field) = section.given("spec") else {
        return Some(None);
    };
    let item = spec(field, Wanted::Package)?;
    let package = item.parts.package.clone().unwrap_or_default();
    // The compiler of an MPI conflicts with what later versions of Spack take
    // `%` for.
    let text = item.text.split('%').next().unwrap_or_default().trim_end();
    if text.len() < item.text.trim_end().len() {
        let message = "the compiler of the MPI is left out, as later formats do not name it";
        let hint =
            "ask a package that uses it for the compiler, such as `hdf5 +mpi %fortran=nvhpc`";
        environment.report.remark(item.field.place(), message, hint);
    }
    let spec = match gpu {
        Some(gpu) => format!("{text} +{gpu}"),
        None => text.to_owned(),
    };
    Some(Some(MpiRequest { package, spec }))
}

#[cfg(test)]
mod tests {
    use super::super::compilers;
    use super::*;
    use crate::diagnostic::Source;
    use crate::language::Language;
    use std::path::Path;

    fn read(text: &str) -> Result<Compilers, Vec<crate::Diagnostic>> {
        let source = Source::new(Path::new("compilers.yaml"), text);
        let report = Report::new(&source, Language::Yaml);
        let root = crate::yaml::parse(&report).unwrap();
        let read = compilers::read(&report, &root, crate::FormatVersion::V1);
        report.finish(read)
    }

    #[test]
    fn a_toolchain_may_hold_two_compilers() {
        let file = read(
            "bootstrap: {spec: gcc@12}\ngcc: {specs: [gcc@13]}\nllvm: {requires: gcc@13, specs: [nvhpc@25.1, llvm@19]}\n",
        );
        let built: Vec<String> =
            file.unwrap().built().map(|(name, request)| request.full_spec(name)).collect();
        assert_eq!(
            built,
            ["gcc@13 +bootstrap", "nvhpc@25.1 ~mpi~blas~lapack", "llvm@19 +clang ~gold"]
        );
    }
}
