// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The `needs.json` of an image, and the index of the needs of many.

use cabane_view::{HostNeeds, Meta, NeedIndex, NeedLine};

use super::{Verdict, compare};

/// Reads needs, and takes their lines apart.
pub fn run(bytes: &[u8]) -> Verdict {
    if let Some(index) = NeedIndex::from_bytes(bytes.to_vec()) {
        let again = NeedIndex::from_bytes(index.to_bytes());
        if again.is_none_or(|again| again.to_bytes() != index.to_bytes()) {
            return Verdict::Wrong("an index is not read again".to_owned());
        }
        return Verdict::Accepted;
    }
    let Ok(needs) = HostNeeds::from_json(bytes) else {
        return Verdict::Refused;
    };
    let lines = Meta::default().need_lines(Some(&needs));
    let scanned = lines.lines().filter_map(NeedLine::read);
    let scanned = scanned.filter(|line| matches!(line, NeedLine::Scanned { .. })).count();
    if scanned != usize::from(!needs.incomplete) {
        return Verdict::Wrong(format!("{scanned} lines say that the image was read"));
    }
    let printed = needs.to_json();
    compare(&needs, &printed, HostNeeds::from_json(printed.as_bytes()))
}
