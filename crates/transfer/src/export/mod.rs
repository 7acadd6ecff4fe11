// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images become a container image.

mod annotations;
pub(crate) mod base;
pub(crate) mod target;
pub(crate) mod tree;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use cabane_compat::GlibcVersion;
use cabane_container::export::{
    About, Compression, Export, ExportSettings, Exported as ExportedImage, Target, Walked,
    config_of, variables_of,
};
use cabane_container::{ContainerImage, Platform, library_of};
use cabane_environment::{ImageRequest, find_environment};
use cabane_label::escape;
use cabane_report::{Kind, Report, Result, Transfer};
use cabane_resolve::{ConcreteEnvironment, ConcreteImage};
use cabane_site::Context;
use cabane_site::env_vars;
use cabane_site::settings::{find_program, processors};
use serde_json::{Value, json as value};

use crate::export::annotations::{annotations_of, architecture_of, labels_of, title_of};
use crate::export::base::{Base, ContainerQuery};
use crate::export::target::{Destination, Opened};
use crate::export::tree::layer_of;
use crate::import::reference::Reference;
use crate::scratch::scratch_place;

/// What is to be exported, and how.
#[derive(Clone, Debug)]
pub struct ExportRequest {
    /// The images, as they are typed.
    pub images: String,
    /// Where they go, as it is typed.
    pub destination: String,
    /// What they are put on, as it is typed.
    pub base: Option<String>,
    /// The views whose variables are set, as they are typed.
    pub view: Option<String>,
    /// Whether no view is used unless one is named.
    pub no_default_view: bool,
    /// The platform; by default that of the base, or of the programs in the images.
    pub platform: Option<Platform>,
    /// How layers are compressed.
    pub compression: Compression,
    /// Whether a file is replaced, or a name is taken from the image that has it.
    pub force: bool,
    /// A file with a token for the registry.
    pub token: Option<PathBuf>,
    /// The user name for the token.
    pub username: Option<String>,
    /// The number of threads.
    pub jobs: Option<usize>,
    /// Set when the export is to stop.
    pub interrupt: Arc<AtomicBool>,
}

/// What came of it.
#[derive(Debug)]
pub struct Exported {
    /// Where it is.
    pub destination: String,
    /// The container image.
    pub made: MadeImage,
    /// Whether it was there already.
    pub unchanged: bool,
    /// Whether it has no root file system.
    pub needs_base: bool,
    /// The interpreters that its images need of what they are put on.
    pub interpreters: Vec<NeededInterpreter>,
}

/// A container image that was made.
#[derive(Debug)]
pub struct MadeImage {
    /// Its parts.
    pub exported: ExportedImage,
    /// The platform.
    pub platform: Platform,
    /// Names of variables of views that depend on the user who starts the image, and are left out.
    pub left_out: Vec<String>,
    /// What was found in each image.
    pub walked: Vec<Walked>,
}

/// An interpreter that an image needs of what it is put on.
#[derive(Clone, Debug)]
pub struct NeededInterpreter {
    /// The name of the image.
    pub image: String,
    /// The version.
    pub version: String,
    /// Where it must be.
    pub path: PathBuf,
}

/// Makes a container image of images.
///
/// # Errors
///
/// What is malformed, is not there, cannot be read or written, is taken, or does not go together.
pub fn export(context: &Context, request: &ExportRequest) -> Result<Exported> {
    let destination: Destination = request.destination.parse()?;
    let base = request.base.as_deref();
    let base = base.map(|text| Base::find(context, text)).transpose()?;
    let images = match &base {
        // A root image is read as all others are; its view comes first.
        Some(Base::Image(text)) => format!("{text},{}", request.images),
        _ => request.images.clone(),
    };
    let typed = ImageRequest::new(&images, request.view.as_deref(), request.no_default_view);
    let (environment, _) = find_environment(context, &typed)?;
    let exporting = Exporting { context, request, destination, environment };
    exporting.check_roots(base.as_ref())?;
    match base {
        Some(Base::Container(reference)) => exporting.on(&reference),
        _ => exporting.write(None, None),
    }
    .map_err(|error| {
        if request.interrupt.load(Ordering::Relaxed) {
            Report::new(Kind::Failure, "the export was interrupted")
        } else {
            error
        }
    })
}

