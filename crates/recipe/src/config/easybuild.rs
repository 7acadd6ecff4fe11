// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The section `easybuild:`.

use std::path::PathBuf;

use super::path::{Reach, path};
use crate::ask::{Field, Section, each, instead};
use crate::node::Value;
use crate::recipe::{EasyBuildConfig, NamedPath};

pub(super) const KEYS: &[&str] =
    &["version", "easyconfigs", "easyblocks", "hooks", "sources", "requirements", "optimization"];

const ADD_SECTION: &str =
    "add what is built:\neasybuild:\n  version: 5.4.1\n  easyconfigs: [zlib-1.3.1.eb]";
const ADD_VERSION: &str = "add the version of EasyBuild: `version: 5.4.1`";
const ADD_EASYCONFIGS: &str = "add what is built: `easyconfigs: [zlib-1.3.1.eb]`";
/// Code for any processor.
const GENERIC: &str = "GENERIC";
/// The ending of easyconfigs.
const ENDING: &str = "eb";
/// The ending of easyblocks and hooks.
const PYTHON: &str = "py";
/// What has a meaning in the lists of paths that EasyBuild takes.
const SPECIAL: [char; 4] = [',', '*', '?', '['];

pub(super) fn read(file: &Section<'_>) -> Option<EasyBuildConfig> {
    let field = file.require("easybuild", ADD_SECTION)?;
    let section = field.section()?;
    section.refuse_unknown(KEYS, |key| match key {
        "easyconfig" | "software" | "packages" => instead("write `easyconfigs: [NAME-VERSION.eb]`"),
        "mirror" | "sourcepath" | "source" => instead("write `sources: DIRECTORY`"),
        "optarch" => instead("write `optimization: GENERIC`"),
        "easyblock" | "include-easyblocks" | "include_easyblocks" => {
            instead("write `easyblocks: [NAME.py]`")
        }
        "hook" => instead("write `hooks: hooks.py`"),
        _ => None,
    });
    let version = section.needed("version", ADD_VERSION, |field| {
        let hint = "write a version such as `version: 5.4.1`";
        field.text_if(is_version, "is not a version of EasyBuild", hint)
    });
    let easyconfigs = section.needed("easyconfigs", ADD_EASYCONFIGS, easyconfigs);
    let sources = section.given_or("sources", Vec::new(), sources);
    let requirements = section.optional("requirements", |field| path(field, Reach::Recipe));
    let optimization = section.given_or("optimization", GENERIC.to_owned(), |field| {
        let is_right = |text: &str| !text.is_empty() && !text.contains(char::is_control);
        let hint = "write `optimization: GENERIC`, or what `eb --optarch` takes";
        field.text_if(is_right, "is not a value that `eb --optarch` takes", hint)
    });
    let easyblocks = section.given_or("easyblocks", Vec::new(), easyblocks);
    let hooks = section.optional("hooks", hooks);
    Some(EasyBuildConfig {
        version: version?,
        easyconfigs: easyconfigs?,
        sources: sources?,
        requirements: requirements?,
        optimization: optimization?,
        easyblocks: easyblocks?,
        hooks: hooks?,
    })
}

/// Tells whether a text is `5.4.1`, or another version with two or three numbers.
fn is_version(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let is_number = |part: &&str| {
        !part.is_empty() && part.len() <= 3 && part.bytes().all(|b| b.is_ascii_digit())
    };
    (2..=3).contains(&parts.len()) && parts.iter().all(is_number)
}

fn easyconfigs(field: &Field<'_>) -> Option<Vec<PathBuf>> {
    let list: Vec<PathBuf> = each(field.items("the easyconfig")?, |item| easyconfig(&item))?;
    if list.is_empty() {
        return field.refuse("a list of easyconfigs is empty", ADD_EASYCONFIGS);
    }
    Some(list)
}

fn easyconfig(field: &Field<'_>) -> Option<PathBuf> {
    let path = path(field, Reach::Recipe)?;
    let has_name = path.file_stem().is_some() && path.extension().is_some_and(|end| end == ENDING);
    // It becomes an argument of `eb`.
    if !has_name || path.to_string_lossy().starts_with('-') {
        let message = "this is not the name of an easyconfig";
        return field.refuse(message, "write it as `NAME-VERSION.eb`");
    }
    Some(path)
}

/// Reads files and directories with easyblocks: one, or a list.
fn easyblocks(field: &Field<'_>) -> Option<Vec<NamedPath>> {
    if matches!(field.node.value, Value::Scalar(_)) {
        return easyblock(field).map(|one| vec![one]);
    }
    each(field.items("the easyblock")?, |item| easyblock(&item))
}

fn easyblock(field: &Field<'_>) -> Option<NamedPath> {
    let named = named_path(field)?;
    let is_other_file = named.path.extension().is_some_and(|end| end != PYTHON);
    if is_other_file {
        let message = "this is not the name of an easyblock";
        return field.refuse(message, "write the name of a file `NAME.py`, or of a directory");
    }
    Some(named)
}

fn hooks(field: &Field<'_>) -> Option<NamedPath> {
    let named = named_path(field)?;
    if named.path.extension().is_none_or(|end| end != PYTHON) {
        let message = "this is not the name of a file with hooks";
        return field.refuse(message, "write `hooks: hooks.py`");
    }
    Some(named)
}

/// Reads a path that becomes an argument of `eb`.
fn named_path(field: &Field<'_>) -> Option<NamedPath> {
    let path = path(field, Reach::Recipe)?;
    if let Some(special) = path.to_string_lossy().chars().find(|c| SPECIAL.contains(c)) {
        let message = format!("EasyBuild does not take `{special}` in a path");
        return field.refuse(&message, "rename the file");
    }
    Some(NamedPath { path, place: field.place().into() })
}

fn sources(field: &Field<'_>) -> Option<Vec<PathBuf>> {
    if matches!(field.node.value, Value::Scalar(_)) {
        return path(field, Reach::Anywhere).map(|one| vec![one]);
    }
    each(field.items("the directory of sources")?, |item| path(&item, Reach::Anywhere))
}

#[cfg(test)]
mod tests {
    use super::is_version;

    #[test]
    fn versions_have_two_or_three_numbers() {
        let versions = ["5.4.1", "5.4", "5", "5.4.1.2", "5.x", "v5.4.1", "5..1", ""];
        assert_eq!(
            versions.map(is_version),
            [true, true, false, false, false, false, false, false]
        );
    }
}
