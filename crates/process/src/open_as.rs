// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Opening what a user names, out of a process with the rights of root.
//!
//! On the way to a file a user can let others wait: on a file system that one of their processes
//! serves, every look-up takes as long as they like, and a process of root in it cannot be ended.
//! So a child becomes the user, opens, and hands the descriptors back; its parent waits for
//! a limited time.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::{Signal, WaitOptions, kill_process, waitpid};

use crate::as_user::{User, become_user};
use crate::copy::run_in_copy;

/// What was opened.
#[derive(Debug)]
pub struct Opened {
    /// The descriptor, which is only a place (`O_PATH`): no request goes to the file system, not
    /// even when it is closed. It is closed when this process starts a program.
    pub file: OwnedFd,
    /// The type and the permissions, as the user saw them.
    pub mode: u32,
}

/// Opens places whose whole path the kernel has in memory, with the rights of the calling thread. No
/// file system is asked anything, so nothing can take long (`openat2(2)`, `RESOLVE_CACHED`).
///
/// Returns nothing if that is not so of all of them. What is known to be missing is an error in the
/// result, as with [`open_as`].
#[must_use]
pub fn open_cached(named: &[PathBuf]) -> Option<Vec<Result<OwnedFd, Errno>>> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let how = ResolveFlags::NO_MAGICLINKS | ResolveFlags::CACHED;
    let open = |path: &PathBuf| match openat2(CWD, path, flags, Mode::empty(), how) {
        Ok(file) => Some(Ok(file)),
        Err(Errno::NOENT) => Some(Err(Errno::NOENT)),
        Err(_) => None,
    };
    named.iter().map(open).collect()
}

/// Opens places that a user names, as the user, and waits for no more than `limit`. No link of
/// `/proc` to the descriptors of a process is followed.
///
/// # Errors
///
/// Those of fork, of taking the user's numbers, and `TimedOut`. Files that cannot be opened
/// have an error each in the result.
pub fn open_as(
    user: &User,
    named: &[PathBuf],
    limit: Duration,
) -> io::Result<Vec<Result<Opened, Errno>>> {
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    // SAFETY: the child makes system calls, allocates, and ends with the closure.
    let child = unsafe { run_in_copy(|| open_all(user, named, theirs.as_fd())) }?;
    drop(theirs);
    let received = receive_all(ours.as_fd(), named.len(), Instant::now() + limit);
    // It has ended, or waits for something that may never come. Then it is left to the
    // kernel, which reaps it for its parent in the end.
    let _ = kill_process(child, Signal::KILL);
    let options = if received.is_ok() { WaitOptions::empty() } else { WaitOptions::NOHANG };
    while waitpid(Some(child), options).is_err_and(|errno| errno == Errno::INTR) {}
    received
}

fn open_all(user: &User, named: &[PathBuf], socket: BorrowedFd<'_>) {
    if let Err(error) = become_user(user) {
        let errno = error.raw_os_error().unwrap_or(Errno::PERM.raw_os_error());
        let _ = send(socket, &Err(Errno::from_raw_os_error(errno)));
        return;
    }
    for one in named {
        if send(socket, &open(one)).is_err() {
            return;
        }
    }
}

fn open(path: &Path) -> Result<Opened, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let no_links = ResolveFlags::NO_MAGICLINKS;
    let file = openat2(CWD, path, flags, Mode::empty(), no_links)?;
    let mode = fstat(&file)?.st_mode;
    Ok(Opened { file, mode })
}

/// Sends an error number or none, the mode, and the descriptor if there is one.
fn send(socket: BorrowedFd<'_>, opened: &Result<Opened, Errno>) -> Result<(), Errno> {
    let (errno, mode) = match opened {
        Ok(opened) => (0, opened.mode),
        Err(errno) => (errno.raw_os_error(), 0),
    };
    let bytes = [errno.to_ne_bytes(), mode.to_ne_bytes()].concat();
    let files: Vec<BorrowedFd<'_>> = opened.iter().map(|opened| opened.file.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&files));
    }
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn receive_all(
    socket: BorrowedFd<'_>,
    count: usize,
    end: Instant,
) -> io::Result<Vec<Result<Opened, Errno>>> {
    (0..count).map(|_| receive(socket, end)).collect()
}

fn receive(socket: BorrowedFd<'_>, end: Instant) -> io::Result<Result<Opened, Errno>> {
    let left = end.saturating_duration_since(Instant::now());
    let left = Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(left.subsec_nanos()),
    };
    match poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&left)) {
        Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
        Err(Errno::INTR) => return receive(socket, end),
        ready => ready?,
    };
    let mut bytes = [0; 8];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let answer = recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    if answer.bytes != bytes.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let file = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    let [a, b, c, d, mode @ ..] = bytes;
    let errno = i32::from_ne_bytes([a, b, c, d]);
    Ok(match file {
        Some(file) => Ok(Opened { file, mode: u32::from_ne_bytes(mode) }),
        None => Err(Errno::from_raw_os_error(errno)),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use rustix::process::geteuid;

    use super::*;

    #[test]
    fn what_was_looked_up_is_opened_at_once() {
        let named = [PathBuf::from("/etc/passwd"), "/etc".into(), "/nonexistent".into()];
        for one in &named {
            let _ = fs::metadata(one);
        }
        let magic = [PathBuf::from("/proc/self/fd/0")];
        let Some(found) = open_cached(&named) else {
            cabane_testkit::not_run!("RESOLVE_CACHED needs Linux 5.12");
        };
        let found: Vec<_> = found.iter().map(Result::is_ok).collect();
        assert_eq!((found, open_cached(&magic).is_none()), (vec![true, true, false], true));
    }

    const USER: User = User { user: 61234, group: 61235, groups: Vec::new() };

    #[test]
    fn what_the_user_may_not_open_is_reported_one_by_one() {
        if !geteuid().is_root() {
            cabane_testkit::not_run!("only root can become another user");
        }
        let closed = std::env::temp_dir().join(format!("open-as-{}", std::process::id()));
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
        let wanted = [
            PathBuf::from("/etc/shadow"),
            closed.join("file"),
            closed.clone(),
            "/nonexistent".into(),
            "/proc/self/fd/0".into(),
            "/etc".into(),
        ];
        let found = open_as(&USER, &wanted, Duration::from_secs(60)).unwrap();
        fs::remove_dir(&closed).unwrap();
        let answers: Vec<_> =
            found.iter().map(|one| one.as_ref().map(|_| ()).map_err(|errno| *errno)).collect();
        assert_eq!(
            answers,
            [Ok(()), Err(Errno::ACCESS), Ok(()), Err(Errno::NOENT), Err(Errno::LOOP), Ok(())]
        );
        let directory = found.last().unwrap().as_ref().unwrap();
        assert_eq!(directory.mode & 0o170_000, 0o040_000);
    }
}
