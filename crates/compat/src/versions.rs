// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The versions of symbols that a file needs, or that it has for others.
//!
//! A linker writes `GLIBC_2.34` beside each symbol that it found there. The highest of
//! these is the oldest C library with which the file can be loaded.

use std::fs::File;
use std::os::unix::fs::FileExt;

use elf::abi::{SHT_GNU_VERDEF, SHT_GNU_VERNEED};
use elf::endian::EndianParse;
use elf::gnu_symver::{VerDefIterator, VerNeedIterator};
use elf::hash::sysv_hash;
use elf::section::SectionHeader;

use crate::GlibcVersion;
use crate::binary::{Binary, read};

const PREFIX: &str = "GLIBC_";
/// The longest name of a version that is looked at.
const NAME: usize = 32;

/// Returns the oldest GNU C library with which a program or library can be loaded;
/// `None` if the file is neither, or needs none.
#[must_use]
pub fn needed_glibc(file: &File) -> Option<GlibcVersion> {
    let binary = Binary::open(file)?;
    let (section, strings) = binary.find(SHT_GNU_VERNEED)?;
    let data = binary.data(&section)?;
    let count = section.sh_info.into();
    let needs = VerNeedIterator::new(binary.endian, binary.class, count, 0, &data);
    let names = needs.flat_map(|(_, versions)| versions.map(|version| version.vna_name));
    highest(&binary, &strings, names)
}

/// Whether a C library has a version. No name is read for that, only their hashes.
pub(crate) fn defines(file: &File, version: GlibcVersion) -> Option<bool> {
    let binary = Binary::open(file)?;
    let (section, _) = binary.find(SHT_GNU_VERDEF)?;
    let data = binary.data(&section)?;
    let wanted = sysv_hash(format!("{PREFIX}{version}").as_bytes());
    let count = section.sh_info.into();
    let mut all = VerDefIterator::new(binary.endian, binary.class, count, 0, &data);
    Some(all.any(|(definition, _)| definition.vd_hash == wanted))
}

/// Returns those of some versions that a library does not have. The loader takes a library without
/// any version for all, and so does this.
pub(crate) fn lacking(file: &File, wanted: &[String]) -> Vec<String> {
    let hashes = || {
        let binary = Binary::open(file)?;
        let (section, _) = binary.find(SHT_GNU_VERDEF)?;
        let data = binary.data(&section)?;
        let count = section.sh_info.into();
        let all = VerDefIterator::new(binary.endian, binary.class, count, 0, &data);
        Some(all.map(|(definition, _)| definition.vd_hash).collect::<Vec<u32>>())
    };
    let Some(hashes) = (!wanted.is_empty()).then(hashes).flatten() else {
        return Vec::new();
    };
    let is_lacking = |version: &&String| !hashes.contains(&sysv_hash(version.as_bytes()));
    wanted.iter().filter(is_lacking).cloned().collect()
}

/// Returns the newest version that a C library has.
pub(crate) fn newest(file: &File) -> Option<GlibcVersion> {
    let binary = Binary::open(file)?;
    let (section, strings) = binary.find(SHT_GNU_VERDEF)?;
    let data = binary.data(&section)?;
    let count = section.sh_info.into();
    let all = VerDefIterator::new(binary.endian, binary.class, count, 0, &data);
    let names = all.flat_map(|(_, names)| names.map(|name| name.vda_name));
    highest(&binary, &strings, names)
}

/// Returns the number of 32 bits that a library has under a name, as `plugin_version` of a
/// plugin; `None` if it is no library, or has none.
#[must_use]
pub fn number_under(file: &File, name: &str) -> Option<u32> {
    let binary = Binary::open(file)?;
    let place = binary.place_of(name, |symbol| symbol.st_size == 4)?;
    let bytes = read(file, place, 4)?;
    binary.endian.parse_u32_at(&mut 0, &bytes).ok()
}

/// Reads names one by one: the section that holds them has those of all symbols.
fn highest(
    binary: &Binary<'_>,
    strings: &SectionHeader,
    names: impl Iterator<Item = u32>,
) -> Option<GlibcVersion> {
    let version = |name: u32| {
        let mut text = [0; NAME];
        let place = strings.sh_offset.checked_add(name.into())?;
        binary.file.read_at(&mut text, place).ok()?;
        let text = text.split(|&byte| byte == 0).next()?;
        str::from_utf8(text).ok()?.strip_prefix(PREFIX)?.parse().ok()
    };
    names.filter_map(version).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_this_machine_needs_no_newer_library_than_there_is() {
        // Every distribution with a GNU C library has one of these, linked with it.
        let needed = needed_glibc(&File::open("/bin/sh").expect("a shell"));
        let has = crate::glibc();
        let fits = needed <= has && needed.is_some() == has.is_some();
        assert!(fits, "{needed:?} {has:?}");
    }

    #[test]
    fn a_text_needs_nothing() {
        let text = File::open("Cargo.toml").expect("a text");
        assert_eq!(needed_glibc(&text), None);
    }

    #[test]
    fn a_program_that_is_cut_off_needs_nothing() {
        let mut cut = tempfile::tempfile().expect("a file");
        std::io::Write::write_all(&mut cut, b"\x7fELF\x02\x01\x01").expect("a few bytes");
        assert_eq!(needed_glibc(&cut), None);
    }

    #[test]
    fn a_library_has_its_newest_version_and_not_the_next() {
        let mut places = crate::glibc::PLACES.iter();
        let library = places.find_map(|place| File::open(place).ok());
        let seen = crate::glibc().map(|newest| {
            let library = library.as_ref().expect("the library that was found");
            [newest, newest.next()].map(|version| defines(library, version))
        });
        let expected = crate::glibc().map(|_| [Some(true), Some(false)]);
        assert_eq!(seen, expected);
    }
}
