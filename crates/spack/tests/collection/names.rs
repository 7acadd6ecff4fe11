// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is read of package recipes, and what Spack says about them.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use cabane_spack::{PackageIndex, RepositoryFiles, Values, declared, is_virtual};
use cabane_testkit::{not_run, say};
use serde_json::Value;

/// A directory with a package repository.
struct Directory(PathBuf);

pub(crate) fn index(namespace: &str, directory: &Path) -> Rc<PackageIndex> {
    Rc::new(PackageIndex::new(namespace, Box::new(Directory(directory.to_owned()))))
}

impl RepositoryFiles for Directory {
    fn list(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.0.join(directory)).into_iter().flatten();
        entries.map(|one| one.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.0.join(path)).ok()
    }
}

/// Prints what Spack has read of every package.
const DUMP: &str = r"import json, spack.repo, spack.variant
def all():
    for name in spack.repo.PATH.all_package_names():
        one = spack.repo.PATH.get_pkg_class(name)
        provided = sorted({p.name for some in one.provided.values() for p in some})
        values = {}
        for variant in one.variant_names():
            for _, definition in one.variant_definitions(variant):
                # Spack takes any value if it has a function for them.
                known = definition.values
                if isinstance(known, spack.variant.DisjointSetsOfValues) or known is not None:
                    known = [str(value) for value in known]
                values.setdefault(variant, []).append(known)
        yield name, [sorted(map(str, one.versions)), sorted(one.variant_names()), provided, values]
print(json.dumps(dict(all())))
";

fn dump(spack: &Path, packages: &Path) -> Value {
    let place = tempfile::tempdir().unwrap();
    let repos = format!("repos:\n  builtin: {}\n", packages.display());
    fs::write(place.path().join("repos.yaml"), repos).unwrap();
    fs::write(place.path().join("dump.py"), DUMP).unwrap();
    let mut command = Command::new(spack.join("bin/spack"));
    command.arg("python").arg(place.path().join("dump.py"));
    command.env("SPACK_USER_CONFIG_PATH", place.path());
    command.env("SPACK_USER_CACHE_PATH", place.path().join("cache"));
    command.env("SPACK_SYSTEM_CONFIG_PATH", place.path().join("nothing"));
    command.env("PYTHONPYCACHEPREFIX", place.path().join("bytecode"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn texts(value: &Value) -> BTreeSet<&str> {
    value.as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect()
}

/// Returns a value that Spack knows and that was not found, if there is one; nothing if the values are
/// not known.
#[expect(clippy::option_option, reason = "not known and not missed are different")]
fn values_missed(found: Option<&Values>, definitions: &Value) -> Option<Option<String>> {
    let found = found.filter(|found| !found.is_open)?;
    let is_known = |value: &&str| {
        let is_switch = matches!(*value, "True" | "False");
        found.is_switch && is_switch || found.known.contains(*value)
    };
    let all = definitions.as_array().unwrap().iter();
    let mut missed = all.flat_map(|definition| match definition.as_array() {
        None => vec!["anything".to_owned()],
        Some(values) => {
            let values = values.iter().map(|value| value.as_str().unwrap());
            values.filter(|value| !is_known(value)).map(str::to_owned).collect()
        }
    });
    Some(missed.next())
}

#[test]
fn nothing_that_spack_knows_of_a_package_is_missed() {
    let named = |name| env::var_os(name).map(PathBuf::from);
    let (Some(spack), Some(packages)) =
        (named("CABANE_TEST_SPACK"), named("CABANE_TEST_SPACK_PACKAGES"))
    else {
        not_run!("CABANE_TEST_SPACK and CABANE_TEST_SPACK_PACKAGES name no clones");
    };
    let packages = packages.join("repos/spack_repo/builtin");
    let known = dump(&spack, &packages);
    let index = [index("builtin", &packages)];
    let mut wrong = Vec::new();
    let (mut closed, mut all) = ([0, 0], 0);
    let mut values = [0, 0];
    for (name, of_spack) in known.as_object().unwrap() {
        all += 1;
        let Some(facts) = declared(&index, name) else {
            wrong.push(format!("{name} is not found"));
            continue;
        };
        let others = [facts.has_other_versions, facts.has_other_variants];
        if !facts.has_other_variants {
            let definitions = of_spack[3].as_object().unwrap().iter();
            for (variant, definitions) in definitions.filter(|(name, _)| *name != "build_system") {
                let found = values_missed(facts.variants.get(variant), definitions);
                values[0] += usize::from(found.is_some());
                values[1] += 1;
                wrong.extend(found.flatten().map(|one| format!("{name} {variant}={one}")));
            }
        }
        let versions: BTreeSet<String> = facts.versions.keys().cloned().collect();
        let variants = facts.variants.keys().cloned().collect();
        for (at, found) in [versions, variants].iter().enumerate() {
            if others[at] {
                continue;
            }
            closed[at] += 1;
            for one in texts(&of_spack[at]) {
                if !found.contains(one) && one != "build_system" {
                    wrong.push(format!("{name}: {one}"));
                }
            }
        }
        for one in texts(&of_spack[2]) {
            if !is_virtual(&index, one) {
                wrong.push(format!("{name} provides {one}"));
            }
        }
    }
    let [known, of] = values;
    say(&format!("of {of} variants, the values of {known}"));
    let [versions, variants] = closed;
    say(&format!("of {all} packages, all versions of {versions} and all variants of {variants}"));
    assert!(all > 0 && wrong.is_empty(), "{wrong:#?}");
}
