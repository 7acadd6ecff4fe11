// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Containers: importing them, starting them, messages between ranks in them, and the audit of
//! the machine's MPIs.

use crate::bed::Bed;
use crate::options::Options;
use crate::report::Section;
use crate::{
    container_audit, container_crowd, container_import, container_layout, container_messages,
    container_start,
};

/// How large the files of the image are of which there are 100 MB when they are compressed.
const SMALL: u64 = 300_000_000;

pub(crate) fn sections(bed: &Bed, options: &Options) -> Vec<Section> {
    let small = container_layout::make(bed, "layout-small", SMALL);
    vec![
        container_import::section(bed, options, &small),
        container_crowd::section(bed, options),
        container_start::section(bed, options, &small),
        container_messages::section(bed, options),
        container_audit::section(bed, options),
    ]
}
