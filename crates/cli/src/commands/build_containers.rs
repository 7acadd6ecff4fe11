// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Container images for recipes: from the same places, and with the same passwords, as for
//! `cabane import`.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use cabane_build::{BuildError, Containers, FoundContainer, UseContainer};
use cabane_container::{ContainerImage, DockerArchive, Layout, Platform, digest};
use cabane_registry::ContainerName;

use super::export_base::Asking;
use super::export_target::scratch;
use super::import_reference::{Reference, ReferenceError};
use super::import_remote::Remote;
use crate::convert as errors;
use crate::exit_codes;
use crate::registry::of_containers;
use crate::report::{CommandError, CommandResult};
use crate::setup::Setup;

/// Container images as this user gets them.
#[derive(Debug)]
pub(super) struct OwnContainers {
    setup: Setup,
}

#[derive(Debug, thiserror::Error)]
#[error("`{reference}` is another image now: it should be {locked}, and is {found}")]
struct Moved {
    reference: String,
    locked: String,
    found: String,
}

impl OwnContainers {
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            setup: setup.clone(),
        }
    }

    fn look_up(&self, reference: &Reference, platform: &Platform) -> CommandResult<FoundContainer> {
        let container = errors::container_error;
        let chosen = match reference {
            Reference::Registry(name) => {
                let registry = of_containers(&self.setup, &name.address, None, None)?;
                Remote::find(registry, name, platform)?.1
            }
            Reference::DockerArchive(path, name) => {
                let archive = DockerArchive::open(path, &scratch(&self.setup)?);
                let archive = archive.map_err(container)?;
                let (image, identity) = archive
                    .image(name.as_deref(), platform)
                    .map_err(container)?;
                return Ok(FoundContainer {
                    reference: reference.to_string(),
                    platform: image.platform.to_string(),
                    digest: digest::written(&identity),
                    index: None,
                });
            }
            Reference::Layout(path, name) => {
                let layout = Layout::open(path, &scratch(&self.setup)?).map_err(container)?;
                layout
                    .choose(name.as_deref(), platform)
                    .map_err(container)?
            }
            Reference::Sif(_) | Reference::Directory(_) => {
                return Err(CommandError::new(
                    exit_codes::BAD_INPUT,
                    "recipes take no images of this kind",
                ));
            }
        };
        Ok(FoundContainer {
            reference: reference.to_string(),
            platform: platform.to_string(),
            digest: digest::written(&chosen.digest),
            index: chosen.index.as_ref().map(digest::written),
        })
    }

    /// Opens what was found, and nothing else under the same name.
    fn use_found(
        &self,
        reference: Reference,
        found: &FoundContainer,
        interrupt: &AtomicBool,
        use_it: &mut dyn FnMut(ContainerImage<'_>) -> CommandResult<()>,
    ) -> CommandResult<()> {
        let platform = platform_of(Some(&found.platform))?;
        let reference = match reference {
            Reference::Registry(name) => {
                let locked = found.index.as_ref().unwrap_or(&found.digest);
                Reference::Registry(Box::new(ContainerName {
                    tag: None,
                    digest: digest::parse(locked),
                    ..*name
                }))
            }
            other => {
                let now = self.look_up(&other, &platform)?;
                if now.digest != found.digest {
                    let moved = Moved {
                        reference: found.reference.clone(),
                        locked: found.digest.clone(),
                        found: now.digest,
                    };
                    return Err(CommandError::new(exit_codes::FAILURE, moved)
                        .hinted("`cabane build --from lock` takes the new one".to_owned()));
                }
                other
            }
        };
        let asking = Asking {
            setup: &self.setup,
            platform: &platform,
            token: None,
            username: None,
            interrupt,
            scratch: scratch(&self.setup)?,
        };
        asking.with(&reference, Box::new(use_it))
    }
}

impl Containers for OwnContainers {
    fn find(
        &self,
        from: &str,
        directory: &Path,
        platform: Option<&str>,
    ) -> Result<FoundContainer, BuildError> {
        let found = reference_of(from, directory).and_then(|reference| {
            let platform = platform_of(platform)?;
            self.look_up(&reference, &platform)
        });
        found.map_err(|error| as_build_error(&error))
    }

    fn open(
        &self,
        from: &str,
        directory: &Path,
        found: &FoundContainer,
        interrupt: &AtomicBool,
        use_it: &mut UseContainer<'_>,
    ) -> Result<(), BuildError> {
        // Its own errors need no translation.
        let mut failure = None;
        let mut used = |image: ContainerImage<'_>| {
            use_it(image).map_err(|error| {
                let told = CommandError::new(exit_codes::BUILD, error.to_string());
                failure = Some(error);
                told
            })
        };
        let opened = reference_of(from, directory)
            .and_then(|reference| self.use_found(reference, found, interrupt, &mut used));
        match (opened, failure) {
            (_, Some(failure)) => Err(failure),
            (opened, None) => opened.map_err(|error| as_build_error(&error)),
        }
    }
}

fn as_build_error(error: &CommandError) -> BuildError {
    let (message, hint) = error.texts();
    BuildError::ContainerSource { message, hint }
}

fn platform_of(text: Option<&str>) -> CommandResult<Platform> {
    match text {
        None => Ok(Platform::of_machine(std::env::consts::ARCH)),
        Some(text) => text
            .parse()
            .map_err(|error| CommandError::new(exit_codes::BAD_INPUT, error_of(error))),
    }
}

fn error_of(error: cabane_container::PlatformError) -> Box<dyn std::error::Error + Send + Sync> {
    Box::new(error)
}

/// Reads a name as it stands in a recipe, to which its paths are relative.
fn reference_of(from: &str, directory: &Path) -> CommandResult<Reference> {
    let reference: Reference = from.parse().map_err(|error: ReferenceError| {
        let hint = error.hint();
        CommandError::new(exit_codes::BAD_INPUT, error).hinted(hint)
    })?;
    let absolute = |path: PathBuf| directory.join(path);
    Ok(match reference {
        Reference::Layout(path, name) => Reference::Layout(absolute(path), name),
        Reference::DockerArchive(path, name) => Reference::DockerArchive(absolute(path), name),
        other => other,
    })
}
