// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `modules.yaml`: which module files are made. The rest of it is Spack's.

use super::keys;
use super::recipe::{ModuleKind, StackModules};
use super::value::YamlMap;
use crate::ask::{Field, Section, each};
use crate::node::{Kind, Node, Scalar, Value};
use crate::report::Report;

const EXAMPLE: &str =
    "begin with the kind of module files:\nmodules:\n  default:\n    enable: [tcl]";
const KINDS: &[(&str, ModuleKind)] = &[("tcl", ModuleKind::Tcl), ("lmod", ModuleKind::Lmod)];

pub(super) fn read(report: &Report<'_>, root: &Node) -> Option<StackModules> {
    let file = report.file(root, EXAMPLE)?;
    file.refuse_unknown(&keys::names(keys::MODULES), |key| {
        matches!(key, "default" | "prefix_inspections" | "tcl" | "lmod")
            .then(|| (None, "it belongs below `modules:`, indented by two spaces".to_owned()))
    });
    let field = file.require("modules", EXAMPLE)?;
    let section = field.section()?;
    let kinds = section.given_or("default", Vec::new(), kinds);
    let mut kinds = kinds?;
    if kinds.is_empty() {
        kinds.push(ModuleKind::Tcl);
    }
    Some(StackModules { kinds, modules: YamlMap::of(section.entries) })
}

/// Finds the kinds: those that have a root, else those that are enabled.
fn kinds(field: &Field<'_>) -> Option<Vec<ModuleKind>> {
    let section = field.section()?;
    check_arch_folder(&section);
    let roots = match section.given("roots") {
        None => Vec::new(),
        Some(field) => {
            let section = field.section()?;
            let names: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
            section.refuse_unknown(&names, |_| None);
            let has = |name: &str| section.get(name).is_some();
            KINDS.iter().filter(|(name, _)| has(name)).map(|(_, kind)| *kind).collect()
        }
    };
    let enabled = match section.given("enable") {
        None => Some(Vec::new()),
        Some(field) => each(field.items("a kind of module files")?, |item| item.choice(KINDS)),
    };
    let enabled = enabled?;
    Some(if roots.is_empty() { enabled } else { roots })
}

/// Module files are in one directory, which the view `modules` names.
fn check_arch_folder(section: &Section<'_>) {
    let Some(field) = section.given("arch_folder") else {
        return;
    };
    if let Value::Scalar(Scalar { text, kind: Kind::Boolean }) = &field.node.value
        && text.eq_ignore_ascii_case("true")
    {
        let message = "`arch_folder` must be `false`: the view `modules` would not find the files";
        section.report.problem_with_hint(field.place(), message, "write `arch_folder: false`");
    } else {
        field.truth();
    }
}
