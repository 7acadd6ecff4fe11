// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What it costs to start an interpreter that lies in the image.

use crate::bed::{Bed, as_ordinary_user, is_root};
use crate::comparison::Comparisons;
use crate::measure::Rounds;
use crate::options::Options;
use crate::report::{Section, Table};
use crate::starters::{Format, Images, Starters};

/// What `python -c pass` may cost over the same from a directory, the image not yet
/// mounted.
const ALONE: Option<f64> = Some(2.0);

const METHOD: &str = "\
`python3 -c pass`, the interpreter and its library in the image, over the same tree in a \
directory. The modules are compiled; both start without writing anything. Each start mounts \
anew, so the interpreter is decompressed again; over FUSE every page comes from another \
process, too.";

pub(crate) fn sections(bed: &Bed, options: &Options) -> Vec<Section> {
    let mut section = Section {
        title: "Start of Python",
        method: METHOD.to_owned(),
        tables: Vec::new(),
        remarks: vec![
            "Not measured yet: the start from an image that is already mounted on the node \
             (target: ≤ 1.25). Mounts are not shared yet."
                .to_owned(),
        ],
    };
    let rounds = options.long_rounds();
    match bed.images() {
        Ok(images) => {
            if is_root() {
                section.tables.push(as_root(bed, images, rounds));
            } else {
                section
                    .remarks
                    .push("As root: not measured, this needs root.".to_owned());
            }
            section
                .tables
                .push(as_ordinary_user(|| as_user(bed, images, rounds)));
        }
        Err(reason) => {
            section.remarks.push(format!(
                "Not measured, because there is no image: {reason}."
            ));
        }
    }
    vec![section]
}

fn as_root(bed: &Bed, images: &Images, rounds: Rounds) -> Table {
    let start = Starters::of_python(bed, images);
    let directory = || start.bare("from a directory");
    let mut compare = Comparisons::ratios(rounds);
    compare.compare(start.bare("control: from a directory"), directory(), None);
    compare.compare(start.cabane(Format::Squashfs), directory(), ALONE);
    compare.compare(start.cabane(Format::Erofs), directory(), ALONE);
    compare.compare(start.unshare(), directory(), None);
    compare.compare(start.squashfs_mount(), directory(), None);
    compare.compare(start.uenv(), directory(), None);
    compare.compare(start.cabane(Format::Erofs), start.unshare(), None);
    compare
        .table()
        .captioned("As root, through the kernel".to_owned())
}

fn as_user(bed: &Bed, images: &Images, rounds: Rounds) -> Table {
    let start = Starters::of_python(bed, images);
    let directory = || start.bare("from a directory");
    let mut compare = Comparisons::ratios(rounds);
    compare.compare(start.bare("control: from a directory"), directory(), None);
    compare.compare(start.cabane(Format::Squashfs), directory(), ALONE);
    compare.compare(start.bubblewrap(), directory(), None);
    compare.compare(start.cabane(Format::Squashfs), start.bubblewrap(), None);
    compare
        .table()
        .captioned("As an ordinary user, through FUSE".to_owned())
}
