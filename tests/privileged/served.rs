// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images that a process of the user serves through FUSE: it may lie, hang and end, and what it is
//! reached by may be anything.

use std::fs::File;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use cabane_mount::{ImageFormat, Place};
use cabane_process::child::prepare_child;
use cabane_testkit::ORDINARY_USER;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};

use crate::arena::{Arena, in_private_world, root};
use crate::limits::Up;
use crate::start::{assert_refused, become_user};

/// The policy as it is shipped: the kernel reads root's images only.
const SHIPPED: &str = "mount-point /mnt/a\nmount-point /mnt/a/inner\nmount-point /mnt/b\n\
                       idle-seconds 0\n";

/// Two ends of a socket: that of the helper, and that of the server.
fn socket() -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

/// Waits for the device; `None` if the helper ends without sending it.
fn device(socket: BorrowedFd<'_>) -> Option<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    recvmsg(socket, &mut [IoSliceMut::new(&mut [0])], &mut ancillary, flags).unwrap();
    ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    })
}

/// Serves an image as the user, when the helper has mounted it.
fn server(socket: OwnedFd, image: &Path) -> JoinHandle<Option<Child>> {
    let image = image.to_owned();
    spawn(move || {
        let device = device(socket.as_fd())?;
        let mut command = Command::new("squashfuse_ll");
        command.arg("-f").arg(image).arg(format!("/dev/fd/{}", device.as_raw_fd()));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let inherited = device.try_clone().unwrap();
        prepare_child(&mut command, move || {
            become_user(ORDINARY_USER, &[])?;
            Ok(fcntl_setfd(&device, FdFlags::empty())?)
        });
        let child = command.spawn().unwrap();
        drop(inherited);
        Some(child)
    })
}

/// The ordinary user's own image, which the policy does not let the kernel read.
fn own_image(arena: &Arena) -> PathBuf {
    let image = arena.image("own", ImageFormat::Squashfs);
    root(&format!("chown 61234 {}", image.display()));
    image
}

fn users_of(process: u32) -> Vec<String> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("Uid:")).unwrap();
    line.split_whitespace().skip(1).map(str::to_owned).collect()
}

#[test]
fn what_a_process_of_the_user_serves_is_read_only_and_gives_no_rights() {
    in_private_world(|arena| {
        arena.set_policy(SHIPPED);
        let image = own_image(arena);
        let (helpers, servers) = socket();
        let serving = server(servers, &image);
        let start = arena.start().served(helpers, Path::new("/mnt/a")).script(
            "cat /mnt/a/name; echo; sed -n 's/.* \\/mnt\\/a \\([^ ]*\\).* - \\([^ ]*\\) .*/\\1 \\2/p' \
             /proc/self/mountinfo; sed -n 's/^NoNewPrivs:.//p' /proc/self/status",
        );
        let finished = start.finish().success();
        assert_eq!(finished.stdout, "own\nro,nosuid,nodev,relatime fuse.squashfuse\n1\n");
        // With the last process that sees the mount, its server ends.
        assert!(serving.join().unwrap().unwrap().wait().unwrap().success());
    });
}

#[test]
fn a_server_that_never_answers_stops_a_process_without_rights_that_its_user_can_end() {
    in_private_world(|arena| {
        arena.set_policy(SHIPPED);
        let (helpers, servers) = socket();
        let image = arena.any_image();
        root(&format!("chown root {}", image.display()));
        let mut hanging = arena.start().served(helpers, Path::new("/mnt/a")).spawn();
        let device = device(servers.as_fd()).unwrap();
        let begin = Instant::now();
        while users_of(hanging.id()) != ["61234"; 4] {
            assert!(begin.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(5));
        }
        // No lock is held: another start of the same user gets on.
        let other = arena.start().image(&image, Path::new("/mnt/b")).script("cat /mnt/b/name");
        assert_eq!(other.finish().success().stdout, "any");
        let killed = format!(
            "setpriv --reuid=61234 --regid=61234 --clear-groups kill -KILL {}",
            hanging.id()
        );
        root(&killed);
        drop(device);
        assert!(!hanging.wait().unwrap().success());
    });
}

#[test]
fn a_server_that_ends_at_once_gives_an_error() {
    in_private_world(|arena| {
        arena.set_policy(SHIPPED);
        let (helpers, servers) = socket();
        let child = arena.start().served(helpers, Path::new("/mnt/a")).spawn();
        drop(device(servers.as_fd()));
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(125));
        assert!(String::from_utf8_lossy(&output.stderr).contains("the FUSE program failed"));
    });
}

