// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane mpi`: real programs, with the MPI of Debian 12 and others in its place.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cabane_testkit::mpi::{self, compile, installed, libraries_of_debian, ranks};
use cabane_testkit::{Finished, Tree, not_run, run_as_root, squashfs};

use crate::arena::with_helper;
use crate::cabane::{Cabane, Who};

/// A world with a program for the MPICH of Debian 12, which is not installed but unpacked.
struct Bed {
    cabane: Cabane,
    libraries: PathBuf,
    hydra: String,
    /// Another MPICH.
    mpich: PathBuf,
}

impl Bed {
    fn new() -> Option<Self> {
        let [debian, mpich] = installed(["debian", "mpich"])?;
        let bed = Self {
            cabane: Cabane::new(Who::OrdinaryUser),
            hydra: debian.join("usr/bin/mpiexec.hydra").display().to_string(),
            libraries: libraries_of_debian(&debian),
            mpich,
        };
        bed.compile("hello.c", "program", &[&bed.library()]);
        Some(bed)
    }

    /// The library of the program.
    fn library(&self) -> String {
        self.libraries.join("libmpich.so.12").display().to_string()
    }

    fn with(&self) -> String {
        self.mpich.display().to_string()
    }

    /// Compiles a source of `tests/mpi` into the directory where commands are typed.
    fn compile(&self, source: &str, name: &str, options: &[&str]) {
        let program = self.cabane.world.path("work").join(name);
        compile(source, &program, &self.mpich, options);
    }

    /// Types `cabane mpi swap` with options and a command.
    fn swap(&self, options: &[&str], command: &[&str]) -> Finished {
        let mut swap = self.cabane.command(&["mpi", "swap"]);
        swap.args(options).arg("--").args(command);
        swap.env("LD_LIBRARY_PATH", &self.libraries);
        self.cabane.finish(&mut swap)
    }

    /// The same with two ranks of the program.
    fn swap_two_ranks(&self, options: &[&str]) -> Finished {
        self.swap(options, &[&self.hydra, "-n", "2", "./program"])
    }
}

macro_rules! bed {
    () => {
        match Bed::new() {
            Some(bed) => bed,
            None => not_run!("needs MPICH of Debian 12: scripts/setup test"),
        }
    };
}

/// A launcher that looks like Hydra, starts as many, and tells none of them of the others.
pub(crate) fn lonely_launcher(cabane: &Cabane) {
    let text = "#!/bin/sh\n# mpiexec.hydra\nshift 2\n\"$@\" & \"$@\"; wait\n";
    program(cabane, "work/mpiexec", text);
}

