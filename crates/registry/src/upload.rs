// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Putting blobs into a registry, the large ones from where it was left.
//!
//! A large blob goes up in one request, or in several where something in front of the registry
//! limits their size. When a connection is cut the registry reports how much it has. Where
//! an upload takes place is kept in a file, so that another process can go on after a kill.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::slice::Chunks;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use cabane_label::shown;
use cabane_report::{Kind, Report};
use ureq::http::header::{CONTENT_RANGE, CONTENT_TYPE};
use ureq::http::{Method, Uri};

use crate::document::OciDigest;
use crate::files::write_at_once;
use crate::http::url::{follow, with_parameter};
use crate::http::{Answer, Body, FilePart, Request, Scope};
use crate::retry_policy::Retries;
use crate::sum::Progress;
use crate::{Error, ErrorKind, Registry, Result};

/// The largest part that is tried.
const LARGEST: u64 = 64 * 1024 * 1024 * 1024;
/// What every front end lets through.
const SMALLEST: u64 = 1024 * 1024;
/// The first size that is tried when a front end has refused a larger one.
const MODERATE: u64 = 64 * 1024 * 1024;
/// How often progress is reported.
const BEAT: Duration = Duration::from_millis(100);
const OCTETS: &str = "application/octet-stream";

/// A large file that goes into a registry.
#[derive(Clone, Debug)]
pub(crate) struct FileBlob<'a> {
    pub(crate) path: &'a Path,
    pub(crate) digest: OciDigest,
    pub(crate) size: u64,
    /// Where it is kept which uploads have begun.
    pub(crate) notes: Option<&'a Path>,
}

impl Registry {
    /// Puts a small blob, unless it is there.
    pub(crate) fn put_small_blob(&self, repository: &str, bytes: &[u8]) -> Result<()> {
        let digest = OciDigest::of(bytes);
        if self.has_blob(repository, &digest)? {
            return Ok(());
        }
        let mut retries = Retries::new(self.client.retry_policy);
        let mut piece = usize::MAX;
        loop {
            let Some(place) = self.begin_upload(repository, None)? else {
                return Ok(());
            };
            let Err(error) = self.put_pieces(repository, place, &digest, bytes.chunks(piece))
            else {
                return Ok(());
            };
            let smallest = usize::try_from(SMALLEST).unwrap_or(usize::MAX);
            if error.kind == ErrorKind::Status(413) && bytes.len().min(piece) > smallest {
                piece = smallest;
                continue;
            }
            let may_pass = error.is_busy() || self.client.may_pass(&error);
            if !may_pass || !retries.wait(error.retry_after) {
                return Err(error);
            }
        }
    }

    /// Puts a blob in one request, or in one for each piece if there are several.
    fn put_pieces(
        &self,
        repository: &str,
        mut place: Uri,
        digest: &OciDigest,
        pieces: Chunks<'_, u8>,
    ) -> Result<()> {
        if pieces.len() < 2 {
            let all = pieces.flatten().copied().collect();
            return self.commit(repository, &place, digest, Body::Bytes(all));
        }
        let mut offset = 0;
        for piece in pieces {
            let mut request = Request::new(Method::PATCH, place, Scope::push(repository))
                .header(CONTENT_TYPE, OCTETS)
                .header(CONTENT_RANGE, format!("{offset}-{}", offset + piece.len() - 1));
            request.body = Body::Bytes(piece.to_vec());
            let answer = self.client.send_once(&request)?;
            if !answer.status.is_success() {
                return Err(self.client.refused(answer, &format!("write {repository}")));
            }
            place = self.location(&answer)?;
            offset += piece.len();
        }
        self.commit(repository, &place, digest, Body::None)
    }

