// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The program that proves a substitution.

use std::fs::{self, File};
use std::process::Command;

use cabane_compat::Binary;
use cabane_mpi::{Family, PROBE, PROBE_OPTIONS, c_library, family_option, stub};
use cabane_testkit::Finished;

#[test]
fn it_needs_no_version_of_the_c_library_and_starts_in_containers_that_are_older() {
    for family in [Family::Mpich, Family::OpenMpi, Family::Mpi5Abi] {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        fs::write(path("probe.c"), PROBE).unwrap();
        for (name, text, soname) in
            [("libmpi", stub(), "libmpi.so.12"), ("libc", c_library(), "libc.so.6")]
        {
            fs::write(path(name).with_extension("c"), text).unwrap();
            let mut compiler = Command::new("cc");
            compiler.args(["-shared", "-fPIC", "-w", "-nostdlib", "-fno-builtin"]);
            compiler.arg(format!("-Wl,-soname,{soname}"));
            compiler.arg(path(name).with_extension("c")).arg("-o");
            compiler.arg(path(name).with_extension("so"));
            Finished::of(&mut compiler).success();
        }
        let mut compiler = Command::new("cc");
        compiler.args(PROBE_OPTIONS).arg("-Werror").arg(family_option(family));
        compiler.args(["probe.c", "libmpi.so", "libc.so"].map(path));
        Finished::of(compiler.arg("-o").arg(path("probe"))).success();
        let file = File::open(path("probe")).unwrap();
        let probe = Binary::open(&file).unwrap();
        let needed = probe.links().unwrap().needed;
        assert_eq!(needed, ["libmpi.so.12", "libc.so.6"]);
        assert_eq!(probe.needed_versions().len(), 0, "{family}");
    }
}
