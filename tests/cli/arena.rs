// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A private world with the set-uid helper, for an ordinary user.
//!
//! ```text
//! /mnt/                        a file system in memory
//! ├── cabane-mount             the helper
//! ├── a/  a/inner/  b/         mount points that the policy allows
//! ├── else/                    one that it does not allow
//! └── etc/                     what is seen as /etc
//! ```

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cabane_sys::namespace;
use cabane_testkit::{
    again_in_private_world, can_have_private_world, furnish_private_world, not_run, run_as_root,
};

use crate::cabane::{APP, Cabane, Who};

/// The helper that is tested, where it is not the one beside the command.
pub(crate) const HELPER_BINARY: &str = "CABANE_TEST_HELPER_BINARY";
/// Says that the test is already inside of its private world.
const INSIDE: &str = "CABANE_TEST_CLI_ARENA";
const HELPER: &str = "/mnt/cabane-mount";

pub(crate) fn helper_binary() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_BIN_EXE_cabane")).with_file_name("cabane-mount");
    let binary = std::env::var_os(HELPER_BINARY).map_or_else(beside, PathBuf::from);
    binary.is_file().then_some(binary)
}

/// Runs a test with the helper: with the image [`APP`] for `/mnt/a` in a repository of
/// an ordinary user, who types the commands.
pub(crate) fn with_helper<F: FnOnce(&Cabane)>(test: F) {
    if std::env::var_os(INSIDE).is_some() {
        let cabane = prepare();
        test(&cabane);
        assert_nothing_is_left(&cabane);
    } else if !can_have_private_world() {
        not_run!("a set-uid helper can only be had as root, or where `sudo -n` works");
    } else if helper_binary().is_none() {
        not_run!("cabane-mount is not built; `cargo build --workspace` does it");
    } else {
        again_in_private_world::<F>(INSIDE, &[HELPER_BINARY]);
    }
}

fn prepare() -> Cabane {
    let binary = helper_binary().unwrap();
    furnish_private_world(&binary.to_string_lossy(), HELPER);
    run_as_root(
        "mkdir -p /mnt/a/inner /mnt/b /mnt/else
         printf 'mount-point %s\\n' /mnt/a /mnt/a/inner /mnt/b >/etc/cabane/mount.policy
         printf '%s\\n' 'image-owners any' 'images-per-user 16' 'idle-seconds 60' \
             >>/etc/cabane/mount.policy",
    );
    let cabane = Cabane::new(Who::OrdinaryUser).with_helper(HELPER);
    let image = cabane.image("app", "/mnt/a");
    cabane.run(&["image", "add", APP, &image]).success();
    cabane
}

/// Gives up what is held, and looks that nothing is. On a busy machine the kernel frees the
/// mounts of a process some time after its end.
fn assert_nothing_is_left(cabane: &Cabane) {
    let begin = Instant::now();
    let root = Cabane::new(Who::Root);
    loop {
        cabane.run(&["clean", "--mounts"]).success();
        // What root has started with is not the user's to give up.
        root.run(&["clean", "--mounts"]).success();
        if !is_anything_held() {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
}

/// Tells whether an image is kept mounted for the next start.
pub(crate) fn is_anything_held() -> bool {
    let look = || {
        let cache = fs::File::open(cabane_mount::CACHE_NAMESPACE).ok()?;
        // A thread that shares its root with others may not go elsewhere.
        namespace::unshare_directories().ok()?;
        namespace::enter_mounts(cache.as_fd()).ok()?;
        let names = fs::read_dir("/").ok()?.flatten();
        let mut names = names.map(|entry| entry.file_name());
        Some(names.any(|name| !name.to_string_lossy().starts_with('.')))
    };
    let looked = std::thread::scope(|scope| scope.spawn(look).join().unwrap());
    looked.unwrap_or(false)
}
