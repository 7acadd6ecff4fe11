// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is signed: a text that names the manifest of an image, in the form "simple signing".

use serde::{Deserialize, Serialize};

use crate::document::{OciDigest, to_bytes};

/// What cosign writes for what it is; a signature of something else means something else.
const KIND: &str = "cosign container image signature";

#[derive(Serialize, Deserialize)]
struct Payload {
    critical: Critical,
    // Written, because cosign writes it, and not read.
    #[serde(skip_deserializing)]
    optional: Option<()>,
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

/// Writes what is to be signed; the same image gives the same bytes.
///
/// `reference` is the repository in which the image was signed, with its host.
pub(super) fn write(reference: &str, manifest: &OciDigest) -> Vec<u8> {
    to_bytes(&Payload {
        critical: Critical {
            identity: Identity { reference: reference.to_owned() },
            image: Image { digest: manifest.clone() },
            kind: KIND.to_owned(),
        },
        optional: None,
    })
}

/// Returns which manifest was signed, or what is wrong with the text.
///
/// Where the image was then is not looked at: images get other labels, and other registries.
pub(super) fn read(bytes: &[u8]) -> Result<OciDigest, &'static str> {
    let payload: Payload =
        serde_json::from_slice(bytes).map_err(|_| "what was signed names no image")?;
    if payload.critical.kind == KIND {
        Ok(payload.critical.image.digest)
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
        let text = String::from_utf8(write("registry.example/app", &digest())).unwrap();
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
        assert_eq!(read(&write("registry.example/app", &digest())), Ok(digest()));
    }

    #[test]
    fn what_signers_add_does_no_harm() {
        let text = String::from_utf8(write("r", &digest())).unwrap();
        let added = r#""optional":{"creator":"somebody","timestamp":1600000000}"#;
        let text = text.replace(r#""optional":null"#, added);
        assert_eq!(read(text.as_bytes()), Ok(digest()));
    }

    #[test]
    fn signatures_of_other_things_are_not_taken_for_those_of_images() {
        let text = String::from_utf8(write("r", &digest())).unwrap();
        let other = text.replace(KIND, "atomic container signature");
        assert!(read(other.as_bytes()).is_err());
    }

    #[test]
    fn two_digests_in_one_text_are_none() {
        let text = String::from_utf8(write("r", &digest())).unwrap();
        let twice = text.replace(
            r#""image":{"#,
            &format!(r#""image":{{"docker-manifest-digest":"{}","#, OciDigest::of(b"other")),
        );
        assert!(read(twice.as_bytes()).is_err());
    }
}
