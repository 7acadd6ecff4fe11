// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A container image becomes an image of the repository.

mod check;
mod keep;
mod make;
pub(crate) mod place;
pub(crate) mod reference;
pub(crate) mod remote;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cabane_container::{
    Chosen, ContainerImage, Descriptor, DockerArchive, ImportRecord, Layout, Manifest, Platform,
    Sif, digest, directory,
};
use cabane_environment::complete_label_for;
use cabane_label::{Digest, Label, LabelPattern, escape};
use cabane_registry::ContainerName;
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_repository::{Access, Added, Incoming, Repository};
use cabane_site::Context;
use serde::Serialize;

use crate::import::make::Wanted;
use crate::import::place::{NEW, key_of, program};
use crate::registry::of_containers;
use crate::scratch::scratch_place;

pub use check::{CheckedSource, check_source};
pub use keep::{Kept, find_kept, keep, keep_named};
pub use reference::Reference;
pub use remote::Remote;

/// What Apptainer and ORAS call an image of Apptainer in a registry.
const SIF_LAYER: &str = "application/vnd.sylabs.sif.layer.v1.sif";

/// What is to be imported, and how.
#[derive(Clone, Debug)]
pub struct ImportRequest {
    /// The container image, as it is typed.
    pub image: String,
    /// The label that the image gets, as it is typed.
    pub label: String,
    /// The platform; that of this machine by default.
    pub platform: Option<Platform>,
    /// Whether the label is taken from the image that has it.
    pub force: bool,
    /// The Unix group whose members alone may read the image here.
    pub group: Option<String>,
    /// A file with a token for the registry.
    pub token: Option<PathBuf>,
    /// The user name for the token.
    pub username: Option<String>,
    /// Whether nothing is made.
    pub dry_run: bool,
    /// The number of threads.
    pub jobs: Option<usize>,
    /// The largest size of all unpacked layers together, in bytes.
    pub max_unpacked: Option<u64>,
    /// Set when the import is to stop.
    pub interrupt: Arc<AtomicBool>,
}

/// What came of it.
#[derive(Debug)]
pub enum Imported {
    /// Nothing was made; this would be.
    Planned(PlannedImport),
    /// The image, and what was done if it was not there already.
    Added(Box<Added>, Option<Box<ImportRecord>>),
}

/// What would be done.
#[derive(Clone, Debug, Serialize)]
pub struct PlannedImport {
    /// The label.
    pub label: String,
    /// The container image, as it was understood.
    pub reference: String,
    /// The platform.
    pub platform: String,
    /// The digest of the manifest, where there is one.
    pub manifest: Option<String>,
    /// The number of layers.
    pub layers: usize,
    /// The size of the layers together as they come, in bytes; 0 where that is not known.
    pub bytes: u64,
}

/// Makes an image of a container image.
///
/// # Errors
///
/// What is malformed, is not there, cannot be read or written, or is taken.
pub fn import(context: &Context, request: &ImportRequest) -> Result<Imported> {
    let pattern: LabelPattern = request.label.parse()?;
    let platform = request.platform.clone();
    let platform = platform.unwrap_or_else(|| Platform::of_machine(std::env::consts::ARCH));
    let label = complete_label_for(context, &pattern, platform.machine())?;
    let default_registry = context.settings.container.default_registry.value.as_deref();
    let reference = Reference::named(&request.image, default_registry)?;
    import_as(context, request, label, &reference, platform, false)
}

/// Makes an image of a container image, with a label. One that is kept is not made again where an
/// image of the same reference has the label.
fn import_as(
    context: &Context,
    request: &ImportRequest,
    label: Label,
    reference: &Reference,
    platform: Platform,
    is_kept: bool,
) -> Result<Imported> {
    let group = request.group.as_deref();
    let group = group.map(crate::pull::group_of).transpose()?;
    let import = Import {
        context,
        request,
        label,
        reference: reference.to_string(),
        platform,
        access: group.map_or(Access::AsNewFiles, Access::Group),
        is_kept,
    };
    match reference {
        Reference::Layout(path, name) => import.layout(path, name.as_deref()),
        Reference::DockerArchive(path, name) => import.docker_archive(path, name.as_deref()),
        Reference::Sif(path) => import.sif(path),
        Reference::Directory(path) => import.directory(path),
        Reference::Registry(name) => import.remote(name),
    }
}

