// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Signatures and statements of the images of a registry.
//!
//! They change without the image, so only the registry knows them, and it needs several requests for each
//! image. The answers are kept: a site that is built often may use those that are not too old.
//!
//! ```text
//! <cache>/catalogue/<sum of the namespace and the address>.json   version 1
//! ```
//!
//! Answers are judged already. So they count only for the keys of the configuration that judged them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use cabane_evidence::{EvidenceKeys, attached};
use cabane_label::{Digest, Namespace};
use cabane_registry::{Listed, Place, each_of, sum, write_at_once};
use cabane_report::{Report, Result};
use cabane_signature_policy::KnownKeys;
use cabane_site::Context;
use cabane_transfer::Connection;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::evidence::evidence_of;
use crate::input::ImageEvidence;

/// How many images are asked at the same time.
const AT_ONCE: usize = 8;
/// The directory in the cache.
const DIRECTORY: &str = "catalogue";
const VERSION: u32 = 1;
/// What the page of an image says instead of its signature.
const UNREADABLE: &str = "the signatures cannot be read";

/// What is attached to an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Beside {
    pub(crate) signature: Option<String>,
    pub(crate) evidence: Option<ImageEvidence>,
}

/// What was answered about an image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Answer {
    digest: Digest,
    manifest: Digest,
    asked: Timestamp,
    beside: Beside,
}

/// What came of asking for an image.
#[derive(Debug, Default)]
struct Asked {
    beside: Beside,
    /// What may be kept.
    answer: Option<Answer>,
    /// What could not be read, and why.
    errors: Vec<(&'static str, Report)>,
}

/// What was answered about the images of a namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Answers {
    version: u32,
    /// The sum of the keys that judged.
    keys: Digest,
    /// By label.
    images: BTreeMap<String, Answer>,
}

/// Keys of the configuration.
struct Keys {
    signatures: KnownKeys,
    evidence: EvidenceKeys,
}

impl Keys {
    fn of(context: &Context, place: &Place) -> Result<Self> {
        let (signatures, evidence) = (KnownKeys::of(context, place), EvidenceKeys::of(context)?);
        Ok(Self { signatures, evidence })
    }

    fn sum(&self) -> Digest {
        let all = [self.signatures.names(), self.evidence.names()];
        sum::bytes(all.map(|names| names.join("\n")).join("\n\n").as_bytes())
    }
}

/// Reads the signatures and statements of images of a namespace, in their order. Answers that are not
/// older than `age` are not read again.
///
/// # Errors
///
/// A registry that does not answer, a key that cannot be read.
pub(crate) fn beside(
    context: &Context,
    connection: &Connection,
    namespace: &Namespace,
    listed: &[Listed],
    age: Duration,
) -> Result<Vec<Beside>> {
    let Some(first) = listed.first() else { return Ok(Vec::new()) };
    let keys = Keys::of(context, &first.place())?;
    let path = path_of(context, connection, namespace);
    let known = path.as_ref().and_then(|path| Answers::read(path, &keys.sum()));
    let known = known.map(|known| known.images).unwrap_or_default();
    let now = Timestamp::now();
    let oldest = SignedDuration::try_from(age).ok().and_then(|age| now.checked_sub(age).ok());
    let found = each_of(AT_ONCE, listed, |image| {
        let answer = known.get(&image.label.to_string()).filter(|answer| {
            // Not every list knows manifests.
            let is_same = image.manifest.as_ref().is_none_or(|known| *known == answer.manifest);
            is_same
                && image.digest == answer.digest
                && oldest.is_none_or(|oldest| answer.asked > oldest && answer.asked <= now)
        });
        match answer {
            Some(answer) => {
                let (beside, answer) = (answer.beside.clone(), Some(answer.clone()));
                Ok(Asked { beside, answer, errors: Vec::new() })
            }
            None => ask(connection, &keys, image, now),
        }
    })?;
    let mut answers = Answers { version: VERSION, keys: keys.sum(), images: BTreeMap::new() };
    let mut all = Vec::with_capacity(found.len());
    for (image, asked) in listed.iter().zip(found) {
        let label = &image.label;
        for (what, error) in asked.errors {
            context.warning(format_args!("cannot read {what} of {label}: {error}"));
        }
        all.push(asked.beside);
        answers.images.extend(asked.answer.map(|answer| (label.to_string(), answer)));
    }
    if let Some(path) = path {
        // Without a cache, the next build asks again.
        let _ = write_at_once(&path, &serde_json::to_vec(&answers).unwrap_or_default());
    }
    Ok(all)
}

