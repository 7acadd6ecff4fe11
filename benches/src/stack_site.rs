// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A site with Spack: sources, a solver, the description of this machine, and the two
//! programs that build stacks.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::bed::Bed;
use crate::measure::{NotMeasured, finish};
use crate::peers::{STACKINATOR, UV};
use crate::processor::{Cost, cost_of};
use crate::rebuild::PASSED_ON;
use crate::stack::copy_directory;

/// Stackinator's sandbox hides `/tmp` and the home.
const PARENT: &str = "/var/tmp";
/// The addresses that the recipe names, and the variables that name clones of them.
const CLONES: [(&str, &str); 2] = [
    ("https://github.com/spack/spack.git", "CABANE_TEST_SPACK"),
    ("https://github.com/spack/spack-packages.git", "CABANE_TEST_SPACK_PACKAGES"),
];
const SOURCES: &str = "CABANE_TEST_SPACK_MIRROR";

/// Where a build is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Disk,
    Memory,
}

/// What a build finds of earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    Empty,
    Kept,
}

/// A stack that was built.
pub(crate) struct Built {
    pub(crate) cost: Cost,
    pub(crate) bytes: u64,
    pub(crate) image: PathBuf,
    /// How long everything after the installation took, in seconds.
    pub(crate) after_packages: f64,
    /// How long it took to build the packages that were built, in seconds, as Spack says.
    pub(crate) compiling: f64,
}

/// Everything that both need.
pub(crate) struct Site<'a> {
    bed: &'a Bed,
    directory: TempDir,
    recipe: PathBuf,
}

impl<'a> Site<'a> {
    pub(crate) fn furnish(bed: &'a Bed) -> Result<Self, NotMeasured> {
        let sources = CLONES.map(|(_, variable)| variable);
        for variable in sources.into_iter().chain([SOURCES]) {
            env::var_os(variable).ok_or(format!("{variable} names no directory"))?;
        }
        let make = || {
            tempfile::Builder::new()
                .prefix("cabane-bench-")
                .tempdir_in(PARENT)
                .map_err(|error| format!("cannot make a directory in {PARENT}: {error}"))
        };
        let site = Self { bed, directory: make()?, recipe: PathBuf::new() };
        let site = Self { recipe: site.path("recipe"), ..site };
        site.make_recipe()?;
        // The peer wants it to be there.
        fs::create_dir_all("/user-environment")
            .map_err(|error| format!("cannot make the mount point: {error}"))?;
        fs::create_dir_all(site.path("home")).map_err(|error| error.to_string())?;
        site.describe_machine()?;
        site.make_solver()?;
        site.change_recipe()?;
        site.move_recipe()?;
        Ok(site)
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join(relative)
    }

    fn describe_machine(&self) -> Result<(), NotMeasured> {
        let mut probe = self.cabane()?;
        finish(probe.args(["system", "probe", "--output"]).arg(self.path("system")))?;
        let sources = PathBuf::from(env::var_os(SOURCES).unwrap_or_default());
        copy_directory(&sources, &self.path("sources"))?;
        let mirrors =
            format!("sourcemirror:\n  here:\n    url: file://{}\n", self.path("sources").display());
        fs::write(self.path("mirrors.yaml"), mirrors).map_err(|error| error.to_string())
    }

    /// Makes the Python with Spack's solver that both use.
    fn make_solver(&self) -> Result<(), NotMeasured> {
        let uv = UV.find()?;
        let requirements =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/builder/src/spack/requirements.txt");
        let prepared = |arguments: &[&str]| {
            let mut command = self.bed.command(&uv);
            for name in PASSED_ON {
                command.envs(env::var_os(name).map(|value| (name, value)));
            }
            command.args(arguments);
            command
        };
        let mut make = prepared(&["venv", "--no-config", "--python", "/usr/bin/python3"]);
        finish(make.arg(self.path("solver")))?;
        let mut fill = prepared(&["pip", "install", "--no-config", "--requirements"]);
        // The peer's own scripts read YAML.
        fill.arg(requirements).arg("pyyaml");
        finish(fill.arg("--python").arg(self.solver())).map(drop)
    }

    fn solver(&self) -> PathBuf {
        self.path("solver/bin/python3")
    }

    /// Makes the recipe; the packages that need other sources are those of an example.
    fn make_recipe(&self) -> Result<(), NotMeasured> {
        let benches = Path::new(env!("CARGO_MANIFEST_DIR"));
        copy_directory(&benches.join("stack"), &self.recipe)?;
        let packages = benches.join("../examples/prgenv-mpich/repo");
        copy_directory(&packages, &self.recipe.join("repo"))
    }

