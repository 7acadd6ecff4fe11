// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `squashfs-mount`: images at mount points for one command, without views.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use cabane_environment::{ImageRequest, JoinOptions};
use cabane_label::parse_uenv_list;
use cabane_launch::LaunchPlan;
use cabane_report::{Kind, Notices, Report, Result, Transfer};
use cabane_run::become_command_with;
use cabane_run::loaded::{CABANE_LOADED, UENV_MOUNT_LIST, UENV_VIEW};
use cabane_site::Context;
use cabane_site::settings::Overrides;
use clap::{ArgAction, CommandFactory, Parser};

use super::VERSION;
use crate::args::usual_color;
use crate::exit_codes::{self, ExitCode};
use crate::printer::Printer;
use crate::setup::Setup;
use crate::{parse, print_mistake};

/// Run a command with images mounted
#[derive(Debug, Parser)]
#[command(
    name = "squashfs-mount",
    bin_name = "squashfs-mount",
    disable_version_flag = true,
    override_usage = "squashfs-mount --sqfs=IMAGE:MOUNT_POINT[,…] -- COMMAND\n       \
                      squashfs-mount IMAGE:MOUNT_POINT… -- COMMAND",
    after_help = "This is Cabane, called by the name squashfs-mount."
)]
struct Args {
    /// Show more detail
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
    /// Print the version
    #[arg(long)]
    version: bool,
    /// Images and where they are mounted, separated by commas
    #[arg(short, long, value_name = "IMAGE:MOUNT_POINT")]
    sqfs: Option<String>,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    words: Vec<OsString>,
}

pub(super) fn main(typed: &[OsString]) -> ExitCode {
    let args: Args = match parse(Args::command(), typed, print_mistake) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let printer = Printer { color: usual_color(false), verbosity: args.verbose, is_uenv: true };
    if args.version {
        printer.data(format_args!("{VERSION}\n"));
        return exit_codes::SUCCESS;
    }
    let Err(error) = mount_and_become(printer, args) else {
        return exit_codes::SUCCESS;
    };
    printer.failure(&error);
    exit_codes::of_uenv(error.kind())
}

/// Mounts, and becomes the command; returns only if that failed.
fn mount_and_become(printer: Printer, args: Args) -> Result<()> {
    let (images, command) = split(args.sqfs, args.words);
    if command.is_empty() {
        return Err(Report::new(Kind::Usage, "no command given")
            .hinted("`squashfs-mount --sqfs=IMAGE:MOUNT_POINT -- COMMAND`".to_owned()));
    }
    let mut calling = forwarded(std::env::vars_os());
    let Some(images) = images else {
        calling.insert(UENV_MOUNT_LIST.into(), OsString::new());
        return Err(become_command_with(command, calling));
    };
    refuse_same_place(&images)?;
    let kept =
        [CABANE_LOADED, UENV_VIEW].map(|name| (name, calling.get(OsStr::new(name)).cloned()));
    let site = Setup::site(&Overrides { is_uenv: true, ..Overrides::default() }, calling)?;
    let context = Context::new(site, Arc::new(Quiet(printer)));
    let plan = LaunchPlan {
        images: ImageRequest::new(&images, None, true),
        join: JoinOptions { no_join: true, ..JoinOptions::default() },
        ..LaunchPlan::default()
    };
    let mut launch = plan.launch(&context, command)?;
    // What uenv sets before it starts this program stays.
    for (name, value) in kept {
        launch.prepared.set_variable(name, value);
    }
    Err(launch.prepared.exec(|_| ()))
}

/// Shows nothing but errors and details: scripts read what the command prints.
struct Quiet(Printer);

impl Notices for Quiet {
    fn warning(&self, text: &str) {
        self.0.detail(text);
    }

    fn hint(&self, text: &str) {
        self.0.detail(text);
    }

    fn note(&self, text: &str) {
        self.0.detail(text);
    }

    fn detail(&self, text: &str) {
        self.0.detail(text);
    }

    fn is_verbose(&self) -> bool {
        self.0.is_verbose()
    }