/// Asks for one image; nothing if it is gone. What is wrong with one image does not end the whole site, but
/// a registry that does not answer does.
fn ask(connection: &Connection, keys: &Keys, image: &Listed, asked: Timestamp) -> Result<Asked> {
    let registry = &connection.registry;
    let mut errors = Vec::new();
    let remote = match registry.image_if_there(&image.place()) {
        Ok(None) => return Ok(Asked::default()),
        Ok(Some(remote)) => remote,
        Err(error) if error.is_about_connection() => return Err(error.into()),
        Err(error) => {
            let beside = Beside { signature: Some(UNREADABLE.to_owned()), evidence: None };
            let errors = vec![("the manifest", error.into())];
            return Ok(Asked { beside, answer: None, errors });
        }
    };
    let signature = match registry.signatures(&remote) {
        Ok(signatures) => keys.signatures.judge(&signatures).to_string(),
        Err(error) if error.is_about_connection() => return Err(error.into()),
        Err(error) => {
            errors.push(("the signatures", error.into()));
            UNREADABLE.to_owned()
        }
    };
    let evidence = match attached(registry, &remote) {
        Ok(statements) => {
            let of_image = statements.iter();
            let judged = of_image.filter_map(|one| keys.evidence.judge(one, &image.digest));
            Some(evidence_of(judged.collect()))
        }
        Err(error) => {
            errors.push(("the evidence", error));
            None
        }
    };
    let beside = Beside { signature: Some(signature), evidence };
    let answer = errors.is_empty().then(|| Answer {
        digest: remote.digest,
        manifest: remote.manifest,
        asked,
        beside: beside.clone(),
    });
    Ok(Asked { beside, answer, errors })
}

fn path_of(context: &Context, connection: &Connection, namespace: &Namespace) -> Option<PathBuf> {
    let cache = context.settings.cache_directory.value.as_ref()?;
    let source = format!("{namespace} {}", connection.registry.address());
    Some(cache.join(DIRECTORY).join(format!("{}.json", sum::bytes(source.as_bytes()).id())))
}

impl Answers {
    /// Reads what is kept; `None` for what is damaged, of another version, or judged with other keys.
    fn read(path: &std::path::Path, keys: &Digest) -> Option<Self> {
        let answers: Self = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        (answers.version == VERSION && answers.keys == *keys).then_some(answers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::hostile_image;

    #[test]
    fn answers_are_read_as_they_were_written_and_for_the_same_keys_only() {
        let digest: Digest = "a".repeat(64).parse().unwrap();
        let image = hostile_image();
        let beside = Beside { signature: image.signature, evidence: image.evidence };
        let asked = "2026-11-26T12:00:00Z".parse().unwrap();
        let answer = Answer { digest: digest.clone(), manifest: digest.clone(), asked, beside };
        let images = [("app/1.0:v1@here%zen3".to_owned(), answer)].into();
        let answers = Answers { version: VERSION, keys: digest.clone(), images };
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), serde_json::to_vec(&answers).unwrap()).unwrap();
        assert_eq!(Answers::read(file.path(), &digest), Some(answers));
        assert_eq!(Answers::read(file.path(), &"b".repeat(64).parse().unwrap()), None);
        fs::write(file.path(), "{").unwrap();
        assert_eq!(Answers::read(file.path(), &digest), None);
    }
}
