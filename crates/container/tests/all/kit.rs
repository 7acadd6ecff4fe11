// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Layers with whatever is in them, and images that were made of them.

use std::collections::{BTreeMap, HashMap};
use std::error::Error as _;
use std::fs;
use std::io::{self, Cursor, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use cabane_container::{
    Blobs, Bytes, Chosen, ContainerImage, Converted, Error, Platform, Progress, Request, choose,
    convert, digest,
};
use cabane_label::Digest;
use serde_json::{Value, json};
use tar::{EntryType, Header};

/// An entry of a layer.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    path: String,
    kind: EntryType,
    link: String,
    content: Vec<u8>,
    mode: u32,
    owner: (u64, u64),
}

fn entry(path: &str, kind: EntryType, link: &str, content: &[u8]) -> Entry {
    Entry {
        path: path.to_owned(),
        kind,
        link: link.to_owned(),
        content: content.to_owned(),
        mode: if kind == EntryType::Directory { 0o755 } else { 0o644 },
        owner: (0, 0),
    }
}

pub(crate) fn file(path: &str, content: &str) -> Entry {
    entry(path, EntryType::Regular, "", content.as_bytes())
}

pub(crate) fn dir(path: &str) -> Entry {
    entry(path, EntryType::Directory, "", b"")
}

pub(crate) fn link(path: &str, target: &str) -> Entry {
    entry(path, EntryType::Symlink, target, b"")
}

pub(crate) fn hard(path: &str, target: &str) -> Entry {
    entry(path, EntryType::Link, target, b"")
}

pub(crate) fn special(path: &str, kind: EntryType) -> Entry {
    entry(path, kind, "", b"")
}

impl Entry {
    pub(crate) fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    pub(crate) fn owner(mut self, user: u64, group: u64) -> Self {
        self.owner = (user, group);
        self
    }
}

/// Writes a layer as it stands there: also names that no program would write.
pub(crate) fn layer(entries: &[Entry]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for entry in entries {
        let mut header = Header::new_ustar();
        let name = header.as_mut_bytes();
        name[..entry.path.len()].copy_from_slice(entry.path.as_bytes());
        name[157..157 + entry.link.len()].copy_from_slice(entry.link.as_bytes());
        header.set_entry_type(entry.kind);
        header.set_mode(entry.mode);
        header.set_uid(entry.owner.0);
        header.set_gid(entry.owner.1);
        header.set_mtime(1_000_000);
        header.set_size(entry.content.len() as u64);
        header.set_cksum();
        builder.append(&header, entry.content.as_slice()).unwrap();
    }
    builder.into_inner().unwrap()
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Compresses with the program, in one frame.
pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// A registry of bytes.
#[derive(Default)]
pub(crate) struct Store {
    pub(crate) blobs: HashMap<Digest, Vec<u8>>,
}

impl Blobs for Store {
    fn open(&self, digest: &Digest) -> io::Result<Bytes<'_>> {
        let bytes = self.blobs.get(digest).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(Cursor::new(bytes.as_slice())))
    }
}

impl Store {
    pub(crate) fn put(&mut self, bytes: Vec<u8>) -> Value {
        let digest = digest::of(&bytes);
        let size = bytes.len();
        self.blobs.insert(digest.clone(), bytes);
        json!({"mediaType": "", "digest": digest::written(&digest), "size": size})
    }

    /// Puts an image of layers as they come and as they are when they are decompressed.
    pub(crate) fn image(&mut self, layers: &[(Vec<u8>, Vec<u8>)], mut config: Value) -> Vec<u8> {
        let ids: Vec<String> =
            layers.iter().map(|(_, plain)| digest::written(&digest::of(plain))).collect();
        if config["rootfs"].is_null() {
            config["rootfs"] = json!({"type": "layers", "diff_ids": ids});
        }
        let config = self.put(serde_json::to_vec(&config).unwrap());
        let layers: Vec<Value> =
            layers.iter().map(|(packed, _)| self.put(packed.clone())).collect();
        let manifest = json!({"schemaVersion": 2, "config": config, "layers": layers});
        serde_json::to_vec(&manifest).unwrap()
    }
}

pub(crate) fn amd64() -> Value {
    json!({"os": "linux", "architecture": "amd64"})
}

pub(crate) struct Silent;

impl Progress for Silent {
    fn read(&self, _: u64, _: Option<u64>) {}
    fn go_on(&self) -> bool {
        true
    }
}

pub(crate) fn here() -> Platform {
    Platform::of_machine("x86_64")
}

pub(crate) fn mksquashfs() -> PathBuf {
    ["/usr/bin/mksquashfs", "/usr/sbin/mksquashfs", "/usr/local/bin/mksquashfs"]
        .iter()
        .map(PathBuf::from)
        .find(|path| path.exists())
        .expect("mksquashfs is installed")
}

