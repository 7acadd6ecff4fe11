// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What it costs to start a program that does nothing.

use crate::bed::{Bed, as_ordinary_user, is_root};
use crate::comparison::Comparisons;
use crate::measure::NotMeasured;
use crate::options::Options;
use crate::report::Section;
use crate::starters::{Format, Images, Starters};

/// What a start in an image that is not yet mounted may cost over two bare starts.
const ALONE: Option<f64> = Some(1.6);
/// What the whole command line may add to the mount steps, in milliseconds.
const COMMAND_LINE: Option<f64> = Some(1.5);

pub(crate) fn sections(bed: &Bed, options: &Options) -> Vec<Section> {
    match bed.images() {
        Ok(images) => {
            vec![
                as_root(bed, images, options),
                as_user(bed, images, options),
                parts(bed, images, options),
            ]
        }
        Err(reason) => vec![without_images(&reason)],
    }
}

/// Says why nothing was started.
fn without_images(reason: &NotMeasured) -> Section {
    Section {
        title: "Start",
        method: "Starting programs in an image.".to_owned(),
        tables: Vec::new(),
        remarks: vec![format!(
            "Not measured, because there is no image: {reason}."
        )],
    }
}

fn as_root(bed: &Bed, images: &Images, options: &Options) -> Section {
    let start = Starters::of_true(bed, images);
    let bare = || start.bare("bare exec");
    let mut remarks = vec![
        "Not measured yet: the start from an image that is already mounted on the node \
         (target: ≤ 1.15). Mounts are not shared yet."
            .to_owned(),
        "A program that prepares something and then becomes another one costs two starts \
         in a row at least; the row of `env` shows how much that is. The figures and targets \
         in the design of Cabane are over such a floor: no tool of this kind can come close \
         to one start. The target is one for the mount; for what the rest of the command \
         line adds there is another one, below."
            .to_owned(),
    ];
    let mut tables = Vec::new();
    if is_root() {
        let mut compare = Comparisons::ratios(options.short_rounds());
        compare.compare(start.bare("control: bare exec"), bare(), None);
        compare.compare(start.through_env(), bare(), None);
        compare.compare(start.mounter(Format::Squashfs), bare(), None);
        compare.compare(start.mounter(Format::Erofs), bare(), None);
        compare.compare(start.cabane(Format::Squashfs), bare(), None);
        compare.compare(start.cabane(Format::Erofs), bare(), None);
        compare.compare(start.cabane_at_new_mount_point(), bare(), None);
        compare.compare(start.unshare(), bare(), None);
        compare.compare(start.squashfs_mount(), bare(), None);
        compare.compare(start.uenv(), bare(), None);
        tables.push(compare.table().captioned("Over one start".to_owned()));
        let mut compare = Comparisons::ratios(options.short_rounds());
        let two = || start.through_env();
        compare.compare(start.mounter(Format::Squashfs), two(), ALONE);
        compare.compare(start.mounter(Format::Erofs), two(), ALONE);
        compare.compare(start.cabane(Format::Squashfs), two(), ALONE);
        compare.compare(start.cabane(Format::Erofs), two(), ALONE);
        compare.compare(start.cabane(Format::Squashfs), start.unshare(), None);
        compare.compare(start.cabane(Format::Squashfs), start.squashfs_mount(), None);
        tables.push(
            compare
                .table()
                .captioned("Over two starts in a row, and over peers".to_owned()),
        );
    } else {
        remarks.push("Not measured: this needs root.".to_owned());
    }
    Section {
        title: "Start as root, through the kernel",
        method: "`true` of the system is started in a mount namespace in which an image of \
                 a Python interpreter is mounted; over the same `true` started directly."
            .to_owned(),
        tables,
        remarks,
    }
}

fn as_user(bed: &Bed, images: &Images, options: &Options) -> Section {
    let table = as_ordinary_user(|| {
        let start = Starters::of_true(bed, images);
        let bare = || start.bare("bare exec");
        let mut compare = Comparisons::ratios(options.short_rounds());
        compare.compare(start.bare("control: bare exec"), bare(), None);
        compare.compare(start.mounter(Format::Squashfs), bare(), None);
        compare.compare(start.cabane(Format::Squashfs), bare(), None);
        compare.compare(start.cabane_at_new_mount_point(), bare(), None);
        compare.compare(start.bubblewrap(), bare(), None);
        compare.compare(start.bubblewrap_alone(), bare(), None);
        compare.compare(start.cabane(Format::Squashfs), start.bubblewrap(), None);
        compare.table()
    });
    Section {
        title: "Start as an ordinary user, through FUSE",
        method: "The same as an ordinary user: a user namespace, and squashfuse_ll serves the \
                 image. Unmounting what squashfuse mounted for bubblewrap is not in its time; \
                 Cabane's ends by itself."
            .to_owned(),
        tables: vec![table],
        remarks: Vec::new(),
    }
}

fn parts(bed: &Bed, images: &Images, options: &Options) -> Section {
    let start = Starters::of_true(bed, images);
    let mut compare = Comparisons::differences(options.short_rounds());
    compare.compare(
        start.cabane(Format::Squashfs),
        start.mounter(Format::Squashfs),
        COMMAND_LINE,
    );
    compare.compare(
        start.cabane(Format::Erofs),
        start.mounter(Format::Erofs),
        COMMAND_LINE,
    );
    compare.compare(start.cabane_dry_run(), start.bare("bare exec"), None);
    let (root, user) = ("as root", "as an ordinary user");
    Section {
        title: "What the command line adds",
        method: format!(
            "`cabane run` minus a program that carries out the same mount steps and does \
             nothing else: reading options, configuration and metadata, finding the image, \
             working out variables. And `cabane run --dry-run`, which does all of that but \
             mounts and starts nothing, minus a bare exec. Measured {}.",
            if is_root() { root } else { user }
        ),
        tables: vec![compare.table()],
        remarks: Vec::new(),
    }
}
