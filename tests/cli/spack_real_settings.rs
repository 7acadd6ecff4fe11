// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Settings of a system, with real Spack.

use std::fs;

use cabane_testkit::belongs_to;

use crate::spack_real::Real;

#[test]
fn toolchains_and_settings_of_a_system_reach_spack() {
    let Some(real) = Real::new() else { belongs_to!("make test-spack") };
    let world = &real.cabane.world;
    let toolchain = "toolchains:\n  site:\n  - spec: '%c=gcc'\n    when: '%c'\n  - spec: '%cxx=gcc'\n    \
                     when: '%cxx'\n";
    world.file("system/toolchains.yaml", toolchain);
    world.file("system/concretizer.yaml", "concretizer:\n  targets: {granularity: generic}\n");
    world.file("system/config.yaml", "config:\n  connect_timeout: 7\n");
    let example = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tools");
    for name in ["config.yaml", "compilers.yaml"] {
        let text = fs::read_to_string(example.join(name)).unwrap();
        world.file(&format!("recipe/{name}"), &text);
    }
    let environment = "tools:\n  compiler: [gcc]\n  specs: ['lz4 %site']\n  views:\n    tools:\n";
    world.file("recipe/environments.yaml", environment);
    let until = ["--until", "concretize"];
    real.build_with(&world.path("recipe"), "build", "site/1.0", &until);
    let lock = fs::read_to_string(world.path("build/work/spack/env/stack/spack.lock")).unwrap();
    let lock: serde_json::Value = serde_json::from_str(&lock).unwrap();
    let specs = lock["concrete_specs"].as_object().unwrap();
    let lz4 = specs.values().find(|spec| spec["name"] == "lz4").unwrap();
    // A generic target is `x86_64_v3`, and not the name of a processor.
    let target = &lz4["arch"]["target"];
    let target = target["name"].as_str().or(target.as_str()).unwrap();
    assert!(target.starts_with("x86_64") || target == "aarch64", "{target}");
}
