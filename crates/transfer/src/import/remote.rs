// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Container images in registries: what is got before anything is made of one.

use std::fs::{self, File};
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use cabane_container::{Blobs, Bytes, Chosen, Descriptor, Manifest, Platform, choose};
use cabane_label::{Digest, escape};
use cabane_registry::{ContainerName, Registry, each_of};
use cabane_report::{IoContext, Result, Transfer};
use cabane_site::Context;

use crate::import::place::check_interrupt;

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
                cabane_container::Error::document("a manifest", &text)
            })
        };
        let chosen = choose(bytes, platform, &mut get);
        if let Some(failure) = failure {
            return Err(failure.into());
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
        layers.sort_by_key(|layer| layer.digest.as_str());
        layers.dedup_by_key(|layer| &layer.digest);
        // The largest first: the last one shall not be waited for alone.
        layers.sort_by_key(|layer| std::cmp::Reverse(layer.size));
        let missing = layers.iter().filter(|layer| !is_whole(place, layer));
        let sizes: Vec<_> = missing.map(|layer| (layer.digest.clone(), layer.size)).collect();
        self.registry.check_space(&self.name, &sizes, place)?;
        let watched = context.transfer(&format!("getting {}", escape(&self.name.to_string())));
        let all = Fetching {
            remote: self,
            place,
            interrupt,
            done: layers.iter().map(|_| AtomicU64::new(0)).collect(),
            total: layers.iter().fold(0, |sum, layer| sum.saturating_add(layer.size)),
            watched: Mutex::new(watched),
        };
        let layers: Vec<_> = layers.into_iter().zip(&all.done).collect();
        let got = each_of(STREAMS, &layers, |(layer, done)| all.get(layer, done));
        all.show(|watched| watched.end());
        got?;
        let _ = self.place.set(place.to_owned());
        Ok(())
    }
}

/// Returns the path of a layer's file, which exists once the layer is downloaded.
pub(crate) fn layer_in(place: &Path, layer: &Descriptor) -> PathBuf {
    place.join(layer.digest.as_str()).join(WHOLE)
}

/// Whether a layer is downloaded completely.
fn is_whole(place: &Path, layer: &Descriptor) -> bool {
    fs::metadata(layer_in(place, layer)).is_ok_and(|found| found.len() == layer.size)
}

struct Fetching<'a> {
    remote: &'a Remote,
    place: &'a Path,
    interrupt: &'a AtomicBool,
    /// How much of each layer is there.
    done: Vec<AtomicU64>,
    total: u64,
    watched: Mutex<Box<dyn Transfer>>,
}

impl Fetching<'_> {
    fn get(&self, layer: &Descriptor, done: &AtomicU64) -> Result<()> {
        check_interrupt(self.interrupt)?;
        if is_whole(self.place, layer) {
            self.tell(done, layer.size);
            return Ok(());
        }
        let directory = self.place.join(layer.digest.as_str());
        fs::create_dir_all(&directory).or_failed(|| format!("make {}", directory.display()))?;
        let Remote { registry, name, .. } = self.remote;
        let mut progress = |now, _| self.tell(done, now);
        let got =
            registry.container_blob(name, &layer.digest, layer.size, &directory, &mut progress)?;
        fs::rename(&got, directory.join(WHOLE)).or_failed(|| format!("move {}", got.display()))
    }

    fn tell(&self, done: &AtomicU64, now: u64) {
        done.store(now, Ordering::Relaxed);
        let sum = self.done.iter().map(|done| done.load(Ordering::Relaxed)).sum();
        self.show(|watched| watched.show(sum, self.total));
    }

    fn show(&self, show: impl FnOnce(&dyn Transfer)) {
        if let Ok(watched) = self.watched.lock() {
            show(watched.as_ref());
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
