// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Mount plans carried out on the real kernel, as root and as an ordinary user.
//!
//! A plan changes the process it is carried out in, so every test asks a copy of
//! itself and looks at what that saw.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use cabane_mount::{
    Backend, FusePrograms, ImageFile, ImageFormat, MountPlan, Operation, Way, perform,
};
use cabane_process::child::ask;
use cabane_testkit::{Tree, World, become_ordinary_user, erofs, is_root, not_run, squashfs};

fn plan(backend: Backend, operations: Vec<Operation>) -> MountPlan {
    MountPlan { backend, fuse: FusePrograms::default(), operations }
}

fn image(path: &Path, format: ImageFormat, mount_point: impl Into<PathBuf>) -> Operation {
    let file = File::open(path).expect("open the image");
    let image = ImageFile { file, path: path.to_owned(), format, verity: None };
    Operation::Image { image, way: Way::Kernel, mount_point: mount_point.into() }
}

fn hello(world: &World) -> PathBuf {
    let tree = Tree::new(world.path("tree")).file("hello", "from the image");
    let path = world.path("hello.squashfs");
    squashfs(tree.root(), &path);
    path
}

/// Carries out a plan in a copy of this process and returns what a file held.
fn read_inside(
    make_plan: impl FnOnce() -> MountPlan,
    as_user: bool,
    file: &str,
) -> Result<String, String> {
    let bytes = ask(|| {
        if as_user {
            become_ordinary_user();
        }
        perform(make_plan()).map_err(|error| chain(&error))?;
        fs::read(file).map_err(|error| error.to_string())
    })
    .expect("ask a copy of this process")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}

#[test]
fn root_mounts_squashfs_through_the_kernel() {
    if !is_root() {
        not_run!("needs root");
    }
    let world = World::new();
    let path = hello(&world);
    let target = world.directory("target");
    let seen = read_inside(
        || plan(Backend::Root, vec![image(&path, ImageFormat::Squashfs, &target)]),
        false,
        &format!("{}/hello", target.display()),
    );
    assert_eq!(seen.as_deref(), Ok("from the image"));
}

#[test]
fn root_mounts_erofs_through_the_kernel() {
    if !is_root() {
        not_run!("needs root");
    }
    let world = World::new();
    let tree = Tree::new(world.path("tree")).file("hello", "from the image");
    let path = world.path("hello.erofs");
    erofs(tree.root(), &path);
    let target = world.directory("target");
    let seen = read_inside(
        || plan(Backend::Root, vec![image(&path, ImageFormat::Erofs, &target)]),
        false,
        &format!("{}/hello", target.display()),
    );
    assert_eq!(seen.as_deref(), Ok("from the image"));
}

#[test]
fn an_ordinary_user_mounts_squashfs_without_privilege() {
    let world = World::new();
    let path = hello(&world);
    let target = world.directory("target");
    let seen = read_inside(
        || plan(Backend::UserNamespace, vec![image(&path, ImageFormat::Squashfs, &target)]),
        true,
        &format!("{}/hello", target.display()),
    );
    assert_eq!(seen.as_deref(), Ok("from the image"));
}

#[test]
fn a_mount_point_at_the_top_that_does_not_exist_is_made_in_a_private_root() {
    let world = World::new();
    let path = hello(&world);
    for backend in backends() {
        let seen = read_inside(
            || plan(backend, vec![image(&path, ImageFormat::Squashfs, "/cabane-test-top/deep")]),
            backend == Backend::UserNamespace,
            "/cabane-test-top/deep/hello",
        );
        assert_eq!(seen.as_deref(), Ok("from the image"), "with the backend {backend}");
    }
    assert!(!Path::new("/cabane-test-top").exists(), "the host has got a directory");
}

#[test]
fn a_mount_point_below_an_existing_directory_leaves_its_neighbours_in_place() {
    let world = World::new();
    let path = hello(&world);
    world.file("holder/neighbour", "still here");
    let target = world.path("holder/new/one");
    for backend in backends() {
        let seen = read_inside(
            || plan(backend, vec![image(&path, ImageFormat::Squashfs, &target)]),
            backend == Backend::UserNamespace,
            &world.path("holder/neighbour").to_string_lossy(),
        );
        assert_eq!(seen.as_deref(), Ok("still here"), "with the backend {backend}");
    }
}

