// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Entering the mount namespace of a process, nesting, and not leaving a jail.

use std::path::Path;

use cabane_mount::ImageFormat;

use crate::arena::{in_arena, in_private_world, root};
use crate::limits::Up;
use crate::start::{Start, assert_refused};

#[test]
fn the_mount_namespace_of_an_own_process_is_entered() {
    in_arena(|arena| {
        let (one, two) = (arena.any_image(), arena.image("two", ImageFormat::Erofs));
        let up = Up::with(&arena.start().image(&one, arena.first()), "echo up");
        let start = arena.start().image(&two, arena.second());
        let start = start.entering(up.process());
        let (first, second) = (arena.first().display(), arena.second().display());
        let finished = start.script(&format!(
            "cat {first}/name {second}/name; grep -c NoNewPrivs:.1 /proc/self/status"
        ));
        let finished = finished.finish();
        let outer = format!("/proc/{}/root{second}/name", up.process());
        let is_outside = Path::new(&outer).exists();
        up.end();
        assert_eq!((finished.success().stdout.as_str(), is_outside), ("anytwo1\n", false));
    });
}

#[test]
fn a_process_that_is_not_there_is_not_entered() {
    in_arena(|arena| {
        let image = arena.any_image();
        for process in [0, 4_000_000, u32::MAX] {
            let start = arena.start().image(&image, arena.first());
            let finished = start.entering(process).finish();
            assert_refused(&finished, "there is no such process of yours");
        }
    });
}

#[test]
fn a_namespace_of_the_users_own_making_is_not_entered() {
    in_arena(|arena| {
        let image = arena.any_image();
        // There the user is root, and /etc is what he likes.
        let up = Up::direct(&arena.start().through(&["unshare", "-Urm"]), "echo up");
        let start = arena.start().image(&image, arena.first());
        let start = start.entering(up.process());
        let finished = start.finish();
        up.end();
        assert_refused(&finished, "belongs to another user namespace");
    });
}

#[test]
fn a_foreign_process_is_not_entered() {
    in_arena(|arena| {
        let image = arena.any_image();
        let start = arena.start().image(&image, arena.first());
        // An ordinary user finds none but those of the system.
        let up = arena.is_private().then(|| Up::with(&start.clone().user(61_235), "echo up"));
        let foreign = up.iter().map(Up::process);
        for process in foreign.chain([1]) {
            let finished = start.clone().entering(process).finish();
            // The same answer as for one that is not there.
            assert_refused(&finished, "there is no such process of yours");
        }
        up.into_iter().for_each(Up::end);
    });
}

#[test]
fn inside_of_an_environment_the_helper_says_that_it_has_no_rights() {
    in_arena(|arena| {
        let image = arena.any_image();
        let start = arena.start().image(&image, arena.first());
        let helper = arena.helper.display();
        let finished = start.script(&format!("exec {helper} 3 3</dev/null")).finish();
        assert_refused(&finished, "cabane-mount has no rights to mount");
    });
}

/// A jail that root has made: a mount of its own with the programs of the system.
const JAIL: &str = "mkdir -p /mnt/jail; mount --bind /mnt/jail /mnt/jail
    for name in usr bin lib lib64 etc proc dev tmp run; do
        if [ -L /$name ]; then cp -a /$name /mnt/jail/
        elif [ -d /$name ]; then mkdir /mnt/jail/$name; mount --rbind /$name /mnt/jail/$name; fi
    done
    mkdir -p /mnt/jail/mnt/a; cp -a /mnt/cabane-mount /mnt/jail/mnt/; touch /mnt/jail/jail";
const OPEN_JAIL: &str = "umount -R /mnt/jail";

fn in_jail(start: Start<'_>) -> Start<'_> {
    start.user(0).through(&["chroot", "--userspec=61234:61234", "--groups=61234", "/mnt/jail"])
}

#[test]
fn a_jail_holds_its_prisoner() {
    in_private_world(|arena| {
        let image = arena.any_image();
        root(JAIL);
        let start = in_jail(arena.start()).image(&image, arena.first());
        let start = start.script("ls -d /jail; cat /mnt/a/name");
        let inside = start.finish();
        // By the way of a process of his own, in the same jail: the root of its
        // namespace is outside.
        let other = Up::direct(&in_jail(arena.start()), "echo up");
        let escape = start.entering(other.process()).finish();
        other.end();
        root(OPEN_JAIL);
        assert_eq!(inside.success().stdout, "/jail\nany");
        assert!(escape.stdout.starts_with("/jail\n") || escape.code == 125, "{escape:?}");
    });
}
