// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A start as an attacker writes it: any request, any descriptors, any surroundings.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, IntoRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use cabane_mount::{
    ImageFormat, Place, Request, RequestedBind, RequestedImage, RequestedVerity, StartRequest, Way,
};
use cabane_process::child::prepare_child;
use cabane_testkit::{Finished, ORDINARY_USER, is_root};
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::arena::Arena;

/// The descriptor of the request; those of the images follow.
pub(crate) const REQUEST: RawFd = 950;

type Step = Arc<dyn Fn() -> io::Result<()> + Send + Sync>;

/// A start that can be bent in every way.
#[derive(Clone)]
pub(crate) struct Start<'a> {
    arena: &'a Arena,
    /// What is requested.
    pub(crate) request: StartRequest,
    user: u32,
    groups: Vec<u32>,
    wrapper: Vec<OsString>,
    steps: Vec<Step>,
    bytes: Option<Vec<u8>>,
}

impl<'a> Start<'a> {
    pub(crate) fn new(arena: &'a Arena) -> Self {
        Self {
            arena,
            request: StartRequest {
                working_directory: Some("/".into()),
                command: vec!["true".into()],
                variables: vec!["PATH=/usr/bin:/bin:/usr/sbin:/sbin".into()],
                ..StartRequest::default()
            },
            user: ORDINARY_USER,
            groups: Vec::new(),
            wrapper: Vec::new(),
            steps: Vec::new(),
            bytes: None,
        }
    }

    /// Another user than the usual one; it takes root to become one.
    pub(crate) fn user(mut self, user: u32) -> Self {
        self.user = user;
        self
    }

    pub(crate) fn groups(mut self, groups: &[u32]) -> Self {
        self.groups = groups.to_vec();
        self
    }

    /// The user opens a file for reading, and asks for its image.
    pub(crate) fn image(self, image: &Path, mount_point: &Path) -> Self {
        self.image_opened(image, OFlags::RDONLY, mount_point)
    }

    /// The user opens a file in another way.
    pub(crate) fn image_opened(self, image: &Path, flags: OFlags, mount_point: &Path) -> Self {
        let path = image.to_owned();
        let number = self.next();
        self.before(move || hold(rustix::fs::open(&path, flags, Mode::empty())?, number)).image_at(
            number,
            image,
            mount_point,
        )
    }

    /// A descriptor that the test has opened.
    pub(crate) fn image_given(self, file: impl Into<OwnedFd>, mount_point: &Path) -> Self {
        let number = self.next();
        self.give(file, number).image_at(number, Path::new("given"), mount_point)
    }

    /// An image by the number of its descriptor, whatever that is.
    pub(crate) fn image_at(mut self, number: RawFd, name: &Path, mount_point: &Path) -> Self {
        let is_erofs = name.extension() == Some(OsStr::new("erofs"));
        self.request.images.push(RequestedImage {
            way: Way::Kernel,
            descriptor: number,
            format: if is_erofs { ImageFormat::Erofs } else { ImageFormat::Squashfs },
            mount_point: mount_point.to_owned(),
            name: name.into(),
            verity: None,
        });
        self
    }

    /// The last image, to be checked with a hash tree that the user opens, and what vouches for it.
    pub(crate) fn verified(mut self, tree: &Path, root_hash: &str, signature: &[u8]) -> Self {
        let number = self.next() + 40;
        let image = self.request.images.last_mut().unwrap();
        image.way = Way::Verified;
        image.verity = Some(RequestedVerity {
            tree: number,
            root_hash: root_hash.parse().unwrap(),
            signature: signature.to_owned(),
        });
        let path = tree.to_owned();
        self.before(move || hold(rustix::fs::open(&path, OFlags::RDONLY, Mode::empty())?, number))
    }

    /// An image that whoever has the other end of the socket is to serve.
    pub(crate) fn served(self, socket: OwnedFd, mount_point: &Path) -> Self {
        let mut start = self.image_given(socket, mount_point);
        start.request.images.last_mut().unwrap().way = Way::Fuse;
        start
    }

    /// The user opens a place, and wants it to be seen in a root image.
    pub(crate) fn bind(self, source: &Path, target: &str, read_only: bool) -> Self {
        let path = source.to_owned();
        let number = self.next();
        let mut start = self
            .before(move || hold(rustix::fs::open(&path, OFlags::PATH, Mode::empty())?, number))
            .bind_at(number, target);
        start.request.binds.last_mut().unwrap().read_only = read_only;
        start
    }

    /// A place by the number of its descriptor, whatever that is.
    pub(crate) fn bind_at(mut self, number: RawFd, target: &str) -> Self {
        self.request.binds.push(RequestedBind {
            descriptor: number,
            read_only: false,
            target: target.into(),
        });
        self
    }

    /// Lines for a text file of a root image.
    pub(crate) fn lines(mut self, file: &str, lines: &str) -> Self {
        self.request.lines.push((file.into(), lines.to_owned()));
        self
    }

    /// Takes the file of the last image for one of another format.
    pub(crate) fn declared(mut self, format: ImageFormat) -> Self {
        self.request.images.last_mut().unwrap().format = format;
        self
    }

    /// Enters the mount namespace of a process first.
    pub(crate) fn entering(mut self, process: u32) -> Self {
        self.request.place = Place::In(process);
        self
    }

    fn next(&self) -> RawFd {
        let given = self.request.images.len() + self.request.binds.len();
        REQUEST + 1 + RawFd::try_from(given).unwrap()
    }

