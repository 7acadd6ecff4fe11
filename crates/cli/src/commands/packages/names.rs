// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Looking up the names of specs before they are written into a recipe.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

use cabane_builder::NameLookUp;
use cabane_label::enumerate;
use cabane_recipe::{Diagnostic, StackOptions, malformed};
use cabane_report::{Report, Result};
use cabane_site::settings::find_program;
use cabane_site::{env_vars, find_system};

use crate::recipe_files as files;
use crate::setup::Setup;

/// Looks up what another text of `environments.yaml` names, and reports what the recipe did not have before.
/// Returns why names were not looked up, if they were not.
///
/// # Errors
///
/// The text is malformed, or names something that does not exist.
pub(super) fn check_names(setup: &Setup, directory: &Path, text: &str) -> Result<Option<String>> {
    let system = find_system(setup, setup.named_system.as_deref())?;
    let system = system.map(|found| {
        let config = files::system(&found.directory, None)?;
        Ok::<_, Report>((found.directory, config))
    });
    let system = system.transpose()?;
    let options =
        StackOptions { system: system.as_ref().map(|(_, one)| one), accept_old_spack: false };
    let before = files::texts(directory)?;
    let texts = files::texts(directory)?.with_environments(text);
    let stack = texts.parse(&options).map_err(Report::from)?;
    let Some((place, system)) = &system else {
        let why = "packages may be those of the system; name it with `--system SYSTEM`";
        return Ok(Some(why.to_owned()));
    };
    let path = setup.calling.get(OsStr::new(env_vars::PATH)).map(AsRef::as_ref);
    let cache = setup.settings.cache_directory.directory()?;
    let mut look_up = NameLookUp::new(find_program("git", path), cache);
    let names = look_up.look_up((directory, &texts), &stack, (place, system), false);
    if !names.missing.is_empty() {
        let missing: Vec<&str> = names.missing.iter().map(String::as_str).collect();
        let (missing, verb) =
            (enumerate(&missing, "and"), if missing.len() == 1 { "is" } else { "are" });
        let why = format!(
            "{missing} {verb} not on this machine; `cabane recipe check --fetch` gets them"
        );
        return Ok(Some(why));
    }
    let known: BTreeSet<String> = match before.parse(&options) {
        Ok(stack) => {
            let names = look_up.look_up((directory, &before), &stack, (place, system), false);
            names.mistakes.into_iter().chain(names.remarks).map(|one| one.message).collect()
        }
        Err(_) => BTreeSet::new(),
    };
    let is_new = |one: &Diagnostic| !known.contains(&one.message);
    let mistakes: Vec<_> = names.mistakes.into_iter().filter(is_new).collect();
    if !mistakes.is_empty() {
        return Err(malformed("the recipe", &mistakes));
    }
    for remark in names.remarks.iter().filter(|remark| is_new(remark)) {
        setup.warning(remark);
    }
    Ok(None)
}
