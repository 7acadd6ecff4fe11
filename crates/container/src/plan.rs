// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What goes into the image, and writing what was not written ahead: layers are read again for
//! files that are left and not there yet.

use std::io::{self, Read};

use crate::ahead::Written;
use crate::layer::{Attributes, Found, Layer, Listing, Opened, Special, shown};
use crate::progress::Progress;
use crate::report::{Changed, Converted, Report};
use crate::squash::Input;
use crate::tar::{Head, Writer};
use crate::tree::{File, Node, Tree};
use crate::write::{LONGEST_PATH, META, head, mode_of, not_written, write_file, write_meta};
use crate::{ContainerImage, Error, LayerProblem, glibc};

/// Directories that are mounted over, or in which things are.
const MOUNT_POINTS: &[&str] = &[
    "dev",
    "etc",
    "home",
    "mnt",
    "opt",
    "proc",
    "root",
    "run",
    "sys",
    "tmp",
    "user-environment",
    "user-tools",
    "var/tmp",
];
/// Files that are mounted over.
const MOUNTED_FILES: &[&str] = &["etc/group", "etc/hosts", "etc/passwd", "etc/resolv.conf"];
/// Says that a file comes from no layer.
const NO_LAYER: usize = usize::MAX;
/// What goes into an image.
pub(crate) struct Plan<'a> {
    tree: Tree,
    /// The first name of each file; none if it has none.
    names: Vec<Option<Box<[u8]>>>,
    /// The further names of files: a name, and the file.
    links: Vec<(Box<[u8]>, usize)>,
    directories: u64,
    symlinks: u64,
    bytes: u64,
    glibc: Option<usize>,
    written: &'a Written,
    /// How many files were written ahead and are left under the name that they got.
    confirmed: usize,
}

impl<'a> Plan<'a> {
    /// Adds what is missing to a tree, and counts; `written` are the files that were written
    /// ahead.
    pub(crate) fn new(
        mut tree: Tree,
        listings: &[Listing],
        written: &'a Written,
        working_directory: Option<&str>,
        report: &mut Report,
    ) -> Result<Self, Error> {
        furnish(&mut tree, working_directory, report).map_err(|source| Error::Layer {
            layer: "above the others".to_owned(),
            source,
        })?;
        let mut plan = Self {
            names: vec![None; tree.files.len()],
            links: Vec::new(),
            directories: 0,
            symlinks: 0,
            bytes: 0,
            glibc: glibc::file_in(&tree),
            tree,
            written,
            confirmed: 0,
        };
        plan.count(listings, report)?;
        Ok(plan)
    }

