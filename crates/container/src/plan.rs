// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What goes into the image, and writing what was not written ahead: layers are read again for
//! files that are left and not there yet.

use std::io::Read;

use crate::budget::Budget;
use crate::import_record::{Changed, Converted, ImportRecord};
use crate::layer::{Attributes, LONGEST_PATH, Layer, Listing, Opened, Special, too_long};
use crate::progress::Progress;
use crate::speculative::Written;
use crate::squash::{Contents, Place, Pool, mode_of, not_written};
use crate::tree::{File, Node, Tree};
use crate::write::{META, store_file};
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
    /// How many names each file has.
    names: Vec<u32>,
    /// Where the content of each file is, as far as it was written.
    places: Vec<Place>,
    glibc: Option<usize>,
    written: &'a Written,
    /// How many files were written ahead and are left.
    confirmed: usize,
    has_mpi: bool,
}

impl<'a> Plan<'a> {
    /// Adds what is missing to a tree, and counts; `written` are the files that were written
    /// ahead.
    pub(crate) fn new(
        mut tree: Tree,
        written: &'a Written,
        working_directory: Option<&str>,
        report: &mut ImportRecord,
    ) -> Result<Self, Error> {
        furnish(&mut tree, working_directory, report).map_err(above_the_others)?;
        let mut plan = Self {
            names: vec![0; tree.files.len()],
            places: tree.files.iter().map(|file| place_of(file, written)).collect(),
            glibc: glibc::file_in(&tree),
            tree,
            written,
            confirmed: 0,
            has_mpi: false,
        };
        plan.count(report)?;
        Ok(plan)
    }

