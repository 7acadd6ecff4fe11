// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where the attacks take place.
//!
//! As root, and as an ordinary user whom `sudo` lets, a test starts itself again in a
//! private world: namespaces of its own for processes and mounts, a helper of its own
//! (set-uid root), a policy, mount points, an empty `/run`. There the test prepares
//! as root, and attacks as an ordinary user. Without those rights the attack goes
//! against the helper that is installed, with its policy, one test at a time: what one
//! user may hold is limited, and all of them are that user.
//!
//! ```text
//! /mnt/                        a file system in memory
//! ├── cabane-mount             the helper
//! ├── a/  a/inner/  b/  c/     mount points that the policy allows
//! └── etc/                     what is seen as /etc
//! ```

use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use cabane_mount::{ImageFormat, Policy};
pub(crate) use cabane_testkit::run_as_root as root;
use cabane_testkit::{
    Finished, ORDINARY_USER, Tree, World, again_in_private_world, can_have_private_world, erofs,
    furnish_private_world, not_run, squashfs,
};

use crate::left_over;
use crate::start::Start;

/// Says that the test is already inside of its private world.
const INSIDE: &str = "CABANE_TEST_ARENA";
/// The helper that is tested, where it is not the one that Cargo built.
const BINARY: &str = "CABANE_TEST_HELPER_BINARY";
/// The command, for tests of a machine that has nothing else of Cabane.
pub(crate) const COMMAND: &str = "CABANE_TEST_COMMAND";
/// Where packages and `make install` put the helper.
const INSTALLED: [&str; 2] =
    ["/usr/local/libexec/cabane/cabane-mount", "/usr/libexec/cabane/cabane-mount"];
/// Held by the test that attacks the installed helper.
static ALONE: Mutex<()> = Mutex::new(());

/// What the policy of a private world says.
pub(crate) const POLICY: &str = "mount-point /mnt/a\nmount-point /mnt/a/inner\n\
                                 mount-point /mnt/b\nmount-point /mnt/c\n\
                                 image-owners any\nimages-per-user 16\nidle-seconds 0\n";

/// A helper, and a place for images.
pub(crate) struct Arena {
    /// Where the ordinary users can write.
    pub(crate) world: World,
    /// The set-uid program.
    pub(crate) helper: PathBuf,
    mount_points: Vec<PathBuf>,
}

/// Attacks in a private world, or against the helper of the system.
pub(crate) fn in_arena<F: FnOnce(&Arena)>(attack: F) {
    if std::env::var_os(INSIDE).is_some() {
        finish(&Arena::private(), attack);
    } else if can_have_private_world() {
        again_in_private_world::<F>(INSIDE, &[BINARY, COMMAND]);
    } else {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        match Arena::installed() {
            Ok(arena) => finish(&arena, attack),
            Err(missing) => not_run!("{missing}; or run `sudo make test`"),
        }
    }
}

/// Attacks in a private world only: root has to prepare something.
pub(crate) fn in_private_world<F: FnOnce(&Arena)>(attack: F) {
    if std::env::var_os(INSIDE).is_some() || can_have_private_world() {
        in_arena(attack);
    } else {
        not_run!("root has to prepare it: run `sudo make test`");
    }
}

fn finish(arena: &Arena, attack: impl FnOnce(&Arena)) {
    attack(arena);
    left_over::assert_none(arena);
}

impl Arena {
    fn private() -> Self {
        let binary =
            std::env::var(BINARY).unwrap_or_else(|_| env!("CARGO_BIN_EXE_cabane-mount").to_owned());
        furnish_private_world(&binary, "/mnt/cabane-mount");
        root(
            "mkdir -p /mnt/a/inner /mnt/b /mnt/c
             if [ -e /dev/fuse ]; then
                 mknod -m 666 /mnt/fuse c 10 229
                 mount --bind /mnt/fuse /dev/fuse
             fi",
        );
        let arena = Self {
            world: World::new(),
            helper: "/mnt/cabane-mount".into(),
            mount_points: ["/mnt/a", "/mnt/b", "/mnt/c"].map(PathBuf::from).into(),
        };
        arena.set_policy(POLICY);
        arena
    }

