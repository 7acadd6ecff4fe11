// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane slurm install`: the line in `plugstack.conf`.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::commands::slurm::check::{Line, PLUGIN, Release, fault_of_release, find_plugstack};
use crate::exit_codes::{self, ExitCode};
use crate::report::{CommandResult, IoContext, Kind, Report};
use crate::setup::Setup;
use crate::step_record::destination::Destination;

/// Add the plugin to Slurm, or remove it
#[derive(Debug, Args)]
#[command(after_help = "\
The command writes one line of plugstack.conf and keeps the others. It refuses a plugin for
another Slurm release, because Slurm could not start jobs with it. Running steps are not
affected. Run it on each node, and on the hosts where jobs are submitted.

Examples:
  cabane slurm install
  cabane slurm install --plugin /opt/cabane/lib/cabane-slurm.so
  cabane slurm install --record file:/var/log/cabane/steps.jsonl
  cabane slurm install --remove")]
pub(crate) struct InstallArgs {
    /// The plugin; default: lib/cabane/slurm/RELEASE/cabane-slurm.so below the prefix of this command, for the Slurm release of this machine, such as 23.11
    #[arg(long, value_name = "PATH")]
    plugin: Option<PathBuf>,
    /// The plugin configuration of Slurm; default: the file that `scontrol show config` names, or /etc/slurm/plugstack.conf
    #[arg(long, value_name = "PATH")]
    plugstack: Option<PathBuf>,
    /// Record each step with images: `file:PATH`, `syslog`, or the address of a collector, `http://…` or `https://…`
    #[arg(long, value_name = "DESTINATION")]
    record: Option<Destination>,
    /// Stop recording steps
    #[arg(long, conflicts_with = "record")]
    no_record: bool,
    /// Remove the plugin from the file
    #[arg(long, conflicts_with_all = ["plugin", "record"])]
    remove: bool,
}

pub(crate) fn install(setup: &Setup, args: &InstallArgs) -> CommandResult<ExitCode> {
    let plugstack = args.plugstack.clone().unwrap_or_else(find_plugstack);
    let before = match fs::read_to_string(&plugstack) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read.or_failed(|| format!("read {}", plugstack.display()))?,
    };
    let line = if args.remove {
        None
    } else {
        Some(line_for(args, &before)?)
    };
    let after = changed(&before, line.as_deref());
    let shown = plugstack.display();
    if after == before {
        setup
            .printer
            .note(format_args!("{shown} is as it should be"));
        return Ok(exit_codes::SUCCESS);
    }
    write(&plugstack, &after).or_failed(|| format!("write {shown}"))?;
    match line {
        Some(line) => setup
            .printer
            .note(format_args!("wrote into {shown}: {line}")),
        None => setup
            .printer
            .note(format_args!("took the plugin out of {shown}")),
    }
    Ok(exit_codes::SUCCESS)
}

fn line_for(args: &InstallArgs, before: &str) -> CommandResult<String> {
    let command = std::env::current_exe().or_failed(|| "find this program".to_owned())?;
    let plugin = match &args.plugin {
        Some(plugin) => std::path::absolute(plugin).or_failed(|| "find the plugin".to_owned())?,
        None => usual_place(&command)?,
    };
    if !plugin.is_file() {
        let error = format!("there is no plugin {}", plugin.display());
        return Err(Report::new(Kind::NotFound, error)
            .hinted("`--plugin PATH` names another one".to_owned()));
    }
    if plugin.file_name().is_none_or(|name| name != PLUGIN) {
        let error = format!("the file of the plugin must be called {PLUGIN}");
        return Err(Report::new(Kind::BadInput, error));
    }
    if let Some(fault) = fault_of_release(&plugin) {
        return Err(Report::new(Kind::BadInput, fault).hinted(
            "`CABANE_SLURM_RELEASE=YY.MM cargo build --release -p cabane-slurm` makes \
                     one for a release"
                .to_owned(),
        ));
    }
    let mut line = format!("required {} cabane={}", plugin.display(), command.display());
    if let Some(destination) = &args.record {
        if let Some(fault) = destination.fault() {
            return Err(Report::new(Kind::BadInput, fault));
        }
        line += &format!(" record={destination}");
    } else if let Some(kept) = before.lines().find_map(Line::parse)
        && let Some(destination) = kept.record.filter(|_| !args.no_record)
    {
        line += &format!(" record={destination}");
    }
    Ok(line)
}

fn usual_place(command: &Path) -> CommandResult<PathBuf> {
    let prefix = command.parent().and_then(Path::parent);
    let release = Release::installed().ok_or_else(|| {
        Report::new(Kind::NotFound, "there is no Slurm here")
            .hinted("`srun --version` must say which one it is".to_owned())
    })?;
    let place = format!("lib/cabane/slurm/{release}/{PLUGIN}");
    Ok(prefix.unwrap_or(Path::new("/usr/local")).join(place))
}

/// Replaces the lines of the plugin by one, or adds that at the end.
fn changed(before: &str, line: Option<&str>) -> String {
    let mut line = line;
    let mut after = String::new();
    for old in before.lines() {
        let kept = match Line::parse(old) {
            Some(_) => line.take(),
            None => Some(old),
        };
        if let Some(kept) = kept {
            after += &format!("{kept}\n");
        }
    }
    if let Some(line) = line {
        after += &format!("{line}\n");
    }
    after
}

/// Slurm reads the file at any moment, and must find all of it.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let permissions = match fs::metadata(path) {
        Ok(found) => found.permissions(),
        Err(_) => Permissions::from_mode(0o644),
    };
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(permissions)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHERS: &str = "# plugins\nrequired other.so\n";

    #[test]
    fn the_line_is_added_once_and_others_stay() {
        let once = changed(OTHERS, Some("required /a/cabane-slurm.so"));
        assert_eq!(once, format!("{OTHERS}required /a/cabane-slurm.so\n"));
        assert_eq!(changed(&once, Some("required /a/cabane-slurm.so")), once);
    }

    #[test]
    fn an_older_line_is_replaced_where_it_stands() {
        let before = "optional /old/cabane-slurm.so\nrequired other.so\n";
        let after = changed(before, Some("required /a/cabane-slurm.so"));
        assert_eq!(after, "required /a/cabane-slurm.so\nrequired other.so\n");
    }

    #[test]
    fn the_line_can_be_taken_away() {
        let before = format!("{OTHERS}required /a/cabane-slurm.so\n");
        assert_eq!(changed(&before, None), OTHERS);
    }
}
