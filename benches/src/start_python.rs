// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What it costs to start an interpreter that is in the image.

use crate::bed::Bed;
use crate::comparison::Comparisons;
use crate::goal::Goal;
use crate::images::Format::{Erofs, Squashfs};
use crate::images::Images;
use crate::measure::Rounds;
use crate::options::Options;
use crate::report::{Section, Table};
use crate::start::served_by_helper;
use crate::starters::Before::{Alone, Held};
use crate::starters::{Starters, Through};
use crate::users::{as_ordinary_user, is_root};

/// What `python -c pass` may cost over the same from a directory, the image not yet
/// mounted.
const ALONE: f64 = 2.0;
/// The same in an image that is mounted on the node.
const HELD: f64 = 1.25;

/// What it may take through FUSE by the helper, over a user namespace.
const SERVED: f64 = 0.6;

const METHOD: &str = "\
`python3 -c pass`, with the interpreter and its library in the image, over the same tree in a \
directory; with the complete command line, and with the helper by itself. The modules are \
compiled; both start without writing anything. A start *alone* mounts anew, so the interpreter \
is decompressed again; from a *held* image it is already in memory. With FUSE every page comes \
from another process.";

pub(crate) fn sections(bed: &Bed, options: &Options) -> Vec<Section> {
    let mut section = Section::new("Start of Python", METHOD);
    let rounds = options.long_rounds();
    let images = match bed.images() {
        Ok(images) => images,
        Err(reason) => {
            return vec![Section::not_measured(
                section.title,
                &format!("there is no image: {reason}"),
            )];
        }
    };
    match bed.with_helper() {
        Ok(_site) => {
            let (table, goals) = as_ordinary_user(|| through_helper(bed, images, rounds));
            section.tables.push(table);
            section.goals.extend(goals);
        }
        Err(reason) => section.remarks.push(format!("Through the helper: not measured: {reason}.")),
    }
    if is_root() && bed.have_policy(false).is_ok() {
        section.tables.push(as_root(bed, images, rounds));
    }
    section.tables.push(as_ordinary_user(|| through_fuse(bed, images, rounds)));
    match served_by_helper(bed, &Starters::of_python(bed, images), rounds, Some(SERVED)) {
        Ok((table, ratio)) => {
            section.tables.push(table);
            let goal = "`python -c pass` through FUSE by the helper, over a user namespace";
            section.goals.push(Goal::ratio(goal, SERVED).reached_by("shared", ratio));
        }
        Err(reason) => section.remarks.push(format!("By the helper: not measured: {reason}.")),
    }
    vec![section]
}

fn through_helper(bed: &Bed, images: &Images, rounds: Rounds) -> (Table, Vec<Goal>) {
    let start = Starters::of_python(bed, images);
    let directory = || start.bare("from a directory");
    let cabane = |format, before| start.cabane(Through::Helper, format, before);
    let mut compare = Comparisons::ratios(rounds);
    compare.compare(start.bare("control: from a directory"), directory(), None);
    let squashfs_held = compare.compare(cabane(Squashfs, Held), directory(), Some(HELD));
    let erofs_held = compare.compare(cabane(Erofs, Held), directory(), Some(HELD));
    let squashfs = compare.compare(cabane(Squashfs, Alone), directory(), Some(ALONE));
    let erofs = compare.compare(cabane(Erofs, Alone), directory(), Some(ALONE));
    let peer = compare.compare(start.squashfs_mount(), directory(), None);
    let helper = compare.compare(start.helper(Squashfs, Held), directory(), Some(HELD));
    compare.compare(start.helper(Erofs, Held), directory(), Some(HELD));
    compare.compare(cabane(Squashfs, Held), start.squashfs_mount(), None);
    compare.compare(cabane(Squashfs, Alone), start.squashfs_mount(), None);
    compare.compare(cabane(Erofs, Alone), start.squashfs_mount(), None);
    let peers = peer.map_or(String::new(), |peer| format!("squashfs-mount {:.2}", peer.median));
    let goals = vec![
        Goal::ratio("`python -c pass` over a directory, held", HELD)
            .reached_by("squashfs", squashfs_held)
            .reached_by("EROFS", erofs_held)
            .reached_by("squashfs, the helper by itself", helper)
            .beside(peers.clone()),
        Goal::ratio("`python -c pass` over a directory, alone", ALONE)
            .reached_by("squashfs", squashfs)
            .reached_by("EROFS", erofs)
            .beside(peers),
    ];
    let caption = "As an ordinary user, through the helper";
    (compare.table().captioned(caption.to_owned()), goals)
}

fn as_root(bed: &Bed, images: &Images, rounds: Rounds) -> Table {
    let start = Starters::of_python(bed, images);
    let directory = || start.bare("from a directory");
    let cabane = |format| start.cabane(Through::Root, format, Held);
    let mut compare = Comparisons::ratios(rounds);
    compare.compare(cabane(Squashfs), directory(), Some(ALONE));
    compare.compare(cabane(Erofs), directory(), Some(ALONE));
    compare.compare(start.unshare(), directory(), None);
    compare.compare(start.uenv(), directory(), None);
    compare.compare(cabane(Erofs), start.unshare(), None);
    compare.table().captioned("As root without a policy: every start mounts".to_owned())
}

fn through_fuse(bed: &Bed, images: &Images, rounds: Rounds) -> Table {
    let start = Starters::of_python(bed, images);
    let directory = || start.bare("from a directory");
    let cabane = || start.cabane(Through::UserNamespace, Squashfs, Held);
    let mut compare = Comparisons::ratios(rounds);
    compare.compare(cabane(), directory(), None);
    compare.compare(start.bubblewrap(), directory(), None);
    compare.compare(cabane(), start.bubblewrap(), None);
    compare.compare(start.charliecloud(), directory(), None);
    compare.table().captioned("As an ordinary user, through FUSE".to_owned())
}
