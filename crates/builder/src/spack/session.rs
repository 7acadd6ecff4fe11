// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Running Spack: its sandbox, its variables, its commands.

use std::fs;
use std::path::{Path, PathBuf};

use cabane_recipe::{Cleanup, Yaml};
use cabane_spack::SpackStack;

use super::ask::CONCRETIZE;
use super::{SpackEngine, index, shared_packages, text_of, user};
use crate::fingerprint::digest_of;
use crate::layout::Inside;
use crate::sandbox::{Invocation, Sandbox};

/// Where the sources of a build are in the sandbox.
pub(super) const SOURCES: &str = "/cabane/sources";
/// Where everything is that Spack is handed.
pub(super) const INPUTS: &str = "spack";

/// Makes the sandbox of a build. The tree is at the mount point.
pub(super) fn sandbox(engine: &SpackEngine) -> Sandbox {
    let mut sandbox = Sandbox::new(&engine.request, &engine.layout);
    sandbox.keep(&engine.solver.prefix);
    sandbox.bind(&engine.recipe_dir.path, Inside::RECIPE, true);
    sandbox.bind(engine.layout.work(), Inside::WORK, false);
    sandbox.bind(&engine.request.cache_dir, Inside::CACHE, false);
    // What other builds use, and what runs outside of sandboxes, is not changed from inside.
    for name in ["trees", "git"] {
        let directory = engine.request.cache_dir.join(name);
        if directory.is_dir() {
            sandbox.bind(directory, Path::new(Inside::CACHE).join(name), true);
        }
    }
    shared_packages::show(engine, &mut sandbox);
    let users = user::database(&engine.layout);
    if users.is_file() {
        sandbox.bind(users, user::DATABASE, true);
    }
    for base in engine.bases.iter() {
        sandbox.mount(&base.file, base.format, base.mount_point.as_path());
    }
    if engine.store_here.is_dir() {
        sandbox.bind(&engine.store_here, &engine.store, false);
    }
    let commits = engine.commits();
    for (name, commit) in &commits {
        let place = Path::new(SOURCES).join(name);
        sandbox.bind(engine.sources.tree(commit), place, true);
    }
    for directory in local_mirrors(engine.stack()) {
        sandbox.keep(&directory);
    }
    for (variable, value) in variables(engine) {
        sandbox.set(variable, value);
    }
    // Compiled once for all builds, outside of the sources.
    sandbox.unset("PYTHONDONTWRITEBYTECODE");
    sandbox
}

