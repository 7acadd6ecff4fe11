// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane export`: images of ours become a container image.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use cabane_compat::GlibcVersion;
use cabane_container::export::{
    About, Compression, Export, ExportSettings, Walked, config_of, variables_of,
};
use cabane_container::{ContainerImage, Platform, library_of};
use cabane_label::escape;
use cabane_resolve::{ConcreteEnvironment, ConcreteImage};
use clap::Args;
use serde_json::{Value, json as value};

use crate::commands::build::{epoch, stop_when_interrupted};
use crate::commands::export::base::{Asking, Base};
use crate::commands::export::target::{Destination, Opened, Publishing, scratch};
use crate::commands::export::told::Made;
use crate::commands::export::tree::{Found, layer_of};
use crate::commands::export::words::{annotations_of, architecture_of, labels_of, title_of};
use crate::commands::import::reference::Reference;
use crate::exit_codes::{self, ExitCode};
use crate::registry::of_containers;
use crate::report::{CommandResult, Kind, Report};
use crate::setup::Setup;
use crate::transfer::Watched;
use cabane_environment::{ImageRequest, find_environment};
use cabane_site::env_vars;
use cabane_site::settings::{find_program, processors};

pub(crate) mod base;
pub(crate) mod target;
pub(crate) mod told;
pub(crate) mod tree;
pub(crate) mod words;

/// Export images as a container image
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane export tool/1.0 oci:./layout:tool
  cabane export prgenv-gnu/24.11 docker-archive:./prgenv.tar:site/prgenv --base debian/12
  cabane export prgenv-gnu/24.11 registry.example.org/site/prgenv:24.11 \\
      --base registry.example.org/debian:12 --view=default

Each image becomes one layer, with its files at the mount point of the image, on top of the
layers of the base. Docker, Podman, Apptainer, and `cabane import` read the result. The
same images and base always give the same digest.")]
pub(crate) struct ExportArgs {
    /// Images: label, ID, digest, or path, each optionally followed by :/mount/point; separated by commas
    #[arg(value_name = "IMAGES")]
    images: String,
    /// The destination: oci:DIR, oci-archive:FILE, or docker-archive:FILE, each optionally followed by :NAME, or a registry: REGISTRY/NAME:TAG
    #[arg(value_name = "DEST")]
    destination: String,
    /// The base: a root image, or a container image from a layout, an archive, or a registry, as in `cabane import`; its layers are kept
    #[arg(long, value_name = "IMAGE")]
    pub(crate) base: Option<String>,
    /// Views whose variables to set: VIEW or IMAGE:VIEW, separated by commas; default: those of `cabane run`
    #[arg(short, long, value_name = "VIEWS")]
    view: Option<String>,
    /// Use no view unless one is named
    #[arg(long, conflicts_with = "view")]
    no_default_view: bool,
    /// The platform: OS/ARCHITECTURE or OS/ARCHITECTURE/VARIANT; default: that of the base, or of the programs in the images
    #[arg(long, value_name = "PLATFORM")]
    platform: Option<Platform>,
    /// How to compress layers: gzip, or zstd, which is faster and needs the program `zstd`
    #[arg(long, value_name = "KIND", default_value_t)]
    compression: Compression,
    /// Replace a file, or move the name from the image that has it
    #[arg(long)]
    force: bool,
    /// A file with a token for the registry, or a directory with a file TOKEN; used for the destination, and for the base only if that is in the same registry or the destination is a file
    #[arg(long, value_name = "PATH")]
    token: Option<PathBuf>,
    /// The user name for the token; default: your user name
    #[arg(long, value_name = "NAME")]
    username: Option<String>,
    /// The number of threads; default: one for each processor
    #[arg(short, long, value_name = "NUMBER")]
    jobs: Option<usize>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error("`{}` has a root file system of its own, and cannot be put on a base", escape(.image))]
    TwoRoots { image: String },
    #[error("the base `{}` has no root file system", escape(.base))]
    NoRoot { base: String },
    #[error("`{}` needs the GNU C library {needed}, and the base has {found}", escape(.image))]
    Library {
        image: String,
        needed: String,
        found: String,
    },
    #[error("`{}` is for {found}, and the container image is for {platform}", escape(.image))]
    OtherPlatform {
        image: String,
        found: &'static str,
        platform: String,
    },
    #[error("the export was interrupted")]
    Interrupted,
}

pub(crate) fn export(setup: &Setup, args: &ExportArgs) -> CommandResult<ExitCode> {
    let destination: Destination = args.destination.parse().map_err(
        |error: crate::commands::export::target::DestinationError| {
            let hint = error.hint();
            Report::new(Kind::BadInput, error).hinted(hint)
        },
    )?;
    let base = args.base.as_deref();
    let base = base.map(|text| Base::find(setup, text)).transpose()?;
    let images = match &base {
        // A root image is read as all others are; its view comes first.
        Some(Base::Image(text)) => format!("{text},{}", args.images),
        _ => args.images.clone(),
    };
    let typed = ImageRequest::new(&images, args.view.as_deref(), args.no_default_view);
    let (environment, _) = find_environment(setup, &typed)?;
    let exporting = Exporting {
        setup,
        args,
        destination,
        environment,
        interrupt: stop_when_interrupted()?,
    };
    exporting.check_roots(base.as_ref())?;
    match base {
        Some(Base::Container(reference)) => exporting.on(&reference),
        _ => exporting.write(None, None),
    }
    .map_err(|error| {
        if exporting.interrupt.load(Ordering::Relaxed) {
            Report::new(Kind::Failure, ExportError::Interrupted)
        } else {
            error
        }
    })
}

