// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The file in which an administrator says which builds of images a machine takes.

use std::io;
use std::path::Path;

use cabane_privileged::{Error, trusted};

/// Where the file is: names of microarchitectures, the best first.
pub const UARCH_ORDER: &str = "/etc/cabane/uarch";
const MAX_SIZE: u64 = 4 << 10;

/// Returns the text of the file, which is empty if there is no file.
///
/// # Errors
///
/// [`Error::Untrusted`] if others than root could change it, [`Error::Step`] if it cannot be
/// read.
pub fn uarch_order() -> Result<String, Error> {
    match trusted::read_file(Path::new(UARCH_ORDER), MAX_SIZE) {
        Err(Error::Step { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(String::new())
        }
        read => read,
    }
}
