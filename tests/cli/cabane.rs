// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The program in a frozen world.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use cabane_testkit::{Finished, Tree, World, is_root, squashfs};

use crate::json_schema;

/// The label of the image that [`Cabane::with_app`] adds.
pub(crate) const APP: &str = "app/1.0:v1@here%x86_64";

/// Who types the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Root,
    OrdinaryUser,
}

/// Those who can be had where the tests run.
pub(crate) fn everybody() -> Vec<Who> {
    if is_root() { vec![Who::Root, Who::OrdinaryUser] } else { vec![Who::OrdinaryUser] }
}

/// A world with the program, for one user.
pub(crate) struct Cabane {
    pub(crate) world: World,
    program: PathBuf,
    who: Who,
    /// The set-uid helper, where a test brings one.
    helper: Option<PathBuf>,
}

impl Cabane {
    pub(crate) fn new(who: Who) -> Self {
        let world = World::new();
        let program = world.path("cabane");
        let built = std::env::var_os("CABANE_TEST_BINARY")
            .map_or_else(|| env!("CARGO_BIN_EXE_cabane").into(), PathBuf::from);
        let built = built.as_path();
        // The directory of the build may be closed to the ordinary user.
        if fs::hard_link(built, &program).is_err() {
            fs::copy(built, &program).unwrap();
        }
        Self { world, program, who, helper: None }
    }

    /// The same world with a set-uid helper.
    pub(crate) fn with_helper(mut self, helper: &str) -> Self {
        self.helper = Some(helper.into());
        self
    }

    /// The same world for someone without rights.
    pub(crate) fn for_ordinary_user(self) -> Self {
        Self { who: Who::OrdinaryUser, ..self }
    }

    /// A world with a repository that holds [`APP`]: a program `hello` and the
    /// default view.
    pub(crate) fn with_app(who: Who) -> Self {
        let cabane = Self::new(who);
        let mount_point = cabane.mount_point("app");
        let image = cabane.image("app", &mount_point);
        cabane.run(&["image", "add", APP, &image]).success();
        cabane
    }

    /// A mount point in the world that exists.
    pub(crate) fn mount_point(&self, name: &str) -> String {
        self.world.directory(&format!("mnt/{name}")).to_string_lossy().into_owned()
    }

    /// Packs an image and returns its path.
    pub(crate) fn image(&self, name: &str, mount_point: &str) -> String {
        let tree = Tree::new(self.world.path(&format!("trees/{name}")))
            .program("bin/hello", &format!("echo hello from {name}"))
            .file("name", name)
            .meta(name, mount_point);
        let image = self.world.path(&format!("{name}.squashfs"));
        squashfs(tree.root(), &image);
        image.to_string_lossy().into_owned()
    }

    /// Prepares a command line.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = match self.who {
            Who::Root => self.world.command(&self.program),
            Who::OrdinaryUser => self.world.command_as_ordinary_user(&self.program),
        };
        command.args(arguments);
        self.with_variables(command)
    }

    /// Prepares a command line that root types in the world of an ordinary user.
    pub(crate) fn command_of_root(&self, arguments: &[&str]) -> Command {
        let mut command = self.world.command(&self.program);
        command.args(arguments);
        self.with_variables(command)
    }

    /// Prepares another program for the same user.
    pub(crate) fn other(&self, program: &str) -> Command {
        let mut command = match self.who {
            Who::Root => self.world.command(program),
            Who::OrdinaryUser => self.world.command_as_ordinary_user(program),
        };
        command.env("CABANE", &self.program);
        self.with_variables(command)
    }

    fn with_variables(&self, mut command: Command) -> Command {
        command.env("CABANE_SYSTEM", "here");
        command.env("CABANE_SITE_CONFIG", self.world.path("site.toml"));
        // Not there: what the tests build leaves nothing in memory.
        command.env("CABANE_MEMORY_DIR", self.world.path("memory"));
        // Where a test brings none there is none, not even one that is installed.
        let none = self.world.path("no-helper");
        command.env("CABANE_HELPER", self.helper.as_ref().unwrap_or(&none));
        command
    }

    /// Types a command line and waits for its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Finished {
        self.finish(&mut self.command(arguments))
    }

    /// Waits for the end of a command; what varies is blanked.
    pub(crate) fn finish(&self, command: &mut Command) -> Finished {
        let finished = Finished::of(command);
        self.check_json(command, &finished);
        Finished {
            code: finished.code,
            stdout: self.world.blank(&finished.stdout),
            stderr: self.world.blank(&finished.stderr),
        }
    }

    /// Checks JSON against the schema of the command, also if another command has started it.
    fn check_json(&self, command: &Command, finished: &Finished) {
        let words = [command.get_program()].into_iter().chain(command.get_args());
        let words: Vec<&str> = words.filter_map(OsStr::to_str).collect();
        if let Some(at) = words.iter().rposition(|word| *word == self.program()) {
            json_schema::check(&words[at + 1..], &finished.stdout);
        }
    }

    /// The path of the program.
    pub(crate) fn program(&self) -> &str {
        self.program.to_str().unwrap()
    }
}

/// A command that has ended, for comparison.
pub(crate) fn finished(code: i32, stdout: &str, stderr: &str) -> Finished {
    Finished { code, stdout: stdout.to_owned(), stderr: stderr.to_owned() }
}
