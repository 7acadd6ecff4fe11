// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A root file system in a directory: it is written as a layer while it is read.
//!
//! No link is followed. What the caller may not read is an error, and not left out.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, PipeWriter};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::document::Config;
use crate::layer::{Layer, push_part};
use crate::stream::streamed;
use crate::tar::{Head, Writer};
use crate::{ContainerImage, Platform};

/// Makes an image of a directory. With `repairs` files that their owner may not read are opened
/// to the owner first: that is for what was unpacked here.
#[must_use]
pub fn directory(root: &Path, platform: &Platform, repairs: bool) -> ContainerImage<'static> {
    let root = root.to_owned();
    let layer = Layer::of_files(cabane_label::shown(&root), move || {
        let root = root.clone();
        streamed(move |into| archive(&root, repairs, into))
    });
    ContainerImage {
        config: Config::default(),
        layers: vec![layer],
        platform: platform.clone(),
        manifest: None,
        index: None,
        configuration: None,
    }
}

fn archive(root: &Path, repairs: bool, into: PipeWriter) -> io::Result<()> {
    let mut walk = Walk {
        output: Writer::new(BufWriter::with_capacity(1 << 18, into)),
        links: HashMap::new(),
        repairs,
    };
    walk.directory(root, b"")?;
    walk.output.finish()?;
    Ok(())
}

struct Walk {
    output: Writer<BufWriter<PipeWriter>>,
    /// The first names of files that have several.
    links: HashMap<(u64, u64), Vec<u8>>,
    repairs: bool,
}

impl Walk {
    fn directory(&mut self, directory: &Path, name: &[u8]) -> io::Result<()> {
        if self.repairs {
            open_to_owner(directory, 0o700)?;
        }
        let entries = fs::read_dir(directory).map_err(about(directory))?;
        let mut names: Vec<_> = entries
            .map(|entry| Ok(entry?.file_name()))
            .collect::<io::Result<_>>()
            .map_err(about(directory))?;
        names.sort();
        for entry in names {
            let path = directory.join(&entry);
            let mut inside = name.to_vec();
            push_part(&mut inside, entry.as_bytes());
            self.entry(&path, &inside).map_err(about(&path))?;
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, name: &[u8]) -> io::Result<()> {
        let found = path.symlink_metadata()?;
        let head = Head {
            path: name,
            mode: found.mode() & 0o7777,
            mtime: u32::try_from(found.mtime().max(0)).unwrap_or(u32::MAX),
        };
        let kind = found.file_type();
        if kind.is_dir() {
            self.output.directory(head)?;
            return self.directory(path, name);
        }
        if kind.is_symlink() {
            let target = fs::read_link(path)?.into_os_string().into_vec();
            return self.output.symlink(head, &target);
        }
        if !kind.is_file() {
            return self.output.special(head, kind.is_fifo() || kind.is_socket());
        }
        if found.nlink() > 1 {
            let place = (found.dev(), found.ino());
            if let Some(first) = self.links.get(&place) {
                return self.output.link(head, first);
            }
            self.links.insert(place, name.to_vec());
        }
        self.file(path, head, &found)
    }

    fn file(&mut self, path: &Path, head: Head<'_>, found: &Metadata) -> io::Result<()> {
        if self.repairs {
            open_to_owner(path, 0o400)?;
        }
        // Someone may have put a link or a pipe there since.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let mut options = File::options();
        options.read(true).custom_flags(flags.bits().cast_signed());
        let mut file = options.open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it was changed meanwhile"));
        }
        self.output.file(head, found.len(), &mut file)
    }
}

fn open_to_owner(path: &Path, bits: u32) -> io::Result<()> {
    let mode = path.symlink_metadata()?.permissions().mode();
    if mode & bits == bits {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode | bits))
}

/// Names the file in an error, once.
fn about(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| {
        if error.get_ref().is_some() || error.kind() == io::ErrorKind::BrokenPipe {
            return error;
        }
        let path = cabane_label::shown(path);
        io::Error::new(error.kind(), format!("{path}: {error}"))
    }
}
