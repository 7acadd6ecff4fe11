// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Devices of a made-up vendor in containers: as root, through the set-uid helper and in a user
//! namespace.
//!
//! ```text
//! /etc/cdi/vendor.yaml         what the vendor says, in the private world of the test
//! /mnt/driver/                 the driver: libfake.so.1.2.3 with the soname libfake.so.1, data/
//! IMAGE/usr/bin/uses-fake      a program that needs libfake.so.1, which the image does not have
//! ```

use std::path::Path;

use cabane_testkit::{Finished, Tree, driver, run_as_root, squashfs};

use crate::arena::with_helper;
use crate::cabane::{Cabane, Who, finished};

const LIBRARY: &str = "/mnt/driver/libfake.so.1.2.3";
const VENDOR: &str = "\
cdiVersion: 0.6.0
kind: vendor.example/fake
devices:
  - name: one
    containerEdits:
      deviceNodes:
        - {path: /dev/null, major: 1, minor: 3}
        - {path: /opt/fake/null, hostPath: /dev/null, type: c}
  - name: gone
    containerEdits:
      deviceNodes: [{path: /dev/cabane-gone}]
  - name: closed
    containerEdits:
      deviceNodes: [{path: /mnt/driver/closed}]
containerEdits:
  env: [FAKE_DEVICES=yes, LANG=of-the-device]
  mounts:
    - {hostPath: /mnt/driver/libfake.so.1.2.3, containerPath: /usr/lib/fake/libfake.so.1.2.3, options: [ro, nosuid, nodev, rbind, rprivate]}
    - {hostPath: /mnt/driver/data, containerPath: /usr/share/fake, options: [ro, rbind]}
  hooks:
    - {hookName: createContainer, path: /usr/bin/nvidia-cdi-hook, args: [nvidia-cdi-hook, create-symlinks, --link, 'libfake.so.1::/usr/lib/fake/libfake.so']}
    - {hookName: createContainer, path: /usr/bin/nvidia-cdi-hook, args: [nvidia-cdi-hook, update-ldcache, --folder, /usr/lib/fake]}
";

/// Puts a driver and what its vendor says about it where they belong.
fn install_driver(specification: &str) {
    driver(Path::new(LIBRARY), 42);
    run_as_root(
        "mkdir -p /mnt/driver/data /etc/cdi
         echo data of the driver >/mnt/driver/data/file
         mknod -m 600 /mnt/driver/closed c 1 3
         chmod 755 /mnt/driver /etc/cdi",
    );
    describe("vendor.yaml", specification);
}

fn describe(name: &str, specification: &str) {
    std::fs::write(Path::new("/etc/cdi").join(name), specification).unwrap();
    run_as_root("chmod 644 /etc/cdi/*");
}

/// Adds the image `os` with the program, and more.
fn add_image(cabane: &Cabane, more: impl Fn(Tree) -> Tree) {
    let tree = Tree::new(cabane.world.path("trees/os"))
        .user_of_driver(Path::new(LIBRARY))
        .root_file_system("os", "");
    let tree = more(tree);
    let image = cabane.world.path("os.squashfs");
    squashfs(tree.root(), &image);
    let image = image.to_str().unwrap();
    cabane.run(&["image", "add", "os/1:v1@here%x86_64", image]).success();
}

/// Does something as root, as the user of the helper, and as one in a user namespace, each with
/// the image.
fn in_every_way(test: impl Fn(&str, &Cabane)) {
    run_as_root("echo root-images yes >>/etc/cabane/mount.policy");
    let all = [
        ("root", Cabane::new(Who::Root)),
        ("helper", Cabane::new(Who::OrdinaryUser).with_helper("/mnt/cabane-mount")),
        ("user namespace", Cabane::new(Who::OrdinaryUser)),
    ];
    for (who, cabane) in &all {
        add_image(cabane, |tree| tree);
        test(who, cabane);
        cabane.run(&["clean", "--mounts"]);
    }
}

fn sh(cabane: &Cabane, arguments: &[&str], script: &str) -> Finished {
    cabane.run(&[&["-v", "run"], arguments, &["os", "--", "sh", "-c", script]].concat())
}

#[test]
fn a_program_finds_the_library_of_the_driver_by_its_name() {
    with_helper(|_| {
        install_driver(VENDOR);
        in_every_way(|who, cabane| {
            let device = ["--device", "vendor.example/fake=one"];
            let seen = sh(cabane, &device, "uses-fake; echo $FAKE_DEVICES $LANG");
            let output = seen.stderr.replace(|c| c != '\n', "");
            assert_eq!(seen.stdout, "42\nyes of-the-device\n", "{who}: {seen:?}");
            // Only where there is no helper the text says so.
            assert_eq!(output.len(), usize::from(who == "user namespace"), "{seen:?}");
        });
    });
}

