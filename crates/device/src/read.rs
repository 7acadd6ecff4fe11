// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Reading one specification, if only root or its reader can have written it.

use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use cabane_recipe::{DeviceSpecification, MAX_FILE_SIZE, parse_device_specification};
use rustix::fs::OFlags;
use rustix::process::geteuid;

/// What others than the owner may do: write.
const OTHERS_WRITE: u32 = 0o022;
/// As whose a file is seen whose owner has no number in a user namespace.
const OVERFLOW: &str = "/proc/sys/kernel/overflowuid";

/// Reads a file; what is wrong is reported with its place.
pub(crate) fn read(path: &Path) -> Result<DeviceSpecification, String> {
    let text = read_bytes(path).map_err(|reason| format!("{}: {reason}", path.display()))?;
    parse_device_specification(path, &text).map_err(|error| error.to_string())
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, String> {
    // Nothing is waited for, as it would be if someone had put a fifo there.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(flags).open(path);
    let file = file.map_err(|error| error.to_string())?;
    let found = file.metadata().map_err(|error| error.to_string())?;
    if !found.is_file() {
        return Err("it is no plain file".to_owned());
    }
    check(&found)?;
    let mut text = Vec::new();
    // One byte more than allowed, so that the parser notices.
    file.take(MAX_FILE_SIZE.saturating_add(1))
        .read_to_end(&mut text)
        .map_err(|error| error.to_string())?;
    Ok(text)
}

/// Tells why a file or directory is not believed. What it says is done for everyone on the
/// machine, so others must not have written it.
pub(crate) fn check(found: &Metadata) -> Result<(), String> {
    let owner = found.uid();
    if owner != 0 && owner != geteuid().as_raw() && Some(owner) != overflow() {
        return Err(format!("it belongs to user {owner}, and not to root"));
    }
    if found.mode() & OTHERS_WRITE != 0 {
        return Err("others than its owner can write to it".to_owned());
    }
    Ok(())
}

/// Returns the number that stands for users without a number here, if there are such users.
fn overflow() -> Option<u32> {
    let map = fs::read_to_string("/proc/self/uid_map").ok()?;
    if map.split_whitespace().eq(["0", "0", "4294967295"]) {
        return None;
    }
    fs::read_to_string(OVERFLOW).ok()?.trim().parse().ok()
}
