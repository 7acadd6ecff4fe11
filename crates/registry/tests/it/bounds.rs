// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Each answer that a registry makes longer than it may be.

use std::collections::BTreeMap;

use cabane_registry::{ChannelPlace, Listing, Options, Place, Registry, RemoteImage, Wanted, sum};
use serde_json::{Value, json};

use crate::bed::options;
use crate::hostile::Server;

const REPOSITORY: &str = "deploy/here/any/app/1.0";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const MIB: u64 = 1 << 20;

fn place() -> Place {
    Place { namespace: "deploy".parse().unwrap(), label: "app/1.0:v1@here%any".parse().unwrap() }
}

/// What a registry answers, by the path of the request.
#[derive(Default)]
struct World(BTreeMap<String, String>);

impl World {
    /// With an image.
    fn new() -> (Self, String) {
        let mut world = Self::default();
        let layer = descriptor("application/x-squashfs", &"0".repeat(64), MIB);
        let manifest = manifest("application/x-squashfs", &[layer]).to_string();
        world.add(&format!("{REPOSITORY}/manifests/v1"), &manifest);
        let digest = digest(&manifest);
        (world, digest)
    }

    fn add(&mut self, path: &str, body: &str) {
        self.0.insert(format!("/v2/{path}"), body.to_owned());
    }

    /// Attaches a document with one layer to the image.
    fn attach(&mut self, image: &str, kind: &str, layer: &Value) {
        let attached = manifest(kind, std::slice::from_ref(layer)).to_string();
        let own = digest(&attached);
        self.add(&format!("{REPOSITORY}/manifests/sha256:{own}"), &attached);
        let mut entry = descriptor(MANIFEST, &own, attached.len() as u64);
        entry["artifactType"] = kind.into();
        let index = json!({ "schemaVersion": 2, "manifests": [entry] });
        self.add(&format!("{REPOSITORY}/referrers/sha256:{image}"), &index.to_string());
    }

    fn start(self) -> Server {
        Server::start(move |path, _| {
            let path = path.split('?').next().unwrap_or_default();
            match self.0.get(path) {
                Some(body) => (200, Vec::new(), body.clone()),
                None => (404, Vec::new(), String::new()),
            }
        })
    }
}

fn digest(text: &str) -> String {
    sum::bytes(text.as_bytes()).to_string()
}

fn descriptor(kind: &str, digest: &str, size: u64) -> Value {
    json!({ "mediaType": kind, "digest": format!("sha256:{digest}"), "size": size })
}

fn manifest(kind: &str, layers: &[Value]) -> Value {
    let config = descriptor("application/vnd.oci.empty.v1+json", &digest("{}"), 2);
    json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": kind, "config": config,
        "layers": layers,
    })
}

fn image(registry: &Registry) -> RemoteImage {
    registry.image(&place()).unwrap()
}

/// Whether anyone asked for a blob.
fn asks_for_blobs(server: &Server) -> bool {
    server.requests.lock().unwrap().iter().any(|head| head.contains("/blobs/"))
}

#[test]
fn a_manifest_that_is_too_large_is_not_read_to_its_end() {
    let mut world = World::default();
    let padding = " ".repeat(5 << 20);
    world.add(&format!("{REPOSITORY}/manifests/v1"), &padding);
    let error = world.start().registry().image(&place()).unwrap_err().to_string();
    assert!(error.contains("more than 4194304 bytes"), "{error}");
}

#[test]
fn a_list_of_what_refers_to_an_image_has_a_limit() {
    let (mut world, image_digest) = World::new();
    let path = format!("{REPOSITORY}/referrers/sha256:{image_digest}");
    world.add(&path, &" ".repeat(5 << 20));
    let server = world.start();
    let registry = server.registry();
    let into = tempfile::tempdir().unwrap();
    let error = registry.fetch_meta(&image(&registry), into.path()).unwrap_err().to_string();
    assert!(error.contains("more than 4194304 bytes"), "{error}");
}

#[test]
fn attached_documents_that_are_announced_as_too_large_are_not_requested() {
    let into = tempfile::tempdir().unwrap();
    let attached = |kind: &str, size: u64| {
        let (mut world, image) = World::new();
        world.attach(&image, kind, &descriptor("application/octet-stream", &digest("x"), size));
        world.start()
    };
    let server = attached("uenv/meta", 64 * MIB + 1);
    let registry = server.registry();
    let error = registry.fetch_meta(&image(&registry), into.path()).unwrap_err().to_string();
    assert!(error.contains("67108864 are the limit"), "{error}");
    assert!(!asks_for_blobs(&server));
    let server = attached("application/vnd.cabane.verity.signature.v1", 16 * 1024 + 1);
    let registry = server.registry();
    let error = registry.root_signature(&image(&registry)).unwrap_err().to_string();
    assert!(error.contains("16384 are the limit"), "{error}");
    assert!(!asks_for_blobs(&server));
}

