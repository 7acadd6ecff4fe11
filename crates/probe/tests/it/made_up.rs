// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A machine in a directory: files, links, and scripts for programs.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cabane_probe::{Found, Limits, Request, SystemText, probe};
use tempfile::TempDir;

/// The features of a processor of level 4.
pub(crate) const X86_V4: &str = "flags : cx16 lahf_lm mmx sse sse2 ssse3 sse4_1 sse4_2 popcnt avx avx2 \
     bmi1 bmi2 f16c fma abm movbe xsave avx512f avx512bw avx512cd avx512dq avx512vl\n";

/// The features of a processor like Grace.
pub(crate) const NEOVERSE_V2: &str = "Features : fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp \
     asimdhp cpuid asimdrdm jscvt fcma lrcpc dcpop sha3 asimddp sha512 sve asimdfhm uscat ilrcpc \
     flagm sb dcpodp sve2 flagm2 frint svei8mm svebf16 i8mm bf16\n";

pub(crate) struct MadeUp {
    root: TempDir,
}

impl MadeUp {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        Self { root }
    }

    fn place(&self, path: &str) -> PathBuf {
        let place = self.root.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        place
    }

    pub(crate) fn file(self, path: &str, text: &str) -> Self {
        fs::write(self.place(path), text).unwrap();
        self
    }

    pub(crate) fn files(self, paths: &[&str]) -> Self {
        paths.iter().fold(self, |machine, path| machine.file(path, ""))
    }

    pub(crate) fn link(self, path: &str, target: &str) -> Self {
        symlink(target, self.place(path)).unwrap();
        self
    }

    /// Adds a program that runs some lines of shell.
    pub(crate) fn program(self, path: &str, script: &str) -> Self {
        let place = self.place(path);
        fs::write(&place, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// Adds a program that prints the same for all arguments.
    pub(crate) fn says(self, path: &str, text: &str) -> Self {
        self.program(path, &format!("cat <<'END'\n{text}\nEND"))
    }

    /// Adds gcc, g++ and gfortran.
    pub(crate) fn gcc(self, directory: &str, suffix: &str, version: &str) -> Self {
        ["gcc", "g++", "gfortran"].iter().fold(self, |machine, name| {
            machine.says(&format!("{directory}/{name}{suffix}"), version)
        })
    }

    pub(crate) fn request(&self) -> Request {
        Request {
            root: self.root.path().to_owned(),
            homes: vec!["/users/me".into()],
            target: None,
            limits: Limits {
                // The machine of the tests may be busy.
                answer: Duration::from_secs(60),
                total: Duration::from_secs(120),
                ..Limits::default()
            },
        }
    }

    pub(crate) fn probe(&self) -> Found {
        probe(&self.request())
    }

    pub(crate) fn text(&self) -> SystemText {
        SystemText::of(&self.probe())
    }
}

/// Compares a machine with the files that were written down for it. With
/// `CABANE_BLESS`, writes them down instead.
pub(crate) fn assert_golden(name: &str, machine: &MadeUp) {
    let text = machine.text();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden").join(name);
    let pairs = [("packages.yaml", text.packages), ("network.yaml", text.network)];
    if std::env::var_os("CABANE_BLESS").is_some() {
        fs::create_dir_all(&directory).unwrap();
        for (file, text) in &pairs {
            fs::write(directory.join(file), text).unwrap();
        }
    }
    let written = pairs.map(|(file, text)| {
        let expected = fs::read_to_string(directory.join(file)).unwrap_or_default();
        (expected, text)
    });
    let (expected, found): (Vec<String>, Vec<String>) = written.into_iter().unzip();
    assert_eq!(found.join("\n"), expected.join("\n"));
}
