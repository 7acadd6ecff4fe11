// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Cabane under the name `uenv`, beside uenv, in one repository.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use crate::bed::Bed;
use crate::comparison::Comparisons;
use crate::goal::Goal;
use crate::images::Format;
use crate::listing::{RECORDS, pair};
use crate::measure::{Candidate, NotMeasured};
use crate::options::Options;
use crate::report::{Section, Table};
use crate::starters::Before;
use crate::uenv_site::{Repositories, ours, real, to_start};
use crate::users::as_ordinary_user;

/// What a list, and a start, may take of the time of uenv.
const HALF: f64 = 0.5;
const INSPECT: f64 = 0.7;
/// What a list of a repository of uenv may cost over one of our own.
const IN_PLACE: f64 = 1.3;
/// What a press of the Tab key may take, in milliseconds.
const COMPLETION: f64 = 50.0;
const FEW: usize = 1_000;
/// An image that each of the repositories has.
const ONE: &str = "image-0042/1.3:v1";
/// The variable by which a shell asks.
const ASKED: &str = "CABANE_COMPLETE";

pub(crate) fn sections(bed: &Bed, options: &Options) -> Vec<Section> {
    vec![lists(bed, options), starts(bed, options), completion(bed, options)]
}

const LISTS: &str = "\
Both programs read the same repository of uenv, with 1,000 and 10,000 images; the whole command, \
output to nowhere. Cabane is called by the name `uenv`. `in place` is Cabane in that repository over \
Cabane in one of its own with the same labels.";

fn lists(bed: &Bed, options: &Options) -> Section {
    let mut section = Section::new("Lists and details", LISTS);
    let ls = ["image", "ls"];
    let json = ["image", "ls", "--json"];
    let inspect = ["image", "inspect", ONE];
    let mut goals = [
        Goal::ratio("`uenv image ls`, table, over uenv", HALF),
        Goal::ratio("`uenv image ls --json` over uenv", HALF),
        Goal::ratio("`uenv image inspect` over uenv", INSPECT),
        Goal::ratio("a list of uenv's repository over one of our own", IN_PLACE),
    ];
    for (records, way) in [(FEW, "1,000 images"), (RECORDS, "10,000 images")] {
        let both = match Repositories::make(bed, records) {
            Ok(both) => both,
            Err(reason) => {
                section.remarks.push(format!("{way}: not measured: {reason}."));
                continue;
            }
        };
        let mut compare = Comparisons::ratios(options.long_rounds());
        let rows = [(&ls[..], HALF), (&json[..], HALF), (&inspect[..], INSPECT)];
        for (goal, (words, target)) in goals.iter_mut().zip(rows) {
            let [mine, theirs] = programs(bed, &both.of_uenv, words);
            goal.note(way, compare.compare(mine, theirs, Some(target)));
        }
        let cabane = |name: &str, repository: &Path| {
            let command = bed.cabane(repository).map(|command| with(command, &ls));
            Candidate::new(name, command)
        };
        let in_place = cabane("`cabane image ls`, in place", &both.of_uenv);
        let own = cabane("`cabane image ls`, its own", &both.own);
        let ratio = compare.compare(in_place, own, Some(IN_PLACE));
        goals[3].note(way, ratio);
        section.tables.push(compare.table().captioned(format!("With {way}")));
    }
    section.goals.extend(goals);
    section
}

/// Cabane under the name `uenv`, and uenv, with the same words.
fn programs(bed: &Bed, repository: &Path, words: &[&str]) -> [Candidate; 2] {
    let shown = words.iter().take(3).copied().filter(|word| *word != ONE).collect::<Vec<_>>();
    let shown = shown.join(" ");
    let mine = ours(bed, repository).map(|command| with(command, words));
    let theirs = real(bed, repository).map(|command| with(command, words));
    [
        Candidate::new(format!("`uenv {shown}`, Cabane"), mine),
        Candidate::new(format!("`uenv {shown}`, uenv"), theirs),
    ]
}

fn with(mut command: Command, words: &[impl AsRef<OsStr>]) -> Command {
    command.args(words);
    command
}

