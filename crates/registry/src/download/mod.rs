// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Getting a large blob into a file: in parts, several at once, and from where it was left.
//!
//! Beside the file `image.partial` lies `image.parts`, which has one letter for each part.
//! After a kill both are there and the parts that are missing are got. After a crash of the
//! machine a part may be marked that never came to the disk: the sum of the whole tells, and
//! then everything is got once more.
//!
//! Where images are here that have much in common with the one that is wanted, the parts are
//! what they do not have; the rest is copied before the first request.
//!
//! The sum is made while the parts come, by the thread that has called; the others write.
//! Nothing of the size of the blob is ever in memory.

mod parts;
mod space;
mod target;

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use cabane_label::Digest;
use sha2::{Digest as _, Sha256};
use ureq::http::header::RANGE;
use ureq::http::{Method, Uri};

pub(crate) use self::parts::Blob;
use self::parts::{Part, RUN};
pub(crate) use self::space::Space;
use self::target::{PARTIAL, PARTS, Target};
use crate::chunks::{Known, SMALLEST_IMAGE};
use crate::document::OciDigest;
use crate::http::{Answer, Request, Scope};
use crate::retry_policy::Retries;
use crate::sum::Progress;
use crate::{ContainerName, Error, ErrorKind, Registry, RemoteImage, Result};

const BUFFER: usize = 256 * 1024;
/// How often progress is reported.
const BEAT: Duration = Duration::from_millis(100);

/// An image that was got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The file, which has the digest of the image. It is not yet on disk for sure.
    pub path: PathBuf,
    /// How many bytes came from images that are here.
    pub reused: u64,
}

impl Registry {
    /// Gets an image into a directory, as `image.partial`.
    ///
    /// What an attempt that was cut off has left in the directory is used, and so are the
    /// images in `bases`, as far as they have the same content. The bytes are summed: what is
    /// returned has the digest of the image.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WrongContent`] if the registry sends something else, also on a second
    /// attempt; then nothing is kept. After other errors what came so far stays.
    pub fn fetch_image(
        &self,
        image: &RemoteImage,
        directory: &Path,
        bases: &[PathBuf],
        progress: &mut Progress<'_>,
    ) -> Result<Fetched> {
        let name = image.place.to_string();
        let space = Space::of(directory)?;
        let digest = OciDigest(image.digest.clone());
        space.check(&name, &digest, image.size)?;
        let whole = Blob::new(&image.repository, digest, image.size);
        let delta =
            if Target::is_begun(directory, &whole) { None } else { self.known_parts(image, bases) };
        self.fetch(&whole, delta, directory, bases, progress)
    }

    /// Returns how many bytes of an image are in none of the images in `bases`: so many are downloaded
    /// beside them. Those images are read for that.
    pub fn missing_bytes(&self, image: &RemoteImage, bases: &[PathBuf]) -> u64 {
        let known = self.known_parts(image, bases).unwrap_or_default();
        let reused: u64 = known.iter().map(|piece| piece.length).sum();
        image.size.saturating_sub(reused)
    }

    /// Returns which parts of an image are in none of some images of other registries, by the lists of
    /// chunks that are attached: where each begins, and how long it is, in bytes. `None` if a list is
    /// missing, or an image was cut in another way.
    pub fn missing_parts(
        &self,
        image: &RemoteImage,
        bases: &[(&Self, &RemoteImage)],
    ) -> Option<Vec<(u64, u64)>> {
        if image.size < SMALLEST_IMAGE {
            return None;
        }
        let list = self.chunks_of(image).ok()??;
        let of_base = |(registry, base): &(&Self, &RemoteImage)| registry.chunks_of(base).ok()?;
        let lists: Vec<_> = bases.iter().map(of_base).collect::<Option<_>>()?;
        if lists.is_empty() || !lists.iter().all(|base| list.is_cut_like(base)) {
            return None;
        }
        let whole = Blob::new(&image.repository, OciDigest(image.digest.clone()), image.size);
        Some(whole.without(list.known_in(&lists)).parts)
    }

