// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What files give rights to, who may read them, and what is left out.

use std::path::PathBuf;
use std::process::Command;

use cabane_container::Changed;
use tar::EntryType;

use crate::kit::{amd64, dir, file, flat, flat_of, layer, special};

#[test]
fn set_user_id_and_set_group_id_are_taken_away() {
    let flat = flat(&[layer(&[
        file("su", "").mode(0o4755),
        file("wall", "").mode(0o2755),
        dir("games/").mode(0o2775),
    ])])
    .unwrap();
    let modes = ["su", "wall", "games"].map(|path| flat.mode(path));
    assert_eq!((modes, flat.converted.report.changed.set_id), ([0o755, 0o755, 0o775], 3));
}

#[test]
fn everybody_may_read_everything_and_enter_every_directory() {
    let flat = flat(&[layer(&[
        dir("none/").mode(0),
        file("none/file", "x").mode(0),
        file("key", "").mode(0o600),
        file("program", "").mode(0o700),
        file("usual", "").mode(0o644),
    ])])
    .unwrap();
    let modes = ["none", "none/file", "key", "program", "usual"].map(|path| flat.mode(path));
    assert_eq!(
        (modes, flat.content("none/file").as_str(), flat.converted.report.changed.closed),
        ([0o555, 0o444, 0o644, 0o755, 0o644], "x", 4)
    );
}

#[test]
fn the_sticky_bit_of_a_directory_stays() {
    let flat = flat(&[layer(&[dir("t/").mode(0o1777)])]).unwrap();
    assert_eq!(flat.mode("t"), 0o1777);
}

#[test]
fn devices_and_pipes_are_left_out_and_hide_what_was_there() {
    let flat = flat(&[
        layer(&[file("a", ""), file("b", "")]),
        layer(&[
            special("a", EntryType::Char),
            special("b", EntryType::Fifo),
            special("c", EntryType::Block),
        ]),
    ])
    .unwrap();
    let Changed { devices, pipes, .. } = flat.converted.report.changed;
    assert_eq!((flat.names(), devices, pipes), (Vec::<&str>::new(), 2, 1));
}

#[test]
fn files_of_others_are_counted() {
    let flat = flat(&[layer(&[
        file("a", "").owner(1234, 0),
        file("b", "").owner(0, 5678),
        file("c", ""),
    ])])
    .unwrap();
    assert_eq!(flat.converted.report.changed.owners, 2);
}

/// Lists an image with numbers for owners.
fn owners(image: &[u8]) -> Vec<String> {
    let place = tempfile::tempdir().unwrap();
    let path: PathBuf = place.path().join("image");
    std::fs::write(&path, image).unwrap();
    let listed = Command::new("unsquashfs").arg("-lln").arg(&path).output();
    let text = String::from_utf8(listed.unwrap().stdout).unwrap();
    let mut owners: Vec<String> =
        text.lines().filter_map(|line| line.split_whitespace().nth(1).map(str::to_owned)).collect();
    owners.sort();
    owners.dedup();
    owners
}

#[test]
fn everything_belongs_to_root() {
    let flat = flat(&[layer(&[file("a", "").owner(1234, 5678), dir("b").owner(7, 7)])]).unwrap();
    assert_eq!(owners(&flat.image), ["0/0"]);
}

#[test]
fn extended_attributes_are_left_out_and_counted() {
    let mut builder = tar::Builder::new(Vec::new());
    let records = [
        ("SCHILY.xattr.security.capability", &b"\x01\x00=\x0a"[..]),
        ("SCHILY.xattr.user.note", b"x"),
    ];
    builder.append_pax_extensions(records).unwrap();
    let mut header = tar::Header::new_ustar();
    header.set_size(0);
    header.set_mode(0o755);
    builder.append_data(&mut header, "ping", &b""[..]).unwrap();
    let bytes = builder.into_inner().unwrap();
    let flat = flat(&[bytes]).unwrap();
    let has_none = !flat.image.windows(10).any(|bytes| bytes == b"capability");
    assert_eq!((flat.converted.report.changed.attributes, has_none), (2, true));
}

#[test]
fn what_is_not_the_content_that_was_announced_is_refused() {
    let bytes = layer(&[file("a", "1")]);
    let other = layer(&[file("a", "2")]);
    let outcome = flat_of(&[(bytes, other)], amd64());
    assert!(outcome.unwrap_err().contains("its content should have the digest"));
}
