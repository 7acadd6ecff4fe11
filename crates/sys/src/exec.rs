// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Becoming a program, prepared so that the last step takes no memory.

use std::ffi::{CString, OsString, c_char};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::ptr;

unsafe extern "C" {
    static mut environ: *const *const c_char;
    fn execvp(program: *const c_char, arguments: *const *const c_char) -> i32;
}

/// A program with its arguments and variables.
#[derive(Debug)]
pub struct Program {
    arguments: Texts,
    variables: Texts,
}

/// Texts, and the list of their places that the kernel wants.
#[derive(Debug)]
struct Texts {
    list: Vec<*const c_char>,
    _texts: Vec<CString>,
}

impl Texts {
    fn new(texts: &[OsString]) -> io::Result<Self> {
        let texts = texts
            .iter()
            .map(|text| CString::new(text.clone().into_vec()))
            .collect::<Result<Vec<_>, _>>()?;
        let places = texts.iter().map(|text| text.as_ptr());
        Ok(Self { list: places.chain([ptr::null()]).collect(), _texts: texts })
    }
}

impl Program {
    /// Prepares a program: its name and arguments, and its variables as `NAME=VALUE`. It is
    /// looked for in the `PATH` of these variables.
    ///
    /// # Errors
    ///
    /// `InvalidInput` without a name, and for a text with a zero byte.
    pub fn new(arguments: &[OsString], variables: &[OsString]) -> io::Result<Self> {
        if arguments.is_empty() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Self { arguments: Texts::new(arguments)?, variables: Texts::new(variables)? })
    }

    /// Starts it in the place of this process, which must have one thread. Returns only if that
    /// failed, and then the process has no variables.
    #[must_use]
    pub fn become_it(&self) -> io::Error {
        let arguments = self.arguments.list.as_ptr();
        // SAFETY: lists of texts that end, each ended by a null pointer, which live as long as
        // this value; no one else reads the variables in a process with one thread, and this
        // value is not borrowed by a later call after a failure.
        unsafe {
            environ = self.variables.list.as_ptr();
            execvp(*arguments, arguments);
        }
        let error = io::Error::last_os_error();
        // SAFETY: as above; the list of this value may be gone soon.
        unsafe { environ = ptr::null() };
        error
    }
}
