// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the administrator allows the set-uid helper to do.
//!
//! A file of lines, one setting each; `#` begins a comment. A line that is not
//! understood makes the whole file void: a helper that guesses is worse than none.
//!
//! ```text
//! mount-point /user-environment
//! mount-point /user-tools
//! image-owners root
//! image-filesystems ext4 xfs lustre
//! fuse-images yes
//! verified-images /etc/cabane/verified-images
//! verified-signatures no
//! images-per-user 16
//! idle-seconds 600
//! root-images yes
//! root-bind /scratch
//! stage-memory 16384
//! stage-local 65536 /scratch/cabane
//! unpacked-images /var/lib/cabane/unpacked
//! ```

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use crate::root::KERNEL;
use crate::{Error, trusted};

/// File systems that no process of a user serves, on which the owner of a file means what it
/// says: local disks and memory, images, and those of file servers that take the word of none
/// but root. Not there are FUSE, what shows all files as those of one owner (CIFS, FAT), and
/// what only the kernel of a virtual machine's host knows (9p). On an overlay the layers count.
const FILE_SYSTEMS: [&str; 29] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "jfs", "bcachefs", "zfs", "gfs2", "ocfs2",
    "tmpfs", "ramfs", "rootfs", "squashfs", "erofs", "iso9660", "nfs", "nfs4", "lustre", "gpfs",
    "beegfs", "ceph", "panfs", "wekafs", "orangefs", "pvfs2", "virtiofs", "overlay",
];
/// Never trusted, whatever a policy says.
const USERS_FILE_SYSTEM: &str = "fuse";

/// Below these the system keeps what must not be covered.
const CLOSED: [&str; 4] = ["/dev", "/proc", "/run", "/sys"];

/// What the set-uid helper may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Where images may be mounted; nowhere else.
    pub mount_points: Vec<PathBuf>,
    /// Whose images the kernel may read.
    pub image_owners: ImageOwners,
    /// The file systems on which owners are trusted, where owners are listed; those that are
    /// usual if none are named.
    pub image_filesystems: Option<Vec<String>>,
    /// Whether images that the kernel may not read are served by processes of their users, through
    /// FUSE and outside of a user namespace.
    pub fuse_images: bool,
    /// The list of root hashes: which images the kernel may read if it checks their content.
    pub verified_images: PathBuf,
    /// Whether the kernel may read images whose root hash is signed with a key that it has.
    pub verified_signatures: bool,
    /// How many images of one user the kernel holds at once; each squashfs image
    /// takes a loop device.
    pub images_per_user: u32,
    /// How long an unused image stays mounted, so that the next start
    /// finds it warm.
    pub idle: Duration,
    /// Whether an image may take the place of the whole root file system of a process.
    pub root_images: bool,
    /// What of the system is always seen in it, as far as it exists.
    pub root_binds: Vec<PathBuf>,
    /// How many bytes copies of images may have in memory, together; none are made without.
    pub stage_memory: Option<u64>,
    /// Where on the node copies of images may be, and how many bytes they may have.
    pub stage_local: Option<LocalStage>,
    /// Where the images are that root has unpacked on the node. Only root may be able to write there,
    /// and to what is above it.
    pub unpacked_images: PathBuf,
}

/// Whose images the kernel may read. The others go through FUSE, as the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageOwners {
    /// Everyone's: anyone who may read an image may mount it.
    Any,
    /// Those of these users, if no one else can write to them.
    Listed(Vec<u32>),
}

/// A policy file with a mistake in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl std::error::Error for PolicyError {}

/// A directory of the node for copies of images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalStage {
    /// Where it is. Only root may be able to write to it, and to what is above it.
    pub directory: PathBuf,
    /// How many bytes all copies may have, together.
    pub limit: u64,
}

impl Policy {
    /// Where the policy is. It is fixed: who may choose the policy may do everything.
    pub const PATH: &'static str = "/etc/cabane/mount.policy";
    /// Where the list of images is whose content is checked, where the policy names no other.
    pub const VERIFIED_IMAGES: &'static str = "/etc/cabane/verified-images";
    /// Where unpacked images are, where the policy names no other directory.
    pub const UNPACKED_IMAGES: &'static str = "/var/lib/cabane/unpacked";
    /// The size of a policy file, in bytes, beyond which it is refused.
    pub const MAX_SIZE: u64 = 64 << 10;