    fn color_option(&self) -> String {
        self.0.color_option()
    }

    fn transfer(&self, what: &str) -> Box<dyn Transfer> {
        self.0.transfer(what)
    }

    fn counted(&self, what: &str) -> Box<dyn Transfer> {
        self.0.counted(what)
    }
}

/// Separates images and command: with the option, all words are the command; without it, those before
/// `--`, or else the first one with a mount point, are images.
fn split(option: Option<String>, mut words: Vec<OsString>) -> (Option<String>, Vec<OsString>) {
    if option.is_some() {
        return (option.map(|list| whole_paths(&list)), words);
    }
    let is_image = |word: &OsString| word.to_str().is_some_and(|word| word.contains(":/"));
    let end = words.iter().position(|word| word == "--");
    let images = end.unwrap_or(usize::from(words.first().is_some_and(is_image)));
    if images == 0 || !words.iter().take(images).all(is_image) {
        return (None, words);
    }
    let command = words.split_off(images);
    let command = command.into_iter().skip(usize::from(end.is_some())).collect();
    let images: Vec<_> = words.iter().filter_map(|word| word.to_str()).map(whole_paths).collect();
    (Some(images.join(",")), command)
}

/// Paths of images may be relative, without `./` before them, and begin with `file://`.
fn whole_paths(list: &str) -> String {
    let whole = |image: &str| {
        let image = image.strip_prefix("file://").unwrap_or(image);
        if image.starts_with(['.', '/']) { image.to_owned() } else { format!("./{image}") }
    };
    list.split(',').map(whole).collect::<Vec<_>>().join(",")
}

/// Says with its own words that two images have one mount point.
fn refuse_same_place(images: &str) -> Result<()> {
    let mut places: Vec<_> =
        parse_uenv_list(images)?.into_iter().filter_map(|image| image.mount_point).collect();
    places.sort();
    match places.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(pair) => {
            let place = &pair[0];
            let error = format!("the mount point {place} is used to mount more than one squashfs");
            Err(Report::new(Kind::BadInput, error))
        }
    }
}

/// Variables that the dynamic linker takes from a set-uid program come with a prefix.
fn forwarded(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> BTreeMap<OsString, OsString> {
    let mut forwarded = Vec::new();
    let mut all = BTreeMap::new();
    for (name, value) in variables {
        match name.as_bytes().strip_prefix(b"SQFSMNT_FWD_") {
            Some(name) => forwarded.push((OsStr::from_bytes(name).to_owned(), value)),
            None => {
                all.insert(name, value);
            }
        }
    }
    all.extend(forwarded);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(option: Option<&str>, words: &[&str]) -> (Option<String>, Vec<OsString>) {
        split(option.map(str::to_owned), words.iter().map(OsString::from).collect())
    }

    #[test]
    fn the_syntax_of_both_versions_is_understood() {
        let command: Vec<OsString> = vec!["ls".into(), "--".into(), "/b".into()];
        let all = [
            parts(Some("a:/b"), &["ls", "--", "/b"]),
            parts(None, &["a:/b", "--", "ls", "--", "/b"]),
        ];
        assert_eq!(all[0], (Some("./a:/b".to_owned()), command));
        assert_eq!(all[1], all[0]);
        assert_eq!(parts(None, &["a:/b", "ls"]), (Some("./a:/b".to_owned()), vec!["ls".into()]));
        assert_eq!(parts(None, &["/a:/b", "./c:/d", "--", "ls"]).0.unwrap(), "/a:/b,./c:/d");
        assert_eq!(parts(None, &["ls", "/b"]), (None, vec!["ls".into(), "/b".into()]));
    }

    #[test]
    fn forwarded_variables_replace_others() {
        let pair = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
        let all = [pair("SQFSMNT_FWD_A", "new"), pair("A", "old"), pair("B.C", "kept")];
        let expected = [pair("A", "new"), pair("B.C", "kept")];
        assert_eq!(forwarded(all.into_iter()), BTreeMap::from(expected));
    }
}
