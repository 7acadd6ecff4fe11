// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What it costs to start a program that does nothing.

use crate::bed::Bed;
use crate::comparison::Comparisons;
use crate::goal::Goal;
use crate::images::Format::{Erofs, Squashfs};
use crate::images::Images;
use crate::measure::{NotMeasured, Rounds};
use crate::options::Options;
use crate::report::{Section, Table};
use crate::starters::Before::{Alone, First, Held};
use crate::starters::{Starters, Through};
use crate::statistics::Summary;
use crate::users::{as_ordinary_user, is_root};

/// What a start in an image that no one has mounted may cost over two bare starts.
const ALONE: f64 = 1.6;
/// The same in an image that is mounted on the node.
const HELD: f64 = 1.15;
/// What the whole command line may add to the mount steps, in milliseconds.
const COMMAND_LINE: f64 = 1.5;

pub(crate) fn sections(bed: &Bed, options: &Options) -> Vec<Section> {
    match bed.images() {
        Ok(images) => vec![
            through_helper(bed, images, options),
            what_the_command_line_adds(bed, images, options),
            as_root(bed, images, options),
            through_fuse(bed, images, options),
        ],
        Err(reason) => {
            vec![Section::not_measured("Start", &format!("there is no image: {reason}"))]
        }
    }
}

const HELPER_METHOD: &str = "\
As an ordinary user: `true` of the system in a mount namespace with a mounted image of a Python \
interpreter. *Held*: the image is already mounted on the node. *Alone*: another image is \
mounted, this one is not, and nothing is left of earlier starts. *First*: nothing is held on the \
node. A program that prepares something and then executes another one costs at least two starts \
in a row. The floor in the design of Cabane is a dynamically linked program, such as `env` or \
squashfs-mount. The helper is linked statically and gets a prepared request; a static program \
that only executes `true` is the stricter floor. The complete command line is three programs in \
a row: `cabane`, the helper, `true`.";

fn through_helper(bed: &Bed, images: &Images, options: &Options) -> Section {
    const TITLE: &str = "Start through the helper";
    let mut site = match bed.with_helper() {
        Ok(site) => site,
        Err(reason) => return Section::not_measured(TITLE, &reason),
    };
    let mut section = Section::new(TITLE, HELPER_METHOD);
    as_ordinary_user(|| {
        let start = Starters::of_true(bed, images);
        let (steps, goals) = helper_over_two(&start, options);
        section.tables.push(steps);
        section.tables.push(command_over_floors(&start, options));
        section.goals = goals;
        match site.fall_idle() {
            Ok(()) => section.tables.push(first_on_the_node(&start, options)),
            Err(reason) => section.remarks.push(format!("Not measured: {reason}.")),
        }
    });
    section
}

fn helper_over_two(start: &Starters<'_>, options: &Options) -> (Table, Vec<Goal>) {
    let mut compare = Comparisons::ratios(options.short_rounds());
    let floor = || start.through_static(1);
    let env = || start.through_env();
    compare.compare(start.through_env().named("control".to_owned()), env(), None);
    let mut over_env =
        |format, before, target| compare.compare(start.helper(format, before), env(), Some(target));
    let held = over_env(Squashfs, Held, HELD);
    let erofs_held = over_env(Erofs, Held, HELD);
    let alone = over_env(Squashfs, Alone, ALONE);
    let erofs_alone = over_env(Erofs, Alone, ALONE);
    let peer = compare.compare(start.squashfs_mount(), env(), None);
    let mut over_floor = |format, before, target| {
        compare.compare(start.helper(format, before), floor(), Some(target))
    };
    let held_over_floor = over_floor(Squashfs, Held, HELD);
    over_floor(Erofs, Held, HELD);
    let alone_over_floor = over_floor(Squashfs, Alone, ALONE);
    let erofs_over_floor = over_floor(Erofs, Alone, ALONE);
    let peer =
        peer.map_or(String::new(), |peer| format!("squashfs-mount {:.2} over `env`", peer.median));
    let what = "start of `true` through the helper, over two starts in a row";
    let goals = vec![
        Goal::ratio(&format!("{what}, held"), HELD)
            .reached_by("squashfs, over `env`", held)
            .reached_by("EROFS, over `env`", erofs_held)
            .reached_by("squashfs, over a static program", held_over_floor)
            .beside(peer.clone()),
        Goal::ratio(&format!("{what}, alone"), ALONE)
            .reached_by("squashfs, over `env`", alone)
            .reached_by("EROFS, over `env`", erofs_alone)
            .reached_by("squashfs, over a static program", alone_over_floor)
            .reached_by("EROFS, over a static program", erofs_over_floor)
            .beside(peer),
    ];
    let caption = "The helper and its peer over two starts in a row";
    (compare.table().captioned(caption.to_owned()), goals)
}

