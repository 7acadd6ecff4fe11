// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which image of several is taken, and documents that are not what they should be.

use cabane_container::{Platform, digest};
use serde_json::{Value, json};

use crate::kit::{Store, amd64, chosen, file, flat_in, here, layer, output, reason};

/// Puts an image with one file that says for what it is; returns its descriptor.
fn image(store: &mut Store, text: &str, platform: &Value) -> Value {
    let bytes = layer(&[file("is", text)]);
    let manifest = store.image(&[(bytes.clone(), bytes)], platform.clone());
    let mut descriptor = store.put(manifest);
    descriptor["platform"] = platform.clone();
    descriptor
}

fn index(manifests: &[Value]) -> Vec<u8> {
    serde_json::to_vec(&json!({"schemaVersion": 2, "manifests": manifests})).unwrap()
}

fn arm64() -> Value {
    json!({"os": "linux", "architecture": "arm64", "variant": "v8"})
}

#[test]
fn of_an_index_the_image_for_this_platform_is_taken_and_the_others_may_be_lost() {
    let mut store = Store::default();
    let lost =
        json!({"digest": digest::written(&digest::of(b"lost")), "size": 4, "platform": arm64()});
    let own = image(&mut store, "amd64", &amd64());
    let manifest = index(&[lost, own]);
    let flat = flat_in(&store, manifest.clone()).unwrap();
    let source = flat.converted.meta.container.clone().unwrap().source.unwrap();
    assert_eq!(
        (flat.content("is").as_str(), source.index, source.platform.as_str()),
        ("amd64", Some(digest::written(&digest::of(&manifest))), "linux/amd64")
    );
}

#[test]
fn what_is_attached_to_images_is_no_image() {
    let mut store = Store::default();
    let own = image(&mut store, "amd64", &amd64());
    let unknown = json!({"os": "unknown", "architecture": "unknown"});
    let attached = image(&mut store, "proof", &unknown);
    let flat = flat_in(&store, index(&[attached, own])).unwrap();
    assert_eq!(flat.content("is"), "amd64");
}

#[test]
fn an_image_for_no_better_processor_than_requested_is_taken() {
    let mut store = Store::default();
    let of = |level: &str| json!({"os": "linux", "architecture": "amd64", "variant": level});
    let images: Vec<Value> =
        ["v1", "v3", "v4", "v2"].iter().map(|level| image(&mut store, level, &of(level))).collect();
    let bytes = index(&images);
    let taken = |wanted: &str| {
        let wanted: Platform = wanted.parse().unwrap();
        let found = cabane_container::choose(bytes.clone(), &wanted, &mut |one| {
            Ok(store.blobs[&one.digest].clone())
        });
        found.map(|found| digest::written(&found.digest)).map_err(output)
    };
    let expected = |place: usize| Ok(images[place]["digest"].as_str().unwrap().to_owned());
    assert_eq!(
        ["linux/amd64/v3", "linux/amd64/v4", "amd64/v2"].map(taken),
        [expected(1), expected(2), Err("`amd64/v2`".to_owned())].map(|one| match one {
            Err(_) => Err("the image is not there for amd64/v2; it is for linux/amd64/v1, \
                           linux/amd64/v3, linux/amd64/v4, linux/amd64/v2"
                .to_owned()),
            found => found,
        })
    );
}

#[test]
fn where_there_is_none_for_the_platform_those_there_are_named() {
    let mut store = Store::default();
    let other = image(&mut store, "arm64", &arm64());
    let outcome = flat_in(&store, index(&[other]));
    assert_eq!(reason(outcome), "the image is not there for linux/amd64; it is for linux/arm64/v8");
}

#[test]
fn an_image_alone_must_be_for_the_platform_too() {
    let mut store = Store::default();
    let manifest = store.image(&[], arm64());
    assert_eq!(
        reason(flat_in(&store, manifest)),
        "the image is not there for linux/amd64; it is for linux/arm64/v8"
    );
}

#[test]
fn an_index_in_an_index_is_followed() {
    let mut store = Store::default();
    let own = image(&mut store, "amd64", &amd64());
    let mut inner = store.put(index(&[own]));
    inner["platform"] = amd64();
    assert_eq!(flat_in(&store, index(&[inner])).unwrap().content("is"), "amd64");
}

#[test]
fn a_manifest_that_was_changed_is_refused() {
    let mut store = Store::default();
    let own = image(&mut store, "amd64", &amd64());
    let digest = digest::parse(own["digest"].as_str().unwrap()).unwrap();
    store.blobs.get_mut(&digest).unwrap().push(b' ');
    let outcome = chosen(&store, index(&[own])).map_err(output);
    assert!(outcome.unwrap_err().starts_with("a manifest is not what it should be"));
}

#[test]
fn a_configuration_that_was_changed_is_refused() {
    let mut store = Store::default();
    let manifest = store.image(&[], amd64());
    for bytes in store.blobs.values_mut() {
        bytes.push(b' ');
    }
    let outcome = reason(flat_in(&store, manifest));
    assert!(outcome.starts_with("the configuration of the image is not what it should be"));
}

#[test]
fn a_layer_that_was_changed_is_refused() {
    let mut store = Store::default();
    let bytes = layer(&[file("a", "content")]);
    let manifest = store.image(&[(bytes.clone(), bytes.clone())], amd64());
    let stored = store.blobs.get_mut(&digest::of(&bytes)).unwrap();
    // In the content, and not in a header.
    stored[513] ^= 1;
    assert!(reason(flat_in(&store, manifest)).starts_with("its bytes should have the digest"));
}

#[test]
fn what_follows_the_end_of_an_archive_is_verified_too() {
    let mut store = Store::default();
    let mut bytes = layer(&[file("a", "content")]);
    bytes.extend([0; 4096]);
    let manifest = store.image(&[(bytes.clone(), bytes.clone())], amd64());
    *store.blobs.get_mut(&digest::of(&bytes)).unwrap().last_mut().unwrap() = 1;
    assert!(reason(flat_in(&store, manifest)).starts_with("its bytes should have the digest"));
}

#[test]
fn as_many_layers_are_needed_as_the_configuration_names() {
    let mut store = Store::default();
    let mut config = amd64();
    config["rootfs"] = json!({"type": "layers", "diff_ids": []});
    let manifest = store.image(&[(layer(&[]), layer(&[]))], config);
    assert_eq!(
        reason(flat_in(&store, manifest)),
        "the configuration of the image cannot be understood: it names 0 layers, and there are 1"
    );
}

#[test]
fn an_artifact_is_no_image() {
    let store = Store::default();
    let outcome = chosen(&store, b"{\"schemaVersion\":1,\"fsLayers\":[]}".to_vec()).map_err(output);
    assert_eq!(
        outcome.unwrap_err(),
        "the manifest cannot be understood: it is neither an index nor a manifest of an image"
    );
}

#[test]
fn platforms_are_read_as_they_are_printed() {
    let texts = ["linux/amd64", "linux/arm64/v8"];
    let seen = texts.map(|text| text.parse::<Platform>().unwrap().to_string());
    assert_eq!(
        (seen.each_ref().map(String::as_str), here().to_string().as_str()),
        (texts, texts[0])
    );
}
