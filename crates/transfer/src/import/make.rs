// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What was found becomes an image of the repository: made once, however many want it.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use cabane_container::{
    CONVERTER, ContainerImage, Converted, ImportRecord, MAX_UNPACKED, Platform, Request,
    check_program, convert,
};
use cabane_label::{Digest, escape};
use cabane_process::Scratch;
use cabane_registry::sum;
use cabane_report::{IoContext, Kind, Result, Transfer};
use cabane_repository::{Added, Incoming, Repository, VerifiedRequest};
use cabane_site::settings::processors;
use cabane_view::ContainerSource;

use crate::import::place::{NEW, check_interrupt, find_or_make, key_of, program, sweep};
use crate::import::{Import, Imported, close, restrict};

/// What is known of an image before anything is made of it.
pub(crate) struct Wanted {
    /// Names the place where it is made: two imports of the same take the same.
    pub(crate) key: Digest,
    pub(crate) manifest: Option<Digest>,
    /// What names the content of its layers, and not how they are compressed.
    pub(crate) configuration: Option<Digest>,
    pub(crate) platform: Platform,
    /// Whether what came for it is of use to the next attempt.
    pub(crate) is_kept: bool,
    /// How many layers there are, and how many bytes, where that is known.
    pub(crate) layers: usize,
    pub(crate) bytes: u64,
}

impl Wanted {
    pub(crate) fn new(identity: &str, image: &ContainerImage<'_>, is_kept: bool) -> Self {
        Self {
            key: key_of(identity, &image.platform),
            manifest: image.manifest.clone(),
            configuration: image.configuration.clone(),
            platform: image.platform.clone(),
            is_kept,
            layers: image.layers.len(),
            bytes: image.layers.iter().filter_map(|layer| layer.size).fold(0, u64::saturating_add),
        }
    }
}

/// Brings what an image is made of to the place where it is made.
pub(crate) type Bring<'a, 'i> = dyn Fn(&Path) -> Result<ContainerImage<'i>> + 'a;

impl Import<'_> {
    /// How many bytes the image may unpack to.
    pub(crate) fn max_unpacked(&self) -> u64 {
        self.request.max_unpacked.unwrap_or(MAX_UNPACKED)
    }

    /// Makes the image, unless it is there or someone else makes it, and gives it its label.
    pub(crate) fn one(&self, wanted: &Wanted, import: &Bring<'_, '_>) -> Result<Imported> {
        if self.request.dry_run {
            return Ok(Imported::Planned(self.plan(wanted)));
        }
        // Without it nothing comes of it, and no repository is made.
        check_program(&program(self.context, "mksquashfs")?)?;
        let written = self.context.repository_to_write()?;
        let repository = &written.repository;
        let waits = |is_first: bool| {
            if is_first {
                self.context.note("waiting for another import of this image");
            }
            check_interrupt(&self.request.interrupt)
        };
        let make = |incoming| {
            let (added, report) = self.make(repository, wanted, import, incoming)?;
            Ok(Imported::Added(Box::new(added), Some(Box::new(report))))
        };
        let find = || self.find(repository, wanted);
        let imported = find_or_make(repository, &wanted.key, waits, find, make)?;
        if let Imported::Added(added, _) = &imported
            && let Err(error) = repository.keep_reference(&added.record, &self.reference)
        {
            self.context.warning(format_args!(
                "the source of {} cannot be recorded, so `cabane import --check` does not know it",
                added.record.label
            ));
            self.context.detail(&error);
        }
        Ok(imported)
    }

    /// Gives the label to the image that was made of the same before, or says before the work that
    /// the label is taken.
    fn find(&self, repository: &Repository, wanted: &Wanted) -> Result<Option<Imported>> {
        if let Some(digest) = find_made(repository, wanted)? {
            restrict(self.context, repository, &digest, self.access)?;
            match repository.tag(&digest, self.label.clone(), self.request.force) {
                // It was in no one's use, and someone tidied up.
                Err(cabane_repository::Error::NoSuchImage { .. }) => {}
                added => {
                    let added = added.map_err(|error| self.moved(repository, wanted, error))?;
                    return Ok(Some(Imported::Added(Box::new(added), None)));
                }
            }
        }
        match repository.by_label(&self.label)? {
            // Files have no digest by which they are found; another process has imported this one.
            Some(known) if self.is_kept && wanted.manifest.is_none() => {
                let label = self.label.clone();
                let added = repository.tag(&known.digest, label, true)?;
                Ok(Some(Imported::Added(Box::new(added), None)))
            }
            Some(known) if !self.request.force => {
                let (label, digest) = (Box::new(self.label.clone()), known.digest);
                let error = cabane_repository::Error::LabelTaken { label, digest };
                Err(self.moved(repository, wanted, error))
            }
            _ => Ok(None),
        }
    }

    fn make(
        &self,
        repository: &Repository,
        wanted: &Wanted,
        import: &Bring<'_, '_>,
        incoming: Incoming,
    ) -> Result<(Added, ImportRecord)> {
        let access = close(&incoming, self.access)?;
        let alive = incoming.keep_alive();
        sweep(incoming.path())?;
        let new = incoming.path().join(format!("{NEW}{}", std::process::id()));
        let made = import(incoming.path()).and_then(|image| self.convert(&image, &new));
        let converted = match made {
            Ok(converted) => converted,
            Err(error) => {
                drop(alive);
                // What came from a registry is used by the next attempt, unless it is wrong.
                if !wanted.is_kept || error.kind() == Kind::BadInput {
                    let _ = incoming.discard();
                }
                return Err(error);
            }
        };
        let digest = sum::file(&new, &mut |_, _| ())?;
        let target = incoming.image();
        fs::rename(&new, &target).or_failed(|| format!("move {}", new.display()))?;
        let directory = Scratch::new().or_failed(|| "make a temporary directory".to_owned())?;
        let place = directory.path();
        for (name, bytes) in converted.documents() {
            fs::write(place.join(name), bytes)
                .or_failed(|| format!("write to {}", place.display()))?;
        }
        let added = repository.add_verified(VerifiedRequest {
            label: self.label.clone(),
            incoming: incoming.made(&digest),
            digest: &digest,
            meta: place,
            access,
            replace: self.request.force,
        });
        drop(alive);
        Ok((added?, converted.report))
    }

    fn convert(&self, image: &ContainerImage<'_>, output: &Path) -> Result<Converted> {
        let mksquashfs = program(self.context, "mksquashfs")?;
        let jobs = self.request.jobs.or(self.context.settings.jobs.value);
        let request = Request {
            reference: &self.reference,
            working_directory: None,
            packages: None,
            output,
            mksquashfs: &mksquashfs,
            jobs: jobs.unwrap_or_else(processors).max(1),
            max_unpacked: self.max_unpacked(),
        };
        let watched = self.context.transfer(&format!("importing {}", escape(&self.reference)));
        let shown = Shown { watched: Mutex::new(watched), interrupt: &self.request.interrupt };
        let converted = convert(image, &request, &shown);
        if let Ok(watched) = shown.watched.into_inner() {
            watched.end();
        }
        Ok(converted?)
    }
}

