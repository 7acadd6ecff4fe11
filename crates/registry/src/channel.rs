// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where the documents of channels are in a registry: in a repository for each namespace and system,
//! `<namespace>/cabane-channel/<system>`, under the tags `<channel>` and `<channel>.<serial>`.
//!
//! Names of channels have no `.`, so that no two channels share a tag. What a document says, and whether
//! it counts, is for the caller.

use std::collections::BTreeMap;
use std::fmt;

use cabane_label::{ChannelName, Digest, NameMatch, Namespace, System};
use cabane_report::{Kind, Report};

use crate::address::is_component;
use crate::document::{Annotations, Descriptor, EMPTY, MANIFEST, Manifest, OciDigest, to_bytes};
use crate::parallel::side_by_side;
use crate::{Envelope, Error, ErrorKind, Listing, Place, Registry, RemoteImage, Result, Wanted};

const REPOSITORY: &str = "cabane-channel";
const KIND: &str = "application/vnd.cabane.channel.v1";
/// The media type of DSSE envelopes, as sigstore uses it.
const ENVELOPE: &str = "application/vnd.dsse.envelope.v1+json";
/// Some thousand images.
const MAX_ENVELOPE: u64 = 4 * 1024 * 1024;

/// A channel in a registry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChannelPlace {
    /// The part of the registry.
    pub namespace: Namespace,
    /// The channel.
    pub name: ChannelName,
    /// The system.
    pub system: System,
}

impl fmt::Display for ChannelPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}@{}", self.namespace, self.name, self.system)
    }
}

impl ChannelPlace {
    fn tag(&self, serial: Option<u64>) -> String {
        match serial {
            Some(serial) => format!("{}.{serial}", self.name),
            None => self.name.to_string(),
        }
    }
}

/// The tag with which an image is held on which others are built.
pub(crate) fn base_tag(digest: &Digest) -> String {
    format!("sha256-{digest}.base")
}

impl Registry {
    /// Gets a document of a channel: the current one, or that of a serial number; `None` if there is
    /// none.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Document`] if something else is there.
    pub fn channel_document(
        &self,
        channel: &ChannelPlace,
        serial: Option<u64>,
    ) -> Result<Option<Envelope>> {
        let repository = self.channel_repository(channel)?;
        let odd = || {
            let message = format!(
                "`{}` in {}/{repository} is not the document of a channel",
                channel.tag(serial),
                self.address().host()
            );
            Error::new(ErrorKind::Document, Report::new(Kind::Registry, message))
        };
        // Any user with write access can put anything there, which is not a failure of the registry.
        let named = |error: Error| match error.kind {
            ErrorKind::WrongContent
            | ErrorKind::Document
            | ErrorKind::Other
            | ErrorKind::Status(404) => odd(),
            _ => error,
        };
        let what = "the document of a channel";
        let manifest = self.parsed_document::<Manifest>(what, &repository, &channel.tag(serial));
        let Some(manifest) = manifest.map_err(named)? else {
            return Ok(None);
        };
        let [layer] = manifest.layers.as_slice() else {
            return Err(odd());
        };
        if manifest.kind() != KIND {
            return Err(odd());
        }
        let bytes = self.small_blob(&repository, layer, MAX_ENVELOPE).map_err(named)?;
        Envelope::from_bytes(&bytes).ok_or_else(odd).map(Some)
    }

    /// Returns the serial numbers of which there are documents, in descending order. What they are
    /// is not yet known.
    ///
    /// # Errors
    ///
    /// That the registry was not reached.
    pub fn channel_numbers(&self, channel: &ChannelPlace) -> Result<Vec<u64>> {
        let tags = self.tags(&self.channel_repository(channel)?)?;
        let number = |tag: String| {
            let serial =
                tag.strip_prefix(channel.name.as_str())?.strip_prefix('.')?.parse().ok()?;
            (channel.tag(Some(serial)) == tag).then_some(serial)
        };
        let mut numbers: Vec<u64> = tags.into_iter().filter_map(number).collect();
        numbers.sort_unstable_by(|one, other| other.cmp(one));
        Ok(numbers)
    }

