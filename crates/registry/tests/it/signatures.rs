// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Signatures in a registry that others write to.

use std::fs;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cabane_registry::{Distrust, Error, Place, PublicKey, Registry, RemoteImage, SigningKey};
use cabane_testkit::{Fault, needs};
use serde_json::{Value, json};

use crate::bed::{Bed, REPOSITORY, noise, place};

const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

fn key(bed: &Bed, name: &str) -> SigningKey {
    SigningKey::generate(&bed.path(name)).unwrap().0
}

/// A bed with an image that has a signature, and the key.
fn signed() -> (Bed, SigningKey) {
    let bed = Bed::new();
    let key = key(&bed, "key");
    bed.push_signed(&noise(1000), false, Some(&key)).unwrap();
    (bed, key)
}

fn judged(
    registry: &Registry,
    image: &RemoteImage,
    keys: &[PublicKey],
) -> Result<Result<(), Distrust>, Error> {
    let signatures = registry.signatures(image)?;
    Ok(signatures.accepted_by(keys).map(|_| ()))
}

/// What is thought of the image under the usual label.
fn thought(bed: &Bed, keys: &[PublicKey]) -> Result<(), Distrust> {
    judged(&bed.registry, &bed.image().unwrap(), keys).unwrap()
}

fn tag_of(image: &RemoteImage) -> String {
    format!("sha256-{}.sig", image.manifest)
}

/// The manifest with the signatures of the image.
fn signatures(bed: &Bed) -> Value {
    let tag = tag_of(&bed.image().unwrap());
    let manifest = bed.server.manifest(REPOSITORY, &tag).unwrap();
    serde_json::from_slice(&manifest).unwrap()
}

fn put_signatures(bed: &Bed, image: &RemoteImage, manifest: &Value) {
    let bytes = serde_json::to_vec(manifest).unwrap();
    let tag = tag_of(image);
    bed.server.put_manifest(REPOSITORY, &tag, MANIFEST, &bytes);
}

#[test]
fn an_image_that_is_signed_when_it_is_pushed_is_accepted_by_that_key_only() {
    let (bed, ours) = signed();
    let theirs = key(&bed, "theirs");
    assert_eq!(thought(&bed, &[ours.public()]), Ok(()));
    assert_eq!(thought(&bed, &[theirs.public(), ours.public()]), Ok(()));
    assert_eq!(thought(&bed, &[theirs.public()]), Err(Distrust::UnknownKey));
}

#[test]
fn the_signature_is_there_before_the_label() {
    let (bed, _) = signed();
    let puts = bed.server.requests_of("PUT", &format!("{REPOSITORY}/manifests/"));
    let position = |end: &str| puts.iter().position(|put| put.path.ends_with(end)).unwrap();
    assert!(position(".sig") < position("/v1"));
}

#[test]
fn an_image_without_signatures_is_unsigned() {
    let (bed, _) = Bed::pushed(1000);
    let key = key(&bed, "key");
    assert_eq!(thought(&bed, &[key.public()]), Err(Distrust::Unsigned));
}

#[test]
fn signing_again_adds_nothing() {
    let (bed, ours) = signed();
    let image = bed.image().unwrap();
    assert!(!bed.registry.sign(&image, &ours, false).unwrap());
    assert_eq!(bed.registry.signatures(&image).unwrap().count(), 1);
    let pushed = bed.push_signed(&noise(1000), false, Some(&ours)).unwrap();
    assert!(pushed.unchanged && !pushed.signed);
}

#[test]
fn signatures_of_several_keys_stay_beside_each_other() {
    let (bed, ours) = signed();
    let theirs = key(&bed, "theirs");
    assert!(bed.registry.sign(&bed.image().unwrap(), &theirs, false).unwrap());
    assert_eq!(thought(&bed, &[ours.public()]), Ok(()));
    assert_eq!(thought(&bed, &[theirs.public()]), Ok(()));
}

