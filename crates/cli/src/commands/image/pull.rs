// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane image pull`: from a registry into the repository.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use cabane_label::{ImageDescription, LabelPattern, NameMatch, SystemPattern};
use cabane_registry::{Place, RemoteImage};
use cabane_repository::{Access, Added, Claim, ImageFormat, Incoming, Repository, VerifiedRequest};
use cabane_run::{metadata, open_image};
use clap::Args;

use crate::added::tell_added;
use crate::commands::image::find::look_up;
use crate::exit_codes::{self, ExitCode};
use crate::registry::RegistryArgs;
use crate::report::{CommandResult, IoContext, Kind, Report};
use crate::setup::Setup;
use cabane_report::size;
use cabane_signature_policy as signature_policy;
use cabane_site::settings::RestrictedSetting;
use cabane_transfer as groups;
use cabane_transfer::Scratch;
use cabane_transfer::{Connection, restrict};

/// Download an image from a registry into the repository
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane image pull prgenv-gnu/24.11:v2
  cabane image pull build::cp2k/2025.1:1234567890@daint%gh200
  cabane image pull 0123456789abcdef

You can leave out parts of the label if only one image matches. An interrupted pull
resumes when you run it again. Several pulls of one image, even on several hosts, download
it once.")]
pub(crate) struct PullArgs {
    /// A label, an ID, or a digest
    image: String,
    /// Download only the metadata, into this new directory
    #[arg(long, alias = "only-meta", value_name = "DIR")]
    meta: Option<PathBuf>,
    /// Move the label from the image that has it in the repository
    #[arg(long)]
    force: bool,
    /// Let only members of this Unix group read the image here
    #[arg(long, value_name = "NAME", conflicts_with = "meta")]
    group: Option<String>,
    #[command(flatten)]
    registry: RegistryArgs,
}

#[derive(Debug, thiserror::Error)]
enum PullError {
    #[error("no image in the registry {registry} matches `{typed}`")]
    NotFound { typed: String, registry: String },
    #[error("several images in the registry match `{typed}`")]
    Ambiguous { typed: String },
    #[error("`{}` is a file, and not an image in a registry", .path.display())]
    Path { path: PathBuf },
    #[error("the image has no metadata")]
    NoMeta,
}

/// How many images are looked through for what they have in common with one.
const MOST_BASES: usize = 2;
/// How often we look whether another pull is done.
const PAUSE: Duration = Duration::from_millis(200);

pub(crate) fn pull(setup: &Setup, args: &PullArgs) -> CommandResult<ExitCode> {
    let connection = args.registry.connect(setup)?;
    let description: ImageDescription = args.image.parse()?;
    let images = find(setup, &connection, &args.image, &description)?;
    if let Some(directory) = &args.meta {
        let image = images
            .first()
            .ok_or_else(|| not_found(&connection, &args.image))?;
        if signature_policy::check_at_pull(setup, &connection.registry, image)?.is_signed {
            setup
                .printer
                .warning("no signature covers metadata that are pulled without their image");
        }
        return pull_meta(setup, &connection, image, directory);
    }
    let written = setup.repository_to_write()?;
    for image in images {
        // `--force` is about labels, and no way around it.
        let checked = signature_policy::check_at_pull(setup, &connection.registry, &image)?;
        let wanted = Pulled {
            image: &image,
            is_signed: checked.is_signed,
            access: access(setup, args, &image.place)?,
            force: args.force,
        };
        let added = one(setup, &connection, &written.repository, wanted)?;
        if let Some(record) = checked.record {
            signature_policy::remember(setup, &written.repository, &image.digest, record);
        }
        tell_added(setup, &added);
    }
    Ok(exit_codes::SUCCESS)
}

/// Returns who may read an image here: whom the command line names, else the first rule of the
/// configuration that is for it.
fn access(setup: &Setup, args: &PullArgs, place: &Place) -> CommandResult<Access> {
    let is_for = |one: &&RestrictedSetting| one.rule.is_for(&place.namespace, &place.label);
    let rule = setup.settings.restricted.iter().find(is_for);
    let group = args.group.as_ref().or(rule.map(|one| &one.rule.group));
    match group {
        None => Ok(Access::AsNewFiles),
        Some(group) => groups::number_of(group).map(Access::Group),
    }
}

