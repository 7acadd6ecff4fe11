// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! System calls that the C library or its bindings have no name for.

unsafe extern "C" {
    /// `syscall(2)`: -1 and an error number where the kernel says no.
    pub(crate) fn syscall(number: i64, ...) -> i64;
}
