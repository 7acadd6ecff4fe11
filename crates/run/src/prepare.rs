// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Making the mount plan and the variables, and acting on them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use cabane_mount::helper::{Helper, Unavailable};
use cabane_mount::{
    Backend, FusePrograms, ImageFile, Layer, MountPlan, Operation, PrivilegedError, Way, perform,
    unpacked,
};
use cabane_report::{Kind, Report, Result};
use cabane_repository::ImageFormat;
use cabane_resolve::{ConcreteEnvironment, ConcreteImage};
use cabane_view::{Change, Container, InterpreterNeed, VariableSettings};
use rustix::thread::set_no_new_privs;

use crate::become_command::exec;
use crate::join::{First, Joining, find_served, perform_or_join};
use crate::loaded::{Additions, CABANE_LOADED, Loaded, UENV_MOUNT_LIST, UENV_VIEW};
use crate::through_helper::{WorkingDirectory, become_helper};
use crate::venv::Venv;
use crate::{RootRequest, RunWarning, binds, host_binds, needs};

/// What is to be run, and where.
#[derive(Debug)]
pub struct RunRequest {
    /// The images and views.
    pub environment: ConcreteEnvironment,
    /// What an environment file adds to them.
    pub additions: Additions,
    /// How a root image is entered, if there is one.
    pub root: RootRequest,
    /// How to mount.
    pub backend: Backend,
    /// The programs that serve images through FUSE.
    pub fuse: FusePrograms,
    /// The variables of the caller.
    pub calling: BTreeMap<OsString, OsString>,
    /// With whom namespaces are shared.
    pub joining: Joining,
    /// The program and its arguments; nothing for what a root image starts by itself.
    pub command: Vec<OsString>,
}

/// A command that is ready to be started: a plan and variables, as data.
#[derive(Debug)]
pub struct Prepared {
    plan: MountPlan,
    helper: Option<PathBuf>,
    variables: BTreeMap<OsString, OsString>,
    command: Vec<OsString>,
    working_directory: Option<PathBuf>,
    needs: Vec<Need>,
    joining: Joining,
    warnings: Vec<RunWarning>,
}

/// Opens the images of a request and works out the plan and the variables.
///
/// # Errors
///
/// An image that cannot be read, or something else to be mounted that is not there.
pub fn prepare(request: RunRequest) -> Result<Prepared> {
    let RunRequest { environment, additions, root, backend, fuse, calling, joining, command } =
        request;
    let mut working_directory = additions.working_directory.clone();
    let container = environment.root().map(container_of);
    let is_default = root.entry_point || command.is_empty() || additions.starts_in_image;
    let command = whole_command(&environment, &root, command)?;
    if is_default && working_directory.is_none() {
        let directory = container.and_then(|container| container.working_directory.as_ref());
        working_directory = directory.map(PathBuf::from);
    }
    let (mut operations, needs) = operations_of(&environment, &additions, &root.layer)?;
    if container.is_some() {
        let here = std::env::current_dir().ok();
        operations.extend(host_binds::seen_in_root(&root, &additions, &calling, here.as_deref()));
    }
    in_order(&mut operations);
    let (variables, mut warnings) = if root.keeps_variables {
        let mut variables = root.device_variables.apply(&calling);
        name_directory(&additions, &mut variables);
        (variables, Vec::new())
    } else {
        variables_inside(&environment, &additions, &calling, &root.device_variables)
    };
    warnings.extend(needs::warnings(&environment, &variables));
    Ok(Prepared {
        plan: MountPlan { backend, fuse, operations },
        helper: None,
        variables,
        command,
        working_directory,
        needs,
        joining,
        warnings,
    })
}

fn container_of(image: &ConcreteImage) -> &Container {
    static NOTHING: LazyLock<Container> = LazyLock::new(Container::default);
    image.meta.container.as_ref().unwrap_or(&NOTHING)
}

/// Puts before the arguments what a root image starts, where that is wanted.
///
/// # Errors
///
/// That there is nothing to be started.
pub fn whole_command(
    environment: &ConcreteEnvironment,
    root: &RootRequest,
    command: Vec<OsString>,
) -> Result<Vec<OsString>> {
    if !command.is_empty() && !root.entry_point {
        return Ok(command);
    }
    let container = environment.root().map(container_of);
    let container = container.ok_or_else(|| nothing_to_start("no command is given"))?;
    let arguments_of_image = container.entrypoint.iter().map(OsString::from);
    let whole: Vec<OsString> = if command.is_empty() {
        let arguments = container.command.iter().map(OsString::from);
        arguments_of_image.chain(arguments).collect()
    } else {
        arguments_of_image.chain(command).collect()
    };
    if whole.is_empty() {
        return Err(nothing_to_start(
            "the image does not say what it starts, and no command is given",
        ));
    }
    Ok(whole)
}

