// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Nothing is covered but the mount points that the administrator allows.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use cabane_mount::ImageFormat;
use cabane_testkit::Tree;

use crate::arena::{POLICY, in_arena, in_private_world, root};
use crate::start::assert_refused;

#[test]
fn an_image_is_mounted_where_the_policy_allows_it() {
    in_arena(|arena| {
        let (squashfs, erofs) =
            (arena.image("one", ImageFormat::Squashfs), arena.image("two", ImageFormat::Erofs));
        let (first, second) = (arena.first().display(), arena.second().display());
        let finished = arena
            .start()
            .image(&squashfs, arena.first())
            .image(&erofs, arena.second())
            .script(&format!("cat {first}/name {second}/name"))
            .finish();
        assert_eq!(finished.success().stdout, "onetwo");
    });
}

#[test]
fn a_mount_point_in_any_other_spelling_is_refused() {
    in_arena(|arena| {
        let image = arena.any_image();
        let allowed = arena.first().to_str().unwrap();
        let name = allowed.trim_start_matches('/');
        let spellings = [
            format!("{allowed}/"),
            format!("/{allowed}"),
            format!("/./{name}"),
            format!("{allowed}/."),
            format!("{allowed}/..{allowed}"),
            format!("{allowed}/../../etc"),
            format!("{allowed}2"),
            allowed[..allowed.len() - 1].to_owned(),
            allowed.to_uppercase(),
            format!(" {allowed}"),
            format!("{allowed}\n"),
            format!("/proc/self/root{allowed}"),
            name.to_owned(),
            String::new(),
            ".".to_owned(),
            format!("/{}", "x/".repeat(2500)),
        ];
        let start = |place: &Path| arena.start().image(&image, place).finish();
        start(arena.first()).success();
        for spelling in spellings {
            assert_refused(&start(Path::new(&spelling)), "not among the mount points");
        }
        let no_text = PathBuf::from(OsString::from_vec(b"/mnt/\xff\xfe".to_vec()));
        assert_refused(&start(&no_text), "not among the mount points");
    });
}

#[test]
fn what_the_system_lives_on_cannot_be_covered() {
    in_arena(|arena| {
        let image = arena.any_image();
        let places = [
            "/etc",
            "/usr",
            "/usr/bin",
            "/lib",
            "/root",
            "/proc",
            "/proc/self",
            "/dev",
            "/tmp",
            "/etc/passwd",
            "/home",
        ];
        for place in places {
            let finished = arena.start().image(&image, Path::new(place)).finish();
            assert_refused(&finished, "not among the mount points");
        }
    });
}

#[test]
fn existing_and_missing_places_get_the_same_answer() {
    in_arena(|arena| {
        let image = arena.any_image();
        let answer = |place: &str| {
            let finished = arena.start().image(&image, Path::new(place)).finish();
            finished.stderr.replace(place, "PLACE")
        };
        assert_eq!(answer("/root"), answer("/root/nothing-of-this-name"));
    });
}

#[test]
fn two_images_at_one_mount_point_are_refused() {
    in_arena(|arena| {
        let (one, two) = (arena.any_image(), arena.image("two", ImageFormat::Erofs));
        let start = arena.start().image(&one, arena.first());
        let finished = start.image(&two, arena.first()).finish();
        assert_refused(&finished, "two images are to be mounted there");
    });
}

#[test]
fn a_listed_mount_point_inside_of_an_image_works_in_any_order() {
    in_private_world(|arena| {
        let tree = Tree::new(arena.world.path("trees/outer")).file("inner/below", "covered");
        let outer = arena.pack(&tree, "outer", ImageFormat::Squashfs);
        let inner = arena.image("inner", ImageFormat::Erofs);
        let (a, b) = (Path::new("/mnt/a"), Path::new("/mnt/a/inner"));
        let script = "cat /mnt/a/inner/name";
        let orders = [
            arena.start().image(&outer, a).image(&inner, b),
            arena.start().image(&inner, b).image(&outer, a),
        ];
        for start in orders {
            assert_eq!(start.script(script).finish().success().stdout, "inner");
        }
    });
}

#[test]
fn a_place_inside_of_an_image_that_is_not_listed_is_refused() {
    in_arena(|arena| {
        let tree = Tree::new(arena.world.path("trees/outer")).file("other/file", "");
        let outer = arena.pack(&tree, "outer", ImageFormat::Squashfs);
        let inner = arena.any_image();
        let start = arena.start().image(&outer, arena.first());
        let finished = start.image(&inner, &arena.first().join("other")).finish();
        assert_refused(&finished, "not among the mount points");
    });
}

/// What is reported about a trap, and how it is laid in the tree of an image.
type Trap<'a> = (&'a str, &'a dyn Fn(&Path));

