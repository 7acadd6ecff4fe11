// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Trees that are whole root file systems, with programs of this machine.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use crate::Tree;

/// Directories that are links on most machines.
const LINKS: [&str; 5] = ["bin", "lib", "lib32", "lib64", "sbin"];
/// Directories that something is mounted on, as `cabane import` makes them.
const MOUNT_POINTS: [&str; 7] = ["dev", "home", "proc", "root", "sys", "tmp", "var/tmp"];
/// What shell scripts of tests use.
const PROGRAMS: [&str; 18] = [
    "cat", "cut", "env", "grep", "head", "id", "ls", "mkdir", "printf", "readlink", "rm", "sed",
    "sh", "sleep", "sort", "stat", "touch", "wc",
];

/// What [`programs_with_libraries`] has found.
static FILES: LazyLock<Vec<String>> = LazyLock::new(programs_with_libraries);

impl Tree {
    /// Makes it a root file system with a shell and a few programs, and a container image's
    /// metadata: the members of the object `container`, and its `PATH`.
    ///
    /// # Panics
    ///
    /// If a program is missing, like every function here.
    #[must_use]
    pub fn root_file_system(self, name: &str, container: &str) -> Self {
        for link in LINKS {
            if let Ok(target) = fs::read_link(Path::new("/").join(link)) {
                let target = target.strip_prefix("/").unwrap_or(&target).to_owned();
                fs::create_dir_all(self.root().join(&target)).expect("make a directory");
                symlink(target, self.root().join(link)).expect("make a link");
            }
        }
        for directory in MOUNT_POINTS {
            fs::create_dir_all(self.root().join(directory)).expect("make a directory");
        }
        for path in FILES.iter() {
            self.copy(path);
        }
        let env = format!(
            r#"{{"name":"{name}","mount":"/","default-view":"default","views":{{"default":{{"env":
{{"version":1,"values":{{"list":{{}},"scalar":{{"PATH":"/usr/bin:/bin","CABANE_TEST":"{name}"}}}}}}}}}},
"cabane":{{"version":1,"engine":"container","container":{{{container}}}}}}}
"#
        );
        self.file("etc/passwd", "root:x:0:0::/root:/bin/sh\n")
            .file("etc/group", "root:x:0:\n")
            .file("etc/hosts", "")
            .file("etc/resolv.conf", "")
            .file("etc/image", name)
            .file("meta/env.json", &env)
    }

    /// Adds a program of this machine at the same place, with the libraries that it loads.
    #[must_use]
    pub fn host_program(self, path: &str) -> Self {
        self.copy(path);
        self.copy_libraries(&[path]);
        self
    }

    /// Adds the libraries of this machine that programs and libraries in a directory of the
    /// tree load.
    #[must_use]
    pub fn host_libraries_of(self, directory: &str) -> Self {
        let output = Command::new("find")
            .arg(self.root().join(directory))
            .args(["-type", "f", "(", "-perm", "-100", "-o", "-name", "*.so*", ")"])
            .output()
            .expect("run find");
        let found = String::from_utf8_lossy(&output.stdout).into_owned();
        self.copy_libraries(&found.lines().collect::<Vec<_>>());
        self
    }

    fn copy_libraries(&self, paths: &[&str]) {
        for file in libraries(paths) {
            if !Path::new(&file).starts_with(self.root()) {
                self.copy(&file);
            }
        }
    }

    fn copy(&self, path: &str) {
        let target = self.root().join(path.trim_start_matches('/'));
        if target.exists() {
            return;
        }
        fs::create_dir_all(target.parent().expect("a parent")).expect("make a directory");
        fs::copy(path, &target).unwrap_or_else(|error| panic!("cannot copy {path}: {error}"));
    }
}

/// The programs of a root file system with their libraries. They are looked up once: each program that is
/// started counts in an emulator.
fn programs_with_libraries() -> Vec<String> {
    let found = Command::new("sh")
        .args(["-c", "for name; do command -pv \"$name\"; done", "sh"])
        .args(PROGRAMS)
        .output()
        .expect("find programs");
    let found = String::from_utf8_lossy(&found.stdout).into_owned();
    // Those that are built into the shell need no file.
    let paths: Vec<&str> = found.lines().filter(|line| line.starts_with('/')).collect();
    let libraries = libraries(&paths);
    paths.into_iter().map(str::to_owned).chain(libraries).collect()
}

/// The libraries that programs and libraries load, as the loader lists them. `ldd` starts three more processes
/// for each.
fn libraries(paths: &[&str]) -> Vec<String> {
    let list = |path: &&str| {
        let output =
            Command::new(loader()).arg("--list").arg(path).output().expect("run the loader");
        let listed = String::from_utf8_lossy(&output.stdout).into_owned();
        let names = listed.split_whitespace().filter(|name| name.starts_with('/'));
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    let found: BTreeSet<String> = paths.iter().flat_map(list).collect();
    found.into_iter().collect()
}

/// What loads the libraries of a program.
fn loader() -> &'static str {
    match std::env::consts::ARCH {
        "aarch64" => "/lib/ld-linux-aarch64.so.1",
        _ => "/lib64/ld-linux-x86-64.so.2",
    }
}
