// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images with a root file system of their own: what is seen in them, and what is not.

use std::fs;

use cabane_testkit::{Tree, run_as_root, squashfs};

use crate::arena::with_helper;
use crate::cabane::{Cabane, Who, everybody, finished};

/// What the image starts by itself.
const CONTAINER: &str = r#""entrypoint":["/bin/sh","-c","echo \"$0 in $PWD\""],"command":["it"],
"working-directory":"/home","glibc":"2.17""#;

/// A world with the image `os`, which has a root file system.
pub(crate) fn with_root(who: Who) -> Cabane {
    let cabane = Cabane::new(who);
    add_root(&cabane, CONTAINER);
    cabane
}

fn add_root(cabane: &Cabane, container: &str) {
    let tree = Tree::new(cabane.world.path("trees/os")).root_file_system("os", container);
    let image = cabane.world.path("os.squashfs");
    squashfs(tree.root(), &image);
    let image = image.to_str().unwrap();
    cabane.run(&["image", "add", "os/1:v1@here%x86_64", image]).success();
}

/// The output of a script in an image.
fn output(cabane: &Cabane, arguments: &[&str], script: &str) -> String {
    let arguments = [&["run"], arguments, &["--", "sh", "-c", script]].concat();
    cabane.run(&arguments).success().stdout
}

#[test]
fn the_root_is_that_of_the_image() {
    for who in everybody() {
        let cabane = with_root(who);
        let seen = output(&cabane, &["os"], "cat /etc/image; [ -e /usr/share ] || echo");
        assert_eq!(seen, "os\n", "{who:?}");
    }
}

#[test]
fn devices_processes_and_shared_memory_are_those_of_the_host() {
    for who in everybody() {
        let cabane = with_root(who);
        let script = "for place in /dev/shm /proc /sys; do stat -c %d $place; done; \
                      readlink /proc/self/ns/pid";
        let mut outside = cabane.other("sh");
        let outside = cabane.finish(outside.args(["-c", script])).stdout;
        assert_eq!(output(&cabane, &["os"], script), outside, "{who:?}");
    }
}

#[test]
fn home_and_working_directory_are_seen_and_can_be_written_to() {
    for who in everybody() {
        let cabane = with_root(who);
        let seen = output(&cabane, &["os"], "touch ./a ~/b; pwd");
        let outside = cabane.finish(cabane.other("pwd").arg("-P"));
        assert_eq!(seen, outside.stdout, "{who:?}");
        let home = cabane.finish(cabane.other("sh").args(["-c", "ls ~/b ./a"]));
        assert_eq!(home.code, 0, "{who:?}: {}", home.stderr);
    }
}

#[test]
fn what_is_named_is_seen_at_the_same_or_another_place() {
    for who in everybody() {
        let cabane = with_root(who);
        let data = cabane.world.directory("data");
        fs::write(data.join("file"), "data").unwrap();
        let data = data.to_str().unwrap().to_owned();
        let other = format!("{data}:/data/in/here:ro");
        let script = format!("cat {data}/file /data/in/here/file; echo > /data/in/here/new");
        let arguments = ["run", "--bind", &data, "-b", &other, "os", "--", "sh", "-c", &script];
        let seen = cabane.run(&arguments);
        assert_eq!(seen.stdout, "datadata", "{who:?}: {}", seen.stderr);
        assert!(seen.stderr.contains("Read-only file system"), "{who:?}: {}", seen.stderr);
    }
}

#[test]
fn a_site_can_show_more_to_everybody() {
    for who in everybody() {
        let cabane = with_root(who);
        let scratch = cabane.world.directory("scratch");
        fs::write(scratch.join("file"), "scratch").unwrap();
        let place = scratch.to_str().unwrap();
        let text = format!(
            "[container]\nbinds = [\"{place}:/scratch\", \"/nonexistent\", \"$NOWHERE/x\"]\n"
        );
        cabane.world.file("site.toml", &text);
        assert_eq!(output(&cabane, &["os"], "cat /scratch/file"), "scratch", "{who:?}");
    }
}

