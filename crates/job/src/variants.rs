// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The images and variables of a job, for each choice of builds that nodes may make.
//!
//! A node cannot resolve variables: it reads neither JSON nor views. So they are resolved here for
//! every choice, and what differs is written into the list of the job.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

use cabane_compat::GlibcVersion;
use cabane_environment::{FoundImages, ImageRequest, RootOptions, add_binds, find_builds, no_root};
use cabane_label::Label;
use cabane_launch::LaunchPlan;
use cabane_mount::{
    Backend, JobBind, JobDevice, JobImage, JobImages, JobRoot, JobVariable, verity,
};
use cabane_recipe::DeviceRequest;
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_repository::ImageFormat;
use cabane_resolve::{ConcreteEnvironment, ConcreteImage};
use cabane_run::loaded::{Additions, Bind, LoadedImage};
use cabane_run::{Joining, RootRequest, RunRequest, RunWarning, prepare, seen_in_root};
use cabane_site::Context;
use cabane_transfer::keep_named;
use cabane_view::{Needs, VariableSettings};

use crate::containers::{self, Name};
use crate::inherited::{Inherited, loaded_in};
use crate::request::Submission;

/// More than there are on any site, and few enough to be worked out at once.
const MOST_VARIANTS: usize = 64;

type Variables = BTreeMap<OsString, OsString>;

/// The images that were requested.
#[derive(Debug)]
pub(crate) struct Requested {
    found: FoundImages,
    additions: Additions,
    /// Whether the home directory is left out of a root image.
    without_home: bool,
    /// The builds that this machine takes, for what is not yet on a node.
    here: Vec<usize>,
}

impl Requested {
    /// Finds them.
    ///
    /// # Errors
    ///
    /// Whatever is malformed, missing or ambiguous.
    pub(crate) fn find(context: &Context, request: &Submission) -> Result<Self> {
        let mut found = find_builds(context, &keep_named(context, &request.images, false)?)?;
        found.make_ready(context)?;
        found.refuse_different_bases()?;
        let here = found.places_here(context);
        for warning in found.assemble(&here)?.warnings {
            context.warning(warning);
        }
        let mut additions = std::mem::take(&mut found.additions);
        add_binds(context, &request.binds, &mut additions)?;
        let devices = request.devices.iter().map(ToString::to_string);
        additions.devices.extend(devices);
        containers::add(&request.container, &context.calling, &mut additions)?;
        if found.assemble(&here)?.root().is_none() {
            refuse_binds(&additions)?;
            if request.no_home {
                return Err(no_root("--uenv-no-home"));
            }
        }
        Ok(Self { found, additions, without_home: request.no_home, here })
    }

    /// Keeps the image of the container as it was requested: under a name, or in a file.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub(crate) fn keep(
        &self,
        context: &Context,
        request: &Submission,
        name: Option<&Name>,
    ) -> Result<()> {
        let environment = self.assemble_with(&[])?;
        let Some(image) = environment.root() else {
            return Ok(());
        };
        if let Some(name) = name {
            name.give(context, image)?;
        }
        match &request.container.save {
            Some(path) => containers::save(image, path),
            None => Ok(()),
        }
    }

    /// Returns how a task enters the images of a list by itself, if one of them is a root image and each
    /// has one build.
    pub(crate) fn plan(&self, list: &JobImages) -> Option<LaunchPlan> {
        let is_root = |build: &JobImage| build.mount_point == Path::new("/");
        if list.ways() != 1 || !list.images.iter().flatten().any(is_root) {
            return None;
        }
        let image =
            |build: &JobImage| format!("{}:{}", build.path.display(), build.mount_point.display());
        let images: Vec<String> = list.images.iter().flatten().map(image).collect();
        let mut additions = self.additions.clone();
        additions.working_directory.clone_from(&list.workdir);
        // The variables are those of the job by then.
        additions.variables = VariableSettings::default();
        let images = ImageRequest::new(&images.join(","), None, true);
        let root = RootOptions { no_home: self.without_home, ..RootOptions::default() };
        let of_task = Some(additions);
        Some(LaunchPlan { images, root, of_task, ..LaunchPlan::default() })
    }

    /// Returns the directory in which tasks start, unless it is that of the job.
    fn working_directory(&self) -> Result<Option<PathBuf>> {
        let named = self.additions.working_directory.clone();
        if named.is_some() || !self.additions.starts_in_image {
            return Ok(named);
        }
        let environment = self.assemble_with(&[])?;
        let container = environment.root().and_then(|image| image.meta.container.as_ref());
        Ok(container.and_then(|container| container.working_directory.clone()).map(PathBuf::from))
    }

    /// Puts other builds into some places of those that this machine takes.
    fn assemble_with(&self, changed: &[(usize, usize)]) -> Result<ConcreteEnvironment> {
        self.found.assemble(&with_changed(&self.here, changed))
    }

    /// Finds an image that was requested, and all its builds.
    fn find_image(&self, loaded: &LoadedImage) -> Result<Option<(usize, Vec<JobImage>)>> {
        let environment = self.assemble_with(&[])?;
        let is_same = |image: &ConcreteImage| {
            image.path == loaded.path && image.mount_point.as_path() == loaded.mount_point
        };
        let Some(position) = environment.images.iter().position(is_same) else {
            return Ok(None);
        };
        // Images on which others are built come after those that were named.
        let Some(count) = self.found.images.get(position).map(|image| image.builds.len()) else {
            return Ok(None);
        };
        let mut builds = Vec::with_capacity(count);
        for place in 0..count {
            let environment = self.assemble_with(&[(position, place)])?;
            builds.extend(environment.images.get(position).map(job_image));
        }
        Ok(Some((position, builds)))
    }
}

