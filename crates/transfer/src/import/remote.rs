// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Container images in registries: what is got before anything is made of one.

use std::fs::{self, File};
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use cabane_container::{Blobs, Bytes, Chosen, Descriptor, Manifest, Platform, choose};
use cabane_label::{Digest, escape};
use cabane_registry::{ContainerName, Registry};
use cabane_report::{IoContext, Report, Result, Transfer};
use cabane_site::Context;

/// How many layers are got at once.
const STREAMS: usize = 4;
/// A layer that is whole.
const WHOLE: &str = "blob";

/// A container image in a registry.
pub struct Remote {
    registry: Registry,
    name: ContainerName,
    config: (Digest, Vec<u8>),
    /// Where its layers are, once they were got.
    place: OnceLock<PathBuf>,
}

impl Remote {
    /// Asks a registry for an image; its layers are got later.
    pub fn find(
        registry: Registry,
        name: &ContainerName,
        platform: &Platform,
    ) -> Result<(Self, Chosen)> {
        let bytes = registry.container_document(name)?;
        let mut failure = None;
        let mut get = |one: &Descriptor| {
            let got = registry.container_manifest(name, &one.digest);
            got.map_err(|error| {
                let text = error.to_string();
                failure = Some(error);
                cabane_container::Error::Document { what: "a manifest".to_owned(), reason: text }
            })
        };
        let chosen = choose(bytes, platform, &mut get);
        if let Some(failure) = failure {
            return Err(Report::from(failure));
        }
        let chosen = chosen?;
        let Descriptor { digest, size, .. } = &chosen.manifest.config;
        let config = registry.container_config(name, digest, *size)?;
        let remote = Self {
            registry,
            name: name.clone(),
            config: (digest.clone(), config),
            place: OnceLock::new(),
        };
        Ok((remote, chosen))
    }

    /// Gets the layers into a directory, several at a time, and goes on where an attempt was
    /// cut off.
    pub fn fetch(
        &self,
        context: &Context,
        manifest: &Manifest,
        place: &Path,
        interrupt: &AtomicBool,
    ) -> Result<()> {
        let mut layers: Vec<&Descriptor> = manifest.layers.iter().collect();
        layers.sort_by(|one, other| one.digest.as_str().cmp(other.digest.as_str()));
        layers.dedup_by(|one, other| one.digest == other.digest);
        // The largest first: the last one shall not be waited for alone.
        layers.sort_by_key(|layer| std::cmp::Reverse(layer.size));
        let is_missing = |layer: &&&Descriptor| !is_whole(place, layer);
        let missing = layers.iter().filter(is_missing);
        let sizes: Vec<_> = missing.map(|layer| (layer.digest.clone(), layer.size)).collect();
        let space = self.registry.check_space(&self.name, &sizes, place);
        space?;
        let watched =
            Mutex::new(context.transfer(&format!("getting {}", escape(&self.name.to_string()))));
        let all = Fetching {
            remote: self,
            layers: &layers,
            place,
            interrupt,
            next: AtomicUsize::new(0),
            done: layers.iter().map(|_| Mutex::new(0)).collect(),
            total: layers.iter().fold(0, |sum, layer| sum.saturating_add(layer.size)),
            failure: Mutex::new(None),
            watched: &watched,
        };
        thread::scope(|scope| {
            for _ in 0..STREAMS.min(layers.len()) {
                scope.spawn(|| all.work());
            }
        });
        let failure = all.failure.into_inner();
        if let Ok(watched) = watched.into_inner() {
            watched.end();
        }
        if let Some(failure) = failure.unwrap_or_else(PoisonError::into_inner) {
            return Err(failure);
        }
        let _ = self.place.set(place.to_owned());
        Ok(())
    }
}

/// Whether a layer was got.
fn is_whole(place: &Path, layer: &Descriptor) -> bool {
    let whole = place.join(layer.digest.as_str()).join(WHOLE);
    fs::metadata(whole).is_ok_and(|found| found.len() == layer.size)
}

struct Fetching<'a> {
    remote: &'a Remote,
    layers: &'a [&'a Descriptor],
    place: &'a Path,
    interrupt: &'a AtomicBool,
    next: AtomicUsize,
    done: Vec<Mutex<u64>>,
    total: u64,
    failure: Mutex<Option<Report>>,
    watched: &'a Mutex<Box<dyn Transfer>>,
}

impl Fetching<'_> {
    fn work(&self) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(layer) = self.layers.get(index) else {
                return;
            };
            let is_over = || {
                let failure = self.failure.lock();
                failure.is_ok_and(|failure| failure.is_some())
            };
            if is_over() {
                return;
            }
            if let Err(error) = self.get(index, layer)
                && let Ok(mut failure) = self.failure.lock()
            {
                failure.get_or_insert(error);
            }
        }
    }

    fn get(&self, index: usize, layer: &Descriptor) -> Result<()> {
        if self.interrupt.load(Ordering::Relaxed) {
            let interrupted = cabane_container::Error::Interrupted;
            return Err(Report::from(interrupted));
        }
        let directory = self.place.join(layer.digest.as_str());
        let whole = directory.join(WHOLE);
        if is_whole(self.place, layer) {
            self.tell(index, layer.size);
            return Ok(());
        }
        let shown = || format!("make {}", directory.display());
        fs::create_dir_all(&directory).or_failed(shown)?;
        let Remote { registry, name, .. } = self.remote;
        let mut progress = |done, _| self.tell(index, done);
        let got =
            registry.container_blob(name, &layer.digest, layer.size, &directory, &mut progress);
        let got = got?;
        fs::rename(&got, &whole).or_failed(|| format!("move {}", got.display()))
    }

    fn tell(&self, index: usize, done: u64) {
        if let Some(Ok(mut own)) = self.done.get(index).map(Mutex::lock) {
            *own = done;
        }
        let sum = self.done.iter().filter_map(|one| one.lock().ok());
        let sum = sum.map(|one| *one).sum();
        if let Ok(watched) = self.watched.lock() {
            watched.show(sum, self.total);
        }
    }
}

impl Blobs for Remote {
    fn open(&self, digest: &Digest) -> io::Result<Bytes<'_>> {
        let (config, bytes) = &self.config;
        if config == digest {
            return Ok(Box::new(Cursor::new(bytes.as_slice())));
        }
        let place = self.place.get().ok_or(io::ErrorKind::NotFound)?;
        let path = place.join(digest.as_str()).join(WHOLE);
        Ok(Box::new(File::open(path)?))
    }
}
