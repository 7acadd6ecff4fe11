// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The section `easybuild:`.

use std::path::PathBuf;

use super::path::{Reach, path};
use crate::ask::{Field, Section, each, instead};
use crate::node::Value;
use crate::recipe::EasyBuildConfig;

pub(super) const KEYS: &[&str] =
    &["version", "easyconfigs", "sources", "requirements", "optimization"];

const ADD_SECTION: &str =
    "add what is built:\neasybuild:\n  version: 5.4.1\n  easyconfigs: [zlib-1.3.1.eb]";
const ADD_VERSION: &str = "add the version of EasyBuild: `version: 5.4.1`";
const ADD_EASYCONFIGS: &str = "add what is built: `easyconfigs: [zlib-1.3.1.eb]`";
/// Code for any processor.
const GENERIC: &str = "GENERIC";
/// The ending of easyconfigs.
const ENDING: &str = "eb";

pub(super) fn read(file: &Section<'_>) -> Option<EasyBuildConfig> {
    let field = file.require("easybuild", ADD_SECTION)?;
    let section = field.section()?;
    section.refuse_unknown(KEYS, |key| match key {
        "easyconfig" | "software" | "packages" => instead("write `easyconfigs: [NAME-VERSION.eb]`"),
        "mirror" | "sourcepath" | "source" => instead("write `sources: DIRECTORY`"),
        "optarch" => instead("write `optimization: GENERIC`"),
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
    Some(EasyBuildConfig {
        version: version?,
        easyconfigs: easyconfigs?,
        sources: sources?,
        requirements: requirements?,
        optimization: optimization?,
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