/// Puts other builds into some of these places.
fn with_changed(places: &[usize], changed: &[(usize, usize)]) -> Vec<usize> {
    let mut places = places.to_vec();
    for (image, place) in changed {
        if let Some(slot) = places.get_mut(*image) {
            *slot = *place;
        }
    }
    places
}

fn job_bind(bind: &Bind) -> JobBind {
    JobBind::required(bind.source.clone(), bind.target.as_path().to_owned(), bind.read_only)
}

fn refuse_binds(additions: &Additions) -> Result<()> {
    let Some(bind) = additions.binds.first() else {
        return Ok(());
    };
    let target = bind.target.as_path().display();
    Err(Report::new(
        Kind::BadInput,
        format!("in a job nothing but images is mounted, and {target} is to be something else"),
    )
    .hinted("`cabane run`, with `--bind` or an environment file, in the job mounts it".to_owned()))
}

/// Everything that decides about the images of a job.
#[derive(Debug)]
pub(crate) struct Variants<'a> {
    pub(crate) context: &'a Context,
    /// The variables where the job is submitted.
    pub(crate) calling: Variables,
    /// What is loaded there.
    pub(crate) inherited: Inherited,
    /// What was requested beside it.
    pub(crate) requested: Option<Requested>,
    /// Devices that were requested beside them.
    pub(crate) devices: Vec<DeviceRequest>,
}

/// Where the builds of an image of the job come from.
enum Source {
    Requested(usize),
    Inherited(usize),
    Alone,
}

