// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Loop devices: a file as a block device.
//!
//! The numbers and structures are those of `linux/loop.h`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LO_FLAGS_READ_ONLY: u32 = 1;
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// Starts of many users at once race for the same free number; each round one wins.
const ATTEMPTS: u32 = 512;

#[repr(C)]
struct LoopInfo64 {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo64,
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LoopInfo64>() == 232);
const _: () = assert!(size_of::<LoopConfig>() == 304);

/// A loop device bound to a file.
///
/// The kernel frees the device when it is no longer open and no longer mounted,
/// even after its owner was killed.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    _device: File,
}

impl LoopDevice {
    /// Returns the path of the device, `/dev/loopN`.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Binds a free loop device to a file, read-only.
///
/// # Errors
///
/// `ENOENT` or `EACCES` when the devices are not there or closed to the caller,
/// `EBUSY` when no device stayed free for long enough.
pub fn attach(file: BorrowedFd<'_>) -> io::Result<LoopDevice> {
    let control = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/loop-control")?;
    for _ in 0..ATTEMPTS {
        let number = free_number(&control)?;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = OpenOptions::new().read(true).open(&path)?;
        match configure(&device, file) {
            Ok(()) => {
                return Ok(LoopDevice {
                    path,
                    _device: device,
                });
            }
            Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::BUSY.into())
}

fn free_number(control: &File) -> io::Result<i32> {
    // SAFETY: this request takes no argument and returns a number.
    let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
    if number < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(number)
    }
}

fn configure(device: &File, file: BorrowedFd<'_>) -> io::Result<()> {
    let config = LoopConfig {
        fd: file.as_raw_fd().cast_unsigned(),
        block_size: 0,
        info: LoopInfo64 {
            device: 0,
            inode: 0,
            rdevice: 0,
            offset: 0,
            size_limit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            // AUTOCLEAR at configure time, not later: a process killed in between
            // would leave the device behind.
            flags: LO_FLAGS_READ_ONLY | LO_FLAGS_AUTOCLEAR,
            file_name: [0; 64],
            crypt_name: [0; 64],
            encrypt_key: [0; 32],
            init: [0; 2],
        },
        reserved: [0; 8],
    };
    // SAFETY: the structure has the size and layout the kernel reads (asserted
    // above), lives until the call returns, and the kernel does not write to it.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