fn program(cabane: &Cabane, path: &str, text: &str) {
    let path = cabane.world.file(path, text);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// How many rows of three figures are printed.
pub(crate) fn rows_of_figures(text: &str) -> usize {
    let rows = text.lines().filter(|line| {
        let arguments = line.split_whitespace();
        arguments.filter(|field| field.parse::<f64>().is_ok()).count() == 3
    });
    rows.count()
}

fn both(version: &str) -> Vec<String> {
    mpi::both(&format!("MPICH Version: {version}"))
}

#[test]
fn ranks_get_another_mpi_which_is_proven_and_the_launcher_keeps_its_own() {
    let bed = bed!();
    let with = bed.with();
    let seen = bed.swap_two_ranks(&["--with", &with, "--probe"]).success();
    let library = bed.mpich.join("lib/libmpi.so.12");
    let proven = format!(
        "proven: 2 ranks got {}, MPICH Version: 5.0.2; sums and large messages were right\n",
        library.display()
    );
    assert_eq!((ranks(&seen), seen.stderr), (both("5.0.2"), proven));
}

#[test]
fn figures_stand_beside_those_of_the_program_s_own_library() {
    let bed = bed!();
    let with = bed.with();
    let seen = bed.swap_two_ranks(&["--with", &with, "--measure"]).success();
    assert_eq!(rows_of_figures(&seen.stderr), 7, "{}", seen.stderr);
}

#[test]
fn another_family_is_refused_and_nothing_is_run() {
    let bed = bed!();
    let Some([openmpi]) = installed(["openmpi"]) else {
        not_run!("needs Open MPI: scripts/setup test");
    };
    let with = openmpi.display().to_string();
    let seen = bed.swap_two_ranks(&["--with", &with]);
    let expected = format!(
        "error: the program is for the MPICH ABI, and {with} has only Open MPI\n\
         hint: only a library with the MPICH ABI can replace another one\n"
    );
    assert_eq!((seen.code, seen.stdout.as_str(), seen.stderr), (14, "", expected));
    assert_eq!(bed.swap(&["--with", &with, "--dry-run", "--json"], &["./program"]).code, 14);
}

#[test]
fn a_launcher_under_which_ranks_would_be_alone_is_refused() {
    let bed = bed!();
    let Some([openmpi]) = installed(["openmpi"]) else {
        not_run!("needs Open MPI: scripts/setup test");
    };
    let with = bed.with();
    let mpirun = openmpi.join("bin/mpirun").display().to_string();
    let seen = bed.swap(&["--with", &with], &[&mpirun, "-n", "2", "./program"]);
    let expected = format!(
        "error: ranks with MPICH 5.0.2 do not find each other under the launcher of Open MPI: \
         each would be alone\nhint: its own launcher is {with}/bin/mpiexec\n"
    );
    assert_eq!((seen.code, seen.stdout.as_str(), seen.stderr), (14, "", expected));
}

#[test]
fn ranks_that_are_alone_silently_are_noticed_by_the_probe() {
    let bed = bed!();
    let with = bed.with();
    lonely_launcher(&bed.cabane);
    let command = ["./mpiexec", "-n", "2", "./program"];
    let seen = bed.swap(&["--with", &with, "--probe"], &command);
    let expected = "error: with MPICH 5.0.2, 2 ranks were started, and each believes to be the \
                    only one\n";
    assert_eq!((seen.code, seen.stdout.as_str(), seen.stderr.as_str()), (15, "", expected));
}

#[test]
fn a_site_names_its_mpis() {
    let bed = bed!();
    let text = format!("[[mpi]]\nname = \"fabric\"\nprefix = \"{}\"\n", bed.mpich.display());
    bed.cabane.world.file("site.toml", &text);
    for name in ["fabric", "host"] {
        let seen = bed.swap_two_ranks(&["--with", name]);
        assert_eq!(ranks(&seen.success()), both("5.0.2"), "{name}");
    }
    let seen = bed.swap(&["--with", "fabrik"], &["./program"]);
    let expected = "error: there is no MPI `fabrik` in the configuration, and no such file or image\n\
                    hint: there are fabric\n";
    assert_eq!((seen.code, seen.stderr.as_str()), (4, expected));
}

#[test]
fn an_mpi_is_found_where_systems_put_it() {
    with_helper(|_| {
        let bed = bed!();
        run_as_root(&format!(
            "mkdir -p /mnt/local/mpich-5.0 /mnt/tools
             ln -s /usr/bin/env /mnt/tools
             mount -t overlay -o lowerdir=/mnt/local:/usr/local overlay /usr/local
             mount --bind '{}' /usr/local/mpich-5.0",
            bed.mpich.display()
        ));
        // Without the launcher of an MPI that this machine may have.
        let arguments = ["mpi", "swap", "--with", "host", "--", &bed.hydra, "-n", "2", "./program"];
        let mut swap = bed.cabane.command(&arguments);
        swap.env("LD_LIBRARY_PATH", &bed.libraries);
        let seen = bed.cabane.finish(swap.env("PATH", "/mnt/tools"));
        assert_eq!(ranks(&seen.success()), both("5.0.2"));
    });
}

#[test]
fn a_program_that_loads_its_mpi_while_it_runs_gets_another_if_the_extension_is_named() {
    let bed = bed!();
    let extension = ["-shared", "-fPIC", "-Dmain=extension", &bed.library()];
    bed.compile("hello.c", "extension.so", &extension);
    bed.compile("loads_later.c", "loader", &[]);
    let with = bed.with();
    let command = [&bed.hydra, "-n", "2", "./loader"];
    let refused = bed.swap(&["--with", &with], &command);
    let options = ["--with", &with, "--mpi-program", "./extension.so", "--probe"];
    let seen = bed.swap(&options, &command);
    assert_eq!(refused.code, 14, "{refused:?}");
    assert_eq!(ranks(&seen.success()), both("5.0.2"));
}

#[test]
fn in_a_container_a_script_that_loads_mpi_gets_another_if_the_extension_is_named() {
    let Some([own, other]) = installed(["mpich", "mpich-3.4.3"]) else {
        not_run!("needs MPICH in two versions: scripts/setup test");
    };
    let cabane = Cabane::new(Who::OrdinaryUser);
    let tree =
        Tree::new(cabane.world.path("tree")).root_file_system("os", "").copy_of(&own, "opt/mpi");
    let library = own.join("lib/libmpi.so.12").display().to_string();
    let extension = ["-shared", "-fPIC", "-Dmain=extension", "-Wl,-rpath,/opt/mpi/lib", &library];
    let app = |name: &str| tree.root().join("app").join(name);
    compile("hello.c", &app("extension.so"), &own, extension);
    compile("loads_later.c", &app("loader"), &own, [""; 0]);
    let tree = tree.host_libraries_of("app").host_libraries_of("opt/mpi");
    let image = cabane.world.path("os.squashfs");
    squashfs(tree.root(), &image);
    let (image, other) = (image.display().to_string(), other.display().to_string());
    let run = |options: &[&str]| {
        let start = ["run", "--no-home", "--mpi", &other];
        let command = [&image, "--", "sh", "-c", "cd /app && exec ./loader"];
        cabane.run(&[&start, options, &command].concat())
    };
    let refused = run(&[]);
    let is_told = refused.stderr.contains("with `--mpi-program`");
    assert_eq!((refused.code, is_told), (14, true), "{refused:?}");
    let seen = run(&["--mpi-program", "/app/extension.so"]).success();
    assert_eq!(ranks(&seen), ["rank 0 of 1, right, MPICH Version: 3.4.3"]);
}

#[test]
fn another_mpi_needs_this_program_which_an_image_may_cover() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let tree = Tree::new(cabane.world.path("tree")).file("share/a", "a");
    let image = cabane.world.path("stack.squashfs");
    squashfs(tree.root(), &image);
    let program = cabane.world.path("cabane");
    let place = program.parent().unwrap().display().to_string();
    let stack = format!("{}:{place}", image.display());
    let seen = cabane.run(&["run", "--mpi", "/opt/mpi", &stack, "--", "true"]);
    let expected = "error: [WORLD] covers this program, which is needed there for another MPI\n";
    assert_eq!((seen.code, seen.stderr.as_str()), (125, expected));
}