    /// Reads the policy of this system.
    ///
    /// # Errors
    ///
    /// [`Error::Untrusted`] if others than root could change it, [`Error::Policy`] if
    /// it holds a mistake, [`Error::Step`] if it is not there.
    pub fn read() -> Result<Self, Error> {
        let path = Path::new(Self::PATH);
        let text = trusted::read_file(path, Self::MAX_SIZE)?;
        Self::parse(&text).map_err(|source| Error::Policy { path: path.to_owned(), source })
    }

    /// Understands the text of a policy file.
    ///
    /// # Errors
    ///
    /// The first line that is not understood.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let mut draft = Draft::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            draft
                .take(line)
                .map_err(|problem| PolicyError { line: index.saturating_add(1), problem })?;
        }
        if !text.is_empty() && !text.ends_with('\n') {
            return Err(PolicyError {
                line: text.lines().count(),
                problem: "the last line has no end: the file may be half written",
            });
        }
        Ok(Self {
            mount_points: draft.mount_points,
            image_owners: draft.image_owners.unwrap_or(ImageOwners::Listed(vec![0])),
            image_filesystems: draft.image_filesystems,
            fuse_images: draft.fuse_images.unwrap_or(true),
            verified_images: draft.verified_images.unwrap_or(Self::VERIFIED_IMAGES.into()),
            verified_signatures: draft.verified_signatures.unwrap_or(false),
            images_per_user: draft.images_per_user.unwrap_or(16),
            idle: Duration::from_secs(draft.idle_seconds.unwrap_or(600).into()),
            root_images: draft.root_images.unwrap_or(false),
            root_binds: draft.root_binds,
            stage_memory: draft.stage_memory,
            stage_local: draft.stage_local,
            unpacked_images: draft.unpacked_images.unwrap_or(Self::UNPACKED_IMAGES.into()),
        })
    }

    /// Tells whether images may be mounted at a place.
    pub fn allows_mount_point(&self, path: &Path) -> bool {
        if path == Path::new("/") {
            return self.root_images;
        }
        // Compared as text: `Path` takes `/a/` and `/a` for the same.
        self.mount_points.iter().any(|allowed| allowed.as_os_str() == path.as_os_str())
    }

    /// Tells whether owners of files on this type of file system are trusted.
    pub fn allows_file_system(&self, kind: &str) -> bool {
        match &self.image_filesystems {
            Some(listed) => listed.iter().any(|allowed| allowed == kind),
            None => FILE_SYSTEMS.contains(&kind),
        }
    }

    /// Tells whether an overlay is trusted by its layers only, and not because it was named.
    pub(crate) fn looks_at_layers(&self) -> bool {
        self.image_owners != ImageOwners::Any && self.image_filesystems.is_none()
    }

    /// Tells whether the kernel may read an image of this owner and mode.
    pub fn allows_image(&self, owner: u32, mode: u32) -> bool {
        match &self.image_owners {
            ImageOwners::Any => true,
            ImageOwners::Listed(owners) => owners.contains(&owner) && mode & 0o022 == 0,
        }
    }
}

#[derive(Default)]
struct Draft {
    mount_points: Vec<PathBuf>,
    image_owners: Option<ImageOwners>,
    image_filesystems: Option<Vec<String>>,
    fuse_images: Option<bool>,
    images_per_user: Option<u32>,
    idle_seconds: Option<u32>,
    verified_images: Option<PathBuf>,
    verified_signatures: Option<bool>,
    root_images: Option<bool>,
    root_binds: Vec<PathBuf>,
    stage_memory: Option<u64>,
    stage_local: Option<LocalStage>,
    unpacked_images: Option<PathBuf>,
}

