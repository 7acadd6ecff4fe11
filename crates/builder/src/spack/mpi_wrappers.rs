// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The compiler wrappers of an MPI of the system, in views.
//!
//! Spack puts nothing of an external package into a view. So `mpicc` would be what the `PATH`
//! of a user finds first, or nothing, and it would call the compiler of the system. Here the
//! view gets a script for each wrapper and launcher of the MPI. The directory of the MPI is not
//! added to `PATH`: with `/usr/bin` in front, all other programs of the system would hide those
//! of images.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cabane_recipe::{StackEnvironment, StackView, package_name};
use cabane_report::shell_word;
use cabane_spack::Spec;
use cabane_view::{Change, EnvPatch};

use super::compilers::Found;
use super::{SpackEngine, inputs, lock};
use crate::{BuildError, Result, disk};

/// The wrappers and launchers, each with the language that it compiles.
const PROGRAMS: [(&str, Option<&str>); 10] = [
    ("mpicc", Some("c")),
    ("mpicxx", Some("cxx")),
    ("mpic++", Some("cxx")),
    ("mpiCC", Some("cxx")),
    ("mpifort", Some("fortran")),
    ("mpif77", Some("fortran")),
    ("mpif90", Some("fortran")),
    ("mpifc", Some("fortran")),
    ("mpiexec", None),
    ("mpirun", None),
];

/// MPIs, each with the beginning of the variables that name its compilers.
const MPIS: [(&str, &str); 8] = [
    ("openmpi", "OMPI_"),
    ("hpcx-mpi", "OMPI_"),
    ("spectrum-mpi", "OMPI_"),
    ("mpich", "MPICH_"),
    ("cray-mpich", "MPICH_"),
    ("mvapich", "MPICH_"),
    ("mvapich2", "MPICH_"),
    ("intel-oneapi-mpi", "I_MPI_"),
];

/// Tells whether a package is an MPI.
pub(super) fn is_mpi(package: &str) -> bool {
    MPIS.iter().any(|(name, _)| *name == package)
}

/// An MPI of the system that an environment uses.
struct SystemMpi {
    spec: Spec,
    variables: &'static str,
    /// The directory of its programs.
    directory: PathBuf,
}

/// Writes the wrappers into a view, where its environment uses an MPI of the system. `here` is
/// where the view is now, and `compilers` are those of the environment, the first one first.
/// What the view has already stays.
pub(super) fn add(
    engine: &SpackEngine,
    environment: &StackEnvironment,
    view: &StackView,
    here: &Path,
    compilers: &[&Found],
) -> Result<()> {
    let Some(mpi) = used(engine, environment)? else {
        return Ok(());
    };
    if !is_shown(view, &mpi.spec.name) {
        return Ok(());
    }
    let directory = here.join("bin");
    for (program, language) in PROGRAMS {
        let place = directory.join(program);
        let Some(target) = program_of(&mpi, program) else {
            continue;
        };
        if place.symlink_metadata().is_ok() {
            continue;
        }
        let compiler = language.and_then(|language| {
            compilers.iter().find_map(|found| Some((language, found.get(language)?)))
        });
        disk::put(&place, script(&mpi, program, &target, compiler))?;
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&place, mode).map_err(BuildError::file("write", &place))?;
    }
    Ok(())
}

/// Replaces variables such as `MPICC` that name a wrapper of the system with the one in the view,
/// which is `root` in the image and `here` now.
pub(super) fn name_those_of_view(patch: &EnvPatch, here: &Path, root: &str) -> EnvPatch {
    let mut renamed = EnvPatch::new();
    for (name, changes) in patch.iter() {
        for change in changes {
            let own = match change {
                Change::Set(value) if name.starts_with("MPI") => own_wrapper(value, here, root),
                _ => None,
            };
            renamed.push(name, own.map_or_else(|| change.clone(), Change::Set));
        }
    }
    renamed
}

fn own_wrapper(value: &str, here: &Path, root: &str) -> Option<String> {
    let name = Path::new(value).file_name()?.to_str()?;
    let is_wrapper = PROGRAMS.iter().any(|(program, _)| *program == name);
    let is_there = is_wrapper && here.join("bin").join(name).exists();
    (value.starts_with('/') && is_there).then(|| format!("{root}/bin/{name}"))
}

/// Finds the MPI of an environment, if it is one of the system.
fn used(engine: &SpackEngine, environment: &StackEnvironment) -> Result<Option<SystemMpi>> {
    let named = environment.mpi.iter().map(|mpi| mpi.package.as_str());
    let specs = environment.specs.iter().map(|spec| package_name(spec));
    let known = |name| MPIS.iter().find(|(package, _)| *package == name);
    let Some((package, variables)) = named.chain(specs).find_map(known) else {
        return Ok(None);
    };
    // What the environment asks of it: others may use another one.
    let asked = environment.mpi.iter().map(|mpi| mpi.spec.as_str());
    let asked = asked.chain(environment.specs.iter().map(String::as_str));
    let mut asked = asked.filter(|spec| package_name(spec) == *package);
    let asked = asked.next().unwrap_or_default();
    let mut found: Vec<SystemMpi> = Vec::new();
    for one in &engine.stack().environments {
        let path = inputs::lock_file(&engine.layout, &one.name);
        if !path.exists() {
            continue;
        }
        for spec in lock::read(&path)?.into_values().filter(|spec| spec.name == *package) {
            let prefix = spec.external.as_ref().and_then(|external| external.get("path")?.as_str());
            let Some(directory) = prefix.and_then(|prefix| programs(Path::new(prefix), &spec))
            else {
                continue;
            };
            let is_known = found.iter().any(|mpi| mpi.directory == directory);
            if !is_known && cabane_spack::may_be(asked, &spec.version) {
                found.push(SystemMpi { spec, variables, directory });
            }
        }
    }
    // Of several, the wrong one would compile programs for an MPI that the packages do not use.
    let is_certain = found.len() == 1;
    Ok(found.pop().filter(|_| is_certain))
}

