// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Commands of a recipe, run in the image one after the other.
//!
//! ```text
//! work/commands/       closed to others
//! ├── apt.conf         what the commands see below /run
//! ├── hosts
//! ├── tmp/             `/tmp` of a command
//! └── <fingerprint>/   a layer for each command
//!     ├── upper/       what it has changed
//!     ├── work/        of overlayfs
//!     └── done.json    written when the command has succeeded
//! ```
//!
//! The fingerprint of a layer is that of its command and of the layer below. So a command runs again
//! only if it, or something before it, has changed.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use cabane_container::{Layer, Moment, RecordedCommand, Times, changes};
use cabane_label::Digest;
use cabane_mount::BuildRoot;
use cabane_recipe::{CommandLine, RunCommand};
use rustix::fs::{OFlags, syncfs};
use serde::{Deserialize, Serialize};

use super::base::Base;
use crate::build_context::BuildContext;
use crate::fingerprint::{self, Inputs};
use crate::own::make_own_directory;
use crate::sandbox::{Invocation, quoted, start_in_root};
use crate::{BuildError, Result, disk};

/// Where layers are, in the work directory.
const COMMANDS: &str = "commands";
const TMP: &str = "tmp";
const DONE: &str = "done.json";
/// The variables that every command finds, whatever the image says.
const VARIABLES: [(&str, &str); 8] = [
    ("APT_CONFIG", APT_CONFIG),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("HOME", "/root"),
    ("LOGNAME", "root"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
    ("PYTHONHASHSEED", "0"),
    ("TZ", "UTC"),
    ("USER", "root"),
];
/// The one that an image may set.
const LANG: (&str, &str) = ("LANG", "C.UTF-8");
const APT_CONFIG: &str = "/run/cabane-apt.conf";
/// There is one user, and apt checks whether it has become another one.
const APT_TEXT: &str = "APT::Sandbox::User \"root\";\n";
const HOSTS: &str = "/etc/hosts";
const HOSTS_TEXT: &str = "127.0.0.1 localhost\n::1 localhost\n";
const RESOLVER: &str = "/etc/resolv.conf";
/// Lists packages, unless the image has the database of rpm and not the program.
const RPM: &str = "if command -v rpm >/dev/null; then rpm -qa --qf '%{NAME}\t%{VERSION}-%{RELEASE}\n'; \
                   fi >/tmp/packages";
const MOST: u64 = 64 << 20;
/// What programs say that find no network.
const NO_NETWORK: [&str; 6] = [
    "Temporary failure in name resolution",
    "Temporary failure resolving",
    "Could not resolve host",
    "Name or service not known",
    "Network is unreachable",
    "unable to resolve host address",
];

/// The commands of a recipe.
#[derive(Clone, Debug)]
pub(super) struct Commands {
    pub(super) list: Vec<RunCommand>,
    /// Where the recipe is, for messages.
    pub(super) recipe: String,
    /// Where they start, if the recipe says so.
    pub(super) working_directory: Option<String>,
    /// What they find in their environment, in short.
    pub(super) environment: String,
}

/// What is kept of a command that has succeeded.
#[derive(Debug, Deserialize, Serialize)]
struct Done {
    fingerprint: Digest,
    begin: Moment,
    end: Moment,
}

/// Writes a command on one line, as it can be typed.
pub(super) fn shown(command: &CommandLine) -> String {
    match command {
        CommandLine::Shell(text) => {
            let mut lines = text.lines().filter(|line| !line.trim().is_empty());
            let first = lines.next().unwrap_or_default().trim().to_owned();
            if lines.next().is_some() { format!("{first} …") } else { first }
        }
        CommandLine::Words(words) => {
            let words: Vec<_> = words.iter().map(|word| quoted(OsStr::new(word))).collect();
            words.join(" ")
        }
    }
}

fn whole(command: &CommandLine) -> String {
    match command {
        CommandLine::Shell(text) => format!("sh {text}"),
        CommandLine::Words(words) => format!("{words:?}"),
    }
}

fn invocation(command: &CommandLine, directory: &str) -> Invocation {
    match command {
        CommandLine::Shell(text) => {
            Invocation::new("/bin/sh", directory).with(["-euc", text.as_str()])
        }
        CommandLine::Words(words) => {
            let (program, arguments) =
                words.split_first().map_or(("", words.as_slice()), |one| (one.0.as_str(), one.1));
            Invocation::new(program, directory).with(arguments)
        }
    }
}

impl Commands {
    fn place(&self, command: &RunCommand) -> String {
        format!("{}:{}", self.recipe, command.line)
    }

    /// Fails if a command may not do what it wants.
    pub(super) fn check(&self, network_is_allowed: bool) -> Result<()> {
        match self.list.iter().find(|command| command.network && !network_is_allowed) {
            None => Ok(()),
            Some(command) => Err(BuildError::refused(
                format!(
                    "{}: this command needs the network, but `build.command_network` forbids it",
                    self.place(command)
                ),
                "put what it downloads into the recipe, with `files:`, and remove `network: true`",
            )),
        }
    }

    /// What decides about the result, by name.
    pub(super) fn inputs(&self, epoch: u32) -> Inputs {
        let numbered = (1..).zip(&self.list);
        let commands = numbered.map(|(number, command)| {
            let network = if command.network { "network, " } else { "" };
            let text = format!("{network}{}", whole(&command.command));
            (format!("command {number}"), text)
        });
        let all = [
            ("environment".to_owned(), self.environment.clone()),
            ("epoch".to_owned(), epoch.to_string()),
        ];
        commands.chain(all).collect()
    }

    /// The commands for people, each on a line.
    pub(super) fn lines(&self) -> Vec<String> {
        self.list.iter().map(|command| shown(&command.command)).collect()
    }

    /// The commands for the metadata.
    pub(super) fn recorded(&self) -> Vec<RecordedCommand> {
        let recorded = |one: &RunCommand| RecordedCommand {
            command: match &one.command {
                CommandLine::Shell(text) => text.clone(),
                words @ CommandLine::Words(_) => shown(words),
            },
            network: one.network,
        };
        self.list.iter().map(recorded).collect()
    }

    /// The directories of the layers, the lowest first, on an image of this fingerprint.
    fn layers(&self, work: &Path, base: &Digest, epoch: u32) -> Vec<(PathBuf, Digest)> {
        let inputs = self.inputs(epoch);
        let mut below = base.clone();
        let mut layers = Vec::new();
        for number in 1..=self.list.len() {
            let name = format!("command {number}");
            let own =
                inputs.iter().filter(|(key, _)| **key == name || !key.starts_with("command "));
            // Without its number, which says nothing about it.
            let own = own.map(|(key, value)| (key.replace(&name, "command"), value.clone()));
            below = fingerprint::of_step("command", &own.collect(), Some(&below));
            let directory = work.join(COMMANDS).join(&below.as_str()[..16]);
            layers.push((directory, below.clone()));
        }
        layers
    }

    /// Returns what the commands have changed, the lowest layer first; none if one has not been run.
    pub(super) fn changes(
        &self,
        work: &Path,
        base: &Digest,
        epoch: u32,
    ) -> Option<Vec<Layer<'static>>> {
        let layers = self.layers(work, base, epoch);
        let mut times = Times { spans: Vec::new(), settled: epoch };
        let mut changed = Vec::new();
        for (directory, fingerprint) in layers {
            let done = Done::read(&directory, &fingerprint)?;
            times.spans.push((done.begin, done.end));
            changed.push(changes(&directory.join("upper"), &times));
        }
        Some(changed)
    }

    /// Runs those that have not been run; all if `again`.
    pub(super) fn run(
        &self,
        bench: &mut BuildContext<'_>,
        base: &Base,
        fingerprint: &Digest,
        variables: &BTreeMap<OsString, OsString>,
        again: bool,
    ) -> Result<Vec<PathBuf>> {
        let work = bench.layout.work();
        let layers = self.layers(&work, fingerprint, bench.request.epoch);
        let own = work.join(COMMANDS);
        // Where root builds, a command can make programs that give its rights to others.
        let opened = make_own_directory(&own)?;
        let closed = fs::Permissions::from_mode(0o700);
        opened.set_permissions(closed).map_err(BuildError::file("close", &own))?;
        disk::put(&own.join("apt.conf"), APT_TEXT)?;
        disk::put(&own.join("hosts"), HOSTS_TEXT)?;
        let mut lower: Vec<PathBuf> = Vec::new();
        let mut is_changed = again;
        for (number, (command, (directory, fingerprint))) in
            self.list.iter().zip(&layers).enumerate()
        {
            let head = format!("[{}/{}]", number + 1, self.list.len());
            let text = shown(&command.command);
            if !is_changed && Done::read(directory, fingerprint).is_some() {
                bench.progress.remark(&format!("{head} as before: {text}"));
            } else {
                is_changed = true;
                bench.progress.remark(&format!("{head} {text}"));
                self.run_one(bench, base, &lower, (command, directory, fingerprint), variables)?;
            }
            lower.push(directory.join("upper"));
        }
        remove_others(&own, &layers)?;
        Ok(lower)
    }

    /// Asks rpm what is installed, which writes into a layer that is removed.
    pub(super) fn ask_rpm(
        bench: &mut BuildContext<'_>,
        base: &Base,
        lower: &[PathBuf],
        variables: &BTreeMap<OsString, OsString>,
    ) -> Result<String> {
        let directory = bench.layout.work().join(COMMANDS).join("query");
        let invocation = Invocation::new("/bin/sh", "/").with(["-euc", RPM]);
        let root = root(bench, base, lower, Some(&directory), false)?;
        bench.follow(&invocation, None, |log| start_in_root(root, &invocation, variables, log))?;
        disk::remove(&directory)?;
        let answer = bench.layout.work().join(COMMANDS).join(TMP).join("packages");
        // A command may have left a link to something else there.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut opened = File::options();
        opened.read(true).custom_flags(flags.bits().cast_signed());
        let mut text = Vec::new();
        let read = opened.open(&answer).and_then(|file| file.take(MOST).read_to_end(&mut text));
        read.map_err(BuildError::file("read", &answer))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn run_one(
        &self,
        bench: &mut BuildContext<'_>,
        base: &Base,
        lower: &[PathBuf],
        (command, directory, fingerprint): (&RunCommand, &Path, &Digest),
        variables: &BTreeMap<OsString, OsString>,
    ) -> Result<()> {
        disk::make_empty(directory)?;
        let begin = time_of(directory)?;
        let of_image = base.meta.container.as_ref();
        let of_image = of_image.and_then(|one| one.working_directory.as_deref());
        let working_directory = self.working_directory.as_deref().or(of_image).unwrap_or("/");
        let invocation = invocation(&command.command, working_directory);
        let root = root(bench, base, lower, Some(directory), command.network)?;
        let mut variables = variables.clone();
        if command.network {
            variables.extend(proxies(&bench.request.passed_variables));
        }
        let ran = bench
            .follow(&invocation, None, |log| start_in_root(root, &invocation, &variables, log));
        ran.map_err(|mut error: BuildError| {
            error.change_failure(|failure| {
                failure.place = Some(self.place(command));
                failure.command = shown(&command.command);
                // What the commands before it said is in the log.
                let head = format!("$ {}", invocation.shown());
                if let Some(start) = failure.tail.iter().rposition(|line| *line == head) {
                    failure.tail.drain(..=start);
                }
                let is_lost = |line: &String| NO_NETWORK.iter().any(|text| line.contains(text));
                if !command.network && failure.tail.iter().any(is_lost) {
                    let advice = "(commands have no network; `{command: …, network: true}` gives \
                                  it to one)";
                    failure.tail.push(advice.to_owned());
                }
            });
            error
        })?;
        // What is not needed any more; it may be closed to its owner.
        disk::remove(&directory.join("work"))?;
        let end_mark = directory.join("end");
        disk::put(&end_mark, "")?;
        // The document says that the layer is whole, also after a crash.
        let synced = File::open(directory).and_then(|opened| Ok(syncfs(opened)?));
        synced.map_err(BuildError::file("write", directory))?;
        let done = Done { fingerprint: fingerprint.clone(), begin, end: time_of(&end_mark)? };
        disk::write_json(&directory.join(DONE), &done)
    }
}

impl Done {
    fn read(directory: &Path, fingerprint: &Digest) -> Option<Self> {
        let done: Self = disk::read_json(&directory.join(DONE), 1 << 16)?;
        let is_whole = done.fingerprint == *fingerprint && directory.join("upper").is_dir();
        is_whole.then_some(done)
    }
}

/// Prepares the root in which a command runs.
pub(super) fn root(
    bench: &BuildContext<'_>,
    base: &Base,
    lower: &[PathBuf],
    layer: Option<&Path>,
    network: bool,
) -> Result<BuildRoot> {
    let own = bench.layout.work().join(COMMANDS);
    let tmp = own.join(TMP);
    disk::make_empty(&tmp)?;
    let open = fs::Permissions::from_mode(0o1777);
    fs::set_permissions(&tmp, open).map_err(BuildError::file("open", &tmp))?;
    if let Some(layer) = layer {
        for name in ["upper", "work"] {
            disk::make_empty(&layer.join(name))?;
        }
        // It becomes the root directory of the image.
        let upper = layer.join("upper");
        let usual = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&upper, usual).map_err(BuildError::file("open", &upper))?;
    }
    let mut files =
        vec![(APT_CONFIG.into(), own.join("apt.conf")), (HOSTS.into(), own.join("hosts"))];
    if network {
        files.push((RESOLVER.into(), RESOLVER.into()));
    }
    Ok(BuildRoot {
        backend: bench.request.backend,
        fuse: bench.request.fuse.clone(),
        image: base.open()?,
        lower: lower.to_vec(),
        layer: layer.map(Path::to_owned),
        tmp,
        files,
        network,
    })
}

