// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the command gets: the user's rights and surroundings, no more and no less.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use cabane_mount::ImageFormat;
use cabane_testkit::{Finished, Tree, slowness};

use crate::arena::{Arena, in_arena, in_private_world, root};

/// What a process without the helper sees, and one with it.
fn compare(arena: &Arena, script: &str) -> (Finished, Finished) {
    let image = arena.any_image();
    let start = arena.start().image(&image, arena.first()).script(script);
    let alone = arena.start().script(script);
    (alone.finish().success(), start.finish().success())
}

#[test]
fn the_command_has_no_rights_and_can_gain_none() {
    in_arena(|arena| {
        let image = arena.any_image();
        let script = "grep -E '^(Cap...|NoNewPrivs):' /proc/self/status; \
                      grep -h NoNewPrivs /proc/self/status & wait";
        let start = arena.start().image(&image, arena.first());
        let expected = "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\n\
                        CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\n\
                        CapAmb:\t0000000000000000\nNoNewPrivs:\t1\nNoNewPrivs:\t1\n";
        let finished = start.script(script).finish().success();
        assert_eq!(finished.stdout, expected);
    });
}

#[test]
fn the_command_is_the_user_in_all_groups() {
    in_arena(|arena| {
        let image = arena.any_image();
        let start = arena.start().groups(&[4, 20, 61_300]);
        let start = start.script("grep -E '^(Uid|Gid|Groups):' /proc/self/status");
        let directly = start.finish_directly().success().stdout;
        let helped = start.image(&image, arena.first()).finish().success().stdout;
        assert!(!arena.is_private() || helped.ends_with("Groups:\t4 20 61300 \n"));
        assert_eq!(helped, directly);
    });
}

#[test]
fn capabilities_that_were_inherited_are_gone() {
    in_private_world(|arena| {
        let image = arena.any_image();
        let start = arena.start().user(0).image(&image, arena.first());
        // Root, who prepares an odd process for the user.
        let start = start.through(&[
            "setpriv",
            "--reuid=61234",
            "--regid=61234",
            "--clear-groups",
            "--inh-caps=+sys_admin,+setuid",
            "--ambient-caps=+sys_admin,+setuid",
        ]);
        let finished =
            start.script("grep -E '^Cap' /proc/self/status | sort -u -k2; id -u").finish();
        assert_eq!(finished.success().stdout.lines().skip(1).collect::<Vec<_>>(), ["61234"]);
    });
}

#[test]
fn limits_mask_and_signals_are_as_before() {
    in_arena(|arena| {
        let image = arena.any_image();
        let script = "umask; cat /proc/self/limits; grep -E '^Sig(Blk|Ign)' /proc/self/status; \
                      cat /proc/self/oom_score_adj /proc/self/coredump_filter; nice; \
                      taskset -p $$ | sed 's/.*: //'";
        let wrapper = "umask 027; trap '' HUP USR1 PIPE; ulimit -S -n 800; ulimit -S -c 0; \
                       ulimit -S -v 4000000; ulimit -S -d 3000000; ulimit -S -s 4096; ulimit -S -t 50; \
                       ulimit -S -f 1000; exec nice -n 3 \"$@\"";
        let start = arena.start().through_script(wrapper).script(script);
        let directly = start.finish_directly();
        let helped = start.image(&image, arena.first()).finish();
        let lines = |finished: Finished| {
            let text = finished.success().stdout;
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let (directly, helped) = (lines(directly), lines(helped));
        let different = directly.iter().zip(&helped).filter(|(a, b)| a != b);
        let different: Vec<_> = different.collect();
        // The standard library of Rust ends programs that write to closed pipes.
        let only_pipe = different.iter().all(|(line, _)| line.starts_with("SigIgn"));
        assert!(directly.len() == helped.len() && only_pipe, "{different:#?}");
    });
}

#[test]
fn signals_that_were_held_back_are_so_again() {
    in_arena(|arena| {
        let image = arena.any_image();
        let start = arena.start().image(&image, arena.first());
        let start = start.before(|| cabane_sys::privilege::hold_signals().map(drop));
        // Not through a shell, which clears the mask of its children.
        let start = start.command(&["grep", "SigBlk", "/proc/self/status"]);
        let finished = start.finish();
        assert_eq!(finished.success().stdout, "SigBlk:\tfffffffffffbfeff\n");
    });
}

#[test]
fn the_working_directory_is_the_one_that_was_requested() {
    in_arena(|arena| {
        let image = arena.any_image();
        let mut start = arena.start().image(&image, arena.first());
        let seen = ["work", "home", "missing"].map(|name| {
            start.request.working_directory = Some(arena.world.path(name));
            arena.world.blank(&start.clone().script("pwd -P").finish().success().stdout)
        });
        assert_eq!(seen, ["[WORLD]/work\n", "[WORLD]/home\n", "/\n"]);
    });
}

#[test]
fn a_directory_that_the_user_may_not_enter_is_not_entered() {
    in_arena(|arena| {
        let image = arena.any_image();
        let mut start = arena.start().image(&image, arena.first());
        // Root could enter it.
        let closed = arena.world.directory("closed");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        start.request.working_directory = Some(closed);
        assert_eq!(start.script("pwd -P").finish().success().stdout, "/\n");
    });
}

#[test]
fn the_variables_are_exactly_those_that_were_requested() {
    in_arena(|arena| {
        let image = arena.any_image();
        let mut variables = vec![
            "GLIBC_TUNABLES=glibc.malloc.check=1",
            "LD_LIBRARY_PATH=/some/where",
            "LD_PRELOAD=",
            "MALLOC_CHECK_=1",
            "PATH=/usr/bin:/bin",
            "TMPDIR=/x",
        ];
        let start = arena.start().image(&image, arena.first());
        let start = start.variables(&variables).command(&["cat", "/proc/self/environ"]);
        let finished = start.finish().success();
        let mut seen: Vec<&str> = finished.stdout.trim_end_matches('\0').split('\0').collect();
        seen.sort_unstable();
        variables.sort_unstable();
        assert_eq!(seen, variables);
    });
}

#[test]
fn a_mounted_image_cannot_be_changed_and_gives_no_rights() {
    in_arena(|arena| {
        let tree = Tree::new(arena.world.path("trees/trap")).file("file", "");
        let program = tree.root().join("gain");
        fs::copy("/usr/bin/id", &program).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o6755)).unwrap();
        // Only root can make images with devices and capabilities in them.
        let make = if arena.is_private() {
            "mknod -m 666 zero c 1 5; mknod -m 666 loop0 b 7 0
             setcap cap_setuid+ep cap 2>/dev/null || echo 'note: no setcap here'"
        } else {
            ""
        };
        root(&format!("cd {}; cp /usr/bin/id cap; {make}", tree.root().display()));
        let user = arena.user();
        let place = arena.first().display();
        for format in [ImageFormat::Squashfs, ImageFormat::Erofs] {
            let image = arena.pack(&tree, "trap", format);
            let script = format!(
                "cd {place}; ./gain -u; ./cap -u; head -c 1 zero | wc -c; head -c 1 loop0 | wc -c
                 echo x >file && echo written; touch new && echo made; rm file && echo removed
                 grep ' {place} ' /proc/self/mountinfo | cut -d' ' -f6"
            );
            let start = arena.start().image(&image, arena.first());
            let seen = start.script(&script).finish().stdout;
            let flags = "ro,nosuid,nodev,relatime";
            assert_eq!(seen, format!("{user}\n{user}\n0\n0\n{flags}\n"));
        }
    });
}

