// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! One user namespace for several commands.
//!
//! Without privilege every command has a user namespace of its own, and the kernel
//! keeps processes of different user namespaces from each other's memory. The ranks
//! of a parallel program need just that, so they enter the namespaces of the first
//! one of them. Why and how is in `docs/design/0006-joining.md`; how they find
//! each other in `rendezvous`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cabane_label::escape;
use cabane_mount::{MountPlan, Place, perform};
use cabane_report::{Kind, Report, Result};
use rustix::io::{FdFlags, fcntl_setfd};
use sha2::{Digest, Sha256};

use crate::join_key::{digest_of, hex, images_of};
use crate::launcher;
use crate::prepare::not_mounted;
use crate::process::{NamespaceNumbers, Namespaces, Process};
use crate::rendezvous::{Content, Directory, LockError, Member, Rendezvous, world};

/// How long a process may hold the lock: longer than it ever
/// takes to mount.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// The same for those who need no company, and save work only.
const SHORT_TIME_LIMIT: Duration = Duration::from_secs(2);
/// What a user can do to whom the others are closed.
const ALONE: &str = "`--no-join` starts anyway, but then ranks cannot read each other's memory";

/// With whom namespaces are shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Company {
    /// With the other ranks of a parallel program; with no process outside of one.
    Ranks,
    /// With no process.
    #[default]
    None,
    /// With every process of the user on this node that has the same environment.
    Everybody,
    /// With those who say the same name.
    Named(String),
}

/// With whom namespaces are shared, and how the others are found.
#[derive(Clone, Debug, Default)]
pub struct Joining {
    /// With whom.
    pub company: Company,
    /// The names of variables that only ranks have.
    pub rank_variables: Vec<&'static str>,
    /// The names of variables that number ranks on each node.
    pub local_rank_variables: Vec<&'static str>,
    /// Directories in which to look for the others, the preferred one first. The
    /// first that belongs to the user and is closed to others is used.
    pub directories: Vec<PathBuf>,
}

/// How the file of a company is called.
#[derive(Debug)]
struct CompanyFile {
    file: String,
    /// What was typed; those who say it must have the same environment.
    name: Option<String>,
    digest: String,
}

impl CompanyFile {
    fn new(kind: &str, key: &str, name: Option<&str>, plan: &MountPlan) -> Result<Self> {
        let digest = digest_of(plan).map_err(not_known)?;
        let mut hash = Sha256::new();
        for part in [kind, &world().map_err(not_known)?, key] {
            hash.update(part);
            hash.update([0]);
        }
        if name.is_none() {
            hash.update(&digest);
        }
        let file = format!("{kind}-{}", hex(&hash.finalize()));
        Ok(Self { file, name: name.map(str::to_owned), digest })
    }
}

impl Joining {
    /// Shares with no process.
    pub fn none() -> Self {
        Self::default()
    }

    /// Whether this is the second rank of its node and wants no company. One rank alone on its
    /// node would miss no one, and of several one is enough to tell.
    pub(crate) fn refuses_company(&self, variables: &BTreeMap<OsString, OsString>) -> bool {
        let mut names = self.local_rank_variables.iter();
        let is_second = |name: &&str| variables.get(OsStr::new(name)).is_some_and(|n| n == "1");
        self.company == Company::None && names.any(is_second)
    }

    /// Returns with whom this process shares: how they are chosen, what tells them from others, and
    /// the name that they say; `None` if it shares with no process.
    fn company(
        &self,
        calling: &BTreeMap<OsString, OsString>,
    ) -> Option<(&'static str, String, Option<&str>)> {
        match &self.company {
            Company::None => None,
            Company::Ranks if !launcher::is_rank(calling, &self.rank_variables) => None,
            Company::Ranks => {
                let launcher = launcher::find(&self.rank_variables);
                let key = launcher.map(|launcher| launcher.to_string());
                Some(("step", key.unwrap_or_default(), None))
            }
            Company::Everybody => Some(("same", String::new(), None)),
            Company::Named(name) => Some(("name", name.clone(), Some(name))),
        }
    }

