// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images that take the place of the whole root file system, as an attacker wants them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use cabane_mount::ImageFormat;
use cabane_testkit::{Finished, Tree, slowness};

use crate::arena::{Arena, POLICY, in_private_world, root};
use crate::start::{Start, assert_refused};

const ROOT: &str = "/";

/// Lets the policy allow root images.
fn allow_roots(arena: &Arena) {
    arena.set_policy(&format!("{POLICY}root-images yes\n"));
}

/// A root image that anyone may read, and what the attacker does to it before.
fn root_image(arena: &Arena, bend: impl FnOnce(Tree) -> Tree) -> PathBuf {
    let tree = Tree::new(arena.world.path("trees/os")).root_file_system("os", "");
    arena.pack(&bend(tree), "os", ImageFormat::Squashfs)
}

/// A root image with nothing odd in it.
pub(crate) fn plain(arena: &Arena) -> PathBuf {
    root_image(arena, |tree| tree)
}

/// A start in a root image, with a script.
fn start<'a>(arena: &'a Arena, image: &Path, script: &str) -> Start<'a> {
    arena.start().image(image, Path::new(ROOT)).script(script)
}

/// A directory of the attacker.
fn directory(arena: &Arena, name: &str) -> PathBuf {
    let directory = arena.world.directory(name);
    root(&format!("chown {} {}", arena.user(), directory.display()));
    directory
}

#[test]
fn it_follows_the_policy() {
    in_private_world(|arena| {
        let image = plain(arena);
        assert_refused(&start(arena, &image, "true").finish(), "the policy does not allow");
    });
}

#[test]
fn who_is_in_it_has_no_rights_and_can_gain_none() {
    in_private_world(|arena| {
        allow_roots(arena);
        let script = "id -u; id -g; grep -E '^(Cap(Inh|Prm|Eff|Amb)|NoNewPrivs)' /proc/self/status";
        let seen = start(arena, &plain(arena), script).finish().success().stdout;
        let zero = "0000000000000000";
        let expected = format!(
            "{0}\n{0}\nCapInh:\t{zero}\nCapPrm:\t{zero}\nCapEff:\t{zero}\nCapAmb:\t{zero}\n\
             NoNewPrivs:\t1\n",
            arena.user()
        );
        assert_eq!(seen, expected);
    });
}

#[test]
fn nothing_of_the_host_is_seen_but_what_was_requested() {
    in_private_world(|arena| {
        allow_roots(arena);
        let own = directory(arena, "own");
        fs::write(own.join("file"), "own").unwrap();
        let script = "cat /home/file; [ -e /run ] || echo no /run; [ -e /mnt ] || echo no /mnt; \
                      cut -d' ' -f5 /proc/self/mountinfo | grep -vE '^/(dev|proc|sys)'";
        let image = plain(arena);
        let seen = start(arena, &image, script).bind(&own, "/home", false).finish();
        assert_eq!(seen.success().stdout, "ownno /run\nno /mnt\n/\n/home\n");
    });
}

#[test]
fn what_is_for_reading_cannot_be_written_to() {
    in_private_world(|arena| {
        allow_roots(arena);
        let own = directory(arena, "own");
        let image = plain(arena);
        let seen = start(arena, &image, "touch /own/new").bind(&own, "/own", true).finish();
        assert!(seen.stderr.contains("Read-only file system"), "{seen:?}");
    });
}

#[test]
fn places_of_the_system_and_places_within_each_other_are_refused() {
    in_private_world(|arena| {
        allow_roots(arena);
        let own = directory(arena, "own");
        let image = plain(arena);
        for place in [
            "/",
            "/proc",
            "/proc/self",
            "/dev/shm",
            "/sys/kernel",
            "own",
            "/own/../etc",
            "/./own",
            "/own/below",
            "",
        ] {
            let start = start(arena, &image, "true").bind(&own, "/own", false);
            let seen = start.bind(&own, place, false).finish();
            assert_refused(&seen, "as root: ");
        }
    });
}

#[test]
fn a_link_of_the_image_into_a_directory_of_the_user_makes_nothing_there() {
    in_private_world(|arena| {
        allow_roots(arena);
        let own = directory(arena, "own");
        symlink("/etc", own.join("etc")).unwrap();
        let image = root_image(arena, |tree| {
            symlink("/own/etc/link", tree.root().join("link")).unwrap();
            symlink("/own", tree.root().join("through")).unwrap();
            tree
        });
        let start = start(arena, &image, "true")
            .bind(&own, "/own", false)
            .bind(&own, "/link", false)
            .bind(&own, "/through/made/by/root", false)
            .lines("/through/file", "line\n");
        // Whether it works or not is the same to everyone but the attacker.
        let _ = start.finish();
        let found = fs::read_dir(&own).unwrap().count();
        assert_eq!((found, Path::new("/etc/link").exists()), (1, false));
    });
}

