// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a process gives up before it runs commands of somebody else in the root file system of an
//! image: the network, names of the host, and capabilities.

use std::io;
use std::os::fd::AsFd;

use cabane_sys::raw::syscall;
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::system::sethostname;
use rustix::thread::{
    CapabilitySet, CapabilitySets, UnshareFlags, remove_capability_from_bounding_set,
    set_capabilities, unshare_unsafe,
};

/// `linux/sockios.h`.
const SIOCGIFFLAGS: Opcode = 0x8913;
const SIOCSIFFLAGS: Opcode = 0x8914;
/// `linux/if.h`.
const IFF_UP: i16 = 1;

/// The host name that commands see.
const HOST_NAME: &[u8] = b"localhost";

/// What installing packages takes, in a user namespace with one user. Mounting is not among it,
/// nor is changing the network.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::SETFCAP);

/// Leaves the shared memory and the host name of the caller, and without `network` the network as
/// well: then there is a loopback device and nothing else. The process must be in a user namespace of
/// its own.
///
/// # Errors
///
/// The kernel's, where it has no such namespaces or their number is at its limit.
pub fn leave_host(network: bool) -> io::Result<()> {
    let mut flags = UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    if !network {
        flags |= UnshareFlags::NEWNET;
    }
    // SAFETY: the flags never hold FILES, and namespaces change no memory.
    unsafe { unshare_unsafe(flags) }?;
    sethostname(HOST_NAME)?;
    if network { Ok(()) } else { start_loopback() }
}

/// `struct ifreq`, with the member for flags.
#[repr(C)]
struct InterfaceFlags {
    name: [u8; 16],
    flags: i16,
    rest: [u8; 22],
}

fn start_loopback() -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mut request = InterfaceFlags { name: [0; 16], flags: 0, rest: [0; 22] };
    for (letter, place) in b"lo".iter().zip(&mut request.name) {
        *place = *letter;
    }
    // SAFETY: this request fills a structure of that size, whose name ends with a zero.
    unsafe { ioctl(socket.as_fd(), Updater::<SIOCGIFFLAGS, _>::new(&mut request)) }?;
    request.flags |= IFF_UP;
    // SAFETY: likewise; the kernel only reads it.
    unsafe { ioctl(socket.as_fd(), Updater::<SIOCSIFFLAGS, _>::new(&mut request)) }?;
    Ok(())
}

/// Gives up every capability that installing packages does not take, now and for all programs that
/// are started later.
///
/// # Errors
///
/// The kernel's.
pub fn keep_few_capabilities() -> io::Result<()> {
    for bit in CapabilitySet::all().difference(KEPT).iter() {
        match remove_capability_from_bounding_set(bit) {
            // One that this kernel does not know.
            Ok(()) | Err(Errno::INVAL) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    let sets =
        CapabilitySets { effective: KEPT, permitted: KEPT, inheritable: CapabilitySet::empty() };
    Ok(set_capabilities(None, sets)?)
}

/// An instruction of a filter (`linux/filter.h`).
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    value: u32,
}

/// A filter (`linux/filter.h`).
#[repr(C)]
struct Filter {
    length: u16,
    instructions: *const Instruction,
}

/// Takes the 32 bits at an offset.
const LOAD: u16 = 0x20;
/// Goes on behind one of two distances, whether or not the value is equal.
const IF_EQUAL: u16 = 0x15;
/// Ends with an answer.
const ANSWER: u16 = 0x06;
/// Where the number of the call is, and the architecture (`linux/seccomp.h`).
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
/// The call takes place.
const ALLOW: u32 = 0x7fff_0000;
/// The call does not take place, and succeeds: the error number is zero.
const SUCCEED: u32 = 0x0005_0000;
const SECCOMP_SET_MODE_FILTER: i64 = 1;

/// The architecture in the words of `linux/audit.h`, the number of `seccomp`, and those of the calls
/// that change to whom a file or a process belongs.
#[cfg(target_arch = "x86_64")]
const CALLS: Option<(u32, i64, &[u32])> = Some((
    0xc000_003e,
    317,
    &[
        92, 93, 94, 260, // chown, fchown, lchown, fchownat
        105, 106, 113, 114, 116, // setuid, setgid, setreuid, setregid, setgroups
        117, 119, 122, 123, // setresuid, setresgid, setfsuid, setfsgid
    ],
));
#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
const CALLS: Option<(u32, i64, &[u32])> = Some((
    if cfg!(target_arch = "aarch64") { 0xc000_00b7 } else { 0xc000_00f3 },
    277,
    &[
        54, 55, // fchownat, fchown
        146, 144, 145, 143, 159, // setuid, setgid, setreuid, setregid, setgroups
        147, 149, 151, 152, // setresuid, setresgid, setfsuid, setfsgid
    ],
));
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
const CALLS: Option<(u32, i64, &[u32])> = None;

/// Lets changes of the owner of files, and of the own user and group, succeed without any effect, for
/// this process and all that it starts. The process must have given up gaining privileges.
///
/// Where only one user exists, all such changes fail otherwise, and package managers stop.
///
/// # Errors
///
/// The kernel's; `ENOSYS` on other architectures.
pub fn ignore_owners() -> io::Result<()> {
    let (architecture, seccomp, calls) = CALLS.ok_or(Errno::NOSYS)?;
    let plain = |code, value| Instruction { code, if_true: 0, if_false: 0, value };
    let count = u8::try_from(calls.len()).map_err(io::Error::other)?;
    let mut program = vec![
        plain(LOAD, ARCHITECTURE),
        // Programs for another architecture see what the kernel says: behind all calls.
        Instruction { code: IF_EQUAL, if_true: 0, if_false: count + 1, value: architecture },
        plain(LOAD, NUMBER),
    ];
    for (call, left) in calls.iter().zip((1..=count).rev()) {
        program.push(Instruction { code: IF_EQUAL, if_true: left, if_false: 0, value: *call });
    }
    program.extend([plain(ANSWER, ALLOW), plain(ANSWER, SUCCEED)]);
    let length = u16::try_from(program.len()).map_err(io::Error::other)?;
    let filter = Filter { length, instructions: program.as_ptr() };
    // SAFETY: the kernel copies a filter of this length, which lives until the call returns.
    let result = unsafe { syscall(seccomp, SECCOMP_SET_MODE_FILTER, 0_i64, &raw const filter) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, chown};
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;
    use crate::child::{ask, prepare_child};

    #[test]
    fn files_keep_their_owner_and_the_program_does_not_notice() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_owned();
        let before = file.as_file().metadata().unwrap();
        let answer = ask(move || {
            rustix::thread::set_no_new_privs(true).map_err(|error| error.to_string())?;
            ignore_owners().map_err(|error| error.to_string())?;
            chown(&path, Some(12345), Some(54321)).map_err(|error| error.to_string())?;
            Ok(Vec::new())
        });
        assert_eq!(answer.unwrap(), Ok(Vec::new()));
        let after = file.as_file().metadata().unwrap();
        assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
    }

    #[test]
    fn other_calls_are_as_they_were() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "cd / && test \"$(pwd)\" = / && exit 7"]).process_group(0);
        let prepared = prepare_child(&mut command, || {
            rustix::thread::set_no_new_privs(true)?;
            ignore_owners()
        });
        assert_eq!(prepared.status().unwrap().code(), Some(7));
    }
}