    fn directory(&self) -> Result<(Directory, &Path)> {
        let mut tried = String::new();
        for path in &self.directories {
            match Directory::make(path) {
                Ok(directory) => return Ok((directory, path)),
                Err(error) => {
                    let sign = if tried.is_empty() { ':' } else { ';' };
                    let _ = write!(tried, "{sign} {}: {error}", path.display());
                }
            }
        }
        let message = format!("cannot look for the processes to share memory with{tried}");
        Err(Report::new(Kind::NotStarted, message).hinted(format!(
            "set XDG_RUNTIME_DIR to a directory on this node that you own, with mode 0700; {ALONE}"
        )))
    }
}

/// Carries out a plan, or enters the namespaces of others who have done so.
///
/// # Errors
///
/// Those of mounting, and whatever keeps a process from company that it was to have.
pub(crate) fn perform_or_join(
    plan: MountPlan,
    joining: &Joining,
    calling: &BTreeMap<OsString, OsString>,
) -> Result<()> {
    let Some((kind, key, name)) = joining.company(calling) else {
        return perform(plan).map_err(not_mounted);
    };
    let place = CompanyFile::new(kind, &key, name, &plan)?;
    let (directory, path) = joining.directory()?;
    let failed =
        |what| move |source| not_joined(format!("failed to {what} in {}", path.display()), source);
    let mut rendezvous = directory.lock(&place.file, TIME_LIMIT).map_err(|error| match error {
        LockError::Kept(owner) => kept(owner),
        LockError::File(error) => failed("wait for the others")(error),
    })?;
    let world = world().map_err(not_known)?;
    let known = rendezvous
        .read()
        .map_err(failed("read who is there"))?
        .filter(|content| content.world == world);
    hold_own_namespaces();
    if let Some(content) = known
        && let Some(namespaces) = door_of(&content, &place)?
    {
        let member = Member::own().map_err(not_known)?;
        enter(&namespaces, &content)?;
        return rendezvous.add(content, member).map_err(failed("tell who is there"));
    }
    // Others may have died without tidying up. No one needs this to succeed.
    let _ = directory.sweep(&world, false);
    let images = images_of(&plan);
    perform(plan).map_err(not_mounted)?;
    let content = Content {
        world,
        digest: place.digest,
        images,
        namespaces: NamespaceNumbers::own().map_err(not_known)?,
        members: vec![Member::own().map_err(not_known)?],
    };
    rendezvous.begin(&content).map_err(failed("tell who is there"))
}

/// The first of those who share images that a FUSE program serves and the helper mounts. No one else
/// looks for such images before it has begun, or has ended.
#[derive(Debug)]
pub(crate) struct First {
    rendezvous: Rendezvous,
    content: Content,
    member: Member,
}

impl First {
    /// Tells the others where the images are, if the process has become its command.
    pub(crate) fn record(mut self) {
        let numbers = self.member.living().and_then(|process| process.namespaces().ok());
        let Some(Ok(namespaces)) = numbers.map(|namespaces| namespaces.numbers()) else {
            return;
        };
        if namespaces != self.content.namespaces {
            let content = Content { namespaces, ..self.content };
            // Others mount for themselves then.
            let _ = self.rendezvous.begin(&content);
        }
    }
}

/// Finds a process in whose mount namespace images are served already; otherwise this process may
/// be the first. Those share a FUSE program who are in one control group: they are ended together,
/// and no one loses the program with another step of a job.
///
/// Whatever is in the way: then this process has a program of its own.
pub(crate) fn find_served(
    plan: &MountPlan,
    joining: &Joining,
    calling: &BTreeMap<OsString, OsString>,
) -> (Place, Option<First>) {
    if plan.served().next().is_none() || joining.company == Company::None {
        return (Place::Here, None);
    }
    look_for_served(plan, joining, calling).unwrap_or((Place::Here, None))
}

