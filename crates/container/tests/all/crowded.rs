// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Directories with very many names. `mksquashfs` needs the square of the number of names in one
//! directory, and of the number of small files of one size, so it must get few of both.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use cabane_container::{ContainerImage, convert};

use crate::kit::{
    Entry, Silent, Store, amd64, chosen, dir, file, flat, hard, here, layer, link, mksquashfs,
    request,
};

const MANY: usize = 30_000;

/// Makes an image with a `mksquashfs` that keeps a copy of what it reads.
fn watched(layers: &[Vec<u8>], place: &Path) -> Vec<(String, u64)> {
    let layers: Vec<_> = layers.iter().map(|one| (one.clone(), one.clone())).collect();
    let mut store = Store::default();
    let manifest = store.image(&layers, amd64());
    let chosen = chosen(&store, manifest).unwrap();
    let image = ContainerImage::new(&chosen, &store, &here()).unwrap();
    let (program, copy) = (place.join("mksquashfs"), place.join("copy"));
    let real = mksquashfs();
    let text = format!(
        "#!/bin/sh\n[ \"$1\" != -version ] || exec {real} -version\n/usr/bin/tee {copy} | {real} \"$@\"\n",
        real = real.display(),
        copy = copy.display(),
    );
    fs::write(&program, text).unwrap();
    let mode = Command::new("chmod").arg("755").arg(&program).status();
    assert!(mode.unwrap().success());
    convert(&image, &request(&place.join("image"), &program), &Silent).unwrap();
    let mut archive = tar::Archive::new(fs::File::open(copy).unwrap());
    let members = archive.entries().unwrap().map(|entry| {
        let entry = entry.unwrap();
        (entry.path().unwrap().display().to_string(), entry.size())
    });
    members.collect()
}

/// Files in one directory, each with content of its own that has the same size.
fn crowd() -> Vec<Entry> {
    let one = |number| file(&format!("crowd/{number}"), &format!("{number:08}"));
    (0..MANY).map(one).collect()
}

#[test]
fn mksquashfs_gets_few_members_for_many_small_files() {
    let place = tempfile::tempdir().unwrap();
    let members = watched(&[layer(&crowd())], place.path());
    // Eight bytes each fill two blocks of 128 KiB; the metadata are in the last one.
    assert_eq!(members.len(), 2);
}

#[test]
fn mksquashfs_gets_no_directory_with_many_names() {
    let place = tempfile::tempdir().unwrap();
    let large = "x".repeat(128 * 1024);
    let files: Vec<_> = (0..1200).map(|number| file(&format!("crowd/{number}"), &large)).collect();
    let members = watched(&[layer(&files)], place.path());
    let mut directories: HashMap<&str, usize> = HashMap::new();
    for (path, _) in &members {
        *directories.entry(path.split_once('/').unwrap().0).or_default() += 1;
    }
    assert!(members.len() > 1200 && directories.values().all(|names| *names <= 512));
}

#[test]
fn every_name_of_a_crowded_directory_is_in_the_image() {
    let mut lowest = crowd();
    lowest.push(link("link", "crowd"));
    lowest.extend(
        (0..MANY).map(|number| hard(&format!("more/{number}"), &format!("crowd/{number}"))),
    );
    let whiteouts = (0..MANY).step_by(3);
    let middle: Vec<_> = whiteouts.map(|number| file(&format!("crowd/.wh.{number}"), "")).collect();
    let upper: Vec<_> = (0..MANY)
        .step_by(5)
        .map(|number| file(&format!("link/{number}"), "new"))
        .chain((0..300).map(|number| dir(&format!("crowd/directory{number}/"))))
        .collect();
    let flat = flat(&[layer(&lowest), layer(&middle), layer(&upper)]).unwrap();
    let (mut expected, mut seen) = (String::new(), String::new());
    for number in 0..MANY {
        let own = format!("{number:08}");
        let first = match (number % 5, number % 3) {
            (0, _) => Some(("new", 1)),
            (_, 0) => None,
            _ => Some((own.as_str(), 2)),
        };
        let second = (own.as_str(), 1 + u64::from(first.is_some_and(|(_, names)| names == 2)));
        writeln!(expected, "{number} {first:?} {second:?}").unwrap();
        let look = |directory: &str| {
            let path = format!("{directory}/{number}");
            let names = flat.entries.get(&path)?.names;
            Some((flat.content(&path), names))
        };
        writeln!(seen, "{number} {:?} {:?}", look("crowd"), look("more").unwrap()).unwrap();
    }
    assert_eq!(seen, expected);
    let directories = flat.names().iter().filter(|name| name.contains("directory")).count();
    assert_eq!(directories, 300);
}

#[test]
fn equal_files_are_stored_once_and_zeros_not_at_all() {
    let text = |start: &str| start.chars().cycle().take(100_000).collect::<String>();
    let size = |files: &[Entry]| flat(&[layer(files)]).unwrap().image.len();
    let (one, zeros) = (text("0123456789abcdefghijkl"), "\0".repeat(100_000));
    let single = size(&[file("a", &one)]);
    let several = size(&[file("a", &one), file("b", &one), file("c", &zeros), file("d", &zeros)]);
    assert_eq!(several, single);
}

#[test]
fn content_of_every_size_comes_out_as_it_went_in() {
    let block = 128 * 1024;
    let sizes = [1, block - 1, block, block + 1, 3 * block, 3 * block + 7];
    let text = |size: usize| -> String {
        let mut state = size;
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b'!' + u8::try_from(state >> 33 & 63).unwrap())
        };
        (0..size).map(next).collect()
    };
    let holes = format!("{}{}{}", "\0".repeat(block), text(9), "\0".repeat(2 * block));
    let mut files: Vec<_> =
        sizes.iter().map(|size| file(&format!("f{size}"), &text(*size))).collect();
    files.push(file("holes", &holes));
    files.push(hard("holes2", "holes"));
    let flat = flat(&[layer(&files)]).unwrap();
    let whole = sizes.iter().all(|size| flat.content(&format!("f{size}")) == text(*size));
    assert!(whole && flat.content("holes2") == holes);
}
