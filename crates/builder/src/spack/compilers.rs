// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The compilers of a stack: where they are, for views and for those who build on top.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use cabane_recipe::{CompilerName, StackRecipe, SystemConfig, Yaml};
use cabane_spack::{DATABASE, InstalledCompiler, Installs};

use super::{SpackEngine, inputs, inside, lock};
use crate::{BuildError, Result, disk};

/// The programs of one compiler, by language.
pub(super) type Found = BTreeMap<String, PathBuf>;

/// Reads where a compiler of the system is: the first that the recipe or the system describes.
pub(super) fn of_system(recipe: &StackRecipe, system: &SystemConfig, name: CompilerName) -> Found {
    let mut found = Found::new();
    let settings = [&recipe.packages, &system.network_packages, &system.packages];
    let first = settings
        .into_iter()
        .find_map(|packages| packages.get(name.package())?.at(&["externals"])?.as_list()?.first());
    for (language, program) in name.programs() {
        let text = |place: &[&str]| first.and_then(|one| one.at(place)).and_then(Yaml::as_text);
        let own = text(&["extra_attributes", "compilers", language]).map(PathBuf::from);
        let by_prefix = || Some(Path::new(text(&["prefix"])?).join("bin").join(program));
        found.extend(own.or_else(by_prefix).map(|path| (language.to_owned(), path)));
    }
    found
}

/// Finds a compiler that was built in one of the environments.
pub(super) fn installed(
    engine: &SpackEngine,
    compiler: CompilerName,
) -> Result<Option<InstalledCompiler>> {
    let installs = if engine.store_here.join(DATABASE).exists() {
        inside::installs(&engine.store_here)?
    } else {
        Installs::new()
    };
    let of_bases = engine.bases.packages();
    // Spack says where a package is: its layout can be configured.
    let place = |hash: &str| {
        let path = Path::new(installs.get(hash)?.path.as_ref()?);
        path.strip_prefix(&engine.store).ok().map(Path::to_owned)
    };
    for environment in &engine.stack().environments {
        let path = inputs::lock_file(&engine.layout, &environment.name);
        if !path.exists() {
            continue;
        }
        for (hash, package) in lock::built(&path, compiler.package())? {
            let Some(relative) = place(&hash) else {
                let of_base = of_bases.iter().find(|one| one.hash.as_deref() == Some(&hash));
                if let Some(prefix) = of_base.and_then(|one| one.prefix.as_ref()) {
                    let prefix = PathBuf::from(prefix);
                    let (spec, programs) = (lock::spec(&package), usual(&prefix, compiler));
                    return Ok(Some(InstalledCompiler { compiler, spec, prefix, programs }));
                }
                continue;
            };
            let here = engine.store_here.join(&relative);
            let prefix = engine.store.join(relative);
            let programs = look_below(&here, &prefix, compiler);
            if !programs.is_empty() {
                let spec = lock::spec(&package);
                return Ok(Some(InstalledCompiler { compiler, spec, prefix, programs }));
            }
        }
    }
    Ok(None)
}

/// Returns the programs of a compiler of a base, which is not mounted here: they are in the usual
/// directory.
fn usual(prefix: &Path, name: CompilerName) -> Found {
    let of =
        |(language, program): (&str, &str)| (language.to_owned(), prefix.join("bin").join(program));
    name.programs().map(of).collect()
}

/// Looks for a compiler below the directory it was installed in. `here` is where the
/// directory `prefix` is seen from.
fn look_below(here: &Path, prefix: &Path, name: CompilerName) -> Found {
    let mut found = Found::new();
    let wanted: Vec<_> = name.programs().collect();
    let mut directories = vec![here.to_owned()];
    while let Some(directory) = directories.pop() {
        let mut entries: Vec<_> =
            fs::read_dir(&directory).into_iter().flatten().flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() {
                directories.push(path);
                continue;
            }
            let named = wanted.iter().find(|(_, program)| entry.file_name() == *program);
            let inside = path.strip_prefix(here).map(|relative| prefix.join(relative));
            if let (Some((language, _)), Ok(inside), true) = (named, inside, is_program(&path)) {
                found.entry((*language).to_owned()).or_insert(inside);
            }
        }
        if found.len() == wanted.len() {
            break;
        }
    }
    found
}

fn is_program(path: &Path) -> bool {
    let metadata = fs::symlink_metadata(path);
    metadata.is_ok_and(|found| found.is_symlink() || found.permissions().mode() & 0o111 != 0)
}

/// Puts the programs of compilers into a view, under the names by which they are
/// called. What the view has already stays.
pub(super) fn link<'a>(
    view: &Path,
    compilers: impl IntoIterator<Item = (CompilerName, &'a Found)>,
) -> Result<()> {
    let directory = view.join("bin");
    for (name, found) in compilers {
        for (language, program) in name.programs() {
            let Some(target) = found.get(language) else {
                continue;
            };
            disk::make_directory(&directory)?;
            let place = directory.join(program);
            if place.symlink_metadata().is_err() {
                symlink(target, &place).map_err(BuildError::file("make the link", &place))?;
            }
        }
    }
    Ok(())
}