    /// Whether everything that was written ahead is left under the name that it got.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.confirmed == self.written.count()
    }

    fn count(&mut self, listings: &[Listing], report: &mut Report) -> Result<(), Error> {
        let Self {
            tree,
            names,
            links,
            directories,
            symlinks,
            bytes,
            written,
            confirmed,
            ..
        } = self;
        let changed = &mut report.changed;
        tree.visit(|path, node| {
            if path.len() > LONGEST_PATH {
                return Err(Error::Layer {
                    layer: "above the others".to_owned(),
                    source: LayerProblem::LongPath { path: shown(path) },
                });
            }
            match node {
                Node::Directory { attributes, .. } => {
                    *directories += 1;
                    note(changed, *attributes, true);
                }
                Node::Symlink { attributes, .. } => {
                    *symlinks += 1;
                    changed.owners += u64::from(attributes.is_foreign);
                    changed.attributes += u64::from(attributes.extended);
                }
                Node::Special(Special::Device) => changed.devices += 1,
                Node::Special(Special::Pipe) => changed.pipes += 1,
                Node::File(id) => match (names.get_mut(*id), tree.files.get(*id)) {
                    (Some(name @ None), Some(file)) if may_have(listings, written, file, path) => {
                        *confirmed += usize::from(written.contains(file.layer, file.entry));
                        *name = Some(path.into());
                        *bytes += file.size;
                        note(changed, file.attributes, false);
                    }
                    _ => links.push((path.into(), *id)),
                },
            }
            Ok(())
        })?;
        report.files = names.iter().flatten().count() as u64;
        report.directories = self.directories;
        report.symlinks = self.symlinks;
        report.hard_links = self.links.len() as u64;
        report.bytes = self.bytes;
        Ok(())
    }

    /// How many files and directories are in the image, with the root and the metadata.
    pub(crate) fn inodes(&self) -> u64 {
        let files = self.names.iter().flatten().count() as u64;
        // The root, `meta` and the two files in it.
        files + self.directories + self.symlinks + 4
    }

    /// Writes everything; `about` makes the metadata when the version of the C library is
    /// known.
    pub(crate) fn write(
        &self,
        image: &ContainerImage<'_>,
        listings: &[Listing],
        mut output: Writer<Input>,
        progress: &dyn Progress,
        about: impl FnOnce(Option<String>) -> Converted,
    ) -> Result<(Converted, Input), Error> {
        self.write_skeleton(&mut output).map_err(not_written)?;
        let mut library = None;
        for (index, (layer, listing)) in image.layers.iter().zip(listings).enumerate() {
            let files = self.files_of(index);
            if files.is_empty() {
                continue;
            }
            let mut opened = layer.read_again()?;
            self.write_layer(
                layer,
                &mut opened,
                &files,
                &mut output,
                &mut library,
                progress,
            )?;
            layer.verify_again(opened, &listing.sums)?;
        }
        let version = match library {
            Some(library) => glibc::version_in(&library),
            None => self.version_ahead(),
        };
        for (path, id) in &self.links {
            let name = self.names.get(*id).and_then(Option::as_deref);
            let attributes = self.tree.files.get(*id).map(|file| file.attributes);
            let head = head(path, attributes.unwrap_or_default(), false);
            output
                .link(head, name.unwrap_or_default())
                .map_err(not_written)?;
        }
        let converted = about(version);
        write_meta(&mut output, &converted).map_err(not_written)?;
        let input = output.finish().map_err(not_written)?;
        Ok((converted, input))
    }

    /// Writes directories, symbolic links and empty files that come from no layer.
    fn write_skeleton(&self, output: &mut Writer<Input>) -> io::Result<()> {
        self.tree.visit(|path, node| match node {
            Node::Directory { attributes, .. } => output.directory(head(path, *attributes, true)),
            Node::Symlink { target, attributes } => {
                let head = Head {
                    mode: 0o777,
                    ..head(path, *attributes, false)
                };
                output.symlink(head, target)
            }
            Node::File(id) => match self.tree.files.get(*id) {
                Some(file) if file.layer == NO_LAYER => {
                    output.file(head(path, file.attributes, false), 0, &mut io::empty())
                }
                _ => Ok(()),
            },
            Node::Special(_) => Ok(()),
        })
    }

    /// The version of the C library, if that was written ahead.
    fn version_ahead(&self) -> Option<String> {
        let file = self.tree.files.get(self.glibc?)?;
        self.written.library(file.layer, file.entry)?.clone()
    }

    /// The files for which a layer is to be read again: the number of the entry, and the file.
    fn files_of(&self, layer: usize) -> Vec<(u32, usize)> {
        let files = self.tree.files.iter().enumerate();
        let wanted = files.filter(|(id, file)| {
            file.layer == layer
                && self.names.get(*id).is_some_and(Option::is_some)
                && (!self.written.contains(layer, file.entry) || self.is_unknown_library(*id, file))
        });
        // Files were numbered in the order of the entries.
        wanted.map(|(id, file)| (file.entry, id)).collect()
    }

    /// Whether a file is the C library under a name by which it was not known.
    fn is_unknown_library(&self, id: usize, file: &File) -> bool {
        self.glibc == Some(id) && self.written.library(file.layer, file.entry).is_none()
    }

    fn write_layer(
        &self,
        layer: &Layer<'_>,
        opened: &mut Opened<'_>,
        files: &[(u32, usize)],
        output: &mut Writer<Input>,
        library: &mut Option<Vec<u8>>,
        progress: &dyn Progress,
    ) -> Result<(), Error> {
        let mut files = files.iter().peekable();
        let mut number = 0;
        while files.peek().is_some()
            && let Some(entry) = opened.next_entry().map_err(|error| layer.failed(error))?
        {
            if let Some((_, id)) = files.next_if(|(wanted, _)| *wanted == number) {
                let file = self.tree.files.get(*id);
                let name = self.names.get(*id).and_then(Option::as_deref);
                let (Some(file), Some(name)) = (file, name) else {
                    continue;
                };
                let mut copy = (self.glibc == Some(*id)).then(Vec::new);
                if self.written.contains(file.layer, file.entry) {
                    let bytes = copy.get_or_insert_default();
                    let read = opened.content().read_to_end(bytes);
                    read.map_err(|error| layer.failed(error.into()))?;
                } else {
                    let head = head(name, file.attributes, false);
                    write_file(output, head, (layer, opened), &entry, copy.as_mut())?;
                }
                *library = copy.or(library.take());
            }
            number += 1;
            if !progress.go_on() {
                return Err(Error::Interrupted);
            }
        }
        Ok(())
    }
}

