// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images that root has unpacked: named by a digest, taken only where root alone can have put them, and
//! never removed under a start.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

use cabane_mount::{
    ImageFormat, JobImage, JobMounts, JobOwner, JobRoot, Request, RequestedUnpacked, Way,
};

use crate::arena::{Arena, POLICY, in_private_world, root};
use crate::start::{Start, assert_refused};

/// What the policy says, beside the usual.
const STORE: &str = "unpacked-images /mnt/unpacked\n";

fn digest() -> String {
    "0123456789abcdef".repeat(4)
}

/// Makes a store with one tree, whose file `name` says `unpacked`.
pub(crate) fn furnish(arena: &Arena) {
    arena.set_policy(&format!("{POLICY}{STORE}"));
    root(&format!(
        "cd /mnt; umask 022; mkdir -p unpacked/trees/{0}/tree/inner
         chmod 0711 unpacked/trees/{0}
         printf unpacked >unpacked/trees/{0}/tree/name",
        digest()
    ));
}

/// A start with that tree.
pub(crate) fn requested(arena: &Arena) -> Start<'_> {
    start(arena, &digest(), "/mnt/a")
}

fn start<'a>(arena: &'a Arena, digest: &str, mount_point: &str) -> Start<'a> {
    let mut start = arena.start();
    let digest = digest.parse().unwrap();
    start.request.unpacked.push(RequestedUnpacked { digest, mount_point: mount_point.into() });
    start
}

#[test]
fn a_tree_is_mounted_read_only_without_set_uid_programs_and_devices() {
    in_private_world(|arena| {
        furnish(arena);
        root(&format!(
            "cd /mnt/unpacked/trees/{}/tree; chmod 0777 inner
             cp /usr/bin/id id; chmod 4755 id; mknod -m 666 zero c 1 5",
            digest()
        ));
        let script = "cd /mnt/a; cat name; echo; ./id -u
                      touch inner/new 2>&1; head -c 1 zero 2>&1 >/dev/null
                      grep ' /mnt/a ' /proc/self/mountinfo | cut -d' ' -f6 | cut -d, -f1-3";
        let seen = start(arena, &digest(), "/mnt/a").script(script).finish().success();
        let (said, flags) = seen.stdout.trim_end().rsplit_once('\n').unwrap();
        assert!(said.starts_with("unpacked\n61234\n"), "{said}");
        assert!(
            said.contains("Read-only file system") && said.contains("Permission denied"),
            "{said}"
        );
        assert_eq!(flags, "ro,nosuid,nodev");
    });
}

#[test]
fn trees_and_images_are_mounted_beside_and_in_each_other() {
    in_private_world(|arena| {
        furnish(arena);
        let image = arena.image("image", ImageFormat::Squashfs);
        let both = start(arena, &digest(), "/mnt/a").image(&image, Path::new("/mnt/a/inner"));
        let script = "cat /mnt/a/name /mnt/a/inner/name";
        assert_eq!(both.script(script).finish().success().stdout, "unpackedimage");
        let twice = start(arena, &digest(), "/mnt/a").image(&image, Path::new("/mnt/a"));
        assert_refused(&twice.finish(), "two images are to be mounted there");
    });
}

#[test]
fn only_what_root_alone_can_have_put_there_is_mounted() {
    in_private_world(|arena| {
        let tree = format!("trees/{}/tree", digest());
        let own = format!("trees/{}", digest());
        let cases = [
            (format!("chown 61234 {tree}"), "does not belong to root"),
            (format!("chown 61234 {own}"), "does not belong to root"),
            ("chown 61234 trees".to_owned(), "does not belong to root"),
            ("chown 61234 .".to_owned(), "does not belong to root"),
            (format!("chmod 0777 {tree}"), "can be written to by others"),
            (format!("chmod 1777 {own}"), "can be written to by others"),
            ("chmod 0775 trees".to_owned(), "can be written to by others"),
            (format!("mv {tree} real; ln -s ../../real {tree}"), "is no directory, or a link"),
            (format!("mv {own} real; ln -s ../real {own}"), "is no directory, or a link"),
            ("mv trees real; ln -s real trees".to_owned(), "is no directory, or a link"),
            (format!("rm -r {tree}; : >{tree}"), "is no directory, or a link"),
            (format!("rm -r {tree}"), "is not unpacked in"),
            (format!("rm -r {own}"), "is not unpacked in"),
            ("rm -r trees".to_owned(), "is not unpacked in"),
        ];
        furnish(arena);
        start(arena, &digest(), "/mnt/a").finish().success();
        for (script, reason) in cases {
            root(&format!("cd /mnt/unpacked; {script}"));
            let finished = start(arena, &digest(), "/mnt/a").finish();
            let is_refused = finished.code == 125 && finished.stderr.contains(reason);
            assert!(is_refused, "{script}: {finished:?}");
            root("rm -rf /mnt/unpacked");
            furnish(arena);
        }
    });
}