#[test]
fn the_image_is_read_only() {
    for who in everybody() {
        let cabane = with_root(who);
        let seen = cabane.run(&["run", "os", "--", "touch", "/usr/new"]);
        assert!(seen.stderr.contains("Read-only file system"), "{who:?}: {}", seen.stderr);
    }
}

#[test]
fn what_is_written_in_memory_is_gone_at_the_end() {
    for who in everybody() {
        let cabane = with_root(who);
        let script = "rm /etc/image; echo new >/etc/new; ls /etc/image /etc/new 2>/dev/null; id -u";
        let seen = cabane.run(&["run", "--writable", "os", "--", "sh", "-c", script]);
        assert_eq!(seen.stdout, "/etc/new\n0\n", "{who:?}: {}", seen.stderr);
        let again = output(&cabane, &["os"], "ls /etc/image /etc/new 2>/dev/null; true");
        assert_eq!(again, "/etc/image\n", "{who:?}");
    }
}

#[test]
fn what_is_written_in_a_directory_is_found_again() {
    for who in everybody() {
        let cabane = with_root(who);
        let layer = cabane.world.directory("layer");
        let option = format!("--writable={}", layer.display());
        output(&cabane, &[&option, "os"], "rm /etc/image; echo new >/etc/new");
        let again = output(&cabane, &[&option, "os"], "ls /etc/image /etc/new 2>/dev/null; true");
        assert_eq!(again, "/etc/new\n", "{who:?}");
    }
}

#[test]
fn directories_in_which_places_were_made_can_be_written_to() {
    for who in everybody() {
        let cabane = with_root(who);
        let (seen, layer) = (cabane.world.directory("seen"), cabane.world.directory("layer"));
        let bind = format!("--bind={}:/made/place", seen.display());
        let file = format!("--bind={}:/made/file", seen.join("file").display());
        fs::write(seen.join("file"), "seen").unwrap();
        let script = "echo a >/beside && echo b >/made/beside && cat /made/place/file";
        for option in ["--writable", &format!("--writable={}", layer.display())] {
            let written = output(&cabane, &[&bind, &file, option, "os"], script);
            assert_eq!(written, "seen", "{who:?}");
        }
        let again = output(
            &cabane,
            &[&format!("--writable={}", layer.display()), "os"],
            "cat /beside /made/beside /made/file; ls /made/place",
        );
        assert_eq!(again, "a\nb\n", "{who:?}");
    }
}

#[test]
fn a_directory_in_which_nothing_can_be_written_is_refused() {
    let cabane = with_root(Who::OrdinaryUser);
    let file = cabane.world.path("file");
    fs::write(&file, "").unwrap();
    let seen = cabane.run(&["run", &format!("--writable={}", file.display()), "os", "--", "true"]);
    let expected = "error: cannot make the directory [WORLD]/file\n\
                    cause: File exists (os error 17)\n\
                    hint: name a directory of yours on a local disk, as in \
                    `--writable=/tmp/layer`\n";
    assert_eq!(seen, finished(125, "", expected));
}

#[test]
fn two_environments_do_not_write_to_one_directory() {
    for who in everybody() {
        let cabane = with_root(who);
        let layer = cabane.world.directory("layer");
        let option = format!("--writable={}", layer.display());
        let script = format!("{} run {option} os -- true", cabane.program());
        // The program is seen in the working directory's neighbourhood only.
        let world = cabane.world.path("");
        let bind = format!("--bind={}", world.display());
        let first = cabane.world.path("first");
        let mut command = cabane.command(&[
            "run",
            &option,
            &bind,
            "os",
            "--",
            "sh",
            "-c",
            &format!("touch {}; sleep 30", first.display()),
        ]);
        let mut running = command.spawn().unwrap();
        while !first.exists() && running.try_wait().unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let seen = cabane.finish(cabane.other("sh").args(["-c", &script]));
        running.kill().unwrap();
        running.wait().unwrap();
        assert!(
            seen.stderr.contains("another environment is writing in"),
            "{who:?}: {}",
            seen.stderr
        );
    }
}

#[test]
fn without_a_command_the_image_starts_what_its_author_wanted() {
    for who in everybody() {
        let cabane = with_root(who);
        assert_eq!(cabane.run(&["run", "os"]), finished(0, "it in /home\n", ""), "{who:?}");
    }
}