fn look_for_served(
    plan: &MountPlan,
    joining: &Joining,
    calling: &BTreeMap<OsString, OsString>,
) -> Result<(Place, Option<First>)> {
    let (kind, key, name) = joining.company(calling).unwrap_or(("same", String::new(), None));
    let key = format!("{key}\n{}", control_group().map_err(not_known)?);
    let wanted = CompanyFile::new(&format!("served-{kind}"), &key, name, plan)?;
    let (directory, _) = joining.directory()?;
    let member = Member::own().map_err(not_known)?;
    let mut rendezvous =
        directory.lock(&wanted.file, SHORT_TIME_LIMIT).map_err(|error| match error {
            LockError::Kept(owner) => kept(owner),
            LockError::File(error) => not_known(error),
        })?;
    let world = world().map_err(not_known)?;
    let content = rendezvous.read().map_err(not_known)?;
    let content =
        content.filter(|content| content.world == world && content.digest == wanted.digest);
    if let Some(content) = content
        && let Some(id) = content.members.iter().find_map(|member| inside(*member, &content))
    {
        let place = Place::Join(id, content.namespaces.mount);
        rendezvous.add(content, member).map_err(not_known)?;
        return Ok((place, None));
    }
    let _ = directory.sweep(&world, false);
    let content = Content {
        world,
        digest: wanted.digest,
        images: images_of(plan),
        // Those that it is about to leave.
        namespaces: NamespaceNumbers::own().map_err(not_known)?,
        members: vec![member],
    };
    Ok((Place::Here, Some(First { rendezvous, content, member })))
}

/// Returns the number of a member that is alive and where the images are.
fn inside(member: Member, content: &Content) -> Option<u32> {
    let process = member.living()?;
    let namespaces = process.namespaces().ok()?;
    (namespaces.numbers().ok()? == content.namespaces).then_some(process.id)
}

/// Returns the control groups of this process, as far as they are ended as one: Slurm makes one for
/// each task of a step.
fn control_group() -> io::Result<String> {
    let text = std::fs::read_to_string("/proc/self/cgroup")?;
    let groups = text.lines().map(|line| {
        let group = line.rsplit_once('/');
        group.filter(|(_, last)| last.starts_with("task_")).map_or(line, |(step, _)| step)
    });
    Ok(groups.collect::<Vec<_>>().join("\n"))
}

/// Says that what `/proc` tells about this process is not known.
fn not_known(source: io::Error) -> Report {
    not_joined("cannot tell this process from others", source)
}

fn not_entered(id: u32, source: io::Error) -> Report {
    not_joined(format!("cannot enter the environment of process {id}"), source)
}

fn not_joined(message: impl Into<String>, source: io::Error) -> Report {
    Report::caused(Kind::NotStarted, message, source).hinted(ALONE.to_owned())
}

/// Says that a process does not finish what only one can do at a time.
fn kept(owner: Option<u32>) -> Report {
    let who = owner.map_or("another process".to_owned(), |id| format!("process {id}"));
    let stopped = owner.map(|id| format!("if it was stopped, `kill -CONT {id}` lets it go on; "));
    let message = format!(
        "waited {} s for {who} to make or enter the environment that is to be shared",
        TIME_LIMIT.as_secs()
    );
    Report::new(Kind::NotStarted, message).hinted(stopped.unwrap_or_default() + ALONE)
}

