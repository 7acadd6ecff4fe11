// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Layers that unpack to more than anyone wants.

use std::io::{self, Cursor, Read};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use cabane_container::{Bytes, Config, ContainerImage, Error, Layer, Platform, Progress, convert};
use cabane_report::Report;
use tar::{EntryType, Header};

use crate::kit::{
    Silent, Store, amd64, chosen, file, flat, gzip, here, layer, mksquashfs, output, reason,
    request,
};

const LIMIT: u64 = 10_000_000;

/// Makes an image of a layer within a limit; returns the error.
fn limited(packed: Vec<u8>, plain: &[u8]) -> String {
    let mut store = Store::default();
    let manifest = store.image(&[(packed, plain.to_vec())], amd64());
    let chosen = chosen(&store, manifest).unwrap();
    let image = ContainerImage::new(&chosen, &store, &here()).unwrap();
    let name = image.layers[0].name.clone();
    let place = tempfile::tempdir().unwrap();
    let error = refused(&image, place.path(), &Silent);
    let (text, hints) = Report::from(error).texts();
    let hints = hints.unwrap_or_default();
    assert!(hints.contains("--max-unpacked"), "{text}: {hints}");
    text.replace(&name, "LAYER")
}

fn refused(image: &ContainerImage<'_>, place: &Path, progress: &dyn Progress) -> Error {
    let (output, program) = (place.join("image"), mksquashfs());
    let mut request = request(&output, &program);
    request.max_unpacked = LIMIT;
    let error = convert(image, &request, progress).unwrap_err();
    assert!(!output.exists(), "an import that fails leaves a file");
    error
}

/// A header of a file that announces so many bytes.
fn announces(size: u64) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.set_path("large").unwrap();
    header.set_mode(0o644);
    header.set_size(size);
    header.set_cksum();
    header.as_bytes().to_vec()
}

#[test]
fn a_layer_that_decompresses_to_more_than_the_limit_is_refused() {
    let plain = layer(&[file("a", &"\0".repeat(40_000_000))]);
    let error = limited(gzip(&plain), &plain);
    assert_eq!(
        error,
        "the layer LAYER cannot be used: it unpacks to at least 40000000 bytes with the layers \
         above it, and the limit is 10000000"
    );
}

#[test]
fn the_files_of_all_layers_count_together() {
    let one = |name: &str| layer(&[file(name, &"x".repeat(6_000_000))]);
    let layers = ["a", "b"].map(|name| (one(name), one(name)));
    let mut store = Store::default();
    let manifest = store.image(&layers, amd64());
    let chosen = chosen(&store, manifest).unwrap();
    let image = ContainerImage::new(&chosen, &store, &here()).unwrap();
    let place = tempfile::tempdir().unwrap();
    let error = output(refused(&image, place.path(), &Silent));
    assert!(error.contains("at least 12000000 bytes"), "{error}");
}

#[test]
fn what_follows_the_end_of_the_archive_counts() {
    let mut plain = layer(&[file("a", "x")]);
    plain.extend(vec![0; 40_000_000]);
    let error = limited(gzip(&plain), &plain);
    assert!(error.contains("and the limit is 10000000"), "{error}");
}

#[test]
fn a_file_that_announces_more_than_the_limit_is_refused_at_its_header() {
    let errors = [1 << 40, 1 << 62, u64::MAX].map(|size| {
        let plain = announces(size);
        limited(plain.clone(), &plain)
    });
    let sizes = ["1099511627776", "4611686018427387904", "18446744073709551615"];
    for (error, size) in errors.iter().zip(sizes) {
        assert!(error.contains(&format!("at least {size} bytes")), "{error}");
    }
}

#[test]
fn a_file_of_holes_counts_with_its_holes() {
    let mut header = Header::new_gnu();
    header.set_path("holes").unwrap();
    header.set_mode(0o644);
    header.set_entry_type(EntryType::GNUSparse);
    header.set_size(0);
    header.as_gnu_mut().unwrap().set_real_size(1 << 60);
    header.set_cksum();
    let plain = header.as_bytes().to_vec();
    let error = limited(plain.clone(), &plain);
    assert!(error.contains("at least 1152921504606846976 bytes"), "{error}");
}

#[test]
fn headers_before_an_entry_have_a_limit_together() {
    let record = format!("{} comment={}\n", 500_000, "x".repeat(500_000 - 16));
    let mut plain = Vec::new();
    for _ in 0..4 {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::XHeader);
        header.set_size(record.len() as u64);
        header.set_cksum();
        plain.extend(header.as_bytes());
        plain.extend(record.as_bytes());
        plain.resize(plain.len().next_multiple_of(512), 0);
    }
    plain.extend(layer(&[file("a", "x")]));
    let text = flat(&[plain]).map(|flat| flat.entries).unwrap_err();
    assert!(text.contains("and 1 MiB is the limit"), "{text}");
}

#[test]
fn paths_have_a_length_and_a_depth_at_most() {
    let long = |name: &str| {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(0);
        builder.append_data(&mut header, name, io::empty()).unwrap();
        reason(flat(&[builder.into_inner().unwrap()]))
    };
    let (wide, deep) = (["x".repeat(200).as_str()].repeat(21).join("/"), ["x"; 513].join("/"));
    let reasons = [wide, deep].map(|name| long(&name));
    assert!(reasons.iter().all(|reason| reason.ends_with("is too long")), "{reasons:?}");
}

/// Lets go on for a while.
struct Patient(AtomicUsize);

impl Progress for Patient {
    fn read(&self, _: u64, _: Option<u64>) {}
    fn go_on(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) < 100
    }
}

#[test]
fn an_interrupt_counts_in_the_middle_of_a_file() {
    let open = || -> io::Result<Bytes<'_>> {
        let content = Cursor::new(announces(LIMIT)).chain(io::repeat(b'x').take(100));
        // What follows never comes: only a look between two reads ends here.
        Ok(Box::new(content.chain(Slow)))
    };
    let image = ContainerImage {
        config: Config::default(),
        layers: vec![Layer {
            name: "endless".to_owned(),
            size: None,
            digest: None,
            diff_id: None,
            is_of_container: true,
            open: Box::new(open),
        }],
        platform: Platform::of_machine("x86_64"),
        manifest: None,
        index: None,
        configuration: None,
    };
    let place = tempfile::tempdir().unwrap();
    let error = refused(&image, place.path(), &Patient(AtomicUsize::new(0)));
    assert!(matches!(error, Error::Interrupted), "{error}");
}

/// A byte at a time.
struct Slow;

impl Read for Slow {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        std::thread::sleep(std::time::Duration::from_millis(1));
        Ok(buffer.first_mut().map_or(0, |byte| {
            *byte = b'x';
            1
        }))
    }
}
