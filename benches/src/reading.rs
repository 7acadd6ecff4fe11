// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The ways to mount: how Python starts, and how fast programs read all files of an image, by the
//! kernel and through FUSE.

use std::path::Path;

use crate::bed::Bed;
use crate::comparison::Comparisons;
use crate::images::Format::Squashfs;
use crate::images::Images;
use crate::measure::{NotMeasured, Rounds};
use crate::options::Options;
use crate::report::{Section, Table};
use crate::starters::Before::{Alone, Held};
use crate::starters::{Starters, Through};
use crate::users::as_ordinary_user;
use crate::{slurm_ways, start_python};

const METHOD: &str = "\
All files of the tree of a Python interpreter are read with `cat`, by one or by eight processes that \
share them, from the image and from a directory, as an ordinary user. *Warm*: the image is mounted, and \
what is read was read before. *Cold*: it is mounted anew, so all blocks are decompressed again; the \
file of the image is in memory. *By the helper* is FUSE outside of a user namespace, and *in a user \
namespace* FUSE without a helper: the same FUSE program.";
const PROCESSES: [u32; 2] = [1, 8];

pub(crate) fn sections(bed: &Bed, options: &Options) -> Vec<Section> {
    let mut section = Section::new("Reading from an image", METHOD);
    let rounds = Rounds { warm_up: 1, pairs: options.transfers(7) };
    let measured = bed.images().and_then(|images| {
        Ok([by_the_kernel(bed, images, rounds)?, through_fuse(bed, images, rounds)?])
    });
    match measured {
        Ok(tables) => section.tables.extend(tables),
        Err(reason) => section.remarks.push(format!("Not measured: {reason}.")),
    }
    let mut sections = start_python::sections(bed, options);
    sections.push(section);
    sections.push(slurm_ways::section(bed, options));
    sections
}

/// Reads everything, by so many processes.
pub(crate) fn readers<'a>(bed: &'a Bed, images: &'a Images, processes: u32) -> Starters<'a> {
    let command = |root: &Path| {
        let script = format!(
            "find \"$0\" -type f -print0 | xargs -0 -P {processes} -n 100 cat >/dev/null 2>&1"
        );
        vec!["/bin/sh".into(), "-c".into(), script.into(), root.into()]
    };
    Starters { bed, images, bare: command(&images.tree), inside: command(&images.mount_point) }
}

fn by_the_kernel(bed: &Bed, images: &Images, rounds: Rounds) -> Result<Table, NotMeasured> {
    let _site = bed.with_helper()?;
    let mut compare = Comparisons::ratios(rounds);
    as_ordinary_user(|| {
        for processes in PROCESSES {
            let start = readers(bed, images, processes);
            for (name, before) in [("warm", Held), ("cold", Alone)] {
                let name = format!("kernel, {name}, {processes}");
                let read = start.cabane(Through::Helper, Squashfs, before).named(name);
                compare.compare(read, start.bare("directory"), None);
            }
        }
    });
    Ok(compare.table().captioned("By the kernel, over a directory".to_owned()))
}

fn through_fuse(bed: &Bed, images: &Images, rounds: Rounds) -> Result<Table, NotMeasured> {
    let site = bed.with_helper()?;
    bed.world.trust_no_owner()?;
    let mut compare = Comparisons::ratios(rounds);
    let compared = as_ordinary_user(|| {
        for processes in PROCESSES {
            let start = readers(bed, images, processes);
            let named = |is_shared| {
                let name = if is_shared { "warm" } else { "cold" };
                start.served(is_shared).named(format!("by the helper, {name}, {processes}"))
            };
            let today = || {
                let name = format!("in a user namespace, cold, {processes}");
                start.cabane(Through::UserNamespace, Squashfs, Held).named(name)
            };
            let keeper = start.serve()?;
            compare.compare(named(true), start.bare("directory"), None);
            drop(keeper);
            compare.compare(named(false), start.bare("directory"), None);
            compare.compare(today(), start.bare("directory"), None);
            compare.compare(named(false), today(), None);
        }
        Ok(compare.table().captioned("Through FUSE, over a directory and each other".to_owned()))
    });
    bed.world.have_policy(true)?;
    drop(site);
    compared
}
