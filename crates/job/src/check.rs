// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whether jobs on a machine would get their images.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use cabane_mount::Policy;

use crate::Destination;

/// Where Slurm looks for the list of plugins, unless its configuration says otherwise.
const PLUGSTACK: &str = "/etc/slurm/plugstack.conf";
/// Where it is on a node that has its configuration from the head.
const RECEIVED: &str = "/run/slurm/conf/plugstack.conf";
/// Where the plugin finds the command if its line names none.
const COMMANDS: [&str; 2] = ["/usr/local/bin/cabane", "/usr/bin/cabane"];
/// How the file of the plugin is called.
pub(crate) const PLUGIN: &str = "cabane-slurm.so";

/// What there is for jobs on a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// What was found, a line each.
    pub facts: Vec<String>,
    /// What is wrong with it, a line each.
    pub faults: Vec<String>,
}

/// Looks at the plugin, its configuration file, and the policy. `plugstack` is the plugin
/// configuration of Slurm.
pub fn check_machine(plugstack: Option<&Path>) -> Checked {
    let plugstack = plugstack.map_or_else(plugstack_of_node, Path::to_owned);
    let (mut facts, mut faults) = (Vec::new(), Vec::new());
    match line_in(&plugstack) {
        Ok(Some(line)) => {
            facts.extend(facts_of_line(&plugstack, &line));
            faults.extend(faults_of_line(&line));
        }
        Ok(None) => faults.push(format!(
            "{} does not name the plugin: `cabane slurm install` writes the line",
            plugstack.display()
        )),
        Err(fault) => faults.push(fault),
    }
    faults.extend(faults_of_policy());
    Checked { facts, faults }
}

/// Returns the plugin configuration of Slurm if it names the plugin.
pub fn has_plugin() -> Option<PathBuf> {
    let plugstack = plugstack_of_node();
    line_in(&plugstack).ok()??;
    Some(plugstack)
}

/// Returns the file to which steps are recorded on this machine, if they are recorded to one.
pub fn find_record_file() -> Option<PathBuf> {
    let line = line_in(&find_plugstack()).ok()??;
    match line.record?.parse().ok()? {
        Destination::File(path) => Some(path),
        Destination::Syslog(_) | Destination::Collector(_) => None,
    }
}

/// A line of `plugstack.conf` that names the plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) is_required: bool,
    pub(crate) plugin: PathBuf,
    command: Option<PathBuf>,
    pub(crate) record: Option<String>,
}

impl Line {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split_whitespace();
        let is_required = match fields.next()? {
            "required" => true,
            "optional" => false,
            _ => return None,
        };
        let plugin = PathBuf::from(fields.next()?);
        let name = plugin.file_name()?.to_str()?;
        let is_ours = name == PLUGIN;
        let fields: Vec<&str> = fields.collect();
        let after = |prefix| fields.iter().find_map(|field| field.strip_prefix(prefix));
        is_ours.then(|| Self {
            is_required,
            plugin,
            command: after("cabane=").map(PathBuf::from),
            record: after("record=").map(str::to_owned),
        })
    }
}

/// Finds the line of the plugin, also in files that are included; the first one counts.
fn line_in(plugstack: &Path) -> Result<Option<Line>, String> {
    line_below(plugstack, 0)
}

/// Files that include each other are not read for ever.
const DEEPEST: u32 = 4;

fn line_below(file: &Path, depth: u32) -> Result<Option<Line>, String> {
    let text = fs::read_to_string(file)
        .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    for line in text.lines() {
        let found = match line.trim_start().strip_prefix("include ") {
            Some(pattern) if depth < DEEPEST => {
                let files = matching(Path::new(pattern.trim())).into_iter();
                files.map(|file| line_below(&file, depth + 1)).find_map(Result::transpose)
            }
            Some(_) => None,
            None => Line::parse(line).map(Ok),
        };
        if let Some(found) = found {
            return found.map(Some);
        }
    }
    Ok(None)
}

