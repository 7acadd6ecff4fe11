// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Settings of a system, with real Spack.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use cabane_testkit::belongs_to;

use crate::spack_real::{Real, example};

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

#[test]
fn packages_are_built_with_a_compiler_that_the_system_describes() {
    let Some(real) = Real::new() else { belongs_to!("make test-spack") };
    let world = &real.cabane.world;
    // Its programs are those of the system.
    for (name, program) in [("clang", "gcc"), ("clang++", "g++"), ("flang", "gfortran")] {
        let script = format!("#!/bin/sh\nexec /usr/bin/{program} \"$@\"\n");
        world.file(&format!("aocc/bin/{name}"), &script);
        let path = world.path(&format!("aocc/bin/{name}"));
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let prefix = world.path("aocc");
    let bin = prefix.join("bin");
    let packages = fs::read_to_string(world.path("system/packages.yaml")).unwrap();
    let external = format!(
        "  aocc:\n    buildable: false\n    externals:\n    - spec: aocc@5.0.0\n      prefix: {}\n      \
         extra_attributes: {{compilers: {{c: {bin}/clang, cxx: {bin}/clang++, fortran: {bin}/flang}}}}\n",
        prefix.display(),
        bin = bin.display(),
    );
    world.file("system/packages.yaml", &(packages.trim_end().to_owned() + "\n" + &external));
    let config = fs::read_to_string(example("tools").join("config.yaml")).unwrap();
    world.file("recipe/config.yaml", &config);
    let compilers = "gcc: {version: system}\naocc: {version: system}\n";
    world.file("recipe/compilers.yaml", compilers);
    let environment = "tools:\n  compiler: [aocc]\n  specs: [lz4]\n  views:\n    tools:\n";
    world.file("recipe/environments.yaml", environment);
    real.build_with(&world.path("recipe"), "build", "aocc/1.0", &[]);
    let lock = fs::read_to_string(world.path("build/work/spack/env/stack/spack.lock")).unwrap();
    let lock: serde_json::Value = serde_json::from_str(&lock).unwrap();
    let specs = lock["concrete_specs"].as_object().unwrap();
    let lz4 = specs.values().find(|spec| spec["name"] == "lz4").unwrap();
    let needs: Vec<_> =
        lz4["dependencies"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert!(needs.contains(&&"aocc".into()) && !needs.contains(&&"gcc".into()), "{needs:?}");
    let links =
        "cd /user-environment/env/tools/bin; readlink clang flang; ./lz4 --version | grep -c v1.10";
    let seen = real.run("aocc/1.0", links);
    assert_eq!(seen, "[WORLD]/aocc/bin/clang\n[WORLD]/aocc/bin/flang\n1\n");
}
