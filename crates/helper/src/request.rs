// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Reading the request, with the rights of the caller.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{OwnedFd, RawFd};
use std::path::PathBuf;

use cabane_privileged::{
    ImageFile, Place, PrivilegedBind, PrivilegedImage, PrivilegedPlan, PrivilegedRoot, Request,
    RequestedBind, RequestedImage, RequestedVerity, StartRequest, Verity, WaitingServer, Way,
};
use rustix::fs::{FileType, fstat};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::getgid;

use crate::outcome::Failure;

/// What is to be done, with every descriptor opened anew.
pub(crate) enum Task {
    /// Give up unused images of the caller.
    Clean,
    /// Mount and start.
    Start {
        /// What is mounted.
        plan: Box<PrivilegedPlan>,
        /// The command; its images and namespace are in the plan.
        start: StartRequest,
    },
}

/// Reads the request from the descriptor that the one argument names.
pub(crate) fn read(arguments: [Option<&CStr>; 2]) -> Result<Task, Failure> {
    let [Some(number), None] = arguments else {
        return Err(Failure::Usage);
    };
    let number: RawFd =
        number.to_str().ok().and_then(|text| text.parse().ok()).ok_or(Failure::Usage)?;
    let bytes = read_whole(number).map_err(Failure::Request)?;
    let invalid = |error| Failure::Request(io::Error::new(io::ErrorKind::InvalidData, error));
    match Request::decode(&bytes).map_err(invalid)? {
        Request::Clean => Ok(Task::Clean),
        Request::Start(start) => Ok(Task::Start { plan: Box::new(plan_of(&start)?), start }),
    }
}

/// A file of limited size, read once: what is written to it later makes no difference.
fn read_whole(number: RawFd) -> io::Result<Vec<u8>> {
    let mut file = File::from(taken(number)?);
    let found = fstat(&file)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("it is no plain file"));
    }
    let size = u64::try_from(found.st_size).unwrap_or(u64::MAX);
    if size > Request::MAX_SIZE {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::new();
    io::Seek::rewind(&mut file)?;
    file.take(Request::MAX_SIZE).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn plan_of(start: &StartRequest) -> Result<PrivilegedPlan, Failure> {
    let namespace = namespace_of(start.place).map_err(|_| Failure::Process)?;
    // Who joins finds them mounted.
    let is_joining = matches!(start.place, Place::Join(..)) && namespace.is_some();
    let images = start.images.iter().filter(|_| !is_joining).map(image_of);
    let unpacked = start.unpacked.iter().filter(|_| !is_joining);
    let unpacked = unpacked
        .map(|image| Ok(PrivilegedImage::requested(image.digest, image.mount_point.clone())));
    let images = images.chain(unpacked);
    let binds = start.binds.iter().map(|bind: &RequestedBind| {
        let source = taken(bind.descriptor)?;
        let kind = FileType::from_raw_mode(fstat(&source)?.st_mode);
        Ok(PrivilegedBind {
            source,
            is_directory: kind == FileType::Directory,
            target: bind.target.clone(),
            read_only: bind.read_only,
        })
    });
    Ok(PrivilegedPlan {
        root: PrivilegedRoot {
            binds: binds.collect::<io::Result<_>>().map_err(Failure::Request)?,
            lines: start.lines.clone(),
        },
        copies: None,
        namespace,
        images: images.collect::<io::Result<_>>().map_err(Failure::Request)?,
    })
}

/// Opens the mount namespace of a process: the kernel does that only for anyone who may look into it.
fn namespace_of(place: Place) -> io::Result<Option<File>> {
    let open = |process| File::open(format!("/proc/{process}/ns/mnt"));
    match place {
        Place::Here => Ok(None),
        Place::In(process) => open(process).map(Some),
        Place::Join(process, number) => {
            let is_it = |file: &File| fstat(file).is_ok_and(|found| found.st_ino == number);
            Ok(open(process).ok().filter(is_it))
        }
    }
}

fn image_of(image: &RequestedImage) -> io::Result<PrivilegedImage> {
    let descriptor = taken(image.descriptor)?;
    let (format, mount_point) = (image.format, image.mount_point.clone());
    let path = PathBuf::from(image.name.clone());
    Ok(match image.way {
        Way::Kernel | Way::Verified => {
            let verity = image.verity.as_ref().map(verity_of).transpose()?;
            let file = ImageFile { file: File::from(descriptor), path, format, verity };
            PrivilegedImage::opened_by_caller(file, mount_point)
        }
        Way::Fuse => {
            let server = WaitingServer { socket: descriptor, path: path.clone() };
            let group = getgid().as_raw();
            PrivilegedImage::served(Box::new(server), path, format, group, mount_point)
        }
        // Those are no images that the caller opens.
        Way::Unpacked(_) => return Err(io::ErrorKind::InvalidInput.into()),
    })
}

fn verity_of(verity: &RequestedVerity) -> io::Result<Verity> {
    let (root_hash, signature) = (verity.root_hash.clone(), verity.signature.clone());
    Ok(Verity { tree: taken(verity.tree)?.into(), root_hash, signature })
}

/// Returns a descriptor of our own for one that was inherited, which the command does
/// not get.
fn taken(number: RawFd) -> io::Result<OwnedFd> {
    let inherited = cabane_sys::descriptor::inherited(number)?;
    let own = fcntl_dupfd_cloexec(inherited, 3)?;
    fcntl_setfd(inherited, FdFlags::CLOEXEC)?;
    Ok(own)
}
