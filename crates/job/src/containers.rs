// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Options in the words of pyxis (`--container-image` and the like), as a request for images.
//!
//! What such an option asks for that a job cannot have is refused with what there is in its place.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use cabane_environment::complete_label;
use cabane_label::{Digest, Label, LabelPattern, escape};
use cabane_recipe::container_image;
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_repository::ImageFormat;
use cabane_resolve::ConcreteImage;
use cabane_run::loaded::Additions;
use cabane_site::Context;
use cabane_view::{VariableSetting, is_variable_name};

use crate::request::Submission;

/// What was requested in the words of pyxis.
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by itself")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerRequest {
    /// The container image: `[USER@][REGISTRY#]NAME[:TAG]` or a path.
    pub image: Option<String>,
    /// What is visible in it: `SOURCE[:TARGET[:FLAGS]]`.
    pub mounts: Vec<String>,
    /// The directory in which tasks start.
    pub workdir: Option<PathBuf>,
    /// A name for the container, maybe followed by what to do with it.
    pub name: Option<String>,
    /// The file to which the image is copied.
    pub save: Option<PathBuf>,
    /// Whether the home directory is visible.
    pub shows_home: bool,
    /// The variables that keep their values.
    pub variables: Vec<String>,
    /// Whether changes are kept in memory until the step ends; tasks appear as root then.
    pub writable: bool,
    /// Whether the entry point of the image is run.
    pub entrypoint: bool,
    /// Whether namespaces of its own are wanted.
    pub unshares: bool,
}

/// What becomes of a named container that exists, or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    /// It is used, or made of the image.
    Auto,
    /// It is made of the image.
    Create,
    /// It is used.
    Exec,
}

/// A label that the image gets once it is found.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    text: String,
    label: Label,
}

/// Returns a request in the words of this program, and the name that its container gets.
///
/// # Errors
///
/// Something that is malformed, or that a job cannot have.
pub(crate) fn settle(
    context: &Context,
    request: &Submission,
) -> Result<(Submission, Option<Name>)> {
    let container = &request.container;
    let mut settled = request.clone();
    if *container == ContainerRequest::default() {
        return Ok((settled, None));
    }
    if container.image.is_none() && container.name.is_none() && !request.is_requested() {
        context.warning("the options `--container-…` are ignored: no `--container-image` is named");
        settled.container = ContainerRequest::default();
        return Ok((settled, None));
    }
    if container.unshares {
        let message = "`--container-unshare`: tasks share the namespaces of their node";
        return Err(Report::new(Kind::Usage, message).hinted("leave it out".to_owned()));
    }
    let (mut images, mut name) = (Vec::new(), None);
    let mut image = container.image.clone();
    if let Some(text) = &container.name {
        let found = named(context, text, image.as_deref())?;
        if let Some(digest) = found.1 {
            images.push(digest.to_string());
            image = None;
        } else {
            name = Some(found.0);
        }
    }
    if let Some(image) = &image {
        images.push(container_image(image)?.to_string());
    }
    if !images.is_empty() {
        settled.no_home = !container.shows_home;
    }
    for text in &container.mounts {
        match mount(text)? {
            Mount::Bind(bind) => settled.binds.push(bind),
            Mount::Image(image) => images.push(image),
        }
    }
    images.extend(request.images.images.clone());
    settled.images.images = Some(images.join(",")).filter(|images| !images.is_empty());
    Ok((settled, name))
}

