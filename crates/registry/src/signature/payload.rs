// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is signed: a text that names the manifest of an image, in the form "simple signing".
//!
//! Ours also says under which label the image was signed, and when. It is in the part that
//! signers may use as they like, so that cosign accepts it and ignores it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::envelope::document_in;
use crate::Place;
use crate::document::{OciDigest, to_bytes};

/// What cosign writes for what it is; a signature of something else means something else.
const KIND: &str = "cosign container image signature";

#[derive(Serialize, Deserialize)]
struct Payload {
    critical: Critical,
    // Cosign writes it always.
    #[serde(default)]
    optional: Option<Value>,
}

/// The type of the statements of cosign 3.
const IN_TOTO: &str = "application/vnd.in-toto+json";
/// What such a statement says if it is a signature.
pub(super) const SIGN: &str = "https://sigstore.dev/cosign/sign/v1";

const NAMESPACE: &str = "org.cabane.namespace";
const LABEL: &str = "org.cabane.label";
const TIME: &str = "org.cabane.time";

/// Under which label an image was signed, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The label, and the part of the registry.
    pub place: Place,
    /// When, by the clock of the signer.
    pub time: Timestamp,
}

impl Statement {
    fn to_value(&self) -> Value {
        json!({
            NAMESPACE: self.place.namespace.as_str(),
            LABEL: self.place.label.to_string(),
            TIME: self.time.to_string(),
        })
    }

    fn of_value(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key)?.as_str();
        Some(Self {
            place: Place {
                namespace: text(NAMESPACE)?.parse().ok()?,
                label: text(LABEL)?.parse().ok()?,
            },
            time: text(TIME)?.parse().ok()?,
        })
    }
}

#[derive(Serialize, Deserialize)]
struct Critical {
    identity: Identity,
    image: Image,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Serialize, Deserialize)]
struct Identity {
    #[serde(rename = "docker-reference")]
    reference: String,
}

#[derive(Serialize, Deserialize)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: OciDigest,
}

/// Writes what is to be signed.
///
/// `reference` is the repository in which the image was signed, with its host.
pub(super) fn write(
    reference: &str,
    manifest: &OciDigest,
    statement: Option<&Statement>,
) -> Vec<u8> {
    to_bytes(&Payload {
        critical: Critical {
            identity: Identity { reference: reference.to_owned() },
            image: Image { digest: manifest.clone() },
            kind: KIND.to_owned(),
        },
        optional: statement.map(Statement::to_value),
    })
}

/// A signature of cosign 3: a statement of in-toto about a manifest, that it is signed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SignedManifest {
    subject: [Subject; 1],
    predicate_type: String,
}

#[derive(Deserialize)]
struct Subject {
    digest: SubjectDigest,
}

#[derive(Deserialize)]
struct SubjectDigest {
    sha256: cabane_label::Digest,
}

fn read_in_toto(document: &[u8]) -> Result<OciDigest, &'static str> {
    let signed: SignedManifest =
        serde_json::from_slice(document).map_err(|_| "what was signed names no image")?;
    if signed.predicate_type != SIGN {
        return Err("what was signed is something else than an image");
    }
    let [subject] = signed.subject;
    Ok(OciDigest(subject.digest.sha256))
}

/// Returns which manifest was signed and under which label, if that is said; or what is wrong with
/// the text.
///
/// In which registry the image was then is not looked at: images are copied to others.
pub(super) fn read(bytes: &[u8]) -> Result<(OciDigest, Option<Statement>), &'static str> {
    if let Some(document) = document_in(IN_TOTO, bytes) {
        return read_in_toto(document).map(|digest| (digest, None));
    }
    let payload: Payload =
        serde_json::from_slice(bytes).map_err(|_| "what was signed names no image")?;
    if payload.critical.kind == KIND {
        let statement = payload.optional.as_ref().and_then(Statement::of_value);
        Ok((payload.critical.image.digest, statement))
    } else {
        Err("what was signed is something else than an image")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest() -> OciDigest {
        OciDigest::of(b"abc")
    }

    #[test]
    fn it_is_written_as_cosign_writes_it() {
        let text = String::from_utf8(write("registry.example/app", &digest(), None)).unwrap();
        assert_eq!(
            text,
            concat!(
                r#"{"critical":{"identity":{"docker-reference":"registry.example/app"},"#,
                r#""image":{"docker-manifest-digest":"#,
                r#""sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},"#,
                r#""type":"cosign container image signature"},"optional":null}"#
            )
        );
    }

    #[test]
    fn what_is_written_can_be_read_again() {
        let statement = Statement {
            place: Place {
                namespace: "deploy".parse().unwrap(),
                label: "app/1.0:v1@daint%gh200".parse().unwrap(),
            },
            time: "2026-11-26T10:00:00.125Z".parse().unwrap(),
        };
        for statement in [None, Some(statement)] {
            let text = write("registry.example/app", &digest(), statement.as_ref());
            assert_eq!(read(&text), Ok((digest(), statement)));
        }
    }

    #[test]
    fn what_signers_add_does_no_harm() {
        let text = String::from_utf8(write("r", &digest(), None)).unwrap();
        let added = r#""optional":{"creator":"somebody","timestamp":1600000000}"#;
        let text = text.replace(r#""optional":null"#, added);
        assert_eq!(read(text.as_bytes()), Ok((digest(), None)));
    }

    #[test]
    fn signatures_of_other_things_are_not_taken_for_those_of_images() {
        let text = String::from_utf8(write("r", &digest(), None)).unwrap();
        let other = text.replace(KIND, "atomic container signature");
        assert!(read(other.as_bytes()).is_err());
    }

    #[test]
    fn two_digests_in_one_text_are_none() {
        let text = String::from_utf8(write("r", &digest(), None)).unwrap();
        let twice = text.replace(
            r#""image":{"#,
            &format!(r#""image":{{"docker-manifest-digest":"{}","#, OciDigest::of(b"other")),
        );
        assert!(read(twice.as_bytes()).is_err());
    }
}
