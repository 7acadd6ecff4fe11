// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Making the mount plan and the variables, and acting on them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use cabane_mount::helper::{Helper, Unavailable};
use cabane_mount::{Backend, FusePrograms, ImageFile, MountPlan, Operation, perform};
use cabane_repository::ImageFormat;
use cabane_resolve::ConcreteEnvironment;
use cabane_view::InterpreterNeed;

use crate::loaded::{CABANE_LOADED, Loaded, UENV_MOUNT_LIST, UENV_VIEW};
use crate::through_helper::become_helper;
use crate::{RunError, needs};

/// What is to be run, and where.
#[derive(Debug)]
pub struct RunRequest {
    /// The images and views.
    pub environment: ConcreteEnvironment,
    /// How to mount.
    pub backend: Backend,
    /// The programs that serve images through FUSE.
    pub fuse: FusePrograms,
    /// The variables of the caller.
    pub calling: BTreeMap<OsString, OsString>,
    /// The program and its arguments.
    pub command: Vec<OsString>,
}

/// A command that is ready to be started: a plan and variables, as data.
#[derive(Debug)]
pub struct Prepared {
    plan: MountPlan,
    helper: Option<PathBuf>,
    variables: BTreeMap<OsString, OsString>,
    command: Vec<OsString>,
    needs: Vec<(String, InterpreterNeed)>,
}

/// Opens the images of a request and works out the plan and the variables.
///
/// # Errors
///
/// [`RunError::Open`] if an image cannot be read.
pub fn prepare(request: RunRequest) -> Result<Prepared, RunError> {
    let RunRequest {
        environment,
        backend,
        fuse,
        calling,
        command,
    } = request;
    let mut operations = Vec::with_capacity(environment.images.len());
    let mut needs = Vec::new();
    for image in &environment.images {
        operations.push(Operation::Image {
            image: open_image(&image.path, image.format)?,
            mount_point: image.mount_point.as_path().to_owned(),
        });
        if let Some(need) = &image.meta.needs.interpreter {
            let name = image
                .label
                .as_ref()
                .map_or(image.name().to_owned(), ToString::to_string);
            needs.push((name, need.clone()));
        }
    }
    let variables = variables_inside(&environment, &calling);
    Ok(Prepared {
        plan: MountPlan {
            backend,
            fuse,
            operations,
        },
        helper: None,
        variables,
        command,
        needs,
    })
}

/// Opens an image file for mounting.
///
/// # Errors
///
/// [`RunError::Open`] if it cannot be read.
pub fn open_image(path: &Path, format: ImageFormat) -> Result<ImageFile, RunError> {
    let file = File::open(path).map_err(|source| RunError::Open {
        path: path.to_owned(),
        source,
    })?;
    let format = match format {
        ImageFormat::Squashfs => cabane_mount::ImageFormat::Squashfs,
        ImageFormat::Erofs => cabane_mount::ImageFormat::Erofs,
    };
    Ok(ImageFile {
        file,
        path: path.to_owned(),
        format,
    })
}

fn variables_inside(
    environment: &ConcreteEnvironment,
    calling: &BTreeMap<OsString, OsString>,
) -> BTreeMap<OsString, OsString> {
    let mut loaded = calling
        .get(&OsString::from(CABANE_LOADED))
        .and_then(|value| value.to_str())
        .and_then(Loaded::from_variable)
        .unwrap_or_default();
    loaded.enter(environment);
    let mut variables = environment.patch.apply(calling);
    variables.insert(CABANE_LOADED.into(), loaded.to_variable().into());
    variables.insert(UENV_MOUNT_LIST.into(), loaded.mount_list().into());
    variables.insert(UENV_VIEW.into(), loaded.view_list().into());
    variables
}

impl Prepared {
    /// Returns what will be mounted.
    pub fn plan(&self) -> &MountPlan {
        &self.plan
    }

    /// Mounts through the set-uid helper instead.
    ///
    /// # Errors
    ///
    /// Why the helper would refuse the plan. Then everything stays as it was.
    pub fn use_helper(&mut self, helper: Helper) -> Result<(), Unavailable> {
        helper.check(&self.plan)?;
        self.plan.backend = Backend::Helper;
        self.helper = Some(helper.path);
        Ok(())
    }

    /// Returns the variables that the command will have.
    pub fn variables(&self) -> &BTreeMap<OsString, OsString> {
        &self.variables
    }

    /// Mounts and becomes the command. The process must have one thread.
    ///
    /// Returns only if that failed: nothing of the user's has been started then.
    pub fn exec(self) -> RunError {
        match self.try_exec() {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }

    fn try_exec(self) -> Result<std::convert::Infallible, RunError> {
        if let Some(helper) = &self.helper {
            needs::check_before(&self.needs, &self.plan)?;
            return become_helper(
                helper,
                &self.plan,
                None,
                self.command,
                &self.variables,
                std::env::current_dir().ok().as_deref(),
            );
        }
        perform(self.plan)?;
        for (image, need) in &self.needs {
            needs::check_interpreter(image, need)?;
        }
        let mut words = self.command.into_iter();
        let program = PathBuf::from(words.next().unwrap_or_default());
        let source = Command::new(&program)
            .args(words)
            .env_clear()
            .envs(self.variables)
            .exec();
        Err(match source.kind() {
            io::ErrorKind::NotFound => RunError::NotFound { program },
            _ => RunError::Exec { program, source },
        })
    }
}
