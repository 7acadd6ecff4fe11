// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a build may see of the system it runs on, and what it may change.
//!
//! `/usr` and `/lib` look inside as they do outside: tools find the same C library
//! at the same place. The home is empty, `/tmp` is the build's own, the variables
//! are fixed, and the system's directories are read-only, for root as well. The
//! network stays where packages come from there.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use cabane_mount::{
    Backend, BuildRoot, FusePrograms, ImageFile, ImageFormat, MountPlan, Operation, Way, perform,
};
use cabane_process::alone::close_all_with_exec;
use cabane_process::child::prepare_child;
use cabane_process::confine::leave_host;
use cabane_process::process_namespace::enter_process_namespace;
use cabane_report::{Kind, Report, shell_word};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, fchdir, getpid, getppid, set_parent_process_death_signal, umask};

use crate::layout::{Inside, Layout};
use crate::own_program::check_program;
use crate::{BuildError, BuildRequest, Result, disk};

/// Directories that a build cannot change, where they are not links.
const SYSTEM: [&str; 14] = [
    "/bin", "/boot", "/etc", "/home", "/lib", "/lib32", "/lib64", "/opt", "/root", "/run", "/sbin",
    "/srv", "/usr", "/var",
];

/// The variables that every program in the sandbox finds.
const VARIABLES: [(&str, &str); 7] = [
    ("HOME", Inside::HOME),
    ("LANG", "C.UTF-8"),
    ("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
    ("PYTHONHASHSEED", "0"),
    ("TMPDIR", Inside::TMP),
    ("TZ", "UTC"),
];

/// A private view of the system for the programs of a build.
#[derive(Clone, Debug)]
pub(crate) struct Sandbox {
    backend: Backend,
    fuse: FusePrograms,
    images: Vec<MountedImage>,
    binds: Vec<Bind>,
    hidden: Vec<PathBuf>,
    in_memory: Vec<PathBuf>,
    has_network: bool,
    variables: BTreeMap<OsString, OsString>,
    tmp: PathBuf,
    home: PathBuf,
}

#[derive(Clone, Debug)]
struct Bind {
    source: PathBuf,
    target: PathBuf,
    read_only: bool,
}

/// An image at its mount point.
#[derive(Clone, Debug)]
struct MountedImage {
    path: PathBuf,
    format: ImageFormat,
    mount_point: PathBuf,
}

/// A program to be started in the sandbox.
#[derive(Clone, Debug)]
pub(crate) struct Invocation {
    /// Its path in the sandbox.
    pub(crate) program: PathBuf,
    /// What decides about its result; shown to the user.
    pub(crate) arguments: Vec<OsString>,
    /// Further arguments that change how fast it is and what it leaves behind, and not
    /// its result.
    pub(crate) speed: Vec<OsString>,
    /// The directory in which it starts.
    pub(crate) directory: PathBuf,
}

impl Invocation {
    pub(crate) fn new(program: impl Into<PathBuf>, directory: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            speed: Vec::new(),
            directory: directory.into(),
        }
    }

    pub(crate) fn with<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        let arguments = arguments.into_iter().map(|one| one.as_ref().to_owned());
        self.arguments.extend(arguments);
        self
    }

    /// Writes the command as it could be typed.
    pub(crate) fn shown(&self) -> String {
        let mut parts = vec![
            self.program
                .file_name()
                .map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        ];
        parts.extend(self.arguments.iter().map(|argument| quoted(argument)));
        parts.join(" ")
    }

    /// Prepares the program, whose output goes into `log`, as the leader of a process group.
    fn command(&self, log: &File) -> io::Result<Command> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .args(&self.speed)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?);
        Ok(command)
    }

    /// Starts the program in the world as it is. It leads a process group of its own
    /// and dies with this thread.
    pub(crate) fn start_outside(&self, variables: &[(&str, &OsStr)], log: &File) -> Result<Child> {
        let failed = || BuildError::file("start", &self.program);
        let mut command = self.command(log).map_err(failed())?;
        command.envs(variables.iter().copied()).current_dir(&self.directory);
        prepare_child(&mut command, || Ok(set_parent_process_death_signal(Some(Signal::KILL))?))
            .spawn()
            .map_err(failed())
    }
}

