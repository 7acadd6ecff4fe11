// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A tree, written as a tarball: the same tree is always the same bytes.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

use crate::tree::{Content, Node, Tree};

/// When everything in a tarball was written: the first second that all file systems know.
const TIME: u64 = 315_532_800;

/// Writes a tree below one directory.
pub(crate) fn write(tree: &Tree, directory: &str, path: &Path) -> io::Result<()> {
    let file = BufWriter::new(File::create(path)?);
    // The time and the name of the head are nothing, and the system is unknown.
    let compressed = GzBuilder::new().write(file, Compression::new(6));
    let mut builder = Builder::new(compressed);
    let mut made = BTreeSet::new();
    add_directory(&mut builder, directory)?;
    for (path, node) in &tree.0 {
        for (at, _) in path.match_indices('/') {
            if made.insert(&path[..at]) {
                add_directory(&mut builder, &format!("{directory}/{}", &path[..at]))?;
            }
        }
        add(&mut builder, &format!("{directory}/{path}"), node)?;
    }
    builder.into_inner()?.finish()?.into_inner()?.sync_all()
}

fn add_directory(builder: &mut Builder<impl Write>, path: &str) -> io::Result<()> {
    let mut header = header(EntryType::Directory, 0o755, 0);
    builder.append_data(&mut header, format!("{path}/"), io::empty())
}

fn add(builder: &mut Builder<impl Write>, path: &str, node: &Node) -> io::Result<()> {
    match node {
        Node::Link(target) => {
            let mut header = header(EntryType::Symlink, 0o777, 0);
            builder.append_link(&mut header, path, target)
        }
        Node::File { content, is_executable } => {
            let mode = if *is_executable { 0o755 } else { 0o644 };
            let (size, bytes): (u64, Box<dyn Read + '_>) = match content {
                Content::Blob(place, size) => (*size, Box::new(File::open(place)?)),
                Content::Bytes(bytes) => (bytes.len() as u64, Box::new(bytes.as_slice())),
            };
            let mut header = header(EntryType::Regular, mode, size);
            builder.append_data(&mut header, path, bytes)
        }
    }
}

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(TIME);
    header.set_uid(0);
    header.set_gid(0);
    header
}