#[test]
fn without_the_device_there_is_nothing_of_it() {
    with_helper(|_| {
        install_driver(VENDOR);
        in_every_way(|who, cabane| {
            let script = "uses-fake; echo $? ${FAKE_DEVICES-no}; ls /usr/share/fake /opt/fake";
            let seen = sh(cabane, &[], script);
            assert_eq!(seen.stdout, "127 no\n", "{who}: {seen:?}");
        });
    });
}

#[test]
fn files_links_and_nodes_are_where_the_vendor_says() {
    with_helper(|_| {
        install_driver(VENDOR);
        in_every_way(|who, cabane| {
            let script = "cat /usr/share/fake/file; cd /usr/lib/fake; ls; \
                          [ libfake.so -ef libfake.so.1.2.3 ] && echo same; \
                          echo >/opt/fake/null && stat -c %t:%T /opt/fake/null; \
                          touch /usr/share/fake/new";
            let seen = sh(cabane, &["--device=vendor.example/fake=one"], script);
            assert_eq!(
                seen.stdout, "data of the driver\nlibfake.so\nlibfake.so.1.2.3\nsame\n1:3\n",
                "{who}: {seen:?}"
            );
            assert!(seen.stderr.contains("Read-only"), "{who}: {seen:?}");
        });
    });
}

#[test]
fn the_helper_gives_no_more_than_its_user_can_read() {
    with_helper(|_| {
        install_driver(VENDOR);
        run_as_root("chmod 700 /mnt/driver/data; echo secret >/mnt/driver/data/file");
        in_every_way(|who, cabane| {
            let seen =
                sh(cabane, &["--device=vendor.example/fake=one"], "cat /usr/share/fake/file");
            let expected = if who == "root" { "secret\n" } else { "" };
            assert_eq!(seen.stdout, expected, "{who}: {seen:?}");
        });
    });
}

#[test]
fn an_environment_file_names_devices_and_status_writes_them_down() {
    with_helper(|_| {
        install_driver(VENDOR);
        in_every_way(|who, cabane| {
            let text = "images = [\"os\"]\ndevices = [\"vendor.example/fake=one\"]\n";
            cabane.world.file("work/gpu.toml", text);
            let arguments = ["run", "./gpu.toml", "--", "sh", "-c"];
            let seen =
                cabane.run(&[&arguments[..], &["uses-fake; echo \"$CABANE_LOADED\""]].concat());
            let (first, loaded) = seen.stdout.split_once('\n').unwrap();
            assert_eq!(first, "42", "{who}: {seen:?}");
            let mut status = cabane.command(&["status", "--save", "-"]);
            let saved = cabane.finish(status.env("CABANE_LOADED", loaded.trim()));
            let line = "devices = [\"vendor.example/fake=one\"]\n";
            assert!(saved.stdout.contains(line), "{who}: {saved:?}");
            assert!(!saved.stdout.contains("[env]"), "{who}: {saved:?}");
            let mut status = cabane.command(&["status"]);
            let reported = cabane.finish(status.env("CABANE_LOADED", loaded.trim()));
            let lines = "\ndevices\n  vendor.example/fake=one\n";
            assert!(reported.stdout.ends_with(lines), "{who}: {reported:?}");
            let differs = cabane.run(&["diff", "os", "./gpu.toml"]).success();
            assert!(
                differs.stdout.contains("devices") && differs.stdout.contains("fake=one"),
                "{who}: {differs:?}"
            );
        });
    });
}

#[test]
fn a_site_gives_devices_to_all_containers_where_they_are() {
    with_helper(|_| {
        install_driver(VENDOR);
        in_every_way(|who, cabane| {
            let text = "[container]\ndevices = [\"other.example/x=all\", \"vendor.example/fake=one\", \
                        \"vendor.example/fake=gone\"]\n";
            cabane.world.file("site.toml", text);
            let seen = sh(cabane, &[], "uses-fake");
            assert_eq!(seen.stdout, "42\n", "{who}: {seen:?}");
            let warning = "warning: /etc/cdi/vendor.yaml:11: cannot give /dev/cabane-gone: No such";
            assert!(seen.stderr.contains(warning), "{who}: {seen:?}");
            // If no device was requested, nothing says that it is someone else's.
            let text = "[container]\ndevices = [\"vendor.example/fake=closed\"]\n";
            cabane.world.file("site.toml", text);
            let arguments = ["run", "os", "--", "uses-fake"];
            assert_eq!(cabane.run(&arguments), finished(0, "42\n", ""), "{who}");
            let seen = sh(cabane, &["--device", "none"], "uses-fake; true");
            assert_eq!(seen.stdout, "", "{who}: {seen:?}");
        });
    });
}