#[test]
fn links_at_the_top_stay_links_in_a_private_root() {
    let world = World::new();
    let path = hello(&world);
    for backend in backends() {
        let seen = ask(|| {
            if backend == Backend::UserNamespace {
                become_ordinary_user();
            }
            let operations = vec![image(&path, ImageFormat::Squashfs, "/cabane-test-links")];
            perform(plan(backend, operations)).map_err(|error| chain(&error))?;
            let kind = |name| fs::symlink_metadata(name).is_ok_and(|found| found.is_symlink());
            Ok(vec![u8::from(kind("/bin")), u8::from(kind("/lib"))])
        })
        .unwrap();
        let host = |name| fs::symlink_metadata(name).unwrap().is_symlink();
        assert_eq!(seen, Ok(vec![u8::from(host("/bin")), u8::from(host("/lib"))]));
    }
}

#[test]
fn the_working_directory_is_kept_in_a_private_root() {
    let world = World::new();
    let path = hello(&world);
    let work = world.path("work");
    for backend in backends() {
        let seen = ask(|| {
            if backend == Backend::UserNamespace {
                become_ordinary_user();
            }
            std::env::set_current_dir(&work).map_err(|error| error.to_string())?;
            let operations = vec![image(&path, ImageFormat::Squashfs, "/cabane-test-cwd")];
            perform(plan(backend, operations)).map_err(|error| chain(&error))?;
            let now = std::env::current_dir().map_err(|error| error.to_string())?;
            Ok(now.into_os_string().into_encoded_bytes())
        })
        .unwrap();
        assert_eq!(seen, Ok(work.as_os_str().as_encoded_bytes().to_vec()));
    }
}

#[test]
fn what_is_hidden_can_still_be_bound_elsewhere() {
    let world = World::new();
    world.file("home/secret", "mine");
    let bind =
        |target: PathBuf| Operation::Bind { source: world.path("home"), target, read_only: true };
    for backend in backends() {
        let operations = vec![
            Operation::Hide { directory: world.path("home") },
            bind("/cabane-test-bound".into()),
        ];
        let seen = ask(|| {
            if backend == Backend::UserNamespace {
                become_ordinary_user();
            }
            perform(plan(backend, operations)).map_err(|error| chain(&error))?;
            let gone = !world.path("home/secret").exists();
            let written = fs::write("/cabane-test-bound/new", "x").is_ok();
            let bound = fs::read("/cabane-test-bound/secret").map_err(|error| error.to_string())?;
            Ok([vec![u8::from(gone), u8::from(written)], bound].concat())
        })
        .unwrap();
        assert_eq!(seen, Ok([vec![1, 0], b"mine".to_vec()].concat()), "{backend}");
    }
}

#[test]
fn nothing_can_be_written_beside_a_mount_point_that_was_made() {
    let world = World::new();
    let path = hello(&world);
    for backend in backends() {
        let seen = ask(|| {
            if backend == Backend::UserNamespace {
                become_ordinary_user();
            }
            let operations = vec![image(&path, ImageFormat::Squashfs, "/cabane-test-sealed")];
            perform(plan(backend, operations)).map_err(|error| chain(&error))?;
            Ok(vec![u8::from(fs::write("/cabane-test-lost", "x").is_ok())])
        })
        .unwrap();
        assert_eq!(seen, Ok(vec![0]), "with the backend {backend}");
    }
}

#[test]
fn a_damaged_image_is_an_error_that_names_it() {
    let world = World::new();
    let path = world.file("damaged.squashfs", &format!("hsqs{}", "x".repeat(8192)));
    let target = world.directory("target");
    for backend in backends() {
        let error = read_inside(
            || plan(backend, vec![image(&path, ImageFormat::Squashfs, &target)]),
            backend == Backend::UserNamespace,
            "/dev/null",
        )
        .unwrap_err();
        let expected = format!("cannot mount {} as squashfs", path.display());
        assert!(error.starts_with(&expected), "with the backend {backend}: {error}");
    }
}