/// Images on their way into a container image.
struct Exporting<'a> {
    context: &'a Context,
    request: &'a ExportRequest,
    destination: Destination,
    environment: ConcreteEnvironment,
}

impl Exporting<'_> {
    fn check_roots(&self, base: Option<&Base>) -> Result<()> {
        match (base, self.environment.root()) {
            (Some(Base::Container(_)), Some(root)) => {
                let root = escape(root.name());
                let error = format!(
                    "`{root}` has a root file system of its own, and cannot be put on a base"
                );
                Err(Report::new(Kind::Usage, error))
            }
            (Some(Base::Image(base)), None) => {
                let error = format!("the base `{}` has no root file system", escape(base));
                let hint = "`cabane import` makes one of a container image".to_owned();
                Err(Report::new(Kind::Usage, error).hinted(hint))
            }
            _ => Ok(()),
        }
    }

    /// Writes it on a container image.
    fn on(&self, reference: &Reference) -> Result<Exported> {
        let here = Platform::of_machine(std::env::consts::ARCH);
        // A token is for where the image goes, and the business of no other registry.
        let is_its_own = match (&self.destination, reference) {
            (Destination::Registry(to), Reference::Registry(from)) => {
                to.address.host() == from.address.host()
            }
            _ => true,
        };
        let query = ContainerQuery {
            context: self.context,
            platform: self.request.platform.as_ref().unwrap_or(&here),
            token: self.request.token.as_deref().filter(|_| is_its_own),
            username: self.request.username.as_deref().filter(|_| is_its_own),
            interrupt: &self.request.interrupt,
            scratch: scratch_place(self.context)?,
        };
        let use_it = |image: ContainerImage<'_>| self.write(Some(&image), Some(reference));
        query.with(reference, Box::new(use_it))
    }

    fn write(
        &self,
        base: Option<&ContainerImage<'_>>,
        reference: Option<&Reference>,
    ) -> Result<Exported> {
        self.check_library(base)?;
        let mut opened = Opened::new(self.context, self.request, &self.destination)?;
        let made = self.make(opened.target(), base, reference)?;
        let from = match (&self.destination, reference) {
            (Destination::Registry(to), Some(Reference::Registry(from)))
                if to.address.host() == from.address.host() =>
            {
                Some(from.repository.as_str())
            }
            _ => None,
        };
        let unchanged = opened.publish(self.context, &made.exported, from, self.request.force)?;
        Ok(Exported {
            destination: self.destination.to_string(),
            made,
            unchanged,
            needs_base: self.environment.root().is_none() && self.request.base.is_none(),
            interpreters: self.stacks().filter_map(interpreter).collect(),
        })
    }

    /// Refuses a base whose C library is too old for what is put on it.
    fn check_library(&self, base: Option<&ContainerImage<'_>>) -> Result<()> {
        let needed = self.stacks().filter_map(|image| {
            let text = image.meta.needs.glibc.clone()?;
            Some((text.parse::<GlibcVersion>().ok()?, text, image))
        });
        let needed = needed.max_by_key(|(version, ..)| *version);
        let found = match (base, self.environment.root()) {
            (Some(base), _) => library_of(base, &Shown::quiet(&self.request.interrupt))?,
            (None, Some(root)) => root.meta.container.as_ref().and_then(|one| one.glibc.clone()),
            (None, None) => return Ok(()),
        };
        let Some((version, needed, image)) = needed else {
            return Ok(());
        };
        let known = found.as_deref().and_then(|text| text.parse().ok());
        if known.is_some_and(|found: GlibcVersion| found >= version) {
            return Ok(());
        }
        let error = format!(
            "`{}` needs the GNU C library {needed}, and the base has {found}",
            escape(image.name()),
            found = found.unwrap_or_else(|| "none".to_owned())
        );
        Err(Report::new(Kind::BadInput, error)
            .hinted("take a base with a newer distribution in it".to_owned()))
    }

    /// The images that are put on a root.
    fn stacks(&self) -> impl Iterator<Item = &ConcreteImage> {
        let images = self.environment.images.iter();
        images.filter(|image| !image.mount_point.is_root())
    }

    fn make(
        &self,
        target: &mut dyn Target,
        base: Option<&ContainerImage<'_>>,
        reference: Option<&Reference>,
    ) -> Result<MadeImage> {
        let watched = self.context.transfer(&format!("exporting {}", escape(&self.request.images)));
        let shown =
            Shown { watched: Some(Mutex::new(watched)), interrupt: &self.request.interrupt };
        let path = self.context.calling.get(OsStr::new(env_vars::PATH));
        let zstd = find_program("zstd", path.map(AsRef::as_ref));
        let jobs = self.request.jobs.or(self.context.settings.jobs.value);
        let settings = ExportSettings {
            compression: self.request.compression,
            zstd: zstd.as_deref(),
            jobs: jobs.unwrap_or_else(processors).max(1),
            progress: &shown,
        };
        let mut export = Export::new(target, settings);
        for layer in base.iter().flat_map(|base| &base.layers) {
            export.keep(layer)?;
        }
        let root = self.environment.root();
        let mut walked = Vec::new();
        for image in root.into_iter().chain(self.stacks()) {
            let (layer, found) = layer_of(self.context, image);
            let comment = format!("cabane export {}", title_of(image));
            export.pack(&layer, Some(comment))?;
            let found = found.lock().ok().and_then(|mut found| found.take());
            walked.push((image, found.unwrap_or_default()));
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
        Ok(MadeImage {
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
    ) -> Result<Platform> {
        let mut of_programs = walked
            .iter()
            .filter_map(|(image, walked)| Some((image, architecture_of(walked.machine?)?)));
        let root = self.environment.root();
        let source = root.and_then(|root| root.meta.container.as_ref()?.source.as_ref());
        let named = self.request.platform.as_ref().or(base.map(|base| &base.platform)).cloned();
        let platform = named.or_else(|| source?.platform.parse().ok()).unwrap_or_else(|| {
            let first = of_programs.clone().next();
            let machine = first.map(|(_, (_, machine))| machine);
            Platform::of_machine(machine.unwrap_or(std::env::consts::ARCH))
        });
        let other = of_programs.find(|(_, (name, _))| *name != platform.architecture);
        let Some((image, (found, _))) = other else {
            return Ok(platform);
        };
        let error = format!(
            "`{}` is for {found}, and the container image is for {platform}",
            escape(image.name())
        );
        Err(Report::new(Kind::BadInput, error)
            .hinted(format!("`--platform linux/{found}` says so, also of the base")))
    }

    /// The time that the caller names, or that of the base; else one that is always the same.
    fn created(&self, base: &Value) -> Result<String> {
        let (epoch, is_said) = self.context.epoch()?;
        let of_base = base.get("created").and_then(Value::as_str);
        if let (false, Some(text)) = (is_said, of_base) {
            return Ok(text.to_owned());
        }
        let time = jiff::Timestamp::from_second(epoch.into()).unwrap_or_default();
        Ok(time.to_string())
    }
}

fn interpreter(image: &ConcreteImage) -> Option<NeededInterpreter> {
    let need = image.meta.needs.interpreter.as_ref()?;
    Some(NeededInterpreter {
        image: image.name().to_owned(),
        version: need.version.clone(),
        path: need.path.clone(),
    })
}

/// Shows how it goes on.
struct Shown<'a> {
    watched: Option<Mutex<Box<dyn Transfer>>>,
    interrupt: &'a AtomicBool,
}

impl<'a> Shown<'a> {
    fn quiet(interrupt: &'a AtomicBool) -> Self {
        Self { watched: None, interrupt }
    }

    fn done(&self) {
        if let Some(Ok(watched)) = self.watched.as_ref().map(Mutex::lock) {
            watched.end();
        }
    }
}

impl cabane_container::Progress for Shown<'_> {
    fn read(&self, done: u64, of: Option<u64>) {
        if let Some(Ok(watched)) = self.watched.as_ref().map(Mutex::lock) {
            watched.show(done, of.unwrap_or(done));
        }
    }

    fn go_on(&self) -> bool {
        !self.interrupt.load(Ordering::Relaxed)
    }
}
