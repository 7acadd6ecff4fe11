// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What EasyBuild has installed in a tree.
//!
//! It installs into `software/NAME/VERSION-TOOLCHAIN-SUFFIX`, and keeps the easyconfig in `easybuild/` below that,
//! and in `easybuild/reprod/` the same with plain values.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use cabane_view::PackageRecord;

use crate::disk;
use crate::inside::Part;

const SOFTWARE: &str = "software";
/// The directory with what EasyBuild knows about an installation.
const NOTES: &str = "easybuild";
/// What EasyBuild needs to do the same again, in the same directory.
const AGAIN: &str = "reprod";
/// The module files.
const MODULES: &str = "modules/all";
/// The ending of easyconfigs.
const ENDING: &str = "eb";
/// A version that means the compiler of the system on which the tree was installed.
const SYSTEM: &str = "system";
/// The most that is read of an easyconfig, in bytes.
const MOST: u64 = 1 << 20;

/// Describes the packages in a tree that is mounted at `mount_point`; none if EasyBuild did not make it.
/// `explicit` are the easyconfigs that were asked for; without it, all were.
pub(crate) fn parts(
    tree: &Path,
    mount_point: &str,
    explicit: Option<&BTreeSet<&str>>,
) -> Vec<Part> {
    let names = directories(&tree.join(SOFTWARE));
    let installed = names.into_iter().flat_map(|name| directories(&name));
    installed.filter_map(|place| part(tree, mount_point, place, explicit)).collect()
}

/// Returns the directories in one, in their order. Those that begin with a point are of EasyBuild itself.
fn directories(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let is_one = |entry: &fs::DirEntry| {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        is_directory && !entry.file_name().to_string_lossy().starts_with('.')
    };
    let mut found: Vec<PathBuf> = entries.filter(is_one).map(|entry| entry.path()).collect();
    found.sort();
    found
}

fn part(
    tree: &Path,
    mount_point: &str,
    place: PathBuf,
    explicit: Option<&BTreeSet<&str>>,
) -> Option<Part> {
    let easyconfig = easyconfig_in(&place.join(NOTES))?;
    let file_name = easyconfig.file_name()?.to_str()?.to_owned();
    let plain = place.join(NOTES).join(AGAIN).join(&file_name);
    let text = disk::read_start(&plain, MOST).or_else(|_| disk::read_start(&easyconfig, MOST));
    let text = text.ok()?;
    let text = String::from_utf8_lossy(&text);
    let prefix = place.strip_prefix(tree).ok()?.to_str()?;
    let of_directory = |path: Option<&Path>| Some(path?.file_name()?.to_str()?.to_owned());
    let directory = of_directory(Some(&place))?;
    let version = value(&text, "version").unwrap_or_else(|| directory.clone());
    let toolchain = toolchain(&text);
    let rest = directory.strip_prefix(&version).unwrap_or_default();
    let suffix = match &toolchain {
        Some((name, version)) => rest.strip_prefix(&format!("-{name}-{version}")).unwrap_or(rest),
        None => rest,
    };
    let name = value(&text, "name").or_else(|| of_directory(place.parent()))?;
    let version = if version == SYSTEM {
        version_of_system(tree, &name, &directory).unwrap_or(version)
    } else {
        version
    };
    let compiler = |(name, version): (String, String)| {
        let of_system = || version_of_system(tree, &name, SYSTEM);
        let known = if version == SYSTEM { of_system() } else { None };
        format!("{name}@{}", known.unwrap_or(version))
    };
    let record = PackageRecord {
        name,
        version,
        manager: "easybuild".to_owned(),
        variants: if suffix.is_empty() { String::new() } else { format!("versionsuffix={suffix}") },
        compilers: toolchain.map(compiler).into_iter().collect(),
        prefix: Some(format!("{mount_point}/{prefix}")),
        explicit: explicit.is_none_or(|explicit| explicit.contains(file_name.as_str())),
        ..PackageRecord::default()
    };
    Some(Part { key: prefix.to_owned(), record, here: Some(place), ..Part::default() })
}

fn easyconfig_in(notes: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(notes).ok()?.flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|end| end == ENDING)).collect();
    files.sort();
    files.into_iter().next()
}

/// Returns the version of a compiler that is called `system`: EasyBuild wrote it into the module.
fn version_of_system(tree: &Path, name: &str, directory: &str) -> Option<String> {
    let module = tree.join(MODULES).join(name).join(directory);
    let of_lmod = tree.join(MODULES).join(name).join(format!("{directory}.lua"));
    let text =
        disk::read_start(&module, MOST).or_else(|_| disk::read_start(&of_lmod, MOST)).ok()?;
    let text = String::from_utf8_lossy(&text);
    let variable = format!("EBVERSION{}", name.to_uppercase());
    let sets_it = |line: &&str| {
        let mut words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.next() == Some("setenv")
            && words.find(|word| !word.is_empty()) == Some(variable.as_str())
    };
    let line = text.lines().find(sets_it)?;
    let version = line.split('"').rfind(|part| part.starts_with(|c: char| c.is_ascii_digit()))?;
    (!version.contains(char::is_control)).then(|| version.to_owned())
}

