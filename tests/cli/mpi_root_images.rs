// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Ranks of real MPI libraries in images with a root file system of their own, started in every
//! way that there is.
//!
//! Large messages and windows of them must arrive, and a rank must be able to read the memory of
//! another: that is what user namespaces of their own take from them. Times prove nothing here.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cabane_testkit::mpi::{self, installed, libraries_of_debian};
use cabane_testkit::{Finished, Tree, is_root, not_run, run_as_root, squashfs};

use crate::arena::with_helper;
use crate::cabane::{Cabane, Who};
use crate::debian_roots::{launcher_of_debian, pack};

/// An MPI library in an image with programs for it, and its launcher outside.
struct Mpi {
    image: PathBuf,
    launcher: Vec<String>,
    /// The launcher in the image.
    inside: Vec<String>,
    _home: tempfile::TempDir,
}

fn arguments(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(|&argument| argument.to_owned()).collect()
}

fn compile(headers: &Path, library: &Path, rpath: &str, directory: &Path) {
    for name in ["ping_pong", "single_copy"] {
        let options = [library.as_os_str(), OsStr::new(rpath)];
        let program = directory.join(name);
        mpi::compile(&format!("{name}.c"), &program, headers, options);
    }
}

impl Mpi {
    /// One that is installed below a prefix.
    fn of_prefix(prefix: &Path, library: &str, options: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let tree = Tree::new(home.path().join("tree"))
            .root_file_system("os", "")
            .copy_of(prefix, "opt/mpi");
        let mpi = tree.root().join("opt/mpi");
        let rpath = "-Wl,-rpath,$ORIGIN/../lib";
        compile(prefix, &mpi.join("lib").join(library), rpath, &mpi.join("bin"));
        let launcher = |path: &Path| {
            let path = path.join("bin/mpiexec").display().to_string();
            [vec![path], arguments(options)].concat()
        };
        let (outside, inside) = (launcher(prefix), launcher(Path::new("/opt/mpi")));
        Self::pack(home, &tree.host_libraries_of("opt/mpi"), outside, inside)
    }

    /// One of Debian 12, in the place that it has there.
    fn of_debian(debian: &Path, headers: &Path, library: &str, launcher: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let tree = Tree::new(home.path().join("tree")).root_file_system("os", "");
        let tree = ["usr", "lib", "etc"]
            .into_iter()
            .fold(tree, |tree, path| tree.copy_of(&debian.join(path), path));
        let mpi = tree.root().join("opt/mpi/bin");
        fs::create_dir_all(&mpi).unwrap();
        let place = libraries_of_debian(Path::new("/"));
        let rpath = format!("-Wl,-rpath,{}", place.display());
        let library = libraries_of_debian(debian).join(library);
        compile(headers, &library, &rpath, &mpi);
        let tree = tree
            .host_libraries_of(place.to_str().unwrap().trim_start_matches('/'))
            .host_libraries_of("usr/bin");
        let outside = launcher_of_debian(debian, launcher[0]);
        let options = arguments(&launcher[1..]);
        let inside = [vec![format!("/usr/bin/{}", launcher[0])], options.clone()].concat();
        Self::pack(home, &tree, [outside, options].concat(), inside)
    }

    fn pack(
        home: tempfile::TempDir,
        tree: &Tree,
        launcher: Vec<String>,
        inside: Vec<String>,
    ) -> Self {
        let image = home.path().join("os.squashfs");
        pack(tree.root(), &image);
        fs::remove_dir_all(tree.root()).unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Self { image, launcher, inside, _home: home }
    }

    /// Starts two ranks, each in the image, with a user namespace around launcher and ranks.
    fn launch_around(&self, cabane: &Cabane, program: &str) -> Finished {
        // Anyone who is root only there must not meet the directories of the real one.
        let place = format!("TMPDIR={}", cabane.world.path("home").display());
        let around = ["env", &place, "unshare", "--user", "--map-root-user", "--mount"];
        let around = arguments(&around);
        let line = [around, self.line(cabane, &[], program)].concat();
        Self::finish(cabane, &line)
    }

    /// Starts two ranks, each in the image.
    fn launch(&self, cabane: &Cabane, options: &[&str], program: &str) -> Finished {
        Self::finish(cabane, &self.line(cabane, options, program))
    }

