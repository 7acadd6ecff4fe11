// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! On which mount a file is, and what kind of file system that is, as the kernel knows it.
//!
//! Anyone who serves a file system can say anything about a file, and can let those who ask wait.
//! The number of the mount comes from the kernel itself, and so does the table of mounts.
//! Since Linux 6.8 the kernel looks one mount up (`statmount`); before, the table is read as
//! text. The numbers and structures are those of `linux/mount.h` and `linux/stat.h`.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, StatxFlags, statx};
use rustix::io::Errno;

use crate::namespace::of_first_process;
use crate::raw::syscall;

/// The same number for all architectures.
const SYS_STATMOUNT: i64 = 457;
/// `STATX_MNT_ID_UNIQUE`.
const UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);
const STATMOUNT_MNT_BASIC: u64 = 2;
const STATMOUNT_FS_TYPE: u64 = 0x20;
/// `MOUNT_ATTR_IDMAP` of `linux/mount.h`.
const ID_MAPPED: u64 = 0x0010_0000;
/// What the kernel writes before the texts, in bytes.
const HEADER: usize = 512;
const TEXTS: usize = 256;
/// The longest line of a table that is read, in bytes.
const LONGEST: u64 = 1 << 20;

/// Which mount a file is on. No other mount has the number for as long as the file is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountId {
    /// A number that is never used again.
    Unique(u64),
    /// A number as in `/proc/self/mountinfo`.
    Reused(u64),
}

/// A mount that is attached where the process sees it, or at least in its mount namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The type of the file system, without a subtype: `ext4`, `fuse`.
    pub kind: String,
    /// Whether the owners of files are shown as others than they are.
    pub is_id_mapped: bool,
    number: u64,
}

impl MountId {
    /// Asks the kernel, and not anyone who serves the file.
    ///
    /// # Errors
    ///
    /// Those of `statx(2)`; `ENOSYS` where the kernel has no such number for a file, before
    /// Linux 5.8: see [`MountId::from_process_table`].
    pub fn of(file: BorrowedFd<'_>) -> io::Result<Self> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let has = |mask: u32, bit: StatxFlags| StatxFlags::from_bits_retain(mask).contains(bit);
        let found = statx(file, c"", flags, UNIQUE)?;
        if has(found.stx_mask, UNIQUE) {
            return Ok(Self::Unique(found.stx_mnt_id));
        }
        let found = statx(file, c"", flags, StatxFlags::MNT_ID)?;
        if has(found.stx_mask, StatxFlags::MNT_ID) {
            return Ok(Self::Reused(found.stx_mnt_id));
        }
        Err(Errno::NOSYS.into())
    }

    /// Reads the number from what `/proc` tells about the descriptors of this process.
    ///
    /// # Errors
    ///
    /// Those of reading, `InvalidData` if there is no number.
    pub fn from_process_table(file: BorrowedFd<'_>) -> io::Result<Self> {
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()))?;
        let number = text.lines().find_map(|line| line.strip_prefix("mnt_id:"));
        number
            .and_then(|number| number.trim().parse().ok())
            .map(Self::Reused)
            .ok_or(io::ErrorKind::InvalidData.into())
    }
}

impl Mount {
    /// Reads a line of `proc_pid_mountinfo(5)`, for the mount of this number: optional fields
    /// end with a `-`, behind which are the type, the source and the options of the file
    /// system. The options are returned as well.
    pub fn from_line(line: &[u8], number: u64) -> Option<(Self, Vec<u8>)> {
        let mut fields = line.trim_ascii_end().split(|byte| *byte == b' ');
        let attributes = fields.nth(5)?;
        let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
        let kind = fields.next()?.split(|byte| *byte == b'.').next()?;
        let mount = Self {
            kind: String::from_utf8_lossy(kind).into_owned(),
            is_id_mapped: attributes.split(|byte| *byte == b',').any(|field| field == b"idmapped"),
            number,
        };
        Some((mount, fields.nth(1)?.to_vec()))
    }
}

