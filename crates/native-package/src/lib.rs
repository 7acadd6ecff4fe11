// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Views of an image as a package for Debian (`.deb`) or Red Hat (`.rpm`).
//!
//! ```text
//! image ──survey──▶ files, needs ──stage──▶ tree ──dpkg-deb or rpmbuild──▶ package
//!        view, packages.json                     dependencies on libraries of the system
//! ```
//!
//! Files keep their absolute paths, so nothing is relocated. The tools of the distribution compute
//! dependencies (`dpkg-shlibdeps`) and write the package.

#![forbid(unsafe_code)]

mod deb;
mod documents;
mod identity;
mod libraries;
mod parts;
mod rpm;
mod stage;
mod survey;
mod tool;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use cabane_environment::{ImageRequest, find_environment};
use cabane_label::{MountPoint, escape, shown_word};
use cabane_process::Scratch;
use cabane_report::{IoContext as _, Kind, Report, Result};
use cabane_resolve::{ConcreteEnvironment, ConcreteImage};
use cabane_run::metadata::look_into;
use cabane_run::open_image;
use cabane_site::Context;
use cabane_view::{View, ViewName};
use tempfile::NamedTempFile;

use crate::identity::Identity;
use crate::libraries::Libraries;
use crate::survey::{Survey, Wanted};

/// The kinds of packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For Debian and Ubuntu.
    Deb,
    /// For Red Hat, Fedora, and SUSE.
    Rpm,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "deb" => Ok(Self::Deb),
            "rpm" => Ok(Self::Rpm),
            _ => Err("the formats are `deb` and `rpm`".to_owned()),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deb => "deb",
            Self::Rpm => "rpm",
        })
    }
}

/// The package to make.
#[derive(Clone, Debug)]
pub struct PackageRequest {
    /// The image, as it is typed.
    pub image: String,
    /// Its views, as they are typed; the default view if there are none.
    pub view: Option<String>,
    /// The kind of package.
    pub format: Format,
    /// The file to write, or a directory for it; the working directory by default.
    pub output: Option<PathBuf>,
    /// The name of the package; that of the image by default.
    pub name: Option<String>,
    /// Its version, perhaps with a release: `1.0-2`. By default that of the label.
    pub version: Option<String>,
    /// Its maintainer: `Our Site <hpc@example.org>`.
    pub maintainer: Option<String>,
    /// What it is for; what the image says by default.
    pub description: Option<String>,
    /// The license; what the image says about its packages by default.
    pub license: Option<String>,
    /// Whether a file that is there is replaced.
    pub force: bool,
    /// Whether nothing is written.
    pub dry_run: bool,
}

/// A package that was made, or would be.
#[derive(Debug)]
pub struct Packaged {
    /// The file.
    pub file: PathBuf,
    /// Its size in bytes, if it was written.
    pub size: Option<u64>,
    /// Name, version, and architecture of the package.
    pub identity: Identity,
    /// The label of the image.
    pub label: Option<String>,
    /// The digest of the image: `sha256:…`.
    pub digest: String,
    /// Where its files are installed.
    pub mount_point: MountPoint,
    /// The views.
    pub views: Vec<ViewName>,
    /// The packages of the image that it contains, by name and version. `None`: the whole image.
    pub packages: Option<Vec<(String, String)>>,
    /// How many files, directories, and links it installs from the image.
    pub files: u64,
    /// Their size in bytes.
    pub installed_size: u64,
    /// For which processors it was compiled, if that is more than any processor of the architecture has.
    pub processor: Option<String>,
    /// What the files need of the system, as rpm writes it: `libc.so.6(GLIBC_2.34)(64bit)`.
    pub needs: Vec<String>,
    /// The dependencies of the package. `None`: only the files themselves would show them.
    pub depends: Option<Vec<String>>,
}

