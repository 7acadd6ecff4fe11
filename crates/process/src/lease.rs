// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whether a file is open on this host, no matter who has it open.
//!
//! The kernel grants a lease for writing only on a file that is open nowhere else: not in a
//! process of any user, not below a loop device or a mounted file system. So a lease is requested
//! for and given back at once. The numbers are those of `fcntl.h`.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use rustix::io::Errno;

const F_SETSIG: i32 = 10;
const F_SETLEASE: i32 = 1024;
const F_WRLCK: i32 = 1;
const F_UNLCK: i32 = 2;
/// A signal that is ignored unless someone asks for it.
const SIGURG: i32 = 23;

unsafe extern "C" {
    fn fcntl(fd: i32, command: i32, ...) -> i32;
}

/// Tells whether a file of a local file system is open anywhere else on this host.
///
/// # Errors
///
/// `EACCES` if the file belongs to another user, `EINVAL` where there are no leases.
pub fn is_open_elsewhere(file: &File) -> io::Result<bool> {
    // Who opens the file within the next microsecond waits, and we are notified by a signal, which
    // by default would be the end of this process.
    control(file, F_SETSIG, SIGURG)?;
    match control(file, F_SETLEASE, F_WRLCK) {
        Ok(()) => control(file, F_SETLEASE, F_UNLCK).map(|()| false),
        Err(error) if error.raw_os_error() == Some(Errno::AGAIN.raw_os_error()) => Ok(true),
        Err(error) => Err(error),
    }
}

fn control(file: &File, command: i32, argument: i32) -> io::Result<()> {
    // SAFETY: the descriptor is open for the time of the call, and these commands take a
    // number.
    match unsafe { fcntl(file.as_raw_fd(), command, argument) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> std::path::PathBuf {
        let name = format!("lease-{:?}", std::thread::current().id());
        let name: String = name.chars().filter(|one| one.is_alphanumeric()).collect();
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        path
    }

    #[test]
    fn a_file_that_only_the_caller_has_open_is_free() {
        let path = file();
        let answer = is_open_elsewhere(&File::open(&path).unwrap());
        std::fs::remove_file(path).unwrap();
        assert!(!answer.unwrap());
    }

    #[test]
    fn a_file_that_is_open_a_second_time_is_in_use() {
        let path = file();
        let _other = File::open(&path).unwrap();
        let answer = is_open_elsewhere(&File::open(&path).unwrap());
        std::fs::remove_file(path).unwrap();
        assert!(answer.unwrap());
    }
}
