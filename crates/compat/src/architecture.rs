// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whether this machine runs programs of an architecture.

use std::env::consts::ARCH;
use std::fs;
use std::path::Path;

/// Where the kernel lists the programs that run files of other formats, such as emulators.
/// Source: `Documentation/admin-guide/binfmt-misc.rst` of Linux.
const HANDLERS: &str = "/proc/sys/fs/binfmt_misc";

/// Returns the architectures, joined by `and`, if this machine runs programs of none of them. Names are
/// those of the kernel: `x86_64`, `aarch64`.
#[must_use]
pub fn other_architectures(architectures: &[String]) -> Option<String> {
    let runs_one = architectures.iter().any(|one| runs(one, ARCH, Path::new(HANDLERS)));
    (!architectures.is_empty() && !runs_one).then(|| architectures.join(" and "))
}

/// Whether a machine runs programs of an architecture. A name that is none of those of [`crate::Kind::name`]
/// may be any.
fn runs(architecture: &str, machine: &str, handlers: &Path) -> bool {
    let machine = if machine == "powerpc64" { "ppc64le" } else { machine };
    match architecture {
        "x86_64" | "aarch64" | "ppc64le" | "riscv64" | "s390x" => {
            architecture == machine || has_handler(architecture, handlers)
        }
        "i386" => matches!(machine, "x86_64" | "x86") || has_handler(architecture, handlers),
        _ => true,
    }
}

/// Whether an emulator is registered for it: the emulators of QEMU are called `qemu-aarch64`.
fn has_handler(architecture: &str, handlers: &Path) -> bool {
    let mut entries = fs::read_dir(handlers).into_iter().flatten().flatten();
    entries.any(|entry| {
        entry.file_name().to_str().is_some_and(|name| name.ends_with(architecture))
            && fs::read_to_string(entry.path()).is_ok_and(|text| text.starts_with("enabled"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_runs_its_architecture_and_those_of_its_emulators() {
        let handlers = tempfile::tempdir().unwrap();
        let place = handlers.path();
        fs::write(place.join("status"), "enabled\n").unwrap();
        assert!(runs("x86_64", "x86_64", place) && runs("i386", "x86_64", place));
        assert!(!runs("aarch64", "x86_64", place) && !runs("i386", "aarch64", place));
        assert!(runs("ppc64le", "powerpc64", place));
        assert!(runs("another architecture", "x86_64", place));
        fs::write(place.join("qemu-aarch64"), "disabled\ninterpreter /usr/bin/qemu\n").unwrap();
        assert!(!runs("aarch64", "x86_64", place));
        fs::write(place.join("qemu-aarch64"), "enabled\ninterpreter /usr/bin/qemu\n").unwrap();
        assert!(runs("aarch64", "x86_64", place) && !runs("riscv64", "x86_64", place));
        assert!(!runs("aarch64", "x86_64", &place.join("missing")));
    }

    #[test]
    fn one_architecture_that_runs_is_enough() {
        let other = if ARCH == "x86_64" { "s390x" } else { "x86_64" };
        let names = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(other_architectures(&[]), None);
        assert_eq!(other_architectures(&names(&[ARCH, "s390x"])), None);
        assert_eq!(other_architectures(&names(&["unknown"])), None);
        assert_eq!(other_architectures(&names(&[other])), Some(other.to_owned()));
    }
}