impl Variants<'_> {
    /// Returns the variables for where the job is submitted, and the list for the nodes.
    ///
    /// # Errors
    ///
    /// Images or views that do not go together in one of the ways, or too many ways.
    pub(crate) fn resolve(&self) -> Result<(Variables, JobImages)> {
        let (variables, warnings) = self.variables(&[], &[])?;
        for warning in warnings {
            self.context.warning(warning);
        }
        let mut list = JobImages::default();
        if let Some(requested) = &self.requested {
            list.workdir = requested.working_directory()?;
            list.by_tasks = requested.additions.writable || requested.additions.entry_point;
            list.ranks_for_pytorch = requested.additions.ranks_for_pytorch;
        }
        let mut sources = Vec::new();
        for loaded in &loaded_in(&variables).images {
            let (source, builds) = self.builds_of(loaded)?;
            sources.push(source);
            list.images.push(builds);
        }
        if list.ways() > MOST_VARIANTS {
            return Err(Report::new(
                Kind::BadInput,
                format!(
                    "there are {} ways to take builds of these images, and {MOST_VARIANTS} at most \
                     are possible",
                    list.ways()
                ),
            )
            .hinted("a label with its `%uarch` means one build only".to_owned()));
        }
        let mut builds = list.images.iter().flatten();
        let has_root = builds.any(|build| build.mount_point == Path::new("/"));
        if has_root {
            list.root = self.seen();
        }
        list.root.devices = self.devices_of_job(&variables, has_root);
        if list.ways() > 1 {
            list.variables = self.differing_variables(&sources, &list)?;
        }
        Ok((variables, list))
    }

    /// Says what of a node is seen in a root image.
    fn seen(&self) -> JobRoot {
        let nothing = Additions::default();
        let (additions, binds, without_home) = match &self.requested {
            Some(requested) => {
                let binds = requested.additions.binds.iter().map(job_bind).collect();
                (&requested.additions, binds, requested.without_home)
            }
            // What was requested when the job was submitted is meant for its steps, too.
            None => (&nothing, self.inherited.binds(), self.inherited.list.root.without_home),
        };
        let request = RootRequest {
            without_home,
            binds: self.context.settings.container.binds.clone(),
            ..RootRequest::default()
        };
        let here = std::env::current_dir().ok();
        let operations = seen_in_root(&request, additions, &self.calling, here.as_deref());
        let mut root = JobRoot::of(&operations);
        root.without_home = without_home;
        root.binds.extend(binds);
        root
    }

    /// Says which devices a node looks for: those of the images that are loaded, those that were
    /// requested, and those that the site gives to container images.
    fn devices_of_job(&self, variables: &Variables, has_root: bool) -> Vec<JobDevice> {
        let loaded = loaded_in(variables).additions;
        let requests = self.devices.iter().map(ToString::to_string);
        let requests: Vec<String> = loaded.devices.into_iter().chain(requests).collect();
        let wants_none = requests.iter().any(|device| device == "none");
        let usual = self.context.settings.container.devices.iter();
        let usual = usual.map(|(name, _)| name.to_string()).chain(loaded.optional_devices);
        let usual = usual.filter(|_| has_root && !wants_none);
        let device = |must_be| move |name: String| JobDevice { name, must_be };
        let usual = usual.map(device(false));
        usual.chain(requests.into_iter().map(device(true))).collect()
    }

    /// Works out the variables as they would be inside, with other builds of some images than
    /// those that are taken here.
    fn variables(
        &self,
        requested: &[(usize, usize)],
        inherited: &[(usize, usize)],
    ) -> Result<(Variables, Vec<RunWarning>)> {
        let mut calling = self.calling.clone();
        if !inherited.is_empty() {
            let places = with_changed(&self.inherited.now, inherited);
            calling = self.inherited.variables_with(&calling, &places);
        }
        let Some(wanted) = &self.requested else {
            return Ok((calling, Vec::new()));
        };
        let prepared = prepare(RunRequest {
            environment: wanted.assemble_with(requested)?,
            additions: wanted.additions.clone(),
            root: RootRequest::default(),
            backend: Backend::Root,
            fuse: self.context.fuse.clone(),
            calling,
            joining: Joining::none(),
            // Which one it will be is not known here, and changes nothing.
            command: vec![OsString::new()],
        })?;
        // What this machine lacks does not matter: the nodes look for themselves.
        let is_about_node = |warning: &&RunWarning| {
            matches!(
                warning,
                RunWarning::OldLibrary { .. }
                    | RunWarning::OtherArchitecture { .. }
                    | RunWarning::OtherProcessor { .. }
                    | RunWarning::NoLibrary { .. }
            )
        };
        let warnings = prepared.warnings();
        let warnings = warnings.filter(|one| !is_about_node(one)).cloned();
        Ok((prepared.variables().clone(), warnings.collect()))
    }

    fn builds_of(&self, loaded: &LoadedImage) -> Result<(Source, Vec<JobImage>)> {
        if let Some(requested) = &self.requested
            && let Some((position, builds)) = requested.find_image(loaded)?
        {
            return Ok((Source::Requested(position), builds));
        }
        if let Some((position, builds)) = self.inherited.find(loaded) {
            return Ok((Source::Inherited(position), builds.to_vec()));
        }
        Ok((Source::Alone, vec![image_alone(self.context, loaded)?]))
    }

    /// Works out for each way what is not the same in all of them.
    fn differing_variables(
        &self,
        sources: &[Source],
        list: &JobImages,
    ) -> Result<Vec<Vec<JobVariable>>> {
        let mut all = Vec::with_capacity(list.ways());
        for places in all_places(list) {
            let (mut requested, mut inherited) = (Vec::new(), Vec::new());
            for (source, place) in sources.iter().zip(places) {
                match source {
                    Source::Requested(image) => requested.push((*image, place)),
                    Source::Inherited(image) => inherited.push((*image, place)),
                    Source::Alone => {}
                }
            }
            all.push(self.variables(&requested, &inherited)?.0);
        }
        let names: BTreeSet<&OsString> = all.iter().flat_map(BTreeMap::keys).collect();
        let differs = |name: &&OsString| {
            let mut values = all.iter().map(|variables| variables.get(*name));
            let first = values.next();
            values.any(|value| Some(value) != first)
        };
        let names: Vec<&OsString> = names.into_iter().filter(differs).collect();
        let of_variant = |variables: &Variables| {
            let pairs = names.iter();
            pairs.map(|name| ((*name).clone(), variables.get(*name).cloned())).collect()
        };
        Ok(all.iter().map(of_variant).collect())
    }
}

