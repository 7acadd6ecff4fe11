// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is reported of an image that was added to a repository.

use cabane_report::size;
use cabane_repository::Added;
use cabane_site::GRACE_DAYS;

use crate::setup::Setup;

/// Prints the changes to the repository.
pub(crate) fn print_changes(setup: &Setup, added: &Added) {
    let record = &added.record;
    let (label, id) = (&record.label, record.digest.id());
    if added.unchanged {
        setup.note(format_args!("{label} already names the image {id}"));
        return;
    }
    setup.note(format_args!("added {label} ({id}, {})", size(record.size)));
    if let Some(replaced) = &added.replaced {
        setup.note(format_args!("the label was taken from the image {}", replaced.id()));
    }
    if let Some(digest) = &added.kept {
        let kept = format_args!(
            "it has no label any more and stays for {GRACE_DAYS} days, for jobs that wait: `cabane \
             image rm {digest}` removes it now"
        );
        setup.note(kept);
    }
    for digest in &added.removed {
        setup.note(format_args!("removed the image {}, which has no label", digest.id()));
    }
    if added.source_remains {
        setup.warning("the file could not be removed from where it was");
    }
}
