// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Container images: in SIF files, in archives of OCI and of `docker save`, and their layers.

use std::io::Cursor;
use std::path::Path;
use std::process::Command;

use cabane_container::{
    Config, ContainerImage, DockerArchive, Error, Layer, Layout, Platform, Progress, Request, Sif,
    library_of,
};
use cabane_report::Kind;

use super::Verdict;
use super::memory::{MemoryFile, memory};
use super::parts::{Known, member, mend_all, split};

struct Quiet;

impl Progress for Quiet {
    fn read(&self, _: u64, _: Option<u64>) {}

    fn go_on(&self) -> bool {
        true
    }
}

/// Finds the root file system of a SIF image.
pub fn sif(bytes: &[u8]) -> Verdict {
    let Ok(file) = MemoryFile::with(bytes) else {
        return Verdict::Refused;
    };
    match Sif::open(&file.path(), &amd64()) {
        Ok(_) if Sif::is_one(bytes) => Verdict::Accepted,
        Ok(_) => Verdict::Wrong("it is no image, and was opened as one".to_owned()),
        Err(error) => check(&error),
    }
}

/// Reads an archive of images as an OCI layout and as what `docker save` writes.
///
/// A file `blob NAME` of the input is kept under its digest; `layer NAME` is the same, with the
/// sums of its headers set right.
pub fn archive(bytes: &[u8]) -> Verdict {
    let (mut archive, mut known) = (Vec::new(), Known::default());
    for (name, content) in split(bytes) {
        let mut content = known.fill(&content);
        if name.starts_with(b"layer ") {
            mend_all(&mut content);
        }
        let kinds: [&[u8]; 2] = [b"layer ", b"blob "];
        if let Some(name) = kinds.iter().find_map(|kind| name.strip_prefix(*kind)) {
            let digest = known.add(name, &content);
            let place = format!("blobs/sha256/{digest}");
            member(&mut archive, place.as_bytes(), &content);
        } else {
            known.add(&name, &content);
            member(&mut archive, &name, &content);
        }
    }
    let Ok(file) = MemoryFile::with(&archive) else {
        return Verdict::Refused;
    };
    let scratch = &memory();
    let verdicts = [read_layout(&file.path(), scratch), read_saved(&file.path(), scratch)];
    let mut verdict = Verdict::Refused;
    for one in verdicts {
        match one.map_or_else(|error| check(&error), |()| Verdict::Accepted) {
            wrong @ Verdict::Wrong(_) => return wrong,
            Verdict::Accepted => verdict = Verdict::Accepted,
            Verdict::Refused => {}
        }
    }
    verdict
}

fn read_layout(path: &Path, scratch: &Path) -> Result<(), Error> {
    let layout = Layout::open(path, scratch)?;
    if !layout.is_one() {
        return Ok(());
    }
    for name in [None, Some("latest")] {
        let read = || {
            let chosen = layout.choose(name, &amd64())?;
            let image = ContainerImage::new(&chosen, &layout, &amd64())?;
            library_of(&image, &Quiet)
        };
        read()?;
    }
    Ok(())
}

fn read_saved(path: &Path, scratch: &Path) -> Result<(), Error> {
    let saved = DockerArchive::open(path, scratch)?;
    for name in [None, Some("app:1")] {
        let (image, _) = saved.image(name, &amd64())?;
        library_of(&image, &Quiet)?;
    }
    Ok(())
}

/// Puts layers on top of each other: a line `--- ` before each.
pub fn layers(bytes: &[u8]) -> Verdict {
    match library_of(&of_layers(bytes), &Quiet) {
        Ok(_) => Verdict::Accepted,
        Err(error) => check(&error),
    }
}

/// Makes an image of layers, which is read to its last name by another program.
///
/// Only what is in the layers may be the reason if there is none.
pub fn convert(bytes: &[u8]) -> Verdict {
    let image = of_layers(bytes);
    let Ok(place) = tempfile::tempdir_in(memory()) else {
        return Verdict::Refused;
    };
    let output = place.path().join("image.squashfs");
    let request = Request {
        reference: "registry.test/fuzz:latest",
        working_directory: None,
        packages: None,
        output: &output,
        mksquashfs: Path::new("mksquashfs"),
        jobs: 1,
        max_unpacked: 16 << 20,
    };
    match cabane_container::convert(&image, &request, &Quiet) {
        Ok(_) => {}
        Err(error) if is_failure(&error) => {
            return Verdict::Wrong(format!("these layers make no image: {error}"));
        }
        Err(error) => return check(&error),
    }
    let mut unsquashfs = Command::new("unsquashfs");
    let listed = unsquashfs.arg("-lls").arg(&output).output();
    match listed {
        Ok(listed) if listed.status.success() && listed.stderr.is_empty() => Verdict::Accepted,
        Ok(listed) => {
            let printed = String::from_utf8_lossy(&listed.stderr).into_owned();
            Verdict::Wrong(format!("the image cannot be read: {printed}"))
        }
        Err(error) => Verdict::Wrong(format!("unsquashfs cannot be run: {error}")),
    }
}

fn of_layers(bytes: &[u8]) -> ContainerImage<'static> {
    let layer = |(name, mut content): (Vec<u8>, Vec<u8>)| {
        mend_all(&mut content);
        let has = |letter| name.contains(&letter);
        Layer {
            name: "layer".to_owned(),
            size: None,
            digest: None,
            diff_id: None,
            is_of_container: !has(b'w'),
            open: Box::new(move || Ok(Box::new(Cursor::new(content.clone())))),
        }
    };
    ContainerImage {
        config: Config::default(),
        layers: split(bytes).into_iter().map(layer).collect(),
        platform: amd64(),
        manifest: None,
        index: None,
        configuration: None,
    }
}

fn amd64() -> Platform {
    Platform { os: "linux".to_owned(), architecture: "amd64".to_owned(), variant: None }
}

/// Whether nothing was wrong with the input.
fn is_failure(error: &Error) -> bool {
    match error {
        Error::Io { .. } => true,
        Error::Refused(report) => report.kind() == Kind::Failure,
        _ => false,
    }
}

/// Checks that an error can be shown on a terminal.
fn check(error: &Error) -> Verdict {
    let shown = error.to_string();
    if shown.chars().any(|c| c.is_control() && c != '\n') {
        return Verdict::Wrong(format!("this cannot be shown: {shown:?}"));
    }
    Verdict::Refused
}
