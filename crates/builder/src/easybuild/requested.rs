// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The easyconfigs of a recipe: those that it asks for, and all that are in its directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cabane_label::{escape, shown};
use cabane_recipe::{EasyBuildConfig, ViewRecipe};
use cabane_report::{Kind, Report};
use cabane_view::ViewName;

use super::order::offer;
use super::tool::Tool;
use crate::engine::{Kind as FileKind, RecipeDir};
use crate::fingerprint::{self, Inputs};
use crate::{BuildError, Result, disk};

const ENDING: &str = "eb";
/// How deep easyconfigs are below a recipe.
const DEPTH: usize = 6;

/// An easyconfig that the recipe asks for.
#[derive(Clone, Debug)]
pub(super) struct Requested {
    /// Its path in the recipe, or the name of one that EasyBuild brings.
    pub(super) path: PathBuf,
    pub(super) is_of_recipe: bool,
}

/// Finds the easyconfigs that a recipe asks for. Whether EasyBuild brings one is known only if it is here.
pub(super) fn find(
    config: &EasyBuildConfig,
    directory: &RecipeDir,
    tool: &Tool,
) -> Result<Vec<Requested>> {
    let mut found = Vec::with_capacity(config.easyconfigs.len());
    for path in &config.easyconfigs {
        let is_of_recipe = directory.path.join(path).is_file();
        let is_name = path.components().count() == 1;
        if is_of_recipe {
            directory.find_inside(path, FileKind::File)?;
        } else if !is_name {
            directory.find(path, FileKind::File)?;
        } else if tool.brings(path) == Some(false) {
            let (path, version) = (shown(path), &tool.version);
            let message = format!(
                "there is no easyconfig {path} in the recipe, and EasyBuild {version} brings none of this name"
            );
            let hint = "copy it into the directory of config.yaml; `eb --search NAME` shows those that come with EasyBuild";
            return Err(BuildError::refused(message, hint));
        }
        found.push(Requested { path: path.clone(), is_of_recipe });
    }
    Ok(found)
}

/// Returns the easyconfigs in a recipe and their digests. Sources and patches have checksums in them.
pub(super) fn easyconfigs(directory: &RecipeDir) -> Result<Inputs> {
    let mut inputs = Inputs::new();
    add(&directory.path, Path::new(""), DEPTH, &mut inputs)?;
    Ok(inputs)
}

fn add(root: &Path, below: &Path, depth: usize, inputs: &mut Inputs) -> Result<()> {
    for entry in disk::entries("list", &root.join(below))? {
        let name = entry.file_name();
        let path = below.join(&name);
        let here = entry.path();
        let is_hidden = name.to_string_lossy().starts_with('.');
        if here.is_dir() {
            if depth > 1 && !is_hidden && !here.is_symlink() {
                add(root, &path, depth - 1, inputs)?;
            }
        } else if path.extension().is_some_and(|end| end == ENDING) {
            let digest = fingerprint::of_file(&here).map_err(BuildError::file("read", &here))?;
            inputs.insert(path.to_string_lossy().into_owned(), digest.to_string());
        }
    }
    Ok(())
}

/// Returns the names and the texts of the easyconfigs in a recipe.
pub(super) fn texts(directory: &RecipeDir, easyconfigs: &Inputs) -> Vec<(String, String)> {
    let text =
        |name: &String| Some((name.clone(), fs::read_to_string(directory.path.join(name)).ok()?));
    easyconfigs.keys().filter_map(text).collect()
}

/// Fails if a view names a module that is certainly not built, before EasyBuild is asked. A module of
/// `NAME-VERSION.eb` is called `NAME/VERSION`.
pub(super) fn check_views(
    views: &BTreeMap<ViewName, ViewRecipe>,
    requested: &[Requested],
    easyconfigs: &Inputs,
    texts: &[(String, String)],
) -> Result<()> {
    let names = requested.iter().map(|one| one.path.as_path());
    let names = names.chain(easyconfigs.keys().map(Path::new));
    let stems: Vec<String> =
        names.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    // What EasyBuild brings may need anything.
    let is_closed = requested.iter().all(|one| one.is_of_recipe);
    for (view, modules) in
        views.iter().filter_map(|(name, view)| Some((name, view.modules.as_ref()?)))
    {
        for module in &modules.load {
            let (base, version) = module.split_once('/').unwrap_or((module, ""));
            let is_of_base =
                |stem: &&String| stem.strip_prefix(base).is_some_and(|rest| rest.starts_with('-'));
            let of_base: Vec<&String> = stems.iter().filter(is_of_base).collect();
            let is_there =
                |stem: &&&String| version.is_empty() || ***stem == format!("{base}-{version}");
            let is_named = |(_, text): &(String, String)| {
                ['\'', '"'].iter().any(|quote| text.contains(&format!("{quote}{base}{quote}")))
            };
            let may_be_built = !is_closed
                || of_base.iter().any(|stem| is_there(&stem))
                || of_base.is_empty() && texts.iter().any(is_named);
            if may_be_built {
                continue;
            }
            let known: Vec<String> = if of_base.is_empty() {
                stems.clone()
            } else {
                of_base.into_iter().cloned().collect()
            };
            let known: Vec<String> = known.iter().map(|stem| module_of(stem)).collect();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let message = format!(
                "the view `{view}` loads `{}`, but no such module is built",
                escape(module)
            );
            return Err(Report::new(Kind::Build, message).hinted(offer(module, &known)).into());
        }
    }
    Ok(())
}

/// Returns the name of a module from that of its easyconfig: the version begins with a digit, or it is that of
/// the system.
fn module_of(stem: &str) -> String {
    let is_version = |(place, _): &(usize, &str)| {
        let of_text =
            |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit()) || rest == "system";
        stem.get(place + 1..).is_some_and(of_text)
    };
    let found = stem.match_indices('-').find(is_version);
    found.map_or_else(
        || stem.to_owned(),
        |(place, _)| format!("{}/{}", &stem[..place], &stem[place + 1..]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_module_is_that_of_its_easyconfig() {
        let stems = [
            "zlib-1.3.1-GCCcore-13.2.0",
            "x264-20231019",
            "a-b-1.0",
            "GCC-system",
            "a-1.0-GCC-system",
            "plain",
        ];
        let expected = [
            "zlib/1.3.1-GCCcore-13.2.0",
            "x264/20231019",
            "a-b/1.0",
            "GCC/system",
            "a/1.0-GCC-system",
            "plain",
        ];
        assert_eq!(stems.map(module_of), expected);
    }
}
