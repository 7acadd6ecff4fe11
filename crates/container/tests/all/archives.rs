// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The formats of layers: archives as tar programs write them, and how they are compressed.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;

use cabane_container::digest;
use cabane_container::tar::{Kind, Reader};

use crate::kit::{
    Flat, Store, amd64, dir, file, flat, flat_in, flat_of, gzip, layer, link, reason, zstd,
};

fn packed(bytes: Vec<u8>, plain: &[u8]) -> Result<Flat, String> {
    flat_of(&[(bytes, plain.to_vec())], amd64())
}

#[test]
fn layers_may_be_compressed_with_gzip_and_zstd_or_not() {
    let plain = layer(&[file("a", "x")]);
    let seen = [plain.clone(), gzip(&plain), zstd(&plain)]
        .map(|bytes| packed(bytes, &plain).unwrap().content("a"));
    assert_eq!(seen, ["x", "x", "x"]);
}

#[test]
fn gzip_may_have_several_members() {
    let plain = layer(&[file("a", &"x".repeat(5000))]);
    let (start, end) = plain.split_at(777);
    let both = [gzip(start), gzip(end)].concat();
    assert_eq!(packed(both, &plain).unwrap().content("a").len(), 5000);
}

#[test]
fn zstd_may_have_several_frames_and_some_without_content() {
    let plain = layer(&[file("a", &"x".repeat(5000))]);
    let (start, end) = plain.split_at(777);
    let note = [&0x184d_2a50_u32.to_le_bytes()[..], &3_u32.to_le_bytes(), b"abc"].concat();
    let all = [note.clone(), zstd(start), note.clone(), zstd(end), note].concat();
    assert_eq!(packed(all, &plain).unwrap().content("a").len(), 5000);
}

#[test]
fn an_empty_layer_is_one() {
    let names = flat(&[layer(&[]), Vec::new()]).unwrap().entries;
    assert!(names.is_empty());
}

#[test]
fn a_layer_that_is_cut_off_is_refused() {
    let plain = layer(&[file("a", &"x".repeat(5000))]);
    let cut = plain[..2000].to_vec();
    let outcome = flat(&[cut]);
    assert!(reason(outcome).ends_with("it is cut off"));
}

#[test]
fn a_layer_whose_compressed_bytes_are_cut_off_is_refused() {
    let plain = layer(&[file("a", &"x".repeat(5000))]);
    for bytes in [gzip(&plain), zstd(&plain)] {
        let cut = bytes[..bytes.len() - 9].to_vec();
        packed(cut, &plain).unwrap_err();
    }
}

#[test]
fn a_layer_that_was_damaged_is_not_called_something_else() {
    let plain = layer(&[file("a", &"x".repeat(5000)), file("b", "")]);
    let damaged = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut store = Store::default();
        let bytes = gzip(&plain);
        let manifest = store.image(&[(bytes.clone(), plain.clone())], amd64());
        change(store.blobs.get_mut(&digest::of(&bytes)).unwrap());
        flat_in(&store, manifest).unwrap_err()
    };
    let cut = damaged(&|bytes| bytes.truncate(bytes.len() - 9));
    assert!(cut.contains(" bytes, and not "), "{cut}");
    let longer = damaged(&|bytes| bytes.extend(b"junk"));
    assert!(longer.contains(" bytes, and not "), "{longer}");
    let other = damaged(&|bytes| bytes[20] ^= 0xff);
    assert!(other.contains("its bytes should have the digest"), "{other}");
}

#[test]
fn what_is_no_archive_is_refused() {
    let outcome = flat(&[b"this is a text that somebody wrote".repeat(40)]);
    assert_eq!(
        reason(outcome),
        "it is not an archive as tar writes them: at 0 there is no header of an entry"
    );
}

/// Packs a directory with the program of the system.
fn gnu_tar(options: &[&str], directory: &Path) -> Vec<u8> {
    let packed = Command::new("tar")
        .args(options)
        .arg("-C")
        .arg(directory)
        .args(["-cf", "-", "."])
        .output()
        .unwrap();
    assert!(packed.status.success(), "{packed:?}");
    packed.stdout
}

#[test]
fn long_names_are_read_as_every_format_writes_them() {
    let place = tempfile::tempdir().unwrap();
    let (name, target) = ("n".repeat(200), "t".repeat(300));
    let deep = place.path().join("d".repeat(120));
    fs::create_dir(&deep).unwrap();
    fs::write(deep.join(&name), "x").unwrap();
    fs::hard_link(deep.join(&name), place.path().join("hard")).unwrap();
    std::os::unix::fs::symlink(&target, place.path().join("link")).unwrap();
    for format in ["gnu", "posix"] {
        let bytes =
            gnu_tar(&[&format!("--format={format}"), "--owner=0", "--group=0"], place.path());
        let flat = flat(&[bytes]).unwrap();
        let path = format!("{}/{name}", "d".repeat(120));
        let expected = crate::kit::What::Link(target.clone());
        assert_eq!(
            (flat.content(&path).as_str(), flat.entries["hard"].names, &flat.entries["link"].what),
            ("x", 2, &expected),
            "in format {format}"
        );
    }
}

