// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane mpi`: what is reported of mistakes on the command line.

use std::path::Path;

use cabane_testkit::not_run;

use crate::cabane::{Cabane, Who, finished};

#[test]
fn what_is_not_there_is_named_and_where_images_are_requested() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let seen = cabane.run(&["mpi", "inspect", "tool/1.0"]);
    let expected = "error: there is no file or program `tool/1.0` here\n\
                    hint: to inspect a file in an image, use `--in IMAGE PROGRAM`\n";
    assert_eq!(seen, finished(4, "", expected));
}

#[test]
fn a_launcher_without_a_program_is_reported_with_its_arguments() {
    let prefix = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cabane/mpi/mpich");
    let launcher = prefix.join("bin/mpiexec").display().to_string();
    if !Path::new(&launcher).exists() {
        not_run!("needs MPICH: scripts/setup test");
    }
    let cabane = Cabane::new(Who::OrdinaryUser);
    let with = prefix.display().to_string();
    let arguments = ["mpi", "swap", "--with", &with, "--", &launcher];
    let seen = cabane.run(&[&arguments[..], &["-n", "2", "./solvr"]].concat());
    let expected = format!(
        "error: `{launcher}` has no program to start: none of its arguments is one: -n 2 ./solvr\n\
         hint: write the path of the program, if it is not in `PATH`\n"
    );
    assert_eq!(seen, finished(127, "", &expected));
}