/// The directory below a prefix in which `mpicc` is. The MPI of Intel is in a directory of its
/// own.
fn programs(prefix: &Path, spec: &Spec) -> Option<PathBuf> {
    let intel = prefix.join("mpi").join(&spec.version).join("bin");
    let mut directories = [prefix.join("bin"), intel].into_iter();
    directories.find(|directory| directory.join("mpicc").exists())
}

/// Whether the view shows the package, by what the recipe selects and excludes.
fn is_shown(view: &StackView, package: &str) -> bool {
    let names = |specs: &[String]| specs.iter().any(|spec| package_name(spec) == package);
    !names(&view.exclude) && (view.select.is_empty() || names(&view.select))
}

/// Where a program of the MPI is. Where a system has several in one directory, those of each
/// have its name: `mpicc` may belong to another one on another node.
fn program_of(mpi: &SystemMpi, program: &str) -> Option<PathBuf> {
    let own = mpi.directory.join(format!("{program}.{}", mpi.spec.name));
    [own, mpi.directory.join(program)].into_iter().find(|path| path.exists())
}

fn script(
    mpi: &SystemMpi,
    program: &str,
    target: &Path,
    compiler: Option<(&str, &PathBuf)>,
) -> String {
    let about = format!("# Runs {program} of {}, an MPI of the system.", mpi.spec.id());
    let mut lines = vec!["#!/bin/sh".to_owned(), about];
    if let Some((language, path)) = compiler {
        let names: &[&str] = match language {
            "c" => &["CC"],
            "cxx" => &["CXX"],
            _ => &["FC", "F77", "F90"],
        };
        for name in names {
            let variable = format!("{}{name}", mpi.variables);
            let path = path.to_string_lossy();
            let path = shell_word(&path);
            lines.push(format!("export {variable}=\"${{{variable}:-}}\""));
            lines.push(format!("[ -n \"${variable}\" ] || {variable}={path}"));
        }
    }
    lines.push(format!("exec {} \"$@\"", shell_word(&target.to_string_lossy())));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// An MPI in a directory, whose programs say their names, compilers, and arguments.
    fn mpi(name: &str, variables: &'static str, directory: &Path, programs: &[&str]) -> SystemMpi {
        for program in programs {
            let path = directory.join(program);
            let text = format!("#!/bin/sh\necho {program} ${variables}CC ${variables}FC \"$@\"\n");
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let text = format!(r#"{{"name":"{name}","version":"4.1","arch":{{"target":"zen4"}}}}"#);
        let spec = serde_json::from_str(&text).unwrap();
        SystemMpi { spec, variables, directory: directory.to_owned() }
    }

    /// Runs a wrapper as it is written, and returns what the program behind it says.
    fn said(mpi: &SystemMpi, program: &str, language: &str, variable: Option<&str>) -> String {
        let target = program_of(mpi, program).unwrap();
        let compiler = PathBuf::from("/opt/it's/gcc");
        let script = script(mpi, program, &target, Some((language, &compiler)));
        let mut shell = Command::new("/bin/sh");
        shell.env_clear().args(["-c", &script, "sh", "a b"]);
        shell.envs(variable.map(|name| (name, "own")));
        String::from_utf8(shell.output().unwrap().stdout).unwrap()
    }

    #[test]
    fn a_wrapper_of_the_mpi_itself_is_run_with_the_compiler_of_the_image() {
        let directory = tempfile::tempdir().unwrap();
        let programs = ["mpicc", "mpicc.openmpi", "mpifort"];
        let open_mpi = mpi("openmpi", "OMPI_", directory.path(), &programs);
        let seen = [
            said(&open_mpi, "mpicc", "c", None),
            said(&open_mpi, "mpifort", "fortran", None),
            said(&open_mpi, "mpicc", "c", Some("OMPI_CC")),
        ];
        let expected = [
            "mpicc.openmpi /opt/it's/gcc a b\n",
            "mpifort /opt/it's/gcc a b\n",
            "mpicc.openmpi own a b\n",
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn each_mpi_has_variables_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let mpich = mpi("mpich", "MPICH_", directory.path(), &["mpicc"]);
        let seen = said(&mpich, "mpicc", "c", Some("OMPI_CC"));
        assert_eq!(seen, "mpicc /opt/it's/gcc a b\n");
        assert_eq!(program_of(&mpich, "mpirun"), None);
    }

    #[test]
    fn variables_name_the_wrappers_that_are_in_the_view() {
        let view = tempfile::tempdir().unwrap();
        fs::create_dir(view.path().join("bin")).unwrap();
        fs::write(view.path().join("bin/mpicc"), "").unwrap();
        let mut patch = EnvPatch::new();
        let values = [("MPICC", "/usr/bin/mpicc"), ("MPICXX", "/usr/bin/mpic++"), ("CC", "mpicc")];
        for (name, value) in values {
            patch.push(name, Change::Set(value.to_owned()));
        }
        let renamed = name_those_of_view(&patch, view.path(), "/image/env/a");
        let seen: Vec<_> = renamed.iter().map(|(name, changes)| (name, changes.to_vec())).collect();
        let set = |value: &str| vec![Change::Set(value.to_owned())];
        let expected = [
            ("MPICC", set("/image/env/a/bin/mpicc")),
            ("MPICXX", set("/usr/bin/mpic++")),
            ("CC", set("mpicc")),
        ];
        assert_eq!(seen, expected);
    }
}