#[test]
fn a_statement_that_is_announced_as_too_large_is_left_out() {
    let kind = "application/vnd.dev.sigstore.bundle.v0.3+json";
    let of_size = |size: u64, bundle: &str| {
        let (mut world, image) = World::new();
        let mut attached = manifest(kind, &[descriptor(kind, &digest(bundle), size)]);
        attached["subject"] = descriptor(MANIFEST, &image, 1);
        let attached = attached.to_string();
        let own = digest(&attached);
        world.add(&format!("{REPOSITORY}/manifests/sha256:{own}"), &attached);
        world.add(&format!("{REPOSITORY}/blobs/sha256:{}", digest(bundle)), bundle);
        let mut entry = descriptor(MANIFEST, &own, attached.len() as u64);
        entry["artifactType"] = kind.into();
        let index = json!({ "schemaVersion": 2, "manifests": [entry] });
        world.add(&format!("{REPOSITORY}/referrers/sha256:{image}"), &index.to_string());
        world.start()
    };
    let found = |server: &Server| {
        let registry = server.registry();
        registry.attestations(&image(&registry)).unwrap().attestations
    };
    assert_eq!(found(&of_size(2, "{}"))[0].bundle, b"{}");
    let server = of_size(cabane_registry::MAX_BUNDLE + 1, "{}");
    assert!(found(&server).is_empty());
    assert!(!asks_for_blobs(&server));
    // A server that sends more than it announced is none to trust.
    let server = of_size(1, "{}");
    let registry = server.registry();
    let error = registry.attestations(&image(&registry)).unwrap_err().to_string();
    assert!(error.contains("more than 1 bytes"), "{error}");
}

#[test]
fn a_blob_that_is_longer_than_announced_is_not_read_to_its_end() {
    let (mut world, image_digest) = World::new();
    let blob = "x".repeat(1 << 20);
    world.attach(&image_digest, "uenv/meta", &descriptor("x/y", &digest(&blob), 10));
    world.add(&format!("{REPOSITORY}/blobs/sha256:{}", digest(&blob)), &blob);
    let server = world.start();
    let registry = server.registry();
    let into = tempfile::tempdir().unwrap();
    let error = registry.fetch_meta(&image(&registry), into.path()).unwrap_err().to_string();
    assert!(error.contains("more than 10 bytes"), "{error}");
}

#[test]
fn no_more_signatures_are_looked_at_than_there_may_be() {
    let (mut world, image_digest) = World::new();
    let layer = descriptor("application/vnd.dev.cosign.simplesigning.v1+json", &digest("x"), 1);
    let mut layers = Vec::new();
    for number in 0..2000 {
        let mut layer = layer.clone();
        layer["annotations"] = json!({ "dev.cosignproject.cosign/signature": number.to_string() });
        layers.push(layer);
    }
    let path = format!("{REPOSITORY}/manifests/sha256-{image_digest}.sig");
    world.add(&path, &manifest("x/y", &layers).to_string());
    world.add(&format!("{REPOSITORY}/blobs/sha256:{}", digest("x")), "x");
    let server = world.start();
    let registry = server.registry();
    let _ = registry.signatures(&image(&registry));
    let requests = server.requests.lock().unwrap();
    let blobs = requests.iter().filter(|head| head.contains("/blobs/")).count();
    assert!(blobs <= 256, "{blobs}");
}

#[test]
fn the_document_of_a_channel_has_a_limit() {
    let mut world = World::default();
    let layer = descriptor("application/vnd.dsse.envelope.v1+json", &digest("x"), 4 * MIB + 1);
    let document = manifest("application/vnd.cabane.channel.v1", &[layer]).to_string();
    world.add("deploy/cabane-channel/here/manifests/stable", &document);
    let server = world.start();
    let channel = ChannelPlace {
        namespace: "deploy".parse().unwrap(),
        name: "stable".parse().unwrap(),
        system: "here".parse().unwrap(),
    };
    let error = server.registry().channel_document(&channel, None).unwrap_err().to_string();
    assert!(error.contains("is not the document of a channel"), "{error}");
    assert!(!asks_for_blobs(&server));
}

#[test]
fn the_list_of_a_service_has_a_limit() {
    let server = Server::start(|_, _| (200, Vec::new(), " ".repeat(65 << 20)));
    let listing_url = Some(format!("http://{}/list", server.address));
    let registry = server.registry_with(&Options { listing_url, ..options() });
    let namespace = "deploy".parse().unwrap();
    let how = cabane_label::NameMatch::Exact;
    let wanted = Wanted { namespace: &namespace, pattern: None, how };
    let error = registry.find(&wanted, Listing::Auto).unwrap_err().to_string();
    assert!(error.contains("more than 67108864 bytes"), "{error}");
}

#[test]
fn what_a_registry_says_of_an_error_is_short() {
    let server = Server::start(|_, _| {
        let errors = json!({ "errors": [{ "code": "DENIED", "message": "x".repeat(10_000) }] });
        (400, Vec::new(), errors.to_string())
    });
    let error = server.registry().image(&place()).unwrap_err().to_string();
    assert!(error.contains("DENIED: xxx") && error.len() < 600, "{error}");
    // More than is read for that is no explanation.
    let server = Server::start(|_, _| {
        let errors = json!({ "errors": [{ "code": "DENIED", "message": "x".repeat(100_000) }] });
        (400, Vec::new(), errors.to_string())
    });
    let error = server.registry().image(&place()).unwrap_err().to_string();
    assert!(error.contains("answers 400") && error.len() < 600, "{error}");
}
