// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What was found on a machine, for people.

use std::fmt::Write as _;

use cabane_label::escape;
use cabane_mpi_swap::HostMpi;
use cabane_probe::{CompilerPaths, Device, External, Found, PackageRules};

use crate::table::{Table, heading};

pub(crate) fn text(found: &Found, host_mpi: &[HostMpi]) -> String {
    let mut text = String::new();
    heading(&mut text, "machine");
    machine(&mut text, found);
    for section in found.externals.chunk_by(|one, other| one.section == other.section) {
        heading(&mut text, section[0].section.title());
        text += &table(section).indented();
    }
    heading(&mut text, "MPIs that recipes can name");
    for rules in &found.mpi {
        mpi(&mut text, found, rules);
    }
    if !host_mpi.is_empty() {
        heading(&mut text, "MPIs that can take the place of others");
        text += &host_mpi_table(host_mpi).indented();
    }
    text
}

fn host_mpi_table(all: &[HostMpi]) -> Table {
    let mut table = Table::new(&["", "", "", ""]);
    for one in all {
        let prefix = one.prefix.to_string_lossy();
        let launcher = one.launcher.as_deref().unwrap_or("no launcher");
        table.push(&[&one.name, &escape(&one.title), &escape(&prefix), &escape(launcher)]);
    }
    table
}

fn machine(text: &mut String, found: &Found) {
    let mut table = Table::new(&["", ""]);
    if let Some(name) = &found.operating_system {
        table.push(&[&"operating system", &escape(name)]);
    }
    let processor = &found.processor;
    table.push(&[&"processor", &processor.has.unwrap_or("unknown")]);
    table.push(&[&"build for", &processor.target.as_deref().unwrap_or("unknown")]);
    for device in &found.devices {
        table.push(&[&device.kind.title(), &device_text(device)]);
    }
    *text += &table.indented();
}

fn device_text(device: &Device) -> String {
    let mut text = escape(&device.seen).to_string();
    for (key, value) in &device.details {
        let _ = write!(text, ", {key} {}", escape(value));
    }
    text
}

fn table(externals: &[External]) -> Table {
    let mut table = Table::new(&["", "", ""]);
    for external in externals {
        let name = format!("{}@{}", external.package, external.version);
        let languages = external.compilers.iter().flat_map(CompilerPaths::iter);
        let languages: Vec<&str> = languages.map(|(language, _)| language).collect();
        let remark = match (languages.as_slice(), external.buildable) {
            ([], true) => String::new(),
            ([], false) => "never built".to_owned(),
            (languages, _) => languages.join(" ").replace("cxx", "c++"),
        };
        table.push(&[&name, &escape(&external.origin), &remark]);
    }
    table
}

fn mpi(text: &mut String, found: &Found, rules: &PackageRules) {
    let is_installed = found.of(rules.package).next().is_some();
    let state = if is_installed { "installed" } else { "built by Spack" };
    let _ = writeln!(text, "  {}: {state}", rules.package);
    let kinds = [("must have", &rules.require), ("has if possible", &rules.prefer)];
    for (kind, rules) in kinds {
        for rule in rules {
            let (spec, because) = (escape(&rule.spec), escape(&rule.because));
            let _ = writeln!(text, "    {kind} {spec}: {because}");
        }
    }
}