fn command_over_floors(start: &Starters<'_>, options: &Options) -> Table {
    let mut compare = Comparisons::ratios(options.short_rounds());
    let bare = || start.bare("bare exec");
    let cabane = |format, before| start.cabane(Through::Helper, format, before);
    compare.compare(start.through_static(1), bare(), None);
    compare.compare(start.through_static(2), bare(), None);
    compare.compare(start.through_env(), bare(), None);
    compare.compare(cabane(Squashfs, Held), bare(), None);
    compare.compare(cabane(Erofs, Held), bare(), None);
    compare.compare(cabane(Squashfs, Alone), bare(), None);
    compare.compare(cabane(Erofs, Alone), bare(), None);
    compare.compare(start.squashfs_mount(), bare(), None);
    compare.compare(cabane(Squashfs, Held), start.through_static(2), None);
    compare.compare(cabane(Squashfs, Held), start.squashfs_mount(), None);
    compare.compare(cabane(Squashfs, Alone), start.squashfs_mount(), None);
    compare.compare(cabane(Erofs, Alone), start.squashfs_mount(), None);
    let caption = "The whole command line, over one start, over its floor and over its peer";
    compare.table().captioned(caption.to_owned())
}

fn first_on_the_node(start: &Starters<'_>, options: &Options) -> Table {
    let mut compare = Comparisons::ratios(options.short_rounds());
    for format in [Squashfs, Erofs] {
        compare.compare(start.helper(format, First), start.through_static(1), None);
        let cabane = start.cabane(Through::Helper, format, First);
        compare.compare(cabane, start.squashfs_mount(), None);
    }
    let caption = "The first start on the node, which makes the namespace for images, too";
    compare.table().captioned(caption.to_owned())
}

fn what_the_command_line_adds(bed: &Bed, images: &Images, options: &Options) -> Section {
    let mut section = Section::new(
        "What the command line adds",
        "`cabane run` minus a program that carries out the same mount steps and does \
         nothing else: the helper with a prepared request, or a small program as root. The \
         command reads options, configuration, and metadata, finds the image, and computes \
         variables. The metadata of an image that is named by its path is cached by an earlier \
         start. `cabane run --dry-run` does all of that but mounts and starts nothing; it is \
         compared with a bare exec.",
    );
    match bed.with_helper() {
        Ok(_site) => {
            let (table, goal) = as_ordinary_user(|| added_to_the_helper(bed, images, options));
            section.tables.push(table);
            section.goals.push(goal);
        }
        Err(reason) => {
            let remark = format!("Through the helper: not measured: {reason}.");
            section.remarks.push(remark);
        }
    }
    if is_root() && bed.have_policy(false).is_ok() {
        section.tables.push(added_as_root(bed, images, options));
    }
    section
}

fn added_to_the_helper(bed: &Bed, images: &Images, options: &Options) -> (Table, Goal) {
    let start = Starters::of_true(bed, images);
    let mut compare = Comparisons::differences(options.short_rounds());
    let cabane = |format, before| start.cabane(Through::Helper, format, before);
    let held =
        compare.compare(cabane(Squashfs, Held), start.helper(Squashfs, Held), Some(COMMAND_LINE));
    compare.compare(cabane(Squashfs, Alone), start.helper(Squashfs, Alone), Some(COMMAND_LINE));
    compare.compare(cabane(Erofs, Alone), start.helper(Erofs, Alone), Some(COMMAND_LINE));
    compare.compare(
        start.cabane_of_path(Through::Helper, Squashfs),
        start.helper(Squashfs, Held),
        None,
    );
    let dry = start.cabane_dry_run(Through::Helper);
    compare.compare(dry, start.bare("bare exec"), None);
    let goal = Goal::at_most("what the command line adds", COMMAND_LINE, "ms")
        .reached_by("held", held)
        .beside(String::new());
    let caption = "As an ordinary user, through the helper";
    (compare.table().captioned(caption.to_owned()), goal)
}

fn added_as_root(bed: &Bed, images: &Images, options: &Options) -> Table {
    let start = Starters::of_true(bed, images);
    let mut compare = Comparisons::differences(options.short_rounds());
    for format in [Squashfs, Erofs] {
        compare.compare(
            start.cabane(Through::Root, format, Held),
            start.mounter(format),
            Some(COMMAND_LINE),
        );
    }
    let dry = start.cabane_dry_run(Through::Root);
    compare.compare(dry, start.bare("bare exec"), None);
    compare.table().captioned("As root".to_owned())
}

fn as_root(bed: &Bed, images: &Images, options: &Options) -> Section {
    const TITLE: &str = "Start as root, through the kernel";
    if !is_root() {
        return Section::not_measured(TITLE, "this needs root");
    }
    let mut section = Section::new(
        TITLE,
        "The same as root. Without a policy each start has a mount of its own, and \
                 nothing is left of it; with the policy of a site images are shared and held, \
                 as through the helper.",
    );
    let start = Starters::of_true(bed, images);
    match bed.have_policy(false) {
        Ok(()) => section.tables.push(without_policy(&start, options)),
        Err(reason) => section.remarks.push(format!("Not measured: {reason}.")),
    }
    match bed.with_helper() {
        Ok(_site) => section.tables.push(with_policy(&start, options)),
        Err(reason) => section.remarks.push(format!("Not measured: {reason}.")),
    }
    section
}

