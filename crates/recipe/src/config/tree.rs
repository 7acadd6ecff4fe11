// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The section `tree:`.

use super::path::{Reach, path};
use crate::ask::Section;
use crate::recipe::TreeConfig;

pub(super) const KEYS: &[&str] = &["source"];

const ADD_SECTION: &str = "add the directory that becomes the image:\ntree:\n  source: /opt/tools";

pub(super) fn read(file: &Section<'_>) -> Option<TreeConfig> {
    let field = file.require("tree", ADD_SECTION)?;
    let section = field.section_with(KEYS)?;
    let hint = "add the directory that becomes the image: `source: /opt/tools`";
    let source = section.require("source", hint)?;
    let source = path(&source, Reach::Anywhere)?;
    Some(TreeConfig { source })
}
