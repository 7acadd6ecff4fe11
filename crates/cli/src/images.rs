// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Finding the images and views that a command names.

use cabane_label::{
    ImageDescription, Label, LabelDefaults, LabelPattern, UenvDescription, parse_uenv_list,
};
use cabane_mount::ImageFile;
use cabane_recipe::EnvironmentFile;
use cabane_resolve::{
    ConcreteEnvironment, DefaultView, LocatedImage, RequestedImage, Resolver, assemble_requested,
};
use cabane_run::loaded::Additions;
use cabane_run::{metadata, open_image};
use cabane_view::{Meta, ViewDescription, parse_view_list};
use clap::Args;

use crate::builds::choose_here;
use crate::environments;
use crate::report::{CommandResult, Kind, Report};
use crate::root_images::RootArgs;
use crate::setup::Setup;
use crate::trust_at_start;

/// Which images and views to load.
#[derive(Debug, Args)]
pub(crate) struct ImageArgs {
    /// Images: label, ID, digest, or path, each optionally followed by :/mount/point; separated by commas. Also the path of an environment file, which ends in .toml
    #[arg(value_name = "IMAGES", required_unless_present = "environment")]
    images: Option<String>,
    /// An environment file, by path or by name; images on the command line are added to it
    #[arg(short, long, value_name = "NAME|PATH")]
    environment: Option<String>,
    /// Views to load, in this order: VIEW or IMAGE:VIEW, separated by commas; IMAGE is a name, a label, or a mount point. They replace the views of an environment file
    #[arg(short, long, value_name = "VIEWS")]
    view: Option<String>,
    /// Load no view unless one is named
    #[arg(long, conflicts_with = "view")]
    no_default_view: bool,
    #[command(flatten)]
    pub(crate) root: RootArgs,
    /// Print what would be mounted and set, and stop
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Whether it is told which build of an image is taken.
    #[arg(skip)]
    tells_choice: bool,
}

/// Into which environment to look.
#[derive(Debug, Args)]
pub(crate) struct InsideArgs {
    /// Inspect an environment with these images instead of the current one
    #[arg(long = "in", value_name = "IMAGES")]
    images: Option<String>,
    /// The views of that environment
    #[arg(short, long, value_name = "VIEWS", requires = "images")]
    view: Option<String>,
    /// Load no view unless one is named
    #[arg(long, requires = "images", conflicts_with = "view")]
    no_default_view: bool,
}

impl InsideArgs {
    /// Returns what to load, unless the environment around is meant.
    pub(crate) fn images(&self) -> Option<ImageArgs> {
        let images = self.images.as_deref()?;
        let images = ImageArgs::new(images, self.view.as_deref(), self.no_default_view);
        Some(images.telling_choice())
    }
}

const NAMED_IN_FILE: &str = "the environment file names this image, or one of its bases does";

impl ImageArgs {
    /// Names images, or an environment file by its path, in the same words as on the
    /// command line.
    pub(crate) fn new(images: &str, view: Option<&str>, no_default_view: bool) -> Self {
        Self {
            images: Some(images.to_owned()),
            environment: None,
            view: view.map(str::to_owned),
            no_default_view,
            root: RootArgs::default(),
            dry_run: false,
            tells_choice: false,
        }
    }

    /// The same, and it is told which build of an image is taken, if there are several.
    pub(crate) fn telling_choice(self) -> Self {
        Self {
            tells_choice: true,
            ..self
        }
    }

    /// Names images, an environment file or both, for a job.
    pub(crate) fn of_job(
        images: Option<&str>,
        environment: Option<&str>,
        view: Option<&str>,
        no_default_view: bool,
    ) -> Self {
        Self {
            images: images.map(str::to_owned),
            environment: environment.map(str::to_owned),
            view: view.map(str::to_owned),
            no_default_view,
            root: RootArgs::default(),
            dry_run: false,
            tells_choice: false,
        }
    }
}

/// One image that was named, and the builds of it that there are.
#[derive(Debug)]
pub(crate) struct FoundImage {
    /// One or several.
    pub(crate) builds: Vec<LocatedImage>,
    description: UenvDescription,
    default_view: DefaultView,
}