    /// Lets a repository have a blob that another has, without moving it; `false` where the
    /// registry cannot do that.
    pub(crate) fn mount_blob(
        &self,
        repository: &str,
        from: &str,
        digest: &OciDigest,
    ) -> Result<bool> {
        let begun = self.begin_upload(repository, Some((from, digest)))?;
        let is_mounted = begun.is_none();
        if let Some(place) = begun {
            // This upload will not go on. The registry would find out by itself.
            let request = Request::new(Method::DELETE, place, Scope::push(repository));
            let _ = self.client.send_once(&request);
        }
        Ok(is_mounted)
    }

    /// Puts a large blob, unless it is there; returns whether anything was sent.
    pub(crate) fn put_file(
        &self,
        repository: &str,
        blob: &FileBlob<'_>,
        progress: &mut Progress<'_>,
    ) -> Result<bool> {
        if self.has_blob(repository, &blob.digest)? {
            progress(blob.size, blob.size);
            return Ok(false);
        }
        let file = File::open(blob.path).map_err(Error::io("read", blob.path))?;
        let note = Note::new(self, repository, blob);
        let mut upload = Upload {
            registry: self,
            repository,
            blob,
            file: Arc::new(file),
            place: None,
            offset: 0,
            largest: LARGEST,
            note,
        };
        upload.execute(progress)?;
        upload.note.forget();
        Ok(true)
    }

    /// Returns where the content goes; `None` if the registry takes it from elsewhere.
    fn begin_upload(
        &self,
        repository: &str,
        mount: Option<(&str, &OciDigest)>,
    ) -> Result<Option<Uri>> {
        let mut uri = self.client.uri(&format!("{repository}/blobs/uploads/"))?;
        let mut scope = Scope::push(repository);
        if let Some((from, digest)) = mount {
            for (name, value) in [("mount", digest.to_string()), ("from", from.to_owned())] {
                uri = with_parameter(&uri, name, &value)
                    .ok_or_else(|| self.client.odd("no address"))?;
            }
            scope = scope.and(Scope::pull(from));
        }
        let answer = self.client.send(&Request::new(Method::POST, uri, scope))?;
        match answer.status.as_u16() {
            201 if mount.is_some() => Ok(None),
            202 => self.location(&answer).map(Some),
            _ => Err(self.client.refused(answer, &format!("write {repository}"))),
        }
    }

    fn location(&self, answer: &Answer) -> Result<Uri> {
        let location = answer.header("location");
        let location = location.and_then(|location| follow(&answer.uri, location));
        location.ok_or_else(|| self.client.odd("it does not say where an upload goes"))
    }

    /// Completes an upload with what is left of it.
    fn commit(&self, repository: &str, place: &Uri, digest: &OciDigest, body: Body) -> Result<()> {
        let uri = with_parameter(place, "digest", &digest.to_string());
        let uri = uri.ok_or_else(|| self.client.odd("it does not say where an upload goes"))?;
        let mut request =
            Request::new(Method::PUT, uri, Scope::push(repository)).header(CONTENT_TYPE, OCTETS);
        request.body = body;
        request.thinking = Some(self.client.retry_policy.thinking);
        let answer = self.client.send_once(&request)?;
        if answer.status.is_success() {
            return Ok(());
        }
        Err(self.client.refused(answer, &format!("write {repository}")))
    }
}

/// One upload under way.
struct Upload<'a> {
    registry: &'a Registry,
    repository: &'a str,
    blob: &'a FileBlob<'a>,
    file: Arc<File>,
    /// Where the next part goes.
    place: Option<Uri>,
    /// How much the registry has.
    offset: u64,
    /// The largest part that is let through.
    largest: u64,
    note: Note,
}

