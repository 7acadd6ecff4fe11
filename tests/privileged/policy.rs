// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The policy is root's alone, and says whose images the kernel may read.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use cabane_mount::{ImageFormat, Policy};
use cabane_testkit::Tree;

use crate::arena::{Arena, POLICY, in_arena, in_private_world, root};
use crate::start::assert_refused;

#[test]
fn a_policy_that_others_can_change_or_that_is_void_is_no_policy() {
    in_private_world(|arena| {
        let image = arena.any_image();
        let cases = [
            ("chown 61234 mount.policy", "does not belong to root"),
            ("chmod 664 mount.policy", "can be written to by others"),
            ("chmod 646 mount.policy", "can be written to by others"),
            ("chmod 600 mount.policy", "failed to open"),
            ("mv mount.policy real; ln -s real mount.policy", "failed to open"),
            ("rm mount.policy", "failed to open"),
            ("rm mount.policy; mkdir mount.policy", "is no plain file"),
            ("rm mount.policy; mkfifo mount.policy", "is no plain file"),
            ("rm mount.policy; ln -s /dev/zero mount.policy", "failed to open"),
            ("truncate -s 1G mount.policy", "is too large"),
            (": >mount.policy", "not among the mount points"),
            ("echo mount-point ../x >>mount.policy", "a mistake in"),
            ("echo images-per-user -1 >>mount.policy", "a mistake in"),
            ("printf '\\377\\376' >>mount.policy", "failed to read"),
            ("chown 61234 .", "does not belong to root"),
            ("chmod 777 .", "can be written to by others"),
            ("chmod 1777 /etc", "can be written to by others"),
        ];
        let start = arena.start().image(&image, arena.first());
        start.finish().success();
        for (script, reason) in cases {
            root(&format!("cd /etc/cabane; {script}"));
            let finished = start.finish();
            let is_refused = finished.code == 125 && finished.stderr.contains(reason);
            assert!(is_refused, "{script}: {finished:?}");
            root("rm -rf /etc/cabane; mkdir -m 755 /etc/cabane; chmod 755 /etc");
            arena.set_policy(POLICY);
        }
        start.finish().success();
    });
}

#[test]
fn a_mistake_in_the_policy_is_reported_without_its_text() {
    in_private_world(|arena| {
        arena.set_policy("mount-point /mnt/a\nsecret word\n");
        let finished = arena.start().finish();
        assert_refused(&finished, "line 2: unknown keyword");
        assert!(!finished.stderr.contains("secret"));
    });
}

#[test]
fn only_images_of_trusted_owners_are_read_by_the_kernel() {
    in_private_world(|arena| {
        let image = arena.any_image();
        let with = |owner: u32, mode: u32| {
            chown(&image, Some(owner), None).unwrap();
            fs::set_permissions(&image, fs::Permissions::from_mode(mode)).unwrap();
            let finished = arena.start().image(&image, arena.first()).finish();
            finished.code == 0
        };
        arena.set_policy("mount-point /mnt/a\nimage-owners root 4711\n");
        let answers = [
            with(0, 0o644),
            with(4711, 0o444),
            with(61_234, 0o644),
            with(4712, 0o644),
            with(0, 0o664),
            with(4711, 0o646),
        ];
        assert_eq!(answers, [true, true, false, false, false, false]);
        // Without a word about owners only root's are trusted.
        arena.set_policy("mount-point /mnt/a\n");
        assert_eq!([with(0, 0o644), with(4711, 0o644)], [true, false]);
        chown(&image, Some(61_234), None).unwrap();
        let finished = arena.start().image(&image, arena.first()).finish();
        assert_refused(&finished, "the policy does not trust its owner");
    });
}

#[test]
fn an_image_that_others_may_write_to_by_a_list_of_rights_is_refused() {
    in_private_world(|arena| {
        let image = arena.any_image();
        arena.set_policy("mount-point /mnt/a\nimage-owners root\n");
        let path = image.display();
        root(&format!(
            "chmod 644 {path}; ! command -v setfacl || setfacl -m u:61234:rw {path} || true"
        ));
        let mode = fs::metadata(&image).unwrap().permissions().mode();
        let finished = arena.start().image(&image, arena.first()).finish();
        // Where there are no such lists the image is as it was.
        let has_list = mode & 0o020 != 0;
        assert_eq!(finished.code == 125, has_list, "{finished:?}");
    });
}

#[test]
fn an_image_on_a_fuse_file_system_is_refused_whatever_its_server_says() {
    in_private_world(|arena| {
        let inner = arena.any_image();
        let tree = Tree::new(arena.world.path("trees/outer"));
        fs::copy(&inner, tree.root().join("inner.squashfs")).unwrap();
        let outer = arena.pack(&tree, "outer", ImageFormat::Squashfs);
        let place = arena.world.directory("fuse");
        // Root may not even look at what is served to one user.
        for (option, reason) in [("ro", ""), ("allow_other", "is on a FUSE file system")] {
            serve(&outer, &place, option);
            arena.set_policy("mount-point /mnt/a\nimage-owners any\n");
            let image = place.join("inner.squashfs");
            let finished = arena.start().image(&image, arena.first()).finish();
            arena.set_policy("mount-point /mnt/a\nimage-owners root\n");
            let trusting = arena.start().image(&image, arena.first()).finish();
            root(&format!("umount {}", place.display()));
            assert_refused(&finished, reason);
            assert_refused(&trusting, "");
        }
    });
}

/// Serves an image as the ordinary user.
fn serve(image: &Path, place: &Path, option: &str) {
    root(&format!(
        "echo user_allow_other >/etc/fuse.conf; chown 61234 {place}
         setpriv --reuid=61234 --regid=61234 --clear-groups squashfuse -o {option} {image} {place}",
        image = image.display(),
        place = place.display(),
    ));
}

#[test]
fn a_policy_that_the_user_brings_is_not_read() {
    in_arena(|arena| {
        let image = arena.any_image();
        let own = arena.world.file("own.policy", "mount-point /etc\nimage-owners any\n");
        // In namespaces of the user, where the helper has no rights.
        let script = format!(
            "exec unshare -rm sh -c 'mount --bind {} {}; exec \"$@\"' sh \"$@\"",
            own.display(),
            Policy::PATH
        );
        let start = arena.start().image(&image, Path::new("/etc"));
        assert_refused(&start.through_script(&script).finish(), "cannot be trusted");
    });
}

#[test]
fn a_listed_mount_point_that_is_covered_already_is_used_as_it_is() {
    in_private_world(|arena: &Arena| {
        let image = arena.any_image();
        root("mount -t tmpfs -o mode=755 tmpfs /mnt/a");
        let start = arena.start().image(&image, arena.first());
        let finished = start.script("cat /mnt/a/name").finish();
        root("umount /mnt/a");
        assert_eq!(finished.success().stdout, "any");
    });
}
