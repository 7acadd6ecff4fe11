// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Blobs as files without a name, and a layout of OCI made of them.
//!
//! The kernel removes files without a name when the process ends, however it ends. They get
//! their names when all of them are whole, and the index of the layout names the image last.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cabane_label::{escape, shown};
use rustix::fs::{AtFlags, CWD, FlockOperation, OFlags};
use serde_json::{Value, json};
use tempfile::TempPath;

use super::{Blob, Exported, MANIFEST, Target, WriteBlob};
use crate::document::json as read_json;
use crate::error::failure;
use crate::{Error, digest};

const NAME: &str = "org.opencontainers.image.ref.name";
/// How names begin of files that are not whole yet, where they must have one.
const UNSEEN: &str = ".export-";
pub(super) const LAYOUT: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;

/// A file that is invisible until it gets a name. Where the file system has no files
/// without a name it has one that begins with a dot, and loses it with this value.
#[derive(Debug)]
pub(super) struct Unseen {
    pub(super) file: File,
    named: Option<TempPath>,
}

impl Unseen {
    pub(super) fn new(directory: &Path) -> io::Result<Self> {
        let mut options = File::options();
        options.read(true).write(true).mode(0o644);
        let flags = OFlags::TMPFILE.bits().cast_signed();
        match options.clone().custom_flags(flags).open(directory) {
            Ok(file) => Ok(Self { file, named: None }),
            Err(error) if is_unknown(&error) => {
                let mut builder = tempfile::Builder::new();
                let builder = builder.prefix(UNSEEN);
                options.create_new(true);
                let made = builder.make_in(directory, |path| options.open(path))?;
                let (file, named) = made.into_parts();
                Ok(Self { file, named: Some(named) })
            }
            Err(error) => Err(error),
        }
    }

    /// Gives the file a name; with `replace` it takes that of another one. `false` if another
    /// one has it.
    pub(super) fn publish(self, path: &Path, replace: bool) -> io::Result<bool> {
        self.file.sync_all()?;
        if let Some(named) = &self.named {
            return link(named, path, replace);
        }
        let own = PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        link(&own, path, replace)
    }
}

fn is_unknown(error: &io::Error) -> bool {
    // Old kernels and network file systems say different things.
    let unknown = [
        rustix::io::Errno::OPNOTSUPP,
        rustix::io::Errno::ISDIR,
        rustix::io::Errno::INVAL,
        rustix::io::Errno::NOSYS,
    ];
    let number = error.raw_os_error();
    unknown.iter().any(|errno| number == Some(errno.raw_os_error()))
}

fn link(from: &Path, to: &Path, replace: bool) -> io::Result<bool> {
    let link = |to: &Path| rustix::fs::linkat(CWD, from, CWD, to, AtFlags::SYMLINK_FOLLOW);
    match link(to) {
        Ok(()) => return Ok(true),
        Err(rustix::io::Errno::EXIST) if replace => {}
        Err(rustix::io::Errno::EXIST) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let other = to.with_file_name(format!(".{name}.{}.partial", std::process::id()));
    link(&other)?;
    fs::rename(&other, to).inspect_err(|_| {
        let _ = fs::remove_file(&other);
    })?;
    Ok(true)
}

/// Blobs that are kept as files without a name.
#[derive(Debug)]
pub struct LooseTarget {
    directory: PathBuf,
    place: PathBuf,
    blobs: Vec<(Blob, Unseen)>,
}

impl LooseTarget {
    /// Makes one whose files are in a directory; `place` is what errors name.
    #[must_use]
    pub fn new(directory: &Path, place: &Path) -> Self {
        Self { directory: directory.to_owned(), place: place.to_owned(), blobs: Vec::new() }
    }

    /// Returns all blobs, each with a path under which this process can open it.
    pub fn files(&self) -> impl Iterator<Item = (&Blob, PathBuf)> {
        self.blobs.iter().map(|(blob, unseen)| {
            let number = unseen.file.as_fd().as_raw_fd();
            (blob, PathBuf::from(format!("/proc/self/fd/{number}")))
        })
    }

    /// Makes a layout of the blobs, or adds them to one that is there. The image gets a name
    /// in it, or is the one without.
    ///
    /// # Errors
    ///
    /// Another image has the name and is not to be replaced.
    pub fn into_layout(
        self,
        path: &Path,
        name: Option<&str>,
        exported: &Exported,
        replace: bool,
    ) -> Result<(), Error> {
        let blobs = path.join("blobs/sha256");
        let made = |path: &Path| match fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made.map_err(Error::io("make", path)),
        };
        made(path)?;
        let directory = File::open(path).map_err(Error::io("read", path))?;
        // Another export may add to it at the same time. Where there are no locks it goes on.
        let _ = rustix::fs::flock(&directory, FlockOperation::LockExclusive);
        let index = with_image(path, name, exported, replace)?;
        // It comes first: by it a directory is known whose export was killed.
        write_document(path, "oci-layout", LAYOUT)?;
        made(&path.join("blobs"))?;
        made(&blobs)?;
        for (blob, unseen) in self.blobs {
            let file = blobs.join(blob.digest.as_str());
            // One that is there already has the same content, if it is whole.
            let is_whole = fs::metadata(&file).is_ok_and(|found| found.len() == blob.size);
            if !is_whole {
                unseen.publish(&file, true).map_err(Error::io("write", &file))?;
            }
        }
        write_document(path, "index.json", &index)?;
        directory.sync_all().map_err(Error::io("write", path))
    }
}

