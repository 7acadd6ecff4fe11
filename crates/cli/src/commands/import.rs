// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane import`: a container image becomes an image of the repository.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

use cabane_container::{
    CONVERTER, ContainerImage, Converted, DockerArchive, Layout, Platform, Report, Request, Sif,
    check_program, convert,
};
use cabane_label::{Digest, Label, LabelPattern, escape};
use cabane_registry::{ContainerName, sum};
use cabane_repository::{Access, Added, Claim, Incoming, Repository, VerifiedRequest};
use clap::Args;

use super::build::stop_when_interrupted;
use super::export_base::directory_of;
use super::export_target::scratch;
use super::image_add::tell;
use super::image_pull::restrict;
use super::import_check::check;
use super::import_place::{NEW, key_of, program, sweep};
use super::import_reference::{Reference, ReferenceError};
use super::import_remote::Remote;
use super::import_told::{Done, Planned};
use crate::convert as errors;
use crate::exit_codes::{self, ExitCode};
use crate::format::json;
use crate::groups;
use crate::images::complete_label_for;
use crate::registry::of_containers;
use crate::report::{CommandError, CommandResult, IoContext};
use crate::settings::processors;
use crate::setup::Setup;
use crate::table::size;
use crate::transfer::Watched;

/// Make an image of a container image and add it to the repository
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane import registry.example.org/tool:1.0 tool/1.0
  cabane import oci:./layout:latest tool/1.0
  cabane import docker-archive:./saved.tar.gz tool/1.0
  cabane import ./image.sif tool/1.0
  cabane import registry.example.org/tool:1.0 tool/1.0 --platform linux/arm64

The image is mounted at `/`: a command that is run with it sees its files in place of
those of this machine. Layers are verified and flattened, and nothing is unpacked; what
gives rights (set-user-id, capabilities, devices) is left out, and what was changed is
told. No root is needed.")]
pub(crate) struct ImportArgs {
    /// The container image: REGISTRY/NAME:TAG or REGISTRY/NAME@DIGEST, oci:DIR or
    /// oci-archive:FILE, docker-archive:FILE, sif:FILE, dir:DIR, or a path; :NAME after
    /// a path chooses one of several images
    #[arg(required_unless_present = "check")]
    image: Option<String>,
    /// The label: name/version:tag@system%uarch
    #[arg(required_unless_present = "check")]
    label: Option<String>,
    /// Import nothing, and tell whether the tags from which these labels were imported have
    /// moved since; the exit code is 9 if one has
    #[arg(long, value_name = "LABEL", num_args = 1.., conflicts_with_all = ["image", "force", "dry_run", "platform", "group"])]
    check: Vec<String>,
    /// The platform: OS/ARCHITECTURE or OS/ARCHITECTURE/VARIANT; default: this machine
    #[arg(long, value_name = "PLATFORM")]
    platform: Option<Platform>,
    /// Take the label from the image that has it
    #[arg(long)]
    force: bool,
    /// Let only the members of this Unix group read the image here
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// A file with a token for the registry, or a directory with a file TOKEN
    #[arg(long, value_name = "PATH")]
    token: Option<PathBuf>,
    /// The name that belongs to the token; default: your user name
    #[arg(long, value_name = "NAME")]
    username: Option<String>,
    /// Tell what would be done, and stop
    #[arg(long)]
    dry_run: bool,
    /// How many threads may work; default: one for each processor
    #[arg(short, long, value_name = "NUMBER")]
    jobs: Option<usize>,
    /// Print what was done, or would be, as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
enum ImportError {
    #[error("`{label}` is there already, and was made of another image")]
    Moved { label: Label },
}

/// How often we look whether another import is done.
const PAUSE: Duration = Duration::from_millis(200);

pub(super) fn import(setup: &Setup, args: &ImportArgs) -> CommandResult<ExitCode> {
    let (Some(image), Some(label)) = (&args.image, &args.label) else {
        return check(setup, &args.check, args.json);
    };
    let pattern: LabelPattern = label.parse().map_err(errors::parse_error)?;
    let platform = args.platform.clone();
    let platform = platform.unwrap_or_else(|| Platform::of_machine(std::env::consts::ARCH));
    let label = complete_label_for(setup, &pattern, platform.machine())?;
    let reference: Reference = image.parse().map_err(ReferenceError::told)?;
    let group = args.group.as_deref().map(groups::number_of).transpose()?;
    let import = Import {
        setup,
        args,
        label,
        reference: reference.to_string(),
        platform,
        access: group.map_or(Access::AsNewFiles, Access::Group),
        interrupt: stop_when_interrupted()?,
    };
    match &reference {
        Reference::Layout(path, name) => import.layout(path, name.as_deref()),
        Reference::DockerArchive(path, name) => import.docker_archive(path, name.as_deref()),
        Reference::Sif(path) => import.sif(path),
        Reference::Directory(path) => import.directory(path),
        Reference::Registry(name) => import.remote(name),
    }
}

/// One image on its way into the repository.
struct Import<'a> {
    setup: &'a Setup,
    args: &'a ImportArgs,
    label: Label,
    reference: String,
    platform: Platform,
    access: Access,
    interrupt: Arc<AtomicBool>,
}

