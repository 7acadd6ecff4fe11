// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The same tree gives the same bytes, and nothing is lost on the way.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

use cabane_builder::ImageFormat;
use cabane_testkit::{Tree, World, is_root};

use crate::bench::{Outcome, Who, build, chmod, everybody, fake, recipe, request};

fn world() -> World {
    let world = World::new();
    fs::create_dir(world.path("tree")).unwrap();
    let source = world.path("tree");
    recipe(
        &world,
        &format!("name: t\nversion: 3\nengine: tree\ntree: {{source: {}}}\n", source.display()),
    );
    world
}

/// Fills a tree with files, links and directories, first to last or the other
/// way round.
fn fill(root: &Path, names: &mut dyn Iterator<Item = u32>) {
    for number in names {
        let directory = root.join(format!("d{}", number % 7));
        fs::create_dir_all(&directory).unwrap();
        let file = directory.join(format!("f{number}"));
        fs::write(&file, vec![b'x'; (number * 997 % 200_000) as usize]).unwrap();
        fs::hard_link(&file, root.join(format!("h{number}"))).unwrap();
        symlink("../h1", directory.join(format!("l{number}"))).unwrap();
    }
}

fn set_times(root: &Path, seconds: u64) {
    for entry in fs::read_dir(root).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            let file = fs::File::open(entry.path()).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
        }
    }
}

fn same_bytes(format: ImageFormat) {
    let first = world();
    fill(&first.path("tree"), &mut (0..60));
    set_times(&first.path("tree"), 1_000_000_000);
    let mut one = request(&first, "build");
    (one.format, one.jobs) = (format, 1);

    let second = world();
    fill(&second.path("tree"), &mut (0..60).rev());
    let mut other = request(&second, "another/build");
    (other.format, other.jobs) = (format, 4);
    // The recipe names its tree, and is part of the image.
    let config = first.path("recipe/config.yaml");
    let text = fs::read_to_string(config).unwrap();
    let tree = |world: &World| world.path("tree").to_string_lossy().into_owned();
    for world in [&first, &second] {
        recipe(world, &text.replace(&tree(&first), "../tree"));
    }
    let digests = [
        build(&one, *everybody().first().unwrap()).unwrap().digest,
        build(&other, Who::User).unwrap().digest,
    ];
    assert_eq!(digests[0], digests[1]);
}

#[test]
fn the_same_tree_gives_the_same_squashfs_for_every_user_who_packs_it() {
    same_bytes(ImageFormat::Squashfs);
}

#[test]
fn the_same_tree_gives_the_same_erofs_for_every_user_who_packs_it() {
    same_bytes(ImageFormat::Erofs);
}

#[test]
fn everybody_may_read_what_was_private_and_no_one_becomes_root() {
    let world = world();
    let tree =
        Tree::new(world.path("tree")).file("private", "").file("setuid", "").file("shared", "");
    for (name, mode) in [("private", 0o600), ("setuid", 0o4711), ("shared", 0o666)] {
        chmod(&tree.root().join(name), mode);
    }
    let built = build(&request(&world, "build"), Who::Me).unwrap();
    let listing = built.listing();
    let lines: Vec<_> = listing
        .lines()
        .filter(|line| !line.contains("meta"))
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        lines[1..],
        [
            "-rw-r--r-- 0/0 0 1980-01-01 00:00 /private",
            "-rwxr-xr-x 0/0 0 1980-01-01 00:00 /setuid",
            "-rw-r--r-- 0/0 0 1980-01-01 00:00 /shared",
        ]
    );
}

#[test]
fn erofs_keeps_modes_so_private_files_are_refused() {
    let world = world();
    let tree = Tree::new(world.path("tree")).file("private", "");
    chmod(&tree.root().join("private"), 0o600);
    let mut request = request(&world, "build");
    request.format = ImageFormat::Erofs;
    let error = build(&request, Who::Me).unwrap_err();
    assert_eq!(
        world.blank(&error),
        "error: 1 file in the image could not be read by everybody: [WORLD]/tree/private\n\
         hint: try `chmod -R a+rX [WORLD]/tree`, or build a squashfs image, in which everybody \
         may read"
    );
}

#[test]
fn what_cannot_be_read_is_an_error_and_not_left_out() {
    let world = world();
    let tree = Tree::new(world.path("tree")).file("open", "").file("closed", "x");
    chmod(&tree.root().join("closed"), 0);
    let error = build(&request(&world, "build"), Who::User).unwrap_err();
    assert_eq!(
        world.blank(&error),
        "error: 1 file or directory cannot be read: [WORLD]/tree/closed\n\
         hint: try `chmod -R u+rX [WORLD]/tree`"
    );
}

#[test]
fn only_the_first_ten_of_many_unreadable_directories_are_named() {
    let world = world();
    for number in 10..22 {
        let path = world.path(&format!("tree/{number}"));
        fs::create_dir(&path).unwrap();
        chmod(&path, 0);
    }
    let error = build(&request(&world, "build"), Who::User).unwrap_err();
    for number in 10..22 {
        chmod(&world.path(&format!("tree/{number}")), 0o755);
    }
    let named = world.blank(&error).matches("[WORLD]/tree/").count();
    assert_eq!((error.contains("12 files or directories"), named), (true, 10));
}