/// Removes what the last command left in `/tmp`.
pub(super) fn remove_tmp(bench: &BuildContext<'_>) -> Result<()> {
    disk::remove(&bench.layout.work().join(COMMANDS).join(TMP))
}

/// What commands find in their environment beside what the image sets.
pub(super) fn fixed_variables(
    mut of_image: BTreeMap<OsString, OsString>,
    epoch: u32,
) -> BTreeMap<OsString, OsString> {
    of_image.entry(LANG.0.into()).or_insert_with(|| LANG.1.into());
    of_image.extend(VARIABLES.map(|(name, value)| (name.into(), value.into())));
    of_image.insert("SOURCE_DATE_EPOCH".into(), epoch.to_string().into());
    of_image
}

/// The variables that lead to the network.
fn proxies(passed: &BTreeMap<String, String>) -> impl Iterator<Item = (OsString, OsString)> + '_ {
    let is_proxy = |name: &str| name.to_ascii_lowercase().ends_with("_proxy");
    let proxies = passed.iter().filter(move |(name, _)| is_proxy(name));
    proxies.map(|(name, value)| (name.into(), value.into()))
}

/// When a file was changed, by the clock of its file system.
fn time_of(path: &Path) -> Result<Moment> {
    let found = fs::metadata(path).map_err(BuildError::file("find", path))?;
    Ok((found.mtime(), found.mtime_nsec().unsigned_abs()))
}

/// Removes layers of commands that are not in the recipe any more.
fn remove_others(own: &Path, layers: &[(PathBuf, Digest)]) -> Result<()> {
    for entry in disk::entries("list", own)? {
        let path = entry.path();
        let is_used = layers.iter().any(|(directory, _)| *directory == path);
        if path.is_dir() && !path.is_symlink() && !is_used {
            disk::remove(&path)?;
        }
    }
    Ok(())
}
