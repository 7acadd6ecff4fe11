// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images for other processors than that of this machine. The virtual machines of `make test-kernels` have a
//! processor of 2008, without AVX.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use cabane_mount::ImageFormat;
use cabane_testkit::{Finished, Tree, belongs_to};

use crate::arena::{Arena, COMMAND, in_private_world};

/// What an image for `x86_64_v3` needs beyond one for `x86_64_v2`.
const FEATURES: [&str; 5] = ["avx", "avx2", "bmi2", "f16c", "fma"];

/// The features that the kernel does not list, as a machine of 2008 has none of them.
fn lacking() -> Vec<&'static str> {
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap();
    let line = processor.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    let has = |name: &&str| line.split_whitespace().any(|one| one == *name);
    FEATURES.into_iter().filter(|name| !has(name)).collect()
}

/// An image that tells which one it is.
fn image(arena: &Arena, name: &str, needs: &str) -> PathBuf {
    let meta = format!(
        r#"{{"name":"{name}","mount":"/mnt/a","cabane":{{"version":1,"needs":{needs}}},"views":{{}}}}"#
    );
    let tree = Tree::new(arena.world.path(&format!("trees/{name}")))
        .file("name", name)
        .file("meta/env.json", &meta);
    arena.pack(&tree, name, ImageFormat::Squashfs)
}

fn needs_all() -> String {
    format!(r#"{{"processor":{{"targets":["x86_64_v3"],"features":{FEATURES:?}}}}}"#)
}

/// The command, if it is given, on a machine that lacks something.
fn command() -> Option<OsString> {
    std::env::var_os(COMMAND).filter(|_| !lacking().is_empty())
}

#[test]
fn what_the_processor_lacks_is_a_warning_before_the_command() {
    let Some(command) = command() else {
        belongs_to!("make test-kernels");
    };
    in_private_world(|arena: &Arena| {
        let image = image(arena, "app", &needs_all());
        let expected =
            format!("this processor lacks {}: its programs may end", lacking().join(", "));
        for backend in ["user-namespace", "helper"] {
            let script = format!("$CABANE --backend={backend} run $IMAGE -- cat /mnt/a/name");
            let seen = arena.type_as(arena.user(), &command, &script, &image).success();
            assert_eq!(seen.stdout, "app", "{backend}: {seen:?}");
            assert!(seen.stderr.contains(&expected), "{backend}: {seen:?}");
        }
    });
}

#[test]
fn of_several_builds_the_one_is_taken_that_the_processor_can_run() {
    let Some(command) = command() else {
        belongs_to!("make test-kernels");
    };
    in_private_world(|arena: &Arena| {
        let add = |image: &PathBuf, uarch: &str| -> Finished {
            let script = format!("$CABANE image add app/1.0:v1@here%{uarch} $IMAGE");
            arena.type_as(arena.user(), &command, &script, image)
        };
        let (new, old) = (image(arena, "new", &needs_all()), image(arena, "old", "{}"));
        add(&new, "x86_64_v3").success();
        add(&old, "x86_64").success();
        let run = "$CABANE run app@here -- cat /mnt/a/name";
        let seen = arena.type_as(arena.user(), &command, run, &new).success();
        assert_eq!(
            (seen.stdout.as_str(), seen.stderr.contains("lacks")),
            ("old", false),
            "{seen:?}"
        );
        let run = "$CABANE run app@here%x86_64_v3 -- cat /mnt/a/name";
        let seen = arena.type_as(arena.user(), &command, run, &new).success();
        assert!(seen.stdout == "new" && seen.stderr.contains("lacks"), "{seen:?}");
    });
}

#[test]
fn programs_for_another_architecture_are_refused_also_through_the_helper() {
    let Some(command) = std::env::var_os(COMMAND) else {
        belongs_to!("make test-kernels");
    };
    in_private_world(|arena: &Arena| {
        let image = image(arena, "app", r#"{"architectures":["s390x"]}"#);
        for backend in ["user-namespace", "helper"] {
            let script = format!("$CABANE --backend={backend} run $IMAGE -- echo started");
            let seen = arena.type_as(arena.user(), &command, &script, &image);
            assert_eq!((seen.code, seen.stdout.as_str()), (125, ""), "{backend}: {seen:?}");
            assert!(seen.stderr.contains("are for s390x, and this machine is"), "{seen:?}");
        }
    });
}
