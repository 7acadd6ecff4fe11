// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What an exported image is put on: a container image whose layers are kept as they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use cabane_container::{
    Chosen, ContainerImage, DockerArchive, Layout, MAX_UNPACKED, Platform, Sif,
};
use cabane_environment::find_image;
use cabane_label::{Digest, ImageDescription, escape};
use cabane_registry::ContainerName;
use cabane_report::{Kind, Report, Result};
use cabane_repository::Incoming;
use cabane_site::Context;

use crate::import::directory_of;
use crate::import::place::{NEW, check_interrupt, find_or_make, key_of, program, sweep};
use crate::import::reference::{Reference, SCHEMES};
use crate::import::remote::Remote;
use crate::registry::of_containers;

/// What was typed behind `--base`.
pub(crate) enum Base {
    /// An image of ours.
    Image(String),
    /// A container image.
    Container(Reference),
}

impl Base {
    /// Finds out what is meant. A name that could be both is an image of ours, if there is one.
    pub(crate) fn find(context: &Context, text: &str) -> Result<Self> {
        let read: Result<Reference> = text.parse();
        let is_path = text.starts_with(['/', '.']) || Path::new(text).exists();
        let has_scheme =
            SCHEMES.iter().any(|scheme| text.starts_with(scheme)) || text.contains("://");
        match read {
            Ok(Reference::Sif(_) | Reference::Directory(_)) => {
                let error = format!("`{}` cannot be a base: it has no layers", escape(text));
                let hint = "`cabane import` makes an image of it, which can be".to_owned();
                Err(Report::new(Kind::BadInput, error).hinted(hint))
            }
            Ok(reference) if has_scheme || is_path => Ok(Self::Container(reference)),
            // A path that holds no container image, or cannot be read.
            Err(_) if is_path && !SCHEMES.contains(&text) => Ok(Self::Image(text.to_owned())),
            Err(error) if has_scheme => Err(error),
            read => {
                let description: Result<ImageDescription, _> = text.parse();
                let found = description
                    .map_err(Report::from)
                    .and_then(|description| find_image(context, &description));
                match (found, read) {
                    (Err(_), Ok(reference)) => Ok(Self::Container(reference)),
                    (Err(error), _) => Err(error),
                    (Ok(_), _) => Ok(Self::Image(text.to_owned())),
                }
            }
        }
    }
}

/// Who asks for a base in a registry, and for which platform.
pub struct ContainerQuery<'a> {
    /// What is configured, and where notices go.
    pub context: &'a Context,
    /// The platform.
    pub platform: &'a Platform,
    /// A file with a token for the registry.
    pub token: Option<&'a Path>,
    /// The user name for the token.
    pub username: Option<&'a str>,
    /// Set when it is to stop.
    pub interrupt: &'a AtomicBool,
    /// Where files without a name may be.
    pub scratch: PathBuf,
}

/// What is done with a container image while it can be read.
pub type Use<'a, T> = dyn FnOnce(ContainerImage<'_>) -> Result<T> + 'a;

impl ContainerQuery<'_> {
    /// Opens a container image, and lets it be used.
    ///
    /// # Errors
    ///
    /// What is not there, or cannot be read; and those of its use.
    pub fn with<T>(&self, reference: &Reference, use_it: Box<Use<'_, T>>) -> Result<T> {
        match reference {
            Reference::Layout(path, name) => self.layout(path, name.as_deref(), use_it),
            Reference::DockerArchive(path, name) => {
                let archive = DockerArchive::open(path, &self.scratch)?;
                match archive.image(name.as_deref(), self.platform) {
                    // An archive whose form the user did not name.
                    Err(cabane_container::Error::NotAnImage { .. }) => {
                        self.layout(path, name.as_deref(), use_it)
                    }
                    image => use_it(image?.0),
                }
            }
            Reference::Registry(name) => self.remote(name, use_it),
            Reference::Sif(path) => self.sif(path, use_it),
            Reference::Directory(path) => use_it(directory_of(path, self.platform)?),
        }
    }

    fn layout<T>(&self, path: &Path, name: Option<&str>, use_it: Box<Use<'_, T>>) -> Result<T> {
        let layout = Layout::open(path, &self.scratch)?;
        let chosen = layout.choose(name, self.platform)?;
        use_it(ContainerImage::new(&chosen, &layout, self.platform)?)
    }

    /// Gets the layers into the place of the repository where downloads arrive: there they
    /// are found by the next attempt, and swept if there is none.
    fn remote<T>(&self, name: &ContainerName, use_it: Box<Use<'_, T>>) -> Result<T> {
        let registry = of_containers(self.context, &name.address, self.token, self.username)?;
        let (remote, chosen): (Remote, Chosen) = Remote::find(registry, name, self.platform)?;
        let incoming = self.place(&chosen.digest)?;
        let alive = incoming.keep_alive();
        remote.fetch(self.context, &chosen.manifest, incoming.path(), self.interrupt)?;
        let image = ContainerImage::new(&chosen, &remote, self.platform);
        let used = image.map_err(Report::from).and_then(use_it);
        drop(alive);
        // What is wrong or done with is of no use to the next one.
        if used.as_ref().map_or_else(|error| error.kind() == Kind::BadInput, |_| true) {
            let _ = incoming.discard();
        }
        used
    }
    /// Unpacks an image of Apptainer beside the images of the repository, where what a killed
    /// command leaves is swept.
    fn sif<T>(&self, path: &Path, use_it: Box<Use<'_, T>>) -> Result<T> {
        let sif = Sif::open(path, self.platform)?;
        let unsquashfs = program(self.context, "unsquashfs")?;
        let whole = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let identity = format!("unpacked {}", whole.display());
        let incoming = self.place(&key_of(&identity, self.platform))?;
        let alive = incoming.keep_alive();
        sweep(incoming.path())?;
        let root = incoming.path().join(format!("{NEW}root"));
        let unpacked = sif.unpack(&unsquashfs, &root, MAX_UNPACKED, self.interrupt);
        let used = unpacked.map_err(Report::from).and_then(use_it);
        drop(alive);
        sweep(incoming.path())?;
        incoming.discard()?;
        used
    }

    /// Waits for the place of the repository for something that is brought here.
    fn place(&self, key: &Digest) -> Result<Incoming> {
        let written = self.context.repository_to_write()?;
        let waits = |_| check_interrupt(self.interrupt);
        find_or_make(&written.repository, key, waits, || Ok(None), Ok)
    }
}