/// Looks for a member that is alive, and opens its namespaces; `None` if there is
/// none.
fn door_of(content: &Content, place: &CompanyFile) -> Result<Option<Namespaces>> {
    let mut refused = None;
    for member in &content.members {
        let Some(process) = member.living() else {
            continue;
        };
        if let Some(name) = &place.name
            && content.digest != place.digest
        {
            let (name, images) = (escape(name), escape(&content.images));
            let message = format!("the environment named `{name}` is another one: it has {images}");
            let hint = "name the same images in the same order and start from the same place, or \
                        choose another name with `--join=NAME`";
            return Err(Report::new(Kind::NotStarted, message).hinted(hint.to_owned()));
        }
        match open_door(&process, content.namespaces) {
            Ok(Some(namespaces)) => return Ok(Some(namespaces)),
            // It has moved on without leaving the door open, or has just ended.
            Ok(None) => {}
            // A process that ends loses its namespaces before it counts as ended.
            Err(source) if source.kind() == io::ErrorKind::NotFound => {}
            Err(source) => {
                if member.living().is_some() {
                    refused = Some(not_entered(process.id, source));
                }
            }
        }
    }
    refused.map_or(Ok(None), Err)
}

fn open_door(process: &Process, wanted: NamespaceNumbers) -> io::Result<Option<Namespaces>> {
    let namespaces = process.namespaces()?;
    if namespaces.numbers()? == wanted {
        return Ok(Some(namespaces));
    }
    Ok(process.held_namespaces(wanted).ok())
}

fn enter(namespaces: &Namespaces, content: &Content) -> Result<()> {
    let working_directory = std::env::current_dir();
    let id = content.members.first().map_or(0, |member| member.id);
    let failed = |source| not_entered(id, source);
    namespaces.enter().map_err(failed)?;
    // By path, as everyone else in there has come to his.
    let moved = working_directory.is_ok_and(|path| std::env::set_current_dir(path).is_ok());
    if moved { Ok(()) } else { std::env::set_current_dir("/").map_err(failed) }
}

/// Keeps the namespaces that a process is about to leave within reach of others, if
/// it is one that others may want to join: a rank that goes through one environment
/// into another would otherwise take the outer one with it. The descriptors pass to
/// the command and close when it ends.
fn hold_own_namespaces() {
    let is_initial = std::fs::read_to_string("/proc/self/uid_map")
        .is_ok_and(|map| map.split_whitespace().last() == Some("4294967295"));
    if is_initial {
        return;
    }
    let Ok(namespaces) = Process::own().and_then(|process| process.namespaces()) else {
        return;
    };
    for descriptor in [namespaces.user, namespaces.mount] {
        leave_open(descriptor);
    }
}

fn leave_open(descriptor: OwnedFd) {
    // One that cannot be kept is merely a door that no one can use.
    if fcntl_setfd(descriptor.as_fd(), FdFlags::empty()).is_ok() {
        std::mem::forget(descriptor);
    }
}

/// Removes what processes that were killed have left in the directories in which
/// they found each other, or only tells what would be removed.
pub fn sweep(directories: &[PathBuf], dry_run: bool) -> Vec<PathBuf> {
    let Ok(world) = world() else {
        return Vec::new();
    };
    let opened = directories.iter().filter_map(|path| Directory::open(path).ok());
    opened.flat_map(|directory| directory.sweep(&world, dry_run).unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn who_has_stopped_the_others_is_named_with_the_command_that_lets_him_go_on() {
        let error = kept(Some(4711));
        assert_eq!(
            (error.to_string().as_str(), &error.hints()[0][..42]),
            (
                "waited 60 s for process 4711 to make or enter the environment that is to be shared",
                "if it was stopped, `kill -CONT 4711` lets "
            )
        );
    }

    #[test]
    fn without_a_safe_directory_every_one_that_was_tried_is_named() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        fs::write(&file, "").unwrap();
        let joining = Joining {
            company: Company::Everybody,
            rank_variables: Vec::new(),
            local_rank_variables: Vec::new(),
            directories: vec![file.clone(), file.join("below")],
        };
        let error = joining.directory().unwrap_err().to_string();
        let file = file.display();
        let expected = format!(
            "cannot look for the processes to share memory with: {file}: it is not a directory of \
             yours with mode 0700; {file}/below: Not a directory (os error 20)"
        );
        assert_eq!(error, expected);
    }
}