/// Finds the image that was made of the same before.
fn find_made(repository: &Repository, wanted: &Wanted) -> Result<Option<Digest>> {
    let written = |digest: &Option<Digest>| digest.as_ref().map(cabane_container::digest::written);
    let manifest = written(&wanted.manifest);
    let configuration = written(&wanted.configuration);
    if manifest.is_none() && configuration.is_none() {
        return Ok(None);
    }
    // Anyone who asks later whether a tag has moved compares manifests.
    let is_one = |source: &ContainerSource| match &manifest {
        Some(_) => source.manifest == manifest,
        None => source.configuration == configuration,
    };
    let platform = wanted.platform.to_string();
    let records = repository.records()?;
    let is_same = |digest: &&Digest| {
        let meta = repository.meta(digest).ok();
        let source = meta.and_then(|meta| meta.container?.source);
        source.is_some_and(|source| is_one(&source) && source.platform == platform)
            && was_made_so(repository, digest)
    };
    let mut digests: Vec<&Digest> = records
        .iter()
        .filter(|record| record.mount.as_ref().is_some_and(|mount| mount.as_str() == "/"))
        .map(|record| &record.digest)
        .collect();
    digests.dedup();
    Ok(digests.into_iter().find(is_same).cloned())
}

/// The version before: its images have the name of their label, and the directory of a file.
const CONVERTER_BEFORE: u32 = 4;

/// Whether an image was made as they are made today, but for its name.
fn was_made_so(repository: &Repository, digest: &Digest) -> bool {
    let path = repository.meta_path(digest).join(ImportRecord::FILE);
    let report = File::open(path).ok();
    let report: Option<ImportRecord> = report.and_then(|file| serde_json::from_reader(file).ok());
    report.is_some_and(|report| {
        [CONVERTER, CONVERTER_BEFORE].contains(&report.converter) && !report.altered
    })
}

/// Shows how it goes on.
struct Shown<'a> {
    watched: Mutex<Box<dyn Transfer>>,
    interrupt: &'a AtomicBool,
}

impl cabane_container::Progress for Shown<'_> {
    fn read(&self, done: u64, of: Option<u64>) {
        if let (Ok(watched), Some(of)) = (self.watched.lock(), of) {
            watched.show(done, of);
        }
    }

    fn go_on(&self) -> bool {
        !self.interrupt.load(Ordering::Relaxed)
    }
}