impl Draft {
    fn take(&mut self, line: &str) -> Result<(), &'static str> {
        let mut fields = line.split_ascii_whitespace();
        let Some(keyword) = fields.next() else {
            return Ok(());
        };
        let values: Vec<&str> = fields.collect();
        match (keyword, values.as_slice()) {
            ("mount-point", [path]) => self.mount_points.push(mount_point(path)?),
            ("image-owners", [_, ..]) => once(&mut self.image_owners, owners(&values)?)?,
            ("image-filesystems", [_, ..]) => {
                once(&mut self.image_filesystems, file_systems(&values)?)?;
            }
            ("images-per-user", [value]) => once(&mut self.images_per_user, number(value)?)?,
            ("idle-seconds", [value]) => once(&mut self.idle_seconds, number(value)?)?,
            ("fuse-images", [value]) => once(&mut self.fuse_images, yes_or_no(value)?)?,
            ("verified-images", [path]) => {
                let path = plain_path(path)
                    .ok_or("a list is an absolute path, without `.`, `..`, or `//`")?;
                once(&mut self.verified_images, path)?;
            }
            ("unpacked-images", [path]) => {
                let path = plain_path(path).ok_or(
                    "a directory of unpacked images is an absolute path, without `.`, `..`, or `//`",
                )?;
                once(&mut self.unpacked_images, path)?;
            }
            ("verified-signatures", [value]) => {
                once(&mut self.verified_signatures, yes_or_no(value)?)?;
            }
            ("root-images", [value]) => once(&mut self.root_images, yes_or_no(value)?)?,
            ("root-bind", [path]) => self.root_binds.push(root_bind(path)?),
            ("fuse-images" | "root-images" | "verified-signatures", _) => return Err(YES_OR_NO),
            ("stage-memory", [value]) => once(&mut self.stage_memory, mebibytes(value)?)?,
            ("stage-local", [value, path]) => {
                let directory = plain_path(path).ok_or(
                    "a directory for copies is an absolute path, without `.`, `..`, or `//`",
                )?;
                let limit = mebibytes(value)?;
                once(&mut self.stage_local, LocalStage { directory, limit })?;
            }
            ("stage-local", _) => return Err("a number of MiB and a directory are needed"),
            (
                "mount-point" | "images-per-user" | "idle-seconds" | "root-bind" | "stage-memory"
                | "verified-images" | "unpacked-images",
                _,
            ) => {
                return Err("one value is needed after the keyword");
            }
            ("image-filesystems", []) => return Err("names of file systems are needed"),
            ("image-owners", []) => return Err("`any`, `root`, or numbers of users are needed"),
            _ => {
                return Err(
                    "unknown keyword; known are mount-point, image-owners, image-filesystems, \
                     fuse-images, images-per-user, idle-seconds, root-images, root-bind, \
                     stage-memory, stage-local, unpacked-images, verified-images, and \
                     verified-signatures",
                );
            }
        }
        Ok(())
    }
}

fn once<T>(place: &mut Option<T>, value: T) -> Result<(), &'static str> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err("this keyword may appear only once"),
    }
}

const YES_OR_NO: &str = "`yes` or `no` is needed";

fn yes_or_no(text: &str) -> Result<bool, &'static str> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(YES_OR_NO),
    }
}

fn number(text: &str) -> Result<u32, &'static str> {
    text.parse().map_err(|_| "a whole number from 0 to 4294967295 is needed")
}

fn mebibytes(text: &str) -> Result<u64, &'static str> {
    number(text).map(|value| u64::from(value) << 20)
}

fn owners(values: &[&str]) -> Result<ImageOwners, &'static str> {
    if values == ["any"] {
        return Ok(ImageOwners::Any);
    }
    // Names are not looked up: that would load code and read files of others.
    let owner = |value: &&str| match *value {
        "root" => Ok(0),
        value => value.parse().map_err(|_| "owners are `any`, `root`, or numbers of users"),
    };
    Ok(ImageOwners::Listed(values.iter().map(owner).collect::<Result<_, _>>()?))
}

fn file_systems(values: &[&str]) -> Result<Vec<String>, &'static str> {
    if values.iter().any(|value| value.starts_with(USERS_FILE_SYSTEM)) {
        return Err("FUSE is served by processes of users, and never trusted");
    }
    Ok(values.iter().copied().map(str::to_owned).collect())
}

fn mount_point(text: &str) -> Result<PathBuf, &'static str> {
    let path = plain_path(text)
        .ok_or("a mount point is an absolute path below `/`, without `.`, `..`, or `//`")?;
    if CLOSED.iter().any(|closed| path.starts_with(closed)) {
        return Err("nothing may be mounted below /dev, /proc, /run and /sys");
    }
    Ok(path)
}

fn root_bind(text: &str) -> Result<PathBuf, &'static str> {
    let path = plain_path(text)
        .ok_or("what is seen is an absolute path below `/`, without `.`, `..`, or `//`")?;
    if KERNEL.iter().any(|place| path.starts_with(place)) {
        return Err("/dev, /proc and /sys are seen in any case");
    }
    Ok(path)
}