/// What was typed, and what the environment files say that were.
#[derive(Debug)]
pub(crate) struct FoundImages {
    /// The images, in the order in which they were named.
    pub(crate) images: Vec<FoundImage>,
    /// Views that were named, and the first so many images, whose they are.
    views: Vec<ViewDescription>,
    with_views: usize,
    /// What the environment files add.
    pub(crate) additions: Additions,
}

/// Finds what was typed, with the builds that this machine takes.
///
/// # Errors
///
/// Whatever is malformed, missing or ambiguous.
pub(crate) fn find_environment(
    setup: &Setup,
    args: &ImageArgs,
) -> CommandResult<(ConcreteEnvironment, Additions)> {
    let mut found = find_builds(setup, args)?;
    for image in &mut found.images {
        let is_told = args.dry_run || args.tells_choice;
        let place = choose_here(setup, &image.description, &image.builds, is_told)?;
        image.builds.swap(0, place);
        image.builds.truncate(1);
    }
    found.make_ready(setup)?;
    let environment = found.assemble(&vec![0; found.images.len()])?;
    for warning in &environment.warnings {
        setup.printer.warning(&warning.to_string());
    }
    Ok((environment, found.additions))
}

/// Finds what was typed, with all builds that there are.
///
/// # Errors
///
/// Whatever is malformed, missing or ambiguous.
pub(crate) fn find_builds(setup: &Setup, args: &ImageArgs) -> CommandResult<FoundImages> {
    let (mut file, typed) = what_was_typed(setup, args)?;
    let additions = environments::additions(&mut file);
    // Nobody who types an image beside a file expects it to come without its view.
    let typed_default = default_view(!args.no_default_view, args.view.is_none());
    let file_default = default_view(
        !args.no_default_view && file.default_views != Some(false),
        args.view.is_none() && file.views.is_empty(),
    );
    let first_typed = file.images.len();
    let descriptions = [file.images, typed].concat();
    let (views, with_views) = match &args.view {
        Some(text) => {
            let views = parse_view_list(text)?;
            (views, descriptions.len())
        }
        // What is typed beside a file does not change what its words mean.
        None => (file.views, first_typed),
    };
    let resolver = resolver_for(setup, &descriptions)?;
    let mut images = Vec::with_capacity(descriptions.len());
    for (position, description) in descriptions.into_iter().enumerate() {
        let is_typed = position >= first_typed;
        let builds = resolver
            .locate_builds(&description)
            .map_err(Report::from)
            .map_err(|error| error.hinted((!is_typed).then(|| NAMED_IN_FILE.to_owned())))?;
        images.push(FoundImage {
            builds,
            description,
            default_view: if is_typed {
                typed_default
            } else {
                file_default
            },
        });
    }
    Ok(FoundImages {
        images,
        views,
        with_views,
        additions,
    })
}

fn default_view(is_wanted: bool, none_is_named: bool) -> DefaultView {
    match (is_wanted, none_is_named) {
        (true, true) => DefaultView::Used,
        (true, false) => DefaultView::UsedOfRoot,
        (false, _) => DefaultView::Left,
    }
}

impl FoundImages {
    /// Looks whether all builds are trusted, and reads their metadata.
    ///
    /// # Errors
    ///
    /// That one is not trusted, or has malformed metadata.
    pub(crate) fn make_ready(&mut self, setup: &Setup) -> CommandResult<()> {
        let mut builds = self.images.iter_mut().flat_map(|image| &mut image.builds);
        builds.try_for_each(|located| {
            trust_at_start::check(setup, located)?;
            fill_in_metadata(setup, located)
        })
    }

    /// Returns for each image the place of the build that this machine takes; the first where
    /// it takes none, since it is others that run them.
    pub(crate) fn places_here(&self, setup: &Setup) -> Vec<usize> {
        let place = |image: &FoundImage| {
            choose_here(setup, &image.description, &image.builds, false).unwrap_or(0)
        };
        self.images.iter().map(place).collect()
    }

