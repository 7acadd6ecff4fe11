// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Sources that cannot be used, with real Spack: they end a build before it compiles.

use std::fs;

use cabane_testkit::belongs_to;

use crate::spack_real::{Real, small_recipe};

/// The sha256 of the file that is found.
const FOUND: &str = "b3d8f146d8ee9483467e6efdf410a1cc1f85114fa5b43afe46565650a15b2e59";

fn package(class: &str, digit: &str) -> String {
    let name = class.to_lowercase();
    let sha256 = digit.repeat(64);
    format!(
        "from spack_repo.builtin.build_systems.generic import Package\n\
         from spack.package import *\n\n\n\
         class {class}(Package):\n    url = \"https://nowhere.invalid/{name}-1.0.tar.gz\"\n    \
         version(\"1.0\", sha256=\"{sha256}\")\n\n    \
         def install(self, spec, prefix):\n        mkdirp(prefix.bin)\n"
    )
}

#[test]
fn sources_that_are_wrong_or_missing_end_a_build_before_it_compiles() {
    let Some(real) = Real::new() else {
        belongs_to!("make test-spack");
    };
    let recipe = small_recipe(&real, "");
    let world = &real.cabane.world;
    for (class, digit) in [("Changed", "1"), ("Gone", "2")] {
        let file = format!("recipe/repo/packages/{}/package.py", class.to_lowercase());
        world.file(&file, &package(class, digit));
    }
    let environments = "tools:\n  compiler: [gcc]\n  specs: [bzip2, changed, gone]\n  \
                        views: {tools: {}}\n";
    world.file("recipe/environments.yaml", environments);
    let file = format!("mirror/_source-cache/archive/11/{}.tar.gz", "1".repeat(64));
    world.file(&file, "not what was released\n");
    let mirrors = world.path("system/mirrors.yaml");
    let more = format!("  changed:\n    url: file://{}\n", world.path("mirror").display());
    fs::write(&mirrors, fs::read_to_string(&mirrors).unwrap() + &more).unwrap();

    let seen = real.try_to_build(&recipe, "first", &["small/1.0"]);
    let expected = [
        "error: the sources of 2 packages cannot be used; nothing was built\n".to_owned(),
        format!(
            "  changed@1.0\n    file://[WORLD]/{file}\n    expected: {}\n    found:    {FOUND}\n",
            "1".repeat(64)
        ),
        "  gone@1.0\n    https://nowhere.invalid/gone-1.0.tar.gz\n    [Errno".to_owned(),
    ];
    for part in expected {
        assert!(seen.code == 7 && seen.stderr.contains(&part), "{}: {}", part, seen.stderr);
    }
    assert!(!seen.stderr.contains("bzip2"), "{}", seen.stderr);
}
