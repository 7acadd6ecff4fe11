// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Makes equal what differs from one build of the same packages to the next: times, and
//! whether a package was built or came from a cache.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::{BuildError, Result, disk, pack};

/// The database of a store.
const DATABASE: &str = ".spack-db";
/// What Spack writes beside the files of a package.
pub(super) const NOTES: &str = ".spack";
/// Those that say where a package was unpacked from, and how long each step took. The
/// output of builds is in the log of the step.
const PASSING: [&str; 2] = ["binary_distribution", "spack-build-out.txt.gz"];
/// The variables of the commands that built a package.
const ENVIRONMENT: &str = "spack-build-env.txt";
/// The list of what a package is made of.
pub(super) const BILL: &str = "sbom/spdx-2.3.json";

/// The machine on which a package was built.
const MACHINE: &str = "install_environment.json";

/// The list of a package's files, by which Spack tells whether one was changed.
const MANIFEST: &str = "install_manifest.json";

/// Settles the packages of a store that will be mounted at `mount_point`: `epoch` is the
/// time at which all of them were installed, in seconds since 1970.
pub(super) fn packages(store: &Path, mount_point: &Path, epoch: u32) -> Result<()> {
    let database = store.join(DATABASE);
    let mut prefixes = Vec::new();
    rewrite(&database.join("index.json"), |document| {
        let installs = document.pointer_mut("/database/installs");
        let installs = installs.and_then(Value::as_object_mut);
        for record in installs.into_iter().flat_map(|all| all.values_mut()) {
            let prefix = record.get("path").and_then(Value::as_str);
            // Packages of the system are not below the mount point, and have no notes.
            let relative = Path::new(prefix.unwrap_or_default()).strip_prefix(mount_point);
            prefixes.extend(relative.map(|relative| store.join(relative)));
            if let Some(record) = record.as_object_mut() {
                record.insert("installation_time".to_owned(), epoch.into());
            }
        }
    })?;
    for prefix in prefixes {
        let notes = prefix.join(NOTES);
        let relative = prefix.strip_prefix(store).unwrap_or(&prefix);
        let moved = moved_from(&notes.join(MANIFEST), relative);
        let moved = moved.filter(|from| Path::new(from) != mount_point);
        let moved = moved.map(|from| (from, mount_point.to_string_lossy().into_owned()));
        forget(&notes)?;
        let bill = notes.join(BILL);
        if bill.is_file() {
            rewrite(&bill, |document| {
                if let Some(created) = document.pointer_mut("/creationInfo/created") {
                    *created = "1980-01-01T00:00:00Z".into();
                }
            })?;
        }
        let machine = notes.join(MACHINE);
        if machine.is_file() {
            rewrite(&machine, forget_machine)?;
        }
        let manifest = notes.join(MANIFEST);
        if manifest.is_file() {
            rewrite(&manifest, |document| {
                if let Some((from, to)) = &moved {
                    move_manifest(document, from, to);
                }
                settle_manifest(document, epoch);
            })?;
        }
        if let Some((from, to)) = &moved {
            move_environment(&notes.join(ENVIRONMENT), from, to)?;
        }
    }
    // Names this copy of the database, so that others notice when it changes.
    disk::remove(&database.join("index_verifier"))
}

/// Removes the name of the machine and its kernel: packages of one image may come from several nodes.
fn forget_machine(document: &mut Value) {
    for name in ["hostname", "kernel_version"] {
        if let Some(value) = document.get_mut(name) {
            *value = "unknown".into();
        }
    }
}

/// Returns the mount point that a package was built for: that of the paths in its manifest.
/// `relative` is where the package is below a mount point.
fn moved_from(manifest: &Path, relative: &Path) -> Option<String> {
    let files: Map<String, Value> = disk::read_json(manifest, 1 << 30)?;
    let end = format!("/{}", relative.display());
    files.keys().find_map(|path| path.strip_suffix(&end)).map(str::to_owned)
}

/// Lets a manifest name files where they are now: Spack leaves the paths of the build.
fn move_manifest(document: &mut Value, from: &str, to: &str) {
    let moved = |path: &str| {
        let rest = path.strip_prefix(from).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        rest.map_or_else(|| path.to_owned(), |rest| format!("{to}{rest}"))
    };
    let Some(files) = document.as_object_mut() else {
        return;
    };
    let listed = std::mem::take(files).into_iter().map(|(path, mut file)| {
        if let Some(Value::String(target)) = file.get_mut("dest") {
            *target = moved(target);
        }
        (moved(&path), file)
    });
    files.extend(listed);
}

/// Lets the variables of the build name what is there now.
fn move_environment(path: &Path, from: &str, to: &str) -> Result<()> {
    if !path.is_file() {
        return Ok(());
    }
    let text = disk::read(path)?;
    let text = String::from_utf8_lossy(&text);
    disk::write(path, text.replace(&format!("{from}/"), &format!("{to}/")).as_bytes())
}

