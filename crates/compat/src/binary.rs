// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A program or library, as far as its sections tell.
//!
//! Only what is requested is read, and no more of it than a real file has: the numbers in
//! a file belong to others. What does not hold together counts as not there.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use elf::abi::{
    DF_1_NODEFLIB, DT_FLAGS_1, DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME, ELFMAGIC, ET_DYN,
    ET_EXEC, PT_INTERP, SHF_ALLOC, SHF_EXECINSTR, SHF_WRITE, SHT_DYNAMIC, SHT_DYNSYM, SHT_PROGBITS,
    SHT_SYMTAB, STB_LOCAL, STB_WEAK, VER_FLG_WEAK,
};
use elf::dynamic::DynamicTable;
use elf::endian::{AnyEndian, EndianParse};
use elf::file::{Class, FileHeader, parse_ident};
use elf::section::{SectionHeader, SectionHeaderTable};
use elf::segment::{ProgramHeader, SegmentTable};
use elf::symbol::{Symbol, SymbolTable};

/// The head of a file of 64 bits; that of 32 is shorter.
const HEAD: usize = 64;
const IDENT: usize = 16;
/// The most that is read of one section, in bytes.
const MOST: u64 = 128 << 20;
/// The longest name of anything.
const LONGEST: u64 = 4096;
const LONGEST_TEXT: usize = 4096;
/// The most libraries that one file needs.
const MOST_NEEDED: usize = 1000;

/// For which processors a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    machine: u16,
    is_wide: bool,
    is_little: bool,
}

impl Kind {
    /// Returns the name of the architecture, as the kernel calls it, if it is a usual one.
    #[must_use]
    pub fn name(self) -> &'static str {
        match (self.machine, self.is_wide, self.is_little) {
            (elf::abi::EM_X86_64, true, _) => "x86_64",
            (elf::abi::EM_386, ..) => "i386",
            (elf::abi::EM_AARCH64, true, true) => "aarch64",
            (elf::abi::EM_PPC64, true, true) => "ppc64le",
            (elf::abi::EM_RISCV, true, true) => "riscv64",
            (elf::abi::EM_S390, true, false) => "s390x",
            _ => "another architecture",
        }
    }
}

/// What a file needs of the loader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// The name by which others need it.
    pub soname: Option<String>,
    /// The names that it needs, in their order.
    pub needed: Vec<String>,
    /// Where to look for what it and its libraries need, before the variable.
    pub rpath: Option<String>,
    /// Where to look for what it needs, after the variable.
    pub runpath: Option<String>,
    /// That neither the cache nor the directories of the system are looked into.
    pub is_without_default: bool,
}

/// A name in the table of symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolSeen<'a> {
    /// The name.
    pub name: &'a str,
    /// Whether the file has it, or needs it of others.
    pub is_defined: bool,
    /// Whether it need not be there.
    pub is_weak: bool,
}

/// A version that is needed of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionNeed {
    /// The library, by its soname.
    pub of: String,
    /// The version: `GLIBC_2.34`.
    pub version: String,
    /// Whether it need not be there.
    pub is_weak: bool,
}

/// A program or library.
#[derive(Debug)]
pub struct Binary<'a> {
    pub(crate) file: &'a File,
    pub(crate) endian: AnyEndian,
    pub(crate) class: Class,
    head: FileHeader<AnyEndian>,
    /// The heads of its sections.
    sections: Vec<u8>,
}

impl<'a> Binary<'a> {
    /// Reads the head of a file. Most files are none, and that shows in their first bytes.
    #[must_use]
    pub fn open(file: &'a File) -> Option<Self> {
        let mut head = [0; HEAD];
        let length = file.read_at(&mut head, 0).ok()?;
        let head = head.get(..length).filter(|head| head.starts_with(&ELFMAGIC))?;
        let ident = parse_ident(head.get(..IDENT)?).ok()?;
        let head: FileHeader<AnyEndian> = FileHeader::parse_tail(ident, head.get(IDENT..)?).ok()?;
        let size = u64::from(head.e_shnum) * u64::from(head.e_shentsize);
        Some(Self {
            file,
            endian: head.endianness,
            class: head.class,
            sections: read(file, head.e_shoff, size)?,
            head,
        })
    }

