// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Lists the kernels that Cabane has installed, and removes one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cabane_environment::find_environment;
use cabane_label::{escape, shown, shown_word};
use cabane_report::{IoContext, Kind, Notices, Report, Result, Transfer};
use cabane_site::settings::Overrides;
use cabane_site::{Context, Site};
use serde::Serialize;

use crate::directory::{KernelDirectory, Kernels};
use crate::place::{Place, all_kernels};
use crate::spec::{KernelSpec, Record, RecordedImage};

/// A kernel that Cabane has installed.
#[derive(Debug, Serialize)]
pub struct InstalledKernel {
    /// Its name.
    pub name: String,
    /// The name that people see.
    pub display_name: String,
    /// The programming language.
    pub language: String,
    /// Its directory.
    pub directory: PathBuf,
    /// The environment file, if it has one.
    pub environment: Option<String>,
    /// Its images when it was installed.
    pub images: Vec<RecordedImage>,
    /// Whether its images can be found.
    pub state: State,
    /// Why they cannot.
    pub reason: Option<String>,
}

/// Whether the images of a kernel can be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// They are those of the installation.
    Ready,
    /// Its labels name other images than at the installation.
    Moved,
    /// One of them cannot be found.
    Missing,
    /// The kernel belongs to another user, so nothing that it names is opened.
    NotChecked,
}

/// Returns the kernels of Cabane in all directories in which Jupyter looks, or in one.
///
/// # Errors
///
/// The directory cannot be found.
pub fn list(context: &Context, place: Option<&Place>) -> Result<Vec<InstalledKernel>> {
    let mut kernels = Vec::new();
    for directory in directories(context, place)? {
        let Ok(directory) = Kernels::open(&directory) else { continue };
        for name in directory.names() {
            let Ok(kernel) = directory.kernel(&name) else { continue };
            let Some(spec) = kernel.read().filter(KernelSpec::is_marked) else { continue };
            kernels.push(installed(context, name, &kernel, spec));
        }
    }
    Ok(kernels)
}

/// Removes a kernel of Cabane: the first of its name. Returns its directory.
///
/// # Errors
///
/// There is none, Cabane did not install it, or it cannot be removed.
pub fn remove(context: &Context, name: &str, place: Option<&Place>) -> Result<PathBuf> {
    let is_plain = !name.is_empty() && !name.starts_with('.') && !name.contains('/');
    let directories = directories(context, place)?;
    let mut others = None;
    for kernels in directories.iter().filter(|_| is_plain) {
        let Ok(kernels) = Kernels::open(kernels) else { continue };
        let Ok(directory) = kernels.kernel(name) else { continue };
        let path = directory.path();
        if !directory.read().is_some_and(|spec| spec.is_marked()) {
            let message = format!("Cabane did not install the kernel in {}", shown(&path));
            let hint = format!("`jupyter kernelspec remove {}` removes it", escape(name));
            others = others.or(Some(Report::new(Kind::Failure, message).hinted(hint)));
        } else if directory.is_own() {
            directory.remove().or_failed(|| format!("remove {}", shown(&path)))?;
            return Ok(path);
        } else {
            let message = format!("{} belongs to another user", shown(&path));
            let hint = format!("`ls -ld {}` shows the owner", shown_word(&path));
            others = others.or(Some(Report::new(Kind::Failure, message).hinted(hint)));
        }
    }
    Err(others.unwrap_or_else(|| {
        Report::new(Kind::NotFound, format!("there is no kernel `{}`", escape(name)))
            .hinted("`cabane kernel ls` lists the kernels that Cabane has installed".to_owned())
    }))
}

fn directories(context: &Context, place: Option<&Place>) -> Result<Vec<PathBuf>> {
    match place {
        Some(place) => Ok(vec![place.kernels(context)?]),
        None => Ok(all_kernels(context)),
    }
}

fn installed(
    context: &Context,
    name: String,
    kernel: &KernelDirectory<'_>,
    spec: KernelSpec,
) -> InstalledKernel {
    let (images, environment, state, reason) = if let Some(record) = spec.record() {
        // Another user could name files that take long, or that the user must not open.
        let is_trusted = kernel.is_trusted();
        let (state, reason) =
            if is_trusted { state_of(context, &record) } else { (State::NotChecked, None) };
        (record.images, record.request.environment, state, reason)
    } else {
        let reason = "another version of Cabane has installed it".to_owned();
        (Vec::new(), None, State::Missing, Some(reason))
    };
    let directory = kernel.path();
    let KernelSpec { display_name, language, .. } = spec;
    InstalledKernel { name, display_name, language, directory, environment, images, state, reason }
}

/// Finds the images again, with the options of the kernel.
fn state_of(context: &Context, record: &Record) -> (State, Option<String>) {
    let value = |option: &str| {
        let mut values = record.options.iter().filter_map(|word| word.strip_prefix(option));
        values.next_back().map(str::to_owned)
    };
    let typed =
        Overrides { repo: value("--repo="), system: value("--system="), ..Overrides::default() };
    let program = context.program().map(Path::to_owned);
    let found = Site::new(&typed, context.calling.clone(), program).and_then(|site| {
        find_environment(&Context::new(site, Arc::new(Silent)), &record.request.clone().into())
    });
    match found {
        Ok((environment, _)) if record.has_images_of(&environment) => (State::Ready, None),
        Ok(_) => (State::Moved, None),
        Err(error) => (State::Missing, Some(error.to_string())),
    }
}

/// Receives notices about the images of a list, which are not about what was typed.
struct Silent;

impl Notices for Silent {
    fn warning(&self, _: &str) {}

    fn hint(&self, _: &str) {}

    fn note(&self, _: &str) {}

    fn detail(&self, _: &str) {}

    fn is_verbose(&self) -> bool {
        false
    }

    fn color_option(&self) -> String {
        "--color=never".to_owned()
    }

    fn transfer(&self, _: &str) -> Box<dyn Transfer> {
        Box::new(Self)
    }

    fn counted(&self, _: &str) -> Box<dyn Transfer> {
        Box::new(Self)
    }
}

impl Transfer for Silent {
    fn show(&self, _: u64, _: u64) {}

    fn end(&self) {}
}