/// Finds a mount in the mount namespace of the process, or else among those that the first
/// process of the system sees. A mount that is attached nowhere is in neither, nor is one of
/// another mount namespace.
///
/// # Errors
///
/// Those of reading the tables.
pub fn find(mount: MountId) -> io::Result<Option<Mount>> {
    let number = match mount {
        MountId::Unique(number) => match stat_mount(number) {
            Ok(found) => return Ok(Some(found)),
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        },
        MountId::Reused(number) => number,
    };
    let found = |table| line_of(Path::new(table), number);
    let line = match found("/proc/self/mountinfo")? {
        // The caller may see a part of the host only, as after `chroot`.
        None if of_first_process()?.is_some() => found("/proc/1/mountinfo")?,
        line => line,
    };
    Ok(line.and_then(|line| Mount::from_line(&line, number)).map(|(mount, _)| mount))
}

/// Returns the options of the file system itself, as the table of this process has them.
///
/// # Errors
///
/// Those of reading the table, `NotFound` if the mount is out of sight.
pub fn options(mount: &Mount) -> io::Result<Vec<u8>> {
    let line = line_of(Path::new("/proc/self/mountinfo"), mount.number)?;
    line.and_then(|line| Mount::from_line(&line, mount.number))
        .map(|(_, options)| options)
        .ok_or(io::ErrorKind::NotFound.into())
}

#[repr(C)]
struct Request {
    size: u32,
    spare: u32,
    mount: u64,
    wanted: u64,
}

/// `struct statmount`, as far as it is used, with space for texts.
#[repr(C, align(8))]
struct Answer {
    bytes: [u8; HEADER + TEXTS],
}

impl Answer {
    fn number<const N: usize>(&self, at: usize) -> [u8; N] {
        let bytes = self.bytes.get(at..).and_then(|rest| rest.first_chunk());
        bytes.copied().unwrap_or([0; N])
    }
}

fn stat_mount(number: u64) -> Result<Mount, Errno> {
    let request = Request {
        size: 24,
        spare: 0,
        mount: number,
        wanted: STATMOUNT_MNT_BASIC | STATMOUNT_FS_TYPE,
    };
    let mut answer = Answer { bytes: [0; HEADER + TEXTS] };
    // SAFETY: the kernel reads a structure that says how large it is, and writes no more than
    // the given size; both live until it returns.
    let result = unsafe {
        syscall(SYS_STATMOUNT, &raw const request, &raw mut answer, size_of::<Answer>(), 0_u32)
    };
    if result < 0 {
        let code = io::Error::last_os_error().raw_os_error();
        return Err(Errno::from_raw_os_error(code.unwrap_or_default()));
    }
    let text = usize::try_from(u32::from_ne_bytes(answer.number(36))).unwrap_or(usize::MAX);
    let kind = answer.bytes.get(HEADER.saturating_add(text)..);
    let kind = kind.and_then(|rest| rest.split(|byte| *byte == 0).next());
    Ok(Mount {
        kind: String::from_utf8_lossy(kind.unwrap_or_default()).into_owned(),
        is_id_mapped: u64::from_ne_bytes(answer.number(64)) & ID_MAPPED != 0,
        number: u32::from_ne_bytes(answer.number(56)).into(),
    })
}

/// Returns the line of a mount. The table is read no further than that.
fn line_of(table: &Path, number: u64) -> io::Result<Option<Vec<u8>>> {
    let start = format!("{number} ");
    let mut table = BufReader::new(File::open(table)?);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut limited = io::Read::take(&mut table, LONGEST);
        if limited.read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        if line.starts_with(start.as_bytes()) {
            return Ok(Some(line));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;

    #[test]
    fn a_line_is_read_to_its_options() {
        let line = b"28 1 0:25 / /a\\040b rw,relatime,idmapped shared:1 master:2 - fuse.sshfs x rw,user_id=0\n";
        let (mount, options) = Mount::from_line(line, 28).unwrap();
        assert_eq!((mount.kind.as_str(), mount.is_id_mapped), ("fuse", true));
        assert_eq!(options, b"rw,user_id=0");
    }

    #[test]
    fn the_mount_of_a_file_is_the_same_in_every_table() {
        let file = File::open("/proc/self/status").unwrap();
        let found = find(MountId::of(file.as_fd()).unwrap()).unwrap().unwrap();
        let old = MountId::from_process_table(file.as_fd()).unwrap();
        assert_eq!(find(old).unwrap().unwrap(), found);
        assert_eq!(found.kind, "proc");
    }

    #[test]
    fn a_file_without_a_place_is_on_no_mount_of_the_table() {
        let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        for id in
            [MountId::of(file.as_fd()).unwrap(), MountId::from_process_table(file.as_fd()).unwrap()]
        {
            assert_eq!(find(id).unwrap(), None);
        }
    }
}