#[test]
fn a_mount_point_that_is_a_file_is_refused() {
    let world = World::new();
    let path = hello(&world);
    let target = world.file("a-file", "");
    for backend in backends() {
        let error = read_inside(
            || plan(backend, vec![image(&path, ImageFormat::Squashfs, &target)]),
            backend == Backend::UserNamespace,
            "/dev/null",
        )
        .unwrap_err();
        let expected = format!("cannot use {} as a mount point: Not a directory", target.display());
        assert!(error.starts_with(&expected), "with the backend {backend}: {error}");
    }
}

#[test]
fn a_missing_fuse_program_is_named_with_its_package() {
    let world = World::new();
    let path = hello(&world);
    let target = world.directory("target");
    let missing = vec![PathBuf::from("/nonexistent/squashfuse_ll")];
    let fuse =
        FusePrograms { squashfs: missing.clone(), erofs: missing, search_path: OsString::new() };
    let error = read_inside(
        || MountPlan {
            backend: Backend::UserNamespace,
            fuse,
            operations: vec![image(&path, ImageFormat::Squashfs, &target)],
        },
        true,
        "/dev/null",
    )
    .unwrap_err();
    assert!(error.contains("/nonexistent/squashfuse_ll"), "{error}");
}

#[test]
fn a_fuse_program_in_path_serves_where_the_system_has_none() {
    let world = World::new();
    let path = hello(&world);
    let target = world.directory("target");
    let system = FusePrograms::default();
    let program = system.find(ImageFormat::Squashfs).unwrap();
    let bin = world.directory("bin");
    let name = program.file_name().unwrap();
    symlink(&program, bin.join(name)).unwrap();
    let missing = vec![Path::new("/nonexistent").join(name)];
    let with = |search_path: OsString| {
        let fuse = FusePrograms { squashfs: missing.clone(), search_path, ..system.clone() };
        let operations = vec![image(&path, ImageFormat::Squashfs, &target)];
        let plan = || {
            // What the current directory has may be of anybody.
            std::env::set_current_dir(world.path("")).unwrap();
            MountPlan { backend: Backend::UserNamespace, fuse, operations }
        };
        read_inside(plan, true, &format!("{}/hello", target.display()))
    };
    let seen = with(format!("/nonexistent:{}", bin.display()).into());
    assert_eq!(seen.as_deref(), Ok("from the image"));
    let error = with("bin".into()).unwrap_err();
    assert!(error.contains("and in PATH"), "{error}");
}

#[test]
fn nothing_is_left_when_the_process_ends() {
    let world = World::new();
    let path = hello(&world);
    let target = world.directory("target");
    for backend in backends() {
        let seen = read_inside(
            || plan(backend, vec![image(&path, ImageFormat::Squashfs, &target)]),
            backend == Backend::UserNamespace,
            &format!("{}/hello", target.display()),
        );
        assert_eq!(seen.as_deref(), Ok("from the image"));
        assert!(!target.join("hello").exists(), "the mount leaked with the backend {backend}");
        assert!(ends_within_a_second(&path), "something still holds the image ({backend})");
    }
}

fn backends() -> Vec<Backend> {
    if is_root() {
        vec![Backend::Root, Backend::UserNamespace]
    } else {
        vec![Backend::UserNamespace]
    }
}

/// Waits until no loop device and no FUSE program has the image open.
fn ends_within_a_second(image: &Path) -> bool {
    (0..50).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        !is_backing_a_loop_device(image) && !is_open_in_a_process(image)
    })
}

fn is_backing_a_loop_device(image: &Path) -> bool {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    devices
        .filter_map(|device| fs::read_to_string(device.path().join("loop/backing_file")).ok())
        .any(|file| Path::new(file.trim()) == image)
}

fn is_open_in_a_process(image: &Path) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter(|process| process.file_name() != *std::process::id().to_string())
        .filter_map(|process| fs::read_dir(process.path().join("fd")).ok())
        .flat_map(Iterator::flatten)
        .any(|fd| fs::read_link(fd.path()).is_ok_and(|file| file == image))
}