#[test]
fn the_command_cannot_change_what_is_mounted() {
    in_arena(|arena| {
        let image = arena.any_image();
        let script = "for try in 'umount /mnt/a' 'mount -o remount,bind,suid /mnt/a' \
                 'mount -o remount,rw /mnt/a' 'mount --move /mnt/a /mnt/b' \
                 'mount --bind /mnt/b /mnt/a' 'mount --make-shared /mnt/a' \
                 'unshare -Urm umount /mnt/a' 'unshare -Urm mount -o remount,bind,rw,suid,dev /mnt/a' \
                 'unshare -Urm mount -o remount,bind,ro,suid /mnt/a' 'nsenter -m -t 1 true' 'chroot / true'; do
                 $try 2>/dev/null && echo \"$try\"; done; cat /mnt/a/name"
            .replace("/mnt/a", arena.first().to_str().unwrap())
            .replace("/mnt/b", arena.second().to_str().unwrap());
        let start = arena.start().image(&image, arena.first());
        assert_eq!(start.script(&script).finish().stdout, "any");
    });
}

#[test]
fn nothing_is_seen_outside_of_the_environment() {
    in_arena(|arena| {
        let (one, two) = (arena.any_image(), arena.image("two", ImageFormat::Erofs));
        if arena.is_private() {
            root("mount --bind /mnt/a /mnt/a; mount --make-rshared /");
        }
        let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap();
        let outside = || {
            let all = mounts();
            let visible = |line: &&str| line.contains("squashfs") || line.contains("erofs");
            all.lines().filter(visible).map(str::to_owned).collect::<Vec<_>>()
        };
        let before = outside();
        let start = arena.start().image(&one, arena.first()).image(&two, arena.second());
        let mut child = start
            .script(&format!("cat {}/name; exec sleep {}", arena.first().display(), 5 * slowness()))
            .spawn();
        let mut seen = [0; 3];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut seen).unwrap();
        let during = outside();
        child.kill().unwrap();
        child.wait().unwrap();
        if arena.is_private() {
            root("umount /mnt/a");
        }
        assert_eq!((&seen, during), (b"any", before));
    });
}

#[test]
fn without_an_image_the_command_is_without_rights_all_the_same() {
    in_arena(|arena| {
        let script = "grep NoNewPrivs /proc/self/status; id -u";
        let (alone, helped) = compare(arena, script);
        assert!(alone.stdout.starts_with("NoNewPrivs:\t1\n") && alone == helped);
    });
}