/// Images on their way into a container image.
pub(crate) struct Exporting<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) args: &'a ExportArgs,
    pub(crate) destination: Destination,
    pub(crate) environment: ConcreteEnvironment,
    interrupt: Arc<AtomicBool>,
}

impl Exporting<'_> {
    fn check_roots(&self, base: Option<&Base>) -> CommandResult<()> {
        let root = self.environment.root();
        let refused = |error| Err(Report::new(Kind::Usage, error));
        match (base, root) {
            (Some(Base::Container(_)), Some(root)) => refused(ExportError::TwoRoots {
                image: root.name().to_owned(),
            }),
            (Some(Base::Image(base)), None) => {
                let base = base.clone();
                refused(ExportError::NoRoot { base }).map_err(|error| {
                    error.hinted("`cabane import` makes one of a container image".to_owned())
                })
            }
            _ => Ok(()),
        }
    }

    /// Writes it on a container image.
    fn on(&self, reference: &Reference) -> CommandResult<ExitCode> {
        let here = Platform::of_machine(std::env::consts::ARCH);
        // A token is for where the image goes, and the business of no other registry.
        let is_its_own = match (&self.destination, reference) {
            (Destination::Registry(to), Reference::Registry(from)) => {
                to.address.host() == from.address.host()
            }
            _ => true,
        };
        let asking = Asking {
            setup: self.setup,
            platform: self.args.platform.as_ref().unwrap_or(&here),
            token: self.args.token.as_deref().filter(|_| is_its_own),
            username: self.args.username.as_deref().filter(|_| is_its_own),
            interrupt: &self.interrupt,
            scratch: scratch(self.setup)?,
        };
        let use_it = |image: ContainerImage<'_>| self.write(Some(&image), Some(reference));
        asking.with(reference, Box::new(use_it))
    }

    fn jobs(&self) -> usize {
        let jobs = self.args.jobs.or(self.setup.settings.jobs.value);
        jobs.unwrap_or_else(processors).max(1)
    }

    fn write(
        &self,
        base: Option<&ContainerImage<'_>>,
        reference: Option<&Reference>,
    ) -> CommandResult<ExitCode> {
        self.check_library(base)?;
        let registry = match &self.destination {
            Destination::Registry(name) => {
                let (token, username) = (self.args.token.as_deref(), self.args.username.as_deref());
                Some(of_containers(self.setup, &name.address, token, username)?)
            }
            _ => None,
        };
        let scratch = || scratch(self.setup);
        let mut opened = Opened::new(&self.destination, self.args.force, &scratch)?;
        let made = self.make(&mut opened, base, reference)?;
        let from = match (&self.destination, reference) {
            (Destination::Registry(to), Some(Reference::Registry(from)))
                if to.address.host() == from.address.host() =>
            {
                Some(from.repository.as_str())
            }
            _ => None,
        };
        let publishing = Publishing {
            setup: self.setup,
            destination: &self.destination,
            exported: &made.exported,
            registry: registry.as_ref(),
            from,
            replace: self.args.force,
        };
        let published = publishing.publish(opened)?;
        self.tell(&made, &published);
        Ok(exit_codes::SUCCESS)
    }

    /// Refuses a base whose C library is too old for what is put on it.
    fn check_library(&self, base: Option<&ContainerImage<'_>>) -> CommandResult<()> {
        let needed = self.stacks().filter_map(|image| {
            let text = image.meta.needs.glibc.clone()?;
            Some((text.parse::<GlibcVersion>().ok()?, text, image))
        });
        let needed = needed.max_by_key(|(version, ..)| *version);
        let found = match (base, self.environment.root()) {
            (Some(base), _) => {
                let found = library_of(base, &Shown::quiet(&self.interrupt));
                found?
            }
            (None, Some(root)) => {
                let container = root.meta.container.as_ref();
                container.and_then(|container| container.glibc.clone())
            }
            (None, None) => return Ok(()),
        };
        let Some((version, needed, image)) = needed else {
            return Ok(());
        };
        let known = found.as_deref().and_then(|text| text.parse().ok());
        if known.is_some_and(|found: GlibcVersion| found >= version) {
            return Ok(());
        }
        let error = ExportError::Library {
            image: image.name().to_owned(),
            needed,
            found: found.unwrap_or_else(|| "none".to_owned()),
        };
        Err(Report::new(Kind::BadInput, error)
            .hinted("take a base with a newer distribution in it".to_owned()))
    }

    /// The images that are put on a root.
    pub(crate) fn stacks(&self) -> impl Iterator<Item = &ConcreteImage> {
        let images = self.environment.images.iter();
        images.filter(|image| !image.mount_point.is_root())
    }

    fn make(
        &self,
        opened: &mut Opened,
        base: Option<&ContainerImage<'_>>,
        reference: Option<&Reference>,
    ) -> CommandResult<Made> {
        let shown = Shown {
            watched: Some(Mutex::new(Watched::new(
                self.setup.printer,
                &format!("exporting {}", escape(&self.args.images)),
            ))),
            interrupt: &self.interrupt,
        };
        let path = self.setup.calling.get(OsStr::new(env_vars::PATH));
        let zstd = find_program("zstd", path.map(AsRef::as_ref));
        let settings = ExportSettings {
            compression: self.args.compression,
            zstd: zstd.as_deref(),
            jobs: self.jobs(),
            progress: &shown,
        };
        let mut export = Export::new(opened.target(), settings);
        let layers = base.map(|base| base.layers.as_slice()).unwrap_or_default();
        for layer in layers {
            export.keep(layer)?;
        }
        let root = self.environment.root();
        let mut walked = Vec::new();
        for image in root.into_iter().chain(self.stacks()) {
            let (layer, found) = layer_of(self.setup, image);
            let comment = format!("cabane export {}", title_of(image));
            let packed = export.pack(&layer, Some(comment));
            packed?;
            walked.push((image, taken(&found)));
        }
        shown.done();
        let platform = self.platform(base, &walked)?;
        let config = match (base, root.and_then(|root| root.meta.container.as_ref())) {
            (Some(base), _) => base.config.whole().clone(),
            (None, Some(container)) => config_of(container),
            (None, None) => value!({}),
        };
        let variables = variables_of(&config, &self.environment.patch);
        let created = self.created(&config)?;
        let mut about = About {
            created,
            base: &config,
            variables: variables.texts,
            labels: labels_of(&self.environment, &config),
            annotations: BTreeMap::new(),
            platform,
        };
        about.annotations = annotations_of(&about, base, reference);
        let exported = export.finish(&about)?;
        Ok(Made {
            exported,
            platform: about.platform,
            left_out: variables.left_out,
            walked: walked.into_iter().map(|(_, walked)| walked).collect(),
        })
    }

    /// Says for which platform it is, and fails if programs in it are for another one.
    fn platform(
        &self,
        base: Option<&ContainerImage<'_>>,
        walked: &[(&ConcreteImage, Walked)],
    ) -> CommandResult<Platform> {
        let mut of_programs = walked
            .iter()
            .filter_map(|(image, walked)| Some((image, architecture_of(walked.machine?)?)));
        let root = self.environment.root();
        let source = root.and_then(|root| root.meta.container.as_ref()?.source.as_ref());
        let platform = if let Some(platform) = &self.args.platform {
            platform.clone()
        } else if let Some(base) = base {
            base.platform.clone()
        } else if let Some(platform) = source.and_then(|source| source.platform.parse().ok()) {
            platform
        } else if let Some((_, (_, machine))) = of_programs.clone().next() {
            Platform::of_machine(machine)
        } else {
            Platform::of_machine(std::env::consts::ARCH)
        };
        let other = of_programs.find(|(_, (name, _))| *name != platform.architecture);
        let Some((image, (found, _))) = other else {
            return Ok(platform);
        };
        let error = ExportError::OtherPlatform {
            image: image.name().to_owned(),
            found,
            platform: platform.to_string(),
        };
        Err(Report::new(Kind::BadInput, error).hinted(format!(
            "`--platform linux/{found}` says so, also of the base"
        )))
    }

    /// The time that the caller names, or that of the base; else one that is always the same.
    fn created(&self, base: &Value) -> CommandResult<String> {
        let (epoch, is_said) = epoch(self.setup)?;
        let of_base = base.get("created").and_then(Value::as_str);
        if let (false, Some(text)) = (is_said, of_base) {
            return Ok(text.to_owned());
        }
        let time = jiff::Timestamp::from_second(epoch.into()).unwrap_or_default();
        Ok(time.to_string())
    }
}

fn taken(found: &Found) -> Walked {
    let taken = found.lock().ok().and_then(|mut found| found.take());
    taken.unwrap_or_default()
}

/// Shows how it goes on.
struct Shown<'a> {
    watched: Option<Mutex<Watched>>,
    interrupt: &'a AtomicBool,
}

impl<'a> Shown<'a> {
    fn quiet(interrupt: &'a AtomicBool) -> Self {
        Self {
            watched: None,
            interrupt,
        }
    }

    fn done(&self) {
        if let Some(Ok(watched)) = self.watched.as_ref().map(Mutex::lock) {
            watched.done();
        }
    }
}

impl cabane_container::Progress for Shown<'_> {
    fn read(&self, done: u64, of: Option<u64>) {
        if let Some(Ok(watched)) = self.watched.as_ref().map(Mutex::lock) {
            watched.tell(done, of.unwrap_or(done));
        }
    }

    fn go_on(&self) -> bool {
        !self.interrupt.load(Ordering::Relaxed)
    }
}
