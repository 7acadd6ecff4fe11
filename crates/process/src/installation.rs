// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How a missing program is installed on this system.

use std::path::Path;

/// The managers of packages, each with where it is, what is typed, and its place in [`PACKAGES`]. The
/// package manager of the distribution comes first.
const MANAGERS: [(&str, &str, usize); 7] = [
    ("/usr/bin/apt-get", "sudo apt-get install", 0),
    ("/usr/bin/dnf", "sudo dnf install", 1),
    ("/usr/bin/yum", "sudo yum install", 1),
    ("/usr/bin/zypper", "sudo zypper install", 2),
    ("/usr/bin/pacman", "sudo pacman -S", 3),
    ("/sbin/apk", "sudo apk add", 4),
    // Neither root nor a distribution is needed.
    ("", "conda install -c conda-forge", 5),
];

/// A program, and its packages in Debian and Ubuntu, Fedora and its relatives, SUSE, Arch, Alpine, and
/// conda-forge. An empty name means that there is none.
type Packages = (&'static str, [&'static str; 6]);

const PACKAGES: [Packages; 16] = [
    ("dpkg-deb", ["dpkg", "dpkg", "dpkg", "dpkg", "dpkg", ""]),
    ("dpkg-query", ["dpkg", "dpkg", "dpkg", "dpkg", "dpkg", ""]),
    ("dpkg-shlibdeps", ["dpkg-dev", "dpkg-dev", "", "dpkg", "dpkg-dev", ""]),
    ("erofsfuse", ["erofsfuse", "erofs-fuse", "erofs-utils", "erofs-utils", "", ""]),
    ("gcc", ["gcc", "gcc", "gcc", "gcc", "gcc", ""]),
    ("gdb", ["gdb", "gdb", "gdb", "gdb", "gdb", "gdb"]),
    ("git", ["git", "git", "git", "git", "git", "git"]),
    ("gpg", ["gnupg", "gnupg2", "gpg2", "gnupg", "gnupg", "gnupg"]),
    ("lmod", ["lmod", "Lmod", "lua-lmod", "", "", ""]),
    ("mkfs.erofs", ["erofs-utils", "erofs-utils", "erofs-utils", "erofs-utils", "erofs-utils", ""]),
    (
        "mksquashfs",
        [
            "squashfs-tools",
            "squashfs-tools",
            "squashfs",
            "squashfs-tools",
            "squashfs-tools",
            "squashfs-tools",
        ],
    ),
    ("objcopy", ["binutils", "binutils", "binutils", "binutils", "binutils", "binutils"]),
    ("python3", ["python3", "python3", "python3", "python", "python3", "python"]),
    ("rpmbuild", ["rpm", "rpm-build", "rpm-build", "rpm-tools", "rpm", ""]),
    (
        "squashfuse",
        ["squashfuse", "squashfuse", "squashfuse", "squashfuse", "squashfuse", "squashfuse"],
    ),
    (
        "ssh",
        [
            "openssh-client",
            "openssh-clients",
            "openssh-clients",
            "openssh",
            "openssh-client",
            "openssh",
        ],
    ),
];

/// Returns the command that installs a program with the package manager of this system, or with conda
/// where there is none that is known: `sudo apt-get install squashfs-tools` for `mksquashfs`. `None` if no
/// package is known.
#[must_use]
pub fn command(program: &str) -> Option<String> {
    command_where(program, |manager| Path::new(manager).exists())
}

fn command_where(program: &str, is_there: impl Fn(&str) -> bool) -> Option<String> {
    let (_, names) = PACKAGES.iter().find(|(name, _)| *name == program)?;
    let has_it = |(path, _, place): &&(&str, &str, usize)| {
        (path.is_empty() || is_there(path))
            && names.get(*place).is_some_and(|name| !name.is_empty())
    };
    let (_, typed, place) = MANAGERS.iter().find(has_it)?;
    Some(format!("{typed} {}", names.get(*place)?))
}

/// Returns a hint with this command: `` install it, for example with `sudo apt-get install git` ``.
#[must_use]
pub fn hint(program: &str) -> Option<String> {
    Some(format!("install it, for example with `{}`", command(program)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_manager_of_the_system_is_named() {
        for (manager, expected) in [
            ("/usr/bin/apt-get", "sudo apt-get install squashfs-tools"),
            ("/usr/bin/dnf", "sudo dnf install squashfs-tools"),
            ("/usr/bin/zypper", "sudo zypper install squashfs"),
            ("/usr/bin/pacman", "sudo pacman -S squashfs-tools"),
            ("/sbin/apk", "sudo apk add squashfs-tools"),
            ("/nowhere", "conda install -c conda-forge squashfs-tools"),
        ] {
            assert_eq!(command_where("mksquashfs", |path| path == manager).unwrap(), expected);
        }
    }

    #[test]
    fn what_has_no_package_has_no_command() {
        assert_eq!(command_where("erofsfuse", |_| false), None);
        assert_eq!(command("no such program"), None);
    }
}
