// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The section `tree:`.

use super::path::{Reach, path};
use crate::ask::Section;
use crate::recipe::TreeConfig;
use crate::report::Report;

pub(super) const KEYS: &[&str] = &["source"];

const ADD_SECTION: &str = "add the directory that becomes the image:\ntree:\n  source: /opt/tools";

pub(super) fn read(report: &mut Report<'_>, file: &Section<'_>) -> Option<TreeConfig> {
    let field = file.require(report, "tree", ADD_SECTION)?;
    let section = report.section_with(&field, KEYS)?;
    let hint = "add the directory that becomes the image: `source: /opt/tools`";
    let source = section.require(report, "source", hint)?;
    let source = path(report, &source, Reach::Anywhere)?;
    Some(TreeConfig { source })
}