/// Whether a file gets a name that it has: one that was written ahead has its own already.
fn may_have(listings: &[Listing], written: &Written, file: &File, path: &[u8]) -> bool {
    if !written.contains(file.layer, file.entry) {
        return true;
    }
    let found = listings.get(file.layer).map(|listing| &listing.found);
    let place = |found: &Vec<Found>| found.binary_search_by_key(&file.entry, |one| one.number);
    let found = found.and_then(|found| found.get(place(found).ok()?));
    found.is_some_and(|found| &*found.path == path)
}

/// Adds mount points and the working directory, and makes room for the metadata.
fn furnish(
    tree: &mut Tree,
    working_directory: Option<&str>,
    report: &mut Report,
) -> Result<(), LayerProblem> {
    let changed = &mut report.changed;
    if tree.remove(META) {
        changed.replaced.push(format!("/{META}"));
    }
    for path in MOUNT_POINTS {
        if tree.add_directory(path)? {
            changed.mount_points.push(format!("/{path}"));
        }
    }
    for path in MOUNTED_FILES {
        let is_there = tree.find(path, true);
        if is_there.is_some_and(|id| matches!(tree.node(id), Node::File(_))) {
            continue;
        }
        // Often a link to what a service of a machine writes when it starts.
        if tree.find(path, false).is_some() {
            changed.replaced.push(format!("/{path}"));
        }
        changed.mount_points.push(format!("/{path}"));
        let file = File {
            size: 0,
            layer: NO_LAYER,
            entry: 0,
            attributes: Attributes {
                mode: 0o644,
                ..Attributes::default()
            },
        };
        tree.add_file(path, file)?;
    }
    // Runtimes make it when a container starts; a file in its way stays, and is noticed then.
    if let Some(path) = working_directory.filter(|path| is_free(tree, path))
        && tree.add_directory(path)?
    {
        changed.mount_points.push(path.to_owned());
    }
    Ok(())
}

/// Whether a directory can be made without anything giving way to it.
fn is_free(tree: &Tree, path: &str) -> bool {
    let ends = path.match_indices('/').map(|(at, _)| at).skip(1);
    ends.chain([path.len()]).all(|end| {
        let above = path.get(..end).unwrap_or_default();
        match tree.find(above, false) {
            None => true,
            Some(_) => tree
                .find(above, true)
                .is_some_and(|id| matches!(tree.node(id), Node::Directory { .. })),
        }
    })
}

fn note(changed: &mut Changed, attributes: Attributes, is_directory: bool) {
    let new = mode_of(attributes, is_directory);
    changed.owners += u64::from(attributes.is_foreign);
    changed.set_id += u64::from(attributes.mode & 0o6000 != 0);
    changed.closed += u64::from(new & !attributes.mode & 0o777 != 0);
    changed.attributes += u64::from(attributes.extended);
}
