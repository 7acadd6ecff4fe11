// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Block devices of the device mapper whose blocks the kernel compares with a hash tree when they
//! are read (dm-verity).
//!
//! The numbers and structures are those of `linux/dm-ioctl.h`, the table is that of the kernel's
//! `Documentation/admin-guide/device-mapper/verity.rst`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, major, minor, openat};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

use crate::raw::syscall;

/// `DM_DIR` and `DM_CONTROL_NODE`.
const CONTROL: &str = "dev/mapper/control";
/// `MISC_MAJOR` and `MAPPER_CTRL_MINOR` (`linux/miscdevice.h`).
const CONTROL_NUMBER: (u32, u32) = (10, 236);
const CREATE: Opcode = command(3);
const REMOVE: Opcode = command(4);
/// Resumes, without its flag.
const SUSPEND: Opcode = command(6);
const STATUS: Opcode = command(7);
const LOAD: Opcode = command(9);
const READ_ONLY: u32 = 1;
const HAS_TABLE: u32 = 1 << 5;
const DEFERRED: u32 = 1 << 17;
/// The size of a sector, in bytes, in tables.
const SECTOR: u64 = 512;
/// `KEY_SPEC_THREAD_KEYRING` (`linux/keyctl.h`).
const OWN_KEYS: i64 = -1;
#[cfg(target_arch = "x86_64")]
const ADD_KEY: i64 = 248;
#[cfg(target_arch = "powerpc64")]
const ADD_KEY: i64 = 269;
#[cfg(not(any(target_arch = "x86_64", target_arch = "powerpc64")))]
const ADD_KEY: i64 = 217;

#[repr(C)]
struct Header {
    version: [u32; 3],
    data_size: u32,
    data_start: u32,
    target_count: u32,
    open_count: i32,
    flags: u32,
    event: u32,
    padding: u32,
    device: u64,
    name: [u8; 128],
    uuid: [u8; 129],
    data: [u8; 7],
}

/// A request with space for a table of one target.
#[repr(C)]
struct Message {
    header: Header,
    start: u64,
    length: u64,
    status: i32,
    next: u32,
    kind: [u8; 16],
    parameters: [u8; 512],
}

const _: () = assert!(size_of::<Header>() == 312);
const _: () = assert!(size_of::<Message>() == 312 + 40 + 512);

const fn command(number: u8) -> Opcode {
    opcode::read_write::<Header>(0xfd, number)
}

/// What a device shows.
#[derive(Clone, Copy, Debug)]
pub struct Verity<'a> {
    /// The device with the content, as major and minor number.
    pub data: (u32, u32),
    /// The device with the hash tree, which begins in its second block.
    pub tree: (u32, u32),
    /// The size of the content, in bytes: a multiple of the size of a block. The number of blocks is the
    /// salt of all hashes, so that a root hash belongs to one size.
    pub size: u64,
    /// The root hash, as hexadecimal digits.
    pub root_hash: &'a str,
    /// The root hash signed (PKCS#7, DER), which the kernel checks with its own keys; empty for
    /// none.
    pub signature: &'a [u8],
}

impl Verity<'_> {
    /// The size of a block of content and of the hash tree, in bytes.
    pub const BLOCK: u64 = 4096;
}

/// A device that is open. It is removed when it is no longer open and no longer mounted, even after
/// its maker was killed.
#[derive(Debug)]
pub struct VerityDevice {
    path: PathBuf,
    _device: File,
}