impl Upload<'_> {
    fn execute(&mut self, progress: &mut Progress<'_>) -> Result<()> {
        let client = &self.registry.client;
        let mut retries = Retries::new(client.retry_policy);
        if let Some(place) = self.note.read() {
            self.look(&place)?;
        }
        loop {
            let before = self.offset;
            let outcome = self.step(progress);
            if self.offset > before {
                retries.progress();
            }
            let error = match outcome {
                Ok(Step::Complete) => return Ok(()),
                Ok(Step::Sent) => continue,
                Ok(Step::Refused(answer)) => match self.refused(*answer)? {
                    Some(error) => error,
                    None => continue,
                },
                Err(error) => {
                    if !client.may_pass(&error) && !error.is_busy() {
                        return Err(error);
                    }
                    // A front end may cut off what is too large instead of saying so.
                    if self.offset == before && !error.is_busy() {
                        self.send_less();
                    }
                    error
                }
            };
            if !retries.wait(error.retry_after) {
                return Err(error);
            }
            if let Some(place) = self.place.clone() {
                self.look(&place)?;
            }
        }
    }

    /// Deals with an answer that is no success; returns the error if the same may succeed after a pause.
    fn refused(&mut self, answer: Answer) -> Result<Option<Error>> {
        let (status, is_passing) = (answer.status.as_u16(), answer.is_passing());
        let action = format!("write {}", self.repository);
        let error = self.registry.client.refused(answer, &action);
        match status {
            _ if is_passing => Ok(Some(error)),
            // Too large for a front end: what is in it is not lost.
            413 if self.next_length() > SMALLEST => {
                self.send_less();
                let place = self.place.clone();
                place.map_or(Ok(()), |place| self.look(&place))?;
                Ok(None)
            }
            // The upload is not as far as we thought, or is gone.
            status @ (404 | 416) if status == 416 || self.offset > 0 => {
                self.begin_anew();
                Ok(Some(error))
            }
            _ => Err(error),
        }
    }

    /// Returns how much the next request sends.
    fn next_length(&self) -> u64 {
        self.largest.min(self.blob.size - self.offset)
    }

    fn send_less(&mut self) {
        // At the end nothing is sent that could be less.
        if let length @ 1.. = self.next_length() {
            self.largest = (length / 4).clamp(SMALLEST, MODERATE);
        }
    }

    /// Sends the next part, and completes the upload when it was the last.
    fn step(&mut self, progress: &mut Progress<'_>) -> Result<Step> {
        let place = match self.place.clone() {
            Some(place) => place,
            None => match self.registry.begin_upload(self.repository, None)? {
                Some(place) => self.arrive(place),
                None => return Ok(Step::Complete),
            },
        };
        let length = self.next_length();
        if length == 0 {
            return self.complete(&place);
        }
        let end = self.offset + length - 1;
        let sent = Arc::new(AtomicU64::new(0));
        let mut request = Request::new(Method::PATCH, place, Scope::push(self.repository))
            .header(CONTENT_TYPE, OCTETS)
            .header(CONTENT_RANGE, format!("{}-{end}", self.offset));
        request.body = Body::Part(FilePart {
            file: Arc::clone(&self.file),
            offset: self.offset,
            length,
            sent: Arc::clone(&sent),
        });
        let answer = self.watched(&request, &sent, progress)?;
        if !answer.status.is_success() {
            return Ok(Step::Refused(Box::new(answer)));
        }
        let place = self.registry.location(&answer)?;
        self.arrive(place);
        // The registry may have taken less, and says so.
        self.offset = match received(&answer) {
            Some(count) if end > 0 => count.min(self.blob.size),
            _ => end + 1,
        };
        Ok(Step::Sent)
    }

    /// Sends a request while another thread tells how far it is.
    fn watched(
        &self,
        request: &Request,
        sent: &AtomicU64,
        progress: &mut Progress<'_>,
    ) -> Result<Answer> {
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            let watcher = thread::current();
            let is_done = &is_done;
            let sending = scope.spawn(move || {
                let outcome = self.registry.client.send_once(request);
                is_done.store(true, Ordering::Release);
                watcher.unpark();
                outcome
            });
            while !is_done.load(Ordering::Acquire) {
                let now = self.offset + sent.load(Ordering::Relaxed);
                progress(now.min(self.blob.size), self.blob.size);
                thread::park_timeout(BEAT);
            }
            let outcome = sending.join();
            outcome.unwrap_or_else(|_| Err(self.registry.client.odd("the upload has failed")))
        })
    }

    fn complete(&mut self, place: &Uri) -> Result<Step> {
        let digest = &self.blob.digest;
        let outcome = self.registry.commit(self.repository, place, digest, Body::None);
        match outcome {
            Ok(()) => Ok(Step::Complete),
            // The answer may have been lost, and not the blob.
            Err(_) if self.registry.has_blob(self.repository, digest).unwrap_or(false) => {
                Ok(Step::Complete)
            }
            // What was sent is not what was summed: the file is another now.
            Err(error) if error.kind == ErrorKind::Status(400) && self.has_changed()? => {
                let message = format!("{} has changed while it was pushed", shown(self.blob.path));
                Err(Report::new(Kind::Failure, message)
                    .hinted("try the same command again".to_owned())
                    .into())
            }
            Err(error) => Err(error),
        }
    }

    fn has_changed(&self) -> Result<bool> {
        Ok(crate::sum::file(self.blob.path, &mut |_, _| ())? != self.blob.digest.0)
    }

    fn arrive(&mut self, place: Uri) -> Uri {
        self.note.write(&place);
        self.place = Some(place.clone());
        place
    }

    /// Asks how much the registry has of an upload.
    fn look(&mut self, place: &Uri) -> Result<()> {
        let request = Request::new(Method::GET, place.clone(), Scope::push(self.repository));
        let answer = self.registry.client.send(&request)?;
        if answer.status == 204 || answer.status == 202 {
            let offset = received(&answer).unwrap_or(0);
            if offset <= self.blob.size {
                let place = self.registry.location(&answer).unwrap_or_else(|_| place.clone());
                self.arrive(place);
                self.offset = offset;
                return Ok(());
            }
        }
        self.begin_anew();
        Ok(())
    }

    fn begin_anew(&mut self) {
        self.place = None;
        self.offset = 0;
        self.note.forget();
    }
}

