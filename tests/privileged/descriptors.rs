// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is mounted is a file that the user could open for reading, and that file.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use cabane_mount::ImageFormat;
use rustix::fs::{CWD, Mode, OFlags};

use crate::arena::{in_arena, in_private_world, root};
use crate::start::{REQUEST, assert_refused, become_user, nowhere};

#[test]
fn a_foreign_file_cannot_be_opened_and_a_place_is_no_image() {
    in_arena(|arena| {
        let foreign = if arena.is_private() {
            let image = arena.any_image();
            fs::set_permissions(&image, fs::Permissions::from_mode(0o600)).unwrap();
            image
        } else {
            "/etc/shadow".into()
        };
        let start = arena.start().image(&foreign, arena.first());
        assert!(start.process().spawn().is_err());
        let start = arena.start();
        let finished = start.image_opened(&foreign, OFlags::PATH, arena.first());
        assert_refused(&finished.finish(), "not opened for reading");
    });
}

#[test]
fn an_image_that_the_user_may_only_write_to_is_refused() {
    in_arena(|arena| {
        let image = arena.any_image();
        fs::set_permissions(&image, fs::Permissions::from_mode(0o622)).unwrap();
        let open = |flags| arena.start().image_opened(&image, flags, arena.first());
        assert_refused(&open(OFlags::WRONLY).finish(), "not opened for reading");
        // Neither for reading nor for writing: the fourth access mode of Linux.
        fs::set_permissions(&image, fs::Permissions::from_mode(0o666)).unwrap();
        assert_refused(&open(OFlags::RWMODE).finish(), "not opened for reading");
        open(OFlags::RDWR).finish().success();
    });
}

#[test]
fn what_is_no_plain_file_is_refused() {
    in_arena(|arena| {
        let place = |flags| move |path: &str| rustix::fs::open(path, flags, Mode::empty()).unwrap();
        let read = place(OFlags::RDONLY | OFlags::NONBLOCK);
        let fifo = arena.world.path("fifo");
        rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
        let (pipe, _writer) = rustix::pipe::pipe().unwrap();
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        let epoll = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::empty());
        let plain = "it is no plain file";
        let files =
            [read("/etc"), read("/dev/null"), read("/dev/zero"), read(fifo.to_str().unwrap())];
        for file in files {
            let finished = arena.start().image_given(file, arena.first()).finish();
            assert_refused(&finished, plain);
        }
        // These are on no mount at all.
        let files: [OwnedFd; 4] = [
            pipe,
            socket.into(),
            epoll.unwrap(),
            rustix::event::eventfd(0, rustix::event::EventfdFlags::empty()).unwrap(),
        ];
        for file in files {
            let finished = arena.start().image_given(file, arena.first()).finish();
            assert_refused(&finished, "it is not on a mount of this host");
        }
    });
}

