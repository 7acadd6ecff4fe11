// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Starting a command through the set-uid helper.
//!
//! This process opens the images with the rights of the user and says what it wants;
//! then it becomes the helper, which mounts and becomes the command.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use cabane_mount::helper::Helper;
use cabane_mount::{
    ImageFile, MountPlan, Operation, Place, Request, RequestedBind, RequestedImage,
    RequestedUnpacked, RequestedVerity, StartRequest, Way, check_image, variable,
};
use cabane_report::{Kind, Report, Result};
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create, open};
use rustix::io::{FdFlags, fcntl_setfd};

use crate::served::wait_behind;

/// Where the command starts.
pub(crate) enum WorkingDirectory {
    /// There, or not at all.
    Must(PathBuf),
    /// There if that is possible.
    May(Option<PathBuf>),
}

fn not_through(helper: &Path, source: io::Error) -> Report {
    let message = format!("cannot mount through {}", helper.display());
    Report::caused(Kind::NotStarted, message, source)
}

/// Becomes the helper, which becomes the command.
///
/// # Errors
///
/// That this fails. The helper itself reports later errors.
pub(crate) fn become_helper(
    helper: &Path,
    plan: &MountPlan,
    place: Place,
    command: Vec<OsString>,
    variables: &BTreeMap<OsString, OsString>,
    working_directory: WorkingDirectory,
    when_begun: impl FnOnce(),
) -> Result<Infallible> {
    let failed = |source| not_through(helper, source);
    let (must_enter, directory) = match working_directory {
        WorkingDirectory::Must(path) => (true, Some(path)),
        WorkingDirectory::May(path) => (false, path),
    };
    let places = Places::open(plan).map_err(failed)?;
    let waiting = match plan.served().next() {
        Some(_) => wait_behind(plan, when_begun).map_err(failed)?,
        None => Vec::new(),
    };
    let request = Request::Start(StartRequest {
        place,
        images: images_of(plan, &waiting).map_err(failed)?,
        unpacked: unpacked_of(plan),
        binds: places.requested,
        lines: lines_of(plan),
        must_enter,
        // One that is outside of everything to be seen begins with a remark.
        working_directory: directory.filter(|path| path.is_absolute()),
        command,
        variables: variables.iter().map(|(name, value)| variable(name, value)).collect(),
    });
    let file = written_down(&request).map_err(failed)?;
    Err(failed(called(helper, &file).exec()))
}

/// Asks the helper to give up unused images of the user.
///
/// # Errors
///
/// It cannot be started, or says no.
pub fn clean_through(helper: &Path) -> Result<()> {
    let failed = |source| not_through(helper, source);
    let file = written_down(&Request::Clean).map_err(failed)?;
    let status = called(helper, &file).status().map_err(failed)?;
    if status.success() { Ok(()) } else { Err(failed(io::Error::other(status.to_string()))) }
}

/// Lets the helper start `true` with no image, and returns what it printed if it did not.
/// Nothing stays behind.
///
/// # Errors
///
/// It cannot be started, or says no.
pub fn try_helper(helper: &Path) -> Result<()> {
    let failed = |source| not_through(helper, source);
    let request = Request::Start(StartRequest {
        command: vec!["/bin/true".into()],
        ..StartRequest::default()
    });
    let request = written_down(&request).map_err(failed)?;
    let output = called(helper, &request).output().map_err(failed)?;
    if output.status.success() { Ok(()) } else { Err(failed(refusal(&output.stderr))) }
}

/// The first lines that the helper wrote, as one.
fn refusal(messages: &[u8]) -> io::Error {
    let messages = String::from_utf8_lossy(messages);
    let lines = messages
        .lines()
        .take_while(|line| !line.starts_with("hint: "))
        .map(|line| line.trim_start_matches("error: ").trim_start_matches("cause: "));
    io::Error::other(lines.collect::<Vec<_>>().join(": "))
}

/// An image that the helper has mounted for a process of ours, which waits.
#[derive(Debug)]
pub(crate) struct Held {
    /// The root of the image.
    pub(crate) root: OwnedFd,
    process: Child,
}

