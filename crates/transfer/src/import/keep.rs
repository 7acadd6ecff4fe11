// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Container images that are imported when they are first used, and kept with a label that their
//! reference decides.
//!
//! ```text
//! docker://ghcr.io/my-lab/tool:2.1       ghcr.io-my-lab-tool/2.1:5c0de1f3a9b27746
//! docker://ghcr.io/my-lab/tool@sha256:…  ghcr.io-my-lab-tool/sha256-66da5000bf8b540e:1f7e…
//! sif:/scratch/tool.sif                  tool-sif/0f3c5b2a9d8e7614:v1
//! ```
//!
//! The digits are of the whole reference, so that no two references have one label, and for a file of
//! its path, size, and time of change. `tool/2.1` is another name: what is kept does not compete with the
//! labels that users choose.

use std::collections::btree_map::Entry;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use cabane_container::{Platform, digest};
use cabane_environment::{ImageRequest, complete_label_for, named_containers};
use cabane_label::{Digest, Label, LabelPattern, MAX_PART_LENGTH, escape, shown_word};
use cabane_registry::{ContainerName, ErrorKind, sum};
use cabane_report::{IoContext, Report, Result};
use cabane_site::Context;
use cabane_view::ContainerSource;

use super::{ImportRequest, Imported, Reference, import_as};
use crate::registry::of_containers;

/// The digits that stand for a file or for a long name.
const DIGITS: usize = 16;

/// A container image that is in a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The label that its reference decides.
    pub label: Label,
    /// The digest of the image.
    pub digest: Digest,
}

/// Imports the container images among those that were typed or that environment files name, unless
/// they are kept already. Returns the request with which the environment is found. A dry run imports
/// nothing.
///
/// # Errors
///
/// Those of [`keep`], an environment file that cannot be read, and for a dry run an image that would be
/// imported.
pub fn keep_named(
    context: &Context,
    request: &ImageRequest,
    is_dry_run: bool,
) -> Result<ImageRequest> {
    let mut request = request.clone();
    for typed in named_containers(context, &request)? {
        if let Entry::Vacant(place) = request.kept.entry(typed) {
            let kept = find_or_import(context, place.key(), is_dry_run)?;
            place.insert(kept.digest);
        }
    }
    Ok(request)
}

/// Returns the image of a container image, and imports it first if no repository has it.
///
/// For a tag the registry is asked for its description; if the registry cannot be reached, the image
/// that is kept is used, with a notice. For a digest and for a file nothing is asked. Processes that
/// want the same at the same time wait for one import.
///
/// # Errors
///
/// A reference that is malformed or names no registry, and those of an import.
pub fn keep(context: &Context, typed: &str) -> Result<Kept> {
    find_or_import(context, typed, false)
}

/// Returns the image that is kept of a container image, if there is one. No registry is asked, and nothing
/// is imported.
///
/// # Errors
///
/// A reference that is malformed or names no registry, a file that is not there, and those of the
/// repository.
pub fn find_kept(context: &Context, typed: &str) -> Result<Option<Kept>> {
    let (_, _, label) = label_for(context, typed)?;
    let found = find(context, &label)?;
    Ok(found.map(|(digest, _)| Kept { label, digest }))
}

/// Reads a reference, and decides platform and label.
fn label_for(context: &Context, typed: &str) -> Result<(Reference, Platform, Label)> {
    let default_registry = context.settings.container.default_registry.value.as_deref();
    let reference = Reference::named(typed, default_registry)?;
    let platform = Platform::of_machine(std::env::consts::ARCH);
    let pattern = label_of(&reference)?;
    let label = complete_label_for(context, &pattern, platform.machine())?;
    Ok((reference, platform, label))
}

