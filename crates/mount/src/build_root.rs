// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The root file system of an image while commands run in it that change it.
//!
//! ```text
//! upper        what the command changes: a directory
//! lower N…1    what the commands before it have changed
//! image        read-only
//! ```
//!
//! Nothing of the host is in it but a few device nodes: `/tmp` and `/run` are private, and there is
//! no home directory. All of it happens in a user namespace with one user, also for root: the process
//! is root there, and has no rights outside.

use std::ffi::CString;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use cabane_privileged::ImageFile;
use cabane_privileged::operations::{
    attach, change_root, clone_at, detach, enter_own_namespace, make_read_only, memory,
};
use cabane_privileged::shadow::{open_source, scratch};
use cabane_process::confine;
use rustix::fs::CWD;
use rustix::mount::{MountFlags, mount};
use rustix::process::chdir;

use crate::backend::enter_private_namespace_as_root;
use crate::{Backend, Error, FusePrograms, fuse, image};

/// Device nodes that programs expect and that hold nothing of the host.
const NODES: [&str; 5] = ["full", "null", "random", "urandom", "zero"];
/// Links in `/dev`.
const LINKS: [(&str, &str); 4] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];
/// Where `/proc` of the host is until there is another one: without it the kernel mounts none.
const HOST_KERNEL: &str = "/run/cabane-proc";
/// How many user namespaces may be made: in one of its own a command has all rights again.
const USER_NAMESPACES: &str = "/proc/sys/user/max_user_namespaces";
/// Parts of `/proc` that change the system, or show it. The kernel may take a process for root here.
const OF_SYSTEM: [&str; 7] = ["acpi", "bus", "fs", "irq", "scsi", "sys", "sysrq-trigger"];

/// The root file system in which commands run.
#[derive(Debug)]
pub struct BuildRoot {
    /// How the image is mounted.
    pub backend: Backend,
    /// The programs that serve it where the kernel may not.
    pub fuse: FusePrograms,
    /// The image; lowest of all.
    pub image: ImageFile,
    /// Layers on it that are not changed any more, the lowest first: directories as overlayfs leaves
    /// them.
    pub lower: Vec<PathBuf>,
    /// Where changes go: a directory with `upper` and `work`, both empty. Without it nothing can be
    /// changed.
    pub layer: Option<PathBuf>,
    /// What is `/tmp`.
    pub tmp: PathBuf,
    /// Files that are seen in the place of those of the image: the place, and the file.
    pub files: Vec<(PathBuf, PathBuf)>,
    /// Whether the network of the host can be used.
    pub network: bool,
}

/// What is attached in the new root, opened while the old one was there.
struct Opened {
    kernel: OwnedFd,
    tmp: OwnedFd,
    nodes: Vec<(&'static str, OwnedFd)>,
    files: Vec<(PathBuf, OwnedFd)>,
}

impl BuildRoot {
    /// Makes it the root of this process, which must have one thread.
    ///
    /// The process is root in a user namespace of its own then, and has all rights there. To be used for
    /// commands, [`confine`](Self::confine) comes next.
    ///
    /// # Errors
    ///
    /// The first step that failed. The process must not go on then.
    pub fn enter(&self) -> Result<(), Error> {
        let from_kernel = match self.backend {
            Backend::Root => {
                enter_own_namespace()?;
                Some(image::attach(Backend::Root, &self.image, &self.fuse)?)
            }
            Backend::Helper | Backend::UserNamespace => None,
        };
        enter_private_namespace_as_root()?;
        let image = if let Some(image) = from_kernel {
            image
        } else {
            let mount = fuse::attach(&self.image, &self.fuse)?;
            // The program that serves it stays behind in the namespace left here.
            enter_own_namespace()?;
            mount
        };
        confine::leave_host(self.network).map_err(|source| {
            let what = "leave the host name and the network of the host for";
            Error::Mount(cabane_privileged::Error::Step { what, path: "/".into(), source })
        })?;
        let opened = self.open()?;
        self.change_root(&image)?;
        // Who only looks needs nothing of it.
        if self.layer.is_some() { furnish(opened) } else { Ok(()) }
    }

    /// Opens what is on the host.
    fn open(&self) -> Result<Opened, Error> {
        let node = |name: &&'static str| {
            let clone = clone_at(CWD, Path::new("/dev").join(name), false);
            Ok((*name, clone.map_err(Error::step("bind", Path::new("/dev").join(name)))?))
        };
        let file = |(place, file): &(PathBuf, PathBuf)| {
            // Often a link to what a service writes.
            let real = fs::canonicalize(file).unwrap_or_else(|_| file.clone());
            Ok((place.clone(), open_source(&real)?))
        };
        Ok(Opened {
            kernel: open_source(Path::new("/proc"))?,
            tmp: open_source(&self.tmp)?,
            nodes: NODES.iter().map(node).collect::<Result<_, Error>>()?,
            files: self.files.iter().map(file).collect::<Result<_, Error>>()?,
        })
    }

