// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Half of what the helper needs: a policy that is just being written, a full `/run`.

use std::os::unix::fs::chown;
use std::path::Path;

use cabane_mount::ImageFormat;

use crate::arena::{Arena, in_private_world, root};
use crate::left_over;

/// Cuts a policy off after each byte, and returns with which beginnings an image of the user's
/// was mounted at a place.
fn mounted_with_beginnings(arena: &Arena, policy: &str, place: &str) -> Vec<String> {
    let image = arena.any_image();
    chown(&image, Some(arena.user()), None).unwrap();
    let start = arena.start().image(&image, Path::new(place));
    let beginnings = (0..=policy.len()).map(|length| &policy[..length]);
    let mounted = beginnings.filter(|beginning| {
        arena.set_policy(beginning);
        let finished = start.finish();
        assert!(matches!(finished.code, 0 | 125), "{finished:?}");
        finished.code == 0
    });
    mounted.map(str::to_owned).collect()
}

#[test]
fn half_the_number_of_a_user_trusts_no_user() {
    in_private_world(|arena| {
        let policy = format!("mount-point /mnt/a\nimage-owners {}7\n", arena.user());
        let mounted = mounted_with_beginnings(arena, &policy, "/mnt/a");
        assert_eq!(mounted, Vec::<String>::new());
    });
}

#[test]
fn half_a_mount_point_is_none() {
    in_private_world(|arena| {
        let policy = "image-owners any\nmount-point /mnt/a/inner\n";
        let mounted = mounted_with_beginnings(arena, policy, "/mnt/a");
        assert_eq!(mounted, Vec::<String>::new());
    });
}

#[test]
fn a_policy_whose_last_line_has_no_end_is_void() {
    in_private_world(|arena| {
        let policy = "mount-point /mnt/a\nimage-owners any\nidle-seconds 600\n";
        let mounted = mounted_with_beginnings(arena, policy, "/mnt/a");
        let whole_lines = mounted.iter().all(|beginning| beginning.ends_with('\n'));
        assert!(whole_lines && !mounted.is_empty(), "{mounted:#?}");
    });
}

#[test]
fn in_a_full_run_there_is_an_error_or_none_and_nothing_half() {
    in_private_world(|arena| {
        let images = [arena.any_image(), arena.image("erofs", ImageFormat::Erofs)];
        let options = (1..8)
            .map(|inodes| format!("nr_inodes={inodes}"))
            .chain((1..5).map(|pages| format!("size={}k", 4 * pages)));
        for option in options {
            root(&format!("mount -t tmpfs -o mode=755,{option} tmpfs /run"));
            // What is left of the space goes, too.
            root(
                "if [ $(df --output=size /run | tail -1) -lt 100 ]; then
                      dd if=/dev/zero of=/run/full bs=4k 2>/dev/null || true; fi",
            );
            for image in &images {
                let start = arena.start().image(image, arena.first());
                let finished = start.script("cat /mnt/a/name").finish();
                let is_whole = finished.code == 0 && !finished.stdout.is_empty();
                let is_refused = finished.code == 125 && finished.stderr.starts_with("error: ");
                assert!(is_whole || is_refused, "{option}: {finished:?}");
            }
            left_over::assert_none(arena);
            root("umount -R /run");
        }
    });
}