    /// Fails if a directory has no space for all layers of a container image, whose sizes are
    /// what the registry says. Layers that are there in part are counted as missing.
    ///
    /// # Errors
    ///
    /// A layer is larger than any that is downloaded, or there is no space for all of them.
    pub fn check_space(
        &self,
        name: &ContainerName,
        layers: &[(Digest, u64)],
        directory: &Path,
    ) -> Result<()> {
        let name = name.to_string();
        let space = Space::of(directory)?;
        for (digest, size) in layers {
            space.check(&name, &OciDigest(digest.clone()), *size)?;
        }
        Ok(space.check_all(&name, layers)?)
    }

    pub(crate) fn fetch(
        &self,
        whole: &Blob<'_>,
        delta: Option<Vec<Known>>,
        directory: &Path,
        bases: &[PathBuf],
        progress: &mut Progress<'_>,
    ) -> Result<Fetched> {
        let mut blob = delta.map_or(whole.clone(), |known| whole.without(known));
        let path = directory.join(PARTIAL);
        let mut found = String::new();
        for _ in 0..2 {
            let target = match Target::open(directory, &blob, bases) {
                // What was here a moment ago need not be here any more.
                Err(error) if error.kind == ErrorKind::File && !blob.known.is_empty() => {
                    blob = whole.clone();
                    Target::open(directory, &blob, &[])?
                }
                outcome => outcome?,
            };
            let is_fresh = target.parts().there == 0 && blob.known.is_empty();
            let digest = self.fill(&blob, &target, progress)?;
            if digest == blob.digest {
                fs::remove_file(directory.join(PARTS)).map_err(Error::io("remove", directory))?;
                let reused = blob.known.iter().map(|piece| piece.length).sum();
                return Ok(Fetched { path, reused });
            }
            drop(target);
            for name in [PARTIAL, PARTS] {
                let path = directory.join(name);
                fs::remove_file(&path).map_err(Error::io("remove", &path))?;
            }
            found = digest.to_string();
            // Who began at the beginning gets the same again.
            if is_fresh {
                break;
            }
            blob = whole.clone();
        }
        Err(self.wrong(&blob.digest, &found))
    }

    /// Finds out what of an image is in files here. Whatever goes wrong with that is no
    /// reason not to get the whole.
    fn known_parts(&self, image: &RemoteImage, bases: &[PathBuf]) -> Option<Vec<Known>> {
        if bases.is_empty() || image.size < SMALLEST_IMAGE {
            return None;
        }
        let list = self.chunks_of(image).ok()??;
        let lists: Result<Vec<_>, _> = bases.iter().map(|base| list.of_base(base)).collect();
        let known = list.known_in(&lists.ok()?);
        (!known.is_empty()).then_some(known)
    }

    /// Gets the parts that are missing, and returns the sum of all.
    fn fill(
        &self,
        blob: &Blob<'_>,
        target: &Target,
        progress: &mut Progress<'_>,
    ) -> Result<OciDigest> {
        let missing = target.parts().missing();
        let streams = self.streams.min(missing.div_ceil(RUN)).max(1);
        let shared = &Shared {
            registry: self,
            blob,
            target,
            stop: AtomicBool::new(false),
            streams_all: AtomicBool::new(false),
            failure: Mutex::new(None),
            arrived: AtomicU64::new(0),
        };
        thread::scope(|scope| {
            if missing > 0 {
                for _ in 0..streams {
                    scope.spawn(move || shared.work());
                }
            }
            let sum = shared.sum(progress);
            shared.stop.store(true, Ordering::Relaxed);
            match (lock(&shared.failure).take(), sum) {
                (Some(failure), _) => Err(failure),
                (None, sum) => sum,
            }
        })
    }
}

