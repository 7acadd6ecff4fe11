// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Copies of images on a node keep within the limit of the policy, whatever becomes of the
//! originals meanwhile. Root makes them for a step of a job.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cabane_mount::{
    ImageFormat, JobImage, JobMounts, JobOwner, JobRoot, Policy, Scope, Stage, release,
};
use cabane_testkit::{
    ORDINARY_USER, Tree, World, again_in_private_world, can_have_private_world,
    furnish_private_world, not_run, squashfs,
};

const INSIDE: &str = "CABANE_TEST_COPIES";
const MIB: u64 = 1 << 20;
/// What all copies may have, and one of them has.
const LIMIT: u64 = 64 * MIB;
const SIZE: u64 = 40 * MIB;
/// Beyond this a copy is ended, so that the machine keeps its memory.
const FAR_TOO_MUCH: u64 = LIMIT + 64 * MIB;

/// A node where copies are allowed, and nothing else is at work.
struct Node {
    world: World,
    image: PathBuf,
}

fn on_node<F: FnOnce(&Node)>(test: F) {
    if std::env::var_os(INSIDE).is_none() {
        if can_have_private_world() {
            again_in_private_world::<F>(INSIDE, &[]);
            return;
        }
        not_run!("root has to prepare it: run `sudo make test`");
    }
    furnish_private_world("/bin/true", "/mnt/none");
    cabane_testkit::run_as_root("mkdir -p /mnt/a /mnt/copies");
    let limit = LIMIT / MIB;
    let policy = format!(
        "mount-point /mnt/a\nimage-owners any\nidle-seconds 0\nstage-memory {limit}\n\
         stage-local {limit} /mnt/copies\n"
    );
    fs::write(Policy::PATH, policy).unwrap();
    let world = World::new();
    let tree = Tree::new(world.path("tree")).file("hello", "hello");
    let image = world.path("image.squashfs");
    squashfs(tree.root(), &image);
    let node = Node { world, image };
    test(&node);
    std::thread::sleep(Duration::from_millis(2200));
    // Threads of the test have those directories, too.
    cabane_sys::namespace::unshare_directories().unwrap();
    release(Scope::Unused, 0).unwrap();
}

impl Node {
    /// An image with so many bytes, most of them behind its end, and none on a disk.
    fn image(&self, name: &str, size: u64) -> PathBuf {
        let path = self.world.path(name);
        fs::copy(&self.image, &path).unwrap();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(size).unwrap();
        path
    }
}

/// Makes the mounts of a step, as its plugin does on each node.
fn step(image: &Path, stage: Stage) -> Result<JobMounts, String> {
    let image = JobImage::new(ImageFormat::Squashfs, image, "/mnt/a");
    let owner = JobOwner { user: ORDINARY_USER, group: ORDINARY_USER, groups: Vec::new() };
    JobMounts::make(&[image], &JobRoot::default(), &owner, Some(stage))
        .map_err(|error| error.to_string())
}

/// How large the copies are that this process is making, together.
fn being_made() -> u64 {
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let paths = descriptors.map(|entry| entry.path());
    let is_copy = |path: &PathBuf| {
        fs::read_link(path).is_ok_and(|target| {
            let target = target.to_string_lossy().into_owned();
            target.starts_with("/memfd:") || target.starts_with("/mnt/copies/")
        })
    };
    // One that was opened twice counts once.
    let mut sizes: Vec<(u64, u64)> = paths
        .filter(is_copy)
        .filter_map(|path| fs::metadata(path).ok())
        .map(|found| {
            use std::os::unix::fs::MetadataExt;
            (found.ino(), found.len())
        })
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes.into_iter().map(|(_, size)| size).sum()
}

/// Does something while the copies are watched, and returns what they had at most.
fn watched(act: impl FnOnce(), while_copying: impl Fn(u64) + Sync) -> u64 {
    let (most, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let size = being_made();
                most.fetch_max(size, Ordering::Relaxed);
                while_copying(size);
            }
        });
        act();
        is_done.store(true, Ordering::Relaxed);
    });
    most.load(Ordering::Relaxed)
}

/// Makes the original larger as soon as it is copied.
fn most_of_growing(node: &Node, stage: Stage) -> u64 {
    let image = node.image("grows.squashfs", SIZE);
    let file: File = OpenOptions::new().write(true).open(&image).unwrap();
    let grow = |size: u64| match size {
        0 => {}
        FAR_TOO_MUCH.. => file.set_len(SIZE).unwrap(),
        _ => file.set_len(1 << 40).unwrap(),
    };
    let make = || drop(step(&image, stage));
    watched(make, grow)
}

#[test]
fn an_image_that_grows_while_it_is_copied_into_memory_keeps_within_the_limit() {
    on_node(|node| {
        let most = most_of_growing(node, Stage::Memory);
        assert!(most <= LIMIT, "{} MiB", most / MIB);
        assert_ne!(most, 0);
    });
}

#[test]
fn an_image_that_grows_while_it_is_copied_to_a_disk_keeps_within_the_limit() {
    on_node(|node| {
        let most = most_of_growing(node, Stage::Local);
        assert!(most <= LIMIT, "{} MiB", most / MIB);
        assert_ne!(most, 0);
    });
}

#[test]
fn a_sparse_image_counts_with_its_whole_size() {
    on_node(|node| {
        let image = node.image("sparse.squashfs", 8 * LIMIT);
        for stage in [Stage::Memory, Stage::Local] {
            let mut made = None;
            let most = watched(|| made = Some(step(&image, stage)), |_| {});
            assert!(made.unwrap().is_err() && most <= LIMIT, "{} MiB", most / MIB);
        }
    });
}

#[test]
fn several_copies_at_once_keep_within_the_limit_together() {
    on_node(|node| {
        let images: Vec<PathBuf> =
            (0..6).map(|number| node.image(&format!("image{number}.squashfs"), SIZE)).collect();
        let mut made = Vec::new();
        let make_all = || {
            std::thread::scope(|scope| {
                let steps = images.iter().map(|image| scope.spawn(|| step(image, Stage::Memory)));
                let steps: Vec<_> = steps.collect();
                made.extend(steps.into_iter().map(|step| step.join().unwrap()));
            });
        };
        let most = watched(make_all, |_| {});
        let made = made.iter().filter(|step| step.is_ok()).count();
        assert!(most <= LIMIT && made == 1, "{} MiB, {made} copies", most / MIB);
    });
}

#[test]
fn a_copy_counts_as_long_as_a_step_has_it_whose_tasks_have_not_begun() {
    on_node(|node| {
        let (one, two) = (node.image("one.squashfs", SIZE), node.image("two.squashfs", SIZE));
        let first = step(&one, Stage::Memory).unwrap();
        // So long that it seems unused.
        std::thread::sleep(Duration::from_millis(2500));
        let second = step(&two, Stage::Memory).map(drop);
        drop(first);
        let refusal = second.expect_err("the limit was exceeded");
        assert!(refusal.contains("two.squashfs"), "{refusal}");
    });
}
