// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Packages as they are, and as someone would make them who means harm.

use std::io::Cursor;

use proptest::prelude::*;

use super::fixtures::{Made, cpio, deb, file, gzip, link, of_mode, rpm, tar};
use super::{ArchiveError, Entry, Kind, Limits, visit};

/// What a package holds, each file with its bytes.
fn read(package: &[u8], limits: Limits) -> Result<Vec<(Entry, String)>, ArchiveError> {
    let mut seen = Vec::new();
    visit(&mut Cursor::new(package), limits, &mut |entry, content| {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes)?;
        seen.push((entry.clone(), String::from_utf8_lossy(&bytes).into_owned()));
        Ok(())
    })?;
    Ok(seen)
}

/// Both kinds of packages with the same in them.
fn both(entries: &[Made]) -> [Vec<u8>; 2] {
    [deb(&gzip(&tar(entries))), rpm(&gzip(&cpio(entries)))]
}

fn error(package: &[u8]) -> String {
    let error = read(package, Limits::default()).unwrap_err();
    error.to_string()
}

#[test]
fn both_kinds_of_packages_are_read() {
    let entries = [of_mode("./opt", 0o040_755), file("./opt/a", "bytes"), link("./opt/b", "a")];
    for package in both(&entries) {
        let seen: Vec<_> = read(&package, Limits::default())
            .unwrap()
            .into_iter()
            .map(|(entry, bytes)| match entry.kind {
                Kind::Link(target) => format!("{} -> {target}", entry.path),
                Kind::Directory => format!("{}/", entry.path),
                _ => format!("{}: {bytes}", entry.path),
            })
            .collect();
        assert_eq!(seen, ["opt/", "opt/a: bytes", "opt/b -> a"]);
    }
}

#[test]
fn what_leads_out_of_a_package_refuses_it() {
    for name in ["../evil", "./opt/../../evil", "/etc/evil"] {
        for package in both(&[file("./a", ""), file(name, "")]) {
            let error = error(&package);
            assert!(
                error.contains("leads out of the package") || error.contains("absolute"),
                "{error}"
            );
        }
    }
}

#[test]
fn devices_refuse_a_package() {
    for mode in [0o020_666, 0o010_666] {
        for package in both(&[of_mode("./dev/null", mode)]) {
            assert_eq!(error(&package), "`./dev/null` is a device or something like it");
        }
    }
}

#[test]
fn a_name_with_a_control_character_refuses_a_package_and_is_shown_without_it() {
    for package in both(&[file("./a\u{1b}[2J", "")]) {
        assert_eq!(error(&package), "`./a\\u{1b}[2J` has a control character");
    }
}

#[test]
fn a_package_that_says_to_hold_a_terabyte_is_refused_before_that_is_read() {
    let mut header = tar(&[file("./a", "")]);
    // The size is written in octal digits; here it is a binary number.
    header[124..136].copy_from_slice(&[0x80, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
    header[148..156].fill(b' ');
    let sum: u32 = header[..512].iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    assert!(matches!(read(&deb(&header), Limits::default()), Err(ArchiveError::TooLarge(_))));
}

#[test]
fn a_small_package_that_unpacks_to_more_than_it_may_is_refused() {
    let large = "0".repeat(1 << 20);
    let limits = Limits { entries: 10, bytes: 1 << 19 };
    for package in both(&[file("./a", &large)]) {
        assert!(package.len() < 1 << 14);
        assert!(matches!(read(&package, limits), Err(ArchiveError::TooLarge(_))));
    }
}

#[test]
fn a_package_with_too_many_files_is_refused() {
    let limits = Limits { entries: 1, bytes: 1 << 20 };
    for package in both(&[file("./a", ""), file("./b", "")]) {
        assert!(matches!(read(&package, limits), Err(ArchiveError::TooLarge(_))));
    }
}

#[test]
fn a_long_name_is_one_name_and_a_name_without_an_end_is_refused() {
    let name = "d/".repeat(80) + "a";
    let mut builder = ::tar::Builder::new(Vec::new());
    let mut header = ::tar::Header::new_gnu();
    header.set_size(0);
    header.set_mode(0o644);
    builder.append_data(&mut header, &name, &[][..]).unwrap();
    let package = deb(&builder.into_inner().unwrap());
    assert_eq!(read(&package, Limits::default()).unwrap()[0].0.path, name);

    let mut builder = ::tar::Builder::new(Vec::new());
    let mut header = ::tar::Header::new_gnu();
    header.set_entry_type(::tar::EntryType::GNULongName);
    header.set_size(1 << 20);
    header.set_cksum();
    builder.append(&header, vec![b'a'; 1 << 20].as_slice()).unwrap();
    let package = deb(&builder.into_inner().unwrap());
    assert_eq!(error(&package), "it is damaged: a name in it is longer than any name");
}

#[test]
fn other_files_are_no_packages() {
    for other in [&b""[..], b"!<arch>\n", b"\x7fELF and more than eight bytes"] {
        assert!(read(other, Limits::default()).is_err());
    }
    assert_eq!(error(b"PK\x03\x04 something"), "it is neither a Debian package nor an RPM");
}

#[test]
fn a_compression_that_is_not_understood_is_named() {
    assert_eq!(error(&rpm(b"BZh91AY")), "it is compressed with bzip2, which is not understood");
}

#[test]
fn a_package_that_ends_between_two_parts_is_refused() {
    let package = deb(&tar(&[file("./a", "bytes")]));
    for length in (0..package.len()).step_by(4) {
        if let Ok(seen) = read(&package[..length], Limits::default()) {
            assert_eq!(seen.len(), 1, "the first {length} bytes");
        }
    }
}

proptest! {
    #[test]
    fn a_package_that_ends_too_early_is_refused(part in 0.0..1.0f64) {
        for package in [deb(&tar(&[file("./a", "bytes")])), rpm(&cpio(&[file("./a", "bytes")]))] {
            let whole = package.len();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a place in it")]
            let length = (whole as f64 * part) as usize;
            // What only fills up the end of an archive may be missing.
            if let Ok(seen) = read(&package[..length], Limits::default()) {
                prop_assert_eq!(seen.len(), 1);
            }
        }
    }

    #[test]
    fn whatever_is_changed_in_a_package_no_path_leads_out_of_it(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
    ) {
        let entries = [file("./opt/a", "bytes"), link("./opt/b", "a"), of_mode("./c", 0o040_755)];
        for mut package in [deb(&tar(&entries)), rpm(&cpio(&entries))] {
            for (place, byte) in &changes {
                let place = place.index(package.len());
                package[place] = *byte;
            }
            for (entry, _) in read(&package, Limits::default()).unwrap_or_default() {
                let is_plain = !entry.path.split('/').any(|part| matches!(part, "" | "." | ".."));
                prop_assert!(is_plain, "{:?}", entry);
            }
        }
    }

    #[test]
    fn any_bytes_in_the_place_of_an_archive_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        for package in [deb(&bytes), rpm(&bytes), deb(&gzip(&bytes)), rpm(&gzip(&bytes))] {
            let _ = read(&package, Limits::default());
        }
    }
}
