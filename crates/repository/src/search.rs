// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Finding records, without a lock, while others write.
//!
//! Nearly always the index is up to date, and what is wanted is taken from its lines. Otherwise
//! the refs are listed. A directory that changes while it is read may show neither the old nor
//! the new ref of a label; the index or a missing image gives that away, and then the reader
//! looks again.

use std::collections::HashSet;
use std::thread::{self, sleep};
use std::time::Duration;

use cabane_label::Label;

use crate::index::{Fields, Index};
use crate::layout::{Layout, NameParts, RefName};
use crate::listing::{Listing, read_index};
use crate::sum::{NameSet, Tally, sum};
use crate::{Error, Record, disk, uenv};

/// How often a reader looks again while others keep changing what it reads.
const LOOKS: u32 = 20;
/// How much longer a reader waits before each further look.
const PAUSE: Duration = Duration::from_micros(500);

/// Which records are wanted. What is not wanted is not read to its end.
pub(crate) struct Wanted<'a> {
    /// Whether the ref with this file name can be wanted; looks at the text only.
    pub(crate) file: &'a dyn Fn(&str) -> bool,
    pub(crate) digest: &'a dyn Fn(&str) -> bool,
    pub(crate) label: &'a dyn Fn(&Label) -> bool,
    /// Whether both say yes to all. Only then is a second thread used: who looks for one image
    /// is about to enter it, and a process with threads cannot enter a user namespace.
    pub(crate) is_everything: bool,
}

/// Returns the wanted records that point to an image, sorted by label.
pub(crate) fn records(layout: &Layout, wanted: &Wanted<'_>) -> Result<Vec<Record>, Error> {
    if layout.is_uenv() {
        return uenv::records(layout, wanted);
    }
    if let Some(records) = from_index(layout, wanted) {
        return Ok(records);
    }
    let mut records = from_refs(layout)?;
    records.retain(|one| (wanted.digest)(one.digest.as_str()) && (wanted.label)(&one.label));
    Ok(records)
}

/// Up to so many images are looked for one by one; for more, their directory is read.
const FEW: usize = 32;

/// Takes the records from the index; `None` unless it knows all refs and the images of the
/// records are there.
fn from_index(layout: &Layout, wanted: &Wanted<'_>) -> Option<Vec<Record>> {
    let bytes = read_index(layout);
    let index = Index::open(&bytes)?;
    if wanted.is_everything {
        // Reading directories is most of the work; meanwhile the lines are taken apart.
        return thread::scope(|scope| {
            let fits = scope.spawn(|| knows_refs(layout, index) && has_images(layout, index));
            let records = pick(index, wanted);
            fits.join().is_ok_and(|fits| fits).then_some(records)?
        });
    }
    // The refs before the images: an image is there before its ref.
    let records = knows_refs(layout, index).then(|| pick(index, wanted))??;
    let is_there = if records.len() <= FEW {
        records.iter().all(|one| layout.image_directory(&one.digest).is_dir())
    } else {
        has_images(layout, index)
    };
    is_there.then_some(records)
}

/// Whether the refs are those for which the index has lines.
fn knows_refs(layout: &Layout, index: Index<'_>) -> bool {
    disk::names(&layout.refs()).is_ok_and(|refs| refs.iter().collect::<Tally>() == index.refs)
}

/// Whether there is an image for every line of the index.
fn has_images(layout: &Layout, index: Index<'_>) -> bool {
    let Ok(images) = disk::names(&layout.images()) else {
        return false;
    };
    if images.iter().collect::<Tally>() == index.images {
        return true;
    }
    // There may be an image without a ref, which is no reason to read every ref.
    let there: NameSet<'_> = images.iter().collect();
    let is_there = |fields: Fields<'_>| there.contains(fields.digest);
    index.lines().all(|line| line.fields().is_some_and(is_there))
}

/// Takes what is wanted from the lines; `None` if one of them is not understood.
pub(crate) fn pick(index: Index<'_>, wanted: &Wanted<'_>) -> Option<Vec<Record>> {
    let mut records = Vec::new();
    let mut lines = index.lines().peekable();
    while let Some(line) = lines.next() {
        if !(wanted.file)(line.file()) {
            continue;
        }
        let fields = line.fields()?;
        let next = lines.peek().and_then(|next| NameParts::split(next.file()));
        // Of one label the last ref is the valid one.
        let is_last = next.is_none_or(|next| next.label_part != fields.name.label_part);
        if !is_last || !(wanted.digest)(fields.digest) {
            continue;
        }
        let label = fields.label()?;
        if (wanted.label)(&label) {
            records.push(fields.record(label)?);
        }
    }
    Some(records)
}