#[test]
fn the_signature_of_another_image_is_not_accepted() {
    let (bed, ours) = signed();
    let stolen = signatures(&bed);
    bed.push(&noise(2000), true).unwrap();
    put_signatures(&bed, &bed.image().unwrap(), &stolen);
    assert_eq!(thought(&bed, &[ours.public()]), Err(Distrust::OtherImage));
}

#[test]
fn a_text_that_was_exchanged_is_not_accepted() {
    let (bed, ours) = signed();
    let stolen = signatures(&bed);
    let digest = stolen["layers"][0]["digest"].as_str().unwrap();
    let old = bed.image().unwrap().manifest.to_string();
    let text = String::from_utf8(bed.server.blob(REPOSITORY, digest).unwrap()).unwrap();
    bed.push(&noise(2000), true).unwrap();
    let image = bed.image().unwrap();
    let forged = text.replace(&old, image.manifest.as_str());
    let mut manifest = stolen;
    manifest["layers"][0]["digest"] = bed.server.put_blob(REPOSITORY, forged.as_bytes()).into();
    put_signatures(&bed, &image, &manifest);
    assert_eq!(thought(&bed, &[ours.public()]), Err(Distrust::UnknownKey));
}

#[test]
fn one_bad_signature_does_not_spoil_a_good_one() {
    let (bed, ours) = signed();
    let good = signatures(&bed)["layers"][0].clone();
    let mut without = good.clone();
    without["annotations"] = json!({});
    let mut gone = good.clone();
    gone["digest"] = format!("sha256:{}", "0".repeat(64)).into();
    let mut large = good.clone();
    large["size"] = json!(1_u64 << 40);
    let mut garbled = good.clone();
    garbled["annotations"][SIGNATURE] = "***".into();
    let mut manifest = signatures(&bed);
    for (bad, reason) in [
        (without, "it is missing"),
        (gone, "the registry does not have what was signed"),
        (garbled, "it is not base64"),
    ] {
        manifest["layers"] = json!([bad]);
        put_signatures(&bed, &bed.image().unwrap(), &manifest);
        assert_eq!(thought(&bed, &[ours.public()]), Err(Distrust::Damaged { reason }));
        manifest["layers"] = json!([bad, large, good]);
        put_signatures(&bed, &bed.image().unwrap(), &manifest);
        assert_eq!(thought(&bed, &[ours.public()]), Ok(()));
    }
}

#[test]
fn what_is_changed_on_its_way_is_not_accepted() {
    let (bed, ours) = signed();
    let digest = signatures(&bed)["layers"][0]["digest"].clone();
    let path = format!("/blobs/{}", digest.as_str().unwrap());
    bed.server.on("GET", &path).does(Fault::CorruptByte(20));
    let reason = "the registry does not have what was signed";
    assert_eq!(thought(&bed, &[ours.public()]), Err(Distrust::Damaged { reason }));
}

#[test]
fn a_registry_that_does_not_answer_is_no_image_without_signature() {
    let (bed, ours) = signed();
    let image = bed.image().unwrap();
    for status in [401, 403, 500] {
        bed.server.on("GET", ".sig").does(Fault::answer(status));
        let outcome = judged(&bed.registry, &image, &[ours.public()]);
        assert!(outcome.is_err(), "{status}: {outcome:?}");
        bed.server.disarm();
    }
}

#[test]
fn copying_takes_signatures_along_and_leaves_those_that_are_there() {
    let (bed, ours) = signed();
    let theirs = key(&bed, "theirs");
    let to = Place {
        namespace: "build".parse().unwrap(),
        label: "app/2.0:v1@daint%gh200".parse().unwrap(),
    };
    let from = place("app/1.0:v1@daint%gh200");
    let copied = bed.registry.copy(&from, &to, false).unwrap().image;
    bed.registry.sign(&copied, &theirs, false).unwrap();
    let again = bed.registry.copy(&from, &to, false).unwrap().image;
    assert_eq!(bed.registry.signatures(&again).unwrap().count(), 2);
    for key in [ours.public(), theirs.public()] {
        assert_eq!(judged(&bed.registry, &again, &[key]).unwrap(), Ok(()));
    }
}

