// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane build` with real Spack, from source, without a network.
//!
//! `make test-spack` runs these. `CABANE_TEST_SPACK` and `CABANE_TEST_SPACK_PACKAGES`
//! name clones of Spack and of its packages that hold the commits of the examples, and
//! `CABANE_TEST_SPACK_MIRROR` the sources, as `scripts/spack-mirror` collects them.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use cabane_testkit::{Finished, belongs_to, say};

use crate::cabane::{Cabane, everybody};

/// What reaches the package index from here.
const PASSED: [&str; 5] =
    ["SSL_CERT_FILE", "SSL_CERT_DIR", "UV_DEFAULT_INDEX", "UV_INDEX", "CABANE_SPACK_PYTHON"];

/// Prints the sum of the numbers of all ranks.
pub(crate) const SUM: &str = "#include <mpi.h>\n#include <stdio.h>\nint main(int c, char **v) {\n int rank, sum;\n \
                   MPI_Init(&c, &v);\n MPI_Comm_rank(MPI_COMM_WORLD, &rank);\n \
                   MPI_Reduce(&rank, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);\n \
                   if (!rank) printf(\"%d\\n\", sum);\n MPI_Finalize();\n}\n";

pub(crate) struct Real {
    pub(crate) cabane: Cabane,
    system: String,
    /// Addresses of Spack and of its packages, and their clones.
    pub(crate) clones: [(&'static str, PathBuf); 2],
    /// Further variables.
    pub(crate) variables: Vec<(&'static str, String)>,
}

impl Real {
    /// Describes this machine; `None` where there is no Spack.
    pub(crate) fn new() -> Option<Self> {
        let named = |name: &str| env::var_os(name).map(PathBuf::from);
        let clones = [
            ("https://github.com/spack/spack.git", named("CABANE_TEST_SPACK")?),
            ("https://github.com/spack/spack-packages.git", named("CABANE_TEST_SPACK_PACKAGES")?),
        ];
        let mirror = named("CABANE_TEST_SPACK_MIRROR")?;
        // Git reads the clones of its own user only.
        let cabane = Cabane::new(everybody()[0]);
        let system = cabane.world.path("system").to_string_lossy().into_owned();
        cabane.run(&["system", "probe", "--output", &system]).success();
        let mirrors = format!("sourcemirror:\n  here:\n    url: file://{}\n", mirror.display());
        cabane.world.file("system/mirrors.yaml", &mirrors);
        Some(Self { cabane, system, clones, variables: Vec::new() })
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.cabane.command(arguments);
        for (number, (address, clone)) in self.clones.iter().enumerate() {
            let key = format!("url.{}.insteadOf", clone.display());
            command.env(format!("GIT_CONFIG_KEY_{number}"), key);
            command.env(format!("GIT_CONFIG_VALUE_{number}"), address);
        }
        command.env("GIT_CONFIG_COUNT", self.clones.len().to_string());
        for name in PASSED {
            command.envs(env::var_os(name).map(|value| (name, value)));
        }
        // Where `scripts/setup` has put it.
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let uv = root.join(".cabane/bin/uv");
        if uv.exists() {
            command.env("CABANE_UV", uv.canonicalize().unwrap());
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    pub(crate) fn build(&self, recipe: &str, directory: &str, label: &str) -> Finished {
        let recipe = example(recipe);
        self.build_with(&recipe, directory, label, &[])
    }

    fn build_recipe(&self, recipe: &Path, directory: &str, label: &str) -> Finished {
        self.build_with(recipe, directory, label, &[])
    }

    pub(crate) fn build_with(
        &self,
        recipe: &Path,
        directory: &str,
        label: &str,
        more: &[&str],
    ) -> Finished {
        self.build_to(recipe, directory, &[&[label], more].concat())
    }

    /// Builds into what the further words name.
    pub(crate) fn build_to(&self, recipe: &Path, directory: &str, to: &[&str]) -> Finished {
        let begin = Instant::now();
        let built = self.try_to_build(recipe, directory, to).success();
        say(&format!("note: {} was built in {:.1} s", to.join(" "), begin.elapsed().as_secs_f64()));
        built
    }

    pub(crate) fn try_to_build(&self, recipe: &Path, directory: &str, to: &[&str]) -> Finished {
        let directory = self.cabane.world.path(directory);
        let (directory, recipe) = (directory.to_string_lossy(), recipe.to_string_lossy());
        let arguments = ["build", "--system", &self.system, "--build-dir", &directory, &recipe];
        let arguments = [&arguments, to].concat();
        self.cabane.finish(&mut self.command(&arguments))
    }

    /// Makes the MPI of an example a package of Spack, and the only MPI of the system.
    pub(crate) fn add_vendor_mpi(&self, name: &str, packages: &str) {
        let manifest = example(name).join("mpi.yaml");
        let repository = format!("{}/spack_repo/vendor", self.system);
        let mirror = format!("{}/mirror", self.system);
        let mut arguments = vec!["vendor-mpi", manifest.to_str().unwrap()];
        arguments.extend(["--packages", packages, "--output", &repository, "--mirror", &mirror]);
        self.cabane.run(&arguments).success();
        let files = self.cabane.world.path("system");
        let add = |name: &str, text: &str| {
            let before = fs::read_to_string(files.join(name)).unwrap_or_default();
            fs::write(files.join(name), before + text).unwrap();
        };
        add("mirrors.yaml", &format!("  vendor:\n    url: file://{mirror}\n"));
        add("repos.yaml", "repos: [spack_repo/vendor]\n");
        fs::write(files.join("network.yaml"), format!("mpi:\n  {name}:\n    specs: []\n")).unwrap();
    }

    pub(crate) fn digest(&self, label: &str) -> String {
        let ls = ["image", "ls", "--format={digest}", label];
        self.cabane.run(&ls).success().stdout
    }

    pub(crate) fn run(&self, label: &str, script: &str) -> String {
        let arguments = ["run", label, "--", "sh", "-e", "-c", script];
        self.cabane.run(&arguments).success().stdout
    }
}

pub(crate) fn example(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    root.join(name).canonicalize().unwrap()
}

/// Describes this machine, or ends the test where there is no Spack.
macro_rules! with_spack {
    () => {
        match $crate::spack_real::Real::new() {
            Some(real) => real,
            None => cabane_testkit::belongs_to!("make test-spack"),
        }
    };
}
pub(crate) use with_spack;

#[test]
fn small_tools_are_built_from_source_and_again_from_the_cache() {
    let real = with_spack!();
    real.build("tools", "first", "tools/1.0");
    let seen = real.run("tools/1.0", "echo text | lz4 -c | lz4 -dc; tree --version | head -c 7");
    assert_eq!(seen, "text\ntree v2");
    // In another directory all packages come from the cache, and the image is the same.
    real.build("tools", "second", "tools/1.1");
    assert_eq!(real.digest("tools/1.0"), real.digest("tools/1.1"));
    let log = fs::read_to_string(real.cabane.world.path("second/logs/install.log")).unwrap();
    assert!(!log.contains(" build ("), "{log}");
}

/// A package of the time before Spack 1.0, whose build system has another name now.
const OLD_PACKAGE: &str = "\
import llnl.util.filesystem as fs

from spack.package import *


class MyTool(MakefilePackage):
    url = 'https://example.org/my-tool-1.0.tar.gz'
    version('1.0', sha256='1' * 64)
    depends_on('zlib-api')
    depends_on('bzip2@1.0.5', when='+compress')
    variant('compress', default=False, description='Compress files')
    conflicts('%gcc@99 +compress')

    def edit(self, spec, prefix):
        fs.touch('config.mk')


class MakefileBuilder(spack.build_systems.makefile.MakefileBuilder):
    pass
";

#[test]
fn a_recipe_of_format_1_is_ported_and_concretized() {
    let real = with_spack!();
    let world = &real.cabane.world;
    let files = [
        (
            "config.yaml",
            "name: old\nspack:\n  repo: https://github.com/spack/spack.git\n  commit: v0.23.1\n",
        ),
        ("compilers.yaml", "bootstrap: {spec: gcc@12}\ngcc:\n  specs: [gcc@12.5.0]\n"),
        (
            "environments.yaml",
            "tools:\n  compiler:\n  - {toolchain: gcc, spec: gcc}\n  unify: true\n  \
             specs: [my-tool, bzip2]\n",
        ),
        ("repo/packages/my-tool/package.py", OLD_PACKAGE),
    ];
    for (name, text) in files {
        world.file(&format!("old/{name}"), text);
    }
    let commit = |section: &str| {
        let text = fs::read_to_string(example("tools").join("config.yaml")).unwrap();
        let rest = text.split_once(section).unwrap().1.split_once("commit:").unwrap().1;
        rest.split_whitespace().next().unwrap().to_owned()
    };
    let (spack, packages) = (commit("spack:"), commit("packages:"));
    let new = world.path("new");
    let new = new.to_str().unwrap();
    let old = world.path("old");
    let arguments = [
        &["recipe", "convert", old.to_str().unwrap(), "--output", new, "--system", &real.system][..],
        &["--spack-commit", &spack, "--packages-commit", &packages, "--concretize", "--json"],
    ];
    let seen = real.cabane.finish(&mut real.command(&arguments.concat())).success();
    let answer: serde_json::Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!(answer["ported"]["packages"], serde_json::json!(["my-tool"]));
    assert_eq!(answer["ported"]["problems"], serde_json::json!([]));
    let missing = "the package `my-tool` of the recipe needs `bzip2@1.0.5`, which is not in these \
                   packages; the nearest version is 1.0.6";
    assert_eq!(answer["ported"]["missing"], serde_json::json!([missing]));
    let all = answer["checked"]["packages"].as_array().unwrap();
    assert!(all.iter().any(|one| one["name"] == "my-tool" && one["version"] == "1.0"), "{answer}");
    let text = fs::read_to_string(world.path("new/repo/packages/my_tool/package.py")).unwrap();
    assert!(text.contains("from spack_repo.builtin.build_systems.makefile import"), "{text}");
    assert!(text.contains("conflicts('+compress %gcc@99')"), "{text}");
}

#[test]
fn a_parallel_program_is_compiled_and_run_with_a_stack() {
    let real = with_spack!();
    if env::var_os("CABANE_TEST_SPACK_LONG").is_none() {
        belongs_to!("make test-spack LONG=1");
    }
    real.build("prgenv-mpich", "prgenv", "prgenv/1.0");
    real.cabane.world.file("work/sum.c", SUM);
    let script = "cd $HOME; $CC -o sum ../work/sum.c; mpiexec -n 4 ./sum; ldd sum | grep -o '/user-.*libmpi'";
    let seen = real.run("prgenv/1.0", script);
    assert!(seen.starts_with("6\n/user-environment/"), "{seen}");
}

/// A recipe with one package that takes seconds to build.
pub(crate) fn small_recipe(real: &Real, more: &str) -> PathBuf {
    let world = &real.cabane.world;
    let example = example("tools");
    for (name, more) in [("config.yaml", more), ("compilers.yaml", "")] {
        let text = fs::read_to_string(example.join(name)).unwrap();
        world.file(&format!("recipe/{name}"), &(text + more));
    }
    let environments = "tools:\n  compiler: [gcc]\n  specs: [bzip2]\n  views: {tools: {}}\n";
    world.file("recipe/environments.yaml", environments);
    world.path("recipe")
}

#[test]
fn without_what_only_builds_need_an_image_is_the_same_from_source_and_from_the_cache() {
    let real = with_spack!();
    let recipe = small_recipe(&real, "cleanup: runtime\n");
    real.build_with(&recipe, "first", "small/1.0", &[]);
    real.build_with(&recipe, "second", "small/1.1", &[]);
    assert_eq!(real.digest("small/1.0"), real.digest("small/1.1"));
    let packages = ["image", "inspect", "--packages", "--json", "small/1.0"];
    let packages = real.cabane.run(&packages).success().stdout;
    let packages: serde_json::Value = serde_json::from_str(&packages).unwrap();
    let packages = packages["packages"].as_array().unwrap().iter();
    let inside: Vec<_> = packages
        .filter(|one| one["external"] == false)
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(inside, ["bzip2", "gcc-runtime"]);
}

/// The host is this machine: what takes the place of `ssh` runs the command here.
#[test]
fn two_hosts_build_the_packages_of_one_stack_and_the_image_is_that_of_one() {
    let mut real = with_spack!();
    let recipe = small_recipe(&real, "");
    real.build_with(&recipe, "one", "small/1.0", &[]);
    let cache = real.cabane.world.path("home/.cache/cabane");
    fs::remove_dir_all(cache.join("spack/packages")).unwrap();
    let here = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done; shift 2; exec \"$@\"\n";
    let ssh = real.cabane.world.file("bin/ssh", here);
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", ssh.parent().unwrap().display(), env::var("PATH").unwrap());
    real.variables.push(("PATH", path));
    let program = real.cabane.program().to_owned();
    let more = ["--with", "other", "--remote-program", &program];
    let built = real.build_with(&recipe, "two", "small/1.1", &more);
    assert!(built.stderr.contains("✓ bzip2@1.0.8  built "), "{}", built.stderr);
    assert!(built.stderr.contains(" s on "), "{}", built.stderr);
    assert_eq!(real.digest("small/1.0"), real.digest("small/1.1"));
    // The installation compiles nothing, and nothing is left of the workers.
    let log = fs::read_to_string(real.cabane.world.path("two/logs/install.log")).unwrap();
    assert!(!log.contains(" build ("), "{log}");
    assert_eq!(fs::read_dir(cache.join("workers")).unwrap().count(), 0);
}

#[test]
fn a_users_own_spack_finds_the_packages_of_an_image() {
    let real = with_spack!();
    let Some(python) = env::var_os("CABANE_TEST_SPACK_PYTHON") else {
        belongs_to!("make test-spack");
    };
    real.build("tools", "first", "tools/1.0");
    let script = "export SPACK_PYTHON=$1 SPACK_USER_CONFIG_PATH=$HOME/config \
                  SPACK_USER_CACHE_PATH=$HOME/cache SPACK_SYSTEM_CONFIG_PATH=$HOME/none\n\
                  \"$2\"/bin/spack -C $UENV_SPACK_CONFIG_PATH find --format '{name}@{version}' lz4";
    let (_, spack) = &real.clones[0];
    let (python, spack) = (python.to_string_lossy(), spack.to_string_lossy());
    let arguments = ["run", "--view=spack", "tools/1.0", "--", "sh", "-e", "-c", script, "sh"];
    let arguments: Vec<&str> = arguments.into_iter().chain([&*python, &*spack]).collect();
    let seen = real.cabane.finish(&mut real.command(&arguments)).success();
    assert_eq!(seen.stdout, "lz4@1.10.0\n");
}

#[test]
fn a_stack_whose_compiler_is_built_first_gets_the_lock_file_of_spacks_own_command() {
    let real = with_spack!();
    let world = &real.cabane.world;
    let recipe = example("prgenv-gnu");
    for name in ["config.yaml", "compilers.yaml", "environments.yaml"] {
        world.file(&format!("recipe/{name}"), &fs::read_to_string(recipe.join(name)).unwrap());
    }
    // It runs before anything is concretized.
    let script = "#!/bin/sh\nset -e\nspack={{ env.spack }}/bin/spack\n\
                  $spack -e {{ env.build }}/env/stack concretize --force\n\
                  mv {{ env.build }}/env/stack/spack.lock {{ env.build }}/of-spack.lock\n";
    world.file("recipe/pre-install", script);
    real.build_with(&world.path("recipe"), "gnu", "gnu/1.0", &["--until", "concretize"]);
    let text = |name: &str| fs::read_to_string(world.path(&format!("gnu/{name}"))).unwrap();
    let lock = text("work/spack/env/stack/spack.lock");
    assert!(lock == text("work/spack/of-spack.lock"), "{}", text("logs/concretize.log"));
    let lock: serde_json::Value = serde_json::from_str(&lock).unwrap();
    let specs = lock["concrete_specs"].as_object().unwrap().values();
    let mut of_gcc = specs.filter(|spec| spec["name"] == "gcc");
    assert!(of_gcc.any(|gcc| gcc["version"].as_str().unwrap().starts_with("14.3")));
    assert_smaller_problems_were_solved(&real, "gnu");
}

/// Whether the solver got less than everything, in each problem of a build.
fn assert_smaller_problems_were_solved(real: &Real, directory: &str) {
    let log = real.cabane.world.path(&format!("{directory}/logs/concretize.log"));
    let log = fs::read_to_string(log).unwrap();
    assert!(log.contains("==> Solved with ") && !log.contains("Solving the whole"), "{log}");
}

/// Spack before 1.2 has no groups of specs.
#[test]
fn an_older_spack_builds_one_environment_after_the_other() {
    let mut real = with_spack!();
    let Some(older) = env::var_os("CABANE_TEST_SPACK_1_1").map(PathBuf::from) else {
        belongs_to!("make test-spack, with a clone that has Spack 1.1.0 in CABANE_TEST_SPACK_1_1");
    };
    real.clones[0] = ("https://github.com/spack/spack.git", older);
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tools");
    let original = |name: &str| fs::read_to_string(example.join(name)).unwrap();
    let file = |name: &str, text: &str| {
        real.cabane.world.file(&format!("older/{name}"), text);
    };
    let config = original("config.yaml");
    let commit = config.lines().find(|line| line.starts_with("  commit:"));
    let config = config
        .replace(commit.unwrap(), "  commit: v1.1.0")
        .replace("version: 3", "version: 2")
        .replace("default-view: tools", "default-view: one");
    file("config.yaml", &config);
    file("compilers.yaml", &original("compilers.yaml"));
    let environment = |view: &str, spec: &str| {
        format!("{view}-env:\n  compiler: [gcc]\n  specs: [{spec}]\n  views:\n    {view}:\n")
    };
    let both = environment("one", "lz4@1.10.0") + &environment("two", "bzip2@1.0.8");
    file("environments.yaml", &both);
    let recipe = real.cabane.world.path("older");
    real.build_recipe(&recipe, "chain", "older/1.0");
    assert_smaller_problems_were_solved(&real, "chain");
    let arguments = ["run", "--view=one,two", "older/1.0", "--", "sh", "-c"];
    let arguments: Vec<&str> = arguments.into_iter().chain(["which lz4 bzip2"]).collect();
    let seen = real.cabane.run(&arguments).success().stdout;
    let expected =
        ["one/bin/lz4", "two/bin/bzip2"].map(|end| format!("/user-environment/env/{end}\n"));
    assert_eq!(seen, expected.concat());
}

#[test]
fn a_vendors_mpi_is_installed_and_used_to_compile_and_run_a_parallel_program() {
    let real = with_spack!();
    let Some(packages) = env::var_os("CABANE_TEST_VENDOR_PACKAGES") else {
        belongs_to!("make test-spack");
    };
    real.add_vendor_mpi("vendor-mpich", &packages.into_string().unwrap());
    real.build("vendor-mpich/recipe", "vendor", "vendor/1.0");
    real.cabane.world.file("work/sum.c", SUM);
    let script = "cd $HOME; $CC -o sum ../work/sum.c; mpiexec -n 3 ./sum; ldd sum | grep -o '/user-.*libmpi'";
    let seen = real.run("vendor/1.0", script);
    assert!(seen.starts_with("3\n/user-environment/"), "{seen}");
}

#[test]
fn packages_come_from_a_signed_cache_if_their_key_is_trusted() {
    let real = with_spack!();
    let world = &real.cabane.world;
    let recipe = small_recipe(&real, "");
    let script = "for name in one other; do export GNUPGHOME=$HOME/$name.ring; mkdir -m 700 $GNUPGHOME\n\
                  gpg --batch --passphrase '' --quick-gen-key $name@here ed25519 sign never\n\
                  gpg --armor --export >$HOME/$name.pub\n\
                  gpg --armor --export-secret-keys >$HOME/$name.key; gpgconf --kill all; done";
    let mut shell = real.cabane.other("sh");
    Finished::of(shell.args(["-e", "-c", script])).success();
    let sources = fs::read_to_string(world.path("system/mirrors.yaml")).unwrap();
    let build = |name: &str, key: &str| {
        let cache = world.path("home/cache");
        let mirrors = format!(
            "{sources}buildcache: {{name: site, url: 'file://{}', {key}}}\n",
            cache.display()
        );
        let mirrors = world.file(&format!("home/{name}.yaml"), &mirrors);
        let more = ["--mirrors", mirrors.to_str().unwrap()];
        real.build_with(&recipe, name, "signed/1.0", &more);
        // Only the signed cache knows them now. What comes from there is in no other.
        let _ = fs::remove_dir_all(world.path("home/.cache/cabane/spack/packages"));
        let log = fs::read_to_string(world.path(&format!("{name}/logs/install.log"))).unwrap();
        log.contains(" staging (")
    };
    let was_built = [
        build("push", "private_key: one.key"),
        build("trusted", "public_key: one.pub"),
        // Anyone who names none trusts those that the cache carries.
        build("carried", ""),
        build("refused", "public_key: other.pub"),
    ];
    assert_eq!(was_built, [true, false, false, true]);
}

#[test]
fn a_stack_in_a_directory_is_used_without_mounting_and_by_a_users_own_spack() {
    let real = with_spack!();
    let Some(python) = env::var_os("CABANE_TEST_SPACK_PYTHON") else {
        belongs_to!("make test-spack");
    };
    let world = &real.cabane.world;
    let target = world.path("apps/small/1.0");
    let there = target.to_string_lossy();
    let recipe = small_recipe(&real, "");
    real.build_to(&recipe, "build", &["--install", &there]);
    fs::remove_dir_all(world.path("build")).unwrap();
    let (_, spack) = &real.clones[0];
    let script = "export SPACK_PYTHON=$1 SPACK_USER_CONFIG_PATH=$HOME/config \
                  SPACK_USER_CACHE_PATH=$HOME/cache SPACK_SYSTEM_CONFIG_PATH=$HOME/none\n\
                  . $3/env/tools/activate.sh; echo text | bzip2 | bunzip2; which bzip2\n\
                  $2/bin/spack -C $3/config find --format '{name} {prefix}' bzip2";
    let mut shell = real.cabane.other("sh");
    shell.args(["-e", "-c", script, "sh"]).arg(python).arg(spack).arg(&target);
    let seen = Finished::of(&mut shell).success().stdout;
    let expected = format!("text\n{there}/env/tools/bin/bzip2\nbzip2 {there}/linux-");
    assert!(seen.starts_with(&expected), "{seen}");
}