/// Reads the name of a container, and returns the image that has it if that is to be used.
fn named(context: &Context, text: &str, image: Option<&str>) -> Result<(Name, Option<Digest>)> {
    let (name, what) = text.split_once(':').unwrap_or((text, "auto"));
    let what = match what {
        "auto" | "no_exec" | "" => Named::Auto,
        "create" => Named::Create,
        "exec" => Named::Exec,
        _ => {
            let message = format!("unknown action in `--container-name={}`", escape(text));
            let hint = "after the name, write `:auto`, `:create`, `:exec`, or `:no_exec`";
            return Err(Report::new(Kind::Usage, message).hinted(hint.to_owned()));
        }
    };
    let pattern: LabelPattern = format!("{name}/container:v1").parse()?;
    let label = complete_label(context, &pattern)?;
    // In a repository of somebody else the name would be theirs.
    let own = context.repository_to_write()?.repository;
    let digest = own.by_label(&label)?.map(|record| record.digest);
    let name = Name { text: name.to_owned(), label };
    let digest = digest.filter(|_| what != Named::Create);
    if digest.is_some() && image.is_some() {
        context.note(format_args!(
            "the container {0} is used as it is; `--container-name={0}:create` makes it again",
            escape(&name.text)
        ));
    }
    if digest.is_none() && (image.is_none() || what == Named::Exec) {
        let message = format!("there is no container `{}`", escape(&name.text));
        let hint = format!(
            "`--container-image=IMAGE --container-name={}` makes it; `cabane image ls` lists `{}`",
            escape(&name.text),
            name.label
        );
        return Err(Report::new(Kind::NotFound, message).hinted(hint));
    }
    Ok((name, digest))
}

impl Name {
    /// Gives an image the label that stands for the name.
    ///
    /// # Errors
    ///
    /// The repository cannot be written to.
    pub(crate) fn give(&self, context: &Context, image: &ConcreteImage) -> Result<()> {
        let written = context.repository_to_write()?;
        let tagged = image
            .digest
            .as_ref()
            .map(|digest| written.repository.tag(digest, self.label.clone(), true));
        match tagged {
            Some(Ok(_)) => Ok(()),
            None | Some(Err(cabane_repository::Error::NoSuchImage { .. })) => {
                context.note(format_args!(
                    "`--container-name={}` is for this step alone: {} is not in your repository",
                    escape(&self.text),
                    image.path.display()
                ));
                Ok(())
            }
            Some(Err(error)) => Err(error.into()),
        }
    }
}

/// Adds to an environment what options say about its container.
///
/// # Errors
///
/// A variable that cannot be one.
pub(crate) fn add(
    container: &ContainerRequest,
    calling: &BTreeMap<OsString, OsString>,
    additions: &mut Additions,
) -> Result<()> {
    for name in &container.variables {
        if !is_variable_name(name) {
            let message = format!("`{}` cannot be the name of a variable", escape(name));
            let hint = "names are separated by commas: `--container-env=OMP_NUM_THREADS,LANG`";
            return Err(Report::new(Kind::Usage, message).hinted(hint.to_owned()));
        }
        // One that is not set has no value to keep.
        if let Some(value) = calling.get(OsStr::new(name)).and_then(|value| value.to_str()) {
            additions.variables.0.insert(name.clone(), VariableSetting::to(value));
        }
    }
    let has_container = container.image.is_some() || container.name.is_some();
    additions.starts_in_image |= has_container;
    additions.ranks_for_pytorch |= has_container;
    additions.writable |= container.writable;
    additions.entry_point |= container.entrypoint;
    if let Some(workdir) = &container.workdir {
        if !workdir.is_absolute() {
            let path = workdir.to_string_lossy();
            let message =
                format!("`--container-workdir={}` is not an absolute path", escape(&path));
            return Err(Report::new(Kind::Usage, message));
        }
        additions.working_directory = Some(workdir.clone());
    }
    Ok(())
}

/// Copies an image to a file, which is whole as soon as it is there.
///
/// # Errors
///
/// It cannot be written, or it is no squashfs.
pub(crate) fn save(image: &ConcreteImage, to: &Path) -> Result<()> {
    let failed = || format!("save the container image to {}", to.display());
    if image.format != ImageFormat::Squashfs {
        let message = format!("cannot {}: it is not a squashfs file", failed());
        return Err(Report::new(Kind::BadInput, message));
    }
    let to = std::path::absolute(to).or_failed(failed)?;
    let directory = to.parent().unwrap_or(Path::new("/"));
    if fs::symlink_metadata(&to).is_ok_and(|there| !there.is_file() && !there.is_symlink()) {
        let message = format!("cannot {}: something else has this name", failed());
        return Err(Report::new(Kind::BadInput, message));
    }
    let mut source = fs::File::open(&image.path).or_failed(failed)?;
    let found = source.metadata().or_failed(failed)?;
    // An image of one group is not opened to others.
    let is_open = found.mode() & 0o004 != 0;
    let permissions = fs::Permissions::from_mode(if is_open { 0o666 } else { 0o600 });
    let mut file = tempfile::Builder::new()
        .prefix(".cabane-")
        .permissions(permissions)
        .tempfile_in(directory)
        .or_failed(failed)?;
    std::io::copy(&mut source, &mut file).or_failed(failed)?;
    file.persist(&to).map_err(|error| error.error).or_failed(failed)?;
    Ok(())
}

