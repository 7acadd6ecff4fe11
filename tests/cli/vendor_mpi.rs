// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane vendor-mpi` with packages that the tools of the distributions have made.
//!
//! The vendor here has an MPI of one function. What archives can do that mean harm is
//! tested beside the crate that reads them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use cabane_testkit::{Finished, not_run};
use serde_json::Value;

use crate::cabane::{Cabane, Who, everybody};

const WRAPPER: &str = r#"#!/bin/bash
prefix=/opt/vendor/mpi/1.0
exec gcc "$@" -I$prefix/include -Wl,-z,relro -lmpi
"#;

/// What the vendor's packages are described with; `{package}` and `{sha256}` are filled in.
const MANIFEST: &str = r#"name: vendor-mpi
version: "1.0"
arch: x86_64
packages:
  - {file: {package}, sha256: {sha256}, url: "https://vendor.invalid/{package}"}
files:
  - {from: /opt/vendor/mpi/1.0/lib/*.so*, to: lib/}
  - {from: opt/vendor/mpi/1.0/include/**, to: include/}
links: {lib/libmpich.so: libmpi.so}
compilers:
  gcc:
    wrappers:
      mpicc:
        from: opt/vendor/mpi/1.0/bin/mpicc
        language: c
        replace:
          - {find: prefix=/opt/vendor/mpi/1.0, with: prefix=$mpi_prefix}
          - {find: exec gcc, with: exec $mpi_compiler}
          - {find: "-lmpi", with: "$mpi_link -lmpi"}
"#;

/// Whether a program of the distribution is there.
fn is_there(cabane: &Cabane, program: &str) -> bool {
    let mut command = cabane.other("sh");
    command.args(["-c", &format!("command -v {program}")]);
    Finished::of(&mut command).code == 0
}

/// Installs the vendor's MPI into a directory.
fn installed(cabane: &Cabane) -> String {
    let root = cabane.world.directory("vendor");
    let prefix = root.join("opt/vendor/mpi/1.0");
    let file = |name: &str, text: &str| {
        let path = prefix.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    };
    file("include/mpi.h", "int MPI_Answer(void);\n");
    let source = file("mpi.c", "int MPI_Answer(void) { return 42; }\n");
    let script = file("bin/mpicc", WRAPPER);
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
    let library = file("lib/libmpi.so.12.0", "");
    Finished::of(
        Command::new("gcc")
            .args(["-shared", "-fPIC", "-Wl,-soname,libmpi.so.12", "-o"])
            .args([&library, &source]),
    )
    .success();
    let link = |target, name| std::os::unix::fs::symlink(target, prefix.join(name)).unwrap();
    link("libmpi.so.12.0", "lib/libmpi.so.12");
    link("libmpi.so.12", "lib/libmpi.so");
    root.to_string_lossy().into_owned()
}

/// Packs what is installed as Debian does, and returns the name of the package.
fn debian(cabane: &Cabane, compression: &str) -> String {
    debian_with(cabane, compression, &[])
}

/// As [`debian`], with files of the system at other places below the prefix.
fn debian_with(cabane: &Cabane, compression: &str, more: &[(&str, &str)]) -> String {
    let root = installed(cabane);
    for (from, to) in more {
        let place = Path::new(&root).join("opt/vendor/mpi/1.0").join(to);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::copy(from, place).unwrap();
    }
    let control =
        "Package: vendor-mpi\nVersion: 1.0\nArchitecture: amd64\nMaintainer: v\nDescription: v\n";
    cabane.world.file("vendor/DEBIAN/control", control);
    let name = format!("{compression}.deb");
    let package = cabane.world.path(&format!("packages/{name}"));
    fs::create_dir_all(package.parent().unwrap()).unwrap();
    let mut command = Command::new("dpkg-deb");
    command.args(["--root-owner-group", &format!("-Z{compression}"), "--build", &root]);
    Finished::of(command.arg(&package)).success();
    fs::remove_dir_all(root).unwrap();
    name
}

/// Packs what is installed as Red Hat does, and returns the name of the package.
fn red_hat(cabane: &Cabane, compression: &str) -> String {
    let root = installed(cabane);
    let spec = "Name: vendor-mpi\nVersion: 1.0\nRelease: 1\nSummary: v\nLicense: v\nAutoReqProv: no\n\
                %description\nv\n%install\ncp -a {root}/opt %{buildroot}/\n%files\n/opt\n";
    let spec = cabane.world.file("vendor.spec", &spec.replace("{root}", &root));
    let top = cabane.world.path("rpm");
    let mut command = cabane.world.command("rpmbuild");
    command
        .args(["-bb", "--target", "x86_64", "--define"])
        .arg(format!("_topdir {}", top.display()))
        .args(["--define", &format!("_binary_payload {compression}")])
        .args(["--define", "_build_id_links none"])
        .args(["--define", "__os_install_post %{nil}"])
        .arg(spec);
    Finished::of(&mut command).success();
    let name = format!("{compression}.rpm");
    let package = cabane.world.path(&format!("packages/{name}"));
    fs::create_dir_all(package.parent().unwrap()).unwrap();
    fs::rename(top.join("RPMS/x86_64/vendor-mpi-1.0-1.x86_64.rpm"), package).unwrap();
    fs::remove_dir_all(root).unwrap();
    name
}

/// Writes the manifest of a package beside it, and returns its path.
fn manifest(cabane: &Cabane, package: &str, change: impl Fn(String) -> String) -> String {
    let path = cabane.world.path(&format!("packages/{package}"));
    let sum = Finished::of(Command::new("sha256sum").arg(path)).success().stdout;
    let text = MANIFEST.replace("{package}", package).replace("{sha256}", &sum[..64]);
    let path = cabane.world.file("packages/mpi.yaml", &change(text));
    path.to_string_lossy().into_owned()
}

/// Packs with JSON for an answer.
fn pack(cabane: &Cabane, manifest: &str) -> Value {
    let packed = cabane.run(&["vendor-mpi", "--json", manifest]).success();
    serde_json::from_str(&packed.stdout).unwrap()
}

/// The error for a manifest that does not fit.
fn refused(cabane: &Cabane, manifest: &str) -> (i32, String) {
    let refused = cabane.run(&["vendor-mpi", manifest]);
    assert_eq!(refused.stdout, "");
    (refused.code, refused.stderr)
}

fn world() -> Cabane {
    let cabane = Cabane::new(Who::OrdinaryUser);
    cabane.world.directory("packages");
    cabane
}

macro_rules! with {
    ($cabane:expr, $program:literal) => {
        if !is_there($cabane, $program) {
            not_run!("needs {}", $program);
        }
    };
}

#[test]
fn the_same_files_give_the_same_tarball_whatever_they_came_in() {
    let cabane = world();
    with!(&cabane, "dpkg-deb");
    with!(&cabane, "rpmbuild");
    let packages = [
        debian(&cabane, "gzip"),
        debian(&cabane, "xz"),
        debian(&cabane, "zstd"),
        red_hat(&cabane, "w6.gzdio"),
        red_hat(&cabane, "w6.xzdio"),
        red_hat(&cabane, "w6.zstdio"),
    ];
    let digests = packages.map(|package| {
        let manifest = manifest(&cabane, &package, |text| text);
        pack(&cabane, &manifest)["tarballs"][0]["sha256"].to_string()
    });
    let first = digests[0].clone();
    assert_eq!(digests, [(); 6].map(|()| first.clone()));
}

#[test]
fn a_tarball_works_wherever_it_is_unpacked() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        with!(&cabane, "dpkg-deb");
        let package = debian(&cabane, "xz");
        let manifest = manifest(&cabane, &package, |text| text);
        pack(&cabane, &manifest);
        let program = "#include <mpi.h>\n#include <stdio.h>\nint main() { printf(\"%d\\n\", MPI_Answer()); }\n";
        cabane.world.file("work/answer.c", program);
        let script = "mkdir a && tar -C a -xzf mirror/vendor-mpi/*.tar.gz && mv a b
            b/vendor-mpi-1.0/bin/mpicc -o answer answer.c && ./answer
            ln -s b/vendor-mpi-1.0/bin/mpicc . && VENDOR_MPI_CC='echo other' ./mpicc answer.c";
        let mut command = cabane.other("sh");
        let seen = cabane.finish(command.args(["-e", "-c", script])).success();
        let seen = seen.stdout;
        let place = "[WORLD]/work/b/vendor-mpi-1.0";
        let reported = format!(
            "42\nother answer.c -I{place}/include -Wl,-z,relro -L{place}/lib \
             -Wl,-rpath,{place}/lib -Wl,--disable-new-dtags -lmpi\n"
        );
        assert_eq!(seen, reported);
    }
}

#[test]
fn a_package_for_spack_knows_every_version_that_was_packed() {
    let cabane = world();
    with!(&cabane, "dpkg-deb");
    let package = debian(&cabane, "gzip");
    let first = manifest(&cabane, &package, |text| text);
    pack(&cabane, &first);
    let arm = |text: String| text.replace("x86_64", "aarch64");
    let second = manifest(&cabane, &package, |text| {
        arm(text).replace("version: \"1.0\"", "version: \"1.10\"")
    });
    pack(&cabane, &second);
    let third = manifest(&cabane, &package, arm);
    pack(&cabane, &third);
    let package = cabane.world.path("work/spack_repo/vendor/packages/vendor_mpi/package.py");
    Finished::of(cabane.other("python3").args(["-m", "py_compile"]).arg(&package)).success();
    let text = fs::read_to_string(package).unwrap();
    let seen: Vec<&str> = text
        .lines()
        .filter_map(|line| {
            let line = line.trim();
            let version = line.strip_prefix("version(").and_then(|rest| rest.split(',').next());
            version.or_else(|| line.strip_prefix("when="))
        })
        .collect();
    let expected = [
        "\"1.10\"",
        "\"@=1.10 target=aarch64: %c=gcc\",",
        "\"1.0\"",
        "\"@=1.0 target=aarch64: %c=gcc\",",
        "\"@=1.0 target=x86_64: %c=gcc\",",
    ];
    assert_eq!(seen, expected);
}

#[test]
fn variants_for_gpus_are_variants_of_the_package() {
    let cabane = world();
    with!(&cabane, "dpkg-deb");
    let package = debian(&cabane, "gzip");
    let manifest = manifest(&cabane, &package, |text| {
        text.replace("$mpi_link -lmpi", "$mpi_link $mpi_gpu_libs -lmpi")
            + "gpu:\n  cuda: {depends: ['cuda@12:'], files: ['lib/libmpich*'], link: [mpi_gtl_cuda]}\n  rocm: {}\n"
    });
    pack(&cabane, &manifest);
    let text = fs::read_to_string(
        cabane.world.path("work/spack_repo/vendor/packages/vendor_mpi/package.py"),
    )
    .unwrap();
    let expected = "    variant(\"cuda\", default=False, description=\"Transport between GPUs\", when=\"@=1.0\")
    variant(\"rocm\", default=False, description=\"Transport between GPUs\", when=\"@=1.0\")
    conflicts(\"+cuda\", when=\"+rocm\", msg=\"it is either for cuda or for rocm\")

    provides(\"mpi\")
    depends_on(\"patchelf@:0.17,0.19:\", type=\"build\")

    depends_on(\"c\", type=\"build\", when=\"@=1.0\")
    depends_on(\"cuda@12:\", type=\"link\", when=\"@=1.0 +cuda\")
";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_package_that_is_missing_is_reported_with_where_it_comes_from() {
    let cabane = world();
    with!(&cabane, "dpkg-deb");
    let package = debian(&cabane, "gzip");
    let manifest = manifest(&cabane, &package, |text| text);
    fs::remove_file(cabane.world.path("packages/gzip.deb")).unwrap();
    let reported = "error: cannot find the package `gzip.deb` in `[WORLD]/packages`
hint: it comes from https://vendor.invalid/gzip.deb
";
    assert_eq!(refused(&cabane, &manifest), (4, reported.to_owned()));
}

#[test]
fn another_package_than_the_one_that_is_meant_is_refused() {
    let cabane = world();
    with!(&cabane, "dpkg-deb");
    let package = debian(&cabane, "gzip");
    let manifest = manifest(&cabane, &package, |text| text);
    cabane.world.file("packages/gzip.deb", "");
    let reported = "error: `[WORLD]/packages/gzip.deb` is another file than the manifest means: its sha256 is \
                e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
hint: get the package again; if it is a newer one, change the manifest
";
    assert_eq!(refused(&cabane, &manifest), (3, reported.to_owned()));
}

#[test]
fn what_a_manifest_names_and_the_packages_do_not_have_is_reported_with_its_line() {
    let cabane = world();
    with!(&cabane, "dpkg-deb");
    let package = debian(&cabane, "gzip");
    let manifest = manifest(&cabane, &package, |text| {
        text.replace("lib/*.so*", "lib/libmpi.so").replace("include/**", "inc/**")
    });
    let reported = "\
error: the manifest does not fit the packages
[WORLD]/packages/mpi.yaml:7:12: `opt/vendor/mpi/1.0/lib/libmpi.so` is a link to `opt/vendor/mpi/1.0/lib/libmpi.so.12`, which is not taken
  |   - {from: /opt/vendor/mpi/1.0/lib/libmpi.so, to: lib/}
  |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: take that as well, or leave out the link with `except`
[WORLD]/packages/mpi.yaml:8:12: nothing in the packages matches `opt/vendor/mpi/1.0/inc/**`
  |   - {from: opt/vendor/mpi/1.0/inc/**, to: include/}
  |            ^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: in `/opt/vendor/mpi/1.0/` there are: bin, include, lib, mpi.c
";
    assert_eq!(refused(&cabane, &manifest), (3, reported.to_owned()));
}

#[test]
fn a_wrapper_that_would_not_find_its_place_is_refused_and_there_is_no_package() {
    let cabane = world();
    with!(&cabane, "dpkg-deb");
    let package = debian(&cabane, "gzip");
    let manifest =
        manifest(&cabane, &package, |text| text.replace("prefix=$mpi_prefix", "prefix=/opt/other"));
    let reported = "\
error: the manifest does not fit the packages
[WORLD]/packages/mpi.yaml:13:7: the wrapper `mpicc` does not use $mpi_prefix, so it cannot be moved
  |       mpicc:
  |       ^^^^^
  hint: replace something, such as
        replace:
          - find: prefix=/usr
            with: prefix=$mpi_prefix
";
    assert_eq!(refused(&cabane, &manifest), (3, reported.to_owned()));
    assert!(!cabane.world.path("work/spack_repo/vendor").exists());
}

/// The wrapper of Open MPI, which is a program, and what it reads.
const OPEN_MPI: [(&str, &str); 2] = [
    ("/usr/bin/opal_wrapper", "bin/opal_wrapper"),
    ("/usr/share/openmpi/mpicc-wrapper-data.txt", "share/openmpi/mpicc-wrapper-data.txt"),
];

/// The manifest of a vendor whose wrapper is this program.
fn with_program(text: &str) -> String {
    let start = text.find("links:").unwrap();
    format!(
        "{}  - {{from: opt/vendor/mpi/1.0/share/**, to: share/}}\n\
         environment: {{OPAL_PREFIX: $mpi_prefix, OPAL_LIBDIR: $mpi_prefix/lib, OPAL_INCLUDEDIR: $mpi_prefix/include}}\n\
         compilers:\n  gcc:\n    wrappers:\n      mpicc: {{from: opt/vendor/mpi/1.0/bin/opal_wrapper, language: c}}\n",
        &text[..start]
    )
}

macro_rules! with_open_mpi {
    ($cabane:expr) => {
        with!($cabane, "dpkg-deb");
        if OPEN_MPI.iter().any(|(path, _)| !Path::new(path).exists()) {
            not_run!("needs the wrappers of Open MPI");
        }
    };
}

#[test]
fn a_wrapper_that_is_a_program_works_wherever_it_is_unpacked() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        with_open_mpi!(&cabane);
        let package = debian_with(&cabane, "xz", &OPEN_MPI);
        pack(&cabane, &manifest(&cabane, &package, |text| with_program(&text)));
        let program = "#include <mpi.h>\n#include <stdio.h>\nint main() { printf(\"%d\\n\", MPI_Answer()); }\n";
        cabane.world.file("work/answer.c", program);
        let script = "mkdir a && tar -C a -xzf mirror/vendor-mpi/*.tar.gz && mv a b
            b/vendor-mpi-1.0/bin/mpicc -o answer answer.c && ./answer
            ln -s b/vendor-mpi-1.0/bin/mpicc . && VENDOR_MPI_CC='echo other' ./mpicc answer.c
            OMPI_CC='echo own' VENDOR_MPI_CC='echo other' ./mpicc answer.c | cut -c-12";
        let mut command = cabane.other("sh");
        let seen = cabane.finish(command.args(["-e", "-c", script])).success().stdout;
        let place = "[WORLD]/work/b/vendor-mpi-1.0";
        let called =
            format!("other answer.c -I{place}/include -I{place}/include/openmpi -L{place}/lib");
        let rpath = format!("-Wl,-rpath,{place}/lib");
        assert!(
            seen.starts_with(&format!("42\n{called}"))
                && seen.contains(&rpath)
                && seen.ends_with("\nown answer.c\n"),
            "{seen}"
        );
    }
}

#[test]
fn a_program_that_would_not_find_its_place_or_what_it_reads_is_refused() {
    let cabane = world();
    with_open_mpi!(&cabane);
    let package = debian_with(&cabane, "gzip", &OPEN_MPI);
    let change = |from: &str, to: &str| {
        let path = manifest(&cabane, &package, |text| with_program(&text).replace(from, to));
        let (code, text) = refused(&cabane, &path);
        let is_hint = |line: &&str| line.contains("mpi.yaml:") || line.contains("hint:");
        (code, text.lines().filter(is_hint).map(str::to_owned).collect::<Vec<_>>().join("\n"))
    };
    let without_place = change("$mpi_prefix", "/opt");
    let without_data = change("share/**", "include/**");
    let with_a_script = change("language: c}", "language: c, replace: [{find: a, with: b}]}");
    let place =
        "[WORLD]/packages/mpi.yaml:14:21: `opt/vendor/mpi/1.0/bin/opal_wrapper` is a program";
    let expected = [
        ", and no variable names the directory of the MPI for it\n  hint: add the variable:",
        ", and the tarball does not have `share/openmpi/mpicc-wrapper-data.txt`, which names its compiler\n  \
         hint: add the file to `files`, and name it: `data: share/openmpi/mpicc-wrapper-data.txt`",
        ", so Cabane cannot replace text in it\n  hint: replace text in the file that it reads:",
    ];
    let seen = [without_place, without_data, with_a_script];
    assert_eq!(seen, expected.map(|text| (3, format!("{place}{text}"))));
}
