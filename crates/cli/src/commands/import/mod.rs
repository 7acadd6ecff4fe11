// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane import`: a container image becomes an image of the repository.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cabane_container::{ContainerImage, DockerArchive, Layout, Platform, Sif};
use cabane_label::{Label, LabelPattern};
use cabane_recipe::parse_size;
use cabane_registry::ContainerName;
use cabane_repository::Access;
use clap::Args;

use crate::commands::build::stop_when_interrupted;
use crate::commands::export::base::directory_of;
use crate::commands::export::target::scratch;
use crate::commands::import::check::check;
use crate::commands::import::make::Wanted;
use crate::commands::import::place::{NEW, key_of, program};
use crate::commands::import::reference::{Reference, ReferenceError};
use crate::commands::import::remote::Remote;
use crate::exit_codes::ExitCode;
use crate::groups;
use crate::registry::of_containers;
use crate::report::{CommandResult, Report};
use crate::setup::Setup;
use cabane_environment::complete_label_for;

pub(crate) mod check;
pub(crate) mod make;
pub(crate) mod place;
pub(crate) mod reference;
pub(crate) mod remote;
pub(crate) mod told;

/// Import a container image into the repository
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option that is given or not"
)]
#[derive(Debug, Args)]
#[command(override_usage = "\
cabane import [OPTIONS] <IMAGE> <LABEL>
       cabane import --check [--json] <LABEL>...")]
#[command(after_help = "\
Examples:
  cabane import registry.example.org/tool:1.0 tool/1.0
  cabane import oci:./layout:latest tool/1.0
  cabane import docker-archive:./saved.tar.gz tool/1.0
  cabane import ./image.sif tool/1.0
  cabane import registry.example.org/tool:1.0 tool/1.0 --platform linux/arm64

The image is mounted at `/`: commands see its files instead of those of this machine. The
import verifies and flattens the layers without unpacking them to disk. It drops set-user-ID
bits, capabilities, and device files, and reports what it changed. You do not need root.")]
pub(crate) struct ImportArgs {
    /// The container image: REGISTRY/NAME:TAG or REGISTRY/NAME@DIGEST, oci:DIR or oci-archive:FILE, docker-archive:FILE, sif:FILE, dir:DIR, or a path; :NAME after a path selects one of several images
    image: String,
    /// The label: name/version:tag@system%uarch
    #[arg(required_unless_present = "check")]
    label: Option<String>,
    #[arg(hide = true, requires = "check")]
    more_labels: Vec<String>,
    /// Import nothing; report whether the tags that these images came from have moved, with exit code 9 if one has
    #[arg(long, conflicts_with_all = ["force", "dry_run", "platform", "group"])]
    check: bool,
    /// The platform: OS/ARCHITECTURE or OS/ARCHITECTURE/VARIANT; default: this machine
    #[arg(long, value_name = "PLATFORM")]
    platform: Option<Platform>,
    /// Move the label from the image that has it
    #[arg(long)]
    pub(crate) force: bool,
    /// Let only members of this Unix group read the image here
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// A file with a token for the registry, or a directory with a file TOKEN
    #[arg(long, value_name = "PATH")]
    token: Option<PathBuf>,
    /// The user name for the token; default: your user name
    #[arg(long, value_name = "NAME")]
    username: Option<String>,
    /// Show what would be done, and stop
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The number of threads; default: one for each processor
    #[arg(short, long, value_name = "NUMBER")]
    pub(crate) jobs: Option<usize>,
    /// The largest size of all unpacked layers together, such as 500G; default: 256GiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_unpacked: Option<u64>,
    /// Print the result, or the plan, as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn import(setup: &Setup, args: &ImportArgs) -> CommandResult<ExitCode> {
    let label = match &args.label {
        Some(label) if !args.check => label,
        label => {
            // With `--check` every argument is a label, also the first.
            let labels = std::iter::once(&args.image).chain(label);
            let labels: Vec<&str> = labels
                .chain(&args.more_labels)
                .map(String::as_str)
                .collect();
            return check(setup, &labels, args.json);
        }
    };
    let pattern: LabelPattern = label.parse()?;
    let platform = args.platform.clone();
    let platform = platform.unwrap_or_else(|| Platform::of_machine(std::env::consts::ARCH));
    let label = complete_label_for(setup, &pattern, platform.machine())?;
    let reference: Reference = args.image.parse().map_err(ReferenceError::told)?;
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
pub(crate) struct Import<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) args: &'a ImportArgs,
    pub(crate) label: Label,
    pub(crate) reference: String,
    pub(crate) platform: Platform,
    pub(crate) access: Access,
    pub(crate) interrupt: Arc<AtomicBool>,
}

impl Import<'_> {
    fn layout(&self, path: &Path, name: Option<&str>) -> CommandResult<ExitCode> {
        let layout = Layout::open(path, &self.scratch()?)?;
        self.opened_layout(&layout, name)
    }

    fn opened_layout(&self, layout: &Layout, name: Option<&str>) -> CommandResult<ExitCode> {
        let chosen = layout.choose(name, &self.platform);
        let chosen = chosen?;
        let image = || ContainerImage::new(&chosen, layout, &self.platform).map_err(Report::from);
        let wanted = Wanted::new(chosen.digest.as_str(), &image()?, false);
        self.one(&wanted, &|_| image())
    }

    fn docker_archive(&self, path: &Path, name: Option<&str>) -> CommandResult<ExitCode> {
        let archive = DockerArchive::open(path, &self.scratch()?)?;
        let image = || archive.image(name, &self.platform).map_err(Report::from);
        let (first, identity) = match archive.image(name, &self.platform) {
            // An archive that was not said to be one of these.
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

    fn sif(&self, path: &Path) -> CommandResult<ExitCode> {
        let sif = Sif::open(path, &self.platform)?;
        let unsquashfs = program(self.setup, "unsquashfs")?;
        let wanted = Wanted {
            key: key_of(&self.reference, &self.platform),
            manifest: None,
            configuration: None,
            platform: self.platform.clone(),
            is_kept: false,
            layers: 1,
            bytes: 0,
        };
        let bring = |place: &Path| {
            let root = place.join(format!("{NEW}root"));
            let unpacked = sif.unpack(&unsquashfs, &root, self.max_unpacked(), &self.interrupt);
            unpacked.map_err(Report::from)
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
        let image = || ContainerImage::new(&chosen, &remote, &self.platform).map_err(Report::from);
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
}
