// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whether what an image calls a program is one of the image.
//!
//! Until a process has become another program, `/proc/self/exe` is this one, in a file of the host:
//! a program of an image that is a link to it, or names it as its interpreter, would have it open.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use cabane_label::shown;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

/// What runs files that are neither programs nor name an interpreter (`execvp(3)`).
const SHELL: &str = "/bin/sh";
/// How many interpreters of interpreters the kernel starts at most.
const DEEPEST: u32 = 5;
/// How much of a script the kernel reads for its first line, in bytes.
const LINE: usize = 256;
/// The longest name of a loader, in bytes.
const LONGEST: u64 = 4096;
/// The kind of a segment that names the loader.
const NAMES_LOADER: u64 = 3;

/// Where the head of a program says what: places and sizes in bytes.
struct ElfLayout {
    /// Where it is that the table of segments begins.
    table: u64,
    count: u64,
    /// The size of a segment in the table.
    segment: u64,
    /// In a segment.
    offset: u64,
    length: u64,
    /// Of the numbers, but for the count.
    width: usize,
}

const LAYOUTS: [ElfLayout; 2] = [
    ElfLayout { table: 32, count: 56, segment: 56, offset: 8, length: 32, width: 8 },
    ElfLayout { table: 28, count: 44, segment: 32, offset: 4, length: 16, width: 4 },
];

/// Fails if starting a program, or what would run it, leads through a link of `/proc` to something
/// that this process has open. The root of this process must be that of the image; `search` is the
/// variable `PATH`.
///
/// # Errors
///
/// Which file does so, or cannot be looked at.
pub(crate) fn check_program(program: &Path, search: &OsStr) -> Result<(), String> {
    if program.as_os_str().as_bytes().contains(&b'/') {
        check(program, 0)?;
    } else {
        std::env::split_paths(search)
            .try_for_each(|directory| check(&directory.join(program), 0))?;
    }
    check(Path::new(SHELL), 0)
}

fn check(path: &Path, depth: u32) -> Result<(), String> {
    if depth > DEEPEST {
        // The kernel refuses it.
        return Ok(());
    }
    // It may be a pipe, for which others would wait.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS) {
        Ok(file) => File::from(file),
        // Starting it fails as well.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => return Ok(()),
        Err(Errno::LOOP) => {
            return Err(format!("{} of the image is a link through `/proc`", shown(path)));
        }
        Err(errno) => return Err(format!("cannot open {} of the image: {errno}", shown(path))),
    };
    interpreters(&file).iter().try_for_each(|path| check(path, depth + 1))
}

/// Returns what the kernel may start for a file: the interpreter of a script, or the loaders that a
/// program names, read as programs for both sizes of addresses. The kernel accepts programs that a library
/// for ELF calls damaged, so none is used here.
fn interpreters(file: &File) -> Vec<PathBuf> {
    let mut head = [0; LINE];
    let length = file.read_at(&mut head, 0).unwrap_or(0);
    let head = head.get(..length).unwrap_or_default();
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|byte| matches!(byte, b'\n' | 0)).next().unwrap_or_default();
        let mut words = line.split(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
        return words.find(|word| !word.is_empty()).map(as_path).into_iter().collect();
    }
    if !head.starts_with(b"\x7fELF") {
        return Vec::new();
    }
    LAYOUTS.iter().flat_map(|layout| loaders(file, layout)).collect()
}

fn loaders(file: &File, layout: &ElfLayout) -> Vec<PathBuf> {
    let table = number(file, layout.table, layout.width);
    let count = number(file, layout.count, 2);
    let places = (0..count).map(|index| table.saturating_add(index * layout.segment));
    let segments = places.filter(|place| number(file, *place, 4) == NAMES_LOADER);
    segments
        .map(|place| {
            let offset = number(file, place.saturating_add(layout.offset), layout.width);
            let length = number(file, place.saturating_add(layout.length), layout.width);
            let mut name = vec![0; usize::try_from(length.min(LONGEST)).unwrap_or_default()];
            let length = file.read_at(&mut name, offset).unwrap_or(0);
            name.truncate(length);
            as_path(name.split(|byte| *byte == 0).next().unwrap_or_default())
        })
        .collect()
}

/// Reads a number whose lowest byte is the first one; what is not there is zero.
fn number(file: &File, place: u64, width: usize) -> u64 {
    let mut bytes = [0; 8];
    let read = bytes.get_mut(..width).and_then(|bytes| file.read_exact_at(bytes, place).ok());
    read.map_or(0, |()| u64::from_le_bytes(bytes))
}

fn as_path(name: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(name))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_through_proc_are_found_behind_interpreters() {
        let world = tempfile::tempdir().unwrap();
        let path = |name: &str| world.path().join(name);
        let own = "/proc/self/exe";
        symlink(own, path("link")).unwrap();
        fs::write(path("script"), format!("#! {own} -x\n")).unwrap();
        fs::write(path("second"), format!("#!{}\n", path("script").display())).unwrap();
        // A program of this machine, with another loader, and without a table of sections.
        let mut bytes = fs::read(std::env::current_exe().unwrap()).unwrap();
        let begin = bytes.windows(5).position(|bytes| bytes == b"/lib6" || bytes == b"/lib/");
        let begin = begin.unwrap();
        let name = format!("{own}\0");
        bytes.splice(begin..begin + name.len(), name.bytes());
        bytes.splice(40..48, [0xff; 8]);
        fs::write(path("loaded"), bytes).unwrap();
        for name in ["link", "script", "second", "loaded"] {
            let error = check_program(&path(name), OsStr::new("")).unwrap_err();
            assert!(error.ends_with("of the image is a link through `/proc`"), "{name}: {error}");
            let found = check_program(Path::new(name), world.path().as_os_str());
            assert_eq!(found, Err(error));
        }
        check_program(Path::new("sh"), OsStr::new("/usr/bin:/bin")).unwrap();
        check_program(Path::new("/none"), OsStr::new("")).unwrap();
    }
}
