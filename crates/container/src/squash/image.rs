// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The names of an image: they are written after the content, in place of those that
//! `mksquashfs` has written.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};

use super::data::{Data, SUPERBLOCK, Superblock};
use super::inode::{self, Common};
use super::listing::{self, Entry, Listing};
use super::pool::Place;
use super::table::{Spot, Table};
use crate::layer::Attributes;
use crate::tree::{Node, NodeId, ROOT, Tree};

/// Images are as long as a number of these.
const PAGE: u64 = 4096;
/// Flags: there are no fragments, and inodes can be found by their numbers.
const NO_FRAGMENTS: u16 = 0x10;
const EXPORTABLE: u16 = 0x80;

/// What goes into an image: names, and for each file where its content is and how many names
/// it has.
#[derive(Clone, Copy)]
pub(crate) struct Contents<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) places: &'a [Place],
    pub(crate) names: &'a [u32],
}

/// Writes the names behind the content.
pub(super) fn write(
    image: &mut File,
    mut head: Superblock,
    contents: Contents<'_>,
    data: &[Data],
    packs: &[u32],
) -> io::Result<()> {
    let tables = Tables::of(contents, data)?;
    let fragments = fragments(packs, data)?;
    let start = head.inode_table();
    image.set_len(start)?;
    image.seek(SeekFrom::Start(start))?;
    let mut output = BufWriter::with_capacity(1 << 20, &mut *image);
    let directories = start + tables.inodes.write(&mut output)?;
    let place = directories + tables.directories.write(&mut output)?;
    let (fragment_list, place) = fragments.write_listed(&mut output, place)?;
    let (export_list, place) = tables.exports().write_listed(&mut output, place)?;
    // The only owner.
    let mut owners = Table::default();
    owners.push(&[0; 4]);
    let (owner_list, end) = owners.write_listed(&mut output, place)?;
    let fill = usize::try_from(end.next_multiple_of(PAGE) - end).unwrap_or_default();
    output.write_all(&vec![0; fill])?;
    output.flush()?;
    drop(output);

    let count = u32::try_from(packs.len()).map_err(io::Error::other)?;
    let inodes = u32::try_from(tables.references.len()).map_err(io::Error::other)?;
    head.put(4, &inodes.to_le_bytes());
    head.put(16, &count.to_le_bytes());
    let flags = head.flags() & !NO_FRAGMENTS | EXPORTABLE;
    head.put(24, &flags.to_le_bytes());
    head.put(26, &1_u16.to_le_bytes());
    // The places of the tables, as they follow each other in the head.
    let places = [
        tables.root.reference(),
        end,
        owner_list,
        u64::MAX,
        start,
        directories,
        fragment_list,
        export_list,
    ];
    for (number, place) in places.iter().enumerate() {
        head.put(32 + 8 * number, &place.to_le_bytes());
    }
    const { assert!(SUPERBLOCK == 32 + 8 * 8) };
    image.seek(SeekFrom::Start(0))?;
    image.write_all(&head.0)
}

/// Where the packs are: the only block of each.
fn fragments(packs: &[u32], data: &[Data]) -> io::Result<Table> {
    let mut table = Table::default();
    for pack in packs {
        let data = usize::try_from(*pack).ok().and_then(|pack| data.get(pack));
        let block = data.and_then(|data| Some((data.start, *data.blocks.first()?)));
        let (start, size) = block.ok_or_else(|| io::Error::other("a pack is missing"))?;
        table.push(&start.to_le_bytes());
        table.push(&size.to_le_bytes());
        table.push(&[0; 4]);
    }
    Ok(table)
}

/// What is written of names.
struct Tables<'a> {
    contents: Contents<'a>,
    data: &'a [Data],
    inodes: Table,
    directories: Table,
    /// Where each inode is, by its number.
    references: Vec<u64>,
    /// The inodes of files that were written.
    files: Vec<Option<(Spot, u32)>>,
    root: Spot,
}

/// A directory that is not complete.
struct Open<'a> {
    name: &'a [u8],
    attributes: Attributes,
    children: std::collections::btree_map::Iter<'a, Box<[u8]>, NodeId>,
    number: u32,
    entries: Vec<Entry<'a>>,
    /// How many directories are in it.
    inside: u32,
}

impl<'a> Tables<'a> {
    fn of(contents: Contents<'a>, data: &'a [Data]) -> io::Result<Self> {
        let mut tables = Self {
            contents,
            data,
            inodes: Table::default(),
            directories: Table::default(),
            references: Vec::new(),
            files: vec![None; contents.tree.files.len()],
            root: Spot::default(),
        };
        tables.write_all()?;
        Ok(tables)
    }

