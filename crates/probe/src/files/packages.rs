// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `packages.yaml`, and how externals are written.

use super::yaml::Lines;
use crate::found::{External, Found, Section};

/// Libraries that belong to the network, and are written there.
pub(super) const IN_NETWORK: [&str; 2] = ["libfabric", "ucx"];

/// The sections of the file, and what is to be known about each.
const SECTIONS: [(Section, &str); 5] = [
    (Section::Compiler, "Compilers. Recipes with `gcc: {version: system}` are built with these."),
    (
        Section::Tool,
        "Tools. What is not buildable is always this one. Of the others, Spack builds its own \
         where a recipe names a version that is not here; a recipe that hands one to its \
         users names a version, for what is external is in no view.",
    ),
    (Section::Scheduler, "The scheduler."),
    (Section::Gpu, "Software of the GPU's vendor. Every release that is here can be requested."),
    (Section::Fabric, "Below the libraries of the network."),
];

pub(super) fn text(found: &Found) -> String {
    let mut lines = Lines::default();
    lines.comment(0, "");
    if let Some(name) = &found.operating_system {
        lines.comment(0, &format!("Operating system: {name}"));
    }
    lines.key(0, "packages");
    target(&mut lines, found);
    for (section, about) in SECTIONS {
        let externals = found.externals.iter();
        let here: Vec<&External> = externals
            .filter(|external| external.section == section)
            .filter(|external| !IN_NETWORK.contains(&external.package))
            .collect();
        if here.is_empty() {
            continue;
        }
        lines.blank();
        lines.comment(2, about);
        for all in here.chunk_by(|one, other| one.package == other.package) {
            lines.key(2, all[0].package);
            externals_of(&mut lines, all);
        }
    }
    lines.finish()
}

fn target(lines: &mut Lines, found: &Found) {
    let processor = &found.processor;
    let Some(target) = &processor.target else {
        lines.comment(2, "The features of the processor are not known: name a target here.");
        lines.comment(2, "all: {require: [target=x86_64_v3]}");
        if found.externals.is_empty() {
            lines.line(2, "all: {}");
        }
        return;
    };
    lines.key(2, "all");
    let has = processor.has.unwrap_or("unknown");
    let why = match (processor.is_asked, has == target) {
        (true, _) => format!("Asked for with --target; this machine has {has}."),
        (false, true) => format!(
            "This machine has {has}, and its software is built for exactly that, whatever other \
             nodes there are."
        ),
        (false, false) => format!(
            "This machine has {has}. An image is for several nodes, and one that is older stops \
             at the first instruction it does not know: so it is built for {target}. If all \
             nodes have {has}, say `--target {has}`."
        ),
    };
    lines.comment(4, &why);
    let other = "Without this line Spack builds for the machine it happens to run on, and build \
                 caches are of no use elsewhere.";
    lines.comment(4, other);
    lines.key(4, "require");
    lines.item(4, &format!("target={target}"));
}

/// Writes what is below the name of a package.
pub(super) fn externals_of(lines: &mut Lines, externals: &[&External]) {
    if externals.iter().all(|external| !external.buildable) {
        lines.entry(4, "buildable", "false");
    }
    lines.key(4, "externals");
    for external in externals {
        lines.comment(4, &external.origin);
        for check in &external.checks {
            lines.comment(4, &format!("check: {check}"));
        }
        lines.item_entry(4, "spec", &external.spec());
        lines.entry(6, "prefix", &external.prefix);
        if let Some(compilers) = &external.compilers {
            lines.key(6, "extra_attributes");
            lines.key(8, "compilers");
            for (language, path) in compilers.iter() {
                lines.entry(10, language, path);
            }
        }
    }
}