#[test]
fn older_formats_are_read() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("d")).unwrap();
    fs::write(place.path().join("d/a"), "x").unwrap();
    for format in ["v7", "ustar", "oldgnu"] {
        let bytes = gnu_tar(&[&format!("--format={format}")], place.path());
        assert_eq!(flat(&[bytes]).unwrap().content("d/a"), "x", "in format {format}");
    }
}

/// A file of 3 MiB with a hole, something, a hole, something at the end.
fn holey(path: &Path) -> Vec<u8> {
    let mut file = File::create(path).unwrap();
    for (place, text) in [(1 << 20, "one"), (2 << 20, "two"), ((3 << 20) - 3, "end")] {
        file.seek(SeekFrom::Start(place)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }
    fs::read(path).unwrap()
}

#[test]
fn files_with_holes_are_read_as_every_format_writes_them() {
    let place = tempfile::tempdir().unwrap();
    let expected = holey(&place.path().join("file"));
    let formats: &[&[&str]] = &[
        &["--format=gnu"],
        &["--format=posix", "--sparse-version=0.0"],
        &["--format=posix", "--sparse-version=0.1"],
        &["--format=posix", "--sparse-version=1.0"],
    ];
    for format in formats {
        let bytes = gnu_tar(&[*format, &["--sparse"]].concat(), place.path());
        assert!(bytes.len() < 1 << 20, "{format:?} wrote no holes");
        let flat = flat(&[bytes]).unwrap();
        assert_eq!(flat.content("file").as_bytes(), expected, "in {format:?}");
    }
}

#[test]
fn a_hole_takes_no_space() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file");
    let mut file = File::create(&path).unwrap();
    file.seek(SeekFrom::Start(512 << 20)).unwrap();
    file.write_all(b"end").unwrap();
    let bytes = gnu_tar(&["--format=posix", "--sparse"], place.path());
    let mut store = crate::kit::Store::default();
    let manifest = store.image(&[(bytes.clone(), bytes)], amd64());
    let chosen = crate::kit::chosen(&store, manifest).unwrap();
    let image = cabane_container::ContainerImage::new(&chosen, &store, &crate::kit::here());
    let output = place.path().join("image");
    crate::kit::convert_to(&image.unwrap(), &output).unwrap();
    assert!(output.metadata().unwrap().len() < 100_000);
}

#[test]
fn pieces_that_overlap_are_refused() {
    let map = b"2\n0\n512\n256\n512\n";
    let mut body = map.to_vec();
    body.resize(512 + 1024, 0);
    let mut builder = tar::Builder::new(Vec::new());
    let records = [
        ("GNU.sparse.major", &b"1"[..]),
        ("GNU.sparse.minor", b"0"),
        ("GNU.sparse.name", b"a"),
        ("GNU.sparse.realsize", b"4096"),
    ];
    builder.append_pax_extensions(records).unwrap();
    let mut header = tar::Header::new_ustar();
    header.set_size(body.len() as u64);
    builder.append_data(&mut header, "x", body.as_slice()).unwrap();
    let outcome = flat(&[builder.into_inner().unwrap()]);
    assert!(reason(outcome).ends_with("there is a file with holes that cannot be understood"));
}

#[test]
fn what_is_read_is_what_another_reader_reads() {
    let bytes = layer(&[dir("a/"), file("a/b", "text"), link("c", "a/b")]);
    let mut ours = Vec::new();
    let mut reader = Reader::new(bytes.as_slice());
    while let Some(entry) = reader.next_entry().unwrap() {
        let mut content = String::new();
        if entry.kind == Kind::File {
            reader.read_to_string(&mut content).unwrap();
        }
        ours.push((entry.path, entry.mode, entry.size, content));
    }
    let mut archive = tar::Archive::new(bytes.as_slice());
    let theirs: Vec<_> = archive
        .entries()
        .unwrap()
        .map(|entry| {
            let mut entry = entry.unwrap();
            let mut content = String::new();
            entry.read_to_string(&mut content).unwrap();
            let header = entry.header().clone();
            let path = entry.path_bytes().into_owned();
            (path, header.mode().unwrap(), entry.size(), content)
        })
        .collect();
    assert_eq!(ours, theirs);
}
