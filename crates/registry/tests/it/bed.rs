// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A registry that does wrong what a test chooses, and a client that does not wait long.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use cabane_registry::{
    Deleted, Error, Format, Listing, Options, Place, PushRequest, Pushed, Registry, RemoteImage,
    RetryPolicy, SigningKey, Wanted, sum,
};
use cabane_testkit::HostileRegistry;
use jiff::Timestamp;

pub(crate) const REPOSITORY: &str = "uenv/deploy/daint/gh200/app/1.0";

/// A registry that does wrong what a test chooses, and a client that does not wait long.
pub(crate) struct Bed {
    pub(crate) server: HostileRegistry,
    pub(crate) registry: Registry,
    directory: tempfile::TempDir,
}

pub(crate) fn retry_policy() -> RetryPolicy {
    RetryPolicy {
        retries: 4,
        pause: Duration::from_millis(5),
        longest_pause: Duration::from_millis(20),
        longest_request: Duration::from_secs(2),
        connect: Duration::from_secs(5),
        silence: Duration::from_millis(500),
        answer: Duration::from_secs(2),
        list: Duration::from_secs(10),
        thinking: Duration::from_secs(5),
    }
}

pub(crate) fn options() -> Options {
    Options { retry_policy: retry_policy(), ..Options::default() }
}

impl Bed {
    pub(crate) fn new() -> Self {
        Self::with(&options())
    }

    pub(crate) fn with(options: &Options) -> Self {
        let server = HostileRegistry::start();
        let address = format!("{}/uenv", server.url()).parse().unwrap();
        Self {
            registry: Registry::new(address, options).unwrap(),
            server,
            directory: tempfile::tempdir().unwrap(),
        }
    }

    /// A bed with an image of so many bytes under the label, pushed.
    pub(crate) fn pushed(size: usize) -> (Self, Vec<u8>) {
        Self::new().with_image(size)
    }

    /// The same for a client that asks for one thing after the other, and for much at once.
    pub(crate) fn pushed_for_one_stream(size: usize) -> (Self, Vec<u8>) {
        let options = Options { streams: 1, ..options() };
        Self::with(&options).with_image(size)
    }

    fn with_image(self, size: usize) -> (Self, Vec<u8>) {
        let bed = self;
        let content = bed.push_content(size);
        bed.server.forget_requests();
        (bed, content)
    }

    pub(crate) fn push_content(&self, size: usize) -> Vec<u8> {
        let content = noise(size);
        self.push(&content, true).unwrap();
        content
    }

    pub(crate) fn push(&self, content: &[u8], replace: bool) -> Result<Pushed, Error> {
        self.push_signed(content, replace, None)
    }

    pub(crate) fn push_signed(
        &self,
        content: &[u8],
        replace: bool,
        sign: Option<&SigningKey>,
    ) -> Result<Pushed, Error> {
        let image = self.path("image");
        fs::write(&image, content).unwrap();
        let meta = self.path("meta");
        fs::create_dir_all(&meta).unwrap();
        fs::write(meta.join("env.json"), "{}").unwrap();
        let request = PushRequest {
            place: &place("app/1.0:v1@daint%gh200"),
            image: &image,
            digest: sum::file(&image, &mut |_, _| ()).unwrap(),
            size: content.len() as u64,
            format: Format::Squashfs,
            meta: Some(&meta),
            packages: None,
            created: "2026-11-21T10:00:00Z".parse::<Timestamp>().unwrap(),
            replace,
            notes: Some(&self.path("notes")),
            root_signature: None,
            sign,
        };
        self.registry.push(&request, &mut |_, _| ())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn image(&self) -> Result<RemoteImage, Error> {
        self.registry.image(&place("app/1.0:v1@daint%gh200"))
    }

    pub(crate) fn fetch(&self) -> Result<Vec<u8>, Error> {
        let into = self.path("into");
        fs::create_dir_all(&into).unwrap();
        let image = self.image()?;
        let fetched = self.registry.fetch_image(&image, &into, &[], &mut |_, _| ())?;
        let content = fs::read(&fetched.path).unwrap();
        fs::remove_file(fetched.path).unwrap();
        Ok(content)
    }

    pub(crate) fn is_clean(&self) -> bool {
        fs::read_dir(self.path("into")).is_ok_and(|entries| entries.count() == 0)
    }

    pub(crate) fn delete(&self) -> Result<Deleted, Error> {
        self.registry.delete(&place("app/1.0:v1@daint%gh200"))
    }

    pub(crate) fn labels(&self, listing: Listing) -> Result<Vec<String>, Error> {
        let namespace = "deploy".parse().unwrap();
        let wanted =
            Wanted { namespace: &namespace, pattern: None, how: cabane_label::NameMatch::Prefix };
        let found = self.registry.find(&wanted, listing)?;
        Ok(found.iter().map(|image| image.label.to_string()).collect())
    }
}

pub(crate) fn place(label: &str) -> Place {
    Place { namespace: "deploy".parse().unwrap(), label: label.parse().unwrap() }
}

/// Bytes that repeat nowhere.
pub(crate) fn noise(size: usize) -> Vec<u8> {
    cabane_testkit::noise(1, size)
}

pub(crate) const MIB: usize = 1 << 20;
