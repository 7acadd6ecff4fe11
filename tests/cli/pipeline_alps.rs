// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane pipeline` with files in the format of `alps-uenv`, which has no keys of Cabane.

use std::path::Path;

use cabane_testkit::belongs_to;

use crate::cabane::{Cabane, Who};

/// A small collection of recipes, with one cell that can never be built and one version without a system.
const CONFIG: &str = r#"
clusters:
  santis:
    targets:
      - uarch: 'gh200'
        partition: 'normal'
        variables:
          SLURM_CONSTRAINT: gpu
    runner:
      slurm-tag: santis-uenv
  eiger:
    targets:
      - uarch: 'zen2'
        partition: 'normal'
        variables: {}
    runner: f7t
uenvs:
  editors:
    "24.7":
      recipes:
        zen2: 24.7
        gh200: 24.7
      deploy:
        eiger: [zen2]
        santis: [gh200]
  prgenv-gnu:
    "24.11":
      recipes:
        gh200: 24.11/gh200
      deploy:
        santis: [gh200]
        eiger: [zen2]
  julia:
    "24.9":
      recipes:
        gh200: 24.9/gh200
"#;

fn checked(cabane: &Cabane, file: &Path) -> (i32, String) {
    let file = file.display().to_string();
    let checked = cabane.run(&["pipeline", "check", "--file", &file]);
    (checked.code, checked.stderr)
}

#[test]
fn a_collection_in_the_format_of_alps_is_read_as_it_is() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let world = &cabane.world;
    for recipe in ["editors/24.7", "prgenv-gnu/24.11/gh200", "julia/24.9/gh200"] {
        world.file(
            &format!("work/recipes/{recipe}/config.yaml"),
            "name: none\nstore: /user-environment\nspack: {repo: a, commit: b}\n",
        );
    }
    let (code, said) = checked(&cabane, &world.file("work/config.yaml", CONFIG));
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("config.yaml:32:17: prgenv-gnu/24.11 cannot be built for zen2"),
        "{said}"
    );
    assert!(said.contains("config.yaml:34:5: julia/24.9 is built for no system"), "{said}");
    assert_eq!(said.matches("warning: ").count(), 2, "{said}");
    assert!(said.ends_with("3 cells of 2 environments on 2 systems\n"), "{said}");
    let plan = ["pipeline", "plan", "--offline", "--only", "@*", "--file", "config.yaml"];
    let plan = cabane.run(&plan).success().stdout;
    assert_eq!(plan.matches("it was never built").count(), 3, "{plan}");
}

#[test]
fn of_the_public_collection_exactly_the_dead_cell_is_left_out() {
    let Some(collection) = std::env::var_os("CABANE_TEST_RECIPES") else {
        belongs_to!("CABANE_TEST_RECIPES=CHECKOUT make test");
    };
    let cabane = Cabane::new(Who::OrdinaryUser);
    let (code, said) = checked(&cabane, &Path::new(&collection).join("config.yaml"));
    assert_eq!(code, 0, "{said}");
    // Each cell that the file asks for, but the dead one.
    let dead: Vec<&str> =
        said.lines().filter(|line| line.contains("cannot be built for")).collect();
    let [dead] = dead.as_slice() else { panic!("{said}") };
    assert!(dead.contains("prgenv-gnu/26.3 cannot be built for a100"), "{dead}");
    assert!(said.ends_with("145 cells of 24 environments on 7 systems\n"), "{said}");
}