    /// Returns for which processors it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        Kind {
            machine: self.head.e_machine,
            is_wide: self.class == Class::ELF64,
            is_little: self.endian.is_little(),
        }
    }

    /// Whether it is a program or library that is whole: no object file, no core.
    #[must_use]
    pub fn is_linked(&self) -> bool {
        matches!(self.head.e_type, ET_EXEC | ET_DYN)
    }

    pub(crate) fn file_type(&self) -> u16 {
        self.head.e_type
    }

    /// Looks at each segment that the kernel loads or reads.
    pub(crate) fn each_segment(&self, see: impl FnMut(ProgramHeader)) {
        let size = u64::from(self.head.e_phnum) * u64::from(self.head.e_phentsize);
        let data = read(self.file, self.head.e_phoff, size).unwrap_or_default();
        SegmentTable::new(self.endian, self.class, &data).iter().for_each(see);
    }

    /// Returns the loader that a program names; libraries and static programs name none.
    #[must_use]
    pub fn interpreter(&self) -> Option<PathBuf> {
        let size = u64::from(self.head.e_phnum) * u64::from(self.head.e_phentsize);
        let data = read(self.file, self.head.e_phoff, size)?;
        let segments = SegmentTable::new(self.endian, self.class, &data);
        let segment = segments.iter().find(|segment| segment.p_type == PT_INTERP)?;
        let text = read(self.file, segment.p_offset, segment.p_filesz.min(LONGEST))?;
        let text = text.split(|&byte| byte == 0).next()?;
        Some(PathBuf::from(str::from_utf8(text).ok()?))
    }

    /// Returns what it needs of the loader; nothing if it is static.
    #[must_use]
    pub fn links(&self) -> Option<Links> {
        let (section, strings) = self.find(SHT_DYNAMIC)?;
        let (data, strings) = (self.data(&section)?, self.data(&strings)?);
        let mut links = Links::default();
        for entry in DynamicTable::new(self.endian, self.class, &data).iter() {
            let value = entry.d_val();
            let text = || text_at(&strings, value).map(str::to_owned);
            match entry.d_tag {
                DT_NEEDED if links.needed.len() < MOST_NEEDED => links.needed.extend(text()),
                DT_SONAME => links.soname = text(),
                DT_RPATH => links.rpath = text(),
                DT_RUNPATH => links.runpath = text(),
                DT_FLAGS_1 => {
                    links.is_without_default = value & DF_1_NODEFLIB.unsigned_abs() != 0;
                }
                _ => {}
            }
        }
        Some(links)
    }

    /// Looks at each symbol that others see, or that it needs of others.
    pub fn each_symbol(&self, see: impl FnMut(SymbolSeen<'_>)) {
        self.each_symbol_in(SHT_DYNSYM, see);
    }

    /// Looks at each symbol of the table that `strip` takes away.
    pub fn each_inner_symbol(&self, see: impl FnMut(SymbolSeen<'_>)) {
        self.each_symbol_in(SHT_SYMTAB, see);
    }

    fn each_symbol_in(&self, table: u32, mut see: impl FnMut(SymbolSeen<'_>)) -> Option<()> {
        let (section, strings) = self.find(table)?;
        let (data, strings) = (self.data(&section)?, self.data(&strings)?);
        for symbol in SymbolTable::new(self.endian, self.class, &data).iter() {
            let name = text_at(&strings, symbol.st_name.into());
            let Some(name) = name.filter(|name| !name.is_empty()) else {
                continue;
            };
            if symbol.st_bind() != STB_LOCAL {
                see(SymbolSeen {
                    name,
                    is_defined: !symbol.is_undefined(),
                    is_weak: symbol.st_bind() == STB_WEAK,
                });
            }
        }
        Some(())
    }

    /// Returns the text that a library has under a name.
    #[must_use]
    pub fn text_under(&self, name: &str) -> Option<String> {
        const LONGEST_VALUE: usize = 256;
        let place = self.place_of(name, |symbol| !symbol.is_undefined())?;
        let mut text = [0; LONGEST_VALUE];
        let length = self.file.read_at(&mut text, place).ok()?;
        let text = text.get(..length)?.split(|&byte| byte == 0).next()?;
        Some(str::from_utf8(text).ok()?.to_owned())
    }

    /// Returns what it has that neither changes nor is run: texts, and much else.
    #[must_use]
    pub fn constants(&self) -> Vec<Vec<u8>> {
        let headers = SectionHeaderTable::new(self.endian, self.class, &self.sections);
        let flags = u64::from(SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR);
        let sections = headers.iter().filter(|section| {
            section.sh_type == SHT_PROGBITS && section.sh_flags & flags == u64::from(SHF_ALLOC)
        });
        sections.filter_map(|section| self.data(&section)).collect()
    }

    /// Returns the versions that it needs of others.
    #[must_use]
    pub fn needed_versions(&self) -> Vec<VersionNeed> {
        let needs = || {
            let (section, strings) = self.find(elf::abi::SHT_GNU_VERNEED)?;
            let (data, strings) = (self.data(&section)?, self.data(&strings)?);
            let text = |place: u32| text_at(&strings, place.into()).map(str::to_owned);
            let count = section.sh_info.into();
            let needs =
                elf::gnu_symver::VerNeedIterator::new(self.endian, self.class, count, 0, &data);
            let mut all = Vec::new();
            for (need, versions) in needs {
                let Some(of) = text(need.vn_file) else {
                    continue;
                };
                all.extend(versions.filter_map(|version| {
                    Some(VersionNeed {
                        of: of.clone(),
                        version: text(version.vna_name)?,
                        is_weak: version.vna_flags & VER_FLG_WEAK != 0,
                    })
                }));
            }
            Some(all)
        };
        needs().unwrap_or_default()
    }

    /// Returns the versions that it has for others.
    #[must_use]
    pub fn defined_versions(&self) -> Vec<String> {
        let names = || {
            let (section, strings) = self.find(elf::abi::SHT_GNU_VERDEF)?;
            let (data, strings) = (self.data(&section)?, self.data(&strings)?);
            let count = section.sh_info.into();
            let all =
                elf::gnu_symver::VerDefIterator::new(self.endian, self.class, count, 0, &data);
            let names = all.flat_map(|(_, names)| names.map(|name| name.vda_name));
            let text = |place: u32| text_at(&strings, place.into()).map(str::to_owned);
            Some(names.filter_map(text).collect())
        };
        names().unwrap_or_default()
    }

    /// Finds a section of a kind, and the one with its strings.
    pub(crate) fn find(&self, kind: u32) -> Option<(SectionHeader, SectionHeader)> {
        let headers = SectionHeaderTable::new(self.endian, self.class, &self.sections);
        let section = headers.iter().find(|header| header.sh_type == kind)?;
        let strings = headers.get(usize::try_from(section.sh_link).ok()?).ok()?;
        Some((section, strings))
    }

    /// Finds a symbol that others see; in a library it is at an address, and sections tell where
    /// that is in the file.
    pub(crate) fn place_of(&self, name: &str, fits: impl Fn(&Symbol) -> bool) -> Option<u64> {
        let (section, strings) = self.find(SHT_DYNSYM)?;
        let (data, strings) = (self.data(&section)?, self.data(&strings)?);
        let is_meant =
            |one: &Symbol| fits(one) && text_at(&strings, one.st_name.into()) == Some(name);
        let symbols = SymbolTable::new(self.endian, self.class, &data);
        let symbol = symbols.iter().find(is_meant)?;
        let headers = SectionHeaderTable::new(self.endian, self.class, &self.sections);
        let header = headers.get(symbol.st_shndx.into()).ok()?;
        let place = symbol.st_value.checked_sub(header.sh_addr)?;
        header.sh_offset.checked_add(place)
    }

    pub(crate) fn data(&self, section: &SectionHeader) -> Option<Vec<u8>> {
        read(self.file, section.sh_offset, section.sh_size)
    }
}

/// Reads a text of a section. Without an end it could be as long as the section, for each of
/// a million symbols.
fn text_at(strings: &[u8], place: u64) -> Option<&str> {
    let text = strings.get(usize::try_from(place).ok()?..)?;
    let text = text.get(..LONGEST_TEXT).unwrap_or(text);
    let mut text = text.split(|&byte| byte == 0);
    let text = text.next().filter(|text| text.len() < LONGEST_TEXT)?;
    str::from_utf8(text).ok()
}

/// Reads a part of a file. What goes beyond its end is not there, whatever its head says.
pub(crate) fn read(file: &File, offset: u64, size: u64) -> Option<Vec<u8>> {
    let whole = file.metadata().ok()?.len();
    let is_inside = offset.checked_add(size).is_some_and(|end| end <= whole);
    let size = usize::try_from(size).ok().filter(|_| is_inside && size <= MOST)?;
    let mut data = vec![0; size];
    file.read_exact_at(&mut data, offset).ok()?;
    Some(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_this_machine_names_its_loader_and_the_c_library() {
        let file = File::open("/bin/sh").expect("a shell");
        let binary = Binary::open(&file).expect("a program");
        let needs = binary.links().unwrap_or_default().needed;
        let has_loader = binary.interpreter().is_some_and(|loader| loader.exists());
        let needs_c = needs.iter().any(|name| name.starts_with("libc."));
        assert!(has_loader && needs_c, "{needs:?}");
    }

    #[test]
    fn a_head_that_lies_about_its_sections_is_no_program() {
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(64, 0xff);
        let mut file = tempfile::tempfile().expect("a file");
        std::io::Write::write_all(&mut file, &bytes).expect("a head");
        assert!(Binary::open(&file).is_none());
    }
}
