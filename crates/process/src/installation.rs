// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How a missing program is installed on this system.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::OnceLock;

/// The package managers of distributions, each with where it is, what is typed, and its place in
/// [`PACKAGES`].
const MANAGERS: [(&str, &str, usize); 6] = [
    ("/usr/bin/apt-get", "sudo apt-get install", 0),
    ("/usr/bin/dnf", "sudo dnf install", 1),
    ("/usr/bin/yum", "sudo yum install", 1),
    ("/usr/bin/zypper", "sudo zypper install", 2),
    ("/usr/bin/pacman", "sudo pacman -S", 3),
    ("/sbin/apk", "sudo apk add", 4),
];

/// Package managers that need neither root nor a distribution: their programs in `PATH`, what is typed, and
/// their places in [`PACKAGES`].
const MANAGERS_OF_USERS: [(&str, &str, usize); 2] =
    [("spack", "spack install", 6), ("conda", "conda install -c conda-forge", 5)];

/// A program, and its packages in Debian and Ubuntu, Fedora and its relatives, SUSE, Arch, Alpine,
/// conda-forge, and Spack. An empty name means that there is none.
type Packages = (&'static str, [&'static str; 7]);

/// The `PATH` of the user.
static SEARCH_PATH: OnceLock<OsString> = OnceLock::new();

/// Sets the `PATH` in which package managers of users are found. The first call counts.
pub fn search_in(path: &OsStr) {
    let _ = SEARCH_PATH.set(path.to_owned());
}

const PACKAGES: [Packages; 17] = [
    ("curl", ["curl", "curl", "curl", "curl", "curl", "curl", "curl"]),
    ("dpkg-deb", ["dpkg", "dpkg", "dpkg", "dpkg", "dpkg", "", ""]),
    ("dpkg-query", ["dpkg", "dpkg", "dpkg", "dpkg", "dpkg", "", ""]),
    ("dpkg-shlibdeps", ["dpkg-dev", "dpkg-dev", "", "dpkg", "dpkg-dev", "", ""]),
    ("erofsfuse", ["erofsfuse", "erofs-fuse", "erofs-utils", "erofs-utils", "", "", ""]),
    ("gcc", ["gcc", "gcc", "gcc", "gcc", "gcc", "", "gcc"]),
    ("gdb", ["gdb", "gdb", "gdb", "gdb", "gdb", "gdb", "gdb"]),
    ("git", ["git", "git", "git", "git", "git", "git", "git"]),
    ("gpg", ["gnupg", "gnupg2", "gpg2", "gnupg", "gnupg", "gnupg", "gnupg"]),
    ("lmod", ["lmod", "Lmod", "lua-lmod", "", "", "", "lmod"]),
    (
        "mkfs.erofs",
        ["erofs-utils", "erofs-utils", "erofs-utils", "erofs-utils", "erofs-utils", "", ""],
    ),
    (
        "mksquashfs",
        [
            "squashfs-tools",
            "squashfs-tools",
            "squashfs",
            "squashfs-tools",
            "squashfs-tools",
            "squashfs-tools",
            "squashfs",
        ],
    ),
    (
        "objcopy",
        ["binutils", "binutils", "binutils", "binutils", "binutils", "binutils", "binutils"],
    ),
    ("python3", ["python3", "python3", "python3", "python", "python3", "python", "python"]),
    ("rpmbuild", ["rpm", "rpm-build", "rpm-build", "rpm-tools", "rpm", "", "rpm"]),
    (
        "squashfuse",
        [
            "squashfuse",
            "squashfuse",
            "squashfuse",
            "squashfuse",
            "squashfuse",
            "squashfuse",
            "squashfuse",
        ],
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
            "openssh",
        ],
    ),
];

/// Returns the command that installs a program: with the package manager of this system, or else with Spack
/// or conda if it is in `PATH`, as in `sudo apt-get install squashfs-tools` for `mksquashfs`. `None` if no
/// package or no package manager is known.
#[must_use]
pub fn command(program: &str) -> Option<String> {
    command_where(program, exists)
}

/// Tells whether a program exists: its path, or its name in `PATH`.
fn exists(program: &str) -> bool {
    if program.starts_with('/') {
        return Path::new(program).exists();
    }
    let path = SEARCH_PATH.get().map(OsString::as_os_str).unwrap_or_default();
    std::env::split_paths(path).any(|place| place.is_absolute() && place.join(program).is_file())
}

fn command_where(program: &str, exists: impl Fn(&str) -> bool) -> Option<String> {
    let (_, names) = PACKAGES.iter().find(|(name, _)| *name == program)?;
    let has_it = |(manager, _, place): &&(&str, &str, usize)| {
        names.get(*place).is_some_and(|name| !name.is_empty()) && exists(manager)
    };
    let (_, typed, place) = MANAGERS.iter().chain(&MANAGERS_OF_USERS).find(has_it)?;
    Some(format!("{typed} {}", names.get(*place)?))
}

/// Returns a hint with this command: `` install it, for example with `sudo apt-get install git` ``. Without a
/// package manager, it names only the package.
#[must_use]
pub fn hint(program: &str) -> Option<String> {
    hint_where(program, exists)
}

fn hint_where(program: &str, exists: impl Fn(&str) -> bool) -> Option<String> {
    if let Some(command) = command_where(program, exists) {
        return Some(format!("install it, for example with `{command}`"));
    }
    let (_, names) = PACKAGES.iter().find(|(name, _)| *name == program)?;
    let name = names.iter().find(|name| !name.is_empty())?;
    Some(format!("install the package `{name}`, or ask an administrator to install it"))
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
            ("spack", "spack install squashfs"),
            ("conda", "conda install -c conda-forge squashfs-tools"),
        ] {
            assert_eq!(command_where("mksquashfs", |path| path == manager).unwrap(), expected);
        }
    }

    #[test]
    fn the_system_comes_before_spack_and_spack_before_conda() {
        let of = |managers: &[&str]| command_where("git", |one| managers.contains(&one)).unwrap();
        assert_eq!(of(&["conda", "spack", "/sbin/apk"]), "sudo apk add git");
        assert_eq!(of(&["conda", "spack"]), "spack install git");
    }

    #[test]
    fn without_a_package_manager_the_hint_names_the_package_and_no_command() {
        let hint = hint_where("mksquashfs", |_| false).unwrap();
        assert_eq!(
            hint,
            "install the package `squashfs-tools`, or ask an administrator to install it"
        );
    }

    #[test]
    fn what_has_no_package_has_no_command() {
        assert_eq!(command_where("erofsfuse", |_| false), None);
        assert_eq!(command("no such program"), None);
    }
}
