// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Packages that a toolchain of the system's compilers builds, with the real EasyBuild.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use cabane_testkit::{Finished, not_run};

use crate::cabane::{Who, everybody};
use crate::easybuild::{CONFIG, EASYCONFIG, Recipe, tools, version};
use crate::module_views::{Tool, lmod, modules};

/// The compilers of the system as a package.
const GCC: &str = "\
easyblock = 'SystemCompilerGCC'
name = 'GCC'
version = 'system'
homepage = 'https://gcc.gnu.org'
description = 'The compilers of the system'
toolchain = SYSTEM
moduleclass = 'compiler'
";

const TOOLCHAIN: &str = "toolchain = {'name': 'GCC', 'version': 'system'}";

/// A program in C that calls a function in Fortran, built with the variables of the toolchain.
const SOLVER: &str = "\
set -e; cd \"$HOME\"; mkdir -p solver-1.0; cd solver-1.0
cat >norm.f90 <<END
function norm(n, x) bind(c)
  use iso_c_binding
  integer(c_int), value :: n
  real(c_double), intent(in) :: x(n)
  real(c_double) :: norm
  norm = sqrt(sum(x * x))
end function
END
cat >solver.c <<END
#include <stdio.h>
double norm(int n, const double *x);
int main(void) { double x[] = {3, 4}; printf(\"norm %.1f, flags %s\\\\n\", norm(2, x), FLAGS); return 0; }
END
printf 'solver: solver.c norm.f90\\n\\t$(FC) $(FCFLAGS) -c norm.f90\\n' >Makefile
printf '\\t$(CC) $(CFLAGS) -DFLAGS=\\047\"$(CFLAGS)\"\\047 -o solver solver.c norm.o -lgfortran -lm\\n' >>Makefile
cd ..; tar -czf \"$SOURCES/solver-1.0.tar.gz\" solver-1.0
sum=$(sha256sum \"$SOURCES/solver-1.0.tar.gz\" | cut -d ' ' -f 1)
printf %s \"$EASYCONFIG\" | sed \"s/SUM/$sum/; s/NAME/solver/g\" >\"$RECIPE/solver-1.0-GCC-system.eb\"
";

fn recipe(who: Who, python: &str, tool: &Tool) -> Recipe {
    let recipe = Recipe::new(who, python, tool);
    recipe.cabane.world.file("recipe/GCC-system.eb", GCC);
    let easyconfig = EASYCONFIG.replace("toolchain = SYSTEM", TOOLCHAIN);
    let easyconfig = easyconfig.replace(
        "install_cmd = 'make CC=gcc",
        "dependencies = [('base', '1.0', '', SYSTEM)]\ninstall_cmd = 'make",
    );
    let mut command = recipe.cabane.other("bash");
    command.args(["-c", SOLVER]).env("EASYCONFIG", easyconfig);
    command.env("SOURCES", recipe.cabane.world.path("sources"));
    command.env("RECIPE", recipe.cabane.world.path("recipe"));
    recipe.cabane.finish(&mut command).success();
    let config = CONFIG.replace("VERSION", &version(python));
    let config = config.replace("[hello-1.0.eb]", "[solver-1.0-GCC-system.eb]");
    recipe.config(&config.replace("[hello/1.0]", "[solver/1.0-GCC-system]"));
    recipe
}

fn version_of_gcc() -> String {
    let seen = Finished::of(Command::new("gcc").arg("-dumpfullversion")).success();
    seen.stdout.trim().to_owned()
}

/// Leaves a test out if there is no compiler for Fortran.
macro_rules! fortran {
    () => {
        if !Path::new("/usr/bin/gfortran").exists() {
            not_run!("needs gfortran: scripts/setup test");
        }
    };
}

#[test]
fn a_toolchain_of_the_compilers_of_the_system_builds_c_and_fortran() {
    let (python, lmod, modules) = tools!();
    fortran!();
    let gcc = version_of_gcc();
    for who in everybody() {
        for tool in [&lmod, &modules] {
            let recipe = recipe(who, &python, tool);
            recipe.check().success();
            let built = recipe.build(&[]).success();
            for line in ["GCC@system  built", "base@1.0  built", "solver@1.0-GCC-system  built"] {
                assert!(built.stderr.contains(line), "{line}: {}", built.stderr);
            }
            let script = "solver; base; echo $EBROOTGCC $EBVERSIONGCC";
            let run = ["run", "--view=hello", "apps", "--", "sh", "-c", script];
            let seen = recipe.cabane.run(&run).success();
            // Not for the processor of the build machine, as the recipe has no `optimization`.
            let generic = if cfg!(target_arch = "x86_64") {
                "-O2 -ftree-vectorize -march=x86-64 -mtune=generic -fno-math-errno"
            } else {
                "-O2 -ftree-vectorize -mcpu=generic -fno-math-errno"
            };
            let expected = format!("norm 5.0, flags {generic}\nhello from base\n/usr {gcc}\n");
            assert_eq!(seen.stdout, expected, "{who:?} {tool:?}");
        }
    }
}

#[test]
fn the_image_records_the_version_of_the_compiler_and_not_the_word_system() {
    let (python, lmod, _) = tools!();
    fortran!();
    let recipe = recipe(Who::OrdinaryUser, &python, &lmod);
    recipe.build(&[]).success();
    let seen = recipe.cabane.run(&["image", "inspect", "apps", "--packages", "--json"]).success();
    let seen: serde_json::Value = serde_json::from_str(&seen.stdout).unwrap();
    let packages = seen["packages"].as_array().unwrap().iter();
    let packages: Vec<_> = packages
        .map(|one| format!("{} {} {}", one["name"], one["version"], one["compilers"]))
        .collect();
    let gcc = version_of_gcc();
    let expected = [
        format!(r#""GCC" "{gcc}" null"#),
        r#""base" "1.0" null"#.to_owned(),
        format!(r#""solver" "1.0" ["GCC@{gcc}"]"#),
    ];
    assert_eq!(packages, expected);
}

#[test]
fn another_compiler_builds_the_packages_again() {
    let (python, lmod, _) = tools!();
    fortran!();
    let recipe = recipe(Who::OrdinaryUser, &python, &lmod);
    recipe.build(&[]).success();
    let text = "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'gcc (Test) 99.1.0'; exit; fi\n\
                exec /usr/bin/gcc \"$@\"\n";
    let gcc = recipe.cabane.world.file("other/gcc", text);
    fs::set_permissions(&gcc, fs::Permissions::from_mode(0o755)).unwrap();
    let directory = gcc.parent().unwrap().display();
    // As root in a namespace the user may mount, but what is built belongs to the user: hence the second one.
    let mount = format!(
        "user=--map-user=$(id -u) group=--map-group=$(id -g); exec unshare --map-root-user --mount sh -c \
         \"mount --bind {directory} /usr/local/bin && exec unshare $user $group \\\"\\$@\\\"\" sh \"$@\""
    );
    let path = recipe.path();
    let build = |more: &str| {
        let plain = recipe.command(&["build", &path, "apps/1.0", "--replace", more]);
        let mut command = recipe.cabane.other("sh");
        command.args(["-c", &mount, "sh"]);
        command.arg(plain.get_program()).args(plain.get_args());
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        recipe.cabane.finish(&mut command).success()
    };
    let seen = build("--dry-run");
    for expected in ["(to do: `gcc` changed)", "gcc 99.1.0"] {
        assert!(seen.stdout.contains(expected), "{expected}: {}", seen.stdout);
    }
    let seen = build("--jobs=2");
    assert!(seen.stderr.contains("solver@1.0-GCC-system  built"), "{}", seen.stderr);
    let seen = recipe.cabane.run(&["run", "apps", "--", "printenv", "EBVERSIONGCC"]).success();
    assert_eq!(seen.stdout, "99.1.0\n");
}