pub(crate) fn quoted(argument: &OsStr) -> String {
    shell_word(&cabane_label::escape(&argument.to_string_lossy())).into_owned()
}

impl Sandbox {
    /// Makes the sandbox of a build; nothing of the build's results is in it yet.
    pub(crate) fn new(request: &BuildRequest, layout: &Layout) -> Self {
        let home = request.effective_home();
        let mut sandbox = Self {
            backend: request.backend,
            fuse: request.fuse.clone(),
            images: Vec::new(),
            binds: Vec::new(),
            hidden: home.iter().cloned().collect(),
            in_memory: Vec::new(),
            has_network: true,
            variables: fixed_variables(request),
            tmp: layout.tmp(),
            home: layout.home(),
        };
        // Of what builds have in memory, this one sees its own part, at its place.
        if let Some(all) = layout.memory.as_deref().and_then(Path::parent) {
            sandbox.hide(all);
        }
        sandbox.bind(layout.tmp(), Inside::TMP, false);
        sandbox.bind(layout.home(), Inside::HOME, false);
        if let Some(home) = &home {
            for value in request.passed_variables.values() {
                let path = Path::new(value);
                if path.starts_with(home) && path.exists() {
                    sandbox.bind(path, path, true);
                }
            }
        }
        sandbox
    }

    /// Shows a file or directory of the system at a place in the sandbox.
    pub(crate) fn bind(
        &mut self,
        source: impl Into<PathBuf>,
        target: impl Into<PathBuf>,
        read_only: bool,
    ) {
        self.binds.push(Bind { source: source.into(), target: target.into(), read_only });
    }

    /// Mounts an image.
    pub(crate) fn mount(&mut self, image: &Path, format: ImageFormat, mount_point: &Path) {
        let (path, mount_point) = (image.to_owned(), mount_point.to_owned());
        self.images.push(MountedImage { path, format, mount_point });
    }

    /// Shows a file or directory at its own place, if it would be hidden there.
    pub(crate) fn keep(&mut self, path: &Path) {
        if self.hides(path) {
            self.bind(path, path, true);
        }
    }

    /// Shows a program and returns where it is: at its own place where possible.
    pub(crate) fn keep_program(&mut self, path: &Path) -> PathBuf {
        if !self.hides(path) {
            return path.to_owned();
        }
        let name = path.file_name().unwrap_or(OsStr::new("program"));
        let target = Path::new(Inside::TOOLS).join(name);
        self.bind(path, &target, true);
        target
    }

    /// Covers a directory of the system with an empty one.
    pub(crate) fn hide(&mut self, directory: impl Into<PathBuf>) {
        self.hidden.push(directory.into());
    }

    /// Makes a directory that is in memory, and gone when the last program is.
    pub(crate) fn in_memory(&mut self, directory: impl Into<PathBuf>) {
        let directory = directory.into();
        // A place to mount it at.
        self.bind(self.home.clone(), &directory, true);
        self.in_memory.push(directory);
    }

    /// Takes the network away: then there is a loopback device and nothing else.
    pub(crate) fn without_network(&mut self) {
        self.has_network = false;
    }

    /// Sets a variable for the programs in the sandbox.
    pub(crate) fn set(&mut self, variable: &str, value: impl Into<OsString>) {
        self.variables.insert(variable.into(), value.into());
    }

    pub(crate) fn unset(&mut self, variable: &str) {
        self.variables.remove(OsStr::new(variable));
    }

    fn hides(&self, path: &Path) -> bool {
        path.starts_with(Inside::TMP) || self.hidden.iter().any(|hidden| path.starts_with(hidden))
    }

    /// Starts a program whose output goes into `log`. It leads a process group of
    /// its own and dies with this thread.
    pub(crate) fn start(&self, invocation: &Invocation, log: &File) -> Result<Child> {
        self.make_targets_in_tmp()?;
        let surroundings = Surroundings::Plan(self.mount_plan()?, self.has_network);
        start_in(surroundings, invocation, &self.variables, log)
    }

