// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! One cache for stacks at several mount points, with real Spack.
//!
//! `make test-spack` runs these.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use cabane_testkit::{Finished, belongs_to};

use crate::spack_real::{Real, small_recipe, with_spack};

/// A program that holds the path of its own directory, and the root of all packages. The
/// first can be written over by a shorter path; the second by none that is a little shorter.
const PACKAGE: &str = r#"
from spack_repo.builtin.build_systems.generic import Package
from spack.package import *

class NAME(Package):
    has_code = False
    version("1.0")
    depends_on("c", type="build")
    NEEDS

    def install(self, spec, prefix):
        mkdirp(prefix.bin)
        with open("where.c", "w") as source:
            source.write('#include <stdio.h>\nint main(void) { puts("%s"); return 0; }\n' % (WHAT))
        Executable(spack_cc)("where.c", "-o", join_path(prefix.bin, self.name))
"#;
const OWN: &str = "prefix.share";
const ROOT: &str = "ancestor(prefix, 2)";

/// Makes a recipe with two such packages, the second of which needs the first.
fn recipe(real: &Real, what: &str) -> PathBuf {
    let recipe = small_recipe(real, "");
    let world = &real.cabane.world;
    for (name, class, needs) in
        [("where", "Where", ""), ("where-too", "WhereToo", "depends_on('where', type='link')")]
    {
        let text = PACKAGE.replace("NAME", class).replace("WHAT", what).replace("NEEDS", needs);
        world.file(&format!("recipe/repo/packages/{}/package.py", name.replace('-', "_")), &text);
    }
    let environments =
        "tools:\n  compiler: [gcc]\n  specs: [where-too]\n  views: {tools: {link: all}}\n";
    world.file("recipe/environments.yaml", environments);
    recipe
}

/// A stack at a mount point.
struct At<'a> {
    real: &'a Real,
    recipe: PathBuf,
    name: &'static str,
}

impl<'a> At<'a> {
    /// Makes the same recipe for a mount point of this name.
    fn new(real: &'a Real, recipe: &Path, name: &'static str) -> Self {
        let copy = real.cabane.world.path(&format!("recipe-{name}"));
        let mut cp = real.cabane.other("cp");
        Finished::of(cp.arg("-a").args([recipe, &copy])).success();
        let config = fs::read_to_string(copy.join("config.yaml")).unwrap();
        let mount_point = real.cabane.mount_point(name);
        let line = format!("store: {mount_point}");
        let config = config.replace("store: /user-environment", &line);
        assert!(config.contains(&line));
        fs::write(copy.join("config.yaml"), config).unwrap();
        Self { real, recipe: copy, name }
    }

    /// Builds in a new directory; returns the output, and which packages were compiled.
    fn build(&self, label: &str, more: &[&str]) -> (Finished, Vec<String>) {
        let directory = format!("build-{}", label.replace('/', "-"));
        let built = self.real.build_with(&self.recipe, &directory, label, more);
        let log = self.real.cabane.world.path(&format!("{directory}/logs/install.log"));
        let log = fs::read_to_string(log).unwrap();
        let compiled = log.lines().filter(|line| line.contains(" staging"));
        let name = |line: &str| {
            line.split(' ').find_map(|word| word.split_once('@').map(|one| one.0.to_owned()))
        };
        let mut compiled: Vec<_> = compiled.filter_map(name).collect();
        compiled.sort();
        compiled.dedup();
        (built, compiled)
    }

    /// What the program says, without what Spack writes before a path to fill it up.
    fn says(&self, label: &str) -> String {
        let run = ["run", "--view=tools", label, "--", "where-too"];
        let said = self.real.cabane.run(&run).success().stdout;
        said.trim().trim_start_matches('/').to_owned()
    }

    /// The mount point as it is shown.
    fn shown(&self) -> String {
        format!("[WORLD]/mnt/{}", self.name)
    }
}