/// Finds the files of a pattern with one `*` in the last part, as files are usually included.
fn matching(pattern: &Path) -> Vec<PathBuf> {
    let name = pattern.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let (Some((start, end)), Some(directory)) = (name.split_once('*'), pattern.parent()) else {
        return vec![pattern.to_owned()];
    };
    let matches = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.strip_prefix(start).is_some_and(|rest| rest.ends_with(end))
    };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(matches).collect();
    files.sort();
    files
}

fn facts_of_line(plugstack: &Path, line: &Line) -> Vec<String> {
    let release = File::open(&line.plugin).ok();
    let release = release.and_then(|file| cabane_compat::number_under(&file, "plugin_version"));
    let release = release.map(|number| format!(", for Slurm {}", Release::of_number(number)));
    let plugin = line.plugin.display();
    let mut facts = vec![
        format!("plugin: {plugin}{}", release.unwrap_or_default()),
        format!("named in: {}", plugstack.display()),
    ];
    facts.extend(line.record.as_ref().map(|record| format!("records: {record}")));
    facts
}

fn faults_of_line(line: &Line) -> Vec<String> {
    let mut faults = Vec::new();
    if !line.is_required {
        faults.push(
            "the line of the plugin says `optional`: where it fails, jobs run without their \
                     images; `required` is right"
                .to_owned(),
        );
    }
    faults.extend(fault_of_file(&line.plugin));
    faults.extend(fault_of_release(&line.plugin));
    faults.extend(fault_of_glibc(&line.plugin));
    if line.command.is_none() && !COMMANDS.iter().any(|path| Path::new(path).is_file()) {
        let places = COMMANDS.join(" and ");
        faults.push(format!("there is no `cabane` at {places}, and the line names none"));
    }
    faults.extend(line.command.as_deref().and_then(fault_of_file));
    faults.extend(line.record.as_deref().and_then(fault_of_record));
    faults
}

/// Where records go must be a place, or steps are without one, silently.
fn fault_of_record(destination: &str) -> Option<String> {
    match destination.parse::<Destination>() {
        Ok(destination) => destination.fault(),
        Err(error) => Some(format!("{error}: steps are not recorded")),
    }
}

/// What Slurm runs as root must be root's alone.
fn fault_of_file(path: &Path) -> Option<String> {
    let path_text = path.display();
    match fs::metadata(path) {
        Err(error) => Some(format!("cannot look at {path_text}: {error}")),
        Ok(found) if found.uid() != 0 || found.mode() & 0o022 != 0 => {
            Some(format!("{path_text} does not belong to root, or others may change it"))
        }
        Ok(_) => None,
    }
}

/// Slurm cannot load what was linked with a newer C library.
fn fault_of_glibc(plugin: &Path) -> Option<String> {
    let needed = cabane_compat::needed_glibc(&File::open(plugin).ok()?)?;
    let found = cabane_compat::older_glibc(needed)?;
    let plugin = plugin.display();
    Some(format!("{plugin} needs glibc {needed}, and this machine has {found}"))
}

/// Slurm starts nothing at all with a plugin of another release.
pub(crate) fn fault_of_release(plugin: &Path) -> Option<String> {
    let file = File::open(plugin).ok()?;
    let Some(number) = cabane_compat::number_under(&file, "plugin_version") else {
        return Some(format!("{} is no plugin of Slurm", plugin.display()));
    };
    let made_for = Release::of_number(number);
    match Release::installed() {
        None => Some("there is no Slurm here: `srun --version` says nothing".to_owned()),
        Some(installed) if installed == made_for => None,
        Some(installed) => Some(format!(
            "{} is for Slurm {made_for}, and this is {installed}: Slurm would start nothing any more",
            plugin.display()
        )),
    }
}

/// Year and month of a release of Slurm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Release(u32, u32);

impl std::fmt::Display for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self(0, 0) => write!(f, "of no release"),
            Self(year, month) => write!(f, "{year}.{month:02}"),
        }
    }
}

