// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The requests of the OCI distribution specification, version 1.1, that are needed here.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cabane_label::Digest;
use cabane_report::{Kind, Report};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use ureq::http::header::{ACCEPT, CONTENT_TYPE, IF_NONE_MATCH};
use ureq::http::{Method, Uri};

use crate::address::{Address, Place};
use crate::document::{
    DOCKER_INDEX, DOCKER_MANIFEST, Descriptor, INDEX, Index, MANIFEST, OciDigest, to_bytes,
};
use crate::http::url::follow;
use crate::http::{Answer, Backing, BaseImage, Body, Client, Request, Scope};
use crate::options::Options;
use crate::paged::PagedList;
use crate::{Error, ErrorKind, Result};

/// A manifest or an index is smaller than this; the specification asks registries for 4 MiB.
const MAX_DOCUMENT: u64 = 4 * 1024 * 1024;
/// A list comes in pages, each smaller than this. Debian's registry sends all tags in one page.
const MAX_PAGE: u64 = 32 * 1024 * 1024;
/// How many names of a page are requested.
const PAGE: usize = 1000;

/// A registry, for any number of threads.
#[derive(Debug)]
pub struct Registry {
    pub(crate) client: Client,
    pub(crate) streams: usize,
    /// Where a service lists the images.
    pub(crate) listing_url: Option<String>,
    /// The name of the user, for the log.
    pub(crate) actor: Option<String>,
    /// Where lists are kept for the next time.
    pub(crate) cache: Option<PathBuf>,
    /// The address of the registry from which its content is.
    origin: Option<String>,
}

/// A page of a list, of tags or of repositories. Some registries write `null` for none.
#[derive(Deserialize)]
struct Page {
    tags: Option<Vec<String>>,
    repositories: Option<Vec<String>>,
}

/// A document and its digest.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) bytes: Vec<u8>,
    pub(crate) digest: OciDigest,
}

/// A document, unless it is the one that is known.
#[derive(Clone, Debug)]
pub(crate) enum Changed {
    /// It is the same.
    Not,
    /// There is none.
    Gone,
    To(Document),
}

impl Changed {
    pub(crate) fn document(self) -> Option<Document> {
        match self {
            Self::To(document) => Some(document),
            Self::Gone | Self::Not => None,
        }
    }
}

impl Registry {
    /// Prepares for asking a registry. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// A proxy or certificates that cannot be used.
    pub fn new(address: Address, options: &Options) -> Result<Self> {
        Ok(Self {
            client: Client::new(address, options)?,
            streams: options.streams.max(1),
            listing_url: options.listing_url.clone(),
            actor: options.actor.clone(),
            cache: options.cache.clone(),
            origin: None,
        })
    }

    /// Makes a registry that no server keeps. `shown` is what people call it, and `origin` is the
    /// address of the registry from which its content is, if it is known.
    ///
    /// # Errors
    ///
    /// None that are of the backing.
    pub fn of_backing(
        backing: Arc<dyn Backing>,
        shown: &str,
        origin: Option<String>,
    ) -> Result<Self> {
        let options = Options { streams: 1, ..Options::default() };
        let mut registry = Self::new(Address::of_backing(shown), &options)?;
        registry.client.backing = Some(backing);
        registry.origin = origin;
        Ok(registry)
    }

    /// Returns the address by which a client remembers the registry: of one that no server keeps, that
    /// of the registry from which its content is.
    #[must_use]
    pub fn remembered_as(&self) -> String {
        self.origin.clone().unwrap_or_else(|| self.address().to_string())
    }

    /// Returns the images with which one is complete that is there in part.
    #[must_use]
    pub fn bases_of(&self, digest: &Digest) -> Vec<BaseImage> {
        self.client.backing.as_ref().map(|backing| backing.bases(digest)).unwrap_or_default()
    }