/// Lets a manifest describe the files as they are in the image: of root, with the modes
/// and the time that all get there. What this build removes or changes is not listed.
fn settle_manifest(document: &mut Value, epoch: u32) {
    let Some(files) = document.as_object_mut() else {
        return;
    };
    let is_ours = |path: &str| {
        let mut ours = PASSING.iter().chain([&BILL, &MACHINE]);
        ours.any(|name| path.ends_with(&format!("/{NOTES}/{name}")))
    };
    files.retain(|path, _| !is_ours(path));
    for file in files.values_mut().filter_map(Value::as_object_mut) {
        for name in ["owner", "group"] {
            file.insert(name.to_owned(), 0.into());
        }
        if let Some(time) = file.get_mut("time") {
            *time = f64::from(epoch).into();
        }
        let mode = file.get("mode").and_then(Value::as_u64);
        if let Some(mode) = mode.and_then(|mode| u32::try_from(mode).ok()) {
            file.insert("mode".to_owned(), pack::mode_in_image(mode).into());
        }
    }
}

/// Settles a view: it links the notes of its packages.
pub(super) fn view(view: &Path) -> Result<()> {
    directories(&view.join(NOTES)).iter().try_for_each(|notes| forget(notes))
}

fn forget(notes: &Path) -> Result<()> {
    PASSING.iter().try_for_each(|name| disk::remove(&notes.join(name)))
}

/// Takes the time out of the heads of module files.
pub(super) fn modules(directory: &Path) -> Result<()> {
    let failed = || BuildError::file("list", directory);
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed()(error)),
    };
    for entry in entries {
        let entry = entry.map_err(failed())?;
        let path = entry.path();
        if entry.file_type().map_err(failed())?.is_dir() {
            modules(&path)?;
            continue;
        }
        let text = disk::read(&path)?;
        let text = String::from_utf8_lossy(&text);
        let settled: String = text.split_inclusive('\n').map(without_time).collect();
        if settled != text {
            disk::put(&path, settled)?;
        }
    }
    Ok(())
}

/// `## Module file created by spack (…) on 2026-11-21 15:51:27.5` loses its end.
fn without_time(line: &str) -> String {
    let end = line.contains("created by spack").then(|| line.rfind(" on ")).flatten();
    match end.and_then(|end| line.get(..end)) {
        Some(start) => format!("{start}\n"),
        None => line.to_owned(),
    }
}

fn directories(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn rewrite(path: &Path, change: impl FnOnce(&mut Value)) -> Result<()> {
    let text = disk::read(path)?;
    let mut document: Value =
        serde_json::from_slice(&text).map_err(BuildError::file("read", path))?;
    change(&mut document);
    let text = serde_json::to_vec(&document).map_err(BuildError::file("write", path))?;
    disk::write(path, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_describes_the_files_as_they_are_in_the_image() {
        let file = |mode: u32, time: f64| serde_json::json!({"mode": mode, "owner": 7, "group": 7, "hash": "X", "time": time, "size": 1});
        let mut document = serde_json::json!({
            "/m/hello/bin/hello": file(0o100_750, 1795.25),
            "/m/hello/.spack/sbom/spdx-2.3.json": file(0o100_644, 1795.5),
            "/m/hello/.spack/install_environment.json": file(0o100_644, 1795.5),
            "/m/hello/.spack/binary_distribution": file(0o100_644, 1795.5),
            "/m/hello/lib": {"mode": 0o120_777, "owner": 7, "group": 7, "dest": "lib64"},
        });
        settle_manifest(&mut document, 5);
        let expected = serde_json::json!({
            "/m/hello/bin/hello": {"mode": 0o100_755, "owner": 0, "group": 0, "hash": "X", "time": 5.0, "size": 1},
            "/m/hello/lib": {"mode": 0o120_777, "owner": 0, "group": 0, "dest": "lib64"},
        });
        assert_eq!(document, expected);
    }

    #[test]
    fn the_machine_that_built_a_package_is_forgotten_and_its_processor_stays() {
        let mut document = serde_json::json!({"hostname": "n2", "host_target": "zen3"});
        forget_machine(&mut document);
        let expected = serde_json::json!({"hostname": "unknown", "host_target": "zen3"});
        assert_eq!(document, expected);
    }

    #[test]
    fn a_manifest_names_the_files_of_a_package_that_was_moved() {
        let mut document = serde_json::json!({
            "/user-environment/hello/bin/hello": {"hash": "X"},
            "/user-environment/hello/lib": {"dest": "/user-environment/hello/lib64"},
            "/user-environment-too/hello": {},
        });
        move_manifest(&mut document, "/user-environment", "/opt");
        let expected = serde_json::json!({
            "/opt/hello/bin/hello": {"hash": "X"},
            "/opt/hello/lib": {"dest": "/opt/hello/lib64"},
            "/user-environment-too/hello": {},
        });
        assert_eq!(document, expected);
    }

    #[test]
    fn the_head_of_a_module_file_loses_its_time() {
        let head = "## Module file created by spack (https://example.org) on 2026-11-21 15:51:27\n";
        assert_eq!(without_time(head), "## Module file created by spack (https://example.org)\n",);
    }

    #[test]
    fn other_lines_of_a_module_file_stay() {
        let line = "prepend-path PATH /opt/on the/bin on demand\n";
        assert_eq!(without_time(line), line);
    }
}