fn without_policy(start: &Starters<'_>, options: &Options) -> Table {
    let mut compare = Comparisons::ratios(options.short_rounds());
    let floor = || start.through_static(1);
    let cabane = |format| start.cabane(Through::Root, format, Held);
    compare.compare(start.mounter(Squashfs), floor(), Some(ALONE));
    compare.compare(start.mounter(Erofs), floor(), Some(ALONE));
    compare.compare(cabane(Squashfs), floor(), None);
    compare.compare(cabane(Erofs), floor(), None);
    compare.compare(start.cabane_at_new_mount_point(Through::Root), floor(), None);
    compare.compare(start.squashfs_mount(), start.through_env(), None);
    compare.compare(start.unshare(), start.through_env(), None);
    compare.compare(start.uenv(), start.through_env(), None);
    compare.compare(cabane(Squashfs), start.unshare(), None);
    compare.compare(cabane(Squashfs), start.squashfs_mount(), None);
    compare.table().captioned("Without a policy".to_owned())
}

fn with_policy(start: &Starters<'_>, options: &Options) -> Table {
    let mut compare = Comparisons::ratios(options.short_rounds());
    let floor = || start.through_static(1);
    for before in [Held, Alone] {
        let target = Some(if before == Held { HELD } else { ALONE });
        for format in [Squashfs, Erofs] {
            compare.compare(start.sharing_mounter(format, before), floor(), target);
        }
    }
    let cabane = start.cabane(Through::Root, Squashfs, Held);
    compare.compare(cabane, floor(), None);
    compare.table().captioned("With the policy of a site".to_owned())
}

fn through_fuse(bed: &Bed, images: &Images, options: &Options) -> Section {
    let table = as_ordinary_user(|| {
        let start = Starters::of_true(bed, images);
        let bare = || start.bare("bare exec");
        let cabane = || start.cabane(Through::UserNamespace, Squashfs, Held);
        let elsewhere = start.cabane_at_new_mount_point(Through::UserNamespace);
        let mut compare = Comparisons::ratios(options.short_rounds());
        compare.compare(start.bare("control: bare exec"), bare(), None);
        compare.compare(start.mounter(Squashfs), bare(), None);
        compare.compare(cabane(), bare(), None);
        compare.compare(elsewhere, bare(), None);
        compare.compare(start.bubblewrap(), bare(), None);
        compare.compare(start.bubblewrap_alone(), bare(), None);
        compare.compare(cabane(), start.bubblewrap(), None);
        compare.compare(start.charliecloud(), bare(), None);
        compare.table()
    });
    let mut section = Section {
        title: "Start as an ordinary user, through FUSE",
        method: "The same as an ordinary user without the helper: a user namespace, and \
                 squashfuse_ll serves the image. Unmounting what squashfuse mounted for \
                 bubblewrap is not in its time; Cabane's ends by itself. With the helper, an \
                 image that the kernel may not read goes through FUSE without a user namespace, \
                 and starts share the FUSE program."
            .to_owned(),
        tables: vec![table.captioned("In a user namespace".to_owned())],
        goals: Vec::new(),
        remarks: Vec::new(),
    };
    let start = Starters::of_true(bed, images);
    match served_by_helper(bed, &start, options.short_rounds(), None) {
        Ok((table, _)) => section.tables.push(table),
        Err(reason) => section.remarks.push(format!("By the helper: not measured: {reason}.")),
    }
    section
}

/// Compares starts through FUSE by the helper; returns the ratio of a shared one over one in a user
/// namespace, too.
pub(crate) fn served_by_helper(
    bed: &Bed,
    start: &Starters<'_>,
    rounds: Rounds,
    target: Option<f64>,
) -> Result<(Table, Option<Summary>), NotMeasured> {
    let site = bed.with_helper()?;
    bed.world.trust_no_owner()?;
    let compared = as_ordinary_user(|| {
        let keeper = start.serve()?;
        let in_user_namespace = || start.cabane(Through::UserNamespace, Squashfs, Held);
        let mut compare = Comparisons::ratios(rounds);
        let ratio = compare.compare(start.served(true), in_user_namespace(), target);
        compare.compare(start.served(false), in_user_namespace(), None);
        compare.compare(start.served(true), start.bare("without an image"), None);
        drop(keeper);
        Ok((compare.table().captioned("By the helper, over a user namespace".to_owned()), ratio))
    });
    bed.world.have_policy(true)?;
    drop(site);
    compared
}