fn plain_path(text: &str) -> Option<PathBuf> {
    let path = Path::new(text);
    let mut components = path.components();
    let is_plain = components.next() == Some(Component::RootDir)
        && components.all(|component| matches!(component, Component::Normal(_)))
        && path.components().collect::<PathBuf>().as_os_str() == path.as_os_str();
    (is_plain && text != "/").then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        Policy::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn every_setting_is_read() {
        let text = "# ours\nmount-point /user-environment # usual\n\nmount-point /a/b\n\
                    image-owners root 4711\nimage-filesystems ext4 lustre\nimages-per-user 3\nfuse-images no\nverified-images /a/list\nverified-signatures yes\nidle-seconds 0\nroot-images yes\nroot-bind /scratch\nstage-memory 2\n\
                    stage-local 3 /scratch/cabane\nunpacked-images /disk/unpacked\n";
        let expected = Policy {
            mount_points: vec!["/user-environment".into(), "/a/b".into()],
            image_owners: ImageOwners::Listed(vec![0, 4711]),
            image_filesystems: Some(vec!["ext4".into(), "lustre".into()]),
            fuse_images: false,
            verified_images: "/a/list".into(),
            verified_signatures: true,
            images_per_user: 3,
            idle: Duration::ZERO,
            root_images: true,
            root_binds: vec!["/scratch".into()],
            stage_memory: Some(2 << 20),
            stage_local: Some(LocalStage { directory: "/scratch/cabane".into(), limit: 3 << 20 }),
            unpacked_images: "/disk/unpacked".into(),
        };
        assert_eq!(Policy::parse(text), Ok(expected));
    }

    #[test]
    fn an_empty_policy_allows_no_mount_point_and_only_roots_images() {
        let policy = Policy::parse("").unwrap();
        assert!(
            policy.mount_points.is_empty()
                && policy.allows_image(0, 0o644)
                && !policy.allows_image(1, 0o644)
        );
    }

    #[test]
    fn file_systems_of_users_are_trusted_by_no_policy() {
        let policies =
            ["", "image-filesystems ext4 overlay\n"].map(|text| Policy::parse(text).unwrap());
        let trusted = |kind| policies.each_ref().map(|policy| policy.allows_file_system(kind));
        assert_eq!(trusted("fuse"), [false; 2]);
        assert_eq!(trusted("ext4"), [true; 2]);
        assert_eq!(trusted("nfs4"), [true, false]);
    }

    #[test]
    fn an_image_that_others_can_write_is_not_trusted() {
        let policy = Policy::parse("image-owners root\n").unwrap();
        assert!(!policy.allows_image(0, 0o664) && !policy.allows_image(0, 0o646));
    }

    #[test]
    fn a_mount_point_is_allowed_by_its_exact_spelling_only() {
        let policy = Policy::parse("mount-point /a/b\n").unwrap();
        let allowed = ["/a/b", "/a", "/a/b/", "/a/b/c", "/a/./b", "/a//b", "a/b", "/a/c/../b"]
            .map(|path| policy.allows_mount_point(Path::new(path)));
        assert_eq!(allowed, [true, false, false, false, false, false, false, false]);
    }

    #[test]
    fn what_is_not_understood_voids_the_policy() {
        let texts = [
            "mount-point",
            "mount-point relative",
            "mount-point /a/../etc",
            "mount-point /a/",
            "mount-point /",
            "mount-point /proc/self",
            "image-owners",
            "image-owners alice",
            "image-owners any root",
            "image-filesystems",
            "image-filesystems ext4 fuse.sshfs",
            "image-filesystems ext4\nimage-filesystems xfs",
            "images-per-user -1",
            "idle-seconds 1\nidle-seconds 2",
            "mount-points /a",
            "verified-images",
            "verified-images list",
            "verified-signatures perhaps",
            "root-images",
            "root-images perhaps",
            "root-bind",
            "root-bind scratch",
            "root-bind /dev/shm",
            "stage-memory",
            "stage-memory much",
            "stage-local 1",
            "stage-local /a 1",
            "stage-local 1 a",
            "unpacked-images",
            "unpacked-images unpacked",
            "unpacked-images /a/../b",
            "unpacked-images /a\nunpacked-images /b",
        ];
        let understood: Vec<_> =
            texts.iter().filter(|text| Policy::parse(&format!("{text}\n")).is_ok()).collect();
        assert!(understood.is_empty(), "{understood:?}");
    }

    #[test]
    fn a_policy_that_is_half_written_is_void() {
        assert_eq!(
            problem("mount-point /a\nimage-owners 10"),
            "line 2: the last line has no end: the file may be half written"
        );
    }

    #[test]
    fn a_mistake_is_named_with_its_line() {
        assert_eq!(
            problem("mount-point /a\n\nmount-point b\n"),
            "line 3: a mount point is an absolute path below `/`, without `.`, `..`, or `//`"
        );
    }
}