#[test]
fn what_is_not_there_or_cannot_be_used_is_reported() {
    with_helper(|_| {
        install_driver(VENDOR);
        in_every_way(|who, cabane| {
            let run = |device: &str| {
                cabane.run(&["run", "--device", device, "os", "--", "sh", "-c", ":"])
            };
            let unknown = "error: there is no device `vendor.example/fake=two` here\n\
                hint: there are `vendor.example/fake=closed`, `vendor.example/fake=gone`, \
                `vendor.example/fake=one`\n";
            assert_eq!(run("vendor.example/fake=two"), finished(125, "", unknown), "{who}");
            let gone = "error: /etc/cdi/vendor.yaml:11: cannot give /dev/cabane-gone\n\
                cause: No such file or directory (os error 2)\n\
                hint: the file may be older than the driver: the vendor's tool writes it anew\n";
            assert_eq!(run("vendor.example/fake=gone"), finished(125, "", gone), "{who}");
            let closed = if who == "root" {
                ""
            } else {
                "warning: you cannot use /mnt/driver/closed: Permission denied (os error 13)\n"
            };
            assert_eq!(run("vendor.example/fake=closed"), finished(0, "", closed), "{who}");
            let seen = run("gpu");
            assert_eq!(seen.code, 2, "{who}: {seen:?}");
            assert!(seen.stderr.contains("`gpu` is not the name of a device"), "{who}: {seen:?}");
        });
    });
}

#[test]
fn hooks_of_others_are_not_run_and_broken_files_are_reported() {
    with_helper(|_| {
        install_driver(VENDOR);
        let hook = "/mnt/driver/hook";
        std::fs::write(hook, "#!/bin/sh\ntouch /mnt/driver/ran\n").unwrap();
        run_as_root("chmod 755 /mnt/driver/hook; chmod 777 /mnt/driver");
        describe(
            "hooked.yaml",
            &format!(
                "cdiVersion: 0.6.0\nkind: vendor.example/hooked\ndevices:\n- name: one\n  \
                 containerEdits:\n    hooks:\n    - hookName: createContainer\n      path: {hook}\n"
            ),
        );
        describe("broken.yaml", "cdiVersion: 0.6.0\nkind: broken\ndevices: [{name: x}]\n");
        in_every_way(|who, cabane| {
            let arguments =
                ["run", "--device=vendor.example/hooked=one", "os", "--", "sh", "-c", ":"];
            let warnings = format!(
                "warning: devices are missing: /etc/cdi/broken.yaml:2:7: `broken` is not a vendor \
                 and a class\n\
                 warning: /etc/cdi/hooked.yaml:7: the hook `{hook}` (createContainer) is not run: \
                 no program of a device is\n"
            );
            assert_eq!(cabane.run(&arguments), finished(0, "", &warnings), "{who}");
            assert!(!Path::new("/mnt/driver/ran").exists(), "{who}");
        });
    });
}

/// A device with so many files.
fn many(count: usize) -> String {
    let mut text = "cdiVersion: 0.6.0\nkind: vendor.example/many\ndevices: [{name: one}]\n\
                    containerEdits:\n  mounts:\n"
        .to_owned();
    for number in 0..count {
        let place = format!("containerPath: /opt/many/{number}");
        text += &format!("  - {{hostPath: /mnt/driver/data/file, {place}, options: [ro]}}\n");
    }
    text
}

#[test]
fn a_driver_may_have_many_files_where_a_process_may_open_few() {
    with_helper(|_| {
        install_driver(VENDOR);
        describe("many.yaml", &many(300));
        in_every_way(|who, cabane| {
            let script = "ulimit -n 1024; exec $CABANE -v run --device vendor.example/many=one os \
                          -- sh -c 'cat /opt/many/* | wc -l'";
            let seen = cabane.finish(cabane.other("sh").args(["-c", script]));
            assert_eq!(seen.stdout, "300\n", "{who}: {seen:?}");
            let is_other_way = seen.stderr.contains("in a user namespace");
            assert_eq!(is_other_way, who == "user namespace", "{seen:?}");
        });
    });
}