#[test]
fn what_would_be_done_is_shown_and_not_done() {
    let bed = bed!();
    let with = bed.with();
    bed.swap(&["--with", &with, "--dry-run", "--json"], &["./program"]).success();
    let seen = bed.swap(&["--with", &with, "--dry-run"], &["./program"]).success();
    let is_told = seen.stdout.contains("  how          the real file is loaded first\n");
    let cache = bed.cabane.world.path("home/.cache");
    assert!(is_told && !cache.exists(), "{}", seen.stdout);
}

#[test]
fn a_program_shows_which_mpi_it_needs_and_what_is_missing() {
    let bed = bed!();
    let root = bed.cabane.world.directory("root");
    fs::copy(bed.cabane.world.path("work/program"), root.join("program")).unwrap();
    let root = root.display().to_string();
    let seen = bed.cabane.run(&["mpi", "inspect", "--root", &root, "/program"]).success();
    let expected = format!(
        "/program\n  is           a program for {}\n  MPI          needs the MPICH ABI: \
         libmpich.so.12\n",
        std::env::consts::ARCH
    );
    let missing = "  missing      libmpich.so.12, needed by /program\n";
    assert!(seen.stdout.starts_with(&expected), "{}", seen.stdout);
    assert!(seen.stdout.contains(missing), "{}", seen.stdout);
}

/// Packs an MPI into an image, and returns it with its mount point.
fn image_of(cabane: &Cabane, prefix: &Path) -> (String, String) {
    let mount_point = cabane.mount_point("mpich");
    let tree = cabane.world.path("tree");
    let _ = Tree::new(&tree).copy_of(prefix, "").meta("mpich", &mount_point);
    let image = cabane.world.path("mpich.squashfs");
    squashfs(&tree, &image);
    (image.display().to_string(), mount_point)
}