    /// Returns where the registry is.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.client.address
    }

    /// Returns the whole name of the repository of a place.
    pub(crate) fn repository(&self, place: &Place) -> Result<String> {
        Ok(self.address().repository(&place.repository()?))
    }

    /// Gets a manifest or an index by tag or digest; `None` if there is none.
    pub(crate) fn document(&self, repository: &str, reference: &str) -> Result<Option<Document>> {
        Ok(self.document_unless(repository, reference, None)?.document())
    }

    /// Gets a manifest or an index, and reads it; `None` if there is none.
    pub(crate) fn parsed_document<D: DeserializeOwned>(
        &self,
        what: &str,
        repository: &str,
        reference: &str,
    ) -> Result<Option<D>> {
        let document = self.document(repository, reference)?;
        document.map(|document| self.client.parse(what, &document.bytes)).transpose()
    }

    /// Gets a manifest or an index, unless it still has the digest that is known.
    ///
    /// Registries say with the digest, as `ETag`, which one they have.
    pub(crate) fn document_unless(
        &self,
        repository: &str,
        reference: &str,
        known: Option<&OciDigest>,
    ) -> Result<Changed> {
        let uri = self.client.uri(&format!("{repository}/manifests/{reference}"))?;
        let accept = [MANIFEST, INDEX, DOCKER_MANIFEST, DOCKER_INDEX].join(", ");
        let mut request =
            Request::new(Method::GET, uri, Scope::pull(repository)).header(ACCEPT, accept);
        if let Some(known) = known {
            request = request.header(IF_NONE_MATCH, format!("\"{known}\""));
        }
        let answer = self.client.send(&request)?;
        if answer.status == 304 && known.is_some() {
            return Ok(Changed::Not);
        }
        if answer.status == 404 {
            return Ok(Changed::Gone);
        }
        if answer.status != 200 {
            return Err(self.client.refused(answer, &format!("read {repository}")));
        }
        let announced = announced_digest(&answer);
        let bytes = self.client.read("answer", answer, MAX_DOCUMENT)?;
        let digest = OciDigest::of(&bytes);
        let expected = OciDigest::parse(reference).or(announced);
        match expected {
            Some(expected) if expected != digest => Err(self.wrong(&expected, &digest.to_string())),
            _ if known == Some(&digest) => Ok(Changed::Not),
            _ => Ok(Changed::To(Document { bytes, digest })),
        }
    }

    /// Gets the digest of what a tag stands for; `None` if there is none.
    pub(crate) fn digest_of(&self, repository: &str, reference: &str) -> Result<Option<OciDigest>> {
        // Not every registry names the digest by default.
        let found = self.document(repository, reference)?;
        Ok(found.map(|document| document.digest))
    }

    /// Puts a manifest or an index; returns whether the registry noted what it refers to.
    ///
    /// Its blobs were put before. Where another client puts the same ones at this moment, Debian's
    /// registry does not know them for a while: it writes the files that name them anew.
    pub(crate) fn put_document(
        &self,
        repository: &str,
        reference: &str,
        media_type: &str,
        bytes: &[u8],
    ) -> Result<bool> {
        let uri = self.client.uri(&format!("{repository}/manifests/{reference}"))?;
        let mut waits = BLOB_WAITS.iter();
        let answer = loop {
            let mut request = Request::new(Method::PUT, uri.clone(), Scope::push(repository))
                .header(CONTENT_TYPE, media_type);
            request.body = Body::Bytes(bytes.to_vec());
            let answer = self.client.send(&request)?;
            if answer.status.is_success() {
                break answer;
            }
            let refused = self.client.refused(answer, &format!("write {repository}"));
            let is_early = refused.to_string().contains(UNKNOWN_BLOB);
            match waits.next().filter(|_| is_early) {
                Some(wait) => std::thread::sleep(Duration::from_millis(*wait)),
                None => return Err(refused),
            }
        };
        let digest = OciDigest::of(bytes);
        match announced_digest(&answer) {
            Some(other) if other != digest => Err(self.wrong(&digest, &other.to_string())),
            _ => Ok(answer.header("oci-subject").is_some()),
        }
    }

    /// Deletes a manifest by its digest, or a tag where the registry can do that; otherwise
    /// returns what it says.
    pub(crate) fn delete_document(
        &self,
        repository: &str,
        reference: &str,
    ) -> Result<Option<String>> {
        let path = format!("{repository}/manifests/{reference}");
        let answer = self.client.ask(Method::DELETE, &path, Scope::delete(repository))?;
        match answer.status.as_u16() {
            200..=299 | 404 => Ok(None),
            // Debian's registry answers a tag with 400, and everything with 405 when deletion
            // is switched off.
            400 | 405 | 501 => Ok(Some(answer.details())),
            _ => Err(self.client.refused(answer, &format!("delete from {repository}"))),
        }
    }

    /// Returns whether a blob is there.
    pub(crate) fn has_blob(&self, repository: &str, digest: &OciDigest) -> Result<bool> {
        let path = format!("{repository}/blobs/{digest}");
        let answer = self.client.ask(Method::HEAD, &path, Scope::push(repository))?;
        match answer.status.as_u16() {
            200 => Ok(true),
            404 => Ok(false),
            _ => Err(self.client.refused(answer, &format!("read {repository}"))),
        }
    }

    /// Gets a small blob, verified.
    pub(crate) fn small_blob(
        &self,
        repository: &str,
        descriptor: &Descriptor,
        limit: u64,
    ) -> Result<Vec<u8>> {
        let digest = &descriptor.digest;
        if descriptor.size > limit {
            let found = format!("{} bytes, and {limit} are the limit", descriptor.size);
            return Err(self.wrong(digest, &found));
        }
        let path = format!("{repository}/blobs/{digest}");
        let answer = self.client.ask(Method::GET, &path, Scope::pull(repository))?;
        if answer.status != 200 {
            return Err(self.client.refused(answer, &format!("read {repository}")));
        }
        let bytes = self.client.read("answer", answer, descriptor.size)?;
        let found = OciDigest::of(&bytes);
        if found == *digest { Ok(bytes) } else { Err(self.wrong(digest, &found.to_string())) }
    }

    /// Gets a small blob; `None` if the registry has something else, or nothing.
    pub(crate) fn blob_if_good(
        &self,
        repository: &str,
        descriptor: &Descriptor,
        limit: u64,
    ) -> Result<Option<Vec<u8>>> {
        match self.small_blob(repository, descriptor, limit) {
            Err(error) if error.kind == ErrorKind::WrongContent => Ok(None),
            Err(error) if error.kind == ErrorKind::Status(404) => Ok(None),
            outcome => outcome.map(Some),
        }
    }

    /// Lists the tags of a repository; none if there is no such repository.
    pub(crate) fn tags(&self, repository: &str) -> Result<Vec<String>> {
        let path = format!("{repository}/tags/list?n={PAGE}");
        let tags = self.pages(&path, &Scope::pull(repository), &format!("list {repository}"))?;
        Ok(tags.unwrap_or_default())
    }

    /// Lists the repositories of the whole registry; `None` where that is not allowed.
    pub(crate) fn catalog(&self) -> Result<Option<Vec<String>>> {
        let path = format!("_catalog?n={PAGE}");
        let outcome = self.pages(&path, &Scope::catalog(), "list all repositories");
        // It is no part of the specification, and often kept from ordinary users.
        outcome.or_else(|error| match error.kind {
            ErrorKind::Unauthorized | ErrorKind::Forbidden | ErrorKind::Status(400 | 405 | 501) => {
                Ok(None)
            }
            _ => Err(error),
        })
    }

    /// Gets the names in a list page by page; `None` if there is no list.
    fn pages(&self, path: &str, scope: &Scope, action: &str) -> Result<Option<Vec<String>>> {
        let mut next = Some(self.client.uri(path)?);
        let mut listed = PagedList::new(self.client.retry_policy.list);
        while let Some(uri) = next.take() {
            let odd = |reason: String| self.client.odd(&reason);
            listed.open(&uri).map_err(odd)?;
            let request = Request::new(Method::GET, uri, scope.clone());
            let answer = self.client.send(&request)?;
            if answer.status == 404 && listed.is_first() {
                return Ok(None);
            }
            if answer.status != 200 {
                return Err(self.client.refused(answer, action));
            }
            next = next_page(&answer);
            if let Some(other) = next.as_ref().filter(|next| !self.client.is_own(next)) {
                let host = other.authority().map_or("?", |host| host.as_str());
                let reason = format!("its list continues on another host: {host}");
                return Err(self.client.odd(&reason));
            }
            let bytes = self.client.read("answer", answer, MAX_PAGE)?;
            let page: Page = self.client.parse("a list", &bytes)?;
            let names = page.tags.or(page.repositories).unwrap_or_default();
            listed.add(names, next.is_some()).map_err(odd)?;
        }
        Ok(Some(listed.names))
    }

    /// Lists what refers to a manifest, of one kind.
    pub(crate) fn referrers(
        &self,
        repository: &str,
        digest: &OciDigest,
        kind: &str,
    ) -> Result<Vec<Descriptor>> {
        let mut found = self.all_referrers(repository, digest)?;
        found.retain(|found| found.artifact_type.as_deref() == Some(kind));
        Ok(found)
    }

    /// Lists everything that refers to a manifest.
    pub(crate) fn all_referrers(
        &self,
        repository: &str,
        digest: &OciDigest,
    ) -> Result<Vec<Descriptor>> {
        let index = match self.referrers_by_request(repository, digest)? {
            Some(index) => Some(index),
            None => self.referrers_by_tag(repository, digest)?,
        };
        Ok(index.unwrap_or_default().manifests)
    }

    /// `None` where the registry is older than this request.
    fn referrers_by_request(&self, repository: &str, digest: &OciDigest) -> Result<Option<Index>> {
        let uri = self.client.uri(&format!("{repository}/referrers/{digest}"))?;
        let request = Request::new(Method::GET, uri, Scope::pull(repository)).header(ACCEPT, INDEX);
        let answer = self.client.send(&request)?;
        match answer.status.as_u16() {
            200 => {
                let bytes = self.client.read("answer", answer, MAX_DOCUMENT)?;
                // What does not know the request may answer it with a page for people.
                Ok(serde_json::from_slice(&bytes).ok())
            }
            400 | 404 | 405 | 501 => Ok(None),
            _ => Err(self.client.refused(answer, &format!("read {repository}"))),
        }
    }

    /// Reads the index that replaces a list if the registry has none.
    pub(crate) fn referrers_by_tag(
        &self,
        repository: &str,
        digest: &OciDigest,
    ) -> Result<Option<Index>> {
        self.parsed_document("an index", repository, &referrers_tag(digest))
    }

    /// Puts a manifest that refers to another, and sees to it that it is found from there.
    pub(crate) fn put_referrer(
        &self,
        repository: &str,
        subject: &OciDigest,
        referrer: &Descriptor,
        bytes: &[u8],
    ) -> Result<()> {
        let reference = referrer.digest.to_string();
        let is_noted = self.put_document(repository, &reference, MANIFEST, bytes)?;
        if is_noted {
            return Ok(());
        }
        let tag = referrers_tag(subject);
        // Two who write at once may overwrite each other: who does not find its own in the
        // index afterwards writes it again. That leaves a moment, since registries have no
        // condition for writing: someone who read before us may write after our look.
        for _ in 0..REFERRER_ATTEMPTS {
            let mut index = self.referrers_by_tag(repository, subject)?.unwrap_or_default();
            if index.manifests.iter().any(|found| found.digest == referrer.digest) {
                return Ok(());
            }
            index.manifests.push(referrer.clone());
            self.put_document(repository, &tag, INDEX, &to_bytes(&index))?;
        }
        Err(self.client.odd("what was noted in it is gone again and again"))
    }

    pub(crate) fn wrong(&self, expected: &OciDigest, found: &str) -> Error {
        let host = self.address().host();
        let message = format!("the registry {host} sent wrong content for {expected}: {found}");
        let hint = "nothing was kept; the copy in the registry may be damaged".to_owned();
        Error::new(ErrorKind::WrongContent, Report::new(Kind::Registry, message).hinted(hint))
    }
}

fn announced_digest(answer: &Answer) -> Option<OciDigest> {
    answer.header("docker-content-digest").and_then(OciDigest::parse)
}

const REFERRER_ATTEMPTS: usize = 8;
/// The error of a registry that does not know a blob of a manifest.
const UNKNOWN_BLOB: &str = "MANIFEST_BLOB_UNKNOWN";
/// How long it is waited until a manifest is put again, in milliseconds.
const BLOB_WAITS: [u64; 4] = [20, 100, 400, 1600];

/// The tag of the index of what refers to a manifest, as the specification has it for
/// registries without the request for it.
pub(crate) fn referrers_tag(digest: &OciDigest) -> String {
    digest.to_string().replace(':', "-")
}

/// Returns where the next page of a list is.
fn next_page(answer: &Answer) -> Option<Uri> {
    let links = answer.header("link")?;
    let mut links = links.split(',').map(str::trim);
    links.find_map(|link| {
        let (target, parameters) = link.strip_prefix('<')?.split_once('>')?;
        let is_next = parameters.replace(['"', ' '], "").contains("rel=next");
        is_next.then(|| follow(&answer.uri, target)).flatten()
    })
}