#[test]
fn sockets_are_refused_by_name() {
    let world = world();
    let _listener = UnixListener::bind(world.path("tree/socket")).unwrap();
    let error = build(&request(&world, "build"), Who::User).unwrap_err();
    assert_eq!(
        world.blank(&error),
        "error: 1 special file cannot be packed: [WORLD]/tree/socket (a socket)\n\
         hint: remove them from the tree"
    );
}

#[test]
fn a_file_whose_name_is_not_text_is_packed_in_both_formats() {
    let world = world();
    let name = OsStr::from_bytes(b"tree/na\xffme\n");
    fs::write(world.path("").join(name), "x").unwrap();
    let mut request = request(&world, "build");
    build(&request, Who::User).unwrap();
    request.format = ImageFormat::Erofs;
    // The count of files in the image is compared with the tree.
    assert!(build(&request, Who::User).is_ok());
}

#[test]
fn a_disk_that_fills_up_is_named_and_nothing_half_is_left() {
    let world = world();
    let noise: Vec<u8> = (0..3_000_000_u32)
        .map(|number| (number.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0])
        .collect();
    fs::write(world.path("tree/noise"), noise).unwrap();
    let request = request(&world, "build");
    let who = if is_root() { Who::Me } else { Who::User };
    let left = crate::bench::in_copy(who, || {
        let backend = cabane_mount::Backend::detect();
        cabane_mount::enter_private_namespace(backend).map_err(|error| error.to_string())?;
        fs::create_dir(&request.build_dir).map_err(|error| error.to_string())?;
        rustix::mount::mount(
            "small",
            &request.build_dir,
            "tmpfs",
            rustix::mount::MountFlags::empty(),
            Some(c"size=300k,mode=755"),
        )
        .map_err(|error| error.to_string())?;
        let error = build(&request, Who::Me).unwrap_err();
        let images = fs::read_dir(request.build_dir.join("work"))
            .map_err(|error| error.to_string())?
            .count();
        Ok((error.lines().next().unwrap_or_default().to_owned(), images))
    });
    let (error, images) = left.unwrap();
    assert_eq!(
        (world.blank(&error).as_str(), images),
        ("error: no space is left for [WORLD]/build", 0)
    );
}

/// Packs a small tree with a `mksquashfs` that does something besides.
fn pack_with(world: &World, script: &str) -> Result<Outcome, String> {
    world.file("tree/kept", "x");
    world.file("tree/lost", "y");
    let mut request = request(world, "build");
    let real = request.programs.mksquashfs.take().unwrap();
    let script = script.replace("REAL", &real.to_string_lossy());
    request.programs.mksquashfs = Some(fake(world, "mksquashfs", "version 4.5", &script));
    build(&request, Who::User)
}

#[test]
fn an_image_that_holds_fewer_files_than_the_tree_is_refused() {
    let world = world();
    let error = pack_with(&world, "REAL \"$@\" -e lost").unwrap_err();
    assert_eq!(
        error,
        "error: the image is not whole: it holds 8 files and directories, the tree 9\n\
         hint: build again while no process changes the tree"
    );
}

#[test]
fn a_complaint_of_the_packing_program_is_an_error_although_it_succeeds() {
    let world = world();
    let error =
        pack_with(&world, "REAL \"$@\"; echo Failed to read file x, creating empty file >&2")
            .unwrap_err();
    assert_eq!(
        world.blank(&error),
        "error: the image is not whole: Failed to read file x, creating empty file\n\
         hint: the whole log is in [WORLD]/build/logs/pack.log"
    );
}

/// Waits for a file for a while, and returns whether it is there.
fn wait_for(file: &Path) -> bool {
    for _ in 0..60_000 {
        if file.exists() {
            return true;
        }
        thread::sleep(Duration::from_millis(1));
    }
    false
}

#[test]
fn a_tree_that_changes_while_it_is_packed_is_refused() {
    let world = world();
    let work = world.path("build/work");
    let error = thread::scope(|scope| {
        scope.spawn(|| {
            // Without it the build has failed, and says why.
            if wait_for(&work.join("packed")) {
                world.file("tree/kept", "z");
                fs::write(work.join("changed"), "").unwrap();
            }
        });
        pack_with(
            &world,
            "REAL \"$@\"; touch /cabane/work/packed
             until [ -e /cabane/work/changed ]; do sleep 0.01; done",
        )
    })
    .unwrap_err();
    assert_eq!(
        world.blank(&error),
        "error: [WORLD]/tree changed while the tree was being packed\n\
         hint: build again while no process changes the tree"
    );
}

#[test]
fn squashfs_tools_that_cannot_reproduce_images_are_too_old() {
    let world = world();
    let mut request = request(&world, "build");
    request.programs.mksquashfs = Some(fake(&world, "mksquashfs", "version 4.3", ""));
    let error = build(&request, Who::User).unwrap_err();
    assert_eq!(
        world.blank(&error),
        "error: [WORLD]/tools/mksquashfs has version 4.3, and at least 4.4 is needed\n\
         hint: install it, for example with `sudo apt-get install squashfs-tools`"
    );
}
