// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Programs for real libraries, and their ranks.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use cabane_mpi::{Places, Plan, Side, Tree, Verdict, judge};
use cabane_testkit::Finished;
use cabane_testkit::mpi::{self, libraries_of_debian};

/// A program that was linked with a library.
pub(crate) struct Program {
    pub(crate) home: tempfile::TempDir,
    pub(crate) path: PathBuf,
    /// The search path without which it does not start where it was linked for.
    pub(crate) library_path: String,
}

impl Program {
    /// Compiles a source of `tests/mpi` with the headers of one installation, and links it
    /// with libraries.
    pub(crate) fn compile(source: &str, headers: &Path, libraries: &[PathBuf]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("program");
        mpi::compile(source, &path, headers, libraries);
        let directory = libraries.first().and_then(|one| one.parent());
        let library_path = directory.map(|one| one.to_string_lossy().into_owned());
        Self { home, path, library_path: library_path.unwrap_or_default() }
    }

    /// A program of Debian 12 for MPICH.
    pub(crate) fn of_debian_mpich(debian: &Path, headers: &Path) -> Self {
        let library = libraries_of_debian(debian).join("libmpich.so.12");
        Self::compile("hello.c", headers, &[library])
    }

    /// A program of Debian 12 for Open MPI.
    pub(crate) fn of_debian_openmpi(debian: &Path, headers: &Path) -> Self {
        let library = libraries_of_debian(debian).join("libmpi.so.40");
        Self::compile("hello.c", headers, &[library])
    }

    /// A program for the library that is below a prefix.
    pub(crate) fn of(prefix: &Path, library: &str) -> Self {
        Self::compile("hello.c", prefix, &[prefix.join("lib").join(library)])
    }

    /// A program for the standard ABI.
    pub(crate) fn of_abi(prefix: &Path) -> Self {
        let library = prefix.join("lib/libmpi_abi.so.1");
        Self::compile("hello.c", prefix, &["-DMPI_ABI".into(), library])
    }

    /// Asks what may take the place of its library.
    pub(crate) fn judge(&self, substitute: &Path) -> Verdict {
        self.judge_with(substitute, "")
    }

    /// The same for a substitute that needs a search path itself.
    pub(crate) fn judge_with(&self, substitute: &Path, library_path: &str) -> Verdict {
        let tree = Tree::here();
        let places = Places { private: None, links: self.home.path().join("links") };
        let program = Side { tree: &tree, path: &self.path, library_path: &self.library_path };
        let substitute = Side { tree: &tree, path: substitute, library_path };
        judge(program, substitute, &places)
    }

    /// Starts two ranks as a plan says.
    pub(crate) fn run(&self, launcher: &Launcher, plan: &Plan) -> Finished {
        for (link, target) in &plan.links {
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(target, link).unwrap();
        }
        let calling = |name: &str| (name == "LD_LIBRARY_PATH").then(|| self.library_path.clone());
        let mut variables = plan.environment(calling);
        if !variables.iter().any(|(name, _)| name == "LD_LIBRARY_PATH") {
            variables.push(("LD_LIBRARY_PATH".to_owned(), self.library_path.clone()));
        }
        self.run_with(launcher, &variables)
    }

    /// Starts the program alone: what its loader says then is not cut off by a launcher that
    /// ends the other rank.
    pub(crate) fn run_alone(&self, variables: &[(String, String)]) -> Finished {
        let variables = variables.iter().cloned();
        Finished::of(Command::new(&self.path).envs(variables))
    }

    /// Starts two ranks with these variables, whatever comes of it.
    pub(crate) fn run_with(&self, launcher: &Launcher, variables: &[(String, String)]) -> Finished {
        let mut command = launcher.command();
        let variables = variables.iter();
        command
            .arg("env")
            .args(variables.map(|(name, value)| format!("{name}={value}")))
            .arg(&self.path);
        Finished::of(&mut command)
    }
}

/// A program that starts two ranks.
pub(crate) struct Launcher {
    pub(crate) path: PathBuf,
    library_path: String,
    prefix: Option<PathBuf>,
    is_openmpi: bool,
    options: Vec<&'static str>,
}

impl Launcher {
    /// Hydra of Debian 12.
    pub(crate) fn hydra_of_debian(debian: &Path) -> Self {
        Self {
            path: debian.join("usr/bin/mpiexec.hydra"),
            library_path: libraries_of_debian(debian).to_string_lossy().into_owned(),
            prefix: None,
            is_openmpi: false,
            options: Vec::new(),
        }
    }

    /// `mpirun` of Debian 12.
    pub(crate) fn openmpi_of_debian(debian: &Path) -> Self {
        Self {
            path: debian.join("usr/bin/orterun"),
            prefix: Some(debian.join("usr")),
            is_openmpi: true,
            ..Self::hydra_of_debian(debian)
        }
    }

    /// The launcher below a prefix.
    pub(crate) fn of(prefix: &Path) -> Self {
        Self {
            path: prefix.join("bin/mpiexec"),
            library_path: String::new(),
            prefix: None,
            is_openmpi: prefix.join("bin/ompi_info").exists(),
            options: Vec::new(),
        }
    }

    /// The same with more options.
    pub(crate) fn with(self, options: impl IntoIterator<Item = &'static str>) -> Self {
        Self { options: options.into_iter().collect(), ..self }
    }

    fn command(&self) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", "100"]).arg(&self.path);
        command.args(&self.options).args(["-n", "2"]);
        if self.is_openmpi {
            command.arg("--oversubscribe");
        }
        if let Some(prefix) = &self.prefix {
            command.env("OPAL_PREFIX", prefix);
        }
        command
            .env("LD_LIBRARY_PATH", &self.library_path)
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
            .env("PRTE_ALLOW_RUN_AS_ROOT", "1")
            .env("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command
    }
}