    /// Makes the same recipe with another variant of a package in the middle.
    fn change_recipe(&self) -> Result<(), NotMeasured> {
        copy_directory(&self.recipe, &self.path("changed"))?;
        let path = self.path("changed/environments.yaml");
        let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let changed = text.replace("- zlib@1.3.1\n", "- zlib@1.3.1 ~optimize\n");
        if changed == text {
            return Err("the recipe of the benchmark has no zlib to change".to_owned());
        }
        fs::write(&path, changed).map_err(|error| error.to_string())
    }

    /// Makes the same recipe for a mount point with a shorter path.
    fn move_recipe(&self) -> Result<(), NotMeasured> {
        copy_directory(&self.recipe, &self.path("moved"))?;
        let path = self.path("moved/config.yaml");
        let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let moved = text.replace("store: /user-environment\n", "store: /user-tools\n");
        if moved == text {
            return Err("the recipe of the benchmark has another mount point".to_owned());
        }
        fs::write(&path, moved).map_err(|error| error.to_string())
    }

    fn cabane(&self) -> Result<Command, NotMeasured> {
        let program = self.bed.cabane.as_ref().map_err(Clone::clone)?;
        let mut command = self.bed.command(program);
        command.env("HOME", self.path("home")).env("CABANE_SPACK_PYTHON", self.solver());
        lead_to_clones(&mut command);
        Ok(command)
    }

    /// What Spack will be handed.
    pub(crate) fn show(&self) -> Result<Cost, NotMeasured> {
        let mut command = self.cabane()?;
        command.args(["recipe", "show"]).arg(&self.recipe);
        self.name_system(&mut command);
        cost_of(&mut command)
    }

    fn name_system(&self, command: &mut Command) {
        command
            .arg("--system")
            .arg(self.path("system"))
            .arg("--mirrors")
            .arg(self.path("mirrors.yaml"));
    }

    /// Builds the recipe, in the build directory of this name and round.
    pub(crate) fn build(
        &self,
        name: &str,
        round: usize,
        place: Place,
        cache: Cache,
    ) -> Result<Built, NotMeasured> {
        let cached = match (cache, place) {
            (Cache::Empty, _) => format!("cache-{name}-{round}"),
            (Cache::Kept, _) => format!("cache-source-{round}"),
        };
        self.build_recipe(&self.recipe, &format!("{name}-{round}"), place, &cached)
    }

    /// Builds the other recipe with a copy of the caches: it fills them.
    pub(crate) fn build_changed(&self, name: &str, round: usize) -> Result<Built, NotMeasured> {
        let cached = format!("cache-{name}-{round}");
        copy_directory(&self.path(&format!("cache-source-{round}")), &self.path(&cached))?;
        let recipe = self.path("changed");
        self.build_recipe(&recipe, &format!("{name}-{round}"), Place::Disk, &cached)
    }

    /// Builds the recipe for the other mount point with the caches of the previous build.
    pub(crate) fn build_moved(&self, name: &str, round: usize) -> Result<Built, NotMeasured> {
        let recipe = self.path("moved");
        let cached = format!("cache-source-{round}");
        self.build_recipe(&recipe, &format!("{name}-{round}"), Place::Disk, &cached)
    }

    fn build_recipe(
        &self,
        recipe: &Path,
        name: &str,
        place: Place,
        cached: &str,
    ) -> Result<Built, NotMeasured> {
        let image = self.path(&format!("{name}.squashfs"));
        let directory = self.path(name);
        let mut command = self.cabane()?;
        command
            .env("CABANE_CACHE_DIR", self.path(cached))
            .arg("build")
            .arg(recipe)
            .arg("--output")
            .arg(&image);
        // Who names no directory builds in memory, if there is enough.
        if place == Place::Disk {
            command.arg("--build-dir").arg(&directory);
        }
        self.name_system(&mut command);
        let cost = cost_of(&mut command)?;
        Ok(Built {
            cost,
            bytes: size_of(&image)?,
            image,
            after_packages: after_packages(&directory).unwrap_or(f64::NAN),
            compiling: compiling(&directory).unwrap_or(f64::NAN),
        })
    }

    /// Configures the build of the peer.
    pub(crate) fn stack_config(&self, round: usize) -> Result<Cost, NotMeasured> {
        let mut command = self.bed.command(STACKINATOR.find()?);
        command.env("HOME", self.path("home"));
        lead_to_clones(&mut command);
        command
            .arg("-b")
            .arg(self.peer_build(round))
            .arg("-r")
            .arg(&self.recipe)
            .arg("-s")
            .arg(self.path("system"))
            .arg("--mirror")
            .arg(self.path("mirrors.yaml"));
        cost_of(&mut command)
    }