    fn line(&self, cabane: &Cabane, options: &[&str], program: &str) -> Vec<String> {
        let image = self.image.display().to_string();
        let before = [self.launcher.clone(), arguments(&["-n", "2", cabane.program(), "run"])];
        let program = format!("/opt/mpi/bin/{program}");
        let after = [arguments(options), vec![image, "--".to_owned(), program]];
        [before, after].concat().concat()
    }

    /// Starts the launcher in the image, and two ranks by it.
    fn launch_inside(&self, cabane: &Cabane, program: &str) -> Finished {
        let image = self.image.display().to_string();
        let before = arguments(&[cabane.program(), "run", &image, "--"]);
        let program = format!("/opt/mpi/bin/{program}");
        let after = arguments(&["-n", "2", &program]);
        Self::finish(cabane, &[before, self.inside.clone(), after].concat())
    }

    fn finish(cabane: &Cabane, arguments: &[String]) -> Finished {
        let mut command = cabane.other("timeout");
        command.args(["--kill-after=5", "120"]).args(arguments);
        // Other tests may look for company in the common places.
        command.env("XDG_RUNTIME_DIR", cabane.world.path("home"));
        let allowed = ["OMPI_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT"];
        for variable in allowed {
            command.env(variable, "1");
            command.env(format!("{variable}_CONFIRM"), "1");
        }
        cabane.finish(&mut command)
    }
}

/// The user namespaces of the ranks, each once, if all of them spoke and messages arrived.
fn user_namespaces(seen: &Finished) -> Vec<&str> {
    let lines = seen.stdout.lines();
    let places = lines.filter_map(|line| line.strip_prefix("hello from rank "));
    let mut places: Vec<&str> = places.filter_map(|line| line.split_whitespace().nth(2)).collect();
    let arrived = seen.stdout.contains("all messages arrived");
    assert_eq!((places.len(), arrived), (2, true), "{seen:?}");
    places.sort_unstable();
    places.dedup();
    places
}

fn own_user_namespace() -> String {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self/ns/user").unwrap().ino().to_string()
}

const RIGHT: &str = "single copy: right\n";

/// As root, as an ordinary user whose ranks join, and with the launcher inside.
fn messages_arrive(mpi: &Mpi) {
    let outer = own_user_namespace();
    if is_root() {
        let cabane = Cabane::new(Who::Root);
        let seen = mpi.launch(&cabane, &[], "ping_pong");
        assert_eq!(user_namespaces(&seen), [outer.as_str()], "as root");
        let seen = mpi.launch(&cabane, &[], "single_copy");
        assert!(seen.stdout.contains(RIGHT), "as root: {seen:?}");
    }
    let cabane = Cabane::new(Who::OrdinaryUser);
    for (way, ping_pong, single_copy) in [
        ("joined", mpi.launch(&cabane, &[], "ping_pong"), mpi.launch(&cabane, &[], "single_copy")),
        (
            "with a namespace around",
            mpi.launch_around(&cabane, "ping_pong"),
            mpi.launch_around(&cabane, "single_copy"),
        ),
        (
            "launched inside",
            mpi.launch_inside(&cabane, "ping_pong"),
            mpi.launch_inside(&cabane, "single_copy"),
        ),
    ] {
        let namespaces = user_namespaces(&ping_pong);
        assert!(namespaces.len() == 1 && namespaces != [outer.as_str()], "{way}");
        assert!(single_copy.stdout.contains(RIGHT), "{way}: {single_copy:?}");
    }
}

/// As an ordinary user for whom the helper mounts.
fn messages_arrive_with_the_helper(mpi: &Mpi, cabane: &Cabane) {
    run_as_root("echo root-images yes >>/etc/cabane/mount.policy");
    let seen = mpi.launch(cabane, &[], "ping_pong");
    assert_eq!(user_namespaces(&seen), [own_user_namespace()]);
    let seen = mpi.launch(cabane, &[], "single_copy");
    assert!(seen.stdout.contains(RIGHT), "{seen:?}");
}

fn is_foretold(seen: &Finished) -> bool {
    let reported = "warning: each rank of this node gets a user namespace of its own, ";
    seen.stderr.matches(reported).count() == 1
}

/// Ranks of MPICH end in `MPI_Init`, or at the first large message.
fn mpich_fails_apart(mpi: &Mpi) {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let seen = mpi.launch(&cabane, &["--no-join"], "ping_pong");
    let arrived = seen.stdout.contains("all messages arrived");
    assert!(seen.code != 0 && !arrived && is_foretold(&seen), "{seen:?}");
}