/// What is visible in a container.
#[derive(Debug, PartialEq, Eq)]
enum Mount {
    /// `SOURCE:TARGET[:ro]`.
    Bind(String),
    /// A squashfs file and its mount point: `SOURCE:TARGET`.
    Image(String),
}

/// Reads `SOURCE[:TARGET[:FLAG[+FLAG]…]]`.
fn mount(text: &str) -> Result<Mount> {
    let bad = |reason: &str| {
        let message = format!("`--container-mounts={}`: {reason}", escape(text));
        Report::new(Kind::Usage, message)
            .hinted("write `SOURCE:TARGET`, or `SOURCE:TARGET:ro` for reading only".to_owned())
    };
    let parts: Vec<&str> = text.split(':').collect();
    let (source, target, flags) = match parts.as_slice() {
        [source] => (*source, *source, ""),
        [source, target] => (*source, *target, ""),
        [source, target, flags] => (*source, *target, *flags),
        _ => return Err(bad("it has too many parts")),
    };
    if matches!(source, "tmpfs" | "umount") {
        let message = format!("`--container-mounts={}`: `{source}` is not supported", escape(text));
        return Err(Report::new(Kind::Usage, message)
            .hinted("write to `/tmp` or `/dev/shm`, which are those of the node".to_owned()));
    }
    if !source.starts_with(['/', '.']) {
        return Err(bad("a source begins with `/` or `./`"));
    }
    // One that is relative begins at the root of the container.
    let target = if source == target { target } else { target.strip_prefix('.').unwrap_or(target) };
    let (mut mode, mut is_image) = ("", false);
    for flag in flags.split('+').filter(|flag| !flag.is_empty()) {
        match flag {
            "ro" => mode = ":ro",
            "rw" => mode = "",
            "sqsh" => is_image = true,
            _ if cabane_recipe::is_idle_mount_flag(flag) => {}
            _ => return Err(bad(&format!("there is no flag `{}`", escape(flag)))),
        }
    }
    Ok(if is_image {
        Mount::Image(format!("{source}:{target}"))
    } else {
        Mount::Bind(format!("{source}:{target}{mode}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_as_pyxis_reads_them() {
        let bind = |text: &str| Mount::Bind(text.to_owned());
        for (text, expected) in [
            ("/data", bind("/data:/data")),
            ("/a:/b", bind("/a:/b")),
            ("./a:./b", bind("./a:/b")),
            ("/a:/b:ro", bind("/a:/b:ro")),
            ("/a:/b:ro+rprivate", bind("/a:/b:ro")),
            ("/a:/b:rw+rslave", bind("/a:/b")),
            ("/x.sqsh:/b:sqsh", Mount::Image("/x.sqsh:/b".to_owned())),
        ] {
            assert_eq!(mount(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn other_mounts_are_refused_with_what_to_type() {
        for (text, reason) in [
            ("a:/b", "a source begins with `/` or `./`"),
            ("", "a source begins with"),
            ("/a:/b:ro:x", "it has too many parts"),
            ("/a:/b:shared", "there is no flag `shared`"),
            ("tmpfs:/b", "`tmpfs` is not supported"),
        ] {
            let error = mount(text).unwrap_err();
            assert!(error.to_string().contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn variables_that_are_named_keep_their_values() {
        let container = ContainerRequest {
            variables: vec!["A".to_owned(), "NOT_SET".to_owned()],
            ..ContainerRequest::default()
        };
        let calling = BTreeMap::from([("A".into(), "1".into()), ("B".into(), "2".into())]);
        let mut additions = Additions::default();
        add(&container, &calling, &mut additions).unwrap();
        let names: Vec<_> = additions.variables.0.keys().collect();
        assert_eq!(names, ["A"]);
        let bad = ContainerRequest { variables: vec!["A=B".to_owned()], ..container };
        assert!(add(&bad, &calling, &mut additions).is_err());
    }
}
