// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What one file needs of the loader, and what it offers to other files.
//!
//! A whole image is read with this when it is built. So no section is read as a whole that has the
//! names of all symbols: names are read one by one, and there is a limit for everything that a file
//! can repeat.

use std::fs::File;
use std::os::unix::fs::FileExt;

use elf::abi::{
    DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME, ET_EXEC, PT_INTERP, PT_LOAD, SHT_DYNAMIC,
    SHT_GNU_VERDEF, SHT_GNU_VERNEED, VER_FLG_BASE, VER_FLG_WEAK,
};
use elf::dynamic::DynamicTable;
use elf::gnu_symver::{VerDefIterator, VerNeedIterator};
use elf::section::SectionHeader;

use crate::binary::{Binary, Links, VersionNeed, read};

/// The longest name of a library or version.
const LONGEST_NAME: usize = 256;
/// The longest search path.
const LONGEST_PATH: usize = 4096;
/// The most that is read of a section, in bytes.
const MOST_BYTES: u64 = 1 << 20;
/// The most libraries that one file needs.
const MOST_NEEDED: usize = 1000;
/// The most versions that one file needs or offers. The GNU C library offers fewer than 50, and
/// the largest library of a fabric fewer than 200.
const MOST_VERSIONS: usize = 2000;

/// What a file needs of the loader, and what it offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Linkage {
    /// The architecture, as the kernel calls it.
    pub architecture: &'static str,
    /// Whether it is a program, and no library.
    pub is_program: bool,
    /// Its name, the names that it needs, and where to look for them.
    pub links: Links,
    /// The versions that it needs of other files.
    pub needs: Vec<VersionNeed>,
    /// The versions that it offers.
    pub offers: Vec<String>,
    /// The largest size of a page of memory with which the kernel can load it.
    pub page_size: Option<u64>,
}

impl Linkage {
    /// Reads a program or library; `None` if the file is neither.
    #[must_use]
    pub fn read(file: &File) -> Option<Self> {
        let binary = Binary::open(file).filter(Binary::is_linked)?;
        let mut linkage = Self { architecture: binary.kind().name(), ..Self::of_segments(&binary) };
        if let Some(links) = dynamic(&binary) {
            linkage.links = links;
            linkage.needs = needed(&binary).unwrap_or_default();
            linkage.offers = offered(&binary).unwrap_or_default();
        }
        Some(linkage)
    }

    fn of_segments(binary: &Binary<'_>) -> Self {
        let mut found = Self { is_program: binary.file_type() == ET_EXEC, ..Self::default() };
        binary.each_segment(|segment| match segment.p_type {
            PT_INTERP => found.is_program = true,
            PT_LOAD if segment.p_align > 1 => {
                let least = found.page_size.unwrap_or(u64::MAX).min(segment.p_align);
                found.page_size = Some(least);
            }
            _ => {}
        });
        found
    }
}

fn dynamic(binary: &Binary<'_>) -> Option<Links> {
    let (section, strings) = binary.find(SHT_DYNAMIC)?;
    let data = some_data(binary, &section)?;
    let text = |place: u64, longest| text_at(binary, &strings, place, longest);
    let mut links = Links::default();
    for entry in DynamicTable::new(binary.endian, binary.class, &data).iter() {
        let value = entry.d_val();
        match entry.d_tag {
            DT_NEEDED if links.needed.len() < MOST_NEEDED => {
                links.needed.extend(text(value, LONGEST_NAME));
            }
            DT_SONAME => links.soname = text(value, LONGEST_NAME),
            DT_RPATH => links.rpath = text(value, LONGEST_PATH),
            DT_RUNPATH => links.runpath = text(value, LONGEST_PATH),
            _ => {}
        }
    }
    Some(links)
}

fn needed(binary: &Binary<'_>) -> Option<Vec<VersionNeed>> {
    let (section, strings) = binary.find(SHT_GNU_VERNEED)?;
    let data = some_data(binary, &section)?;
    let text = |place: u32| text_at(binary, &strings, place.into(), LONGEST_NAME);
    let needs = VerNeedIterator::new(binary.endian, binary.class, section.sh_info.into(), 0, &data);
    let mut all = Vec::new();
    // Entries may overlap: each of a million could have all the others.
    let mut seen = 0;
    for (need, versions) in needs.take(MOST_NEEDED) {
        let Some(of) = text(need.vn_file) else { continue };
        for version in versions {
            seen += 1;
            if seen > MOST_VERSIONS {
                return Some(all);
            }
            if let Some(name) = text(version.vna_name) {
                let is_weak = version.vna_flags & VER_FLG_WEAK != 0;
                all.push(VersionNeed { of: of.clone(), version: name, is_weak });
            }
        }
    }
    Some(all)
}

fn offered(binary: &Binary<'_>) -> Option<Vec<String>> {
    let (section, strings) = binary.find(SHT_GNU_VERDEF)?;
    let data = some_data(binary, &section)?;
    let all = VerDefIterator::new(binary.endian, binary.class, section.sh_info.into(), 0, &data);
    // The first one is the name of the file. The first name of each is its own, others those before.
    let versions = all.take(MOST_VERSIONS).filter(|(one, _)| one.vd_flags & VER_FLG_BASE == 0);
    let names = versions.filter_map(|(_, mut names)| names.next());
    let text = |place: u32| text_at(binary, &strings, place.into(), LONGEST_NAME);
    Some(names.filter_map(|name| text(name.vda_name)).collect())
}