fn find_or_import(context: &Context, typed: &str, is_dry_run: bool) -> Result<Kept> {
    let (reference, platform, label) = label_for(context, typed)?;
    if let Some((digest, source)) = find(context, &label)?
        && is_current(context, &reference, &label, &source)?
    {
        context.detail(format_args!("{} is kept as {label}", escape(typed)));
        return Ok(Kept { label, digest });
    }
    if is_dry_run {
        let shown = escape(typed);
        let message = format!("`{shown}` is not imported yet, and a dry run imports nothing");
        let hint = format!(
            "`cabane import --dry-run {} {label}` shows what would be imported",
            shown_word(typed)
        );
        return Err(Report::new(cabane_report::Kind::NotFound, message).hinted(hint));
    }
    let request = ImportRequest {
        image: typed.to_owned(),
        label: label.to_string(),
        platform: None,
        force: true,
        group: None,
        token: None,
        username: None,
        dry_run: false,
        jobs: None,
        max_unpacked: None,
        interrupt: Arc::default(),
    };
    let Imported::Added(added, record) =
        import_as(context, &request, label.clone(), &reference, platform, true)?
    else {
        let message = "the import was planned but did not run";
        return Err(Report::new(cabane_report::Kind::Failure, message));
    };
    if record.is_some() {
        context.note(format_args!("imported {} as {label}", escape(typed)));
    }
    if let Some(line) = record.and_then(|record| record.changed.computed_line()) {
        context.note(format_args!("  {}", escape(&line)));
    }
    Ok(Kept { label, digest: added.record.digest })
}

/// Finds the image with a label in the repository into which this user imports. Others, in which somebody
/// else may write, could give any image the label.
fn find(context: &Context, label: &Label) -> Result<Option<(Digest, ContainerSource)>> {
    let Some(named) = context.repository_if_there()? else { return Ok(None) };
    let repository = named.repository;
    let Some(record) = repository.by_label(label)? else { return Ok(None) };
    let meta = repository.meta_if_present(&record.digest)?;
    Ok(meta.and_then(|meta| meta.container?.source).map(|source| (record.digest, source)))
}

/// Whether a reference still leads to what an image was made of.
fn is_current(
    context: &Context,
    reference: &Reference,
    label: &Label,
    source: &ContainerSource,
) -> Result<bool> {
    let Reference::Registry(name) = reference else {
        // Its label would be another one.
        return Ok(true);
    };
    if name.digest.is_some() {
        return Ok(true);
    }
    let asked = of_containers(context, &name.address, None, None)?.container_document(name);
    match asked {
        Ok(document) => {
            let now = Some(digest::written(&digest::of(&document)));
            Ok(now == source.manifest || now == source.index)
        }
        // A registry that cannot prove what it is may be another one.
        Err(error) if (error.is_about_connection() && !is_insecure(&error)) || error.is_busy() => {
            context.warning(format_args!(
                "{} does not answer, so {label} is used as it was imported",
                escape(name.address.host())
            ));
            context.detail(&error);
            Ok(true)
        }
        Err(error) => {
            let hint = format!("`{label}` names the image that was imported before");
            Err(Report::from(error).hinted(hint))
        }
    }
}

fn is_insecure(error: &cabane_registry::Error) -> bool {
    error.kind == ErrorKind::Insecure
}

/// Returns name, version, and tag of the label under which a container image is kept.
fn label_of(reference: &Reference) -> Result<LabelPattern> {
    let (name, version, tag) = match reference {
        Reference::Registry(name) => of_registry(name, reference),
        Reference::Sif(path) => of_file("sif", path, path, reference)?,
        Reference::DockerArchive(path, _) => of_file("docker-archive", path, path, reference)?,
        Reference::Layout(path, _) if path.is_dir() => {
            of_file("oci", path, &path.join("index.json"), reference)?
        }
        Reference::Layout(path, _) => of_file("oci-archive", path, path, reference)?,
        Reference::Directory(path) => {
            let message =
                format!("{} is a directory, which is not imported at first use", path.display());
            let source = shown_word(format!("dir:{}", path.display()));
            let hint = format!("`cabane import {source} NAME/VERSION` imports it");
            return Err(Report::new(cabane_report::Kind::BadInput, message).hinted(hint));
        }
    };
    Ok(format!("{}/{}:{}", part(&name), part(&version), part(&tag)).parse()?)
}

