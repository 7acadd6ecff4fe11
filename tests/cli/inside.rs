// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What an image says about its packages, and what it needs of this machine.

use cabane_testkit::{Tree, squashfs};
use serde_json::{Value, json};

use crate::cabane::{Cabane, Who, everybody, finished};

/// An image that says what it needs, and what is in it.
fn image(cabane: &Cabane, needs: &Value, packages: &Value) -> String {
    let mount_point = cabane.mount_point("app");
    let meta = json!({"name": "app", "mount": mount_point, "views": {},
        "cabane": {"version": 1, "needs": needs}});
    let list = json!({"version": 1, "packages": packages});
    let tree = Tree::new(cabane.world.path("tree"))
        .file("meta/env.json", &meta.to_string())
        .file("meta/packages.json", &list.to_string());
    let image = cabane.world.path("app.squashfs");
    squashfs(tree.root(), &image);
    image.to_string_lossy().into_owned()
}

#[test]
fn an_image_that_needs_a_newer_c_library_is_reported_at_its_start() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let image = image(&cabane, &json!({"glibc": "99.1"}), &json!([]));
        let seen = cabane.run(&["run", &image, "--", "true"]);
        let warning = "warning: the image app needs glibc 99.1, and this system has 2.";
        assert!(seen.stderr.starts_with(warning), "as {who:?}: {seen:?}");
        assert_eq!(seen.code, 0);
    }
}

#[test]
fn an_image_for_this_machine_starts_silently() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let needs = json!({"glibc": "2.5", "processor": {"targets": ["old"], "features": ["fpu"]}});
    let image = image(&cabane, &needs, &json!([]));
    let seen = cabane.run(&["run", &image, "--", "true"]);
    assert_eq!(seen, finished(0, "", ""));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn an_image_for_another_processor_is_reported_at_its_start() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    // Two processors of 2012 had it, and none since.
    let needs = json!({"processor": {"targets": ["piledriver"], "features": ["tbm"]}});
    let image = image(&cabane, &needs, &json!([]));
    let seen = cabane.run(&["run", &image, "--", "true"]);
    let warning = "warning: the image app was built for piledriver, and this processor lacks tbm";
    assert!(seen.stderr.starts_with(warning), "{seen:?}");
}

#[test]
fn the_packages_of_an_image_are_listed_without_starting_it() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let packages = json!([{"name": "lz4", "version": "1.10.0", "manager": "spack",
            "size": 1234, "explicit": true, "prefix": "/app/lz4"},
            {"name": "gcc", "version": "12\u{1b}[31m", "manager": "spack", "external": true,
            "prefix": "/usr"}]);
        let image = image(&cabane, &json!({}), &packages);
        let seen = cabane.run(&["image", "inspect", &image, "--packages"]);
        let expected = "   package  version         size  hash  compiler  target  variants\n\
                        *  lz4      1.10.0        1.2 kB\n   gcc      12\\u{1b}[31m    /usr\n";
        assert_eq!(seen, finished(0, expected, ""), "as {who:?}");
    }
}

#[test]
fn what_is_inside_is_summed_up() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let needs =
        json!({"glibc": "2.34", "outside": [{"path": "/opt/slurm", "package": "slurm@23"}]});
    let packages = json!([{"name": "lz4", "manager": "spack"},
        {"name": "gcc", "manager": "spack", "external": true}]);
    let image = image(&cabane, &needs, &packages);
    let seen = cabane.run(&["image", "inspect", &image]).success().stdout;
    let expected = "  packages     1, and 1 of the system\n  needs        glibc 2.34\n  \
                    refers to    slurm@23 at /opt/slurm\n";
    assert!(seen.contains(expected), "{seen}");
}

#[test]
fn packages_of_an_image_without_a_list_are_found_in_its_tree() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let mount_point = cabane.mount_point("app");
    let record = "lib/python3.11/site-packages/tiny-1.0.dist-info/RECORD";
    let tree = Tree::new(cabane.world.path("tree")).meta("app", &mount_point).file(record, "");
    let image = cabane.world.path("app.squashfs");
    squashfs(tree.root(), &image);
    let arguments = ["image", "inspect", image.to_str().unwrap(), "--packages", "--json"];
    let seen = cabane.run(&arguments).success().stdout;
    let list: Value = serde_json::from_str(&seen).unwrap();
    assert_eq!(list["packages"][0]["name"], "tiny");
}
