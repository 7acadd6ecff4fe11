// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane pipeline report`: the page of a run that really took place.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::cabane::{Cabane, Who};

const PIPELINE: &str = "\
clusters:
  here:
    targets:
      - uarch: x86_64
  there:
    targets:
      - uarch: x86_64
uenvs:
  solver:
    '1.0':
      recipes:
        x86_64: solver
      deploy:
        here: [x86_64]
        there: [x86_64]
  tools:
    '2.0':
      recipes:
        x86_64: tools
      deploy:
        here: [x86_64]
";

/// A collection with two recipes: the checks of one pass, one of the other does not.
fn collection() -> Cabane {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let world = &cabane.world;
    world.file("site.toml", "");
    for (name, speed) in [("solver", "42.5"), ("tools", "30")] {
        let program = format!("#!/bin/sh\necho 'speed <script> {speed} GB/s'\n");
        let path = world.file(&format!("work/recipes/{name}/tree/bin/measure"), &program);
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        let store = cabane.mount_point(name);
        let recipe = format!(
            "name: {name}\nversion: 3\nengine: tree\nstore: {store}\ntree:\n  source: tree\nchecks:\n\
              - name: stream\n  command: measure\n  expect: GB/s\n  figures: [{{name: copy, \
             pattern: '(\\S+) GB/s', unit: GB/s, reference: 40, lower: -10%}}]\n"
        );
        world.file(&format!("work/recipes/{name}/config.yaml"), &recipe);
    }
    let mounts = ["solver", "tools"].map(|name| cabane.mount_point(name));
    let mut text = PIPELINE.to_owned();
    for (version, mount) in ["'1.0':\n", "'2.0':\n"].iter().zip(mounts) {
        text = text.replace(version, &format!("{version}      mount: {mount}\n"));
    }
    world.file("work/pipeline.yaml", &text);
    cabane
}

#[test]
fn the_page_has_what_came_of_a_run() {
    let cabane = collection();
    cabane.run(&["--system", "there", "pipeline", "run", "--offline"]).success();
    let run = cabane.run(&["pipeline", "run", "--offline"]);
    assert_eq!(run.code, 16, "{}\n{}", run.stdout, run.stderr);
    let report = cabane.run(&["pipeline", "report"]).success();
    let counts = "report.html; 3 cells: 2 PASSED, 1 FAILED";
    assert!(
        report.stderr.contains(counts) && report.stdout.is_empty(),
        "{}{}",
        report.stderr,
        run.stderr
    );
    let path = cabane.world.path("work/.cabane-pipeline/report.html");
    let page = fs::read_to_string(&path).unwrap();
    for part in [
        "<html lang=\"en\">",
        "2 environments on 2 systems. 3 cells: 2 PASSED, 1 FAILED.",
        "<th scope=\"col\">here%x86_64</th><th scope=\"col\">there%x86_64</th>",
        "href=\"#solver/1.0@there:x86_64\">PASSED<",
        "href=\"#tools/2.0@here:x86_64\">FAILED<",
        "<span class=\"v\">not in the pipeline</span>",
        "copy is 30 GB/s, and the reference is 40 GB/s",
        "<td class=\"w\">30 GB/s <b>outside</b></td><td class=\"w\">at least 36 GB/s; reference 40</td>",
        "<figcaption><b>solver: stream, copy</b><br>One row for each system.</figcaption>",
        "Log of check</summary>",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    assert!(!page.contains("<script"), "{page}");
    assert_eq!(page.matches("<details open>").count(), 1);

    // Only one system, elsewhere, and the same bytes each time.
    let some = |name: &str| {
        cabane.run(&["pipeline", "report", "--only", "@there", "-o", name]).success();
        fs::read_to_string(cabane.world.path("work").join(name)).unwrap()
    };
    let first = some("one.html");
    assert!(first.contains("1 cell: 1 PASSED.") && !first.contains("tools"), "{first}");
    assert_eq!(first, some("other.html"));
}

#[test]
fn a_pipeline_that_never_ran_has_a_page_too() {
    let cabane = collection();
    let report = cabane.run(&["pipeline", "report", "-o", "page.html"]).success();
    assert!(report.stderr.contains("3 cells: 3 without a result"), "{}", report.stderr);
    let missing = cabane.run(&["pipeline", "report", "--only", "nothing"]);
    assert_eq!(missing.code, 4, "{}", missing.stderr);
    fs::create_dir(cabane.world.path("work/taken")).unwrap();
    let taken = cabane.run(&["pipeline", "report", "-o", "taken"]);
    assert!(taken.stderr.starts_with("error: cannot write taken"), "{}", taken.stderr);
}
