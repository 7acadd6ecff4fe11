// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Work that takes long: it reports progress, and the caller may interrupt it.

use crate::Error;

/// Receives how much was done, and may end it.
pub trait Progress: Sync {
    /// How many bytes of layers were read, as they come, and of how many if that is known.
    fn read(&self, done: u64, of: Option<u64>);
    /// Whether to go on.
    fn go_on(&self) -> bool;
}

/// Tells how much was read.
///
/// # Errors
///
/// That it is to end here.
pub(crate) fn tell(progress: &dyn Progress, done: u64, of: Option<u64>) -> Result<(), Error> {
    progress.read(done, of);
    if progress.go_on() { Ok(()) } else { Err(Error::Interrupted) }
}