#[test]
fn the_entry_point_gets_typed_arguments() {
    for who in everybody() {
        let cabane = with_root(who);
        let seen = cabane.run(&["run", "--entrypoint", "os", "--", "mine"]);
        assert_eq!(seen, finished(0, "mine in /home\n", ""), "{who:?}");
    }
}

#[test]
fn an_image_that_starts_nothing_needs_a_command() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    add_root(&cabane, "");
    let expected = "error: the image does not say what it starts, and no command is given\n\
                    hint: write it after the image: `-- COMMAND`\n";
    assert_eq!(cabane.run(&["run", "os"]), finished(125, "", expected));
}

#[test]
fn an_image_without_a_root_needs_a_command() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let expected = "error: no command is given\n\
                    hint: write it after the image: `-- COMMAND`\n";
    assert_eq!(cabane.run(&["run", "app"]), finished(125, "", expected));
}

#[test]
fn what_is_about_container_images_is_refused_for_others() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let expected = "error: `--writable` is about container images, and none of these is one\n\
                    hint: `cabane import` makes an image of a container image\n";
    let seen = cabane.run(&["run", "--writable", "app", "--", "true"]);
    assert_eq!(seen, finished(2, "", expected));
}

#[test]
fn libraries_and_paths_of_the_host_are_not_handed_on() {
    for who in everybody() {
        let cabane = with_root(who);
        let script = "echo $PATH ${LD_LIBRARY_PATH-none} ${PYTHONPATH-none} $KEPT";
        let mut command = cabane.command(&["run", "os", "--", "sh", "-c", script]);
        command.env("LD_LIBRARY_PATH", "/opt/lib").env("PYTHONPATH", "/opt/python");
        let seen = cabane.finish(command.env("KEPT", "kept"));
        assert_eq!(seen, finished(0, "/usr/bin:/bin none none kept\n", ""), "{who:?}");
    }
}

#[test]
fn a_user_has_a_name_inside() {
    let cabane = with_root(Who::OrdinaryUser);
    let mut command = cabane.command(&["run", "os", "--", "id", "-un"]);
    let seen = cabane.finish(command.env("USER", "alice"));
    assert_eq!(seen, finished(0, "alice\n", ""));
}

#[test]
fn a_stack_is_mounted_inside() {
    for who in everybody() {
        let cabane = with_root(who);
        let image = cabane.image("app", "/opt/stack/app");
        let images = format!("{image},os");
        let seen = output(&cabane, &[&images], "hello; cat /etc/image; echo $PATH");
        assert_eq!(seen, "hello from app\nos/opt/stack/app/bin:/usr/bin:/bin\n", "{who:?}");
    }
}

#[test]
fn a_stack_that_needs_a_newer_c_library_than_the_image_has_is_reported() {
    let cabane = with_root(Who::OrdinaryUser);
    let meta = r#"{"name":"new","mount":"/opt/new","views":{},
        "cabane":{"version":1,"needs":{"glibc":"2.18"}}}"#;
    let tree = Tree::new(cabane.world.path("trees/new")).file("meta/env.json", meta);
    squashfs(tree.root(), &cabane.world.path("new.squashfs"));
    let seen = cabane.run(&["run", "os,../new.squashfs", "--", "true"]);
    let here = cabane.finish(cabane.other("sh").args(["-c", "pwd"])).stdout;
    assert!(
        seen.stderr.contains("needs glibc 2.18, and this system has 2.17"),
        "{here}{}",
        seen.stderr
    );
}

#[test]
fn it_starts_from_an_environment_and_knows_nothing_of_it() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        add_root(&cabane, CONTAINER);
        let script = "$CABANE run os -- sh -c 'cat /etc/image; echo $UENV_MOUNT_LIST'";
        let arguments = ["run", "app", "--", "sh", "-c", script];
        let seen = cabane.finish(cabane.command(&arguments).env("CABANE", cabane.program()));
        let list = seen.stdout.strip_prefix("os").unwrap_or_default();
        assert!(list.ends_with("/image:/\n") && !list.contains(','), "{who:?}: {seen:?}");
    }
}