    /// Writes a document under the tag of a serial number, or as the current one.
    ///
    /// # Errors
    ///
    /// That the registry refuses it.
    pub fn put_channel_document(
        &self,
        channel: &ChannelPlace,
        serial: Option<u64>,
        envelope: &Envelope,
    ) -> Result<()> {
        let repository = self.channel_repository(channel)?;
        let bytes = envelope.to_bytes();
        self.put_small_blob(&repository, EMPTY)?;
        self.put_small_blob(&repository, &bytes)?;
        let layer = Descriptor::of(ENVELOPE, &bytes);
        let manifest = to_bytes(&Manifest::artifact(KIND, vec![layer], Annotations::new()));
        self.put_document(&repository, &channel.tag(serial), MANIFEST, &manifest)?;
        Ok(())
    }

    /// Gives the manifest of an image a tag of its own, which is no label: many registries remove manifests
    /// without a tag, and a channel releases an image whatever becomes of its label.
    ///
    /// # Errors
    ///
    /// That the registry refuses it.
    pub fn hold(&self, image: &RemoteImage) -> Result<()> {
        let repository = self.repository(&image.place)?;
        let tag = format!("sha256-{}.released", image.manifest);
        if self.digest_of(&repository, &tag)?.is_none() {
            self.put_document(&repository, &tag, MANIFEST, &image.document)?;
        }
        Ok(())
    }

    /// Gives the manifest of an image, on which another one is built, a tag of its own, which is no
    /// label: then it can be found by its digest, also after its label has moved to another image.
    ///
    /// # Errors
    ///
    /// That the registry refuses it.
    pub fn hold_base(&self, image: &RemoteImage) -> Result<()> {
        let repository = self.repository(&image.place)?;
        let tag = base_tag(&image.digest);
        if self.digest_of(&repository, &tag)?.is_none() {
            self.put_document(&repository, &tag, MANIFEST, &image.document)?;
        }
        Ok(())
    }

    /// Finds an image by its digest that was held as a base, among the images with the same name and
    /// version as a place. Its tag is its ID.
    ///
    /// # Errors
    ///
    /// That the registry was not reached.
    pub fn held_base(&self, place: &Place, digest: &Digest) -> Result<Option<RemoteImage>> {
        let repository = self.repository(place)?;
        let Some(document) = self.document(&repository, &base_tag(digest))? else {
            return Ok(None);
        };
        let tag = digest.id().as_str().parse().map_err(Report::from)?;
        // Any user with write access can move the tag.
        match self.read_image(&place.with_tag(tag), repository, document) {
            Ok(image) => Ok(Some(image).filter(|image| image.digest == *digest)),
            Err(error) => match error.kind {
                ErrorKind::NotAnImage | ErrorKind::Document => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Finds an image by its digest that was held as a base, in all repositories of a namespace that have
    /// images.
    ///
    /// # Errors
    ///
    /// As those of [`Registry::held_base`], and those of listing.
    pub fn find_held_base(
        &self,
        namespace: &Namespace,
        digest: &Digest,
        listing: Listing,
    ) -> Result<Option<RemoteImage>> {
        let wanted = Wanted { namespace, pattern: None, how: NameMatch::Exact };
        let mut places = BTreeMap::new();
        for listed in self.find(&wanted, listing)? {
            let place = listed.place();
            places.entry(self.repository(&place)?).or_insert(place);
        }
        let places: Vec<Place> = places.into_values().collect();
        let found = side_by_side(&places, |place| self.held_base(place, digest))?;
        Ok(found.into_iter().flatten().next())
    }

    /// Gets an image by its manifest, whichever image its label has now; `None` if it is gone.
    ///
    /// # Errors
    ///
    /// That something else has this digest, or that the registry was not reached.
    pub fn image_of_manifest(
        &self,
        place: &Place,
        manifest: &Digest,
    ) -> Result<Option<RemoteImage>> {
        let repository = self.repository(place)?;
        let reference = OciDigest(manifest.clone()).to_string();
        let document = self.document(&repository, &reference)?;
        document.map(|document| self.read_image(place, repository, document)).transpose()
    }

    fn channel_repository(&self, channel: &ChannelPlace) -> Result<String> {
        let parts = [channel.namespace.as_str(), REPOSITORY, channel.system.as_str()];
        if let Some(part) = parts.iter().find(|part| !is_component(part)) {
            let message = format!("a registry cannot have `{part}` in the name of a repository");
            return Err(Report::new(Kind::BadInput, message).into());
        }
        Ok(self.address().repository(&parts.join("/")))
    }
}
