// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Loop devices: a file as a block device.
//!
//! The numbers and structures are those of `linux/loop.h`.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, major, minor, openat, statat};
use rustix::io::Errno;
use rustix::ioctl::{IntegerSetter, Ioctl, IoctlOutput, Opcode, Setter, Updater, ioctl};
use rustix::time::{ClockId, clock_gettime};

const LOOP_CTL_REMOVE: Opcode = 0x4C81;
const LOOP_CTL_GET_FREE: Opcode = 0x4C82;
const LOOP_CONFIGURE: Opcode = 0x4C0A;
const LOOP_GET_STATUS64: Opcode = 0x4C05;
const LO_FLAGS_READ_ONLY: u32 = 1;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
/// The major number of every loop device (`linux/major.h`).
pub const MAJOR: u32 = 7;

/// `LOOP_CTRL_MINOR` of the miscellaneous devices (`linux/miscdevice.h`).
const CONTROL: (u32, u32) = (10, 237);

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
    file_name: [u8; NAME],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

impl LoopInfo64 {
    const EMPTY: Self = Self {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        size_limit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags: 0,
        file_name: [0; NAME],
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
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
    number: u32,
    path: PathBuf,
    _device: File,
}

/// What a device was bound as: no two that were bound since the start of the system have the
/// same one. The device carries it for as long as it is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding([u8; NAME]);

/// The space of `lo_file_name`.
const NAME: usize = 64;

impl Binding {
    /// Makes a new one.
    pub fn new() -> Self {
        let now = clock_gettime(ClockId::Boottime);
        let process = rustix::process::getpid().as_raw_nonzero();
        let text = format!("cabane-{}.{:09}-{process}", now.tv_sec, now.tv_nsec);
        Self::from_text(&text)
    }

    /// Understands what [`Binding`] shows.
    pub fn from_text(text: &str) -> Self {
        let mut name = [0; NAME];
        // The last byte stays zero.
        for (place, byte) in name.iter_mut().take(NAME - 1).zip(text.bytes()) {
            *place = byte;
        }
        Self(name)
    }
}

impl Default for Binding {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        f.write_str(&String::from_utf8_lossy(text))
    }
}

impl LoopDevice {
    /// Returns the path of the device, `/dev/loopN`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its number.
    pub fn number(&self) -> u32 {
        self.number
    }
}