    fn peer_build(&self, round: usize) -> PathBuf {
        self.path(&format!("peer-{round}"))
    }

    /// Runs what the peer tells its users to.
    pub(crate) fn make(&self, round: usize) -> Result<Built, NotMeasured> {
        let directory = self.peer_build(round);
        // Some distributions call the group of `nobody` `nogroup`.
        let makefile = directory.join("Makefile");
        let text = fs::read_to_string(&makefile).map_err(|error| error.to_string())?;
        let groups = fs::read_to_string("/etc/group").unwrap_or_default();
        if !groups.lines().any(|line| line.starts_with("nobody:")) {
            let text = text.replace("-force-gid nobody", "-force-gid nogroup");
            fs::write(&makefile, text).map_err(|error| error.to_string())?;
        }
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let mut path = OsString::from("/usr/bin:/bin:");
        path.push(directory.join("spack/bin"));
        let mut command = Command::new("/usr/bin/make");
        command
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.path("home"))
            .env("SPACK_PYTHON", self.solver())
            .arg("-C")
            .arg(&directory)
            .arg("store.squashfs")
            .arg(format!("NJOBS={jobs}"));
        let cost = cost_of(&mut command)?;
        let image = directory.join("store.squashfs");
        Ok(Built {
            cost,
            bytes: size_of(&image)?,
            image,
            after_packages: f64::NAN,
            compiling: f64::NAN,
        })
    }
}

/// Sets the variables with which the addresses of the recipe lead to the clones.
fn lead_to_clones(command: &mut Command) {
    command.env("GIT_CONFIG_COUNT", CLONES.len().to_string());
    for (number, (address, variable)) in CLONES.iter().enumerate() {
        let mut key = OsString::from("url.");
        key.push(env::var_os(variable).unwrap_or_default());
        key.push(".insteadOf");
        command.env(format!("GIT_CONFIG_KEY_{number}"), key);
        command.env(format!("GIT_CONFIG_VALUE_{number}"), address);
    }
}

fn size_of(image: &Path) -> Result<u64, NotMeasured> {
    let found = fs::metadata(image);
    found.map(|found| found.len()).map_err(|error| format!("no image: {error}"))
}

/// Returns the time between the last word of the installation and the image.
fn after_packages(build: &Path) -> Option<f64> {
    let changed = |relative: &str| fs::metadata(build.join(relative)).ok()?.modified().ok();
    let installed = changed("logs/install.log")?;
    let packed = changed("steps/pack.json")?;
    Some(packed.duration_since(installed).ok()?.as_secs_f64())
}

/// Returns how long the packages took that did not come from the cache. They were built in turn.
fn compiling(build: &Path) -> Option<f64> {
    let log = fs::read_to_string(build.join("logs/install.log")).ok()?;
    // `[ ] HASH NAME@VERSION build (18s)` while it is built, `[+] HASH NAME@VERSION PREFIX (1m2s)` then.
    let words = |line: &'_ str| -> Vec<String> {
        line.replace("[ ]", "[]").split_whitespace().map(str::to_owned).collect()
    };
    let lines: Vec<Vec<String>> = log.lines().map(words).filter(|words| words.len() >= 5).collect();
    let phases = ["build", "configure", "install"];
    let is_built = |hash: &str| {
        lines.iter().any(|words| words[1] == hash && phases.contains(&words[3].as_str()))
    };
    let done = lines.iter().filter(|words| words[0] == "[+]" && is_built(&words[1]));
    done.map(|words| seconds(words.last()?)).sum()
}

/// Reads `(1m2s)`.
fn seconds(text: &str) -> Option<f64> {
    let mut total = 0.0;
    let mut number = String::new();
    for one in text.trim_matches(['(', ')']).chars() {
        let unit = match one {
            'h' => 3600.0,
            'm' => 60.0,
            's' => 1.0,
            digit => {
                number.push(digit);
                continue;
            }
        };
        total += number.parse::<f64>().ok()? * unit;
        number.clear();
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_packages_from_the_cache_does_not_count() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("logs")).unwrap();
        let log = "[ ] aaaaaaa zlib@1.3.1 fetching from build cache (0s)\n\
                   [ ] aaaaaaa zlib@1.3.1 build (2s)\n\
                   [+] aaaaaaa zlib@1.3.1 /user-environment/zlib (1m3s)\n\
                   [+] bbbbbbb xz@5.8.3 /user-environment/xz (9s)\n";
        fs::write(directory.path().join("logs/install.log"), log).unwrap();
        assert_eq!(compiling(directory.path()), Some(63.0));
    }
}
