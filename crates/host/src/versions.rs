// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The versions of symbols that a file needs, or that it has for others.
//!
//! A linker writes `GLIBC_2.34` beside each symbol that it found there. The highest of
//! these is the oldest C library with which the file can be loaded.

use std::fs::File;
use std::os::unix::fs::FileExt;

use elf::abi::{ELFMAGIC, SHT_DYNSYM, SHT_GNU_VERDEF, SHT_GNU_VERNEED};
use elf::endian::{AnyEndian, EndianParse};
use elf::file::{Class, FileHeader, parse_ident};
use elf::gnu_symver::{VerDefIterator, VerNeedIterator};
use elf::hash::sysv_hash;
use elf::section::{SectionHeader, SectionHeaderTable};
use elf::string_table::StringTable;
use elf::symbol::{Symbol, SymbolTable};

use crate::GlibcVersion;

const PREFIX: &str = "GLIBC_";
/// The head of a file of 64 bits; that of 32 is shorter.
const HEAD: usize = 64;
const IDENT: usize = 16;
/// The longest name of a version that is looked at.
const NAME: usize = 32;
/// The most that is read of one section, in bytes.
const MOST: u64 = 4 << 20;

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
    binary.highest(&strings, names)
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

/// Returns the newest version that a C library has.
pub(crate) fn newest(file: &File) -> Option<GlibcVersion> {
    let binary = Binary::open(file)?;
    let (section, strings) = binary.find(SHT_GNU_VERDEF)?;
    let data = binary.data(&section)?;
    let count = section.sh_info.into();
    let all = VerDefIterator::new(binary.endian, binary.class, count, 0, &data);
    let names = all.flat_map(|(_, names)| names.map(|name| name.vda_name));
    binary.highest(&strings, names)
}

/// Returns the number of 32 bits that a library has under a name, as `plugin_version` of a
/// plugin; `None` if it is no library, or has none.
#[must_use]
pub fn number_under(file: &File, name: &str) -> Option<u32> {
    let binary = Binary::open(file)?;
    let (section, strings) = binary.find(SHT_DYNSYM)?;
    let data = binary.data(&section)?;
    let strings = binary.data(&strings)?;
    let names = StringTable::new(&strings);
    let symbols = SymbolTable::new(binary.endian, binary.class, &data);
    let is_meant = |symbol: &Symbol| {
        let place = usize::try_from(symbol.st_name);
        let found = place.ok().and_then(|place| names.get(place).ok());
        symbol.st_size == 4 && found == Some(name)
    };
    let symbol = symbols.iter().find(is_meant)?;
    // In a library a symbol is at an address, and sections tell where that is in the file.
    let headers = SectionHeaderTable::new(binary.endian, binary.class, &binary.sections);
    let header = headers.get(symbol.st_shndx.into()).ok()?;
    let place = symbol.st_value.checked_sub(header.sh_addr)?;
    let bytes = read(file, header.sh_offset.checked_add(place)?, 4)?;
    binary.endian.parse_u32_at(&mut 0, &bytes).ok()
}

/// A program or library, as far as its head tells.
struct Binary<'a> {
    file: &'a File,
    endian: AnyEndian,
    class: Class,
    /// The heads of its sections.
    sections: Vec<u8>,
}

impl<'a> Binary<'a> {
    /// Most files are none, and that shows in their first bytes.
    fn open(file: &'a File) -> Option<Self> {
        let mut head = [0; HEAD];
        let length = file.read_at(&mut head, 0).ok()?;
        let head = head
            .get(..length)
            .filter(|head| head.starts_with(&ELFMAGIC))?;
        let ident = parse_ident(head.get(..IDENT)?).ok()?;
        let head: FileHeader<AnyEndian> = FileHeader::parse_tail(ident, head.get(IDENT..)?).ok()?;
        let size = u64::from(head.e_shnum) * u64::from(head.e_shentsize);
        Some(Self {
            file,
            endian: head.endianness,
            class: head.class,
            sections: read(file, head.e_shoff, size)?,
        })
    }

    /// Finds a section of a kind, and the one with its strings.
    fn find(&self, kind: u32) -> Option<(SectionHeader, SectionHeader)> {
        let headers = SectionHeaderTable::new(self.endian, self.class, &self.sections);
        let section = headers.iter().find(|header| header.sh_type == kind)?;
        let strings = headers.get(usize::try_from(section.sh_link).ok()?).ok()?;
        Some((section, strings))
    }

    fn data(&self, section: &SectionHeader) -> Option<Vec<u8>> {
        read(self.file, section.sh_offset, section.sh_size)
    }

    /// Reads names one by one: the section that holds them has those of all symbols.
    fn highest(
        &self,
        strings: &SectionHeader,
        names: impl Iterator<Item = u32>,
    ) -> Option<GlibcVersion> {
        let version = |name: u32| {
            let mut text = [0; NAME];
            let place = strings.sh_offset.checked_add(name.into())?;
            self.file.read_at(&mut text, place).ok()?;
            let text = text.split(|&byte| byte == 0).next()?;
            str::from_utf8(text)
                .ok()?
                .strip_prefix(PREFIX)?
                .parse()
                .ok()
        };
        names.filter_map(version).max()
    }
}

fn read(file: &File, offset: u64, size: u64) -> Option<Vec<u8>> {
    let size = usize::try_from(size).ok().filter(|_| size <= MOST)?;
    let mut data = vec![0; size];
    file.read_exact_at(&mut data, offset).ok()?;
    Some(data)
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