/// Binds a free loop device to a file, read-only.
///
/// # Errors
///
/// `ENOENT` or `EACCES` when the devices are not there or closed to the caller,
/// `EBUSY` when no device stayed free for long enough, `ENOENT` also when the kernel offers a
/// device that `/dev` does not have, as in a container with devices of its own.
pub fn attach(file: BorrowedFd<'_>, binding: &Binding) -> io::Result<LoopDevice> {
    let control = control()?;
    let mut problem = Errno::BUSY;
    for _ in 0..ATTEMPTS {
        // SAFETY: this request takes no argument and returns a number.
        let number = unsafe { ioctl(&control, GetFree) }?;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = match open_device(CWD, &path, number) {
            Ok(device) => device,
            // A surplus device, removed by another process since.
            Err(errno @ (Errno::NOENT | Errno::NXIO)) => {
                problem = errno;
                continue;
            }
            Err(errno) => return Err(errno.into()),
        };
        match configure(&device, file, binding) {
            Ok(()) => {
                return Ok(LoopDevice { number, path, _device: device });
            }
            Err(errno @ Errno::BUSY) => problem = errno,
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(problem.into())
}

/// Opens a device below a root directory, if it is still bound as it was. It stays so while it
/// is open. `None` if it is bound to nothing or in another way, or if the kernel has no such
/// device.
///
/// # Errors
///
/// Those of opening the device and of asking for its state. They say nothing about its use: the
/// root may have another `/dev`, or no descriptor may be free.
pub fn find(
    root: BorrowedFd<'_>,
    number: u32,
    binding: &Binding,
) -> io::Result<Option<LoopDevice>> {
    let name = format!("loop{number}");
    let device = match open_device(root, format!("dev/{name}"), number) {
        Ok(device) => device,
        Err(errno) => {
            let is_missing = matches!(errno, Errno::NOENT | Errno::NXIO);
            if is_missing
                && !exists(root, &format!("sys/block/{name}"))
                && exists(root, "sys/block")
            {
                return Ok(None);
            }
            return Err(errno.into());
        }
    };
    match status(&device) {
        Ok(info) if info.file_name == binding.0 => Ok(Some(LoopDevice {
            number,
            path: PathBuf::from(format!("/dev/{name}")),
            _device: device,
        })),
        Ok(_) | Err(Errno::NXIO) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn exists(root: BorrowedFd<'_>, path: &str) -> bool {
    statat(root, path, AtFlags::SYMLINK_NOFOLLOW)
        .map_or_else(|errno| errno != Errno::NOENT, |_| true)
}

/// Removes a loop device that is bound to nothing.
///
/// # Errors
///
/// `EBUSY` when it is in use, `ENODEV` when there is none of this number.
pub fn remove(number: u32) -> io::Result<()> {
    let number = usize::try_from(number).map_err(|_| Errno::INVAL)?;
    // SAFETY: the argument of this request is a number, which the kernel checks.
    let request = unsafe { IntegerSetter::<LOOP_CTL_REMOVE>::new_usize(number) };
    // SAFETY: as above; the request changes no memory.
    unsafe { ioctl(control()?.as_fd(), request) }?;
    Ok(())
}

fn control() -> io::Result<File> {
    let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
    let found = fstat(&control)?;
    let is_character = FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice;
    if is_character && (major(found.st_rdev), minor(found.st_rdev)) == CONTROL {
        Ok(control)
    } else {
        Err(Errno::NODEV.into())
    }
}

/// Opens a device and makes sure that it is the one of that number: what a path in
/// `/dev` names is for the administrator to say, and may be stale.
fn open_device(root: BorrowedFd<'_>, path: impl AsRef<Path>, number: u32) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let device = openat(root, path.as_ref(), flags, Mode::empty())?;
    let found = fstat(&device)?;
    let is_block = FileType::from_raw_mode(found.st_mode) == FileType::BlockDevice;
    if is_block && (major(found.st_rdev), minor(found.st_rdev)) == (MAJOR, number) {
        Ok(File::from(device))
    } else {
        Err(Errno::NOTBLK)
    }
}

/// Asks for a free number; the answer is the return value of the call.
struct GetFree;

// SAFETY: the request takes no argument, and its output is a plain number.
unsafe impl Ioctl for GetFree {
    type Output = u32;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        LOOP_CTL_GET_FREE
    }

    fn as_ptr(&mut self) -> *mut core::ffi::c_void {
        core::ptr::null_mut()
    }

    unsafe fn output_from_ptr(
        output: IoctlOutput,
        _: *mut core::ffi::c_void,
    ) -> rustix::io::Result<u32> {
        u32::try_from(output).map_err(|_| Errno::INVAL)
    }
}

fn configure(device: &File, file: BorrowedFd<'_>, binding: &Binding) -> Result<(), Errno> {
    let config = LoopConfig {
        fd: file.as_raw_fd().cast_unsigned(),
        block_size: 0,
        info: LoopInfo64 {
            // AUTOCLEAR at configure time, not later: a process killed in between
            // would leave the device behind.
            flags: LO_FLAGS_READ_ONLY | LO_FLAGS_AUTOCLEAR,
            file_name: binding.0,
            ..LoopInfo64::EMPTY
        },
        reserved: [0; 8],
    };
    // SAFETY: the structure has the size and layout the kernel reads (asserted
    // above), lives until the call returns, and the kernel does not write to it.
    unsafe { ioctl(device.as_fd(), Setter::<LOOP_CONFIGURE, LoopConfig>::new(config)) }
}

fn status(device: &File) -> Result<LoopInfo64, Errno> {
    let mut info = LoopInfo64::EMPTY;
    // SAFETY: the kernel writes a structure of the size and layout that is asserted above,
    // which lives until the call returns; every pattern of bytes is a value of it.
    unsafe { ioctl(device.as_fd(), Updater::<LOOP_GET_STATUS64, LoopInfo64>::new(&mut info)) }?;
    Ok(info)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_is_read_as_it_is_shown() {
        let binding = Binding::new();
        assert_eq!(Binding::from_text(&binding.to_string()), binding);
    }

    #[test]
    fn no_binding_is_made_twice() {
        assert_ne!(Binding::new(), Binding::new());
    }
}
