// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Packages for Red Hat, Fedora, and SUSE, with `rpmbuild`.

use std::fs;
use std::path::{Path, PathBuf};

use cabane_label::escape;
use cabane_report::{IoContext as _, Kind, Report, Result};

use crate::documents::usage;
use crate::libraries::{Libraries, Library};
use crate::tool::{run, tool};
use crate::{Packaged, Work};

/// Directories that every system has: no package may own them.
const COMMON: [&str; 6] = ["/opt", "/srv", "/usr", "/usr/local", "/usr/share", "/"];

/// What is set for every package: files stay as they are, and nothing depends on the machine or the user.
const SETTINGS: [&str; 12] = [
    "_build_id_links none",
    "_build_name_fmt package.rpm",
    "_buildhost localhost",
    "__os_install_post %{nil}",
    "__check_files %{nil}",
    "clamp_mtime_to_source_date_epoch 1",
    "debug_package %{nil}",
    "packager %{nil}",
    "use_source_date_epoch_as_buildtime 1",
    "vendor %{nil}",
    "distribution %{nil}",
    "source_date_epoch_from_changelog 0",
];

/// Returns what the package requires, as the generator of rpm writes it.
pub(crate) fn requires(work: &Work<'_>, libraries: &Libraries<'_>) -> Vec<String> {
    let is_here = libraries.is_for_this_machine;
    let mut requires = libraries.as_rpm(|one| !(is_here && one.is_optional()));
    let interpreter = work.subject.image.meta.needs.interpreter.as_ref();
    requires.extend(interpreter.map(|need| need.path.to_string_lossy().into_owned()));
    requires
}

/// Makes the package, and returns where it is.
pub(crate) fn build(
    work: &Work<'_>,
    libraries: &Libraries<'_>,
    made: &Packaged,
) -> Result<PathBuf> {
    let scratch = work.scratch.to_string_lossy();
    if scratch.contains(|one: char| one.is_whitespace() || "%\"'$\\".contains(one)) {
        let message = format!("rpmbuild cannot work in the directory {scratch}");
        return Err(Report::new(Kind::Failure, message)
            .hinted("name another one: `TMPDIR=/var/tmp`".to_owned()));
    }
    let spec = work.scratch.join("package.spec");
    let text = spec_of(libraries, made)?;
    fs::write(&spec, text).or_failed(|| format!("write {}", spec.display()))?;
    let mut command = tool(work, "rpmbuild")?;
    command.args(["-bb", "--quiet", "--nodeps", "--noclean"]);
    command.arg(format!("--target={}-linux", made.identity.architecture));
    command.arg("--define").arg(format!("_topdir {scratch}/rpm"));
    command.arg("--define").arg(format!("_rpmdir {scratch}"));
    command.arg("--define").arg(format!("_tmppath {scratch}"));
    for setting in SETTINGS {
        command.arg("--define").arg(setting);
    }
    command.env("PACKAGE_TREE", work.tree).arg(&spec);
    run("rpmbuild", &mut command)?;
    Ok(work.scratch.join("package.rpm"))
}

fn spec_of(libraries: &Libraries<'_>, made: &Packaged) -> Result<String> {
    let identity = &made.identity;
    let place = made.mount_point.as_path();
    let mut lines = vec![
        format!("Name: {}", identity.name),
        format!("Version: {}", identity.version),
        format!("Release: {}", identity.release),
        format!("Summary: {}", text(&identity.summary)),
        format!(
            "License: {}",
            text(if identity.license.is_empty() { "unknown" } else { &identity.license })
        ),
        format!("Packager: {}", text(&identity.maintainer)),
        "AutoReqProv: no".to_owned(),
        format!("Provides: cabane-image({})", made.digest),
        // No two packages may have files at one mount point, as no two images can be mounted there.
        format!("Provides: cabane-mount-point({})", place.display()),
        format!("Conflicts: cabane-mount-point({})", place.display()),
    ];
    for required in made.depends.iter().flatten() {
        let is_inner = |one: char| one.is_ascii_alphanumeric() || "/._+-~@:()".contains(one);
        if !required.chars().all(is_inner) {
            let message = format!("`{}` cannot be required by a package", escape(required));
            return Err(Report::new(Kind::BadInput, message));
        }
        lines.push(format!("Requires: {required}"));
    }
    if libraries.is_for_this_machine {
        let optional = libraries.as_rpm(Library::is_optional);
        lines.extend(optional.iter().map(|name| format!("Recommends: {name}")));
    }
    lines.extend([
        String::new(),
        "%description".to_owned(),
        text(&usage(made)),
        String::new(),
        "%install".to_owned(),
        "mkdir -p \"$RPM_BUILD_ROOT\"".to_owned(),
        "mv \"$PACKAGE_TREE\"/* \"$RPM_BUILD_ROOT\"/".to_owned(),
        String::new(),
        "%files".to_owned(),
        "%defattr(-,root,root,-)".to_owned(),
    ]);
    let above = place.ancestors().skip(1).filter(|one| !COMMON.map(Path::new).contains(one));
    lines.extend(above.map(|directory| format!("%dir {}", directory.display())));
    let own = [place.to_owned(), identity.directory(), identity.documentation()];
    lines.extend(own.iter().map(|path| path.display().to_string()));
    Ok(lines.join("\n") + "\n")
}

/// A text in which nothing is a macro, however often it is expanded.
fn text(line: &str) -> String {
    line.replace('%', " percent").replace('\\', "/")
}