#[test]
fn what_an_image_has_at_a_mount_point_leads_nowhere() {
    in_private_world(|arena| {
        arena.set_policy(&format!("{POLICY}mount-point /mnt/b/one/two\n"));
        let inner = arena.any_image();
        let traps: [Trap<'_>; 5] = [
            ("a link to /etc", &|tree| link("/etc", &tree.join("inner"))),
            ("a link to itself", &|tree| {
                link("inner", &tree.join("inner"));
            }),
            ("a link to the root of the tree", &|tree| {
                link(".", &tree.join("inner"));
            }),
            ("a file", &|tree| fs::write(tree.join("inner"), "").unwrap()),
            ("nothing", &|tree| {
                fs::write(tree.join("other"), "").unwrap();
            }),
        ];
        for (number, (trap, make)) in traps.iter().enumerate() {
            let tree = Tree::new(arena.world.path(&format!("trees/{number}")));
            make(tree.root());
            let outer = arena.pack(&tree, &format!("outer{number}"), ImageFormat::Squashfs);
            let start = arena.start().image(&outer, Path::new("/mnt/a"));
            let start = start.image(&inner, Path::new("/mnt/a/inner"));
            let finished = start.script("echo started").finish();
            assert!(finished.code == 125, "{trap}: {finished:?}");
        }
        // In the middle of the path: /mnt/b/one leads to /, where `two` might be.
        let tree = Tree::new(arena.world.path("trees/middle"));
        link("/", &tree.root().join("one"));
        fs::create_dir_all(tree.root().join("two")).unwrap();
        let outer = arena.pack(&tree, "middle", ImageFormat::Squashfs);
        let start = arena.start().image(&outer, Path::new("/mnt/b"));
        let finished = start.image(&inner, Path::new("/mnt/b/one/two")).finish();
        assert_refused(&finished, "cannot use /mnt/b/one/two as a mount point");
    });
}

fn link(target: &str, place: &Path) {
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    symlink(target, place).unwrap();
}

#[test]
fn a_listed_path_that_others_than_root_can_change_is_refused() {
    in_private_world(|arena| {
        let image = arena.any_image();
        root(
            "mkdir -p /mnt/user/x /mnt/group/x /mnt/all/x /mnt/sticky/x /mnt/own /mnt/real/x
             chown 61234 /mnt/user; chmod 775 /mnt/group; chmod 757 /mnt/all
             chmod 1777 /mnt/sticky; chown 61234 /mnt/own
             ln -s real /mnt/link; ln -s x /mnt/real/link; touch /mnt/file",
        );
        let places = [
            ("/mnt/user/x", "does not belong to root"),
            ("/mnt/own", "does not belong to root"),
            ("/mnt/group/x", "can be written to by others"),
            ("/mnt/all/x", "can be written to by others"),
            ("/mnt/sticky/x", "can be written to by others"),
            ("/mnt/link/x", "a link leads to it"),
            ("/mnt/real/link", "a link leads to it"),
            ("/mnt/file", "is no directory"),
            ("/mnt/missing", "failed to open /mnt/missing"),
        ];
        for (place, reason) in places {
            arena.set_policy(&format!("image-owners any\nmount-point {place}\n"));
            let finished = arena.start().image(&image, Path::new(place)).finish();
            assert_refused(&finished, reason);
        }
    });
}

#[test]
fn a_directory_of_the_user_that_pretends_to_be_roots_is_refused() {
    in_private_world(|arena| {
        // A FUSE server says what it likes about owners.
        let tree = Tree::new(arena.world.path("trees/fuse")).file("x/file", "");
        let image = arena.pack(&tree, "fuse", ImageFormat::Squashfs);
        root(&format!(
            "echo user_allow_other >>/etc/fuse.conf; mkdir -p /mnt/mine; chown 61234 /mnt/mine
             setpriv --reuid=61234 --regid=61234 --clear-groups squashfuse \
                 -o allow_other {} /mnt/mine",
            image.display()
        ));
        arena.set_policy("image-owners any\nmount-point /mnt/mine/x\nidle-seconds 0\n");
        let finished = arena.start().image(&image, Path::new("/mnt/mine/x")).finish();
        root("fusermount3 -u /mnt/mine || umount -l /mnt/mine");
        assert_refused(&finished, "FUSE");
    });
}

#[test]
fn a_mount_point_that_is_exchanged_all_the_time_never_leads_elsewhere() {
    in_private_world(|arena| {
        // The administrator's mistake: the user owns the directory above.
        root("mkdir -p /mnt/user/x /mnt/user/y; chown 61234 /mnt/user; chmod 755 /mnt/user");
        arena.set_policy(&format!("{POLICY}mount-point /mnt/user/x\n"));
        let image = arena.any_image();
        let done = AtomicBool::new(false);
        let exchange = || {
            crate::start::become_user(61_234, &[]).unwrap();
            let _ = symlink("/etc", "/mnt/user/z");
            while !done.load(Ordering::Relaxed) {
                for name in ["y", "z"] {
                    let other = format!("/mnt/user/{name}");
                    let flags = rustix::fs::RenameFlags::EXCHANGE;
                    let cwd = rustix::fs::CWD;
                    let _ = rustix::fs::renameat_with(cwd, "/mnt/user/x", cwd, other, flags);
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(exchange);
            for _ in 0..200 {
                let start = arena.start().image(&image, Path::new("/mnt/user/x"));
                let finished = start.script("cat /etc/name").finish();
                assert!(finished.code == 125, "{finished:?}");
            }
            done.store(true, Ordering::Relaxed);
        });
    });
}