fn nothing_to_start(message: &str) -> Report {
    Report::new(Kind::NotStarted, message)
        .hinted("write it after the image: `-- COMMAND`".to_owned())
}

/// Puts the operations in the order in which they are carried out: a mount point inside
/// another's tree must come after that, however they were named.
pub(crate) fn in_order(operations: &mut [Operation]) {
    operations.sort_by_key(|operation| operation.target().components().count());
}

/// What an image needs of the host, and which image that is.
pub(crate) type Need = (String, InterpreterNeed);

/// Opens the images of an environment and what else is to be mounted.
pub(crate) fn operations_of(
    environment: &ConcreteEnvironment,
    additions: &Additions,
    layer: &Layer,
) -> Result<(Vec<Operation>, Vec<Need>)> {
    let mut operations = binds::operations(environment, additions)?;
    let mut needs = Vec::new();
    for image in &environment.images {
        let file = open_image(&image.path, image.format)?;
        operations.push(if image.mount_point.is_root() {
            Operation::Root { image: file, layer: layer.clone() }
        } else {
            let unpacked = image.digest.as_ref().and_then(|digest| unpacked::find(digest.as_str()));
            Operation::Image {
                image: file,
                way: unpacked.map_or(Way::Kernel, Way::Unpacked),
                mount_point: image.mount_point.as_path().to_owned(),
            }
        });
        if let Some(need) = &image.meta.needs.interpreter {
            needs.push((needs::name_of(image), need.clone()));
        }
    }
    in_order(&mut operations);
    Ok((operations, needs))
}

/// Opens an image file for mounting.
///
/// # Errors
///
/// That it cannot be read.
pub fn open_image(path: &Path, format: ImageFormat) -> Result<ImageFile> {
    let file = File::open(path).map_err(|source| {
        let is_denied = source.kind() == io::ErrorKind::PermissionDenied;
        let hint = "ask the owner of the image for the right to read it";
        Report::caused(
            Kind::NotStarted,
            format!("cannot open the image {}", path.display()),
            source,
        )
        .hinted(is_denied.then(|| hint.to_owned()))
    })?;
    let format = match format {
        ImageFormat::Squashfs => cabane_mount::ImageFormat::Squashfs,
        ImageFormat::Erofs => cabane_mount::ImageFormat::Erofs,
    };
    Ok(ImageFile { file, path: path.to_owned(), format, verity: None })
}

/// Returns the variables of a command in an environment, for those who ask before it is started.
pub fn variables_in(
    environment: &ConcreteEnvironment,
    additions: &Additions,
    root: &RootRequest,
    calling: &BTreeMap<OsString, OsString>,
) -> BTreeMap<OsString, OsString> {
    variables_inside(environment, additions, calling, &root.device_variables).0
}

pub(crate) fn variables_inside(
    environment: &ConcreteEnvironment,
    additions: &Additions,
    calling: &BTreeMap<OsString, OsString>,
    of_devices: &VariableSettings,
) -> (BTreeMap<OsString, OsString>, Vec<RunWarning>) {
    let of_image;
    let calling = if environment.root().is_some() {
        of_image = host_binds::variables(calling);
        &of_image
    } else {
        calling
    };
    let mut loaded = Loaded::of_variables(calling);
    let places = loaded.images.iter().map(|image| image.mount_point.clone());
    let venv = Venv::active(calling, &places.collect::<Vec<_>>());
    loaded.remember_replaced(environment, calling);
    loaded.enter(environment, additions);
    let mut variables = environment.patch.apply(calling);
    let mut warnings = match venv {
        Some(venv) => venv.win(calling, &mut variables),
        None => Vec::new(),
    };
    variables = additions.variables.apply(&variables);
    // Those of a device hold, as where its specification is from.
    variables = of_devices.apply(&variables);
    warnings.extend(replaced_lists(environment, additions));
    name_directory(additions, &mut variables);
    variables.insert(CABANE_LOADED.into(), loaded.to_variable().into());
    variables.insert(UENV_MOUNT_LIST.into(), loaded.mount_list().into());
    variables.insert(UENV_VIEW.into(), loaded.view_list().into());
    (variables, warnings)
}

/// Sets the variable that names the working directory, where it is another one.
fn name_directory(additions: &Additions, variables: &mut BTreeMap<OsString, OsString>) {
    if let Some(directory) = &additions.working_directory {
        // Shells take it for the name of the directory, which has no `..` in it.
        let is_plain = directory.components().all(|part| part != Component::ParentDir);
        variables.remove(OsStr::new("PWD"));
        if is_plain {
            variables.insert("PWD".into(), directory.into());
        }
    }
}

