// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The section `tree:`.

use cabane_label::{MountPoint, ParseError};

use super::path::{Reach, path};
use crate::ask::{Field, Section};
use crate::recipe::TreeConfig;

pub(super) const KEYS: &[&str] = &["source", "relocate"];

const ADD_SECTION: &str = "add the directory that becomes the image:\ntree:\n  source: /opt/tools";

pub(super) fn read(file: &Section<'_>) -> Option<TreeConfig> {
    let field = file.require("tree", ADD_SECTION)?;
    let section = field.section_with(KEYS)?;
    let hint = "add the directory that becomes the image: `source: /opt/tools`";
    let source = section.require("source", hint).and_then(|field| path(&field, Reach::Anywhere));
    let installed_at = section.optional("relocate", relocate);
    Some(TreeConfig { source: source?, installed_at: installed_at? })
}

/// Reads where the tree was installed.
fn relocate(field: &Field<'_>) -> Option<MountPoint> {
    let section = field.section_with(&["from"])?;
    let hint = "add the directory where it was installed: `from: /apps/easybuild`";
    section.needed("from", hint, |from| {
        let text = from.text()?;
        let noted = |error: ParseError| from.parse_error(text, &error);
        MountPoint::below_root(text).map_err(noted).ok()
    })
}
