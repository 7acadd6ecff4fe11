// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! An image is accepted only from a mount that is attached on the host, and where the policy
//! lists owners only from file systems that no user serves.

use crate::arena::{in_private_world, root};
use crate::hostile_files::{Attacker, GIVEN, SYSTEMS};

/// Each system, with a file that says it belongs to root, against both kinds of policy.
fn accepted(attacker: &Attacker<'_>, owners: &str) -> Vec<String> {
    attacker.trust(owners);
    let mut accepted = Vec::new();
    for system in SYSTEMS {
        let starts = [attacker.image(system, &[]), attacker.erofs(system, &[])];
        for (start, format) in starts.iter().zip(["squashfs", "erofs"]) {
            let ended = attacker.finish(start);
            if !ended.is_refused() {
                accepted.push(format!("{} {format}: {ended:?}", system.join(" ")));
            }
        }
    }
    accepted
}

#[test]
fn a_file_that_is_not_on_a_mount_of_the_host_is_refused_where_every_owner_is_trusted() {
    in_private_world(|arena| {
        let accepted = accepted(&Attacker::new(arena), "any");
        assert!(accepted.is_empty(), "{accepted:#?}");
    });
}

#[test]
fn a_file_that_is_not_on_a_mount_of_the_host_is_refused_where_only_root_is_trusted() {
    in_private_world(|arena| {
        let accepted = accepted(&Attacker::new(arena), "root");
        assert!(accepted.is_empty(), "{accepted:#?}");
    });
}

#[test]
fn a_file_of_the_host_that_was_handed_over_is_mounted() {
    in_private_world(|arena| {
        let attacker = Attacker::new(arena);
        let image = arena.any_image();
        root(&format!("cp {} /mnt/handed; chmod 644 /mnt/handed", image.display()));
        let start = attacker.image(["disk", "here", ""], &["image=/mnt/handed"]);
        for owners in ["any", "root"] {
            attacker.trust(owners);
            let finished = attacker.finish(&start.clone().script("cat /mnt/a/name")).finished;
            assert_eq!(finished.success().stdout, "any");
        }
    });
}

#[test]
fn a_file_in_a_namespace_that_root_has_made_for_a_job_is_mounted() {
    in_private_world(|arena| {
        let attacker = Attacker::new(arena);
        let image = arena.any_image();
        let user = arena.user();
        // As plugins of Slurm do that give a job a directory of its own.
        let script = format!(
            "mount -t tmpfs -o mode=755 tmpfs /mnt/c; cp {} /mnt/c/image; chmod 644 /mnt/c/image
             exec setpriv --reuid={user} --regid={user} --clear-groups \
                 perl -e 'BEGIN {{ $^F = 5000 }} use POSIX; open(my $file, \"<\", shift) or die;
                     dup2(fileno($file), {GIVEN}); exec @ARGV' /mnt/c/image \"$@\"",
            image.display()
        );
        let start = arena.start().user(0).through(&["unshare", "-m", "sh", "-ec", &script, "sh"]);
        let start = start.image_at(GIVEN, "given".as_ref(), arena.first());
        for owners in ["any", "root"] {
            attacker.trust(owners);
            let finished = start.clone().script("cat /mnt/a/name").finish();
            assert_eq!(finished.success().stdout, "any");
        }
    });
}
