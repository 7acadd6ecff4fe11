// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What was typed, as words of a command that means the same in any directory.

use std::path::Path;

use cabane_environment::{ImageRequest, add_binds, find_image_record, reference};
use cabane_label::{
    ImageDescription, LabelPattern, SystemPattern, UenvDescription, parse_uenv_list, shown,
};
use cabane_recipe::EnvironmentReference;
use cabane_report::{Kind, Report, Result};
use cabane_resolve::LocatedImage;
use cabane_run::loaded::Additions;
use cabane_site::Context;

use crate::InstallRequest;

/// Returns the request with full labels and absolute paths, or with digests if it is pinned.
///
/// # Errors
///
/// There is no such image, or a path that cannot be written in a list of images.
pub(crate) fn settled(context: &Context, typed: &InstallRequest) -> Result<ImageRequest> {
    let mut request = ImageRequest { tells_choice: false, ..typed.images.clone() };
    if let Some(images) = &typed.images.images {
        let mut settled = Vec::new();
        for description in parse_uenv_list(images)? {
            settled.push(settled_image(context, description, typed.is_pinned)?);
        }
        let texts: Vec<String> = settled.iter().map(ToString::to_string).collect();
        let text = texts.join(",");
        if parse_uenv_list(&text).ok().as_ref() != Some(&settled) {
            let message = format!("cannot write these images as a list: {text}");
            let hint = "move the file to a directory without `,` and `:` in its name";
            return Err(Report::new(Kind::BadInput, message).hinted(hint.to_owned()));
        }
        request.images = Some(text);
    }
    if let Some(name) = &typed.images.environment {
        request.environment = Some(match reference(name)? {
            EnvironmentReference::Name(name) => name,
            EnvironmentReference::Path(path) => text_of(&path)?,
        });
    }
    Ok(request)
}

fn settled_image(
    context: &Context,
    mut description: UenvDescription,
    is_pinned: bool,
) -> Result<UenvDescription> {
    description.image = match description.image {
        ImageDescription::Path(path) => {
            let path = std::path::absolute(&path)
                .map_err(|error| Report::caused(Kind::Failure, "cannot find the image", error))?;
            ImageDescription::Path(text_of(&path)?.into())
        }
        typed => settled_label(typed.clone(), find_image_record(context, &typed)?, is_pinned),
    };
    Ok(description)
}

/// Fills in a label, so that a second image of the name is not in its way. The microarchitecture stays
/// open, because another node may need another build.
fn settled_label(
    typed: ImageDescription,
    found: LocatedImage,
    is_pinned: bool,
) -> ImageDescription {
    match (typed, found.label, found.digest) {
        (ImageDescription::Pattern(pattern), Some(label), _) if !is_pinned => {
            ImageDescription::Pattern(LabelPattern {
                namespace: pattern.namespace,
                name: Some(label.name),
                version: Some(label.version),
                tag: Some(label.tag),
                system: Some(SystemPattern::Is(label.system)),
                uarch: pattern.uarch,
            })
        }
        (_, _, Some(digest)) => ImageDescription::Digest(digest),
        (typed, ..) => typed,
    }
}

/// Returns the options of `cabane run` for a request, without the images.
///
/// # Errors
///
/// A bind that does not say what is shown where, or a path that is not UTF-8.
pub(crate) fn options(
    context: &Context,
    request: &ImageRequest,
    typed: &InstallRequest,
) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut push = |option: &str, value: &str| words.push(format!("{option}={value}"));
    if let Some(environment) = &request.environment {
        push("--environment", environment);
    }
    if let Some(view) = &request.view {
        push("--view", view);
    }
    let mut additions = Additions::default();
    add_binds(context, &typed.root.binds, &mut additions)?;
    for bind in &additions.binds {
        let source = text_of(&bind.source)?;
        if source.contains(':') {
            let message = format!("cannot show {} inside: `:` in its path", shown(&bind.source));
            return Err(Report::new(Kind::BadInput, message));
        }
        let ending = if bind.read_only { ":ro" } else { "" };
        push("--bind", &format!("{source}:{}{ending}", bind.target));
    }
    for device in &typed.root.devices {
        push("--device", &device.to_string());
    }
    if let Some(mpi) = &typed.mpi {
        push("--mpi", mpi);
    }
    if let Some(program) = &typed.mpi_program {
        push("--mpi-program", &text_of(program)?);
    }
    if let Some(Some(directory)) = &typed.root.writable {
        let directory = std::path::absolute(directory)
            .map_err(|error| Report::caused(Kind::Failure, "cannot find the directory", error))?;
        push("--writable", &text_of(&directory)?);
    }
    let flags = [
        (request.no_default_view, "--no-default-view"),
        (typed.root.writable == Some(None), "--writable"),
        (typed.root.no_home, "--no-home"),
        (typed.root.entrypoint, "--entrypoint"),
    ];
    words
        .extend(flags.iter().filter(|(is_given, _)| *is_given).map(|(_, flag)| (*flag).to_owned()));
    Ok(words)
}

/// Returns a path as text, which is all that JSON has.
pub(crate) fn text_of(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        let message = format!("cannot write {} to `kernel.json`: it is not UTF-8", shown(path));
        Report::new(Kind::BadInput, message)
    })
}