    fn mount_plan(&self) -> Result<MountPlan> {
        let system = SYSTEM
            .map(PathBuf::from)
            .into_iter()
            .filter(|path| path.symlink_metadata().is_ok_and(|found| found.file_type().is_dir()));
        let mut operations: Vec<_> = system
            .map(|path| Operation::Bind { source: path.clone(), target: path, read_only: true })
            .collect();
        let hide = |directory: &PathBuf| Operation::Hide { directory: directory.clone() };
        operations.extend(self.hidden.iter().map(hide));
        for MountedImage { path, format, mount_point } in &self.images {
            let file = File::open(path).map_err(BuildError::file("open the image", path))?;
            let image = ImageFile { file, path: path.clone(), format: *format, verity: None };
            let mount_point = mount_point.clone();
            operations.push(Operation::Image { image, way: Way::Kernel, mount_point });
        }
        operations.extend(self.binds.iter().map(|bind| Operation::Bind {
            source: bind.source.clone(),
            target: bind.target.clone(),
            read_only: bind.read_only,
        }));
        operations.extend(self.in_memory.iter().map(hide));
        Ok(MountPlan { backend: self.backend, fuse: self.fuse.clone(), operations })
    }

    /// What is to appear below `/tmp` needs a place in the build's own `/tmp`:
    /// otherwise that would be shadowed, and read-only.
    fn make_targets_in_tmp(&self) -> Result<()> {
        for bind in &self.binds {
            let Ok(relative) = bind.target.strip_prefix(Inside::TMP) else {
                continue;
            };
            let place = self.tmp.join(relative);
            if bind.source.is_dir() {
                disk::make_directory(&place)?;
            } else {
                disk::make_directory(place.parent().unwrap_or(&self.tmp))?;
                File::create(&place).map_err(BuildError::file("make", &place))?;
            }
        }
        Ok(())
    }
}

impl BuildRequest {
    /// Returns the home that is hidden, free of links. The root is no home, whatever
    /// the user database says about system accounts.
    pub(crate) fn effective_home(&self) -> Option<PathBuf> {
        let home = fs::canonicalize(self.hidden_home.as_ref()?).ok()?;
        (home.is_dir() && home != Path::new("/")).then_some(home)
    }
}

fn fixed_variables(request: &BuildRequest) -> BTreeMap<OsString, OsString> {
    let passed = request.passed_variables.iter();
    let mut variables: BTreeMap<OsString, OsString> =
        passed.map(|(name, value)| (name.into(), value.into())).collect();
    let fixed = VARIABLES.map(|(name, value)| (name.into(), value.into()));
    variables.extend(fixed);
    let epoch = request.epoch.to_string();
    variables.insert("SOURCE_DATE_EPOCH".into(), epoch.into());
    variables
}

/// Starts a program in the root file system of an image, as [`Sandbox::start`] does.
pub(crate) fn start_in_root(
    root: BuildRoot,
    invocation: &Invocation,
    variables: &BTreeMap<OsString, OsString>,
    log: &File,
) -> Result<Child> {
    start_in(Surroundings::Root(root), invocation, variables, log)
}

fn start_in(
    surroundings: Surroundings,
    invocation: &Invocation,
    variables: &BTreeMap<OsString, OsString>,
    log: &File,
) -> Result<Child> {
    let no_log = |source| unmade("cannot share the log with the program", &source);
    let mut command = invocation.command(log).map_err(no_log)?;
    command.env_clear().envs(variables);
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)
        .map_err(|errno| unmade("cannot make a pipe", &errno.into()))?;
    let preparation = Preparation {
        surroundings: Some(surroundings),
        program: invocation.program.clone(),
        search: variables.get(OsStr::new("PATH")).cloned().unwrap_or_default(),
        directory: invocation.directory.clone(),
        parent: getpid(),
        complaints: writer,
    };
    let started = preparation.attach_to(&mut command).spawn();
    // The command holds the other end of the pipe.
    drop(command);
    started.map_err(|error| explain(reader, &invocation.program, &error))
}

/// What a program sees.
enum Surroundings {
    /// The system, with some of it covered, and whether it has a network.
    Plan(MountPlan, bool),
    /// An image.
    Root(BuildRoot),
}