/// Returns the name and the version of the toolchain, unless that is the compilers of the system:
/// `toolchain = {'name': 'GCC', 'version': '13.2.0'}`.
pub(super) fn toolchain(text: &str) -> Option<(String, String)> {
    let line =
        text.lines().find_map(|line| line.strip_prefix("toolchain")?.trim().strip_prefix('='))?;
    let of_key = |key: &str| {
        let (_, rest) = ["'", "\""]
            .iter()
            .find_map(|quote| line.split_once(&format!("{quote}{key}{quote}")))?;
        let rest = rest.trim_start().strip_prefix(':')?.trim_start();
        let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        let value = rest.get(1..)?.split(quote).next()?;
        (!value.is_empty() && !value.contains(char::is_control)).then(|| value.to_owned())
    };
    let name = of_key("name").filter(|name| name != "system")?;
    Some((name, of_key("version")?))
}

/// Returns the value of a line `name = 'value'`, if it is a text and nothing else.
fn value(text: &str, key: &str) -> Option<String> {
    let mut lines = text.lines();
    let written = lines.find_map(|line| {
        let rest = line.strip_prefix(key)?.trim_start();
        Some(rest.strip_prefix('=')?.trim())
    })?;
    let quote = written.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let (value, rest) = written[1..].split_once(quote)?;
    let is_plain =
        !value.is_empty() && !value.contains(['%', '\\']) && !value.contains(char::is_control);
    let is_all = rest.trim().is_empty() || rest.trim_start().starts_with('#');
    (is_plain && is_all).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_easyconfigs_are_read_if_they_are_plain() {
        let text = "# a\nversion = \"1.0\"  # the last\nname='hello'\nversionsuffix = '-x'\n\
                    homepage = local_x + 'y'\nother = 'a' + 'b'\nurl = '%(name)s'\n";
        let seen = ["name", "version", "homepage", "other", "url", "none"];
        let seen = seen.map(|key| value(text, key).unwrap_or_default());
        assert_eq!(seen, ["hello", "1.0", "", "", "", ""]);
    }

    #[test]
    fn the_toolchain_is_read_unless_it_is_the_system() {
        let texts = [
            "toolchain = {'name': 'GCC', 'version': '13.2.0'}",
            "toolchain = {\"version\": \"2023b\", \"name\": \"foss\"}",
            "toolchain = {'name': 'system', 'version': 'system'}",
            "toolchain = SYSTEM",
        ];
        let pair = |name: &str, version: &str| Some((name.to_owned(), version.to_owned()));
        let expected = [pair("GCC", "13.2.0"), pair("foss", "2023b"), None, None];
        assert_eq!(texts.map(toolchain), expected);
    }

    #[test]
    fn the_compiler_of_the_system_has_the_version_that_its_module_says() {
        for (file, text) in [
            ("system", "#%Module\nsetenv\tEBVERSIONGCC\t\t\"12.2.0\"\n"),
            (
                "system.lua",
                "setenv(\"EBROOTGCC\", \"/usr\")\nsetenv(\"EBVERSIONGCC\", \"12.2.0\")\n",
            ),
        ] {
            let tree = tempfile::tempdir().unwrap();
            for (place, text) in [
                ("GCC/system", "name = 'GCC'\nversion = 'system'\ntoolchain = SYSTEM\n"),
                (
                    "x/1.0-GCC-system",
                    "name = 'x'\nversion = '1.0'\n\
                     toolchain = {'name': 'GCC', 'version': 'system'}\n",
                ),
            ] {
                let notes = tree.path().join(SOFTWARE).join(place).join(NOTES);
                fs::create_dir_all(&notes).unwrap();
                fs::write(notes.join("a.eb"), text).unwrap();
            }
            let modules = tree.path().join(MODULES).join("GCC");
            fs::create_dir_all(&modules).unwrap();
            fs::write(modules.join(file), text).unwrap();
            let found = parts(tree.path(), "/apps", None);
            let [gcc, x] = found.as_slice() else { panic!("{found:?}") };
            assert_eq!(gcc.record.version, "12.2.0", "{file}");
            assert_eq!((x.record.version.as_str(), x.record.variants.as_str()), ("1.0", ""));
            assert_eq!(x.record.compilers, ["GCC@12.2.0"]);
        }
    }

    #[test]
    fn a_package_has_its_toolchain_and_suffix_beside_its_version() {
        let tree = tempfile::tempdir().unwrap();
        let notes = tree.path().join("software/x/1.0-GCC-13.2.0-CUDA-12.1/easybuild");
        fs::create_dir_all(notes.join("reprod")).unwrap();
        fs::write(notes.join("x-1.0-GCC-13.2.0-CUDA-12.1.eb"), "version = local_v\n").unwrap();
        let plain =
            "name = 'x'\nversion = '1.0'\ntoolchain = {'name': 'GCC', 'version': '13.2.0'}\n";
        fs::write(notes.join("reprod/x-1.0-GCC-13.2.0-CUDA-12.1.eb"), plain).unwrap();
        let explicit = BTreeSet::from(["other.eb"]);
        let parts = parts(tree.path(), "/apps", Some(&explicit));
        let record = &parts[0].record;
        assert_eq!((record.version.as_str(), record.explicit), ("1.0", false));
        assert_eq!(record.compilers, ["GCC@13.2.0"]);
        assert_eq!(record.variants, "versionsuffix=-CUDA-12.1");
    }
}