#[test]
fn whatever_stands_for_the_socket_of_a_server_gives_an_error_at_most() {
    in_private_world(|arena| {
        arena.set_policy(SHIPPED);
        let (closed, _) = socket();
        let full = socket();
        while rustix::net::send(&full.0, &[0; 4096], rustix::net::SendFlags::DONTWAIT).is_ok() {}
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let network = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _other) = UnixStream::pair().unwrap();
        stream.shutdown(std::net::Shutdown::Both).unwrap();
        let cases: Vec<OwnedFd> = vec![
            closed,
            full.0,
            network.into(),
            stream.into(),
            File::open("/dev/null").unwrap().into(),
            File::open("/etc/passwd").unwrap().into(),
            File::options().read(true).write(true).open("/dev/fuse").unwrap().into(),
            rustix::pipe::pipe().unwrap().1,
        ];
        for case in cases {
            let finished = arena.start().served(case, Path::new("/mnt/a")).finish();
            assert_refused(&finished, "");
        }
        drop(full.1);
    });
}

#[test]
fn no_image_is_served_where_the_policy_or_root_cannot_allow_it() {
    in_private_world(|arena| {
        arena.set_policy(SHIPPED);
        let refused = |places: &[&str], policy: &str, reason: &str| {
            arena.set_policy(policy);
            let (helpers, servers) = socket();
            let start = places.iter().fold(arena.start(), |start, place| {
                start.served(helpers.try_clone().unwrap(), Path::new(place))
            });
            drop(helpers);
            let finished = start.finish();
            drop(start);
            assert!(device(servers.as_fd()).is_none());
            assert_refused(&finished, reason);
        };
        let forbidden = format!("{SHIPPED}fuse-images no\n");
        refused(&["/mnt/a"], &forbidden, "allows no images through FUSE");
        refused(&["/mnt/a"], "mount-point /mnt/b\n", "not among the mount points");
        refused(&["/"], SHIPPED, "the policy does not allow");
        let roots = format!("{SHIPPED}root-images yes\n");
        refused(&["/"], &roots, "root would have to look into it through FUSE");
        refused(&["/mnt/a", "/mnt/a/inner"], SHIPPED, "another image is mounted inside it");
    });
}

#[test]
fn the_device_is_opened_with_the_rights_of_the_user() {
    in_private_world(|arena| {
        arena.set_policy(SHIPPED);
        root("chmod 600 /dev/fuse");
        let (helpers, _servers) = socket();
        let finished = arena.start().served(helpers, Path::new("/mnt/a")).finish();
        root("chmod 666 /dev/fuse");
        assert_refused(&finished, "failed to open /dev/fuse");
        assert_refused(&finished, "hint: an administrator can open it to users");
    });
}

#[test]
fn an_environment_is_joined_if_it_still_is_the_one_that_was_meant() {
    in_private_world(|arena| {
        arena.set_policy(SHIPPED);
        let image = own_image(arena);
        let (helpers, servers) = socket();
        let serving = server(servers, &image);
        let up = Up::with(&arena.start().served(helpers, Path::new("/mnt/a")), "echo up");
        let namespace = format!("/proc/{}/ns/mnt", up.process());
        let number = rustix::fs::stat(&namespace).unwrap().st_ino;
        let join = |process, number| {
            let (helpers, servers) = socket();
            let mut start = arena.start().served(helpers, Path::new("/mnt/a"));
            start.request.place = Place::Join(process, number);
            let child = start.script("readlink /proc/self/ns/mnt").spawn();
            // Only who does not join needs a server. This one gives up.
            let is_served = device(servers.as_fd()).is_some();
            let output = child.wait_with_output().unwrap();
            (is_served, String::from_utf8_lossy(&output.stdout).into_owned())
        };
        assert_eq!(join(up.process(), number), (false, format!("mnt:[{number}]\n")));
        assert_eq!(join(up.process(), number + 1), (true, String::new()));
        assert_eq!(join(4_000_000, number), (true, String::new()));
        // That of the host belongs to a process of another user.
        let own = rustix::fs::stat("/proc/self/ns/mnt").unwrap().st_ino;
        assert_eq!(join(std::process::id(), own), (true, String::new()));
        up.end();
        assert!(serving.join().unwrap().unwrap().wait().unwrap().success());
    });
}