/// What the child does between fork and exec.
struct Preparation {
    surroundings: Option<Surroundings>,
    program: PathBuf,
    /// Where it is searched for: the variable `PATH`.
    search: OsString,
    directory: PathBuf,
    parent: rustix::process::Pid,
    complaints: OwnedFd,
}

impl Preparation {
    fn attach_to(mut self, command: &mut Command) -> &mut Command {
        prepare_child(command, move || {
            self.prepare().map_err(|(message, hint)| {
                let text = format!("{message}\0{hint}");
                // If this fails, too, the number of the error is all there is.
                let _ = rustix::io::write(&self.complaints, text.as_bytes());
                io::ErrorKind::Other.into()
            })
        })
    }

    fn prepare(&mut self) -> Result<(), (String, String)> {
        let of_mount =
            |error: cabane_mount::Error| (chain(&error), error.hint().unwrap_or_default());
        let plain = |error: io::Error| (error.to_string(), String::new());
        // What the caller of this process left open leads out of every sandbox. The log is on the
        // standard descriptors by now.
        close_all_with_exec().map_err(|error| {
            let hint = "mount it: `mount -t proc proc /proc`".to_owned();
            let hint = if error.kind() == io::ErrorKind::NotFound { hint } else { String::new() };
            (format!("cannot list open files in /proc/self/fd: {error}"), hint)
        })?;
        let mut is_image = false;
        match self.surroundings.take() {
            Some(Surroundings::Plan(mounts, has_network)) => {
                perform(mounts).map_err(of_mount)?;
                if !has_network {
                    leave_host(false).map_err(|error| {
                        (format!("cannot leave the network of the host: {error}"), String::new())
                    })?;
                }
            }
            Some(Surroundings::Root(root)) => {
                root.enter().map_err(of_mount)?;
                is_image = true;
            }
            None => {}
        }
        umask(Mode::from_raw_mode(0o022));
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(|e| plain(e.into()))?;
        // Has the parent died before it could take this process with it?
        if getppid() != Some(self.parent) {
            return Err(plain(io::Error::other("the build was killed")));
        }
        // Where it is refused, those in other groups are found by their parents, unless
        // the build is killed.
        let is_alone = enter_process_namespace().map_err(plain)?;
        if is_image && !is_alone {
            let why = "the system does not allow a separate `/proc`; containers that cover parts of \
                       `/proc` cause this";
            return Err(plain(io::Error::other(why)));
        }
        if is_image {
            BuildRoot::confine().map_err(of_mount)?;
        }
        // Not before: the image says where, and all that is there must be the command's own.
        change_directory(&self.directory, is_image).map_err(|error| {
            let directory = cabane_label::shown(&self.directory);
            (format!("cannot change into {directory}: {error}"), String::new())
        })?;
        if is_image {
            check_program(&self.program, &self.search).map_err(|why| (why, String::new()))?;
        }
        Ok(())
    }
}

/// Changes into a directory. In an image no link of `/proc` is followed that leads to what a process
/// has open, its own root among it.
fn change_directory(directory: &Path, is_image: bool) -> io::Result<()> {
    if !is_image {
        return std::env::set_current_dir(directory);
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat2(CWD, "/", flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)?;
    let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    Ok(fchdir(openat2(root, directory, flags, Mode::empty(), inside)?)?)
}

/// Turns the failure of a start into what it was: a sandbox that could not be
/// made, or a program that could not be started in it.
fn explain(reader: OwnedFd, program: &Path, error: &io::Error) -> BuildError {
    let mut text = String::new();
    let is_explained = File::from(reader).read_to_string(&mut text).is_ok() && !text.is_empty();
    if is_explained {
        let (message, hint) = text.split_once('\0').unwrap_or((&text, ""));
        let hint = Some(hint.to_owned()).filter(|hint| !hint.is_empty());
        return no_sandbox(&cabane_label::escape(message)).hinted(hint).into();
    }
    unmade(&format!("cannot start {} in it", cabane_label::shown(program)), error)
}

fn unmade(what: &str, source: &io::Error) -> BuildError {
    no_sandbox(&format!("{what}: {source}")).into()
}

fn no_sandbox(why: &str) -> Report {
    Report::new(Kind::Build, format!("cannot make the sandbox: {why}"))
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}
