// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! System calls that the C library or its bindings have no name for.

unsafe extern "C" {
    /// `syscall(2)`: -1 and an error number where the kernel says no.
    ///
    /// # Safety
    ///
    /// The number and the arguments must be those of a system call, and what they point to
    /// must live until it returns.
    pub fn syscall(number: i64, ...) -> i64;
}