/// Makes an image in a file.
pub(crate) fn convert_to(image: &ContainerImage<'_>, output: &Path) -> Result<Converted, Error> {
    convert(image, &request(output, &mksquashfs()), &Silent)
}

pub(crate) fn request<'a>(output: &'a Path, mksquashfs: &'a Path) -> Request<'a> {
    Request {
        reference: "registry.example/test:1",
        working_directory: None,
        packages: None,
        output,
        mksquashfs,
        jobs: 2,
        max_unpacked: cabane_container::MAX_UNPACKED,
    }
}

pub(crate) fn chosen(store: &Store, manifest: Vec<u8>) -> Result<Chosen, Error> {
    choose(manifest, &here(), &mut |one| {
        Ok(store.blobs.get(&one.digest).cloned().unwrap_or_default())
    })
}

/// What is in an image that was made, without what every image has.
#[derive(Debug)]
pub(crate) struct Flat {
    pub(crate) entries: BTreeMap<String, Seen>,
    pub(crate) converted: Converted,
    pub(crate) image: Vec<u8>,
}

/// One name in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) mode: u32,
    pub(crate) what: What,
    pub(crate) names: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Directory,
    File(Vec<u8>),
    Link(String),
    Other,
}

/// Makes an image of plain layers.
pub(crate) fn flat(layers: &[Vec<u8>]) -> Result<Flat, String> {
    let layers: Vec<_> = layers.iter().map(|one| (one.clone(), one.clone())).collect();
    flat_of(&layers, amd64())
}

pub(crate) fn flat_of(layers: &[(Vec<u8>, Vec<u8>)], config: Value) -> Result<Flat, String> {
    let mut store = Store::default();
    let manifest = store.image(layers, config);
    flat_in(&store, manifest)
}

pub(crate) fn flat_in(store: &Store, manifest: Vec<u8>) -> Result<Flat, String> {
    let chosen = chosen(store, manifest).map_err(output)?;
    let image = ContainerImage::new(&chosen, store, &here()).map_err(output)?;
    look_into(&image)
}

/// Makes an image, and unpacks it with the program that everyone has.
pub(crate) fn look_into(image: &ContainerImage<'_>) -> Result<Flat, String> {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("image");
    let outcome = convert_to(image, &file);
    if outcome.is_err() {
        assert!(!file.exists(), "an import that fails leaves a file");
    }
    let converted = outcome.map_err(output)?;
    let root = place.path().join("root");
    let unpacked = Command::new("unsquashfs")
        .args(["-quiet", "-no-progress", "-dest"])
        .args([&root, &file])
        .output()
        .unwrap();
    assert!(unpacked.status.success(), "{unpacked:?}");
    let mut entries = BTreeMap::new();
    walk(&root, "", &mut entries);
    for path in STANDARD {
        entries.remove(*path);
    }
    entries.retain(|path, _| path != "meta" && !path.starts_with("meta/"));
    Ok(Flat { entries, converted, image: fs::read(&file).unwrap() })
}

const STANDARD: &[&str] = &[
    "dev",
    "etc",
    "etc/group",
    "etc/hosts",
    "etc/passwd",
    "etc/resolv.conf",
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
    "var",
    "var/tmp",
];

fn walk(directory: &Path, prefix: &str, into: &mut BTreeMap<String, Seen>) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let found = entry.path().symlink_metadata().unwrap();
        let what = if found.is_dir() {
            What::Directory
        } else if found.is_symlink() {
            What::Link(fs::read_link(entry.path()).unwrap().display().to_string())
        } else if found.is_file() {
            What::File(fs::read(entry.path()).unwrap())
        } else {
            What::Other
        };
        if found.is_dir() {
            walk(&entry.path(), &format!("{path}/"), into);
        }
        let seen = Seen {
            mode: found.permissions().mode() & 0o7777,
            names: if found.is_dir() { 1 } else { found.nlink() },
            what,
        };
        into.insert(path, seen);
    }
}

impl Flat {
    pub(crate) fn names(&self) -> Vec<&str> {
        self.entries.keys().map(String::as_str).collect()
    }

    pub(crate) fn content(&self, path: &str) -> String {
        match &self.entries[path].what {
            What::File(content) => String::from_utf8_lossy(content).into_owned(),
            other => format!("{other:?}"),
        }
    }

    pub(crate) fn mode(&self, path: &str) -> u32 {
        self.entries[path].mode
    }
}

/// An error with its causes.
#[expect(clippy::needless_pass_by_value, reason = "it is mapped over")]
pub(crate) fn output(error: Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

/// What an error says after the name of the layer.
pub(crate) fn reason(outcome: Result<Flat, String>) -> String {
    let text = outcome.map(|flat| flat.entries).unwrap_err();
    match text.split_once("cannot be used: ") {
        Some((_, reason)) => reason.to_owned(),
        None => text,
    }
}