#[test]
fn a_shell_is_one_that_the_image_has() {
    for who in everybody() {
        let cabane = with_root(who);
        let mut command = cabane.command(&["start", "--ignore-tty", "os"]);
        command.env("SHELL", "/nonexistent/fish").stdin(
            fs::File::open(cabane.world.file("work/typed", "echo $SHELL; cat /etc/image\n"))
                .unwrap(),
        );
        assert_eq!(cabane.finish(&mut command).stdout, "/bin/sh\nos", "{who:?}");
    }
}

#[test]
fn what_will_be_mounted_can_be_looked_at() {
    let cabane = with_root(Who::OrdinaryUser);
    let seen = cabane.run(&["run", "--writable", "--dry-run", "os"]).success();
    let root = seen.stdout.lines().nth(1).unwrap_or_default();
    assert!(
        root.starts_with("root ") && root.ends_with("(squashfs), written to in memory"),
        "{}",
        seen.stdout
    );
}

#[test]
fn the_helper_makes_the_kernel_serve_it() {
    with_helper(|cabane| {
        run_as_root("echo root-images yes >>/etc/cabane/mount.policy");
        add_root(cabane, CONTAINER);
        let script = "cat /etc/image; id -u; cut -d' ' -f5- /proc/self/mountinfo | head -n 1; \
                      grep -c . /proc/self/uid_map; touch ~/here && ls ~/here";
        let arguments = ["-v", "run", "os", "--", "sh", "-c", script];
        let seen = cabane.run(&arguments);
        assert!(
            seen.stdout.starts_with("os61234\n/ ro,nosuid,nodev") && seen.stderr.is_empty(),
            "{seen:?}"
        );
    });
}

#[test]
fn with_the_helper_a_stack_is_mounted_inside() {
    with_helper(|cabane| {
        run_as_root("echo root-images yes >>/etc/cabane/mount.policy");
        add_root(cabane, CONTAINER);
        let script = "hello; cat /etc/image; id -un";
        let seen = cabane.run(&["-v", "run", "os,app", "--", "sh", "-c", script]);
        assert_eq!(seen, finished(0, "hello from app\nostester\n", ""));
    });
}

#[test]
fn the_whole_machine_can_be_seen_below_a_directory() {
    with_helper(|helped| {
        run_as_root("echo root-images yes >>/etc/cabane/mount.policy");
        let unhelped = with_root(Who::OrdinaryUser);
        add_root(helped, CONTAINER);
        // There is a mount cache, which is in `/run`.
        helped.run(&["run", "app", "--", "true"]).success();
        for (how, cabane) in [("helper", helped), ("user namespace", &unhelped)] {
            for bind in ["/:/host", "/run:/host/run"] {
                let arguments = ["-v", "run", "--bind", bind, "os", "--", "ls", "-d", "/host/run"];
                let seen = cabane.run(&arguments);
                let is_unhelped = seen.stderr.contains("in a user namespace");
                assert!(
                    seen.stdout == "/host/run\n" && is_unhelped == (how != "helper"),
                    "{how}, {bind}: {seen:?}"
                );
            }
        }
    });
}

#[test]
fn without_the_keyword_in_the_policy_a_user_namespace_is_used() {
    with_helper(|cabane| {
        add_root(cabane, CONTAINER);
        let seen = cabane.run(&["-v", "run", "os", "--", "cat", "/etc/image"]);
        let why = "mounting in a user namespace: the policy does not allow images with a root file \
                   system of their own\n";
        assert_eq!(seen, finished(0, "os", why));
    });
}

#[test]
fn what_root_cannot_put_in_place_safely_goes_through_a_user_namespace() {
    with_helper(|cabane| {
        run_as_root("echo root-images yes >>/etc/cabane/mount.policy");
        add_root(cabane, CONTAINER);
        let arguments =
            ["-v", "run", "--bind", "/usr/share:/tmp/cabane-test-x", "os", "--", "id", "-u"];
        let seen = cabane.run(&arguments);
        let why = "mounting in a user namespace: /tmp/cabane-test-x cannot be mounted in the image as \
                   root: something else is to be seen there, or around it\n";
        assert_eq!(seen, finished(0, "61234\n", why));
    });
}