#[test]
fn the_mpi_of_an_image_takes_the_place_of_that_of_a_program_outside() {
    let bed = bed!();
    let (image, _) = image_of(&bed.cabane, &bed.mpich);
    let seen = bed.swap_two_ranks(&["--with", &image, "--probe"]).success();
    let proven = "proven: 2 ranks got [WORLD]/mnt/mpich/lib/libmpi.so.12, MPICH Version: 5.0.2; ";
    assert!(seen.stderr.contains(proven), "{}", seen.stderr);
    assert_eq!(ranks(&seen), both("5.0.2"));
}

#[test]
fn a_prefix_in_an_image_is_looked_into_without_leaving_the_image() {
    let Some([mpich]) = installed(["mpich"]) else {
        not_run!("needs MPICH: scripts/setup test");
    };
    let cabane = Cabane::new(Who::OrdinaryUser);
    let (image, mount_point) = image_of(&cabane, &mpich);
    let seen = cabane.run(&["mpi", "inspect", "--in", &image, &mount_point]).success();
    let expected =
        "\n  libmpi.so.12 MPICH 5.0.2, of the MPICH ABI, [WORLD]/mnt/mpich/lib/libmpi.so.12\n";
    assert!(seen.stdout.contains(expected), "{}", seen.stdout);
}

#[test]
fn a_text_is_no_program() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    cabane.world.file("work/text", "hello");
    let seen = cabane.run(&["mpi", "inspect", "./text"]);
    let expected = "error: ./text is no program or library\n\
                    hint: of a script, name the program that it starts\n";
    assert_eq!((seen.code, seen.stderr.as_str()), (3, expected));
}

#[test]
fn a_container_is_looked_into_without_being_entered() {
    let bed = bed!();
    let cabane = &bed.cabane;
    let tree = Tree::new(cabane.world.path("tree")).root_file_system("os", "");
    let root = cabane.world.path("tree");
    let name = "libmpich.so.12";
    fs::create_dir_all(root.join("usr/bin")).unwrap();
    fs::create_dir_all(root.join("opt/lib")).unwrap();
    fs::copy(cabane.world.path("work/program"), root.join("usr/bin/solver")).unwrap();
    fs::copy(bed.libraries.join(name), root.join("opt/lib/libmpich.so.12.2.2")).unwrap();
    // It means the root of the container, and leads nowhere outside.
    std::os::unix::fs::symlink("/opt/lib/libmpich.so.12.2.2", root.join("usr/lib").join(name))
        .unwrap();
    let image = cabane.world.path("os.squashfs");
    squashfs(tree.root(), &image);
    let image = image.display().to_string();
    let seen = cabane.run(&["mpi", "inspect", "--in", &image, "solver"]).success();
    let expected = "  gets         MPICH 4.0.2, /lib/libmpich.so.12\n";
    let missing = "  missing      libucp.so.0, needed by /lib/libmpich.so.12\n";
    assert!(seen.stdout.contains(expected), "{}", seen.stdout);
    assert!(seen.stdout.contains(missing), "{}", seen.stdout);
}

#[test]
fn the_configuration_says_what_starts_the_ranks_of_the_probe() {
    let bed = bed!();
    let text = format!(
        "#!/bin/sh\n# mpiexec.hydra\necho \"$*\" >>arguments\nexec '{}' \"$@\"\n",
        bed.mpich.join("bin/mpiexec").display()
    );
    program(&bed.cabane, "work/starter", &text);
    let text = format!(
        "[[mpi]]\nname = \"fabric\"\nprefix = \"{}\"\nlauncher = \"./starter -ppn 2\"\n",
        bed.mpich.display()
    );
    bed.cabane.world.file("site.toml", &text);
    let seen = bed.swap(&["--with", "host", "--probe"], &["./program"]).success();
    let arguments = fs::read_to_string(bed.cabane.world.path("work/arguments")).unwrap();
    assert!(
        seen.stderr.starts_with("proven: 2 ranks got ") && arguments.starts_with("-ppn 2 -n 2 "),
        "{seen:?}\n{arguments}"
    );
}
