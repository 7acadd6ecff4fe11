// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The arguments of the command line of a program that begins before the standard library does.

use std::ffi::{CStr, c_char, c_int};

/// Returns the first two arguments, without the name of the program. Nothing is allocated.
///
/// # Safety
///
/// Both must be those that the C library hands to `main`.
pub unsafe fn of_main(count: c_int, arguments: *const *const c_char) -> [Option<&'static CStr>; 2] {
    [1, 2].map(|index: usize| {
        let is_there = usize::try_from(count).is_ok_and(|count| index < count);
        // SAFETY: the C library hands over so many texts that end, and they stay where they are.
        is_there.then(|| unsafe { CStr::from_ptr(*arguments.add(index)) })
    })
}