    /// Hands a descriptor of the test down.
    pub(crate) fn give(self, file: impl Into<OwnedFd>, number: RawFd) -> Self {
        let file = Arc::new(file.into());
        self.before(move || hold(rustix::io::dup(file.as_fd())?, number))
    }

    /// What the user's process does before it becomes the helper.
    pub(crate) fn before(
        mut self,
        step: impl Fn() -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.steps.push(Arc::new(step));
        self
    }

    /// A program of the user that starts the helper in its turn.
    pub(crate) fn through(mut self, arguments: &[&str]) -> Self {
        self.wrapper.extend(arguments.iter().map(OsString::from));
        self
    }

    /// A script of the user; `"$@"` in it is the helper.
    pub(crate) fn through_script(self, script: &str) -> Self {
        self.through(&["/bin/sh", "-c", script, "sh"])
    }

    /// The command, as a script.
    pub(crate) fn script(mut self, script: &str) -> Self {
        self.request.command = ["/bin/sh", "-c", script].map(OsString::from).into();
        self
    }

    pub(crate) fn command(mut self, arguments: &[&str]) -> Self {
        self.request.command = arguments.iter().map(OsString::from).collect();
        self
    }

    pub(crate) fn variables(mut self, variables: &[&str]) -> Self {
        self.request.variables = variables.iter().map(OsString::from).collect();
        self
    }

    /// Says other bytes than a request.
    pub(crate) fn bytes(mut self, bytes: Vec<u8>) -> Self {
        self.bytes = Some(bytes);
        self
    }

    fn prepared(&self, helper: &Path, argument: &str) -> Command {
        self.prepared_with(&[helper.into(), argument.into()])
    }

    fn prepared_with(&self, last: &[OsString]) -> Command {
        let bytes = self.bytes.clone();
        let request = || Request::Start(self.request.clone()).encode().unwrap();
        let file = request_file(&bytes.unwrap_or_else(request));
        let (user, groups, steps) = (self.user, self.groups.clone(), self.steps.clone());
        let mut arguments = self.wrapper.clone();
        arguments.extend_from_slice(last);
        let mut command = Command::new(&arguments[0]);
        command
            .args(&arguments[1..])
            .env_clear()
            .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
            .current_dir(self.arena.world.path("work"))
            .stdin(Stdio::null());
        prepare_child(&mut command, move || {
            become_user(user, &groups)?;
            hold(rustix::io::dup(file.as_fd())?, REQUEST)?;
            steps.iter().try_for_each(|step| step())
        });
        command
    }

    /// The process, ready to be started.
    pub(crate) fn process(&self) -> Command {
        self.prepared(&self.arena.helper, &REQUEST.to_string())
    }

    /// Starts the command without the helper, to compare.
    pub(crate) fn finish_directly(&self) -> Finished {
        Finished::of(&mut self.process_directly())
    }

    /// The process of the command without the helper.
    pub(crate) fn process_directly(&self) -> Command {
        let mut direct = self.clone();
        let arguments = &self.request.command;
        let (last, others) = arguments.split_last().unwrap();
        direct.wrapper.extend(others.iter().cloned());
        direct.prepared_with(std::slice::from_ref(last))
    }

    /// Starts another program than the helper, or the helper with another argument.
    pub(crate) fn finish_as(&self, helper: &Path, argument: &str) -> Finished {
        Finished::of(&mut self.prepared(helper, argument))
    }

    /// Starts, and waits for the end.
    pub(crate) fn finish(&self) -> Finished {
        Finished::of(&mut self.process())
    }

    /// Starts, and does not wait. What is reported can be read from the child.
    pub(crate) fn spawn(&self) -> Child {
        let mut command = self.process();
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Asks for unused images to be given up.
    pub(crate) fn clean(self) -> Finished {
        self.bytes(Request::Clean.encode().unwrap()).finish()
    }
}

fn request_file(bytes: &[u8]) -> OwnedFd {
    let mut file = File::from(memfd_create("request", MemfdFlags::CLOEXEC).unwrap());
    file.write_all(bytes).unwrap();
    file.into()
}

/// Becomes a user for good; for threads and for processes before they start a program.
pub(crate) fn become_user(user: u32, groups: &[u32]) -> io::Result<()> {
    if !is_root() {
        return Ok(());
    }
    let groups: Vec<Gid> = groups.iter().copied().map(Gid::from_raw).collect();
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    set_thread_groups(&groups)?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    Ok(())
}

/// Leaves a descriptor open at a number, for the program that is started next.
#[expect(clippy::needless_pass_by_value, reason = "it ends with the call, as the caller wants")]
pub(crate) fn hold(file: OwnedFd, number: RawFd) -> io::Result<()> {
    let is_there = hold_from(&file, number)? == number;
    is_there.then_some(()).ok_or_else(|| io::ErrorKind::AddrInUse.into())
}

/// Leaves a descriptor open at that number or the next one that is free.
pub(crate) fn hold_from(file: &OwnedFd, number: RawFd) -> io::Result<RawFd> {
    let copy = fcntl_dupfd_cloexec(file, number)?;
    fcntl_setfd(&copy, FdFlags::empty())?;
    Ok(copy.into_raw_fd())
}

/// Checks that the helper refused with this text.
#[track_caller]
pub(crate) fn assert_refused(finished: &Finished, reason: &str) {
    assert!(
        finished.code == 125 && finished.stderr.contains(reason) && finished.stdout.is_empty(),
        "should be refused with `{reason}`: {finished:?}"
    );
}

/// Where nothing is, for paths that do not matter.
pub(crate) fn nowhere() -> PathBuf {
    "/nonexistent".into()
}