/// Makes a package of views of an image.
///
/// # Errors
///
/// An image, view, name, or file that cannot be in a package; a library that is nowhere; a tool that is
/// missing or fails; a file that is there already.
pub fn package(context: &Context, request: &PackageRequest) -> Result<Packaged> {
    let typed = ImageRequest::new(&request.image, request.view.as_deref(), false);
    let (environment, _) = find_environment(context, &typed)?;
    let subject = Subject::new(&environment)?;
    let mut identity = Identity::new(request, subject.image)?;
    let (epoch, is_said) = context.epoch()?;
    let scratch = Scratch::new().or_failed(|| "make a temporary directory".to_owned())?;
    let tree = scratch.path().join("tree");
    let mut survey = survey(context, &subject, (!request.dry_run).then_some(tree.as_path()))?;
    report_left_out(context, &survey);
    identity.set_architecture(&survey.needs.architectures)?;
    identity.set_license(request, &survey.licenses)?;
    let file = identity.file(request);
    if !request.force && !request.dry_run && file.symlink_metadata().is_ok() {
        let message = format!("the file {} exists already", file.display());
        return Err(Report::new(Kind::Usage, message).hinted("`--force` replaces it".to_owned()));
    }
    let libraries = Libraries::new(&survey.needs)?;
    let mut made = Packaged {
        size: None,
        label: subject.image.label.as_ref().map(ToString::to_string),
        digest: subject.digest.clone(),
        mount_point: subject.image.mount_point.clone(),
        views: subject.views.iter().map(|(name, _)| (*name).clone()).collect(),
        packages: survey.packages.take(),
        files: survey.files,
        installed_size: survey.bytes,
        processor: processor_of(subject.image),
        needs: libraries.as_rpm(|_| true),
        depends: None,
        file,
        identity,
    };
    let epoch = if is_said { i64::from(epoch) } else { survey.newest };
    let work = Work { context, subject: &subject, scratch: scratch.path(), tree: &tree, epoch };
    made.depends = match (request.format, request.dry_run) {
        (Format::Deb, true) => None,
        (Format::Deb, false) => Some(deb::depends(&work, &libraries, &survey, &made)?),
        (Format::Rpm, _) => Some(rpm::requires(&work, &libraries)),
    };
    if !request.dry_run {
        documents::write(&work, &made)?;
        let written = match request.format {
            Format::Deb => deb::build(&work, &made)?,
            Format::Rpm => rpm::build(&work, &libraries, &made)?,
        };
        made.size = Some(publish(&written, &made.file, request.force)?);
    }
    Ok(made)
}

/// What every step works with.
struct Work<'a> {
    context: &'a Context,
    subject: &'a Subject<'a>,
    /// A directory for this package.
    scratch: &'a Path,
    /// The files to install, below it.
    tree: &'a Path,
    /// The time of what has no time of its own, in seconds since 1970.
    epoch: i64,
}

/// The image and its views.
struct Subject<'a> {
    image: &'a ConcreteImage,
    digest: String,
    views: Vec<(&'a ViewName, &'a View)>,
}

impl<'a> Subject<'a> {
    fn new(environment: &'a ConcreteEnvironment) -> Result<Self> {
        let refused = |message: String| Report::new(Kind::BadInput, message);
        let [image] = environment.images.as_slice() else {
            let base = environment.images.iter().find(|image| image.is_base);
            let message = match (environment.images.first(), base) {
                (Some(image), Some(base)) => format!(
                    "`{}` is built on the image `{}`, whose files would not be in the package",
                    escape(image.name()),
                    escape(base.name())
                ),
                _ => "a package is made of one image".to_owned(),
            };
            return Err(refused(message));
        };
        let name = escape(image.name()).into_owned();
        let place = &image.mount_point;
        let digest = image.digest.as_ref().ok_or_else(|| {
            let path = image.path.display();
            refused(format!(
                "{path} is not in a repository, so the package could not record its digest"
            ))
            .hinted(format!(
                "add it first: `cabane image add NAME/VERSION {}`",
                shown_word(&image.path)
            ))
        })?;
        if place.is_root() {
            let message =
                format!("`{name}` is a whole root file system, and not one directory of software");
            return Err(refused(message));
        }
        if let Some(built_for) = image.meta.mount.as_ref().filter(|one| *one != place) {
            let message = format!(
                "`{name}` was built for {built_for}, and nothing shows that it works at {place}"
            );
            return Err(refused(message).hinted("leave out the mount point".to_owned()));
        }
        check_place(&name, place)?;
        let views: Vec<_> = environment
            .views
            .iter()
            .filter_map(|view| image.meta.views.get_key_value(&view.name))
            .collect();
        if views.is_empty() {
            let known: Vec<&str> = image.meta.views.keys().map(ViewName::as_str).collect();
            let message = format!("`{name}` has no default view, and no view is named");
            let hint = match known.as_slice() {
                [] => "give the image a view in its recipe".to_owned(),
                _ => format!("name one of its views: `--view={}`", known.join("`, `--view=")),
            };
            return Err(Report::new(Kind::NotFound, message).hinted(hint));
        }
        let digest = format!("sha256:{}", digest.as_str());
        Ok(Self { image, digest, views })
    }
}

