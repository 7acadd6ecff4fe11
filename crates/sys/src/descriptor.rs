// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Descriptors that were inherited from the caller.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};

use rustix::io::{Errno, fcntl_getfd};

/// The first descriptor that is not one of the three standard ones.
const FIRST: RawFd = 3;

/// Borrows a descriptor whose number someone else tells. It must stay open, as those
/// do that were inherited and belong to no one.
///
/// # Errors
///
/// `EBADF` if it is not open, or one of the three standard ones.
pub fn inherited(number: RawFd) -> io::Result<BorrowedFd<'static>> {
    if number < FIRST {
        return Err(Errno::BADF.into());
    }
    // SAFETY: not -1; whether it is open is checked next, and what was inherited is
    // owned by nothing in this program that could close it.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl_getfd(descriptor)?;
    Ok(descriptor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_not_open_is_refused() {
        let numbers = [-1, 0, 2, 1_000_000, RawFd::MAX];
        assert!(numbers.iter().all(|number| inherited(*number).is_err()));
    }
}
