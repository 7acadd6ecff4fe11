// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is inside of an environment: `METADATA` of every package that is installed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use cabane_view::PackageRecord;

use crate::disk;
use crate::inside::{Need, NeedKind, Part};

/// The most that is read of one file, in bytes.
const MOST: u64 = 4 << 20;

/// Describes the packages of an environment.
pub(super) fn parts(environment: &Path) -> Vec<Part> {
    let libraries = entries(&environment.join("lib"));
    let sites = libraries.map(|library| library.join("site-packages"));
    let installed = sites.flat_map(|site| entries(&site));
    let is_one = |path: &Path| path.extension().is_some_and(|end| end == "dist-info");
    let installed = installed.filter(|path| is_one(path));
    let texts = installed.filter_map(|path| disk::read_start(&path.join("METADATA"), MOST).ok());
    let mut parts: Vec<Part> =
        texts.filter_map(|text| part(&String::from_utf8_lossy(&text))).collect();
    mark_explicit(&mut parts);
    parts
}

/// A list of requirements may be complete, and then names also what only other packages need. So what no
/// other package needs is what was asked for.
fn mark_explicit(parts: &mut [Part]) {
    let needed: BTreeSet<String> = parts
        .iter()
        .flat_map(|part| part.needs.iter().filter(|need| need.key != part.key))
        .map(|need| need.key.clone())
        .collect();
    for part in parts {
        part.record.explicit = !needed.contains(&part.key);
    }
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

/// Reads the head of a `METADATA`.
fn part(text: &str) -> Option<Part> {
    let head = || text.lines().take_while(|line| !line.is_empty());
    let all = |key: &str| {
        let key = format!("{key}: ");
        head().filter_map(move |line| line.strip_prefix(&key).map(str::to_owned))
    };
    let name = all("Name").next()?;
    let record = PackageRecord {
        version: all("Version").next()?,
        manager: "python".to_owned(),
        name,
        ..PackageRecord::default()
    };
    Some(Part {
        key: normal(&record.name),
        // What older packages write under `License` may be anything.
        licence: all("License-Expression").next(),
        needs: all("Requires-Dist").filter_map(|text| need(&text)).collect(),
        record,
        ..Part::default()
    })
}

/// Reads `numpy>=1.22; python_version >= "3.9"`. What only an extra needs is left out.
fn need(text: &str) -> Option<Need> {
    let (wanted, condition) = text.split_once(';').unwrap_or((text, ""));
    if condition.contains("extra ==") {
        return None;
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let end = wanted.find(|c| !is_name(c)).unwrap_or(wanted.len());
    Some(Need { key: normal(wanted.get(..end)?), kind: NeedKind::Run })
}

/// Names are the same with `-`, `_`, and `.`, large and small.
fn normal(name: &str) -> String {
    name.to_lowercase().replace(['_', '.'], "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_known_by_the_head_of_its_metadata() {
        let text = "Metadata-Version: 2.4\nName: Some_Tool\nVersion: 1.2\nLicense-Expression: MIT\n\
                    Requires-Dist: numpy>=1.22; python_version >= \"3.9\"\n\
                    Requires-Dist: pytest; extra == \"test\"\n\nVersion: of the description\n";
        let part = part(text).unwrap();
        let needs: Vec<_> = part.needs.iter().map(|need| need.key.as_str()).collect();
        let seen =
            (part.key.as_str(), part.record.version.as_str(), part.licence.as_deref(), needs);
        assert_eq!(seen, ("some-tool", "1.2", Some("MIT"), vec!["numpy"]));
    }

    #[test]
    fn what_no_other_package_needs_was_asked_for() {
        let texts = [
            "Name: scipy\nVersion: 1\nRequires-Dist: numpy>=1.23\n",
            "Name: numpy\nVersion: 2\n",
            "Name: itself\nVersion: 1\nRequires-Dist: itself; extra == \"all\"\n",
        ];
        let mut parts: Vec<_> = texts.iter().filter_map(|text| part(text)).collect();
        mark_explicit(&mut parts);
        let explicit: Vec<_> = parts.iter().map(|part| part.record.explicit).collect();
        assert_eq!(explicit, [true, false, true]);
    }
}
