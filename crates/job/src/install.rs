// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Adds the plugin to Slurm, or removes it.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cabane_report::{IoContext, Kind, Report, Result};
use cabane_site::Installation;

use crate::Destination;
use crate::check::{Line, PLUGIN, Release, fault_of_release, find_plugstack};

/// The plugin, and what it is to do.
#[derive(Clone, Debug)]
pub struct InstallRequest {
    /// The plugin, instead of the one for this Slurm below the prefix of this program.
    pub plugin: Option<PathBuf>,
    /// The plugin configuration of Slurm, instead of the file that Slurm names.
    pub plugstack: Option<PathBuf>,
    /// Where steps are recorded.
    pub record: Option<Destination>,
    /// Whether recording stops.
    pub no_record: bool,
    /// Whether the plugin adds the options of pyxis: `auto`, `yes`, or `no`.
    pub container_options: String,
    /// Whether the plugin is removed.
    pub remove: bool,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Installed {
    /// Nothing: the file had it.
    Unchanged,
    /// The line of the plugin.
    Added(String),
    /// The line of the plugin is gone.
    Removed,
}

/// Changes the plugin configuration of Slurm, and returns its path and what was written.
///
/// # Errors
///
/// There is no plugin, it is for another Slurm, or the file cannot be written.
pub fn install(request: &InstallRequest) -> Result<(PathBuf, Installed)> {
    let plugstack = request.plugstack.clone().unwrap_or_else(find_plugstack);
    let before = match fs::read_to_string(&plugstack) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read.or_failed(|| format!("read {}", plugstack.display()))?,
    };
    let line = if request.remove { None } else { Some(line_for(request, &before)?) };
    let after = changed(&before, line.as_deref());
    if after == before {
        return Ok((plugstack, Installed::Unchanged));
    }
    write(&plugstack, &after).or_failed(|| format!("write {}", plugstack.display()))?;
    Ok((plugstack, line.map_or(Installed::Removed, Installed::Added)))
}

fn line_for(request: &InstallRequest, before: &str) -> Result<String> {
    let command = std::env::current_exe().or_failed(|| "find this program".to_owned())?;
    let plugin = match &request.plugin {
        Some(plugin) => std::path::absolute(plugin).or_failed(|| "find the plugin".to_owned())?,
        None => usual_place(&command)?,
    };
    if !plugin.is_file() {
        let error = format!("there is no plugin {}", plugin.display());
        let hint = match Release::installed().filter(|_| request.plugin.is_none()) {
            None => "`--plugin PATH` names another one".to_owned(),
            Some(release) => Installation::of(Some(&command)).plugin(&release.to_string()).hint(),
        };
        return Err(Report::new(Kind::NotFound, error).hinted(hint));
    }
    if plugin.file_name().is_none_or(|name| name != PLUGIN) {
        let error = format!("the file of the plugin must be called {PLUGIN}");
        return Err(Report::new(Kind::BadInput, error));
    }
    if let Some(fault) = fault_of_release(&plugin) {
        return Err(Report::new(Kind::BadInput, fault).hinted(hint_for_another(&command)));
    }
    let mut line = format!("required {} cabane={}", plugin.display(), command.display());
    if let Some(destination) = &request.record {
        if let Some(fault) = destination.fault() {
            return Err(Report::new(Kind::BadInput, fault));
        }
        line += &format!(" record={destination}");
    } else if let Some(kept) = before.lines().find_map(Line::parse)
        && let Some(destination) = kept.record.filter(|_| !request.no_record)
    {
        line += &format!(" record={destination}");
    }
    if request.container_options != "auto" {
        line += &format!(" container-options={}", request.container_options);
    }
    Ok(line)
}

/// Says where the plugin for this Slurm is, instead of one for another Slurm.
fn hint_for_another(command: &Path) -> Option<String> {
    if usual_place(command)
        .is_ok_and(|plugin| plugin.is_file() && fault_of_release(&plugin).is_none())
    {
        return Some(
            "`cabane slurm install` without `--plugin` takes the one for this Slurm".to_owned(),
        );
    }
    let release = Release::installed()?.to_string();
    Some(Installation::of(Some(command)).plugin(&release).hint())
}

fn usual_place(command: &Path) -> Result<PathBuf> {
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
