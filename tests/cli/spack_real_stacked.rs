// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Stacks on stacks, with real Spack: what a base has is used, and not built again.

use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use cabane_testkit::belongs_to;

use crate::spack_real::{Real, example, with_spack};

/// A program that is linked with a library of the base.
const PACKAGE: &str = "
from spack.package import *
from spack_repo.builtin.build_systems.generic import Package


class NAME(Package):
    has_code = False
    version('1.0')
    depends_on('c', type='build')
    depends_on('NEED')

    def install(self, spec, prefix):
        mkdirp(prefix.bin)
        with open('main.c', 'w') as file:
            file.write('''#include <bzlib.h>
#include <stdio.h>
int main(void) { puts(BZ2_bzlibVersion()); }
''')
        bzip2 = spec['bzip2'].prefix
        Executable('cc')('main.c', f'-I{bzip2.include}', f'-L{bzip2.lib}', '-lbz2', '-o', 'PROGRAM')
        install('PROGRAM', prefix.bin)
";

/// Writes a recipe with one package of its own and returns its directory.
fn recipe(real: &Real, name: &str, base: &str, needs: &str) -> PathBuf {
    let world = &real.cabane.world;
    let put = |file: &str, text: &str| drop(world.file(&format!("{name}/{file}"), text));
    let config = fs::read_to_string(example("tools").join("config.yaml")).unwrap();
    let config = config
        .replace("default-view: tools", &format!("default-view: {name}\nbase: {base}"))
        .replace("name: tools", &format!("name: {name}"))
        .replace("/user-environment", &format!("/user-{name}"));
    put("config.yaml", &config);
    put("compilers.yaml", "gcc: {version: system}\n");
    let environments = format!(
        "{name}:\n  compiler: [gcc]\n  specs: [{name}-program]\n  views: {{{name}: {{link: all}}}}\n"
    );
    put("environments.yaml", &environments);
    put("repo/repo.yaml", "repo: {namespace: mine, api: v2.0}\n");
    let class = format!("{}Program", name[..1].to_uppercase() + &name[1..]);
    let package = PACKAGE
        .replace("NAME", &class)
        .replace("'NEED'", needs)
        .replace("PROGRAM", &format!("{name}-program"));
    put(&format!("repo/packages/{name}_program/package.py"), &package);
    world.path(name)
}