impl Release {
    /// Reads `plugin_version`: a byte each for year, month and the rest.
    fn of_number(number: u32) -> Self {
        Self((number >> 16) & 0xff, (number >> 8) & 0xff)
    }

    /// Asks the Slurm of this machine, of which a node may have the daemon only.
    pub(crate) fn installed() -> Option<Self> {
        let answers = [["srun", "--version"], ["slurmd", "-V"]].map(|[program, option]| {
            let output = Command::new(program).arg(option).output().ok()?;
            Self::parse(&String::from_utf8_lossy(&output.stdout))
        });
        answers.into_iter().flatten().next()
    }

    /// Reads `slurm 23.11.4`, or what a distribution makes of it.
    fn parse(text: &str) -> Option<Self> {
        let version = text.split_whitespace().nth(1)?;
        let mut parts = version.split('.');
        let mut number = || parts.next()?.parse().ok();
        Some(Self(number()?, number()?))
    }
}

fn faults_of_policy() -> Vec<String> {
    let policy = match Policy::read() {
        Ok(policy) => policy,
        Err(error) => return vec![format!("{error}: nothing is mounted on this node")],
    };
    let missing = policy.mount_points.iter().filter(|place| !place.is_dir());
    missing
        .map(|place| format!("there is no directory {0}: `mkdir {0}`", place.display()))
        .chain(fault_of_order())
        .collect()
}

fn fault_of_order() -> Option<String> {
    let error = cabane_mount::uarch_order().err()?;
    Some(format!("{error}: images with several builds are not mounted on this node"))
}

/// Returns the list of plugins that counts on this node: like Slurm, it prefers a file of its own
/// to one from the head.
fn plugstack_of_node() -> PathBuf {
    let named = find_plugstack();
    let received = Path::new(RECEIVED);
    if !named.exists() && received.exists() { received.to_owned() } else { named }
}

/// Asks Slurm where the list of plugins is.
pub(crate) fn find_plugstack() -> PathBuf {
    let output = Command::new("scontrol").args(["show", "config"]).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let value = text.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "PlugStackConfig").then(|| value.trim().to_owned())
    });
    value.filter(|value| value.starts_with('/')).map_or_else(|| PLUGSTACK.into(), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_plugin_is_known_by_the_name_of_the_file() {
        let line =
            Line::parse("required /opt/lib/cabane-slurm.so cabane=/opt/bin/cabane record=syslog");
        let expected = Line {
            is_required: true,
            plugin: "/opt/lib/cabane-slurm.so".into(),
            command: Some("/opt/bin/cabane".into()),
            record: Some("syslog".to_owned()),
        };
        assert_eq!(line, Some(expected));
        assert_eq!(Line::parse("required /usr/lib64/slurm/x11.so"), None);
        assert_eq!(Line::parse("# required cabane-slurm.so"), None);
    }

    #[test]
    fn a_line_is_found_in_a_file_that_is_included() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let shown = directory.path().display();
        file("a.conf", "# nothing\n");
        file("b.conf", &format!("include {shown}/plugstack\nrequired /b/cabane-slurm.so\n"));
        let main = file("plugstack", &format!("required x.so\ninclude {shown}/*.conf\n"));
        let found = line_in(&main).unwrap().unwrap();
        assert_eq!(found.plugin, Path::new("/b/cabane-slurm.so"));
        let none = file("none", &format!("include {shown}/a.conf\n"));
        assert_eq!(line_in(&none), Ok(None));
        let absent = file("wrong", &format!("include {shown}/absent\n"));
        assert!(line_in(&absent).unwrap_err().contains("/absent: "));
    }

    #[test]
    fn releases_are_read_from_numbers_and_from_names() {
        let expected = Some(Release(22, 5));
        assert_eq!(Release::parse("slurm-wlm 22.05.8"), expected);
        assert_eq!(Some(Release::of_number(0x16_05_08)), expected);
        assert_eq!(Release(22, 5).to_string(), "22.05");
    }
}
