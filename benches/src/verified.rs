// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What it costs that the kernel checks each block of an image against its hash tree.

use std::path::Path;

use crate::bed::Bed;
use crate::comparison::Comparisons;
use crate::goal::Goal;
use crate::images::Format::Squashfs;
use crate::images::Images;
use crate::measure::{NotMeasured, finish};
use crate::options::Options;
use crate::reading::readers;
use crate::report::{Section, Table};
use crate::starters::Before::{Alone, Held};
use crate::starters::{Starters, Through};
use crate::users::as_ordinary_user;

const TITLE: &str = "Verified images";
const METHOD: &str = "\
One image twice: in a repository of root's, which the policy lets the kernel read as it is, and in one \
of the user's, whose blocks the kernel checks with dm-verity, since root has put the image on its \
list. `python3 -c pass`, and reading all files of the tree with `cat`. *Warm*: the image is mounted, and \
what is read was read before. *Cold*: it is mounted anew, so all blocks are decompressed, and checked, \
again; the file of the image is in memory. If the processor is emulated, SHA-256 is, too: a real one \
has instructions for it.";

/// What a verified image may cost over the same without a check, warm and cold.
const WARM: f64 = 1.10;
const COLD: f64 = 1.40;

/// What the kernel makes devices with.
const DEVICE_MAPPER: &str = "/dev/mapper/control";

pub(crate) fn sections(bed: &Bed, options: &Options) -> Vec<Section> {
    let section = match measured(bed, options) {
        Ok((table, goals)) => {
            let mut section = Section::new(TITLE, METHOD);
            section.tables.push(table);
            section.goals.extend(goals);
            section
        }
        Err(reason) => Section::not_measured(TITLE, &reason),
    };
    vec![section]
}

fn measured(bed: &Bed, options: &Options) -> Result<(Table, [Goal; 2]), NotMeasured> {
    if !Path::new(DEVICE_MAPPER).exists() {
        return Err(format!("this kernel has no {DEVICE_MAPPER}"));
    }
    let images = &Images::only_squashfs(bed)?;
    let _site = bed.with_helper()?;
    let own = images.of_ordinary_user(bed)?;
    let repository = own.repository.as_ref().map_err(Clone::clone)?;
    finish(bed.cabane(repository)?.args(["image", "trust", &Squashfs.label()]))?;
    let rounds = options.long_rounds();
    Ok(as_ordinary_user(|| {
        let mut compare = Comparisons::ratios(rounds);
        let mut warm = Goal::ratio("a verified image over the same without a check, warm", WARM);
        let mut cold = Goal::ratio("a verified image over the same without a check, cold", COLD);
        for (task, plain, verified) in [
            ("Python", Starters::of_python(bed, images), Starters::of_python(bed, &own)),
            ("reading", readers(bed, images, 1), readers(bed, &own, 1)),
        ] {
            for (name, before, goal, target) in
                [("warm", Held, &mut warm, WARM), ("cold", Alone, &mut cold, COLD)]
            {
                let started = |start: &Starters<'_>, how: &str| {
                    let name = format!("{task}, {how}, {name}");
                    start.cabane(Through::Helper, Squashfs, before).named(name)
                };
                compare.compare(started(&plain, "control"), started(&plain, "kernel"), None);
                let ratio = compare.compare(
                    started(&verified, "verified"),
                    started(&plain, "kernel"),
                    Some(target),
                );
                goal.note(task, ratio);
            }
        }
        (compare.table(), [warm, cold])
    }))
}
