// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Root file systems of other Debians, with their MPIs, as images.
//!
//! The set-up unpacks them from packages. An import takes some seconds, so that tests which
//! run at the same time share one.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, Weak};

use cabane_mpi::{Places, Side, Tree, Verdict, judge};
use cabane_testkit::Finished;
use cabane_testkit::mpi::{self, libraries_of_debian};

use crate::cabane::{Cabane, Who, everybody};

/// A root file system, and the image that was made of it.
pub(crate) struct Image {
    /// The directory of which it was made.
    pub(crate) root: PathBuf,
    /// The file.
    pub(crate) path: String,
    _world: Cabane,
}

/// Makes the image of a suite, or says why the test does not run and returns from it.
macro_rules! image_of {
    ($suite:expr) => {
        match cabane_testkit::mpi::Root::find($suite) {
            cabane_testkit::mpi::Root::Here(root) => $crate::debian_roots::imported($suite, root),
            cabane_testkit::mpi::Root::NotToBeHad => {
                cabane_testkit::say(concat!(
                    "not run: the mirror of this system has no such Debian: ",
                    stringify!($suite)
                ));
                return;
            }
            cabane_testkit::mpi::Root::Missing => {
                cabane_testkit::not_run!("needs root file systems of Debian: scripts/setup test")
            }
        }
    };
}
pub(crate) use image_of;

/// Imports a root file system, unless another test has it.
pub(crate) fn imported(suite: &str, root: PathBuf) -> Arc<Image> {
    static SHARED: Mutex<Vec<(PathBuf, Weak<Image>)>> = Mutex::new(Vec::new());
    let mut shared = SHARED.lock().unwrap();
    let known = shared.iter().find(|(path, _)| *path == root);
    if let Some(image) = known.and_then(|(_, image)| image.upgrade()) {
        return image;
    }
    let world = Cabane::new(everybody()[0]);
    let source = format!("dir:{}", root.display());
    world.run(&["import", &source, &format!("{suite}/1:v1")]).success();
    let found = world.command(&["image", "inspect", suite, "--format", "{sqfs}"]);
    let found = Finished::of(&mut { found }).success();
    let path = world.world.path(&format!("{suite}.squashfs"));
    fs::copy(found.stdout.trim(), &path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let image = Arc::new(Image {
        root: root.clone(),
        path: path.to_string_lossy().into_owned(),
        _world: world,
    });
    shared.retain(|(path, _)| *path != root);
    shared.push((root, Arc::downgrade(&image)));
    image
}

/// Packs a large tree: at the usual level of compression that takes half a minute.
pub(crate) fn pack(tree: &Path, image: &Path) {
    let mut packing = Command::new("mksquashfs");
    packing.arg(tree).arg(image);
    packing.args(["-quiet", "-no-progress", "-all-root", "-comp", "zstd"]);
    packing.args(["-Xcompression-level", "1"]);
    Finished::of(&mut packing).success();
}

/// The arguments that start a launcher of Debian 12, which is unpacked and not installed.
pub(crate) fn launcher_of_debian(debian: &Path, name: &str) -> Vec<String> {
    let launcher = debian.join("usr/bin").join(name);
    vec![
        "env".to_owned(),
        format!("LD_LIBRARY_PATH={}", libraries_of_debian(debian).display()),
        format!("OPAL_PREFIX={}/usr", debian.display()),
        launcher.display().to_string(),
    ]
}

/// Programs of Debian 12, in the working directory of an ordinary user.
pub(crate) struct Programs {
    pub(crate) cabane: Cabane,
    debian: PathBuf,
}

impl Programs {
    pub(crate) fn new(debian: &Path) -> Self {
        Self { cabane: Cabane::new(Who::OrdinaryUser), debian: debian.to_owned() }
    }

    /// Compiles a source of `tests/mpi` for a library of an MPI.
    pub(crate) fn compile(&self, source: &str, headers: &Path, options: &[&str], library: &Path) {
        let options = options.iter().map(OsStr::new).chain([library.as_os_str()]);
        mpi::compile(source, &self.program(), headers, options);
    }

    /// The program that was compiled.
    pub(crate) fn program(&self) -> PathBuf {
        self.cabane.world.path("work/program")
    }

    /// The arguments of the launchers of Debian 12.
    pub(crate) fn hydra(&self) -> Vec<String> {
        launcher_of_debian(&self.debian, "mpiexec.hydra")
    }

    pub(crate) fn mpirun(&self) -> Vec<String> {
        let mut arguments = launcher_of_debian(&self.debian, "orterun");
        arguments.push("--oversubscribe".to_owned());
        arguments
    }

    /// Asks whether a program in a root file system can have a library: one of the root
    /// itself, or of this machine.
    pub(crate) fn judge(&self, image: &Image, library: &Path, is_inside: bool) -> Verdict {
        let work = self.cabane.world.path("work");
        let inside = Tree::below(&image.root).with(&work, &work);
        let here = Tree::here();
        let places = Places {
            private: (!is_inside).then(|| "/run/cabane/mpi".into()),
            links: "/run/cabane/mpi/links".into(),
        };
        let side = |tree, path| Side { tree, path, library_path: "" };
        let program = self.program();
        let tree = if is_inside { &inside } else { &here };
        judge(side(&inside, &program), side(tree, library), &places)
    }

    /// Starts a command of the user, which ends.
    pub(crate) fn finish(&self, arguments: &[String]) -> Finished {
        let mut command = self.cabane.other("timeout");
        command.args(["--kill-after=5", "100"]).args(arguments);
        // Other tests may look for company in the common places.
        command.env("XDG_RUNTIME_DIR", self.cabane.world.path("home"));
        self.cabane.finish(&mut command)
    }

    /// Starts two ranks in an image, with a launcher of this machine.
    pub(crate) fn launch(&self, launcher: &[String], options: &[&str], image: &Image) -> Finished {
        let mut arguments = launcher.to_vec();
        arguments.extend(["-n", "2", self.cabane.program(), "run"].map(str::to_owned));
        arguments.extend(options.iter().map(|&word| word.to_owned()));
        arguments.extend([image.path.as_str(), "--", "./program"].map(str::to_owned));
        self.finish(&arguments)
    }

    /// Starts two ranks in an image, with a launcher in it.
    pub(crate) fn launch_inside(
        &self,
        options: &[&str],
        image: &Image,
        launcher: &[&str],
    ) -> Finished {
        let arguments = [
            &[self.cabane.program(), "run"],
            options,
            &[image.path.as_str(), "--"],
            launcher,
            &["-n", "2", "./program"],
        ];
        let arguments: Vec<String> =
            arguments.concat().iter().map(|&word| word.to_owned()).collect();
        self.finish(&arguments)
    }
}