/// Ranks of Open MPI start, and cannot read each other's memory.
fn open_mpi_has_no_single_copy_apart(mpi: &Mpi) {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let seen = mpi.launch(&cabane, &["--no-join"], "single_copy");
    let refused = seen.stdout.contains("single copy: Operation not permitted\n");
    assert!(refused && is_foretold(&seen), "{seen:?}");
}

fn mpich() -> Option<Mpi> {
    let [prefix] = installed(["mpich"])?;
    Some(Mpi::of_prefix(&prefix, "libmpi.so.12", &[]))
}

fn open_mpi() -> Option<Mpi> {
    let [prefix] = installed(["openmpi"])?;
    // It counts cores, and refuses to start more ranks than there are.
    Some(Mpi::of_prefix(&prefix, "libmpi.so.40", &["--map-by", ":OVERSUBSCRIBE"]))
}

fn mpich_of_debian() -> Option<Mpi> {
    let [debian, headers] = installed(["debian", "mpich-4.0.3"])?;
    Some(Mpi::of_debian(&debian, &headers, "libmpich.so.12", &["mpiexec.hydra"]))
}

fn open_mpi_of_debian() -> Option<Mpi> {
    let [debian, headers] = installed(["debian", "openmpi-4.1.8"])?;
    // There is no ssh in the image, which it looks for without using it.
    let launcher = ["orterun", "--oversubscribe", "--mca", "plm_rsh_agent", "sh"];
    Some(Mpi::of_debian(&debian, &headers, "libmpi.so.40", &launcher))
}

/// Calls what makes an MPI, or says why the test does not run and returns from it.
macro_rules! have {
    ($made:expr) => {
        match $made {
            Some(mpi) => mpi,
            None => not_run!("needs MPIs of Debian 12 and others: scripts/setup test"),
        }
    };
}

#[test]
fn messages_of_mpich_arrive_in_root_images_unless_ranks_are_kept_apart() {
    let mpi = have!(mpich());
    messages_arrive(&mpi);
    mpich_fails_apart(&mpi);
}

#[test]
fn messages_of_open_mpi_arrive_in_root_images_unless_ranks_are_kept_apart() {
    let mpi = have!(open_mpi());
    messages_arrive(&mpi);
    open_mpi_has_no_single_copy_apart(&mpi);
}

#[test]
fn messages_of_debian_s_mpich_arrive_in_root_images_unless_ranks_are_kept_apart() {
    let mpi = have!(mpich_of_debian());
    messages_arrive(&mpi);
    mpich_fails_apart(&mpi);
}

#[test]
fn messages_of_debian_s_open_mpi_arrive_in_root_images_unless_ranks_are_kept_apart() {
    let mpi = have!(open_mpi_of_debian());
    messages_arrive(&mpi);
    open_mpi_has_no_single_copy_apart(&mpi);
}

#[test]
fn messages_of_mpich_arrive_in_root_images_with_the_helper() {
    with_helper(|cabane| messages_arrive_with_the_helper(&have!(mpich()), cabane));
}

#[test]
fn messages_of_open_mpi_arrive_in_root_images_with_the_helper() {
    with_helper(|cabane| messages_arrive_with_the_helper(&have!(open_mpi()), cabane));
}

#[test]
fn messages_of_debian_s_mpich_arrive_in_root_images_with_the_helper() {
    with_helper(|cabane| messages_arrive_with_the_helper(&have!(mpich_of_debian()), cabane));
}

#[test]
fn messages_of_debian_s_open_mpi_arrive_in_root_images_with_the_helper() {
    with_helper(|cabane| messages_arrive_with_the_helper(&have!(open_mpi_of_debian()), cabane));
}

#[test]
fn shared_memory_and_processes_in_root_images_are_those_of_the_host_also_with_the_helper() {
    with_helper(|cabane| {
        run_as_root("echo root-images yes >>/etc/cabane/mount.policy");
        let tree = Tree::new(cabane.world.path("trees/os")).root_file_system("os", "");
        let image = cabane.world.path("os.squashfs");
        squashfs(tree.root(), &image);
        let image = image.display().to_string();
        let script = "for place in /dev/shm /proc /sys; do stat -c %d $place; done; \
                      readlink /proc/self/ns/pid /proc/self/ns/ipc /proc/self/ns/user";
        let inside = cabane.run(&["run", &image, "--", "sh", "-c", script]).success();
        let outside = cabane.finish(cabane.other("sh").args(["-c", script]));
        assert_eq!(inside.stdout, outside.stdout);
    });
}
