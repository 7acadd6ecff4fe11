// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What goes into the image, and writing it: every layer is read again, for the files that
//! are left.
//!
//! An image is mounted with root as the owner of everything, and used by people who are not
//! root. So everybody may read what is in it: whoever may read the image file could do that
//! anyhow. Nothing in it gives anybody rights: no set-user-id, no capabilities, no devices.

use std::io::{self, Read};

use cabane_label::Digest;

use crate::convert::{Converted, Progress};
use crate::layer::{Attributes, Special, shown};
use crate::report::Report;
use crate::squash::Input;
use crate::tar::{Head, Unfolded, Writer};
use crate::tree::{File, Node, Tree};
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
/// Where the metadata are.
const META: &str = "meta";
/// Says that a file comes from no layer.
const NO_LAYER: usize = usize::MAX;
/// The longest path that can be opened.
const LONGEST_PATH: usize = 4095;

/// What goes into an image.
pub(crate) struct Plan {
    tree: Tree,
    /// The first name of each file; none if it has none.
    names: Vec<Option<Box<[u8]>>>,
    /// The further names of files: a name, and the file.
    links: Vec<(Box<[u8]>, usize)>,
    directories: u64,
    symlinks: u64,
    bytes: u64,
    glibc: Option<usize>,
}

impl Plan {
    /// Adds what is missing to a tree, and counts.
    pub(crate) fn new(mut tree: Tree, report: &mut Report) -> Result<Self, Error> {
        furnish(&mut tree, report).map_err(|source| Error::Layer {
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
        };
        plan.count(report)?;
        Ok(plan)
    }

    fn count(&mut self, report: &mut Report) -> Result<(), Error> {
        let Self {
            tree,
            names,
            links,
            directories,
            symlinks,
            bytes,
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
                    (Some(name @ None), Some(file)) => {
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
        diff_ids: &[Digest],
        input: Input,
        progress: &dyn Progress,
        about: impl FnOnce(Option<String>) -> (cabane_view::Meta, Report),
    ) -> Result<(Converted, Input), Error> {
        let mut output = Writer::new(input);
        self.write_skeleton(&mut output).map_err(not_written)?;
        let mut written = Written {
            output: &mut output,
            done: 0,
            of: self.bytes,
            library: Vec::new(),
        };
        for (index, layer) in image.layers.iter().enumerate() {
            let files = self.files_of(index);
            self.write_layer(layer, &files, &mut written, progress)
                .and_then(|found| match diff_ids.get(index) {
                    Some(expected) if *expected != found => {
                        Err(layer.failed(LayerProblem::Other {
                            what: "content",
                            expected: crate::digest::written(expected),
                            found: crate::digest::written(&found),
                        }))
                    }
                    _ => Ok(()),
                })?;
        }
        let version = glibc::version_in(&written.library);
        for (path, id) in &self.links {
            let name = self.names.get(*id).and_then(Option::as_deref);
            let attributes = self.tree.files.get(*id).map(|file| file.attributes);
            let head = head(path, attributes.unwrap_or_default(), false);
            output
                .link(head, name.unwrap_or_default())
                .map_err(not_written)?;
        }
        let (meta, report) = about(version);
        write_meta(&mut output, &meta, &report).map_err(not_written)?;
        let input = output.finish().map_err(not_written)?;
        Ok((Converted { meta, report }, input))
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

    /// The files whose content is in a layer: the number of the entry, and the file.
    fn files_of(&self, layer: usize) -> Vec<(u32, usize)> {
        let files = self.tree.files.iter().enumerate();
        let named = files.filter(|(id, file)| {
            file.layer == layer && self.names.get(*id).is_some_and(Option::is_some)
        });
        // Files were numbered in the order of the entries.
        named.map(|(id, file)| (file.entry, id)).collect()
    }

    fn write_layer(
        &self,
        layer: &crate::Layer<'_>,
        files: &[(u32, usize)],
        written: &mut Written<'_>,
        progress: &dyn Progress,
    ) -> Result<Digest, Error> {
        let mut opened = layer.read()?;
        let mut files = files.iter().peekable();
        let mut number = 0;
        while let Some(entry) = opened.next_entry().map_err(|error| layer.failed(error))? {
            if let Some((_, id)) = files.next_if(|(wanted, _)| *wanted == number) {
                let file = self.tree.files.get(*id);
                let name = self.names.get(*id).and_then(Option::as_deref);
                let (Some(file), Some(name)) = (file, name) else {
                    continue;
                };
                let head = head(name, file.attributes, false);
                let is_library = self.glibc == Some(*id);
                let mut content = Content {
                    inner: opened.content(),
                    copy: is_library.then_some(&mut written.library),
                    failure: None,
                };
                let outcome = match &entry.pieces {
                    Some(pieces) => {
                        let mut whole = Unfolded::new(pieces, &mut content, entry.size);
                        written.output.file(head, entry.size, &mut whole)
                    }
                    None => written.output.file(head, entry.size, &mut content),
                };
                if let Some(failure) = content.failure.take() {
                    return Err(layer.failed(failure.into()));
                }
                outcome.map_err(not_written)?;
                written.done += file.size;
                progress.wrote(written.done, written.of);
            }
            number += 1;
            if !progress.go_on() {
                return Err(Error::Interrupted);
            }
        }
        layer.verify(opened)
    }
}

struct Written<'a> {
    output: &'a mut Writer<Input>,
    done: u64,
    of: u64,
    /// The bytes of the C library.
    library: Vec<u8>,
}

/// Tells failures of reading from those of writing, and keeps a copy if that is wanted.
struct Content<'a, R> {
    inner: R,
    copy: Option<&'a mut Vec<u8>>,
    failure: Option<io::Error>,
}

impl<R: Read> Read for Content<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.inner.read(buffer) {
            Ok(read) => {
                if let Some(copy) = &mut self.copy {
                    copy.extend_from_slice(buffer.get(..read).unwrap_or_default());
                }
                Ok(read)
            }
            Err(error) => {
                let same = io::Error::new(error.kind(), error.to_string());
                self.failure = Some(error);
                Err(same)
            }
        }
    }
}