impl Held {
    /// Mounts an image at any mount point of the policy: no one else sees it there.
    ///
    /// # Errors
    ///
    /// Why that cannot be.
    pub(crate) fn mount(helper: &Helper, image: &ImageFile) -> io::Result<Self> {
        let mount_point = helper.any_mount_point();
        let mount_point = mount_point.ok_or(io::ErrorKind::Unsupported)?;
        check_image(&helper.policy, image.file.as_fd(), &image.path).map_err(io::Error::other)?;
        // It ends with its standard input, and so with this process.
        let command = ["/bin/sh", "-c", "echo; read _"].map(OsString::from);
        let request = Request::Start(StartRequest {
            images: vec![request_for(image, mount_point, Way::Kernel, image.file.as_fd())?],
            command: command.into(),
            variables: vec!["PATH=/usr/bin:/bin".into()],
            ..StartRequest::default()
        });
        let request = written_down(&request)?;
        let mut process = called(&helper.path, &request)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let root = wait_for(&mut process).and_then(|()| {
            let mut path = OsString::from(format!("/proc/{}/root", process.id()));
            path.push(mount_point);
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            Ok(open(Path::new(&path), flags, Mode::empty())?)
        });
        fcntl_setfd(&image.file, FdFlags::CLOEXEC)?;
        match root {
            Ok(root) => Ok(Self { root, process }),
            Err(error) => {
                end(&mut process);
                Err(error)
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

/// Waits until the command has begun, and everything is mounted.
fn wait_for(process: &mut Child) -> io::Result<()> {
    let mut byte = [0];
    let begun = match &mut process.stdout {
        Some(output) => output.read(&mut byte)? == 1,
        None => false,
    };
    if begun {
        return Ok(());
    }
    let mut messages = Vec::new();
    if let Some(errors) = &mut process.stderr {
        errors.read_to_end(&mut messages)?;
    }
    Err(refusal(&messages))
}

fn end(process: &mut Child) {
    drop(process.stdin.take());
    // It has ended by itself, or does so now.
    let _ = process.wait();
}

/// Returns the images as they are requested, the served ones with the sockets of those who wait.
fn images_of(plan: &MountPlan, waiting: &[OwnedFd]) -> io::Result<Vec<RequestedImage>> {
    let mut waiting = waiting.iter();
    let mut images = Vec::with_capacity(plan.operations.len());
    for operation in &plan.operations {
        let Some(image) = operation.image() else {
            continue;
        };
        let way = operation.way();
        let descriptor = match way {
            Way::Unpacked(_) => continue,
            Way::Fuse => waiting.next().ok_or(io::ErrorKind::NotConnected)?.as_fd(),
            Way::Kernel | Way::Verified => image.file.as_fd(),
        };
        images.push(request_for(image, operation.target(), way, descriptor)?);
    }
    Ok(images)
}

/// Returns the images that root has unpacked. The helper looks for them itself.
fn unpacked_of(plan: &MountPlan) -> Vec<RequestedUnpacked> {
    let unpacked = plan.operations.iter().filter_map(|operation| match operation.way() {
        Way::Unpacked(digest) => {
            Some(RequestedUnpacked { digest, mount_point: operation.target().to_owned() })
        }
        _ => None,
    });
    unpacked.collect()
}

/// What is seen in a root image, opened with the rights of the user.
#[derive(Default)]
struct Places {
    requested: Vec<RequestedBind>,
    /// Open until this process has become the helper.
    opened: Vec<OwnedFd>,
}

impl Places {
    fn open(plan: &MountPlan) -> io::Result<Self> {
        let mut places = Self::default();
        for operation in &plan.operations {
            if let Operation::Bind { source, target, read_only } = operation {
                // Not closed on exec, and nothing but a place.
                let place = open(source, OFlags::PATH, Mode::empty())?;
                places.requested.push(RequestedBind {
                    descriptor: place.as_raw_fd(),
                    read_only: *read_only,
                    target: target.clone(),
                });
                places.opened.push(place);
            }
        }
        Ok(places)
    }
}

fn lines_of(plan: &MountPlan) -> Vec<(PathBuf, String)> {
    let lines = plan.operations.iter().filter_map(|operation| match operation {
        Operation::Extend { file, lines } => Some((file.clone(), lines.clone())),
        _ => None,
    });
    lines.collect()
}

fn request_for(
    image: &ImageFile,
    mount_point: &Path,
    way: Way,
    descriptor: BorrowedFd<'_>,
) -> io::Result<RequestedImage> {
    // The helper is another program, and gets only what stays open.
    fcntl_setfd(descriptor, FdFlags::empty())?;
    let verity = image.verity.as_ref().filter(|_| way == Way::Verified).map(|verity| {
        fcntl_setfd(&verity.tree, FdFlags::empty())?;
        let (root_hash, signature) = (verity.root_hash.clone(), verity.signature.clone());
        io::Result::Ok(RequestedVerity { tree: verity.tree.as_raw_fd(), root_hash, signature })
    });
    Ok(RequestedImage {
        way,
        descriptor: descriptor.as_raw_fd(),
        format: image.format,
        mount_point: mount_point.to_owned(),
        name: image.path.clone().into_os_string(),
        verity: verity.transpose()?,
    })
}

/// A file in memory with the request.
fn written_down(request: &Request) -> io::Result<File> {
    let bytes =
        request.encode().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > Request::MAX_SIZE) {
        return Err(io::ErrorKind::ArgumentListTooLong.into());
    }
    let name = CString::new(cabane_mount::helper::NAME)?;
    let mut file = File::from(memfd_create(name, MemfdFlags::empty())?);
    file.write_all(&bytes)?;
    Ok(file)
}

fn called(helper: &Path, request: &File) -> Command {
    let mut command = Command::new(helper);
    command.arg(request.as_fd().as_raw_fd().to_string()).env_clear();
    command
}