fn not_found(connection: &Connection, typed: &str) -> Report {
    let error = PullError::NotFound {
        typed: typed.to_owned(),
        registry: connection.registry.address().to_string(),
    };
    let hint = "`cabane image find '@*'` lists all images".to_owned();
    Report::new(Kind::NotFound, error).hinted(hint)
}

/// Finds what was typed: one image, or all labels of one digest.
pub(crate) fn find(
    setup: &Setup,
    connection: &Connection,
    typed: &str,
    description: &ImageDescription,
) -> CommandResult<Vec<RemoteImage>> {
    if let ImageDescription::Path(path) = description {
        let path = path.clone();
        return Err(Report::new(Kind::Usage, PullError::Path { path }));
    }
    let places = match whole_place(setup, connection, description) {
        Some(place) => vec![place],
        None => look_up_places(setup, connection, typed, description)?,
    };
    let images = places.iter().map(|place| connection.registry.image(place));
    images.collect::<Result<_, _>>().map_err(Report::from)
}

/// Returns the place that a pattern names, if nothing is left open: then nobody has to list
/// anything.
fn whole_place(
    setup: &Setup,
    connection: &Connection,
    description: &ImageDescription,
) -> Option<Place> {
    let ImageDescription::Pattern(pattern) = description else {
        return None;
    };
    let system = match &pattern.system {
        Some(SystemPattern::Is(system)) => system.clone(),
        Some(SystemPattern::Any) => return None,
        None => setup.system()?,
    };
    let LabelPattern {
        name,
        version,
        tag,
        uarch,
        ..
    } = pattern.clone();
    Some(Place {
        namespace: connection.namespace_of(Some(pattern)),
        label: cabane_label::Label {
            name: name?,
            version: version?,
            tag: tag?,
            system,
            uarch: uarch?,
        },
    })
}

fn look_up_places(
    setup: &Setup,
    connection: &Connection,
    typed: &str,
    description: &ImageDescription,
) -> CommandResult<Vec<Place>> {
    let mut found = look_up(
        setup,
        connection,
        Some(description),
        NameMatch::Exact,
        false,
    )?;
    if found.is_empty() {
        // It may have been pushed a moment ago.
        found = look_up(setup, connection, Some(description), NameMatch::Exact, true)?;
    }
    let is_pattern = matches!(description, ImageDescription::Pattern(_));
    if found.is_empty() {
        return Err(not_found(connection, typed));
    }
    if is_pattern && found.len() > 1 {
        let lines = found.iter().map(|image| format!("  {}", image.label));
        let typed = typed.to_owned();
        let error = Report::new(Kind::Ambiguous, PullError::Ambiguous { typed });
        return Err(error
            .detailed(lines.collect::<Vec<_>>().join("\n"))
            .hinted("name the one you mean".to_owned()));
    }
    let places = found.into_iter().map(|image| Place {
        namespace: image.namespace,
        label: image.label,
    });
    Ok(places.collect())
}

/// What is pulled, and how.
#[derive(Clone, Copy)]
struct Pulled<'a> {
    image: &'a RemoteImage,
    /// Whether it had to be signed, and is.
    is_signed: bool,
    /// Who may read it here.
    access: Access,
    force: bool,
}

fn one(
    setup: &Setup,
    connection: &Connection,
    repository: &Repository,
    pulled: Pulled<'_>,
) -> CommandResult<Added> {
    let Pulled { image, force, .. } = pulled;
    let label = image.place.label.clone();
    // Before gigabytes are on their way.
    let known = repository.by_label(&label)?;
    if let Some(known) = known.filter(|known| known.digest != image.digest && !force) {
        let error = cabane_repository::Error::LabelTaken {
            label: Box::new(label),
            digest: known.digest,
        };
        return Err(Report::from(error));
    }
    let mut waiting = false;
    let mut queue = repository.queue(&image.digest);
    loop {
        if repository.has_whole_image(&image.digest, image.size) {
            restrict(setup, repository, &pulled.image.digest, pulled.access)?;
            match repository.tag(&image.digest, label.clone(), force) {
                // It was in nobody's use, and somebody tidied up.
                Err(cabane_repository::Error::NoSuchImage { .. }) => continue,
                tagged => return tagged.map_err(Report::from),
            }
        }
        match queue.try_take()? {
            Claim::Taken(incoming) => {
                // Whoever had it may be done.
                if repository.has_whole_image(&image.digest, image.size) {
                    continue;
                }
                return download(setup, connection, repository, pulled, incoming);
            }
            Claim::Busy => {
                if !waiting {
                    setup.printer.note(format_args!(
                        "waiting for another pull of {}",
                        image.digest.id()
                    ));
                }
                waiting = true;
                sleep(PAUSE);
            }
        }
    }
}

