// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Packages for Debian, with `dpkg-shlibdeps` and `dpkg-deb`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use cabane_compat::LibraryLack;
use cabane_label::escape;
use cabane_report::{IoContext as _, Kind, Report, Result};
use cabane_view::InterpreterNeed;

use crate::documents::usage;
use crate::identity::is_name;
use crate::libraries::{Libraries, Library};
use crate::stage::{below, set_time};
use crate::survey::Survey;
use crate::tool::{run, tool};
use crate::{Packaged, Work};

/// How many files are named in one command line.
const FILES_AT_ONCE: usize = 1000;

/// Returns the packages that own the libraries and the interpreter, with their least versions.
pub(crate) fn depends(
    work: &Work<'_>,
    libraries: &Libraries<'_>,
    survey: &Survey,
    made: &Packaged,
) -> Result<Vec<String>> {
    let mut depends = BTreeSet::new();
    if let Some(need) = &work.subject.image.meta.needs.interpreter {
        depends.insert(owner(work, need)?);
    }
    if libraries.all.is_empty() {
        return Ok(depends.into_iter().collect());
    }
    if !libraries.is_for_this_machine {
        let message = format!(
            "the programs are for {}, and `dpkg-shlibdeps` looks for their libraries on this machine",
            made.identity.architecture
        );
        return Err(Report::new(Kind::BadInput, message)
            .hinted("type this command on such a machine".to_owned()));
    }
    refuse_missing(libraries)?;
    let optional: Vec<&Library<'_>> =
        libraries.all.iter().filter(|library| library.is_optional()).collect();
    for library in &optional {
        work.context.warning(format_args!(
            "this machine has no {}, which only plugins need; the package does not depend on it",
            library.needed.name
        ));
    }
    let is_complete = |needed: &[String]| {
        !needed.iter().any(|name| optional.iter().any(|one| one.needed.name == *name))
    };
    let place = work.subject.image.mount_point.as_path();
    let linked: Vec<PathBuf> = survey
        .linked
        .iter()
        .filter(|(_, needed)| is_complete(needed))
        .map(|(path, _)| below(Path::new("tree"), &place.join(path)))
        .collect();
    let directories: BTreeSet<PathBuf> =
        survey.linked.iter().filter_map(|(path, _)| Some(place.join(path.parent()?))).collect();
    prepare(work).or_failed(|| "write the input of dpkg-shlibdeps".to_owned())?;
    for some in linked.chunks(FILES_AT_ONCE) {
        let mut command = tool(work, "dpkg-shlibdeps")?;
        command.args(["-O", "--warnings=0"]);
        let private = directories.iter().map(|directory| format!("-l{}", directory.display()));
        command.args(private).args(some.iter().map(|path| format!("-e{}", path.display())));
        let said = run("dpkg-shlibdeps", &mut command)?;
        let found = said.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
        depends.extend(found.unwrap_or_default().split(',').map(|one| one.trim().to_owned()));
    }
    depends.remove("");
    Ok(depends.into_iter().collect())
}

/// Refuses libraries that are nowhere: no package could be named for them.
fn refuse_missing(libraries: &Libraries<'_>) -> Result<()> {
    let missing = libraries.all.iter().filter(|library| !library.needed.later);
    let lines: Vec<String> = missing
        .filter_map(|library| {
            let name = &library.needed.name;
            let what = match library.lack.as_ref()? {
                LibraryLack::Library => name.clone(),
                LibraryLack::Versions(versions) => format!("{name} with {}", versions.join(", ")),
            };
            Some(format!("{what}, needed by {}", escape(library.needed.users.first()?)))
        })
        .collect();
    if lines.is_empty() {
        return Ok(());
    }
    let message = "neither this machine nor the package has these libraries, so no package can be named for them";
    Err(Report::new(Kind::BadInput, message)
        .detailed(lines.join("\n"))
        .hinted("type this command on a node that runs the programs".to_owned()))
}

/// Returns the package of an interpreter.
fn owner(work: &Work<'_>, need: &InterpreterNeed) -> Result<String> {
    let path = need.path.to_string_lossy();
    let name = need.path.file_name().unwrap_or_default().to_string_lossy();
    let mut command = tool(work, "dpkg-query")?;
    // The package of this name has the whole language, and another one may have the program alone.
    command.args(["--show", "--showformat=${db:Status-Status}", "--", &name]);
    if is_name(&name) && run("dpkg-query", &mut command).is_ok_and(|status| status == "installed") {
        return Ok(name.into_owned());
    }
    let mut command = tool(work, "dpkg-query")?;
    command.args(["--search", "--"]).arg(&need.path);
    let found = run("dpkg-query", &mut command).ok();
    let package = found.as_deref().and_then(|line| line.split([':', ',']).next());
    package.filter(|name| is_name(name)).map(str::to_owned).ok_or_else(|| {
        let message = format!(
            "the image needs Python {} at {}, and no package of this machine has it",
            escape(&need.version),
            escape(&path)
        );
        Report::new(Kind::BadInput, message)
    })
}

/// Makes the tree look like the source of a package: libraries in it are its own.
fn prepare(work: &Work<'_>) -> std::io::Result<()> {
    fs::create_dir_all(work.scratch.join("debian"))?;
    fs::create_dir_all(work.tree.join("DEBIAN"))?;
    fs::write(
        work.scratch.join("debian/control"),
        "Source: image\n\nPackage: image\nArchitecture: any\n",
    )
}

/// Makes the package, and returns where it is.
pub(crate) fn build(work: &Work<'_>, made: &Packaged) -> Result<PathBuf> {
    let directory = work.tree.join("DEBIAN");
    let control = directory.join("control");
    let failed = || format!("write {}", control.display());
    fs::create_dir_all(&directory).or_failed(failed)?;
    fs::write(&control, control_of(made)).or_failed(failed)?;
    for (path, mode) in [(&control, 0o644), (&directory, 0o755), (&work.tree.to_owned(), 0o755)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).or_failed(failed)?;
        set_time(path, work.epoch).or_failed(failed)?;
    }
    let package = work.scratch.join("package.deb");
    let mut command = tool(work, "dpkg-deb")?;
    command.args(["--root-owner-group", "-Zxz", "--build"]);
    run("dpkg-deb", command.arg(work.tree).arg(&package))?;
    Ok(package)
}

fn control_of(made: &Packaged) -> String {
    let identity = &made.identity;
    // No two packages may have files at one mount point, as no two images can be mounted there.
    let place: String = made.mount_point.as_str().trim_start_matches('/').to_ascii_lowercase();
    let place = format!("cabane-mount-point-{}", place.replace(['/', '_'], "-"));
    let mut fields = vec![
        ("Package", identity.name.clone()),
        ("Version", identity.full_version()),
        ("Architecture", identity.architecture.clone()),
        ("Maintainer", identity.maintainer.clone()),
        ("Installed-Size", made.installed_size.div_ceil(1024).to_string()),
        ("Depends", made.depends.as_deref().unwrap_or_default().join(", ")),
        ("Conflicts", place.clone()),
        ("Provides", place),
        ("Section", "misc".to_owned()),
        ("Priority", "optional".to_owned()),
        ("Cabane-Image", made.digest.clone()),
        ("Description", format!("{}\n {}", identity.summary, usage(made))),
    ];
    fields.retain(|(_, value)| !value.is_empty());
    let lines = fields.iter().map(|(name, value)| format!("{name}: {value}\n"));
    lines.collect::<Vec<_>>().concat()
}