/// What the threads of one download share.
struct Shared<'a> {
    registry: &'a Registry,
    blob: &'a Blob<'a>,
    target: &'a Target,
    stop: AtomicBool,
    /// That the registry sends everything, whatever is requested, and someone reads it.
    streams_all: AtomicBool,
    failure: Mutex<Option<Error>>,
    /// Bytes that came and are in no complete part yet.
    arrived: AtomicU64,
}

/// How a request ended that did not fail.
enum Outcome {
    Done,
    /// It was cut off; so many bytes had come.
    Cut(Error),
}

impl Shared<'_> {
    /// Sums the image in its order, as the parts come.
    fn sum(&self, progress: &mut Progress<'_>) -> Result<OciDigest> {
        let mut sum = Sha256::new();
        let mut place = 0;
        for index in 0..self.blob.parts.len() {
            let (start, length) = self.blob.part(index);
            self.sum_range(&mut sum, place, start)?;
            self.wait_for(index, progress)?;
            place = start + length;
            self.sum_range(&mut sum, start, place)?;
        }
        self.sum_range(&mut sum, place, self.blob.size)?;
        progress(self.blob.size, self.blob.size);
        Ok(OciDigest(Digest::from_bytes(sum.finalize().into())))
    }

    fn sum_range(&self, sum: &mut Sha256, start: u64, end: u64) -> Result<()> {
        let mut buffer = vec![0; BUFFER];
        let mut place = start;
        while place < end {
            let most = usize::try_from(end - place).map_or(BUFFER, |left| left.min(BUFFER));
            let chunk = buffer.get_mut(..most).unwrap_or_default();
            let read = self.target.file.read_exact_at(chunk, place);
            read.map_err(Error::io("read", &self.target.path))?;
            sum.update(&*chunk);
            place += most as u64;
        }
        Ok(())
    }

    /// Waits until a part is there, and tells how much is.
    fn wait_for(&self, index: usize, progress: &mut Progress<'_>) -> Result<()> {
        let mut parts = self.target.parts();
        loop {
            let begun = self.arrived.load(Ordering::Relaxed);
            let there = parts.bytes.saturating_add(begun);
            progress(there.min(self.blob.size), self.blob.size);
            if parts.all.get(index) == Some(&Part::There) {
                return Ok(());
            }
            if let Some(failure) = lock(&self.failure).take() {
                return Err(failure);
            }
            let waited = self.target.changed.wait_timeout(parts, BEAT);
            parts = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Gets parts until none is missing.
    fn work(&self) {
        let mut retries = Retries::new(self.registry.client.retry_policy);
        while !self.is_over() {
            let Some(run) = self.target.parts().take(self.blob, self.registry.streams) else {
                return;
            };
            let before = self.target.parts().there;
            let outcome = self.get(run.clone());
            self.target.give_back(run);
            let error = match outcome {
                Ok(Outcome::Done) => {
                    retries.progress();
                    continue;
                }
                Ok(Outcome::Cut(error)) => {
                    if self.target.parts().there > before {
                        retries.progress();
                    }
                    if retries.wait(None) {
                        continue;
                    }
                    error
                }
                Err(error) => error,
            };
            if !self.is_over() {
                lock(&self.failure).get_or_insert(error);
            }
            self.stop.store(true, Ordering::Relaxed);
            self.target.changed.notify_all();
        }
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.streams_all.load(Ordering::Relaxed)
    }

    /// Asks for some parts in a row, and writes what comes.
    fn get(&self, run: std::ops::Range<usize>) -> Result<Outcome> {
        let client = &self.registry.client;
        let repository = self.blob.repository;
        let (start, _) = self.blob.part(run.start);
        let end = self.blob.end_of(run.end.saturating_sub(1));
        let uri = client.uri(&format!("{repository}/blobs/{}", self.blob.digest))?;
        let mut request = Request::new(Method::GET, uri, Scope::pull(repository));
        request.is_content = true;
        let is_all = start == 0 && end == self.blob.size;
        if !is_all {
            request = request.header(RANGE, format!("bytes={start}-{}", end - 1));
        }
        let answer = client.send(&request)?;
        match answer.status.as_u16() {
            200 if is_all => self.write(answer, 0, end, run),
            200 => self.take_all(answer),
            206 => {
                let (first, total) = content_range(&answer).unwrap_or((start, self.blob.size));
                if first != start || total != self.blob.size {
                    let found = format!("bytes from {first} of {total}");
                    return Err(self.registry.wrong(&self.blob.digest, &found));
                }
                self.write(answer, start, end, run)
            }
            404 => Err(self.registry.wrong(&self.blob.digest, "nothing")),
            _ => Err(client.refused(answer, &format!("read {repository}"))),
        }
    }

    /// Reads everything from a registry that knows no ranges, unless another thread does.
    fn take_all(&self, answer: Answer) -> Result<Outcome> {
        if self.streams_all.swap(true, Ordering::SeqCst) {
            return Ok(Outcome::Done);
        }
        let all = 0..self.blob.parts.len();
        let outcome = self.write(answer, 0, self.blob.size, all);
        self.streams_all.store(false, Ordering::SeqCst);
        outcome
    }

    /// Writes a body, which is the image from `start` to `end`, to its place, and marks the
    /// parts of a run that are complete.
    fn write(
        &self,
        mut answer: Answer,
        start: u64,
        end: u64,
        run: std::ops::Range<usize>,
    ) -> Result<Outcome> {
        if let Some(announced) = answer.length().filter(|announced| *announced != end - start) {
            let found = format!("{announced} bytes where there should be {}", end - start);
            return Err(self.registry.wrong(&self.blob.digest, &found));
        }
        let mut reader = answer.body.as_reader().take(end - start);
        let mut buffer = vec![0; BUFFER];
        let mut place = start;
        let mut pending = Pending::new(&self.arrived);
        for index in run {
            let part_end = self.blob.end_of(index);
            while place < part_end {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(Outcome::Done);
                }
                let left = usize::try_from(part_end - place).unwrap_or(usize::MAX);
                let most = left.min(buffer.len());
                let count = match reader.read(buffer.get_mut(..most).unwrap_or_default()) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Ok(0) => return self.cut(&answer.uri, io::ErrorKind::UnexpectedEof.into()),
                    Err(error) => return self.cut(&answer.uri, error),
                    Ok(count) => count,
                };
                let bytes = buffer.get(..count).unwrap_or_default();
                let written = self.target.file.write_all_at(bytes, place);
                written.map_err(|error| self.not_written(error))?;
                place += count as u64;
                pending.add(count as u64);
            }
            pending.clear();
            self.target.mark(index, self.blob.part(index).1)?;
        }
        Ok(Outcome::Done)
    }

    fn cut(&self, uri: &Uri, error: io::Error) -> Result<Outcome> {
        let error = self.registry.client.failed_reading(uri, error);
        Ok(Outcome::Cut(error))
    }

    fn not_written(&self, error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Error::no_space(&self.target.path, self.blob.size)
            }
            _ => Error::io("write", &self.target.path)(error),
        }
    }
}

/// Bytes that came and are in no complete part yet, of one thread.
struct Pending<'a> {
    all: &'a AtomicU64,
    own: u64,
}

impl<'a> Pending<'a> {
    fn new(all: &'a AtomicU64) -> Self {
        Self { all, own: 0 }
    }

    fn add(&mut self, count: u64) {
        self.own += count;
        self.all.fetch_add(count, Ordering::Relaxed);
    }

    fn clear(&mut self) {
        self.all.fetch_sub(self.own, Ordering::Relaxed);
        self.own = 0;
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that failed has left a list of parts, which is right at any moment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads `Content-Range: bytes 0-99/1000`: where it begins, and how long the whole is.
fn content_range(answer: &Answer) -> Option<(u64, u64)> {
    let text = answer.header("content-range")?.strip_prefix("bytes ")?;
    let (range, total) = text.split_once('/')?;
    let (first, _) = range.split_once('-')?;
    Some((first.trim().parse().ok()?, total.trim().parse().ok()?))
}