fn not_written(error: io::Error) -> Error {
    Error::io("write to", "mksquashfs")(error)
}

/// Adds mount points, and makes room for the metadata.
fn furnish(tree: &mut Tree, report: &mut Report) -> Result<(), LayerProblem> {
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
    Ok(())
}

fn write_meta(
    output: &mut Writer<Input>,
    meta: &cabane_view::Meta,
    report: &Report,
) -> io::Result<()> {
    let head = |path, mode| Head {
        path,
        mode,
        mtime: 0,
    };
    let report = serde_json::to_vec_pretty(report).unwrap_or_default();
    let env = meta.to_json().into_bytes();
    output.directory(head(META.as_bytes(), 0o755))?;
    for (name, bytes) in [("meta/env.json", env), ("meta/import.json", report)] {
        let size = bytes.len() as u64;
        output.file(head(name.as_bytes(), 0o644), size, &mut bytes.as_slice())?;
    }
    Ok(())
}

/// What everybody may do with what the owner may, and nobody more than that.
fn mode_of(attributes: Attributes, is_directory: bool) -> u32 {
    let mode = attributes.mode & 0o1777;
    let is_executable = is_directory || mode & 0o111 != 0;
    mode | 0o444 | if is_executable { 0o111 } else { 0 }
}

fn head(path: &[u8], attributes: Attributes, is_directory: bool) -> Head<'_> {
    Head {
        path,
        mode: mode_of(attributes, is_directory),
        mtime: attributes.mtime,
    }
}

fn note(changed: &mut crate::report::Changed, attributes: Attributes, is_directory: bool) {
    let new = mode_of(attributes, is_directory);
    changed.owners += u64::from(attributes.is_foreign);
    changed.set_id += u64::from(attributes.mode & 0o6000 != 0);
    changed.closed += u64::from(new & !attributes.mode & 0o777 != 0);
    changed.attributes += u64::from(attributes.extended);
}