    /// Puts the layers on top of each other, and makes them the root.
    fn change_root(&self, image: &OwnedFd) -> Result<(), Error> {
        let lower = self.lower.iter().map(|one| open_source(one));
        let lower: Vec<OwnedFd> = lower.collect::<Result<_, _>>()?;
        let layer = self.layer.as_deref().map(open_source).transpose()?;
        let place = scratch()?;
        let cover = memory("0755", None)
            .map_err(Error::step("make a file system in memory for", &place))?;
        attach(&cover, &place)?;
        // The kernel takes a page of names at most, so that they are short.
        let mut names = Vec::new();
        for (number, mount) in std::iter::once(image).chain(&lower).enumerate() {
            let name = number.to_string();
            make_directory(&place.join(&name))?;
            attach(mount, &place.join(&name))?;
            names.push(name);
        }
        names.reverse();
        let root = match (&layer, names.len()) {
            (None, 1) => place.join("0"),
            _ => place.join("root"),
        };
        if let Some(layer) = &layer {
            make_directory(&place.join("layer"))?;
            attach(layer, &place.join("layer"))?;
        }
        if layer.is_some() || names.len() > 1 {
            make_directory(&root)?;
            chdir(&place).map_err(Error::step("change into", &place))?;
            self.overlay(&names)?;
        }
        Ok(change_root(&root)?)
    }

    /// Mounts the overlay in the working directory.
    fn overlay(&self, names: &[String]) -> Result<(), Error> {
        let mut options = format!("userxattr,lowerdir={}", names.join(":"));
        if self.layer.is_some() {
            options.push_str(",upperdir=layer/upper,workdir=layer/work");
        }
        let path = self.layer.clone().unwrap_or_else(|| PathBuf::from("/"));
        let failed = |source: io::Error| Error::Overlay { path, source };
        let options = match CString::new(options) {
            Ok(options) => options,
            Err(error) => return Err(failed(error.into())),
        };
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("cabane", "root", "overlay", flags, options.as_c_str())
            .map_err(|errno| failed(errno.into()))
    }

    /// Takes the rights away that the process needs to mount. It must be in a namespace for processes
    /// of its own, with its `/proc`.
    ///
    /// # Errors
    ///
    /// The kernel's; the process must not start a program then.
    pub fn confine() -> Result<(), Error> {
        let old = Path::new(HOST_KERNEL);
        detach(CWD, old).map_err(Error::step("uncover", old))?;
        fs::remove_dir(old).map_err(not_made(old))?;
        let limit = Path::new(USER_NAMESPACES);
        if limit.exists() {
            fs::write(limit, "0").map_err(not_made(limit))?;
        }
        for name in OF_SYSTEM {
            let path = Path::new("/proc").join(name);
            if path.exists() {
                let clone = clone_at(CWD, &path, false).map_err(Error::step("bind", &path))?;
                attach(&clone, &path)?;
                make_read_only(&path)?;
            }
        }
        let failed = |what| {
            move |source| {
                let path = PathBuf::from("the commands");
                Error::Mount(cabane_privileged::Error::Step { what, path, source })
            }
        };
        rustix::thread::set_no_new_privs(true)
            .map_err(Error::step("give up gaining privileges for", "the commands"))?;
        confine::leave_keys().map_err(failed("leave the keys of the caller for"))?;
        confine::keep_few_capabilities().map_err(failed("give up capabilities for"))?;
        confine::filter_calls().map_err(failed("filter the system calls of"))
    }
}

/// Puts what programs expect into a root.
fn furnish(opened: Opened) -> Result<(), Error> {
    for place in ["/proc", "/tmp", "/dev", "/run"] {
        make_directory(Path::new(place))?;
        let is_own = Path::new(place).symlink_metadata().is_ok_and(|found| found.is_dir());
        if !is_own {
            return Err(Error::NoDirectory { path: place.into() });
        }
    }
    attach(&opened.tmp, Path::new("/tmp"))?;
    for place in ["/dev", "/run"] {
        let cover =
            memory("0755", None).map_err(Error::step("make a file system in memory for", place))?;
        attach(&cover, Path::new(place))?;
    }
    make_directory(Path::new(HOST_KERNEL))?;
    attach(&opened.kernel, Path::new(HOST_KERNEL))?;
    for (place, mode) in [("/dev/shm", 0o1777), ("/run/lock", 0o1777)] {
        make_directory(Path::new(place))?;
        let opened_up = fs::set_permissions(place, Permissions::from_mode(mode));
        opened_up.map_err(not_made(Path::new(place)))?;
    }
    for (name, node) in opened.nodes {
        let place = Path::new("/dev").join(name);
        File::create(&place).map_err(not_made(&place))?;
        attach(&node, &place)?;
    }
    for (name, target) in LINKS {
        let place = Path::new("/dev").join(name);
        symlink(target, &place).map_err(not_made(&place))?;
    }
    for (place, file) in opened.files {
        if place.symlink_metadata().is_err() {
            File::create(&place).map_err(not_made(&place))?;
        }
        attach(&file, &place)?;
        make_read_only(&place)?;
    }
    Ok(())
}

fn make_directory(path: &Path) -> Result<(), Error> {
    match DirBuilder::new().mode(0o755).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(not_made(path)(error)),
        _ => Ok(()),
    }
}

fn not_made(path: &Path) -> impl Fn(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Mount(cabane_privileged::Error::MountPoint { path: path.clone(), source })
}
