// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Programs and libraries of an image.

use std::collections::BTreeSet;
use std::fs::File;

use cabane_compat::Linkage;
use cabane_view::{FileLinks, HostNeeds};

use super::Verdict;
use super::memory::MemoryFile;

/// Reads what a file needs and offers.
pub fn run(bytes: &[u8]) -> Verdict {
    let memory = MemoryFile::with(bytes);
    let file = memory.and_then(|memory| File::open(memory.path()));
    let Some(linkage) = file.ok().and_then(|file| Linkage::read(&file)) else {
        return Verdict::Refused;
    };
    if linkage.links.needed.len() > 1000
        || linkage.needs.len() > 2000
        || linkage.offers.len() > 2000
    {
        return Verdict::Wrong("more is read than the limits allow".to_owned());
    }
    let links = FileLinks {
        path: "file".to_owned(),
        is_program: linkage.is_program,
        soname: linkage.links.soname,
        needed: linkage.links.needed,
        offers: linkage.offers,
        ..FileLinks::default()
    };
    let needs = HostNeeds::gather(vec![links], &BTreeSet::new());
    match HostNeeds::from_json(needs.to_json().as_bytes()) {
        Ok(again) if again == needs => Verdict::Accepted,
        _ => Verdict::Wrong("needs are not read again".to_owned()),
    }
}