/// Returns every way to take a build of each image, the last image changing fastest.
fn all_places(list: &JobImages) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for builds in &list.images {
        let longer = all.iter().flat_map(|places| {
            (0..builds.len()).map(|place| [places.as_slice(), &[place]].concat())
        });
        all = longer.collect();
    }
    all
}

fn job_image(image: &ConcreteImage) -> JobImage {
    let format = mount_format(image.format);
    let place = image.mount_point.as_path();
    let digest = image.digest.as_ref().and_then(|digest| digest.as_str().parse().ok());
    let image_itself = JobImage { digest, ..JobImage::new(format, &image.path, place) };
    described(image_itself, image.label.as_ref(), &image.meta.needs)
}

/// Looks what an image holds that is loaded already, with the rights of the user.
fn image_alone(context: &Context, image: &LoadedImage) -> Result<JobImage> {
    let path = image.path.as_path();
    let file = File::open(path)
        .or_failed(|| format!("open the image {}, which is loaded here", path.display()))?;
    let format = ImageFormat::of_file(&file).map_err(|error| Report::new(Kind::BadInput, error))?;
    let label = image.label.as_ref().and_then(|text| text.parse().ok());
    let needs = needs_of(context, image).unwrap_or_default();
    let digest = image.digest.as_ref().and_then(|digest| digest.parse().ok());
    let image = JobImage::new(mount_format(format), path, &image.mount_point);
    let image = JobImage { digest, ..image };
    Ok(described(image, label.as_ref(), &needs))
}

/// Looks up what an image of a repository needs; nothing is known of others.
fn needs_of(context: &Context, image: &LoadedImage) -> Option<Needs> {
    let name = image.repository.as_ref()?;
    let digest = image.digest.as_ref()?.parse().ok()?;
    let repositories = context.repositories().ok()?;
    let named = repositories.iter().find(|one| one.name == *name)?;
    let meta = named.repository.meta_if_present(&digest).ok()??;
    Some(meta.needs)
}

fn described(image: JobImage, label: Option<&Label>, needs: &Needs) -> JobImage {
    // Metadata may say anything; what has other characters is no need that a node knows.
    let is_printable = |name: &&String| name.bytes().all(|byte| byte.is_ascii_graphic());
    let architectures = needs.architectures.iter().filter(is_printable).cloned();
    let features = needs.processor.iter().flat_map(|need| &need.features);
    let glibc = needs.glibc.as_deref();
    let glibc = glibc.and_then(|version| version.parse::<GlibcVersion>().ok());
    let launchers = needs.mpi.iter().flat_map(|need| &need.srun).filter(is_printable).cloned();
    let mut launchers: Vec<String> = launchers.collect();
    if needs.mpi.is_some() && launchers.is_empty() {
        launchers.push("unknown".to_owned());
    }
    JobImage {
        mpi: launchers,
        label: label.map(ToString::to_string).unwrap_or_default(),
        uarch: label.map_or_else(String::new, |label| label.uarch.to_string()),
        architectures: architectures.collect(),
        features: features.filter(is_printable).cloned().collect(),
        glibc: glibc.map(|version| version.to_string()),
        root_hash: verity::root_hash_beside(&image.path),
        ..image
    }
}

fn mount_format(format: ImageFormat) -> cabane_mount::ImageFormat {
    match format {
        ImageFormat::Squashfs => cabane_mount::ImageFormat::Squashfs,
        ImageFormat::Erofs => cabane_mount::ImageFormat::Erofs,
    }
}
