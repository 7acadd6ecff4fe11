// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How often layers are read, and what becomes of names that mislead anyone who reads them once.

use std::collections::HashMap;
use std::io;
use std::sync::Mutex;

use cabane_container::{Blobs, Bytes, ContainerImage};
use cabane_label::Digest;

use crate::kit::{
    Entry, Flat, Store, amd64, chosen, dir, file, gzip, hard, here, layer, link, look_into,
};

/// A store that counts.
struct Counted {
    store: Store,
    opened: Mutex<HashMap<Digest, usize>>,
}

impl Blobs for Counted {
    fn open(&self, digest: &Digest) -> io::Result<Bytes<'_>> {
        let mut opened = self.opened.lock().unwrap();
        *opened.entry(digest.clone()).or_default() += 1;
        self.store.open(digest)
    }
}

/// Makes an image of layers, the lowest first; returns how often each was opened.
fn counted(layers: &[&[Entry]]) -> (Flat, Vec<usize>) {
    let plain: Vec<_> = layers.iter().map(|one| layer(one)).collect();
    let packed: Vec<_> = plain.iter().map(|one| (gzip(one), one.clone())).collect();
    let mut store = Store::default();
    let manifest = store.image(&packed, amd64());
    let chosen = chosen(&store, manifest).unwrap();
    let counted = Counted { store, opened: Mutex::default() };
    let image = ContainerImage::new(&chosen, &counted, &here()).unwrap();
    let flat = look_into(&image).unwrap();
    drop(image);
    let opened = counted.opened.into_inner().unwrap();
    let digests = chosen.manifest.layers.iter().map(|one| &one.digest);
    let counts = digests.map(|digest| opened[digest]).collect();
    (flat, counts)
}

#[test]
fn an_ordinary_image_is_read_once() {
    let (flat, counts) = counted(&[
        &[
            dir("bin/"),
            file("bin/sh", "old"),
            file("bin/su", "").mode(0o4755),
            hard("bin/a", "bin/sh"),
            link("lib64", "lib"),
            dir("lib/"),
            file("lib/x", "x"),
            dir("gone/"),
            file("gone/y", ""),
            dir("over/"),
            file("over/z", ""),
        ],
        &[
            // A directory is named after what is in it was written.
            dir("bin/").mode(0o1711),
            file("bin/sh", "new"),
            file(".wh.gone", ""),
            dir("over/"),
            file("over/.wh..wh..opq", ""),
            file("over/w", "w"),
        ],
        &[file("lib/x", "newest")],
    ]);
    assert_eq!(
        flat.names(),
        ["bin", "bin/a", "bin/sh", "bin/su", "lib", "lib/x", "lib64", "over", "over/w"]
    );
    let contents = ["bin/a", "bin/sh", "lib/x"].map(|path| flat.content(path));
    assert_eq!(contents, ["old", "new", "newest"]);
    assert_eq!(flat.mode("bin"), 0o1755);
    // The old shell has another name below the new one, and only that.
    assert_eq!(counts, [2, 1, 1]);
}

#[test]
fn without_further_names_of_hidden_files_every_layer_is_read_once() {
    let (flat, counts) = counted(&[
        &[file("a/x", "1"), hard("a/y", "a/x"), file("b", "2")],
        &[file("b", "3"), file("a/.wh.y", ""), file("c/d", "4")],
    ]);
    assert_eq!(flat.names(), ["a", "a/x", "b", "c", "c/d"]);
    assert_eq!(flat.content("b"), "3");
    assert_eq!(counts, [1, 1]);
}

#[test]
fn a_file_behind_a_link_of_a_lower_layer_lies_where_that_leads() {
    let (flat, counts) = counted(&[
        &[dir("usr/lib/"), link("lib", "usr/lib"), file("usr/lib/x", "old")],
        &[file("lib/x", "new"), file("lib/y", "y")],
    ]);
    assert_eq!(flat.names(), ["lib", "usr", "usr/lib", "usr/lib/x", "usr/lib/y"]);
    assert_eq!(flat.content("usr/lib/x"), "new");
    // Content is written without its name, so that it does not matter where the name leads.
    assert_eq!(counts, [1, 1]);
}

#[test]
fn the_last_of_several_files_of_one_name_counts() {
    let (flat, counts) =
        counted(&[&[file("a", "first"), file("d/b", ""), file("a", "last"), link("d", "e")]]);
    assert_eq!(flat.names(), ["a", "d"]);
    assert_eq!(flat.content("a"), "last");
    assert_eq!(counts, [2]);
}

#[test]
fn a_directory_that_is_not_named_takes_the_place_of_a_file() {
    // So much that `mksquashfs` reads it before all is known.
    let rest = "x".repeat(4 << 20);
    let (flat, counts) =
        counted(&[&[file("a", "file"), file("b", &rest)], &[file("a/in", "in it")]]);
    assert_eq!(flat.names(), ["a", "a/in", "b"]);
    assert_eq!(counts, [1, 1]);
    for both in [["a", "a/in"], ["a/in", "a"]] {
        let (flat, _) = counted(&[&[file(both[0], ""), file(both[1], ""), file("b", &rest)]]);
        assert!(flat.names().contains(&both[1]), "{both:?}");
    }
}

#[test]
fn a_file_that_loses_its_first_name_keeps_the_others() {
    let (flat, counts) =
        counted(&[&[file("a", "text"), hard("b", "a"), hard("c", "a")], &[file(".wh.a", "")]]);
    assert_eq!(flat.names(), ["b", "c"]);
    assert_eq!(flat.content("c"), "text");
    assert_eq!(flat.entries["b"].names, 2);
    assert_eq!(counts, [2, 1]);
}

#[test]
fn what_is_where_the_metadata_go_is_left_out() {
    let (flat, counts) = counted(&[&[file("meta/env.json", "theirs"), file("a", "")]]);
    assert_eq!(flat.names(), ["a"]);
    assert_eq!(flat.converted.report.changed.replaced, ["/meta"]);
    assert_eq!(counts, [1]);
}