fn variables(engine: &SpackEngine) -> [(&'static str, PathBuf); 8] {
    let inputs = Inside::work(INPUTS);
    let cache = Path::new(Inside::CACHE).join("spack");
    [
        ("SPACK_PYTHON", engine.solver.program.clone()),
        ("SPACK_SYSTEM_CONFIG_PATH", inputs.join("config")),
        ("SPACK_USER_CONFIG_PATH", inputs.join("user")),
        ("SPACK_USER_CACHE_PATH", Path::new(Inside::CACHE).join(index::place(engine))),
        ("SPACK_COLOR", "never".into()),
        ("PYTHONPYCACHEPREFIX", cache.join("bytecode")),
        ("UV_NO_CONFIG", "1".into()),
        ("UV_CACHE_DIR", Inside::UV_CACHE.into()),
    ]
}

/// Where Spack is in the sandbox.
pub(super) fn spack_program() -> PathBuf {
    Path::new(SOURCES).join("spack/bin/spack")
}

/// A command of Spack.
pub(super) fn spack() -> Invocation {
    Invocation::new(spack_program(), Inside::work(INPUTS))
}

/// Where an environment of Spack is in the sandbox.
pub(super) fn environment(name: &str) -> PathBuf {
    Inside::work(INPUTS).join("env").join(name)
}

/// A command of Spack in an environment.
pub(super) fn in_environment(name: &str) -> Invocation {
    entering(spack(), name)
}

/// A command of Spack that enters an environment.
pub(super) fn entering(spack: Invocation, name: &str) -> Invocation {
    spack.with(["-e".into(), text_of(&environment(name))])
}

/// A command of Spack with the mirrors that only commands get that build nothing.
pub(super) fn guarded() -> Invocation {
    spack().with(["-C".into(), text_of(&guarded_scope())])
}

/// Where these are named.
pub(super) fn guarded_scope() -> PathBuf {
    Inside::work(INPUTS).join("config").join(cabane_spack::GUARDED)
}

/// Decides what an environment is made of.
pub(super) fn concretize(name: &str) -> Invocation {
    CONCRETIZE.in_environment(name)
}

/// Installs an environment.
pub(super) fn install(engine: &SpackEngine, name: &str) -> Invocation {
    let install = install_all_it_can(engine, name);
    install.with(["--fail-fast"])
}

/// Installs packages of an environment, by their hashes, with what they need.
pub(super) fn install_some(engine: &SpackEngine, name: &str, hashes: &[String]) -> Invocation {
    let install = with_speed(engine, in_environment(name).with(["install", "--fail-fast"]));
    install.with(hashes.iter().map(|hash| format!("/{hash}")))
}

/// Installs as much of an environment as can be installed.
pub(super) fn install_all_it_can(engine: &SpackEngine, name: &str) -> Invocation {
    let mut install = in_environment(name).with(["install"]);
    if includes_build_dependencies(engine) {
        install = install.with(["--include-build-deps"]);
    }
    with_speed(engine, install)
}

fn with_speed(engine: &SpackEngine, mut install: Invocation) -> Invocation {
    install.speed = vec!["--jobs".into(), engine.request.jobs.to_string().into()];
    if engine.request.keep {
        install.speed.push("--keep-stage".into());
    }
    install
}

/// Builds packages of an environment, by their hashes, whatever caches have. What they need
/// may come from caches.
pub(super) fn build(engine: &SpackEngine, name: &str, hashes: &[String]) -> Invocation {
    let never = "--use-buildcache=package:never,dependencies:auto";
    let hashes = hashes.iter().map(|hash| format!("/{hash}"));
    install(engine, name).with([never]).with(hashes)
}

/// Whether what only builds need is installed, too. It is not there for long otherwise,
/// wherever packages come from; but what goes into a cache must be there.
pub(super) fn includes_build_dependencies(engine: &SpackEngine) -> bool {
    engine.stack().cleanup != Cleanup::Runtime || engine.stack().push_to.is_some()
}

/// Removes what no one needs any more; nothing if everything stays.
pub(super) fn clean_up(engine: &SpackEngine) -> Option<Invocation> {
    let stack = engine.stack();
    let keep: &[&str] = match stack.cleanup {
        Cleanup::None => return None,
        Cleanup::Build => &["--keep-build-dependencies"],
        Cleanup::Runtime => &[],
    };
    let mut command = spack().with(["gc", "--yes-to-all"]).with(keep);
    // A compiler with an environment of its own is needed to build, and not to run.
    let kept = stack.environments.iter();
    let kept = kept.filter(|one| one.is_explicit || stack.cleanup == Cleanup::Build);
    for one in kept {
        command = command.with(["--except-environment".into(), text_of(&environment(&one.name))]);
    }
    Some(command)
}

/// Finds the mirrors that are directories of this machine.
fn local_mirrors(stack: &SpackStack) -> Vec<PathBuf> {
    let name = "mirrors.yaml";
    let text = stack.config.get(name).map_or("", String::as_str);
    let mirrors = Yaml::parse(Path::new(name), text.as_bytes()).unwrap_or_default();
    let mut found = Vec::new();
    add_directories(&mirrors, &mut found);
    found.retain(|path| path.is_dir() && !path.starts_with(Inside::ROOT));
    found
}

/// Adds all directories that a document names by a URL.
fn add_directories(value: &Yaml, found: &mut Vec<PathBuf>) {
    match value {
        Yaml::Map(map) => map.iter().for_each(|(_, value)| add_directories(value, found)),
        Yaml::List(list) => list.iter().for_each(|value| add_directories(value, found)),
        Yaml::Text(text) => found.extend(text.strip_prefix("file://").map(PathBuf::from)),
        _ => {}
    }
}

/// What the concretizer sees of this machine: another system or processor gives other
/// packages.
pub(super) fn host() -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let kind = ["ID", "VERSION_ID"].map(|key| {
        let line = release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_default().trim_matches('"').to_owned()
    });
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let features =
        processor.lines().find(|line| line.starts_with("flags") || line.starts_with("Features"));
    let features = digest_of([features.unwrap_or_default()]);
    format!("{} on {} {}", kind.join(" "), std::env::consts::ARCH, &features.as_str()[..16])
}
