// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is kept of the machine on which checks run.

use std::fs::File;
use std::io::Read;

use cabane_evidence::Host;
use cabane_site::Context;

use crate::judge::short;

/// A file of the kernel or of the distribution has some lines.
const MOST: u64 = 64 * 1024;

/// Looks at this machine.
#[must_use]
pub(crate) fn here(context: &Context) -> Host {
    let os = text("/etc/os-release").and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
        Some(short(line.trim_matches('"')))
    });
    let driver = text("/proc/driver/nvidia/version").and_then(|text| driver_version(&text));
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    Host {
        system: context.system().map(|system| system.to_string()),
        os,
        kernel: Some(kernel),
        architecture: std::env::consts::ARCH.to_owned(),
        glibc: cabane_compat::glibc().map(|version| version.to_string()),
        nvidia_driver: driver,
    }
}

fn text(path: &str) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MOST).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// `NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar …`.
fn driver_version(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("NVRM version:"))?;
    let is_version =
        |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    line.split_whitespace().find(is_version).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_driver_is_found() {
        let text = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n\
                    GCC version:  gcc version 12.2.0\n";
        assert_eq!(driver_version(text).as_deref(), Some("570.86.15"));
        assert_eq!(driver_version("nothing"), None);
    }
}
