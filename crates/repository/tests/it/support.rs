// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Small images, their metadata, and what must be true of any repository.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use cabane_label::{Digest, Label};
use cabane_repository::{
    AddRequest, Added, Claim, Corruption, Error, Incoming, Repository, Transfer,
};
use tempfile::TempDir;

/// A repository and a place for images, removed at the end of the test.
pub(crate) struct World {
    pub(crate) place: TempDir,
    pub(crate) repository: Repository,
}

impl World {
    /// Makes an empty repository, in memory where that is possible: what is synchronised here
    /// for each of thousands of changes need not wear a disk.
    pub(crate) fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let place =
            if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let place = place.unwrap();
        let repository = Repository::create(&place.path().join("repository")).unwrap();
        (1..5).for_each(|content| drop(image_in(place.path(), content)));
        meta_in(place.path());
        Self { place, repository }
    }

    pub(crate) fn add(&self, name: &str, content: u8) -> Result<Added, Error> {
        self.add_with(name, content, |_| ())
    }

    pub(crate) fn replace(&self, name: &str, content: u8) -> Result<Added, Error> {
        self.add_with(name, content, |request| request.replace = true)
    }

    pub(crate) fn add_with(
        &self,
        name: &str,
        content: u8,
        change: impl FnOnce(&mut AddRequest<'_>),
    ) -> Result<Added, Error> {
        let (image, meta) = (self.image(content), self.meta());
        let mut request = request(name, &image, &meta);
        change(&mut request);
        self.repository.add(&request)
    }

    /// Returns the path of an image with this content; each content has its own digest.
    pub(crate) fn image(&self, content: u8) -> PathBuf {
        image_in(self.place.path(), content)
    }

    pub(crate) fn meta(&self) -> PathBuf {
        meta_in(self.place.path())
    }

    /// Adds an image that is built on another one.
    pub(crate) fn add_on(&self, name: &str, content: u8, base: &Digest) {
        let (image, meta) = (self.image(content), self.place.path().join(format!("meta-{name}")));
        fs::create_dir(&meta).unwrap();
        let env = format!(
            r#"{{"name": "{name}", "mount": "/{name}", "views": {{}}, "cabane": {{"version": 1,
                "bases": [{{"label": "base/1", "digest": "{base}", "mount": "/base"}}]}}}}"#
        );
        fs::write(meta.join("env.json"), env).unwrap();
        self.repository.add(&request(name, &image, &meta)).unwrap();
    }

    /// Returns which image each label has, by the content of the image.
    pub(crate) fn labels(&self) -> BTreeMap<String, u8> {
        labels(&self.repository)
    }

    pub(crate) fn file(&self, path: &str) -> PathBuf {
        self.repository.path().join(path)
    }

    /// Returns the path of the only ref.
    pub(crate) fn only_ref(&self) -> PathBuf {
        let names = names(&self.file("refs"));
        assert_eq!(names.len(), 1, "{names:?}");
        self.file("refs").join(names.first().unwrap())
    }
}

pub(crate) fn request<'a>(name: &str, image: &'a Path, meta: &'a Path) -> AddRequest<'a> {
    AddRequest { label: label(name), image, meta, how: Transfer::Copy, replace: false }
}

pub(crate) fn label(name: &str) -> Label {
    format!("{name}/1:v1@daint%gh200").parse().unwrap()
}

pub(crate) fn image_in(place: &Path, content: u8) -> PathBuf {
    let path = place.join(format!("{content}.squashfs"));
    if !path.exists() {
        // Who makes it may be killed.
        let new = place.join(format!("{content}.new"));
        fs::write(&new, image_bytes(content)).unwrap();
        fs::rename(&new, &path).unwrap();
    }
    path
}

/// Returns the smallest file that is taken for squashfs, and something behind its header.
pub(crate) fn image_bytes(content: u8) -> Vec<u8> {
    let mut bytes = vec![content; 5000];
    bytes[..96].fill(0);
    bytes[..4].copy_from_slice(b"hsqs");
    bytes[28..30].copy_from_slice(&4_u16.to_le_bytes());
    bytes[40..48].copy_from_slice(&5000_u64.to_le_bytes());
    bytes
}

pub(crate) fn meta_in(place: &Path) -> PathBuf {
    let path = place.join("meta");
    if !path.exists() {
        let new = place.join("meta.new");
        let _ = fs::create_dir_all(new.join("recipe"));
        let env = r#"{"name":"a","description":"for tests","mount":"/user-environment",
            "default-view":"default","views":{"default":{"env":{"version":1,
            "values":{"list":{},"scalar":{"A":"b"}}}}}}"#;
        fs::write(new.join("env.json"), env).unwrap();
        fs::write(new.join("recipe/config.yaml"), "name: a\n").unwrap();
        let _ = fs::rename(&new, &path);
    }
    path
}

/// Takes the place for downloading an image, and waits for as long as another process has it.
pub(crate) fn incoming_at(repository: &Repository, digest: &Digest) -> Result<Incoming, Error> {
    let mut queue = repository.queue(digest);
    loop {
        match queue.try_take()? {
            Claim::Taken(incoming) => return Ok(incoming),
            Claim::Busy => sleep(Duration::from_millis(10)),
        }
    }
}

/// Returns which image each label has, after reading every image.
pub(crate) fn labels(repository: &Repository) -> BTreeMap<String, u8> {
    let records = repository.records().unwrap();
    let content = |digest: &Digest| {
        let bytes = fs::read(repository.image_path(digest)).unwrap();
        let content = *bytes.last().unwrap();
        assert_eq!(bytes, image_bytes(content), "a label points to an incomplete image");
        repository.meta(digest).unwrap();
        content
    };
    let labels = records.iter().map(|one| (one.label.name.to_string(), content(&one.digest)));
    labels.collect()
}

/// Checks that there is nothing in a repository but labels and their images.
pub(crate) fn assert_tidy(repository: &Repository) {
    let status = repository.status(true).unwrap();
    // The index is a cache, which the next writer makes anew.
    let damaged = status.damaged.iter();
    let damaged: Vec<_> = damaged.filter(|one| **one != Corruption::BadIndex).collect();
    assert_eq!(damaged, Vec::<&Corruption>::new());
    let root = repository.path();
    assert_eq!(names(&root.join("tmp")), BTreeSet::from([".lock".to_owned()]));
    let digests = repository.records().unwrap().into_iter().map(|one| one.digest.to_string());
    assert_eq!(names(&root.join("images")), digests.collect());
    assert_eq!(names(&root.join("refs")).len(), status.labels);
}

pub(crate) fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

const VARIABLE: &str = "CABANE_TEST_INSIDE";

/// Returns what the parent has passed to this process, if it was started by [`again`].
pub(crate) fn inside() -> Option<String> {
    env::var(VARIABLE).ok()
}

/// Returns a command that runs one test of this program again, in another process.
pub(crate) fn again(program: &mut Command, test: &str, message: &str) -> Command {
    let mut command = Command::new(program.get_program());
    command.args(program.get_args()).args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(VARIABLE, message);
    command
}

pub(crate) fn this_program() -> Command {
    Command::new(env::current_exe().unwrap())
}

/// Random numbers for choosing instants; a test prints the seed with which it failed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