#[test]
fn packages_of_a_longer_mount_point_are_used_at_a_shorter_one() {
    let real = with_spack!();
    let recipe = recipe(&real, OWN);
    let long = At::new(&real, &recipe, "a-mount-point-with-a-long-name");
    let short = At::new(&real, &recipe, "short");
    let (_, compiled) = long.build("long/1.0", &[]);
    assert!(compiled.contains(&"where-too".to_owned()), "{compiled:?}");
    let (_, compiled) = short.build("short/1.0", &[]);
    assert_eq!(compiled, [""; 0]);
    let said = short.says("short/1.0");
    assert!(said.starts_with(&short.shown()), "{said}");
}

#[test]
fn packages_of_a_shorter_mount_point_do_not_disturb_a_longer_one() {
    let real = with_spack!();
    let recipe = recipe(&real, OWN);
    let short = At::new(&real, &recipe, "short");
    let long = At::new(&real, &recipe, "a-mount-point-with-a-long-name");
    short.build("short/1.0", &[]);
    let (_, compiled) = long.build("long/1.0", &[]);
    assert!(compiled.contains(&"where-too".to_owned()), "{compiled:?}");
    assert!(long.says("long/1.0").starts_with(&long.shown()));
    // The packages of both are there from now on, and each image is the same again.
    for (stack, first, second) in
        [(&short, "short/1.0", "short/2.0"), (&long, "long/1.0", "long/2.0")]
    {
        let (_, compiled) = stack.build(second, &[]);
        assert_eq!(compiled, [""; 0]);
        assert_eq!(real.digest(first), real.digest(second));
    }
    // A directory with an even longer path.
    let target = real.cabane.world.path("apps/in-a-directory-with-a-longer-path/1.0");
    let target = target.to_string_lossy();
    real.build_to(&recipe, "installed", &["--install", &target]);
    let program = format!("{target}/env/tools/bin/where-too");
    let said = Finished::of(&mut real.cabane.other(&program)).success().stdout;
    assert!(said.starts_with(&*target), "{said}");
}

/// What cannot be moved is built, and nothing else.
#[test]
fn what_cannot_be_moved_is_built_alone_and_said() {
    let real = with_spack!();
    let recipe = recipe(&real, ROOT);
    // Six bytes shorter: Spack cannot shorten the root alone.
    let long = At::new(&real, &recipe, "stack-of-a");
    let short = At::new(&real, &recipe, "some");
    long.build("long/1.0", &[]);
    let (built, compiled) = short.build("short/1.0", &[]);
    assert_eq!(compiled, ["where", "where-too"], "{built:?}");
    let place = short.shown();
    for name in ["where", "where-too"] {
        let said = format!(
            "{name}@1.0 is built from source: the package in the cache cannot be moved to {place}\n"
        );
        assert_eq!(built.stderr.matches(&said).count(), 1, "{built:?}");
    }
    assert_eq!(short.says("short/1.0"), place);
}

/// A build cache of a site that another mount point filled, and what earlier versions left
/// in the cache directory.
#[test]
fn caches_filled_for_a_shorter_path_cost_no_build() {
    let real = with_spack!();
    let world = &real.cabane.world;
    let recipe = recipe(&real, OWN);
    let short = At::new(&real, &recipe, "short");
    let long = At::new(&real, &recipe, "a-mount-point-with-a-long-name");
    let sources = fs::read_to_string(world.path("system/mirrors.yaml")).unwrap();
    let cache = world.path("home/site");
    let mirrors = format!(
        "{sources}buildcache: {{name: site, url: 'file://{}', signed: false}}\n",
        cache.display()
    );
    let mirrors = world.file("home/mirrors.yaml", &mirrors);
    let mirrors = ["--mirrors", mirrors.to_str().unwrap()];
    let (_, all) = short.build("short/1.0", &mirrors);
    let own = world.path("home/.cache/cabane/spack/packages");
    let of_short: Vec<_> = fs::read_dir(&own).unwrap().map(|one| one.unwrap().path()).collect();
    assert_eq!(of_short.len(), 1);
    let as_before = world.path("home/as-before");
    fs::rename(&of_short[0], &as_before).unwrap();

    let (built, compiled) = long.build("long/1.0", &mirrors);
    assert_eq!(compiled, ["where", "where-too"], "{all:?} {built:?}");
    let reason = "@1.0 is built from source: the package in the cache cannot be moved to ";
    assert_eq!(built.stderr.matches(reason).count(), 2, "{built:?}");
    let why = ", since it was built for a shorter path\n";
    assert_eq!(built.stderr.matches(why).count(), 2, "{built:?}");
    assert!(long.says("long/1.0").starts_with(&long.shown()));

    // As earlier versions left it: packages of any path in one directory.
    fs::remove_dir_all(&own).unwrap();
    fs::rename(&as_before, &own).unwrap();
    let (_, compiled) = short.build("short/2.0", &[]);
    assert_eq!(compiled, [""; 0]);
    assert_eq!(real.digest("short/1.0"), real.digest("short/2.0"));
    let (built, compiled) = long.build("long/2.0", &[]);
    assert_eq!(compiled, ["where", "where-too"], "{built:?}");
    assert_eq!(built.stderr.matches(why).count(), 2, "{built:?}");
}

