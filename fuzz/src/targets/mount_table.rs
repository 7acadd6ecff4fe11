// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The table of mounts, by which the set-uid helper decides whether an owner is trusted.

use cabane_privileged::overlay_layers;
use cabane_sys::mount_table::Mount;

use super::Verdict;

/// Reads a line of the table, and the layers of the overlay that it may describe.
///
/// A user chooses the name of a mount point and the source of a FUSE mount, and the kernel
/// escapes blanks in both: neither may pass for the type of the file system.
pub fn run(bytes: &[u8]) -> Verdict {
    let layers = overlay_layers(bytes);
    let bytes_of_layers: usize = layers.iter().map(|layer| layer.as_os_str().len()).sum();
    if bytes_of_layers > bytes.len() {
        return Verdict::Wrong(format!("there is more than was read: {layers:?}"));
    }
    let line = bytes.split(|byte| *byte == b'\n').next();
    let line = line.unwrap_or_default();
    let Some((mount, options)) = Mount::from_line(line, 1) else {
        return Verdict::Refused;
    };
    if mount.kind.contains([' ', '.']) {
        return Verdict::Wrong(format!("this is no type: {mount:?}"));
    }
    let plain = [b"1 1 0:1 / / rw - ", mount.kind.as_bytes(), b" x ", &options, b" end"].concat();
    match Mount::from_line(&plain, 1) {
        Some((again, rest)) if again.kind == mount.kind && rest == options => Verdict::Accepted,
        other => Verdict::Wrong(format!("{mount:?} is read again as {other:?}")),
    }
}