/// The names of the packages in an image.
fn packages(real: &Real, label: &str) -> Vec<String> {
    let list = ["image", "inspect", "--packages", "--json", label];
    let list = real.cabane.run(&list).success().stdout;
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let inside = list["packages"].as_array().unwrap().iter().filter(|one| one["external"] == false);
    inside.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn three_images_stand_on_each_other_and_nothing_is_built_twice() {
    let real = with_spack!();
    let base = crate::spack_real::small_recipe(&real, "");
    real.build_with(&base, "first", "small/1.0", &[]);
    let middle = recipe(&real, "middle", "small/1.0", "'bzip2'");
    real.build_with(&middle, "second", "middle/1.0", &[]);
    // Its own package needs one of the base, whose package is described there.
    let top =
        recipe(&real, "top", "middle/1.0", "'bzip2'); depends_on('middle-program', type='run'");
    let built = real.build_with(&top, "third", "top/1.0", &[]);
    assert!(!built.stderr.contains("is built again"), "{}", built.stderr);
    assert_eq!(packages(&real, "middle/1.0"), ["middle-program"]);
    assert_eq!(packages(&real, "top/1.0"), ["top-program"]);
    // The view of the image has links to programs of all three.
    let script = "top-program; middle-program; echo text | bzip2 | bzip2 -d; \
                  readlink $(command -v bzip2) | cut -d/ -f2";
    let seen = real.run("top/1.0", script);
    let version = "1.0.8, 13-Jul-2019\n";
    assert_eq!(seen, format!("{version}{version}text\nuser-environment\n"));
    // Another base is another image: a base that is the same is not.
    real.build_with(&top, "third", "top/1.1", &[]);
    assert_eq!(real.digest("top/1.0"), real.digest("top/1.1"));
    let other = crate::spack_real::small_recipe(&real, "# another one\n");
    let file = real.cabane.world.path("other.squashfs").to_string_lossy().into_owned();
    real.build_to(&other, "first", &["--output", &file]);
    real.cabane.run(&["image", "add", "--force", "small/1.0", &file]).success();
    real.build_with(&middle, "second", "middle/1.1", &[]);
    assert_ne!(real.digest("middle/1.0"), real.digest("middle/1.1"));
}

/// A script takes the place of `ssh`: the second worker runs on this machine, too.
#[test]
fn packages_on_a_base_are_built_by_several_workers() {
    let mut real = with_spack!();
    let base = crate::spack_real::small_recipe(&real, "");
    real.build_with(&base, "first", "small/1.0", &[]);
    let middle = recipe(&real, "middle", "small/1.0", "'bzip2'");
    let world = &real.cabane.world;
    let other = PACKAGE.replace("NAME", "MiddleOther").replace("NEED", "bzip2");
    let other = other.replace("PROGRAM", "middle-other");
    world.file("middle/repo/packages/middle_other/package.py", &other);
    let environments = fs::read_to_string(middle.join("environments.yaml")).unwrap();
    let environments = environments.replace("[middle-program]", "[middle-program, middle-other]");
    world.file("middle/environments.yaml", &environments);
    let script = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift 2\nexec \"$@\"\n";
    let ssh = world.file("local/bin/ssh", script);
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
    symlink(real.cabane.program(), ssh.with_file_name("cabane")).unwrap();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", ssh.parent().unwrap().display());
    real.variables.push(("PATH", path));
    let built = real.build_with(&middle, "second", "middle/1.0", &["--with", "other-host"]);
    // Workers report the node, which the build itself does not.
    for name in ["middle-other@1.0", "middle-program@1.0"] {
        let line = built.stderr.lines().find(|line| line.contains(&format!("✓ {name}  built")));
        assert!(line.is_some_and(|line| line.contains(" on ")), "{name}: {}", built.stderr);
    }
    assert_eq!(packages(&real, "middle/1.0"), ["middle-other", "middle-program"]);
    let seen = real.run("middle/1.0", "middle-program; middle-other");
    assert_eq!(seen, "1.0.8, 13-Jul-2019\n".repeat(2));
}

/// An MPI that is built at once, and that has a variant.
const MPI: &str = "
from spack.package import *
from spack_repo.builtin.build_systems.generic import Package


class Mvapich2(Package):
    has_code = False
    version('4.0.2')
    version('5.0.0')
    variant('fast', default=False, description='Be fast')
    # A package of Spack names it.
    variant('threads', default='single', values=('single', 'multiple'), description='Threads')
    provides('mpi')
    depends_on('c', type='build')

    def install(self, spec, prefix):
        mkdirp(prefix.bin)
        touch(prefix.bin.mpicc)
";

/// Returns the packages of a name that Spack has decided on: their hash and whether they are `+fast`.
fn decided(real: &Real, directory: &str, name: &str) -> Vec<(String, bool)> {
    let lock = real.cabane.world.path(directory).join("work/spack/env/stack/spack.lock");
    let lock: serde_json::Value = serde_json::from_str(&fs::read_to_string(lock).unwrap()).unwrap();
    let all = lock["concrete_specs"].as_object().unwrap().iter();
    let named = all.filter(|(_, spec)| spec["name"] == name);
    named.map(|(hash, spec)| (hash.clone(), spec["parameters"]["fast"] == true)).collect()
}

#[test]
fn packages_use_the_mpi_of_the_base_whatever_its_version_and_variants_are() {
    let real = with_spack!();
    let world = &real.cabane.world;
    world.file("system/network.yaml", "mpi:\n  mvapich2: {specs: []}\n");
    let base = crate::spack_real::small_recipe(&real, "");
    world.file("recipe/repo/repo.yaml", "repo: {namespace: mine, api: v2.0}\n");
    world.file("recipe/repo/packages/mvapich2/package.py", MPI);
    let environments =
        "tools:\n  compiler: [gcc]\n  specs: [mvapich2@4.0.2+fast]\n  views: {tools: {}}\n";
    world.file("recipe/environments.yaml", environments);
    real.build_with(&base, "first", "small/1.0", &[]);
    let of_base = decided(&real, "first", "mvapich2");
    assert!(of_base[0].1, "{of_base:?}");
    let until = ["--until", "concretize"];
    let top = recipe(&real, "top", "small/1.0", "'bzip2'); depends_on('mpi'");
    let said = real.build_with(&top, "second", "top/1.0", &until).stderr;
    assert_eq!(decided(&real, "second", "mvapich2"), of_base, "{said}");
    assert!(!said.contains("is built again"), "{said}");
    // A recipe that names an MPI has its own.
    let path = world.path("top/environments.yaml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("  specs:", "  network: {mpi: mvapich2@5.0.0~fast}\n  specs:"))
        .unwrap();
    let said = real.build_with(&top, "second", "top/1.0", &until).stderr;
    let own = decided(&real, "second", "mvapich2");
    assert!(own.len() == 1 && !own[0].1, "{own:?}: {said}");
}

#[test]
fn the_example_of_three_stacked_images_runs_a_parallel_program() {
    let real = with_spack!();
    if env::var_os("CABANE_TEST_SPACK_LONG").is_none() {
        belongs_to!("make test-spack LONG=1");
    }
    for name in ["mpi", "fft", "app"] {
        real.build(&format!("stacked/{name}"), name, &format!("stacked-{name}/1.0"));
    }
    assert_eq!(packages(&real, "stacked-fft/1.0"), ["fftw"]);
    assert_eq!(packages(&real, "stacked-app/1.0"), ["spectrum"]);
    let seen = real.run("stacked-app/1.0", "mpiexec -n 2 spectrum");
    assert_eq!(seen, "2 ranks: the strongest frequency is 5\n");
}