/// All users of a site have the same packages, whatever they have built before.
#[test]
fn a_package_of_the_site_is_used_although_the_own_cache_has_another_build_of_it() {
    let real = with_spack!();
    let Some(python) = env::var_os("CABANE_TEST_SPACK_PYTHON") else {
        belongs_to!("make test-spack");
    };
    // Two builds of this package with the same hash differ.
    let recipe = recipe(&real, "prefix.share + '#' + __import__('uuid').uuid4().hex");
    let cabane = &real.cabane;
    let stack = At::new(&real, &recipe, "stack");
    stack.build("service/1.0", &[]);
    let [site, key] = ["home/site", "home/site.key"]
        .map(|name| cabane.world.path(name).to_string_lossy().into_owned());
    cabane.run(&["image", "key", "new", &key]).success();
    let mut push = cabane.command(&["cache", "push", &site, "--key", &key]);
    push.env("CABANE_SPACK_PYTHON", &python);
    cabane.finish(&mut push).success();
    fs::remove_dir_all(cabane.world.path("home/.cache/cabane/spack/packages")).unwrap();
    let (_, compiled) = stack.build("user/1.0", &[]);
    assert!(compiled.iter().any(|name| name == "where-too"), "{compiled:?}");
    let of_site = stack.says("service/1.0");
    assert_ne!(of_site, stack.says("user/1.0"));
    let config =
        format!("[build]\nshared_cache = \"{site}\"\nshared_cache_keys = [\"{key}.pub\"]\n");
    cabane.world.file("home/.config/cabane/config.toml", &config);
    let (_, compiled) = stack.build("user/2.0", &[]);
    assert_eq!((compiled, stack.says("user/2.0")), (Vec::new(), of_site));
}