impl VerityDevice {
    /// Returns the path of the device, `/dev/dm-N`.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Makes a device with a name that no other has.
///
/// # Errors
///
/// `ENOENT` where there is no device mapper, `EINVAL` where it has no dm-verity or the hash tree is
/// too small, `ENOKEY` and others for a signature that no key of the kernel has made.
pub fn create(name: &str, verity: &Verity<'_>) -> io::Result<VerityDevice> {
    let root = openat(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let control = control(root.as_fd())?;
    Message::about(name)?.send::<CREATE>(&control)?;
    let made = load(name, verity, &control).and_then(|()| open(&control, root.as_fd(), name));
    if made.is_err() {
        // One with a table is removed when it is closed.
        let _ = Message::about(name)?.send::<REMOVE>(&control);
    }
    made?.ok_or_else(|| Errno::NXIO.into())
}

/// Opens the device of a name below a root directory; `None` if there is none, or one that was never
/// finished, which is removed.
///
/// # Errors
///
/// Those of asking for it and of opening it, which say nothing about its use.
pub fn find(root: BorrowedFd<'_>, name: &str) -> io::Result<Option<VerityDevice>> {
    Ok(open(&control(root)?, root, name)?)
}

fn open(control: &File, root: BorrowedFd<'_>, name: &str) -> Result<Option<VerityDevice>, Errno> {
    let mut status = Message::about(name)?;
    match status.send::<STATUS>(control) {
        Err(Errno::NXIO) => return Ok(None),
        answer => answer?,
    }
    if status.header.flags & HAS_TABLE == 0 {
        Message::about(name)?.send::<REMOVE>(control)?;
        return Ok(None);
    }
    let number = status.header.device;
    let path = format!("dev/dm-{}", minor(number));
    let device = match open_below(root, &path, OFlags::RDONLY) {
        // It goes away at this moment.
        Err(Errno::NXIO) => return Ok(None),
        opened => opened?,
    };
    let found = fstat(&device)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::BlockDevice || found.st_rdev != number {
        return Err(Errno::NOTBLK);
    }
    let mut removal = Message::about(name)?;
    removal.header.flags = DEFERRED;
    removal.send::<REMOVE>(control)?;
    Ok(Some(VerityDevice { path: Path::new("/").join(path), _device: device }))
}

fn load(name: &str, verity: &Verity<'_>, control: &File) -> Result<(), Errno> {
    let Verity { data, tree, size, root_hash, signature } = verity;
    let block = Verity::BLOCK;
    let blocks = size.checked_div(block).unwrap_or_default();
    let devices = format!("{}:{} {}:{}", data.0, data.1, tree.0, tree.1);
    // The bytes of the number, the lowest first.
    let salt = blocks.swap_bytes();
    let table = format!("1 {devices} {block} {block} {blocks} 1 sha256 {root_hash} {salt:016x}");
    let options = if signature.is_empty() {
        String::new()
    } else {
        hold_key(name, signature)?;
        format!(" 2 root_hash_sig_key_desc {name}")
    };
    let mut message = Message::about(name)?;
    message.header.flags = READ_ONLY;
    message.header.target_count = 1;
    message.length = size.checked_div(SECTOR).unwrap_or_default();
    fill(&mut message.kind, "verity")?;
    fill(&mut message.parameters, &(table + &options))?;
    message.send::<LOAD>(control)?;
    Message::about(name)?.send::<SUSPEND>(control)
}

/// Keeps a signature where the kernel looks for it, until the thread ends.
fn hold_key(name: &str, signature: &[u8]) -> Result<(), Errno> {
    let description = std::ffi::CString::new(name).map_err(|_| Errno::INVAL)?;
    let (bytes, length) = (signature.as_ptr(), signature.len());
    // SAFETY: two texts that end with a zero byte, bytes with their number, and a number; the kernel
    // only reads them.
    let key = unsafe {
        syscall(ADD_KEY, c"user".as_ptr(), description.as_ptr(), bytes, length, OWN_KEYS)
    };
    if key >= 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}

impl Message {
    fn about(name: &str) -> Result<Self, Errno> {
        let mut message = Self {
            header: Header {
                version: [4, 0, 0],
                data_size: u32::try_from(size_of::<Self>()).map_err(|_| Errno::INVAL)?,
                data_start: u32::try_from(size_of::<Header>()).map_err(|_| Errno::INVAL)?,
                target_count: 0,
                open_count: 0,
                flags: 0,
                event: 0,
                padding: 0,
                device: 0,
                name: [0; 128],
                uuid: [0; 129],
                data: [0; 7],
            },
            start: 0,
            length: 0,
            status: 0,
            next: 0,
            kind: [0; 16],
            parameters: [0; 512],
        };
        fill(&mut message.header.name, name)?;
        Ok(message)
    }

    fn send<const COMMAND: Opcode>(&mut self, control: &File) -> Result<(), Errno> {
        // SAFETY: the kernel reads and writes as many bytes as the message says that it has, which
        // lives until the call returns; every pattern of bytes is a value of it.
        unsafe { ioctl(control.as_fd(), Updater::<COMMAND, Self>::new(self)) }
    }
}

fn control(root: BorrowedFd<'_>) -> Result<File, Errno> {
    let control = open_below(root, CONTROL, OFlags::RDWR)?;
    let found = fstat(&control)?;
    let is_character = FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice;
    if is_character && (major(found.st_rdev), minor(found.st_rdev)) == CONTROL_NUMBER {
        Ok(control)
    } else {
        Err(Errno::NODEV)
    }
}

fn open_below(root: BorrowedFd<'_>, path: &str, flags: OFlags) -> Result<File, Errno> {
    Ok(openat(root, path, flags | OFlags::CLOEXEC, Mode::empty())?.into())
}

/// Writes a text, and zero bytes behind it.
fn fill(place: &mut [u8], text: &str) -> Result<(), Errno> {
    if text.len() >= place.len() {
        return Err(Errno::NAMETOOLONG);
    }
    for (place, byte) in place.iter_mut().zip(text.bytes()) {
        *place = byte;
    }
    Ok(())
}