#[test]
fn a_directory_that_is_exchanged_all_the_time_gets_nothing_of_roots() {
    in_private_world(|arena| {
        allow_roots(arena);
        let own = directory(arena, "own");
        let exchange = format!(
            "cd {} && while [ ! -e ../end ]; do mkdir -p a; rm -rf a; ln -s /etc a; rm -f a; done",
            own.display()
        );
        let image = root_image(arena, |tree| {
            symlink("/own/a", tree.root().join("data")).unwrap();
            tree
        });
        let script = format!(
            "({exchange}) & \"$@\"; status=$?; touch {}/../end; wait; exit $status",
            own.display()
        );
        for _ in 0..20 {
            let start = start(arena, &image, "true").bind(&own, "/own", false).bind(
                &own,
                "/data/made",
                false,
            );
            let _ = start.through_script(&script).finish();
            root(&format!("rm -f {}/../end", own.display()));
        }
        let made =
            format!("find {} /etc -user root -newer {} -name made", own.display(), image.display());
        assert_eq!(root_output(&made), "");
    });
}

fn root_output(script: &str) -> String {
    Finished::of(std::process::Command::new("sh").args(["-c", script])).stdout
}

#[test]
fn a_fifo_in_the_place_of_a_text_file_blocks_nothing() {
    in_private_world(|arena| {
        allow_roots(arena);
        let image = root_image(arena, |tree| {
            let passwd = tree.root().join("etc/passwd");
            fs::remove_file(&passwd).unwrap();
            root(&format!("mkfifo {}", passwd.display()));
            tree
        });
        let start = start(arena, &image, "cat /etc/passwd").lines("/etc/passwd", "me:x:1:1::/:\n");
        let seen = start.through(&["timeout", &(20 * slowness()).to_string()]).finish();
        assert_eq!(seen.stdout, "me:x:1:1::/:\n", "{seen:?}");
    });
}

#[test]
fn a_device_in_the_image_is_none() {
    in_private_world(|arena| {
        allow_roots(arena);
        let image = root_image(arena, |tree| {
            root(&format!("mknod -m 666 {}/usr/zero c 1 5", tree.root().display()));
            tree
        });
        let seen = start(arena, &image, "head -c 1 /usr/zero").finish();
        assert!(seen.stderr.contains("Permission denied"), "{seen:?}");
    });
}

#[test]
fn an_image_without_the_directories_of_the_kernel_gets_them() {
    in_private_world(|arena| {
        allow_roots(arena);
        let image = root_image(arena, |tree| {
            for name in ["dev", "proc", "sys", "tmp"] {
                fs::remove_dir(tree.root().join(name)).unwrap();
            }
            tree
        });
        let script = "[ -c /dev/null ] && [ -d /proc/1 ] && [ -d /sys/kernel ] && stat -c %a /";
        let seen = start(arena, &image, script).finish().success();
        assert_eq!(seen.stdout, "755\n");
    });
}

#[test]
fn links_where_the_kernels_directories_should_be_lead_nowhere() {
    in_private_world(|arena| {
        allow_roots(arena);
        let own = directory(arena, "own");
        let image = root_image(arena, |tree| {
            fs::remove_dir(tree.root().join("proc")).unwrap();
            symlink("/own", tree.root().join("proc")).unwrap();
            tree
        });
        let start =
            start(arena, &image, "[ -e /proc/self/status ] && echo real").bind(&own, "/own", false);
        let seen = start.finish();
        // The user may have what he likes there, but root has not written to his directory.
        assert_eq!(fs::read_dir(&own).unwrap().count(), 0, "{seen:?}");
    });
}

#[test]
fn something_else_than_a_root_image_is_one_that_starts_nothing() {
    in_private_world(|arena| {
        allow_roots(arena);
        let image = arena.any_image();
        let seen = arena.start().image(&image, Path::new(ROOT)).finish();
        assert_eq!((seen.code, seen.stdout.as_str()), (125, ""), "{seen:?}");
    });
}

#[test]
fn two_roots_are_refused() {
    in_private_world(|arena| {
        allow_roots(arena);
        let image = plain(arena);
        let seen = start(arena, &image, "true").image(&image, Path::new(ROOT)).finish();
        assert_eq!(seen.code, 125, "{seen:?}");
    });
}

#[test]
fn a_thousand_places_are_refused_before_anything_is_opened() {
    in_private_world(|arena| {
        allow_roots(arena);
        let own = directory(arena, "own");
        let image = plain(arena);
        // First the one that is there: its number must be below the user's limit.
        let start = start(arena, &image, "true").bind(&own, "/own", false);
        let start =
            (0..1000).fold(start, |start, number| start.bind_at(951, &format!("/own{number}")));
        assert_refused(&start.finish(), "does not understand");
    });
}