/// Reads a section of a usual size. A larger one is none.
fn some_data(binary: &Binary<'_>, section: &SectionHeader) -> Option<Vec<u8>> {
    if section.sh_size > MOST_BYTES {
        return None;
    }
    read(binary.file, section.sh_offset, section.sh_size)
}

fn text_at(
    binary: &Binary<'_>,
    strings: &SectionHeader,
    place: u64,
    longest: usize,
) -> Option<String> {
    let left = strings.sh_size.checked_sub(place)?;
    let place = strings.sh_offset.checked_add(place)?;
    // Most names are short.
    let mut short = [0; 64];
    let length = binary.file.read_at(&mut short, place).ok()?;
    let length = length.min(usize::try_from(left).unwrap_or(usize::MAX));
    if let Some(end) = short.get(..length)?.iter().position(|&byte| byte == 0) {
        return Some(str::from_utf8(short.get(..end)?).ok()?.to_owned());
    }
    let mut text = vec![0; longest.min(usize::try_from(left).unwrap_or(longest))];
    let length = binary.file.read_at(&mut text, place).ok()?;
    let end = text.get(..length)?.iter().position(|&byte| byte == 0)?;
    text.truncate(end);
    String::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::*;
    use crate::library_cache;

    fn own_library() -> Vec<u8> {
        fs::read(library_cache::find("libm.so.6").expect("libm")).expect("a library")
    }

    fn linkage_of(bytes: &[u8]) -> Option<Linkage> {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(bytes).expect("bytes");
        Linkage::read(&file)
    }

    #[test]
    fn a_library_of_this_machine_tells_what_it_needs_and_offers() {
        let found = linkage_of(&own_library()).expect("a library");
        let needs_c = found.needs.iter().any(|need| need.of == "libc.so.6");
        let offers = found.offers.iter().any(|one| one.starts_with("GLIBC_2."));
        let is_base = found.offers.iter().any(|one| one == "libm.so.6");
        assert_eq!(found.links.soname.as_deref(), Some("libm.so.6"));
        assert!(needs_c && offers && !is_base && !found.is_program, "{found:?}");
        assert!(found.page_size >= Some(4096), "{found:?}");
    }

    #[test]
    fn a_shell_is_a_program_and_needs_the_c_library() {
        let found = Linkage::read(&File::open("/bin/sh").expect("a shell")).expect("a program");
        assert!(found.is_program && found.links.needed.iter().any(|one| one.starts_with("libc.")));
    }

    #[test]
    fn a_text_is_none() {
        assert_eq!(linkage_of(b"#!/bin/sh\n"), None);
    }

    #[test]
    fn a_library_that_is_cut_off_anywhere_is_read_without_harm() {
        let whole = own_library();
        for end in (0..whole.len()).step_by(997) {
            let found = linkage_of(&whole[..end]);
            assert!(found.is_none_or(|found| found.links.soname.is_none()), "{end}");
        }
    }

    /// Sets four bytes of a section's head, in a library of 64 bits of this machine.
    fn with_section(kind: u32, field: usize, value: u32) -> Vec<u8> {
        let mut bytes = own_library();
        let word = |bytes: &[u8], at: usize| {
            u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
        };
        let offset = usize::try_from(u64::from_ne_bytes(bytes[40..48].try_into().expect("eight")));
        let offset = offset.expect("a small file");
        let count = usize::from(u16::from_ne_bytes([bytes[60], bytes[61]]));
        let mut heads = (0..count).map(|number| offset + number * 64);
        let head = heads.find(|&head| word(&bytes, head + 4) == kind).expect("the section");
        bytes[head + field..head + field + 4].copy_from_slice(&value.to_ne_bytes());
        bytes
    }

    #[test]
    fn counts_that_are_no_ones_do_not_take_long() {
        // `sh_info` is the number of entries, `sh_size` that of bytes.
        for kind in [SHT_GNU_VERNEED, SHT_GNU_VERDEF] {
            let counted = linkage_of(&with_section(kind, 44, u32::MAX)).expect("a library");
            assert!(counted.links.soname.is_some(), "{kind}");
            let large = linkage_of(&with_section(kind, 32, u32::MAX)).expect("a library");
            assert!(large.links.soname.is_some(), "{kind}");
        }
    }

    #[test]
    fn versions_that_lead_in_a_circle_end() {
        let file = own_library();
        let mut handle = tempfile::tempfile().expect("a file");
        handle.write_all(&file).expect("bytes");
        let binary = Binary::open(&handle).expect("a library");
        let (section, _) = binary.find(SHT_GNU_VERNEED).expect("versions");
        let mut bytes = file.clone();
        let start = usize::try_from(section.sh_offset).expect("a small file");
        let end = start + usize::try_from(section.sh_size).expect("a small file");
        // Each entry is the next of the one before, one byte on, and has as many as can be.
        for part in bytes[start..end].chunks_mut(4) {
            part.copy_from_slice(&0x0001_0001_u32.to_ne_bytes()[..part.len()]);
        }
        let found = linkage_of(&bytes).expect("a library");
        assert!(found.needs.len() <= MOST_VERSIONS);
    }
}