/// Takes the records from the refs.
///
/// If a label was given to another image while the directory was read, its old ref is missing
/// from the directory and in the index. But the index may also simply be old. So a list with
/// such a gap is believed when it looks the same twice, with an index that no one has written
/// in the meantime: a writer that comes by a second time has written the index before.
fn from_refs(layout: &Layout) -> Result<Vec<Record>, Error> {
    let (mut before, mut look) = (None, 0);
    loop {
        let listing = Listing::read(layout)?;
        if listing.is_complete && !listing.has_changed {
            return Ok(listing.into_records());
        }
        let names: HashSet<RefName> = listing.refs.iter().map(Record::ref_name).collect();
        let state = (names, listing.index, sum(&read_index(layout)));
        let is_stable = state.1 == state.2 && before.as_ref() == Some(&state);
        look += 1;
        if is_stable || look == LOOKS {
            return Ok(listing.into_records());
        }
        before = Some(state);
        sleep(PAUSE * look);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::index;
    use crate::record::tests::record;

    /// Makes a repository with these refs, their images and their index.
    fn repository(records: &[Record]) -> (tempfile::TempDir, Layout) {
        let place = tempfile::tempdir().unwrap();
        let layout = Layout::new(place.path().to_owned());
        fs::create_dir(layout.refs()).unwrap();
        for one in records {
            fs::create_dir_all(layout.image_directory(&one.digest)).unwrap();
            fs::write(layout.refs().join(one.ref_name().as_str()), one.to_ref()).unwrap();
        }
        fs::write(layout.index(), index::render(records)).unwrap();
        (place, layout)
    }

    const ALL: Wanted<'_> =
        Wanted { file: &|_| true, digest: &|_| true, label: &|_| true, is_everything: true };

    fn two_refs_of_one_label() -> [Record; 2] {
        let (old, mut new) = (record("a/1:v1@s%u", 'b'), record("a/1:v1@s%u", 'a'));
        new.date = "2026-12-01T00:00:00Z".parse().unwrap();
        [old, new]
    }

    #[test]
    fn an_index_that_is_up_to_date_spares_reading_the_refs() {
        let records = [record("a/1:v1@s%u", 'a'), record("b/1:v1@s%u", 'b')];
        let (_place, layout) = repository(&records);
        assert_eq!(from_index(&layout, &ALL), Some(records.into()));
    }

    #[test]
    fn an_index_that_lacks_a_ref_is_not_enough() {
        let records = [record("a/1:v1@s%u", 'a'), record("b/1:v1@s%u", 'b')];
        let (_place, layout) = repository(&records);
        fs::write(layout.index(), index::render(&records[..1])).unwrap();
        assert_eq!(from_index(&layout, &ALL), None);
    }

    #[test]
    fn an_image_that_is_gone_is_noticed_whatever_is_wanted() {
        let records = [record("a/1:v1@s%u", 'a'), record("b/1:v1@s%u", 'b')];
        let (_place, layout) = repository(&records);
        fs::remove_dir(layout.image_directory(&records[0].digest)).unwrap();
        let one = Wanted {
            digest: &|one| one == records[0].digest.as_str(),
            is_everything: false,
            ..ALL
        };
        let found = [from_index(&layout, &ALL), from_index(&layout, &one)];
        assert_eq!(found, [None, None]);
    }

    #[test]
    fn of_two_refs_of_one_label_the_index_gives_the_newer() {
        let [old, new] = two_refs_of_one_label();
        let (_place, layout) = repository(&[old, new.clone()]);
        assert_eq!(from_index(&layout, &ALL), Some(vec![new]));
    }

    #[test]
    fn an_image_that_lost_its_label_is_not_found_by_its_digest() {
        let [old, new] = two_refs_of_one_label();
        let (_place, layout) = repository(&[old.clone(), new]);
        let wanted =
            Wanted { digest: &|one| one == old.digest.as_str(), is_everything: false, ..ALL };
        assert_eq!(from_index(&layout, &wanted), Some(Vec::new()));
    }

    #[test]
    fn the_index_and_the_refs_say_the_same() {
        let (_place, layout) = repository(&two_refs_of_one_label());
        assert_eq!(from_index(&layout, &ALL), from_refs(&layout).ok());
    }
}