enum Step {
    Sent,
    Complete,
    Refused(Box<Answer>),
}

/// Reads `Range: 0-99`: how many bytes the registry has.
///
/// `0-0` means nothing, as registries write it, and for one byte, which no one sends
/// alone.
fn received(answer: &Answer) -> Option<u64> {
    let text = answer.header("range")?;
    let text = text.strip_prefix("bytes=").unwrap_or(text);
    let last: u64 = text.split_once('-')?.1.trim().parse().ok()?;
    Some(if last == 0 { 0 } else { last + 1 })
}

/// A file that says where an upload takes place, for one process at a time.
struct Note(Option<(PathBuf, File)>);

impl Note {
    fn new(registry: &Registry, repository: &str, blob: &FileBlob<'_>) -> Self {
        let what = format!("{} {repository} {}", registry.address(), blob.digest);
        let name = OciDigest::of(what.as_bytes()).0;
        let path = blob.notes.map(|notes| notes.join(format!("{}.upload", name.id())));
        Self(path.and_then(|path| Some((path.clone(), lock(&path)?))))
    }

    fn read(&self) -> Option<Uri> {
        let (path, _) = self.0.as_ref()?;
        fs::read_to_string(path).ok()?.trim().parse().ok()
    }

    /// Without a note an upload that is killed begins anew; that is no reason to fail.
    fn write(&self, place: &Uri) {
        if let Some((path, _)) = &self.0 {
            // What a registry calls a place may be all that is needed to write there: the file
            // is readable by its owner only.
            let _ = write_at_once(path, place.to_string().as_bytes());
        }
    }

    fn forget(&self) {
        if let Some((path, _)) = &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}

/// Takes the lock of a note; two processes in one upload would spoil it.
fn lock(path: &Path) -> Option<File> {
    fs::create_dir_all(path.parent()?).ok()?;
    let mut options = File::options();
    let lock = options.append(true).create(true).open(path.with_extension("lock"));
    let lock = lock.ok()?;
    lock.try_lock().ok()?;
    Some(lock)
}