#[test]
fn more_files_than_the_helper_takes_go_through_a_user_namespace() {
    with_helper(|cabane| {
        install_driver(&many(330));
        run_as_root("echo root-images yes >>/etc/cabane/mount.policy");
        add_image(cabane, |tree| tree);
        let device = ["--device=vendor.example/many=one"];
        let seen = sh(cabane, &device, "cat /opt/many/* | wc -l");
        let reason = "it is one place too many, after 320 others\n";
        assert!(seen.stdout == "330\n" && seen.stderr.ends_with(reason), "{seen:?}");
    });
}

#[test]
fn a_stack_gets_the_variables() {
    with_helper(|cabane| {
        install_driver(VENDOR);
        let script = "echo $FAKE_DEVICES ${LD_LIBRARY_PATH-none}; ls /usr/share/fake";
        let arguments = ["run", "--device", "all", "app", "--", "sh", "-c", script];
        let seen = cabane.run(&arguments);
        // Also of devices that are not there: the first one is named.
        assert_eq!(seen.code, 125, "{seen:?}");
        let arguments = [&["run", "--device", "vendor.example/fake=one"], &arguments[3..]].concat();
        let seen = cabane.run(&arguments);
        assert_eq!(seen.stdout, "yes none\n", "{seen:?}");
    });
}

#[test]
fn newer_libraries_of_the_image_for_older_drivers_come_first() {
    with_helper(|_| {
        let hook = "    - {hookName: createContainer, path: /usr/bin/nvidia-cdi-hook, args: \
                    [nvidia-cdi-hook, enable-cuda-compat, --host-driver-version=550.54.15]}\n";
        install_driver(&format!("{VENDOR}{hook}"));
        in_every_way(|who, cabane| {
            let first = |cabane: &Cabane| {
                let device = ["--device=vendor.example/fake=one"];
                let seen = sh(cabane, &device, "uses-fake; echo ${LD_LIBRARY_PATH%%:*}");
                seen.stdout
            };
            let own = "42\n/run/cabane/devices/usr/lib/fake\n";
            assert_eq!(first(cabane), own, "{who}");
            for (version, expected) in
                [("550.90.7", own), ("560.28.3", "42\n/usr/local/cuda/compat\n")]
            {
                run_as_root(&format!("rm -r '{}'", cabane.world.path("trees/os").display()));
                run_as_root(&format!("rm '{}'", cabane.world.path("os.squashfs").display()));
                cabane.run(&["image", "rm", "os/1:v1@here%x86_64"]).success();
                let path = format!("usr/local/cuda-12/compat/libcuda.so.{version}");
                add_image(cabane, |tree| {
                    let tree = tree.file(&path, "");
                    let link = tree.root().join("usr/local/cuda");
                    std::os::unix::fs::symlink("cuda-12", link).unwrap();
                    tree
                });
                assert_eq!(first(cabane), expected, "{who}: {version}");
            }
        });
    });
}

#[test]
fn devices_are_listed_and_doctor_knows_them() {
    with_helper(|cabane| {
        let seen = cabane.run(&["system", "devices"]);
        let none = "no file in /etc/cdi or /var/run/cdi describes a device\n";
        assert_eq!(seen, finished(0, "", none));
        install_driver(VENDOR);
        describe("broken.json", "{\"cdiVersion\": \"0.6.0\"}");
        run_as_root(
            "mkdir -p /run/cdi; cp /etc/cdi/vendor.yaml /run/cdi/; sed -i '/name: gone/,+2d' /run/cdi/vendor.yaml",
        );
        cabane.run(&["system", "devices", "--json"]).success();
        let seen = cabane.run(&["system", "devices"]);
        let lines: Vec<&str> = seen.stdout.lines().collect();
        assert_eq!(lines.len(), 4, "{seen:?}");
        assert!(lines[3].ends_with("  /var/run/cdi/vendor.yaml:4"), "{seen:?}");
        assert!(lines[2].ends_with("  /etc/cdi/vendor.yaml:9"), "{seen:?}");
        assert!(
            seen.stderr.starts_with("warning: /etc/cdi/broken.json:1:1: the key `kind` is missing"),
            "{seen:?}"
        );
        let seen = cabane.run(&["doctor"]);
        let found = |line: &str| seen.stdout.lines().any(|one| one.trim_start().starts_with(line));
        assert!(found("ok       devices") && found("note     devices"), "{}", seen.stdout);
    });
}