const STARTS: &str = "\
As an ordinary user: `uenv run LABEL -- /bin/true`, through Cabane's set-uid helper, over uenv with its \
set-uid squashfs-mount. *Held*: the image is already mounted on the node. *Alone*: another image is \
mounted, this one is not. uenv mounts the image for each start.";

fn starts(bed: &Bed, options: &Options) -> Section {
    let mut section = Section::new("Starts", STARTS);
    let measured = bed.with_helper().and_then(|site| {
        let repository = to_start(bed)?;
        let (table, goal) = as_ordinary_user(|| of_true(bed, &repository, options))?;
        drop(site);
        Ok((table, goal))
    });
    match measured {
        Ok((table, goal)) => {
            section.tables.push(table);
            section.goals.push(goal);
        }
        Err(reason) => section.remarks.push(format!("Not measured: {reason}.")),
    }
    section
}

fn of_true(bed: &Bed, repository: &Path, options: &Options) -> Result<(Table, Goal), NotMeasured> {
    let label = Format::Squashfs.label();
    let words = ["run", &label, "--", "/bin/true"];
    let mut compare = Comparisons::ratios(options.short_rounds());
    let mut goal = Goal::ratio("`uenv run LABEL -- true` over uenv", HALF);
    for (way, before) in [("held", Before::Held), ("alone", Before::Alone)] {
        let [mine, theirs] = programs(bed, repository, &words);
        let mine = mine.named(format!("`uenv run`, Cabane, {way}"));
        let mine = match before {
            Before::Held => mine,
            _ => mine.tidied_by(bed.clean_mounts()?),
        };
        let theirs = theirs.named("`uenv run`, uenv".to_owned());
        goal.note(way, compare.compare(mine, theirs, Some(HALF)));
    }
    let caption = "Over uenv, in one repository of uenv";
    Ok((compare.table().captioned(caption.to_owned()), goal))
}

const TYPED: &str = "\
What bash runs when a person presses the Tab key behind these words, with 10,000 images in the repository; `^` \
is the place of the cursor.";

fn completion(bed: &Bed, options: &Options) -> Section {
    let mut section = Section::new("Completion", TYPED);
    let mut table =
        Table::new(&["command", "ms: min / median [quartiles]", "target", "reached", "runs"]);
    let mut goal = Goal::at_most("completion with 10,000 images", COMPLETION, "ms");
    let repositories = [("own-10000", "its own"), ("uenv-10000", "that of uenv")];
    for (directory, whose) in repositories {
        let repository = bed.path(directory);
        let asked = |words: &[&str]| {
            let name = format!("`{}^`, {whose}", words.join(" "));
            Candidate::new(name, tab(bed, &repository, words))
        };
        let first = asked(&["cabane", "run", "image-004"]);
        let second = asked(&["cabane", "image", "ls", "--package="]);
        let limits = [Some(COMPLETION); 2];
        let times = pair(&mut table, first, second, options.long_rounds(), limits);
        goal.note(if whose == "its own" { "labels" } else { "labels, of uenv" }, times.0);
        let both = asked(&["uenv", "run", "image-0042/"]);
        let third = asked(&["cabane", "start", "image-0042/1.3", "--view", ""]);
        pair(&mut table, both, third, options.long_rounds(), limits);
    }
    section.tables.push(table);
    section.goals.push(goal);
    section
}

/// Prepares what a shell runs to complete the last of these words.
fn tab(bed: &Bed, repository: &Path, words: &[&str]) -> Result<Command, NotMeasured> {
    let program = match words.first() {
        Some(&"uenv") => ours(bed, repository)?.get_program().to_owned(),
        _ => bed.cabane.as_ref().map_err(Clone::clone)?.as_os_str().to_owned(),
    };
    let mut command = bed.command(Path::new(&program));
    let (first, rest) = words.split_first().ok_or("no words")?;
    let option = format!("--repo={}", repository.display());
    command.env(ASKED, "bash").env("_CLAP_IFS", "\n");
    command.env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    command.args(["--", first, &option]).args(rest);
    Ok(command)
}
