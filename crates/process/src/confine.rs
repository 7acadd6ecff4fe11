// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a process gives up before it runs commands of somebody else in the root file system of an
//! image: the network, names of the host, keys, and capabilities.

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
/// The same, whether or not it is as large.
const IF_AT_LEAST: u16 = 0x35;
/// Ends with an answer.
const ANSWER: u16 = 0x06;
/// Where the number of the call is, and the architecture (`linux/seccomp.h`).
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
/// The call takes place.
const ALLOW: u32 = 0x7fff_0000;
/// The call does not take place, and succeeds: the error number is zero.
const SUCCEED: u32 = 0x0005_0000;
/// The call does not take place, and fails with `ENOSYS`.
const MISSING: u32 = SUCCEED + 38;
const SECCOMP_SET_MODE_FILTER: i64 = 1;
/// `linux/keyctl.h`.
const KEYCTL_JOIN_SESSION_KEYRING: i64 = 1;

/// System calls of an architecture.
struct Calls {
    /// In the words of `linux/audit.h`.
    architecture: u32,
    /// Numbers from here on are missing: those of another way to call, with the same architecture.
    end: Option<u32>,
    /// Those that change to whom a file or a process belongs.
    owners: &'static [u32],
    /// `add_key`, `request_key`, `keyctl`.
    keys: [u32; 3],
}

/// The numbers of `seccomp` and of `keyctl`, and the calls of all architectures that this processor
/// has.
#[cfg(target_arch = "x86_64")]
const CALLS: Option<(i64, i64, &[Calls])> = Some((
    317,
    250,
    &[
        Calls {
            architecture: 0xc000_003e,
            end: Some(0x4000_0000),
            owners: &[
                92, 93, 94, 260, // chown, fchown, lchown, fchownat
                105, 106, 113, 114, 116, // setuid, setgid, setreuid, setregid, setgroups
                117, 119, 122, 123, // setresuid, setresgid, setfsuid, setfsgid
            ],
            keys: [248, 249, 250],
        },
        Calls { architecture: 0x4000_0003, end: None, owners: &[], keys: [286, 287, 288] },
    ],
));
#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
const CALLS: Option<(i64, i64, &[Calls])> = Some((
    277,
    219,
    &[
        Calls {
            architecture: if cfg!(target_arch = "aarch64") { 0xc000_00b7 } else { 0xc000_00f3 },
            end: None,
            owners: &[
                54, 55, // fchownat, fchown
                146, 144, 145, 143, 159, // setuid, setgid, setreuid, setregid, setgroups
                147, 149, 151, 152, // setresuid, setresgid, setfsuid, setfsgid
            ],
            keys: [217, 218, 219],
        },
        // ARM with 32 bits.
        Calls { architecture: 0x4000_0028, end: None, owners: &[], keys: [309, 310, 311] },
    ],
));
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
const CALLS: Option<(i64, i64, &[Calls])> = None;

/// Leaves the session keyring of the caller for an empty one.
///
/// # Errors
///
/// The kernel's. One that has no keys is none.
pub fn leave_keys() -> io::Result<()> {
    let (_, keyctl, _) = CALLS.ok_or(Errno::NOSYS)?;
    // SAFETY: without a name the call reads no memory.
    let result = unsafe { syscall(keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0_i64) };
    let error = io::Error::last_os_error();
    let is_missing = error.raw_os_error() == Some(Errno::NOSYS.raw_os_error());
    if result < 0 && !is_missing { Err(error) } else { Ok(()) }
}

/// Lets changes of the owner of files, and of the own user and group, succeed without any effect, and
/// takes the calls for keys away, for this process and all that it starts. The process must have given
/// up gaining privileges.
///
/// Where only one user exists, all changes of owners fail otherwise, and package managers stop.
///
/// # Errors
///
/// The kernel's; `ENOSYS` on other architectures.
pub fn filter_calls() -> io::Result<()> {
    let (seccomp, _, all) = CALLS.ok_or(Errno::NOSYS)?;
    let mut program = vec![plain(LOAD, ARCHITECTURE)];
    for calls in all {
        let answers = calls.answers();
        let length = u8::try_from(answers.len()).map_err(io::Error::other)?;
        // Behind the answers, the architecture is still at hand.
        let value = calls.architecture;
        program.push(Instruction { code: IF_EQUAL, if_true: 0, if_false: length, value });
        program.extend(answers);
    }
    program.push(plain(ANSWER, ALLOW));
    let length = u16::try_from(program.len()).map_err(io::Error::other)?;
    let filter = Filter { length, instructions: program.as_ptr() };
    // SAFETY: the kernel copies a filter of this length, which lives until the call returns.
    let result = unsafe { syscall(seccomp, SECCOMP_SET_MODE_FILTER, 0_i64, &raw const filter) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn plain(code: u16, value: u32) -> Instruction {
    Instruction { code, if_true: 0, if_false: 0, value }
}

impl Calls {
    /// The answers to its calls.
    fn answers(&self) -> Vec<Instruction> {
        let mut program = vec![plain(LOAD, NUMBER)];
        let mut answer = |code, value, answer| {
            program.push(Instruction { code, if_true: 0, if_false: 1, value });
            program.push(plain(ANSWER, answer));
        };
        self.owners.iter().for_each(|call| answer(IF_EQUAL, *call, SUCCEED));
        self.keys.iter().for_each(|call| answer(IF_EQUAL, *call, MISSING));
        self.end.iter().for_each(|end| answer(IF_AT_LEAST, *end, MISSING));
        program.push(plain(ANSWER, ALLOW));
        program
    }
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
            filter_calls().map_err(|error| error.to_string())?;
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
            filter_calls()
        });
        assert_eq!(prepared.status().unwrap().code(), Some(7));
    }
    #[test]
    fn keys_of_the_caller_are_out_of_reach() {
        let (_, keyctl, _) = CALLS.unwrap();
        // KEYCTL_GET_KEYRING_ID of the session keyring, which is made where there is none.
        // SAFETY: the call reads no memory.
        let session = move || unsafe { syscall(keyctl, 0_i64, -3_i64, 1_i64) };
        let answer = ask(move || {
            let before = session();
            leave_keys().map_err(|error| error.to_string())?;
            let after = session();
            rustix::thread::set_no_new_privs(true).map_err(|error| error.to_string())?;
            filter_calls().map_err(|error| error.to_string())?;
            let is_other = before < 0 || before != after;
            Ok(vec![u8::from(is_other), u8::from(session() < 0)])
        });
        assert_eq!(answer.unwrap(), Ok(vec![1, 1]));
    }
}
