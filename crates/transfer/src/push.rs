// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images of the repository, and files, become images of a registry.

use std::io::ErrorKind;
use std::path::PathBuf;

use cabane_environment::find_image;
use cabane_evidence as evidence;
use cabane_label::{Digest, ImageDescription, LabelPattern};
use cabane_mount::Verity;
use cabane_process::Scratch;
use cabane_registry::{Format, PushRequest, Pushed, SigningKey, sum};
use cabane_report::{IoContext, Result};
use cabane_repository::ImageFormat;
use cabane_resolve::LocatedImage;
use cabane_run::difference::lines_beside;
use cabane_signature_policy as signature_policy;
use cabane_site::Context;
use cabane_view::Meta;
use jiff::Timestamp;

use crate::bases;
use crate::pull::copy_metadata;
use crate::registry::Connection;

/// What is to be pushed, and how.
#[derive(Clone, Debug)]
pub struct Upload {
    /// An image file, or an image of a repository, as it is typed.
    pub image: String,
    /// The label in the registry, as it is typed; by default that of the image.
    pub label: Option<String>,
    /// Whether the label is taken from the image that has it in the registry.
    pub force: bool,
    /// The private key with which the image is signed.
    pub sign: Option<PathBuf>,
}

/// Uploads an image, and keeps the signatures that it has then beside it. Returns what was pushed,
/// and the key with which it was signed.
///
/// # Errors
///
/// What is malformed, is not there or cannot be read, a label that is taken, and those of uploading.
pub fn push(
    context: &Context,
    connection: &Connection,
    upload: &Upload,
) -> Result<(Pushed, Option<SigningKey>)> {
    let key = upload.sign.as_deref();
    let key = key.map(|path| signature_policy::signing_key(context, path)).transpose()?;
    let description: ImageDescription = upload.image.parse()?;
    let pattern = upload.label.as_deref().map(str::parse::<LabelPattern>);
    let pattern = pattern.transpose()?;
    let located = find_image(context, &description)?;
    let pattern = match (pattern, &located.label) {
        (Some(pattern), _) => pattern,
        (None, Some(label)) => LabelPattern::from(label),
        // Then the name says at least what is missing.
        (None, None) => LabelPattern::default(),
    };
    let place = connection.new_place(context, &pattern)?;
    let path = &located.path;
    let file = std::fs::metadata(path).or_failed(|| format!("read {}", path.display()))?;
    let directory = Scratch::new().or_failed(|| "make a temporary directory".to_owned())?;
    let meta = metadata_of(context, &located, directory.path())?;
    let packages = lines_beside(&meta);
    let cache = context.settings.cache_directory.value.as_ref();
    let notes = cache.map(|cache| cache.join("uploads"));
    let [_, root_signature] = Verity::beside(path);
    let root_signature = match std::fs::read(&root_signature) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        read => Some(read.or_failed(|| format!("read {}", root_signature.display()))?),
    };
    let request = PushRequest {
        place: &place,
        image: path,
        digest: digest_of(context, &located)?,
        size: file.len(),
        format: match located.format {
            ImageFormat::Erofs => Format::Erofs,
            ImageFormat::Squashfs => Format::Squashfs,
        },
        meta: Some(&meta),
        packages: packages.as_deref(),
        created: date_of(&file),
        replace: upload.force,
        notes: notes.as_deref(),
        root_signature: root_signature.as_deref(),
        sign: key.as_ref(),
    };
    let watched = context.transfer(&format!("pushing {place}"));
    let pushed = connection.registry.push(&request, &mut |done, total| {
        watched.show(done, total);
    });
    watched.end();
    let pushed = pushed?;
    remember(context, connection, &located, &pushed);
    let meta = std::fs::read(meta.join(bases::ENV_JSON)).ok();
    let meta = meta.and_then(|text| Meta::from_json(&text).ok());
    bases::hold(context, connection, &pushed.image, meta.as_ref());
    for statement in evidence::kept(context, &pushed.image.digest)? {
        evidence::attach(&connection.registry, &pushed.image, &statement)?;
    }
    let key = key.filter(|_| pushed.signed);
    Ok((pushed, key))
}

/// Returns when the image was made: the same image is the same in the registry, no matter who
/// pushes it and when.
fn date_of(file: &std::fs::Metadata) -> Timestamp {
    let changed = file.modified().ok();
    let date = changed.and_then(|time| Timestamp::try_from(time).ok());
    date.unwrap_or_else(Timestamp::now)
}

pub(crate) fn digest_of(context: &Context, located: &LocatedImage) -> Result<Digest> {
    if let Some(digest) = &located.digest {
        return Ok(digest.clone());
    }
    let watched = context.transfer("summing");
    let digest = sum::file(&located.path, &mut |done, total| watched.show(done, total));
    watched.end();
    Ok(digest?)
}

/// Returns the metadata beside the image, or those in it.
fn metadata_of(
    context: &Context,
    located: &LocatedImage,
    directory: &std::path::Path,
) -> Result<PathBuf> {
    let beside = located.digest.as_ref().map(|_| located.path.with_file_name("meta"));
    if let Some(beside) = beside.filter(|beside| beside.is_dir()) {
        return Ok(beside);
    }
    copy_metadata(context, &located.path, located.format, directory)?;
    Ok(directory.to_owned())
}

/// Keeps the signatures that the image has now beside it, so that it can be started where
/// they are wanted.
fn remember(context: &Context, connection: &Connection, located: &LocatedImage, pushed: &Pushed) {
    let mut repositories = context.repositories().unwrap_or_default().into_iter();
    let of_image = repositories.find(|one| Some(&one.name) == located.repository.as_ref());
    let record = connection.registry.fetch_record(&pushed.image);
    if let (Some(of_image), Ok(record)) = (of_image, record) {
        signature_policy::remember(context, &of_image.repository, &pushed.image.digest, record);
    }
}
