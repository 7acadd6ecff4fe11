// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the tests build with: a recipe, a build directory, someone who builds.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cabane_builder::{
    BuildError, BuildRequest, Built, DEFAULT_EPOCH, ImageFormat, Programs, Progress, Step, execute,
    plan,
};
use cabane_mount::Backend;
use cabane_process::child::ask;
use cabane_report::Report;
use cabane_testkit::{Finished, World, become_ordinary_user, is_root};
use serde::{Deserialize, Serialize};

/// Who builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Anyone who runs the tests.
    Me,
    /// An ordinary user.
    User,
}

/// Both of them, or one if the tests run as an ordinary user.
pub(crate) fn everybody() -> Vec<Who> {
    if is_root() { vec![Who::Me, Who::User] } else { vec![Who::User] }
}

/// What became of a build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) digest: String,
    pub(crate) image: PathBuf,
    pub(crate) meta: PathBuf,
    /// `started lock`, `skipped pack`, `warning …`.
    pub(crate) events: Vec<String>,
}

impl Outcome {
    pub(crate) fn new(built: &Built, recorder: Recorder) -> Self {
        Self {
            digest: built.digest.to_string(),
            image: built.image.clone(),
            meta: built.meta.clone(),
            events: recorder.0,
        }
    }

    /// Reads a file from the image.
    pub(crate) fn file(&self, path: &str) -> String {
        Finished::of(Command::new("unsquashfs").arg("-cat").arg(&self.image).arg(path))
            .success()
            .stdout
    }

    /// Reads the metadata from the image.
    pub(crate) fn env_json(&self) -> serde_json::Value {
        serde_json::from_str(&self.file("meta/env.json")).expect("env.json is JSON")
    }

    /// Lists everything in the image: mode, owner, size, time and name.
    pub(crate) fn listing(&self) -> String {
        Finished::of(Command::new("unsquashfs").args(["-lln", "-d", ""]).arg(&self.image))
            .success()
            .stdout
    }
}

/// Remembers what a build reported.
#[derive(Default)]
pub(crate) struct Recorder(pub(crate) Vec<String>);

impl Progress for Recorder {
    fn started(&mut self, step: &Step, _: usize, _: usize) {
        self.0.push(format!("started {}", step.name));
    }

    fn finished(&mut self, step: &Step, _: Duration) {
        self.0.push(format!("finished {}", step.name));
    }

    fn skipped(&mut self, step: &Step) {
        self.0.push(format!("skipped {}", step.name));
    }

    fn waiting(&mut self, _: Option<u32>, _: &Path) {
        self.0.push("waiting".to_owned());
    }

    fn warning(&mut self, text: &str) {
        self.0.push(format!("warning {text}"));
    }
}

/// Makes an empty recipe directory with this `config.yaml` in a world.
pub(crate) fn recipe(world: &World, config: &str) -> PathBuf {
    world.file("recipe/config.yaml", config);
    world.path("recipe")
}

/// A request for a build of `recipe/` in the directory `build` of a world.
pub(crate) fn request(world: &World, build: &str) -> BuildRequest {
    let tool = |name: &str| find_in_path(name);
    BuildRequest {
        recipe_dir: world.path("recipe"),
        build_dir: world.path(build),
        system_dir: None,
        mirrors: None,
        install: None,
        workers: Vec::new(),
        path_variables: std::collections::BTreeMap::new(),
        cache_dir: world.directory("cache"),
        shared_cache: None,
        package_keys: None,
        format: ImageFormat::Squashfs,
        programs: Programs {
            uv: tool("uv"),
            spack_python: None,
            easybuild_python: None,
            git: tool("git"),
            tar: tool("tar"),
            curl: tool("curl"),
            mksquashfs: tool("mksquashfs"),
            mkfs_erofs: tool("mkfs.erofs"),
            modules: None,
            objcopy: tool("objcopy"),
        },
        // No test may reach the network.
        passed_variables: [("UV_OFFLINE".to_owned(), "1".to_owned())].into(),
        hidden_home: Some(world.path("home")),
        search_path: Vec::new(),
        epoch: DEFAULT_EPOCH,
        jobs: 2,
        pins: cabane_builder::Pins::default(),
        containers: None,
        command_network: true,
        part: cabane_builder::Part::default(),
        keep: false,
        debug_symbols: false,
        memory: None,
        fuse: cabane_mount::FusePrograms::default(),
        backend: Backend::Root,
    }
}

/// Finds a program as the shell of the tester would.
pub(crate) fn find_in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|directory| directory.join(name))
        .find(|path| path.is_file())
}

/// Builds in a copy of this process.
pub(crate) fn build(request: &BuildRequest, who: Who) -> Result<Outcome, String> {
    in_copy(who, || {
        let mut request = request.clone();
        request.backend = Backend::detect();
        let mut recorder = Recorder::default();
        let built = plan(&request)
            .and_then(|plan| execute(&plan, &mut recorder, &AtomicBool::new(false)))
            .map_err(describe)?;
        Ok(Outcome::new(&built.unwrap(), recorder))
    })
}

/// Does something as someone, in a copy of this process.
pub(crate) fn in_copy<T: Serialize + for<'a> Deserialize<'a>>(
    who: Who,
    act: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    let bytes = ask(|| {
        if who == Who::User {
            become_ordinary_user();
        }
        let answer = act()?;
        serde_json::to_vec(&answer).map_err(|error| error.to_string())
    })
    .map_err(|error| error.to_string())??;
    serde_json::from_slice(&bytes).map_err(|error| error.to_string())
}

/// An error as the command line would print it.
pub(crate) fn describe(error: BuildError) -> String {
    let report = Report::from(error);
    let mut lines = vec![format!("error: {report}")];
    lines.extend(report.causes().map(|cause| format!("cause: {cause}")));
    lines.extend(report.detail().map(str::to_owned));
    lines.extend(report.hints().iter().map(|hint| format!("hint: {hint}")));
    lines.join("\n")
}

/// Changes the mode of a file.
pub(crate) fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("change a mode");
}

/// Makes a program that says it is `uv`, and then does something else.
pub(crate) fn fake_uv(world: &World, script: &str) -> PathBuf {
    fake(world, "uv", "uv 1.2.3", script)
}

/// Makes a program that gives its version, and otherwise runs a script.
pub(crate) fn fake(world: &World, name: &str, version: &str, script: &str) -> PathBuf {
    let path = world.file(
        &format!("tools/{name}"),
        &format!(
            "#!/bin/sh\ncase $1 in -version|--version) echo {version}; exit;; esac\n{script}\n"
        ),
    );
    chmod(&path, 0o755);
    path
}