    /// Puts together the builds at these places, one for each image.
    ///
    /// # Errors
    ///
    /// Images or views that do not go together.
    pub(crate) fn assemble(&self, places: &[usize]) -> CommandResult<ConcreteEnvironment> {
        let pairs = self.images.iter().zip(places);
        let requested = pairs.filter_map(|(image, place)| {
            Some(RequestedImage {
                located: image.builds.get(*place)?.clone(),
                description: image.description.clone(),
                default_view: image.default_view,
            })
        });
        assemble_requested(requested.collect(), self.with_views, &self.views).map_err(Report::from)
    }
}

/// Returns what the environment files say together, and the images beside them.
fn what_was_typed(
    setup: &Setup,
    args: &ImageArgs,
) -> CommandResult<(EnvironmentFile, Vec<UenvDescription>)> {
    let mut file = EnvironmentFile::default();
    if let Some(environment) = &args.environment {
        file = environments::load(setup, environment)?;
    }
    let mut images = Vec::new();
    let typed = args.images.as_deref().map(parse_uenv_list);
    for description in typed.unwrap_or(Ok(Vec::new()))? {
        match environments::as_path(&description) {
            Some(path) => {
                let path = path.to_string_lossy();
                file = file.merge(environments::load(setup, &path)?);
            }
            None => images.push(description),
        }
    }
    Ok((file, images))
}

/// Opens the repositories only if something has to be looked up in them.
fn resolver_for(setup: &Setup, descriptions: &[UenvDescription]) -> CommandResult<Resolver> {
    let is_path =
        |description: &UenvDescription| matches!(description.image, ImageDescription::Path(_));
    let repositories = if descriptions.iter().all(is_path) {
        Vec::new()
    } else {
        setup.repositories()?
    };
    Ok(Resolver::new(repositories, setup.system()))
}

/// Finds one image.
///
/// # Errors
///
/// Nothing, or several, are what was typed.
pub(crate) fn find_image(setup: &Setup, image: &ImageDescription) -> CommandResult<LocatedImage> {
    let description = UenvDescription {
        image: image.clone(),
        mount_point: None,
    };
    resolver_for(setup, std::slice::from_ref(&description))?
        .locate(&description)
        .map_err(Report::from)
}

/// Looks into the image if what is beside it says nothing about it.
pub(crate) fn fill_in_metadata(setup: &Setup, image: &mut LocatedImage) -> CommandResult<()> {
    if image.meta.is_some() {
        return Ok(());
    }
    let file: ImageFile = open_image(&image.path, image.format)?;
    let bytes = metadata::read(&file, &setup.ways())?;
    if let Some(bytes) = bytes {
        let meta = Meta::from_json(&bytes).map_err(|error| {
            let place = format!("in meta/env.json of {}", image.path.display());
            Report::new(
                Kind::BadInput,
                BadMeta {
                    place,
                    source: error,
                },
            )
        })?;
        image.meta = Some(meta);
    }
    Ok(())
}

#[derive(Debug, thiserror::Error)]
#[error("malformed metadata {place}")]
struct BadMeta {
    place: String,
    source: cabane_view::MetaError,
}

/// Fills in the parts of a label that were left out.
///
/// # Errors
///
/// A name or version that is missing.
pub(crate) fn complete_label(setup: &Setup, pattern: &LabelPattern) -> CommandResult<Label> {
    complete_label_for(setup, pattern, std::env::consts::ARCH)
}

/// Fills what is missing in a label of an image for machines of this kind: for others than this
/// one, that is its micro-architecture.
///
/// # Errors
///
/// As [`complete_label`].
pub(crate) fn complete_label_for(
    setup: &Setup,
    pattern: &LabelPattern,
    machine: &str,
) -> CommandResult<Label> {
    let fixed = |text: &str| text.parse().map_err(Report::from);
    let system = match setup.system() {
        Some(system) => system,
        None => "local".parse()?,
    };
    let defaults = LabelDefaults {
        tag: fixed("v1")?,
        system,
        uarch: if machine == std::env::consts::ARCH {
            setup.settings.uarch.value.clone()
        } else {
            machine.parse()?
        },
    };
    pattern.complete(&defaults).map_err(Report::from)
}
