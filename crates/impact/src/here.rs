// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whether an image runs on this host.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cabane_environment::{fill_in_metadata, find_image};
use cabane_image_search::need_lines;
use cabane_label::ImageDescription;
use cabane_report::Result;
use cabane_resolve::LocatedImage;
use cabane_run::difference::read_meta_file;
use cabane_run::open_image;
use cabane_site::Context;
use cabane_view::{HostNeeds, NeedLine};
use serde::{Deserialize, Serialize};

use crate::collect::collect;
use crate::{Reason, Verdict, on_host};

/// What was found about an image on this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Here {
    /// The image, by its label or path.
    pub image: String,
    /// Whether it runs.
    pub verdict: Verdict,
    /// Why not.
    pub reasons: Vec<Reason>,
}

/// Checks whether this host has what an image needs, from the metadata of the image.
///
/// # Errors
///
/// No such image, or metadata that cannot be read.
pub fn check_here(context: &Context, image: &ImageDescription) -> Result<Here> {
    let mut located = find_image(context, image)?;
    fill_in_metadata(context, &mut located)?;
    let name = match &located.label {
        Some(label) => label.to_string(),
        None => located.path.display().to_string(),
    };
    let (verdict, reasons) = if let Some(lines) = lines_of(context, &located)? {
        judge(context, &lines)
    } else {
        let chain = vec!["it has no metadata that say what it needs".to_owned()];
        (Verdict::Unknown, vec![Reason { verdict: Verdict::Unknown, chain }])
    };
    Ok(Here { image: name, verdict, reasons })
}

fn lines_of(context: &Context, located: &LocatedImage) -> Result<Option<String>> {
    let file = open_image(&located.path, located.format)?;
    let beside = located.metadata_directory();
    let methods = context.mount_methods();
    let needs = read_meta_file(&file, beside.as_deref(), &methods, HostNeeds::FILE)?;
    if let Some(meta) = &located.meta {
        let needs = needs.and_then(|text| HostNeeds::from_json(&text).ok());
        return Ok(Some(meta.need_lines(needs.as_ref())));
    }
    let mut needs = needs;
    Ok(need_lines(|name| if name == HostNeeds::FILE { needs.take() } else { None }))
}

fn judge(context: &Context, lines: &str) -> (Verdict, Vec<Reason>) {
    let read: Vec<NeedLine<'_>> = lines.lines().filter_map(NeedLine::read).collect();
    let list = context.calling.get(OsStr::new("LD_LIBRARY_PATH"));
    let list = list.map_or(&[][..], |list| list.as_bytes()).split(|byte| *byte == b':');
    let mut directories: Vec<PathBuf> =
        list.map(|part| PathBuf::from(OsStr::from_bytes(part))).collect();
    directories.extend(read.iter().filter_map(|line| match line {
        NeedLine::SearchPath(path) => Some(PathBuf::from(path)),
        _ => None,
    }));
    directories.retain(|path| path.is_absolute());
    let mut facts = collect(Path::new("/"), None, &directories);
    // A directory that is not there has no libraries.
    facts.searched.extend(directories);
    for line in &read {
        // An interpreter may be anywhere, and here it can be seen.
        if let NeedLine::Interpreter { path, .. } = line {
            let path = Path::new(path);
            if path.is_file() {
                facts.python.push(path.to_owned());
            } else if let Some(parent) = path.parent() {
                // What else there may be in its directory is covered.
                facts.python.push(parent.join("-"));
            }
        }
    }
    on_host(lines, &facts)
}