/// What is known of an image before anything is made of it.
struct Wanted {
    /// Names the place where it is made: two imports of the same take the same.
    key: Digest,
    manifest: Option<Digest>,
    platform: Platform,
    /// Whether what came for it is of use to the next attempt.
    is_kept: bool,
    /// How many layers there are, and how many bytes, where that is known.
    layers: usize,
    bytes: u64,
}

impl Wanted {
    fn new(identity: &str, image: &ContainerImage<'_>, is_kept: bool) -> Self {
        Self {
            key: key_of(identity, &image.platform),
            manifest: image.manifest.clone(),
            platform: image.platform.clone(),
            is_kept,
            layers: image.layers.len(),
            bytes: image.layers.iter().filter_map(|layer| layer.size).sum(),
        }
    }
}

/// Brings what an image is made of to the place where it is made.
type Bring<'a, 'i> = dyn Fn(&Path) -> CommandResult<ContainerImage<'i>> + 'a;

impl Import<'_> {
    fn layout(&self, path: &Path, name: Option<&str>) -> CommandResult<ExitCode> {
        let layout = Layout::open(path, &self.scratch()?).map_err(errors::container_error)?;
        self.opened_layout(&layout, name)
    }

    fn opened_layout(&self, layout: &Layout, name: Option<&str>) -> CommandResult<ExitCode> {
        let chosen = layout.choose(name, &self.platform);
        let chosen = chosen.map_err(errors::container_error)?;
        let image = || {
            ContainerImage::new(&chosen, layout, &self.platform).map_err(errors::container_error)
        };
        let wanted = Wanted::new(chosen.digest.as_str(), &image()?, false);
        self.one(&wanted, &|_| image())
    }

    fn docker_archive(&self, path: &Path, name: Option<&str>) -> CommandResult<ExitCode> {
        let archive =
            DockerArchive::open(path, &self.scratch()?).map_err(errors::container_error)?;
        let image = || {
            archive
                .image(name, &self.platform)
                .map_err(errors::container_error)
        };
        let (first, identity) = match archive.image(name, &self.platform) {
            // An archive that was not said to be one of these.
            Err(error @ cabane_container::Error::NotAnImage { .. }) => {
                return match Layout::open(path, &self.scratch()?) {
                    Ok(layout) if layout.is_one() => self.opened_layout(&layout, name),
                    _ => Err(errors::container_error(error)),
                };
            }
            first => first.map_err(errors::container_error)?,
        };
        let wanted = Wanted::new(&format!("docker-archive {identity}"), &first, false);
        self.one(&wanted, &|_| image().map(|(image, _)| image))
    }

    fn sif(&self, path: &Path) -> CommandResult<ExitCode> {
        let sif = Sif::open(path, &self.platform).map_err(errors::container_error)?;
        let unsquashfs = program(self.setup, "unsquashfs")?;
        let wanted = Wanted {
            key: key_of(&self.reference, &self.platform),
            manifest: None,
            platform: self.platform.clone(),
            is_kept: false,
            layers: 1,
            bytes: 0,
        };
        let bring = |place: &Path| {
            let unpacked = sif.unpack(&unsquashfs, &place.join(format!("{NEW}root")));
            unpacked.map_err(errors::container_error)
        };
        self.one(&wanted, &bring)
    }

    fn directory(&self, path: &Path) -> CommandResult<ExitCode> {
        let image = || directory_of(path, &self.platform);
        let wanted = Wanted::new(&self.reference, &image()?, false);
        self.one(&wanted, &|_| image())
    }

    fn remote(&self, name: &ContainerName) -> CommandResult<ExitCode> {
        let (token, username) = (self.args.token.as_deref(), self.args.username.as_deref());
        let registry = of_containers(self.setup, &name.address, token, username)?;
        let (remote, chosen) = Remote::find(registry, name, &self.platform)?;
        let image = || {
            ContainerImage::new(&chosen, &remote, &self.platform).map_err(errors::container_error)
        };
        let wanted = Wanted::new(chosen.digest.as_str(), &image()?, true);
        let bring = |place: &Path| {
            remote.fetch(self.setup, &chosen.manifest, place, &self.interrupt)?;
            image()
        };
        self.one(&wanted, &bring)
    }

    /// Returns where files without a name may be. The repository is made when there is an
    /// image for it.
    fn scratch(&self) -> CommandResult<PathBuf> {
        if self.args.dry_run {
            return Ok(std::env::temp_dir());
        }
        // One that cannot be written to is told before anything is read.
        self.setup.repository_if_there()?;
        scratch(self.setup)
    }

    fn one(&self, wanted: &Wanted, bring: &Bring<'_, '_>) -> CommandResult<ExitCode> {
        if self.args.dry_run {
            self.tell_plan(wanted);
            if self.args.json {
                self.setup.printer.data(json(&Planned {
                    label: self.label.to_string(),
                    reference: &self.reference,
                    platform: wanted.platform.to_string(),
                    manifest: wanted
                        .manifest
                        .as_ref()
                        .map(cabane_container::digest::written),
                    layers: wanted.layers,
                    bytes: wanted.bytes,
                }));
            }
            return Ok(exit_codes::SUCCESS);
        }
        // Without it nothing comes of it, and no repository is made.
        check_program(&program(self.setup, "mksquashfs")?).map_err(errors::container_error)?;
        let written = self.setup.repository_to_write()?;
        let repository = &written.repository;
        let mut queue = repository.queue(&wanted.key);
        let mut is_told = false;
        loop {
            if let Some(digest) = find_made(repository, wanted)? {
                restrict(self.setup, repository, &digest, self.access)?;
                match repository.tag(&digest, self.label.clone(), self.args.force) {
                    // It was in nobody's use, and somebody tidied up.
                    Err(cabane_repository::Error::NoSuchImage { .. }) => {}
                    added => {
                        let added = added.map_err(|error| self.moved(repository, wanted, error))?;
                        return self.tell_added(&added, None);
                    }
                }
            }
            self.refuse_early(repository, wanted)?;
            match queue.try_take().map_err(errors::repository_error)? {
                Claim::Taken(incoming) => {
                    // Whoever had it may be done.
                    if find_made(repository, wanted)?.is_some() {
                        continue;
                    }
                    let (added, report) = self.make(repository, wanted, bring, incoming)?;
                    return self.tell_added(&added, Some(&report));
                }
                Claim::Busy => {
                    if !is_told {
                        is_told = true;
                        self.setup
                            .printer
                            .note("waiting for another import of this image");
                    }
                    if self.interrupt.load(Ordering::Relaxed) {
                        return Err(errors::container_error(
                            cabane_container::Error::Interrupted,
                        ));
                    }
                    sleep(PAUSE);
                }
            }
        }
    }

    fn make(
        &self,
        repository: &Repository,
        wanted: &Wanted,
        bring: &Bring<'_, '_>,
        incoming: Incoming,
    ) -> CommandResult<(Added, Report)> {
        // What was begun for a group is for that group, whoever goes on.
        let access = match self.access {
            Access::AsNewFiles => incoming.access(),
            access => access,
        };
        // Before the first byte.
        incoming
            .restrict(access)
            .map_err(errors::repository_error)?;
        let alive = incoming.keep_alive();
        sweep(incoming.path())?;
        let new = incoming.path().join(format!("{NEW}{}", std::process::id()));
        let made = bring(incoming.path()).and_then(|image| self.convert(&image, &new));
        let converted = match made {
            Ok(converted) => converted,
            Err(error) => {
                drop(alive);
                // What came from a registry is used by the next attempt, unless it is wrong.
                if !wanted.is_kept || error.code == exit_codes::BAD_INPUT {
                    let _ = incoming.discard();
                }
                return Err(error);
            }
        };
        let digest = sum::file(&new, &mut |_, _| ()).map_err(errors::registry_error)?;
        let target = incoming.image();
        fs::rename(&new, &target).or_failed(|| format!("move {}", new.display()))?;
        let directory =
            tempfile::tempdir().or_failed(|| "make a temporary directory".to_owned())?;
        let place = directory.path();
        for (name, bytes) in converted.documents() {
            fs::write(place.join(name), bytes)
                .or_failed(|| format!("write to {}", place.display()))?;
        }
        let added = repository.add_verified(VerifiedRequest {
            label: self.label.clone(),
            incoming: incoming.made(&digest),
            digest: &digest,
            meta: place,
            access,
            replace: self.args.force,
        });
        drop(alive);
        Ok((added.map_err(errors::repository_error)?, converted.report))
    }

    fn convert(&self, image: &ContainerImage<'_>, output: &Path) -> CommandResult<Converted> {
        let mksquashfs = program(self.setup, "mksquashfs")?;
        let jobs = self.args.jobs.or(self.setup.settings.jobs.value);
        let request = Request {
            name: self.label.name.as_str(),
            reference: &self.reference,
            working_directory: None,
            output,
            mksquashfs: &mksquashfs,
            jobs: jobs.unwrap_or_else(processors).max(1),
        };
        let shown = Shown {
            watched: Mutex::new(Watched::new(
                self.setup.printer,
                &format!("importing {}", escape(&self.reference)),
            )),
            interrupt: &self.interrupt,
        };
        let converted = convert(image, &request, &shown);
        if let Ok(watched) = shown.watched.into_inner() {
            watched.done();
        }
        converted.map_err(errors::container_error)
    }

    /// Says before the work that a label is taken.
    fn refuse_early(&self, repository: &Repository, wanted: &Wanted) -> CommandResult<()> {
        let known = repository.by_label(&self.label);
        match known.map_err(errors::repository_error)? {
            Some(known) if !self.args.force => {
                let error = cabane_repository::Error::LabelTaken {
                    label: Box::new(self.label.clone()),
                    digest: known.digest,
                };
                Err(self.moved(repository, wanted, error))
            }
            _ => Ok(()),
        }
    }

    /// Says of a label that is taken from which image to which it would move.
    fn moved(
        &self,
        repository: &Repository,
        wanted: &Wanted,
        error: cabane_repository::Error,
    ) -> CommandError {
        let cabane_repository::Error::LabelTaken { digest, .. } = &error else {
            return errors::repository_error(error);
        };
        let known = repository.meta(digest).ok();
        let source = known.and_then(|meta| meta.container?.source);
        let (Some(before), Some(now)) = (source.and_then(|one| one.manifest), &wanted.manifest)
        else {
            return errors::repository_error(error);
        };
        let moved = ImportError::Moved {
            label: self.label.clone(),
        };
        CommandError::new(exit_codes::FAILURE, moved)
            .detailed(format!(
                "  it has {}\n  asked for {}",
                escape(&before),
                cabane_container::digest::written(now)
            ))
            .hinted("`--force` gives the label to the new one".to_owned())
    }

    fn tell_plan(&self, wanted: &Wanted) {
        self.setup.printer.note(format_args!(
            "would import {} for {} as {}: {} layers, {}",
            escape(&self.reference),
            wanted.platform,
            self.label,
            wanted.layers,
            size(wanted.bytes)
        ));
    }

    fn tell_added(&self, added: &Added, report: Option<&Report>) -> CommandResult<ExitCode> {
        let printer = self.setup.printer;
        tell(self.setup, added);
        if let Some(report) = report {
            for line in report.changed.lines() {
                printer.note(format_args!("  {}", escape(&line)));
            }
        }
        if self.args.json {
            printer.data(json(&Done {
                label: added.record.label.to_string(),
                digest: &added.record.digest,
                size: added.record.size,
                shared: report.is_none(),
                report,
            }));
        }
        Ok(exit_codes::SUCCESS)
    }
}