/// One image on its way into the repository.
struct Import<'a> {
    context: &'a Context,
    request: &'a ImportRequest,
    label: Label,
    reference: String,
    platform: Platform,
    access: Access,
    is_kept: bool,
}

impl Import<'_> {
    fn layout(&self, path: &Path, name: Option<&str>) -> Result<Imported> {
        let layout = Layout::open(path, &self.scratch()?)?;
        self.opened_layout(&layout, name)
    }

    fn opened_layout(&self, layout: &Layout, name: Option<&str>) -> Result<Imported> {
        let chosen = layout.choose(name, &self.platform)?;
        let image = || ContainerImage::new(&chosen, layout, &self.platform).map_err(Report::from);
        let wanted = Wanted::new(chosen.digest.as_str(), &image()?, false);
        self.one(&wanted, &|_| image())
    }

    fn docker_archive(&self, path: &Path, name: Option<&str>) -> Result<Imported> {
        let archive = DockerArchive::open(path, &self.scratch()?)?;
        let image = || archive.image(name, &self.platform).map_err(Report::from);
        let (first, identity) = match archive.image(name, &self.platform) {
            // An archive whose form the user did not name.
            Err(error @ cabane_container::Error::NotAnImage { .. }) => {
                return match Layout::open(path, &self.scratch()?) {
                    Ok(layout) if layout.is_one() => self.opened_layout(&layout, name),
                    _ => Err(Report::from(error)),
                };
            }
            first => first?,
        };
        let wanted = Wanted::new(&format!("docker-archive {identity}"), &first, false);
        self.one(&wanted, &|_| image().map(|(image, _)| image))
    }

    fn sif(&self, path: &Path) -> Result<Imported> {
        let sif = Sif::open(path, &self.platform)?;
        let unsquashfs = program(self.context, "unsquashfs")?;
        let wanted = Wanted {
            key: key_of(&self.reference, &self.platform),
            manifest: None,
            configuration: None,
            platform: self.platform.clone(),
            is_kept: false,
            layers: 1,
            bytes: 0,
        };
        let import = |place: &Path| {
            let root = place.join(format!("{NEW}root"));
            Ok(sif.unpack(&unsquashfs, &root, self.max_unpacked(), &self.request.interrupt)?)
        };
        self.one(&wanted, &import)
    }

    fn directory(&self, path: &Path) -> Result<Imported> {
        let image = || directory_of(path, &self.platform);
        let wanted = Wanted::new(&self.reference, &image()?, false);
        self.one(&wanted, &|_| image())
    }

    fn remote(&self, name: &ContainerName) -> Result<Imported> {
        let (token, username) = (self.request.token.as_deref(), self.request.username.as_deref());
        let registry = of_containers(self.context, &name.address, token, username)?;
        let (remote, chosen) = Remote::find(registry, name, &self.platform)?;
        if let Some(layer) = sif_of(&chosen.manifest) {
            return self.remote_sif(&remote, &chosen, layer);
        }
        let image = || ContainerImage::new(&chosen, &remote, &self.platform).map_err(Report::from);
        let wanted = Wanted::new(chosen.digest.as_str(), &image()?, true);
        let import = |place: &Path| {
            remote.fetch(self.context, &chosen.manifest, place, &self.request.interrupt)?;
            image()
        };
        self.one(&wanted, &import)
    }

    /// Imports an image of Apptainer that is in a registry.
    fn remote_sif(&self, remote: &Remote, chosen: &Chosen, layer: &Descriptor) -> Result<Imported> {
        let unsquashfs = program(self.context, "unsquashfs")?;
        let wanted = Wanted {
            key: key_of(chosen.digest.as_str(), &self.platform),
            manifest: Some(chosen.digest.clone()),
            configuration: None,
            platform: self.platform.clone(),
            is_kept: true,
            layers: 1,
            bytes: layer.size,
        };
        let import = |place: &Path| {
            remote.fetch(self.context, &chosen.manifest, place, &self.request.interrupt)?;
            let sif = Sif::open(&remote::layer_in(place, layer), &self.platform)?;
            let root = place.join(format!("{NEW}root"));
            let interrupt = &self.request.interrupt;
            let image = sif.unpack(&unsquashfs, &root, self.max_unpacked(), interrupt)?;
            Ok(ContainerImage { manifest: Some(chosen.digest.clone()), ..image })
        };
        self.one(&wanted, &import)
    }

    /// Returns where files without a name may be. The repository is made when there is an
    /// image for it.
    fn scratch(&self) -> Result<PathBuf> {
        if self.request.dry_run {
            return Ok(std::env::temp_dir());
        }
        // Fail before anything is read if the repository is not writable.
        self.context.repository_if_there()?;
        scratch_place(self.context)
    }

    /// Says of a label that is taken from which image to which it would move.
    fn moved(
        &self,
        repository: &Repository,
        wanted: &Wanted,
        error: cabane_repository::Error,
    ) -> Report {
        let cabane_repository::Error::LabelTaken { digest, .. } = &error else {
            return Report::from(error);
        };
        let known = repository.meta(digest).ok();
        let source = known.and_then(|meta| meta.container?.source);
        let (Some(before), Some(now)) = (source.and_then(|one| one.manifest), &wanted.manifest)
        else {
            return Report::from(error);
        };
        let label = &self.label;
        let moved = format!("`{label}` is there already, and was made of another image");
        Report::new(Kind::Failure, moved)
            .detailed(format!("  it has {}\n  requested {}", escape(&before), digest::written(now)))
            .hinted("`--force` gives the label to the new one".to_owned())
    }

    fn plan(&self, wanted: &Wanted) -> PlannedImport {
        PlannedImport {
            label: self.label.to_string(),
            reference: self.reference.clone(),
            platform: wanted.platform.to_string(),
            manifest: wanted.manifest.as_ref().map(digest::written),
            layers: wanted.layers,
            bytes: wanted.bytes,
        }
    }
}

