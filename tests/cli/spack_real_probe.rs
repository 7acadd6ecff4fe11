// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane system probe --spack`, with real Spack.

use std::fs;

use cabane_testkit::{belongs_to, say};

use crate::spack_real::Real;

#[test]
fn spack_takes_each_package_that_the_probe_finds_on_this_machine() {
    let Some(real) = Real::new() else { belongs_to!("make test-spack") };
    let Some(python) = std::env::var_os("CABANE_TEST_SPACK_PYTHON") else {
        belongs_to!("make test-spack");
    };
    let tried = real.cabane.world.path("tried");
    let mut command = real.command(&["system", "probe", "--output", tried.to_str().unwrap()]);
    for (option, (_, clone)) in ["--spack", "--packages"].into_iter().zip(&real.clones) {
        command.arg(option).arg(clone);
    }
    command.env("CABANE_SPACK_PYTHON", python);
    let seen = real.cabane.finish(&mut command).success().stderr;
    let first = seen.lines().next().unwrap();
    say(&format!("note: {first}"));
    let counts = first.strip_prefix("Spack ").and_then(|rest| rest.split_once(" takes "));
    let counts = counts.and_then(|(_, rest)| rest.strip_suffix(" packages")?.split_once(" of "));
    let (taken, all): (usize, usize) =
        counts.map(|(taken, all)| (taken.parse().unwrap(), all.parse().unwrap())).unwrap();
    assert!(taken == all && all > 5, "{seen}");
    // So the files are those that the probe writes without asking Spack.
    for name in ["packages.yaml", "network.yaml"] {
        let text = |directory: &str| {
            fs::read_to_string(real.cabane.world.path(directory).join(name)).unwrap()
        };
        assert_eq!(text("tried"), text("system"), "{name}");
    }
}