/// Finds the image that was made of the same before.
fn find_made(repository: &Repository, wanted: &Wanted) -> CommandResult<Option<Digest>> {
    let Some(manifest) = wanted
        .manifest
        .as_ref()
        .map(cabane_container::digest::written)
    else {
        return Ok(None);
    };
    let platform = wanted.platform.to_string();
    let records = repository.records().map_err(errors::repository_error)?;
    let is_root = |digest: &&Digest| -> bool {
        let meta = repository.meta(digest).ok();
        let source = meta.and_then(|meta| meta.container?.source);
        let is_same = source.is_some_and(|source| {
            source.manifest.as_ref() == Some(&manifest) && source.platform == platform
        });
        is_same && was_made_so(repository, digest)
    };
    let mut digests: Vec<&Digest> = records
        .iter()
        .filter(|record| {
            record
                .mount
                .as_ref()
                .is_some_and(|mount| mount.as_str() == "/")
        })
        .map(|record| &record.digest)
        .collect();
    digests.dedup();
    Ok(digests.into_iter().find(is_root).cloned())
}

/// Whether an image was made as they are made today.
fn was_made_so(repository: &Repository, digest: &Digest) -> bool {
    let path = repository.meta_path(digest).join(Report::FILE);
    let report = File::open(path).ok();
    let report: Option<Report> = report.and_then(|file| serde_json::from_reader(file).ok());
    report.is_some_and(|report| report.converter == CONVERTER && !report.altered)
}

/// Shows how it goes on.
struct Shown<'a> {
    watched: Mutex<Watched>,
    interrupt: &'a AtomicBool,
}

impl cabane_container::Progress for Shown<'_> {
    fn read(&self, done: u64, of: Option<u64>) {
        if let (Ok(watched), Some(of)) = (self.watched.lock(), of) {
            watched.tell(done, of);
        }
    }

    fn go_on(&self) -> bool {
        !self.interrupt.load(Ordering::Relaxed)
    }
}