    /// The helper of the system, or what is missing.
    fn installed() -> Result<Self, &'static str> {
        let is_set_uid = |path: &PathBuf| {
            fs::metadata(path).is_ok_and(|found| found.uid() == 0 && found.mode() & 0o4000 != 0)
        };
        let mut places = INSTALLED.iter().map(PathBuf::from);
        let helper = places.find(is_set_uid).ok_or(
            "no set-uid helper is installed: run \
             `sudo make install IMAGE_OWNERS=any`",
        )?;
        if let Some(binary) = std::env::var_os(BINARY)
            && fs::read(&helper).ok() != fs::read(binary).ok()
        {
            return Err("the installed helper is not the one that was built: \
                        run `sudo make install`");
        }
        let policy =
            Policy::read().map_err(|_| "the policy cannot be read: run `cabane doctor`")?;
        let user = rustix::process::getuid().as_raw();
        if policy.mount_points.len() < 2
            || policy.images_per_user < 12
            || !policy.allows_image(user, 0o644)
        {
            return Err("the policy has to allow two mount points, twelve images, and those of \
                        this user (`image-owners any` in /etc/cabane/mount.policy)");
        }
        Ok(Self { world: World::new(), helper, mount_points: policy.mount_points })
    }

    /// Tells whether root prepared this place, and only for this test.
    #[expect(clippy::unused_self, reason = "it is a question about the arena")]
    pub(crate) fn is_private(&self) -> bool {
        std::env::var_os(INSIDE).is_some()
    }

    /// The first mount point that is allowed.
    pub(crate) fn first(&self) -> &Path {
        &self.mount_points[0]
    }

    /// The second mount point that is allowed.
    pub(crate) fn second(&self) -> &Path {
        &self.mount_points[1]
    }

    /// Lets images stay mounted, where that can be chosen.
    pub(crate) fn keep_warm(&self) {
        if self.is_private() {
            self.set_policy(&POLICY.replace("idle-seconds 0", "idle-seconds 600"));
        }
    }

    /// How many images a user may hold; three where that can be chosen.
    pub(crate) fn few_images(&self) -> usize {
        if self.is_private() {
            self.set_policy("mount-point /mnt/a\nimage-owners any\nimages-per-user 3\n");
        }
        Policy::read().unwrap().images_per_user as usize
    }

    /// Writes the policy, as root may.
    #[expect(clippy::unused_self, reason = "only within an arena")]
    pub(crate) fn set_policy(&self, text: &str) {
        fs::write(Policy::PATH, text).unwrap();
    }

    /// Packs an image that anyone may read; its file `name` holds the name.
    pub(crate) fn image(&self, name: &str, format: ImageFormat) -> PathBuf {
        let tree = Tree::new(self.world.path(&format!("trees/{name}"))).file("name", name);
        self.pack(&tree, name, format)
    }

    /// A squashfs image, where the format makes no difference.
    pub(crate) fn any_image(&self) -> PathBuf {
        self.image("any", ImageFormat::Squashfs)
    }

    /// Packs a tree.
    pub(crate) fn pack(&self, tree: &Tree, name: &str, format: ImageFormat) -> PathBuf {
        let image = self.world.path(&format!("{name}.{format}"));
        match format {
            ImageFormat::Squashfs => squashfs(tree.root(), &image),
            ImageFormat::Erofs => erofs(tree.root(), &image),
        }
        image
    }

    /// Copies an image: another file with the same content.
    pub(crate) fn copy_of(&self, image: &Path, name: &str) -> PathBuf {
        let copy = self.world.path(name);
        fs::copy(image, &copy).unwrap();
        copy
    }

    /// The ordinary users there are; only root can become several.
    pub(crate) fn users(&self) -> &[u32] {
        if self.is_private() { &left_over::USERS } else { &left_over::USERS[..1] }
    }

    /// The ordinary user who attacks.
    pub(crate) fn user(&self) -> u32 {
        if self.is_private() { ORDINARY_USER } else { rustix::process::getuid().as_raw() }
    }

    /// Runs a script of a shell in which `$CABANE` is the command, and `$IMAGE` an image. The home of the
    /// ordinary user is that of all.
    pub(crate) fn type_as(
        &self,
        user: u32,
        command: &OsStr,
        script: &str,
        image: &Path,
    ) -> Finished {
        let home = self.world.path("home");
        root(&format!("mkdir -p {0}; chown {ORDINARY_USER} {0}", home.display()));
        let mut shell = std::process::Command::new("setpriv");
        let user = user.to_string();
        shell.args([
            "--reuid",
            &user,
            "--regid",
            &user,
            "--clear-groups",
            "sh",
            "-e",
            "-c",
            script,
        ]);
        shell.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("CABANE", command);
        shell.env("HOME", &home).env("IMAGE", image).env("CABANE_HELPER", &self.helper);
        Finished::of(&mut shell)
    }

    /// Another ordinary user, where there is more than one.
    pub(crate) fn another_user(&self) -> u32 {
        self.users().last().copied().unwrap_or(ORDINARY_USER)
    }

    /// Prepares a start by the ordinary user.
    pub(crate) fn start(&self) -> Start<'_> {
        Start::new(self)
    }

    /// The entries of the mount cache, and the directory itself, for its locks.
    #[expect(clippy::unused_self, reason = "only within an arena")]
    pub(crate) fn cache(&self) -> Option<(Vec<String>, OwnedFd)> {
        use cabane_sys::namespace;
        use rustix::fs::{Mode, OFlags};
        let look = || {
            let pin = fs::File::open(cabane_mount::CACHE_NAMESPACE).ok()?;
            // A thread that shares its root with others may not go elsewhere.
            namespace::unshare_mounts().ok()?;
            namespace::enter_mounts(std::os::fd::AsFd::as_fd(&pin)).ok()?;
            let names = fs::read_dir("/").ok()?.flatten();
            let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
            let names = names.filter(|name| !name.starts_with('.'));
            let root = rustix::fs::open("/", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
            Some((names.collect(), root.ok()?))
        };
        std::thread::scope(|scope| scope.spawn(look).join().unwrap())
    }
}