/// A service account pushes signed packages; builds of others take them, and build what is not signed.
#[test]
fn signed_packages_of_a_site_are_used_and_others_are_built() {
    let real = with_spack!();
    let Some(python) = env::var_os("CABANE_TEST_SPACK_PYTHON") else {
        belongs_to!("make test-spack");
    };
    let recipe = recipe(&real, OWN);
    let cabane = &real.cabane;
    let service = At::new(&real, &recipe, "a-mount-point-with-a-long-name");
    let user = At::new(&real, &recipe, "short");
    service.build("service/1.0", &[]);
    let [site, key] = ["home/site", "home/site.key"].map(|name| cabane.world.path(name));
    let [site_text, key] = [&site, &key].map(|path| path.to_string_lossy().into_owned());
    cabane.run(&["image", "key", "new", &key]).success();
    let mut push = cabane.command(&["cache", "push", &site_text, "--key", &key]);
    push.env("CABANE_SPACK_PYTHON", &python);
    cabane.finish(&mut push).success();
    let config =
        format!("[build]\nshared_cache = \"{site_text}\"\nshared_cache_keys = [\"{key}.pub\"]\n");
    cabane.world.file("home/.config/cabane/config.toml", &config);
    // The cache of the user is empty but for the sources and the concretization.
    let own = cabane.world.path("home/.cache/cabane/spack/packages");
    fs::remove_dir_all(&own).unwrap();
    let (built, compiled) = user.build("user/1.0", &[]);
    assert_eq!(compiled, [""; 0], "{built:?}");
    assert!(user.says("user/1.0").starts_with(&user.shown()));

    // A neighbor changes a manifest.
    fs::remove_dir_all(&own).unwrap_or_default();
    let of_where = site.join("v3/manifests/spec/where");
    let manifest = of_where.read_dir().unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text + "\n").unwrap();
    let (built, compiled) = user.build("user/2.0", &[]);
    assert_eq!(compiled, ["where"], "{built:?}");
    let warning = format!(
        "packages of the shared cache {} are not used: where@1.0: its signature is that of another manifest\n",
        cabane.world.blank(&site_text)
    );
    assert_eq!(built.stderr.matches(&warning).count(), 1, "{built:?}");
    assert!(user.says("user/2.0").starts_with(&user.shown()));

    // And the files of the other package, of the same size.
    fs::remove_dir_all(&own).unwrap_or_default();
    let of_where_too = site.join("v3/manifests/spec/where-too");
    let manifest = of_where_too.read_dir().unwrap().next().unwrap().unwrap().path();
    let text: serde_json::Value = serde_json::from_slice(&fs::read(manifest).unwrap()).unwrap();
    for blob in text["data"].as_array().unwrap() {
        let sum = blob["checksum"].as_str().unwrap();
        let blob = site.join("blobs/sha256").join(&sum[..2]).join(sum);
        let zeros = vec![0; fs::metadata(&blob).unwrap().len().try_into().unwrap()];
        fs::write(&blob, zeros).unwrap();
    }
    let (built, compiled) = user.build("user/3.0", &[]);
    assert_eq!(compiled, ["where", "where-too"], "{built:?}");
    assert!(user.says("user/3.0").starts_with(&user.shown()));
}

#[test]
fn a_users_own_spack_installs_what_was_pushed() {
    let real = with_spack!();
    let Some(python) = env::var_os("CABANE_TEST_SPACK_PYTHON") else {
        belongs_to!("make test-spack");
    };
    let world = &real.cabane.world;
    let recipe = small_recipe(&real, "");
    real.build_with(&recipe, "build", "small/1.0", &[]);
    let mirror = world.path("home/mirror");
    let mirror = mirror.to_string_lossy();
    // Spack ignores the signatures.
    let key = world.path("home/site.key").to_string_lossy().into_owned();
    real.cabane.run(&["image", "key", "new", &key]).success();
    let mut push = real.cabane.command(&["cache", "push", &mirror, "--key", &key]);
    push.env("CABANE_SPACK_PYTHON", &python);
    let pushed = real.cabane.finish(&mut push).success();
    assert!(pushed.stderr.contains("packages copied to "), "{pushed:?}");
    // The name is enough: the index says that there is such a package.
    let packages = env::var("CABANE_TEST_SPACK_PACKAGES").unwrap();
    let config = |name: &str, text: &str| drop(world.file(&format!("home/config/{name}"), text));
    config(
        "mirrors.yaml",
        &format!("mirrors: {{cabane: {{url: 'file://{mirror}', signed: false}}}}\n"),
    );
    config("repos.yaml", &format!("repos: {{builtin: {packages}/repos/spack_repo/builtin}}\n"));
    config("config.yaml", "config: {install_tree: {root: $HOME/t}}\n");
    let script = "export SPACK_PYTHON=$1 SPACK_USER_CONFIG_PATH=$HOME/config \
                  SPACK_USER_CACHE_PATH=$HOME/cache SPACK_SYSTEM_CONFIG_PATH=$HOME/none\n\
                  $2/bin/spack install --cache-only bzip2 >&2; echo text | $HOME/t/*/bzip2-*/bin/bzip2 | bunzip2";
    let mut shell = real.cabane.other("sh");
    shell
        .args(["-e", "-c", script, "sh"])
        .arg(python)
        .arg(env::var_os("CABANE_TEST_SPACK").unwrap());
    assert_eq!(Finished::of(&mut shell).success().stdout, "text\n");
}