/// Returns the image of Apptainer that a manifest is about, if it is about one.
fn sif_of(manifest: &Manifest) -> Option<&Descriptor> {
    manifest.layers.iter().find(|layer| layer.media_type == SIF_LAYER)
}

/// Opens a root file system in a directory.
///
/// # Errors
///
/// A directory that is not there or cannot be read.
pub fn directory_of(path: &Path, platform: &Platform) -> Result<ContainerImage<'static>> {
    let path = fs::canonicalize(path).or_failed(|| format!("find {}", path.display()))?;
    fs::read_dir(&path).or_failed(|| format!("read {}", path.display()))?;
    Ok(directory(&path, platform, false))
}

/// Closes the place of an image before its first byte, and returns for whom it is: what was begun
/// for a group is for that group, no matter who goes on.
pub(crate) fn close(incoming: &Incoming, wanted: Access) -> Result<Access> {
    let access = match wanted {
        Access::AsNewFiles => incoming.access(),
        access => access,
    };
    incoming.restrict(access)?;
    Ok(access)
}

/// Closes an image that is here already, and says so if it is for others.
///
/// # Errors
///
/// Those of the repository.
pub fn restrict(
    context: &Context,
    repository: &Repository,
    digest: &Digest,
    wanted: Access,
) -> Result<()> {
    if repository.restrict(digest, wanted)? != wanted {
        context.warning(format!(
            "the image {} is here already, and for others; `ls -ld {}` shows for whom",
            digest.id(),
            repository.image_path(digest).with_file_name("").display()
        ));
    }
    Ok(())
}