    /// Whether everything that was written ahead is left.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.confirmed == self.written.count()
    }

    /// Whether there are libraries of an MPI in it, going by their names.
    pub(crate) fn has_mpi(&self) -> bool {
        self.has_mpi
    }

    fn count(&mut self, report: &mut ImportRecord) -> Result<(), Error> {
        let Self { tree, names, written, confirmed, has_mpi, .. } = self;
        let ImportRecord { changed, directories, symlinks, bytes, .. } = report;
        tree.visit(|path, node| {
            if path.len() > LONGEST_PATH {
                return Err(above_the_others(too_long(path)));
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
                Node::File(id) => {
                    let (Some(names), Some(file)) = (names.get_mut(*id), tree.files.get(*id))
                    else {
                        return Ok(());
                    };
                    *names += 1;
                    *has_mpi |= is_mpi(path);
                    if *names == 1 {
                        let was_written = written.place(file.layer, file.entry).is_some();
                        *confirmed += usize::from(was_written);
                        *bytes += file.size;
                        note(changed, file.attributes, false);
                    }
                }
            }
            Ok(())
        })?;
        report.files = names.iter().filter(|names| **names > 0).count() as u64;
        report.hard_links = names.iter().map(|names| u64::from(*names)).sum::<u64>() - report.files;
        Ok(())
    }

    /// What goes into the image.
    pub(crate) fn contents(&self) -> Contents<'_> {
        Contents { tree: &self.tree, places: &self.places, names: &self.names }
    }

    /// Writes the content that is missing; `about` makes the metadata when the version of the
    /// C library is known.
    pub(crate) fn write(
        &mut self,
        image: &ContainerImage<'_>,
        listings: &[Listing],
        (pool, budget): (&mut Pool, &Budget<'_>),
        progress: &dyn Progress,
        about: impl FnOnce(Option<String>) -> Converted,
    ) -> Result<Converted, Error> {
        let mut library = None;
        for (index, (layer, listing)) in image.layers.iter().zip(listings).enumerate() {
            let files = self.files_of(index);
            if files.is_empty() {
                continue;
            }
            let mut opened = layer.read_again(budget)?;
            self.write_layer(layer, &mut opened, &files, pool, &mut library, progress)?;
            layer.verify_again(opened, &listing.sums)?;
        }
        let version = match library {
            Some(library) => glibc::version_in(&library),
            None => self.version_ahead(),
        };
        let converted = about(version);
        self.add_meta(pool, &converted)?;
        Ok(converted)
    }

    /// Writes the metadata, where they are in every image.
    fn add_meta(&mut self, pool: &mut Pool, converted: &Converted) -> Result<(), Error> {
        for (name, bytes) in converted.documents() {
            let size = bytes.len() as u64;
            let place = pool.add(size, &mut bytes.as_slice()).map_err(not_written)?;
            let added = self.tree.add_file(&format!("{META}/{name}"), own_file(size));
            added.map_err(above_the_others)?;
            self.places.push(place);
            self.names.push(1);
        }
        Ok(())
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
                && self.names.get(*id).is_some_and(|names| *names > 0)
                && (self.written.place(layer, file.entry).is_none()
                    || self.is_unknown_library(*id, file))
        });
        // Files were numbered in the order of the entries.
        wanted.map(|(id, file)| (file.entry, id)).collect()
    }

    /// Whether a file is the C library under a name by which it was not known.
    fn is_unknown_library(&self, id: usize, file: &File) -> bool {
        self.glibc == Some(id) && self.written.library(file.layer, file.entry).is_none()
    }

    fn write_layer(
        &mut self,
        layer: &Layer<'_>,
        opened: &mut Opened<'_, '_>,
        files: &[(u32, usize)],
        pool: &mut Pool,
        library: &mut Option<Vec<u8>>,
        progress: &dyn Progress,
    ) -> Result<(), Error> {
        let mut files = files.iter().peekable();
        let mut number = 0;
        while files.peek().is_some()
            && let Some(entry) = opened.next_entry().map_err(|error| layer.failed(error))?
        {
            if let Some((_, id)) = files.next_if(|(wanted, _)| *wanted == number) {
                let (Some(file), Some(place)) =
                    (self.tree.files.get(*id), self.places.get_mut(*id))
                else {
                    continue;
                };
                let mut copy = (self.glibc == Some(*id)).then(Vec::new);
                if self.written.place(file.layer, file.entry).is_some() {
                    let bytes = copy.get_or_insert_default();
                    let read = opened.content().read_to_end(bytes);
                    read.map_err(|error| layer.failed(error.into()))?;
                } else {
                    *place = store_file(pool, (layer, opened), &entry, copy.as_mut())?;
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

/// Whether a file is a library of an MPI, going by its name.
fn is_mpi(path: &[u8]) -> bool {
    let name = crate::layer::split_last(path).1;
    let starts = [&b"libmpi.so."[..], b"libmpich.so.", b"libmpi_", b"libmpich_"];
    starts.iter().any(|start| name.starts_with(start))
        && name.windows(4).any(|part| part == b".so.")
}

/// Where the content of a file is, if that was written ahead.
fn place_of(file: &File, written: &Written) -> Place {
    let place = written.place(file.layer, file.entry);
    place.unwrap_or(Place::Empty)
}

/// A file that comes from no layer.
fn own_file(size: u64) -> File {
    let attributes = Attributes { mode: 0o644, ..Attributes::default() };
    File { size, layer: NO_LAYER, entry: 0, attributes }
}

fn above_the_others(source: LayerProblem) -> Error {
    Error::Layer { layer: "above the others".to_owned(), source }
}

/// Adds mount points and the working directory, and makes space for the metadata.
fn furnish(
    tree: &mut Tree,
    working_directory: Option<&str>,
    report: &mut ImportRecord,
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
        let is_there = tree.look_up(path.as_bytes(), true);
        if is_there.is_some_and(|id| matches!(tree.node(id), Node::File(_))) {
            continue;
        }
        // Often a link to what a service of a machine writes when it starts.
        if tree.look_up(path.as_bytes(), false).is_some() {
            changed.replaced.push(format!("/{path}"));
        }
        changed.mount_points.push(format!("/{path}"));
        tree.add_file(path, own_file(0))?;
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
        match tree.look_up(above.as_bytes(), false) {
            None => true,
            Some(_) => tree
                .look_up(above.as_bytes(), true)
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
