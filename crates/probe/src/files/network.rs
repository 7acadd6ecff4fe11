// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `network.yaml`.

use super::packages::{IN_NETWORK, externals_of};
use super::yaml::Lines;
use crate::found::{Device, DeviceKind, External, Found};
use crate::rules::{PackageRules, Rule};

pub(super) fn text(found: &Found) -> String {
    let mut lines = Lines::default();
    lines.comment(0, "");
    for device in &found.devices {
        lines.comment(0, &seen(device));
    }
    let has_fabric = |device: &Device| {
        use DeviceKind::{Cxi, Efa, InfiniBand, OmniPath};
        matches!(device.kind, Cxi | Efa | InfiniBand | OmniPath)
    };
    if !found.devices.iter().any(has_fabric) {
        lines.comment(
            0,
            "No fabric beside Ethernet was seen. Look again on a compute node if this is none.",
        );
    }
    lines.blank();
    lines.comment(0, "The MPIs that recipes can name, and what is installed along with each.");
    lines.key(0, "mpi");
    for rules in &found.mpi {
        if found.of(rules.package).next().is_none() {
            lines.comment(2, "Not installed here; Spack builds it.");
        }
        lines.key(2, rules.package);
        lines.line(4, "specs: []");
    }
    lines.blank();
    lines.key(0, "packages");
    for rules in &found.mpi {
        package(&mut lines, found, rules.package, Some(rules));
    }
    for package_name in IN_NETWORK {
        let rules = found.fabric.iter().find(|rules| rules.package == package_name);
        package(&mut lines, found, package_name, rules);
    }
    let mut text = lines.finish();
    if text.ends_with("\npackages:\n") {
        text.truncate(text.len() - 1);
        text += " {}\n";
    }
    text
}

fn seen(device: &Device) -> String {
    let details = device.details.iter();
    let details: Vec<String> = details.map(|(key, value)| format!(", {key} {value}")).collect();
    format!("{}: {}{}", device.kind.title(), device.seen, details.concat())
}

fn package(lines: &mut Lines, found: &Found, name: &str, rules: Option<&PackageRules>) {
    let externals: Vec<&External> = found.of(name).collect();
    let require = rules.map_or(&[][..], |rules| &rules.require);
    let prefer = rules.map_or(&[][..], |rules| &rules.prefer);
    if externals.is_empty() && require.is_empty() && prefer.is_empty() {
        return;
    }
    lines.key(2, name);
    if !externals.is_empty() {
        externals_of(lines, &externals);
    }
    list(lines, "require", require);
    list(lines, "prefer", prefer);
}

fn list(lines: &mut Lines, key: &str, rules: &[Rule]) {
    if rules.is_empty() {
        return;
    }
    lines.key(4, key);
    for rule in rules {
        lines.comment(4, &rule.because);
        match &rule.when {
            None => lines.item(4, &rule.spec),
            Some(when) => {
                lines.comment(
                    4,
                    "Only for MPIs that Spack builds. Installed MPIs are used as they are.",
                );
                lines.item_entry(4, "spec", &rule.spec);
                lines.entry(6, "when", when);
            }
        }
    }
}
