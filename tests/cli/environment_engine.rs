// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Environment definition files (EDF) of container engines: `cabane run -e`, `cabane environment`.

use cabane_testkit::{Finished, RealRegistry, needs};

use crate::cabane::{Cabane, Who, everybody, finished};
use crate::root_images::with_root;

/// Runs a script in the environment of a file.
fn in_file(cabane: &Cabane, file: &str, script: &str) -> Finished {
    cabane.run(&["run", "-e", file, "--", "sh", "-c", script])
}

#[test]
fn an_image_mounts_variables_and_the_directory_of_the_image() {
    for who in everybody() {
        let cabane = with_root(who);
        cabane.world.file("work/data/text", "seen\n");
        cabane.world.file("other/data/text", "not this one\n");
        cabane.world.file(
            "other/base.toml",
            "image = \"./nothing.sqsh\"\nmounts = [\"./data:/data:ro+private\"]\n",
        );
        cabane.world.file(
            "other/os.toml",
            "base_environment = \"../other/base.toml\"\nimage = \"../os.squashfs\"\n\
             devices = [\"/dev/null\"]\n[env]\nPATH = \"${PATH}:/custom\"\nCABANE_TEST = \"\"\n\
             [annotations]\ncom.hooks.cxi.enabled = \"true\"\n",
        );
        let script = "cat /etc/image /data/text; pwd; echo $PATH ${CABANE_TEST-unset}; \
                      touch /data/x 2>/dev/null || touch /x 2>/dev/null || echo read-only";
        let seen = in_file(&cabane, "../other/os.toml", script);
        let expected = "osseen\n/home\n/usr/bin:/bin:/custom unset\nread-only\n";
        assert_eq!((seen.code, seen.stdout.as_str()), (0, expected), "{who:?}: {seen:?}");
    }
}

#[test]
fn a_container_is_writable_and_runs_its_entry_point_if_the_file_says_so() {
    for who in everybody() {
        let cabane = with_root(who);
        cabane.world.file(
            "work/os.toml",
            "image = \"../os.squashfs\"\nwritable = true\nentrypoint = true\nworkdir = \"/etc\"\n",
        );
        let seen = cabane.run(&["run", "-e", "./os.toml"]);
        assert_eq!(seen, finished(0, "it in /etc\n", ""), "{who:?}");
        cabane.world.file("work/w.toml", "image = \"../os.squashfs\"\nwritable = true\n");
        let seen = in_file(&cabane, "./w.toml", "echo new >/etc/new; cat /etc/new");
        assert_eq!(seen, finished(0, "new\n", ""), "{who:?}");
    }
}

#[test]
fn names_are_looked_for_in_the_directories_of_container_engines() {
    let cabane = with_root(Who::OrdinaryUser);
    let text = |name: &str| format!("image = \"../os.squashfs\"\n[env]\nNAME = \"{name}\"\n");
    cabane.world.file("home/.edf/os.toml", &text("home"));
    cabane.world.file("path/os.toml", &text("path"));
    cabane.world.file("home/.config/cabane/environments/own.toml", &text("own"));
    cabane.world.file("path/own.toml", &text("not this one"));
    let print = "echo $NAME";
    assert_eq!(in_file(&cabane, "os", print), finished(0, "home\n", ""));
    for (name, expected) in [("os", "path\n"), ("own", "own\n")] {
        let mut command = cabane.command(&["run", "-e", name, "--", "sh", "-c", print]);
        let list = format!("relative:{}", cabane.world.path("path").display());
        command.env("EDF_PATH", list);
        assert_eq!(cabane.finish(&mut command), finished(0, expected, ""));
    }
}

#[test]
fn annotations_without_effect_are_named_once() {
    let cabane = with_root(Who::OrdinaryUser);
    cabane.world.file(
        "work/os.toml",
        "image = \"../os.squashfs\"\n[annotations.com.hooks.aws_ofi_nccl]\nenabled = \"true\"\n\
         variant = \"cuda-dl\"\n[annotations.com.hooks.dcgm]\nenabled = \"false\"\n",
    );
    let notice = "these annotations have no effect here: com.hooks.aws_ofi_nccl.enabled, \
                  com.hooks.aws_ofi_nccl.variant\n";
    assert_eq!(in_file(&cabane, "./os.toml", "echo ran"), finished(0, "ran\n", notice));
    let seen = cabane.run(&["environment", "check", "./os.toml"]);
    assert_eq!(seen, finished(0, "", &format!("{notice}./os.toml: no mistake\n")));
}

#[test]
fn mistakes_are_reported_with_their_places() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    cabane.world.file(
        "work/os.toml",
        "image = \"a b\"\nmounts = [\"/a:/b:shared\"]\n[annotations]\ncom.hooks.ssh.enabled = \"true\"\n",
    );
    let seen = cabane.run(&["environment", "check", "./os.toml"]);
    let expected = "error: 3 mistakes in the environment file\n\
        [WORLD]/work/os.toml:1:11: `a b` is not an image: an image cannot contain ` `\n  \
        | image = \"a b\"\n  |           ^\n\
        [WORLD]/work/os.toml:2:11: there is no flag `shared` of a mount\n  \
        | mounts = [\"/a:/b:shared\"]\n  |           ^^^^^^^^^^^^^^\n  hint: the flags are `ro` and `rw`\n\
        [WORLD]/work/os.toml:4:25: `com.hooks.ssh.enabled`: no SSH server is started in a container\n  \
        | com.hooks.ssh.enabled = \"true\"\n  |                         ^^^^^^\n  \
        hint: leave it out: `cabane attach JOB` opens a shell in a job, on its node\n";
    assert_eq!(seen, finished(3, "", expected));
}

#[test]
fn an_image_of_a_registry_is_imported_at_first_use() {
    needs!("docker-registry");
    for who in everybody() {
        let cabane = with_root(who);
        let registry = RealRegistry::start(&cabane.world.path("registry"));
        let name = format!("{}/lab/os:1", registry.url());
        cabane.run(&["export", "os", &name]).success();
        let text = format!("image = \"{}#lab/os:1\"\n", registry.url());
        cabane.world.file("work/os.toml", &text);
        let seen = in_file(&cabane, "./os.toml", "cat /etc/image; pwd").success();
        assert_eq!(seen.stdout, "os/home\n", "{who:?}");
        assert!(seen.stderr.contains("imported"), "{who:?}: {seen:?}");
        assert_eq!(
            in_file(&cabane, "./os.toml", "cat /etc/image"),
            finished(0, "os", ""),
            "{who:?}"
        );
    }
}