#[test]
fn files_that_the_kernel_makes_up_are_no_images() {
    in_arena(|arena| {
        for path in ["/proc/version", "/proc/self/status", "/proc/filesystems", "/sys/kernel/notes"]
        {
            for format in [ImageFormat::Squashfs, ImageFormat::Erofs] {
                let start = arena.start().image(Path::new(path), arena.first());
                let finished = start.declared(format).finish();
                assert_eq!(finished.code, 125, "{path}: {finished:?}");
            }
        }
        let memory = rustix::fs::memfd_create("image", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let finished = arena.start().image_given(memory, arena.first()).finish();
        assert_eq!(finished.code, 125, "{finished:?}");
    });
}

#[test]
fn a_number_that_is_no_inherited_descriptor_is_refused() {
    in_arena(|arena| {
        for number in [-1, i32::MIN, 0, 1, 2, 500, 1_000_000, i32::MAX] {
            let start = arena.start().image_at(number, &nowhere(), arena.first());
            assert_refused(&start.finish(), "does not understand");
        }
        let arguments = [
            "-1",
            "0",
            "2",
            "",
            " 950",
            "950 ",
            "0x3b6",
            "2147483648",
            "4294968246",
            "18446744073709552566",
            "seven",
            "٩٥٠",
        ];
        let start = arena.start();
        for word in arguments {
            let finished = start.finish_as(&arena.helper, word);
            assert!(finished.code == 125 && finished.stdout.is_empty(), "{word}: {finished:?}");
        }
    });
}

#[test]
fn the_request_itself_is_no_image() {
    in_arena(|arena| {
        let start = arena.start().image_at(REQUEST, &nowhere(), arena.first());
        let finished = start.finish();
        assert_eq!(finished.code, 125, "{finished:?}");
    });
}

#[test]
fn one_descriptor_serves_two_mount_points() {
    in_arena(|arena| {
        let image = arena.any_image();
        let start = arena.start().image(&image, arena.first());
        let number = REQUEST + 1;
        let (first, second) = (arena.first().display(), arena.second().display());
        let finished = start
            .image_at(number, &nowhere(), arena.second())
            .script(&format!("cat {first}/name {second}/name"))
            .finish();
        assert_eq!(finished.success().stdout, "anyany");
    });
}

#[test]
fn a_request_that_is_no_request_is_refused() {
    in_arena(|arena| {
        let texts: [&[u8]; 7] = [
            b"",
            b"\0",
            b"cabane-mount",
            b"cabane-mount\x002\0start\0",
            b"cabane-mount\x001\0clean\0",
            b"cabane-mount\x002\0clean\0more\0",
            b"cabane-mount\x002\0start\0-\x001\x00951\0ext4\0/mnt/a\0x\x000\x000\0may\0\x001\0true\x000\0",
        ];
        for text in texts {
            let finished = arena.start().bytes(text.to_vec()).finish();
            assert_refused(&finished, "does not understand");
        }
        let large = arena.start().bytes(vec![0; 9 << 20]).finish();
        assert_refused(&large, "does not understand");
    });
}

#[test]
fn what_cannot_be_seen_gets_one_answer() {
    in_private_world(|arena| {
        let image = arena.any_image();
        root(&format!(
            "cd {}; mkdir -m 700 closed; cp any.squashfs closed/image; echo text >closed/text
             mkdir closed/directory",
            arena.world.path("").display()
        ));
        let answer = |name: &str| {
            let path = arena.world.path("closed").join(name);
            let start = arena.start().image_opened(&path, OFlags::PATH, arena.first());
            start.process().spawn().unwrap_err().kind()
        };
        arena.start().image(&image, arena.first()).finish().success();
        let answers = ["image", "text", "directory", "missing"].map(answer);
        assert_eq!(answers, [std::io::ErrorKind::PermissionDenied; 4]);
    });
}

#[test]
fn an_image_that_is_held_serves_only_those_who_can_open_it() {
    in_arena(|arena| {
        arena.keep_warm();
        let image = arena.any_image();
        arena.start().image(&image, arena.first()).finish().success();
        // Not even its owner may open it now, who is not root.
        fs::set_permissions(&image, fs::Permissions::from_mode(0o000)).unwrap();
        let start = arena.start().user(arena.another_user());
        assert!(start.clone().image(&image, arena.first()).process().spawn().is_err());
        let finished = start.image_opened(&image, OFlags::PATH, arena.first()).finish();
        assert_refused(&finished, "not opened for reading");
    });
}

#[test]
fn another_file_with_the_same_looks_is_another_image() {
    in_arena(|arena| {
        arena.keep_warm();
        let victim = arena.image("one", ImageFormat::Erofs);
        let attack = arena.image("two", ImageFormat::Erofs);
        root(&format!("touch -r {} {}", victim.display(), attack.display()));
        let script = format!("cat {}/name", arena.first().display());
        let seen = |image: &Path| {
            let start = arena.start().image(image, arena.first());
            start.script(&script).finish().success().stdout
        };
        assert_eq!([seen(&victim), seen(&attack)], ["one", "two"]);
        fs::rename(&attack, &victim).unwrap();
        assert_eq!(seen(&victim), "two");
    });
}

#[test]
fn what_was_opened_is_what_is_mounted() {
    in_arena(|arena| {
        let (one, two) =
            (arena.image("one", ImageFormat::Squashfs), arena.image("two", ImageFormat::Squashfs));
        let swapped = arena.copy_of(&two, "swapped.squashfs");
        let done = AtomicBool::new(false);
        let opened = File::open(&one).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                become_user(61_234, &[]).unwrap();
                while !done.load(Ordering::Relaxed) {
                    let flags = rustix::fs::RenameFlags::EXCHANGE;
                    let _ = rustix::fs::renameat_with(CWD, &one, CWD, &swapped, flags);
                }
            });
            for _ in 0..40 {
                let start = arena.start();
                let start = start.image_given(opened.try_clone().unwrap(), arena.first());
                let finished = start.script(&format!("cat {}/name", arena.first().display()));
                assert_eq!(finished.finish().success().stdout, "one");
            }
            done.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn the_commands_descriptors_are_the_users_and_no_others() {
    in_arena(|arena| {
        let image = arena.any_image();
        let file = arena.world.file("jobserver", "token");
        let mut start = arena.start();
        for _ in 0..500 {
            let path = file.clone();
            start = start.before(move || {
                let file = rustix::fs::open(&path, OFlags::RDONLY, Mode::empty())?;
                crate::start::hold_from(&file, 40).map(drop)
            });
        }
        let wrapper = format!("exec 9<{}; exec \"$@\"", file.display());
        let start = start.script("cat <&9; ls -l /proc/$$/fd");
        // The request is not for the command either.
        let directly = start.clone().through_script(&wrapper);
        let directly = directly.finish_directly().success().stdout;
        let start = start.through_script(&wrapper);
        let helped = start.image(&image, arena.first()).finish().success().stdout;
        let (helped, directly) = (descriptors_in(&helped), descriptors_in(&directly));
        let without_request: Vec<&String> =
            directly.iter().filter(|line| !line.contains("/memfd:request")).collect();
        assert!(helped.len() > 500);
        let is_new = |line: &&String| !without_request.contains(line);
        let new: Vec<_> = helped.iter().filter(is_new).collect();
        let is_lost = |line: &&&String| !helped.contains(line);
        let lost: Vec<_> = without_request.iter().filter(is_lost).collect();
        assert!(new.is_empty() && lost.is_empty(), "{new:?} {lost:?}");
    });
}

/// Number and target of each descriptor, out of a list that `ls` made.
fn descriptors_in(list: &str) -> Vec<String> {
    let lines = list.lines().filter(|line| line.contains(" -> "));
    let plain = lines.filter_map(|line| {
        let (before, target) = line.split_once(" -> ")?;
        let number = before.rsplit(' ').next()?;
        let target = target.split(":[").next()?;
        Some(format!("{number} -> {target}"))
    });
    plain.collect()
}
