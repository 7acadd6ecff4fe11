// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `uenv status`.

use std::ffi::OsStr;
use std::fs;

use cabane_label::escape;
use cabane_report::Result;
use cabane_run::loaded::{CABANE_LOADED, Loaded, LoadedImage, UENV_MOUNT_LIST, UENV_VIEW};
use cabane_view::Meta;

use super::args::{StatusArgs, StatusFormat};
use crate::exit_codes::{self, ExitCode};
use crate::printer::style;
use crate::setup::Setup;

pub(super) fn status(setup: &Setup, args: &StatusArgs) -> Result<ExitCode> {
    let images = loaded(setup).images;
    if images.is_empty() {
        if args.format == StatusFormat::Full {
            setup.printer.data("there is no uenv loaded\n");
        }
        let code = if args.error_if_unset { exit_codes::FAILURE } else { exit_codes::SUCCESS };
        return Ok(code);
    }
    let list = |text: &dyn Fn(&LoadedImage) -> String| {
        let all: Vec<_> = images.iter().map(text).collect();
        format!("{}\n", all.join(","))
    };
    setup.printer.data(match args.format {
        StatusFormat::Full => images.iter().map(full).collect(),
        StatusFormat::Short => list(&|image| image.name.clone()),
        StatusFormat::Views => list(&|image| match image.views.as_slice() {
            [] => image.name.clone(),
            views => format!("{}[{}]", image.name, views.join(",")),
        }),
    });
    Ok(exit_codes::SUCCESS)
}

/// Returns what is loaded, also by uenv itself.
fn loaded(setup: &Setup) -> Loaded {
    let text = |name| setup.calling.get(OsStr::new(name)).and_then(|value| value.to_str());
    let own = text(CABANE_LOADED).and_then(Loaded::from_variable);
    if let Some(own) = own.filter(|own| !own.images.is_empty()) {
        return own;
    }
    let mut loaded = Loaded::from_mount_list(text(UENV_MOUNT_LIST).unwrap_or_default());
    for image in &mut loaded.images {
        if let Some(meta) = meta_of(image) {
            image.name = meta.name;
        }
        let views = text(UENV_VIEW).unwrap_or_default().split(',');
        let own = views.filter_map(|view| {
            let (place, rest) = view.split_once(':')?;
            let (name, view) = rest.split_once(':')?;
            (image.mount_point.as_os_str() == place).then(|| (name.to_owned(), view.to_owned()))
        });
        for (name, view) in own {
            image.name = name;
            image.views.push(view);
        }
    }
    loaded
}

/// Reads the metadata of an image where it is mounted, or beside its file.
fn meta_of(image: &LoadedImage) -> Option<Meta> {
    let beside = image.path.parent()?;
    let places = [image.mount_point.as_path(), beside];
    let mut texts = places.iter().filter_map(|place| fs::read(place.join("meta/env.json")).ok());
    texts.find_map(|text| Meta::from_json(&text).ok())
}

fn full(image: &LoadedImage) -> String {
    let accent = style::ACCENT;
    let mut text =
        format!("{accent}{}{accent:#}:{}\n", escape(&image.name), image.mount_point.display());
    let Some(meta) = meta_of(image) else {
        return text;
    };
    if let Some(description) = &meta.description {
        text += &format!("  {}\n", escape(description));
    }
    if !meta.views.is_empty() {
        text += "  views:\n";
    }
    for (name, view) in &meta.views {
        let is_loaded = image.views.iter().any(|loaded| loaded == name.as_str());
        let loaded = if is_loaded { " (loaded)" } else { "" };
        let description = escape(view.description.as_deref().unwrap_or_default());
        text += &format!("    {accent}{name}{accent:#}{loaded}: {description}\n");
    }
    text
}