fn of_registry(name: &ContainerName, reference: &Reference) -> (String, String, String) {
    let version = match (&name.digest, &name.tag) {
        (Some(digest), _) => format!("sha256-{}", digest.id()),
        (None, tag) => tag.clone().unwrap_or_else(|| "latest".to_owned()),
    };
    let place = format!("{}/{}", name.address.host(), name.repository);
    (place, version, digits_of(&reference.to_string()))
}

fn digits_of(text: &str) -> String {
    sum::bytes(text.as_bytes()).as_str().chars().take(DIGITS).collect()
}

/// Describes a file by its name, its kind, and what changes if another file takes its place.
fn of_file(
    kind: &str,
    path: &Path,
    changing: &Path,
    reference: &Reference,
) -> Result<(String, String, String)> {
    let found = fs::metadata(changing).or_failed(|| format!("read {}", path.display()))?;
    let stamp = format!(
        "{reference}\n{} {} {} {}",
        found.size(),
        found.mtime(),
        found.mtime_nsec(),
        found.ino()
    );
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = [".gz", ".zst", ".tar", ".sif"]
        .iter()
        .fold(&*name, |name, ending| name.strip_suffix(ending).unwrap_or(name));
    Ok((format!("{name}-{kind}"), digits_of(&stamp), "v1".to_owned()))
}

/// Writes a text as a part of a label.
fn part(text: &str) -> String {
    let is_fit = |one: char| one.is_ascii_alphanumeric() || matches!(one, '_' | '-' | '.');
    let fit: String = text.chars().map(|one| if is_fit(one) { one } else { '-' }).collect();
    let fit = fit.trim_start_matches(['-', '.']);
    if fit.is_empty() || fit.len() > MAX_PART_LENGTH {
        let digits = &sum::bytes(text.as_bytes()).to_string()[..DIGITS];
        let start: String = fit.chars().take(MAX_PART_LENGTH - DIGITS - 1).collect();
        return format!("{start}-{digits}").trim_start_matches('-').to_owned();
    }
    fit.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(typed: &str) -> String {
        label_of(&typed.parse().unwrap()).unwrap().to_string()
    }

    #[test]
    fn a_label_names_the_image_and_its_registry() {
        let digest = "66da5000bf8b540e".repeat(4);
        let seen = [
            label("docker://ghcr.io/my-lab/tool:2.1"),
            label("docker://localhost:5000/tool"),
            label("nvcr.io#nvidia/pytorch:24.09-py3"),
            label(&format!("oras://ghcr.io/my-lab/tool@sha256:{digest}")),
        ];
        let expected = [
            "ghcr.io-my-lab-tool/2.1",
            "localhost-5000-tool/latest",
            "nvcr.io-nvidia-pytorch/24.09-py3",
            "ghcr.io-my-lab-tool/sha256-66da5000bf8b540e",
        ];
        assert_eq!(seen.each_ref().map(|one| one.split_once(':').unwrap().0), expected);
    }

    #[test]
    fn no_two_references_have_one_label() {
        let references = [
            "docker://localhost:5000/a-b/tool:1",
            "docker://localhost:5000/a/b/tool:1",
            "docker://http://localhost:5000/a/b/tool:1",
            "docker://localhost-5000.example/a/b/tool:1",
        ];
        let labels: std::collections::BTreeSet<_> = references.map(label).into();
        assert_eq!(labels.len(), references.len());
    }

    #[test]
    fn a_long_name_is_cut_and_stays_another_one() {
        let long = "a".repeat(100);
        let label = |end: &str| label(&format!("docker://ghcr.io/{long}{end}:1"));
        assert!(label("b") != label("c"));
    }
}