    /// Goes through the tree: a directory is written when everything in it was.
    fn write_all(&mut self) -> io::Result<()> {
        // The attributes of the root in a layer count for nothing.
        let attributes = Attributes { mode: 0o755, ..Attributes::default() };
        let mut open = vec![self.open(b"", ROOT, attributes)?];
        while let Some(last) = open.last_mut() {
            if let Some((name, id)) = last.children.next() {
                match self.contents.tree.node(*id) {
                    Node::Directory { attributes, .. } => {
                        let directory = self.open(name, *id, *attributes)?;
                        open.push(directory);
                    }
                    node => last.entries.extend(self.write_node(name, node)?),
                }
                continue;
            }
            let Some(done) = open.pop() else { break };
            let above = open.last().map(|above| above.number);
            let entry = self.close(&done, above)?;
            match open.last_mut() {
                Some(above) => {
                    above.inside += 1;
                    above.entries.push(entry);
                }
                None => self.root = entry.inode,
            }
        }
        Ok(())
    }

    fn open(&mut self, name: &'a [u8], id: NodeId, attributes: Attributes) -> io::Result<Open<'a>> {
        Ok(Open {
            name,
            attributes,
            children: self.contents.tree.children(id).iter(),
            number: self.next_number()?,
            entries: Vec::new(),
            inside: 0,
        })
    }

    fn close(&mut self, done: &Open<'a>, above: Option<u32>) -> io::Result<Entry<'a>> {
        let listing = match done.entries.as_slice() {
            [] => Listing::default(),
            entries => listing::write(&mut self.directories, entries)?,
        };
        let common = Common {
            mode: mode_of(done.attributes, true),
            mtime: done.attributes.mtime,
            number: done.number,
        };
        // Above the root there is the number after the last one.
        let above = above.map_or_else(|| u32::try_from(self.references.len() + 1), Ok);
        let above = above.map_err(io::Error::other)?;
        let bytes = inode::directory(common, &listing, done.inside, above);
        Ok(Entry {
            name: done.name,
            inode: self.write(&bytes, done.number)?,
            number: done.number,
            kind: inode::DIRECTORY,
        })
    }

    /// Writes what is no directory; nothing of what is left out.
    fn write_node(&mut self, name: &'a [u8], node: &'a Node) -> io::Result<Option<Entry<'a>>> {
        let (inode, number, kind) = match node {
            Node::File(id) => {
                let (inode, number) = self.write_file(*id)?;
                (inode, number, inode::FILE)
            }
            Node::Symlink { target, attributes } => {
                let number = self.next_number()?;
                let common = Common { mode: 0o777, mtime: attributes.mtime, number };
                let inode = self.write(&inode::symlink(common, target), number)?;
                (inode, number, inode::SYMLINK)
            }
            Node::Special(_) | Node::Directory { .. } => return Ok(None),
        };
        Ok(Some(Entry { name, inode, number, kind }))
    }

    /// Writes a file when its first name comes.
    fn write_file(&mut self, id: usize) -> io::Result<(Spot, u32)> {
        if let Some(Some(known)) = self.files.get(id) {
            return Ok(*known);
        }
        let Contents { tree, places, names } = self.contents;
        let (Some(file), Some(place), Some(names)) =
            (tree.files.get(id), places.get(id), names.get(id))
        else {
            return Err(io::Error::other("a file is missing"));
        };
        let number = self.next_number()?;
        let common =
            Common { mode: mode_of(file.attributes, false), mtime: file.attributes.mtime, number };
        let bytes = inode::file(common, *place, file.size, *names, self.data);
        let written = (self.write(&bytes, number)?, number);
        if let Some(known) = self.files.get_mut(id) {
            *known = Some(written);
        }
        Ok(written)
    }

    fn next_number(&mut self) -> io::Result<u32> {
        self.references.push(0);
        u32::try_from(self.references.len()).map_err(io::Error::other)
    }

    fn write(&mut self, bytes: &[u8], number: u32) -> io::Result<Spot> {
        let spot = self.inodes.spot()?;
        self.inodes.push(bytes);
        let index = usize::try_from(number).ok().and_then(|it| it.checked_sub(1));
        if let Some(place) = index.and_then(|index| self.references.get_mut(index)) {
            *place = spot.reference();
        }
        Ok(spot)
    }

    fn exports(&self) -> Table {
        let mut table = Table::default();
        for reference in &self.references {
            table.push(&reference.to_le_bytes());
        }
        table
    }
}

/// What everyone may do with what the owner may, and no one more than that.
pub(crate) fn mode_of(attributes: Attributes, is_directory: bool) -> u32 {
    let mode = attributes.mode & 0o1777;
    let is_executable = is_directory || mode & 0o111 != 0;
    mode | 0o444 | if is_executable { 0o111 } else { 0 }
}