fn download(
    setup: &Setup,
    connection: &Connection,
    repository: &Repository,
    pulled: Pulled<'_>,
    incoming: Incoming,
) -> CommandResult<Added> {
    let image = pulled.image;
    let registry = &connection.registry;
    // What was begun for a group is for that group, whoever goes on.
    let access = match pulled.access {
        Access::AsNewFiles => incoming.access(),
        access => access,
    };
    // Before the first byte.
    incoming.restrict(access)?;
    let alive = incoming.keep_alive();
    let directory = Scratch::new()?;
    // What is attached to an image is not signed with it; what is in the image is.
    let has_meta = !pulled.is_signed && registry.fetch_meta(image, directory.path())?;
    let watched = setup.transfer(&format!("pulling {}", image.place.label));
    let bases = other_versions(repository, image)?;
    let fetched = registry.fetch_image(image, incoming.path(), &bases, &mut |done, total| {
        watched.show(done, total);
    });
    watched.end();
    let fetched = fetched?;
    if fetched.reused > 0 {
        let (reused, whole) = (size(fetched.reused), size(image.size));
        setup.printer.note(format_args!(
            "{reused} of {whole} were in other images of that name"
        ));
    }
    // What mounts must have no other thread.
    drop(alive);
    if !has_meta {
        copy_metadata(setup, &fetched.path, directory.path())?;
    }
    // A large file may take long until it is on disk.
    let _alive = incoming.keep_alive();
    let added = repository.add_verified(VerifiedRequest {
        label: image.place.label.clone(),
        incoming,
        digest: &image.digest,
        meta: directory.path(),
        access,
        replace: pulled.force,
    });
    added.map_err(Report::from)
}

/// Returns images of the repository that may have much in common with one: those of the same
/// name, the newest first.
fn other_versions(repository: &Repository, image: &RemoteImage) -> CommandResult<Vec<PathBuf>> {
    let label = &image.place.label;
    let pattern = LabelPattern {
        name: Some(label.name.clone()),
        ..LabelPattern::default()
    };
    let found = repository.find(&pattern, NameMatch::Exact);
    let mut found = found?;
    // Those for the same processors have the same programs in them.
    found.sort_by_key(|record| (record.label.uarch != label.uarch, Reverse(record.date)));
    let mut digests: Vec<_> = found.into_iter().map(|record| record.digest).collect();
    digests.dedup();
    digests.truncate(MOST_BASES);
    let paths = digests.iter().map(|digest| repository.image_path(digest));
    Ok(paths.collect())
}

/// Looks into an image that came without metadata, or whose own are wanted.
fn copy_metadata(setup: &Setup, path: &Path, directory: &Path) -> CommandResult<()> {
    let file = fs::File::open(path).or_failed(|| format!("read {}", path.display()))?;
    let format = ImageFormat::of_file(&file).map_err(|source| {
        Report::from(cabane_repository::Error::Image {
            path: path.to_owned(),
            source,
        })
    })?;
    let file = open_image(path, format)?;
    metadata::copy(&file, &setup.ways(), directory)
        .map_err(|error| Report::from(error).with_kind(Kind::Failure))
}

fn pull_meta(
    setup: &Setup,
    connection: &Connection,
    image: &RemoteImage,
    directory: &Path,
) -> CommandResult<ExitCode> {
    let shown = || format!("make {}", directory.display());
    // What was there could be mixed up with what comes.
    fs::create_dir(directory).or_failed(shown)?;
    let outcome = connection.registry.fetch_meta(image, directory);
    if !matches!(outcome, Ok(true)) {
        let _ = fs::remove_dir_all(directory);
    }
    if !outcome? {
        let hint = "the image itself may hold them: pull it".to_owned();
        return Err(Report::new(Kind::NotFound, PullError::NoMeta).hinted(hint));
    }
    setup.printer.note(format_args!(
        "the metadata of {} are in {}",
        image.place.label,
        directory.display()
    ));
    Ok(exit_codes::SUCCESS)
}