#[test]
fn signatures_are_deleted_with_the_last_label_only() {
    let (bed, ours) = signed();
    let other = place("app/1.0:latest@daint%gh200");
    let from = place("app/1.0:v1@daint%gh200");
    bed.registry.copy(&from, &other, false).unwrap();
    bed.delete().unwrap();
    let image = bed.registry.image(&other).unwrap();
    let outcome = judged(&bed.registry, &image, &[ours.public()]).unwrap();
    assert_eq!(outcome, Ok(()));
    bed.registry.delete(&other).unwrap();
    assert_eq!(bed.server.tags(REPOSITORY), []);
}

/// Runs OpenSSL where the files of a bed are.
fn openssl(bed: &Bed, arguments: &str) {
    let directory = bed.path("");
    let mut command = Command::new("openssl");
    let output = command.args(arguments.split(' ')).current_dir(directory);
    let output = output.output().unwrap();
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {arguments}: {reported}");
}

#[test]
fn openssl_accepts_what_was_signed_here() {
    needs!("openssl");
    let (bed, _) = signed();
    let layer = &signatures(&bed)["layers"][0];
    assert_eq!(layer["mediaType"], SIMPLE_SIGNING);
    let digest = layer["digest"].as_str().unwrap();
    let text = bed.server.blob(REPOSITORY, digest).unwrap();
    let signature = layer["annotations"][SIGNATURE].as_str().unwrap();
    fs::write(bed.path("text"), &text).unwrap();
    fs::write(bed.path("signature"), STANDARD.decode(signature).unwrap()).unwrap();
    openssl(&bed, "dgst -sha256 -verify key.pub -signature signature text");
    let text: Value = serde_json::from_slice(&text).unwrap();
    let named = &text["critical"]["image"]["docker-manifest-digest"];
    assert_eq!(*named, format!("sha256:{}", bed.image().unwrap().manifest));
}

#[test]
fn what_openssl_signed_in_the_way_of_cosign_is_accepted_and_kept() {
    needs!("openssl");
    let (bed, _) = Bed::pushed(1000);
    let image = bed.image().unwrap();
    let text = format!(
        "{{\"critical\":{{\"identity\":{{\"docker-reference\":\"example.org/app\"}},\
         \"image\":{{\"docker-manifest-digest\":\"sha256:{}\"}},\
         \"type\":\"cosign container image signature\"}},\
         \"optional\":{{\"creator\":\"somebody\"}}}}",
        image.manifest
    );
    fs::write(bed.path("text"), &text).unwrap();
    openssl(&bed, "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out theirs");
    openssl(&bed, "pkey -in theirs -pubout -out theirs.pub");
    openssl(&bed, "dgst -sha256 -sign theirs -out signature text");
    let signature = STANDARD.encode(fs::read(bed.path("signature")).unwrap());
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": bed.server.put_blob(REPOSITORY, b"{}"),
            "size": 2,
        },
        "layers": [{
            "mediaType": SIMPLE_SIGNING,
            "digest": bed.server.put_blob(REPOSITORY, text.as_bytes()),
            "size": text.len(),
            "annotations": { SIGNATURE: signature, "dev.sigstore.cosign/bundle": "{}" },
        }],
    });
    put_signatures(&bed, &image, &manifest);
    let theirs = PublicKey::read(&bed.path("theirs.pub")).unwrap();
    assert_eq!(thought(&bed, std::slice::from_ref(&theirs)), Ok(()));
    let ours = key(&bed, "ours");
    bed.registry.sign(&image, &ours, false).unwrap();
    assert_eq!(thought(&bed, &[theirs]), Ok(()));
    assert_eq!(signatures(&bed)["layers"][0], manifest["layers"][0]);
}