/// Finds the lists to which views add, and which are then given another value.
fn replaced_lists(
    environment: &ConcreteEnvironment,
    additions: &Additions,
) -> impl Iterator<Item = RunWarning> {
    let is_replaced = |variable: &str| {
        let setting = additions.variables.0.get(variable);
        let value = setting.and_then(|setting| setting.set.as_deref());
        value.is_some_and(|value| !value.is_empty())
    };
    let is_list = |change: &Change| matches!(change, Change::List { .. });
    let changes = environment.patch.iter();
    changes
        .filter(move |(variable, changes)| is_replaced(variable) && changes.iter().any(is_list))
        .map(|(variable, _)| RunWarning::ListReplaced { variable: variable.to_owned() })
}

impl Prepared {
    /// Returns what will be mounted.
    pub fn plan(&self) -> &MountPlan {
        &self.plan
    }

    /// Mounts through the set-uid helper instead. Returns why the kernel does not read images that
    /// a FUSE program serves then.
    ///
    /// # Errors
    ///
    /// Why the helper would refuse the plan. Then everything stays as it was.
    pub fn use_helper(&mut self, helper: Helper) -> Result<Vec<PrivilegedError>, Unavailable> {
        let reasons = helper.choose_ways(&mut self.plan)?;
        self.plan.backend = Backend::Helper;
        self.helper = Some(helper.path);
        Ok(reasons)
    }

    /// Returns the variables that the command will have.
    pub fn variables(&self) -> &BTreeMap<OsString, OsString> {
        &self.variables
    }

    /// Sets a variable of the command, or removes it.
    pub fn set_variable(&mut self, name: &str, value: Option<OsString>) {
        match value {
            Some(value) => self.variables.insert(name.into(), value),
            None => self.variables.remove(OsStr::new(name)),
        };
    }

    /// Returns the directory in which the command starts, if it is known.
    pub fn working_directory(&self) -> Option<&Path> {
        self.working_directory.as_deref()
    }

    /// Returns what the user should know, once it is decided who mounts.
    pub fn warnings(&self) -> impl Iterator<Item = &RunWarning> {
        let is_apart = self.plan.backend == Backend::UserNamespace
            && self.joining.refuses_company(&self.variables);
        let apart = is_apart.then_some(&RunWarning::RanksApart);
        self.warnings.iter().chain(apart)
    }

    /// Mounts and becomes the command. The process must have one thread. What turns out
    /// only then is handed to `tell`.
    ///
    /// Returns only if that failed: nothing of the user's has been started then.
    pub fn exec(self, tell: impl FnOnce(&RunWarning)) -> Report {
        match self.try_exec(tell) {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }

    fn try_exec(self, tell: impl FnOnce(&RunWarning)) -> Result<Infallible> {
        let here = std::env::current_dir().ok();
        if let Some(helper) = &self.helper {
            needs::check_before(&self.needs, &self.plan)?;
            if self.working_directory.is_none() && here.is_none() {
                tell(&RunWarning::Elsewhere { path: None });
            }
            let directory = match self.working_directory {
                Some(path) => WorkingDirectory::Must(path),
                None => WorkingDirectory::May(here),
            };
            let (place, first) = find_served(&self.plan, &self.joining, &self.variables);
            return become_helper(
                helper,
                &self.plan,
                place,
                self.command,
                &self.variables,
                directory,
                || first.into_iter().for_each(First::record),
            );
        }
        match self.plan.backend {
            Backend::UserNamespace => perform_or_join(self.plan, &self.joining, &self.variables)?,
            // No user namespace keeps these processes from each other.
            _ => perform(self.plan).map_err(not_mounted)?,
        }
        settle(&self.needs)?;
        if let Some(path) = self.working_directory {
            std::env::set_current_dir(&path).map_err(|source| no_directory(&path, source))?;
        } else if here.is_none() || std::env::current_dir().ok() != here {
            tell(&RunWarning::Elsewhere { path: here });
        }
        Err(exec(self.command, Some(self.variables)))
    }
}

/// Says that a command cannot start in a directory.
pub fn no_directory(path: &Path, source: io::Error) -> Report {
    let message = format!("cannot start in the directory {}", path.display());
    let hint = "it must exist inside the environment: see `workdir` of the environment file";
    Report::caused(Kind::NotStarted, message, source).hinted(hint.to_owned())
}

/// Says that an image could not be mounted.
pub fn not_mounted(error: cabane_mount::Error) -> Report {
    let hint = error.hint();
    Report::new(Kind::NotStarted, error).hinted(hint)
}

/// Gives up the means to gain rights, before anything of an image runs, and that may be
/// an interpreter; then looks whether the host has what the images need.
pub(crate) fn settle(needs: &[Need]) -> Result<()> {
    set_no_new_privs(true).map_err(|errno| {
        let message = "cannot give up the means to gain rights";
        Report::caused(Kind::NotStarted, message, io::Error::from(errno))
    })?;
    needs.iter().try_for_each(|(image, need)| needs::check_interpreter(image, need))
}