/// Writes a document of a layout at once.
fn write_document(layout: &Path, name: &str, bytes: &[u8]) -> Result<(), Error> {
    let file = layout.join(name);
    let written = Unseen::new(layout).and_then(|mut unseen| {
        unseen.file.write_all(bytes)?;
        unseen.publish(&file, true)
    });
    written.map(drop).map_err(Error::io("write", &file))
}

impl Target for LooseTarget {
    fn put(&mut self, write: &mut WriteBlob<'_>) -> Result<Blob, Error> {
        let failed = || Error::io("write", &self.place);
        let unseen = Unseen::new(&self.directory).map_err(failed())?;
        let mut output = BufWriter::with_capacity(1 << 18, &unseen.file);
        let blob = write(&mut output)?;
        output.flush().map_err(failed())?;
        drop(output);
        if !self.blobs.iter().any(|(known, _)| *known == blob) {
            self.blobs.push((blob.clone(), unseen));
        }
        Ok(blob)
    }

    fn place(&self) -> &Path {
        &self.place
    }
}

/// Fails if a directory is there in which a layout must not be written: one that holds
/// something else.
///
/// # Errors
///
/// That it does.
pub fn check_layout(path: &Path) -> Result<(), Error> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(Error::io("read", path))?,
    };
    // What is left of an export that was killed is nothing of others.
    let is_left = |name: &OsStr| name.as_encoded_bytes().starts_with(UNSEEN.as_bytes());
    let is_free = entries.into_iter().all(|entry| entry.is_ok_and(|one| is_left(&one.file_name())));
    if is_free || path.join("oci-layout").is_file() {
        return Ok(());
    }
    let report = failure(format!("{} holds something else than container images", shown(path)));
    Err(Error::Refused(report.hinted("name a directory that is not there yet".to_owned())))
}

/// Returns the index of a layout with one more image, or with another one of the name.
fn with_image(
    path: &Path,
    name: Option<&str>,
    exported: &Exported,
    replace: bool,
) -> Result<Vec<u8>, Error> {
    let file = path.join("index.json");
    let mut index = match fs::read(&file) {
        Ok(bytes) => read_json::<Value>(&bytes, "index.json")?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => index_of(&[]),
        Err(error) => return Err(Error::io("read", &file)(error)),
    };
    let odd = || Error::document("index.json", "it is no list of images");
    let list = index.get_mut("manifests").and_then(Value::as_array_mut);
    let list = list.ok_or_else(odd)?;
    let new = entry(name, &exported.blob);
    let name_of = |one: &Value| one.pointer(&format!("/annotations/{NAME}")).cloned();
    let digest_of = |one: &Value| one.get("digest").cloned();
    let other =
        list.iter().find(|one| name_of(one) == name_of(&new) && digest_of(one) != digest_of(&new));
    if let Some(other) = other.filter(|_| !replace) {
        let digest = other.get("digest").and_then(Value::as_str);
        let (place, digest) = (shown(path), escape(digest.unwrap_or_default()));
        let called = match name {
            Some(name) => format!("called `{}`", escape(name)),
            None => "without a name".to_owned(),
        };
        let report = failure(format!("{place} has another image {called}: {digest}"));
        let hint = "`--force` gives the name to the new one".to_owned();
        return Err(Error::Refused(report.hinted(hint)));
    }
    list.retain(|one| name_of(one) != name_of(&new));
    list.push(new);
    Ok(serde_json::to_vec(&index).unwrap_or_default())
}

/// Returns an index of images.
pub(super) fn index_of(entries: &[Value]) -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": entries,
    })
}

/// Returns what an index says of an image.
pub(super) fn entry(name: Option<&str>, blob: &Blob) -> Value {
    let mut entry = json!({
        "mediaType": MANIFEST,
        "digest": digest::written(&blob.digest),
        "size": blob.size,
    });
    if let (Some(name), Some(fields)) = (name, entry.as_object_mut()) {
        fields.insert("annotations".to_owned(), json!({ NAME: name }));
    }
    entry
}