/// Refuses mount points whose files no package may own, or whose names the tools would read as something else.
fn check_place(name: &str, place: &MountPoint) -> Result<()> {
    const OF_SYSTEM: [&str; 18] = [
        "DEBIAN", "bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "media",
        "mnt", "proc", "root", "run", "sbin", "sys", "tmp",
    ];
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "/._+-".contains(one);
    let text = place.as_str();
    let first = text.split('/').nth(1).unwrap_or_default();
    let of_vendor = ["usr", "var"].contains(&first) && !text.starts_with("/usr/local/");
    let is_top = ["/opt", "/srv"].contains(&text);
    let reason = if !text.chars().all(is_plain) {
        "a package can only have a mount point of letters, digits, and `/._+-`"
    } else if OF_SYSTEM.contains(&first) || of_vendor || is_top {
        "this directory belongs to the system"
    } else {
        return Ok(());
    };
    let message =
        format!("the files of `{name}` cannot be installed at {}: {reason}", escape(text));
    Err(Report::new(Kind::BadInput, message)
        .hinted("build the image for another mount point, such as /opt/tools".to_owned()))
}

/// Finds the files, and copies them if there is a place for them.
fn survey(context: &Context, subject: &Subject<'_>, tree: Option<&Path>) -> Result<Survey> {
    let image = subject.image;
    let wanted = Wanted::new(image, &subject.views)?;
    let file = open_image(&image.path, image.format)?;
    let watched = context.counted(&format!("reading {}", escape(image.name())));
    let answer = look_into(&[&file], &context.mount_methods(), |mounts| {
        let mount = mounts.first().ok_or(std::io::ErrorKind::NotFound)?;
        let (survey, entries) = survey::survey(mount, &wanted)?;
        if let Some(tree) = tree {
            stage::copy(mount, &entries, tree, &wanted)?;
        }
        Ok(serde_json::to_vec(&survey)?)
    });
    watched.end();
    let answer = answer.map_err(|mut error| {
        let message =
            format!("cannot make a package of `{}`: {}", escape(image.name()), error.reason);
        Report::new(Kind::BadInput, message).hinted(error.hint.take())
    })?;
    serde_json::from_slice(&answer)
        .map_err(|error| Report::caused(Kind::Failure, "cannot read what is in the image", error))
}

/// Returns the processor that packages need: package managers do not check it.
fn processor_of(image: &ConcreteImage) -> Option<String> {
    let need = image.meta.needs.processor.as_ref()?;
    Some(need.targets.join(" and ")).filter(|text| !text.is_empty())
}

fn report_left_out(context: &Context, survey: &Survey) {
    for (count, what) in [
        (survey.set_id, "set-user-ID and set-group-ID bits are not kept"),
        (survey.special, "devices, pipes, and sockets are left out"),
    ] {
        if count > 0 {
            context.warning(format_args!("{what} (files: {count})"));
        }
    }
}

/// Puts the finished file in its place in one step, and returns its size.
fn publish(written: &Path, file: &Path, replace: bool) -> Result<u64> {
    let failed = || format!("write {}", file.display());
    let parent = file.parent().filter(|path| !path.as_os_str().is_empty());
    let mut part = NamedTempFile::new_in(parent.unwrap_or(Path::new("."))).or_failed(failed)?;
    let mut package = fs::File::open(written).or_failed(failed)?;
    let size = std::io::copy(&mut package, &mut part).or_failed(failed)?;
    // The tool made it with the rights that the user gives to new files.
    let rights = package.metadata().or_failed(failed)?.permissions();
    part.as_file().set_permissions(rights).or_failed(failed)?;
    let put = if replace { part.persist(file) } else { part.persist_noclobber(file) };
    put.map_err(|error| error.error).or_failed(failed)?;
    Ok(size)
}