#[test]
fn a_directory_of_a_user_is_no_store_whatever_the_policy_says() {
    in_private_world(|arena| {
        furnish(arena);
        root("mkdir /mnt/home; chown 61234 /mnt/home; cp -a /mnt/unpacked /mnt/home/unpacked");
        arena.set_policy(&format!("{POLICY}unpacked-images /mnt/home/unpacked\n"));
        let finished = start(arena, &digest(), "/mnt/a").finish();
        assert_refused(&finished, "does not belong to root");
    });
}

#[test]
fn a_digest_is_no_path_and_a_place_must_be_in_the_policy() {
    in_private_world(|arena| {
        furnish(arena);
        let good = start(arena, &digest(), "/mnt/a");
        let bytes = Request::Start(good.request.clone()).encode().unwrap();
        for wrong in
            ["../../../../../../../../../../../../../../../../../../../../../etc/", "/etc", ""]
        {
            let text = String::from_utf8(bytes.clone()).unwrap();
            let bytes = text.replace(&digest(), wrong).into_bytes();
            let finished = arena.start().bytes(bytes).finish();
            assert_refused(&finished, "should be a digest, 64 hexadecimal digits");
        }
        let other = "fedcba9876543210".repeat(4);
        assert_refused(
            &start(arena, &other, "/mnt/a").finish(),
            "is not unpacked in /mnt/unpacked",
        );
        for place in ["/mnt", "/etc", "/mnt/a/", "/mnt/b/../a"] {
            let finished = start(arena, &digest(), place).finish();
            assert_refused(&finished, "is not among the mount points");
        }
        arena.set_policy(&format!("{POLICY}{STORE}root-images yes\n"));
        let finished = start(arena, &digest(), "/").finish();
        assert_refused(&finished, "an unpacked image is no root file system");
    });
}

#[test]
fn a_tree_that_is_being_removed_is_not_mounted_and_a_user_cannot_hold_it() {
    in_private_world(|arena| {
        furnish(arena);
        let named = format!("/mnt/unpacked/trees/{}", digest());
        let lock = File::open(&named).unwrap();
        lock.lock().unwrap();
        assert_refused(&start(arena, &digest(), "/mnt/a").finish(), "is not unpacked in");
        lock.unlock().unwrap();
        let script = format!("flock --exclusive {named} true; echo $?; cat /mnt/a/name");
        let seen = start(arena, &digest(), "/mnt/a").script(&script).finish();
        let (said, rest) = seen.stdout.split_once('\n').unwrap();
        assert!(said != "0" && rest == "unpacked", "{seen:?}");
        // The command has no descriptor by which it would hold the lock.
        let mut child = start(arena, &digest(), "/mnt/a").command(&["sleep", "60"]).spawn();
        let script = format!(
            "until grep -q ' /mnt/a ' /proc/{}/mountinfo; do sleep 0.01; done; \
                              until [ \"$(cat /proc/{}/comm)\" = sleep ]; do sleep 0.01; done",
            child.id(),
            child.id()
        );
        root(&script);
        lock.try_lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    });
}

#[test]
fn a_step_of_a_job_binds_the_tree_and_holds_it_until_it_ends() {
    in_private_world(|arena| {
        furnish(arena);
        let image = arena.image("image", ImageFormat::Squashfs);
        let job_image = |digest: Option<String>, place: &Path| JobImage {
            digest: digest.map(|digest| digest.parse().unwrap()),
            ..JobImage::new(ImageFormat::Squashfs, &image, place)
        };
        let other = "fedcba9876543210".repeat(4);
        let images =
            [job_image(Some(digest()), arena.first()), job_image(Some(other), arena.second())];
        let owner = JobOwner { user: arena.user(), group: arena.user(), groups: Vec::new() };
        let mounts = JobMounts::make(&images, &JobRoot::default(), &owner, None).unwrap();
        let ways: Vec<_> = mounts.ways().collect();
        assert_eq!(ways, [Way::Unpacked(digest().parse().unwrap()), Way::Kernel]);
        let lock = File::open(format!("/mnt/unpacked/trees/{}", digest())).unwrap();
        assert!(lock.try_lock().is_err());
        let namespace = mounts.namespace().as_raw_fd();
        root(&format!(
            "[ \"$(nsenter --mount=/proc/{}/fd/{namespace} cat {}/name {}/name)\" = unpackedimage ]",
            std::process::id(),
            arena.first().display(),
            arena.second().display()
        ));
        mounts.leave().unwrap();
        lock.try_lock().unwrap();
    });
}
