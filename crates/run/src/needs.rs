// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whether the host has what an image needs.
//!
//! Looked at after mounting, because one image may bring what another needs; before,
//! where another program does the mounting and becomes the command.

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use cabane_compat::{GlibcVersion, HostLibraries, LibraryLack};
use cabane_mount::MountPlan;
use cabane_report::{Kind, Report, Result};
use cabane_resolve::{ConcreteEnvironment, ConcreteImage};
use cabane_view::{InterpreterNeed, LibraryNeed, ProcessorNeed};

use crate::RunWarning;

/// How an image is called in messages.
pub(crate) fn name_of(image: &ConcreteImage) -> String {
    let name = || image.name().to_owned();
    image.label.as_ref().map_or_else(name, ToString::to_string)
}

/// Checks that this machine runs programs of the images.
///
/// # Errors
///
/// If all programs of one image are for other architectures, and no emulator is registered for one of them.
/// An image in which no program was found, or in which none was looked for, is no error.
pub fn check_architectures(environment: &ConcreteEnvironment) -> Result<()> {
    for image in &environment.images {
        if let Some(found) = cabane_compat::other_architectures(&image.meta.needs.architectures) {
            let name = name_of(image);
            let message = format!(
                "the programs of the image {name} are for {found}, and this machine is {ARCH}"
            );
            let report = Report::new(Kind::NotStarted, message);
            return Err(match &image.label {
                Some(label) => report.hinted(format!(
                    "`cabane search --system '*' {}` lists builds for other processors",
                    label.name
                )),
                None => report,
            });
        }
    }
    Ok(())
}

/// Compares what images were built for with this machine. It is no error if they do not
/// fit: perhaps nothing is used of what does not.
pub(crate) fn warnings(
    environment: &ConcreteEnvironment,
    variables: &BTreeMap<OsString, OsString>,
) -> Vec<RunWarning> {
    let mut warnings = Vec::new();
    let root = environment.root().map(|image| &image.meta.container);
    let root_library = root.map(|container| {
        let container = container.as_ref()?;
        container.glibc.as_deref()?.parse().ok()
    });
    for image in &environment.images {
        let needs = &image.meta.needs;
        let needed = needs.glibc.as_deref().and_then(|text| text.parse().ok());
        let library = needed.and_then(|needed| match root_library {
            None => Some((needed, cabane_compat::older_glibc(needed)?)),
            // A root image brings its own.
            Some(found) => Some((needed, found.filter(|found| *found < needed)?)),
        });
        warnings.extend(library.map(|(needed, found): (GlibcVersion, _)| RunWarning::OldLibrary {
            image: name_of(image),
            needed: needed.to_string(),
            found: found.to_string(),
        }));
        warnings.extend(other_architecture(image));
        let processor = needs.processor.as_ref();
        warnings.extend(processor.and_then(|need| other_processor(image, need)));
        // In a root image, libraries are those of the root image.
        if root_library.is_none() && !needs.libraries.is_empty() {
            warnings.extend(no_library(environment, image, variables));
        }
    }
    warnings
}

/// Looks for the libraries without which no program of an image starts that is linked with them.
fn no_library(
    environment: &ConcreteEnvironment,
    image: &ConcreteImage,
    variables: &BTreeMap<OsString, OsString>,
) -> Option<RunWarning> {
    let list = variables.get(OsStr::new("LD_LIBRARY_PATH")).map_or(&[][..], |list| list.as_bytes());
    let directories =
        list.split(|byte| *byte == b':').map(|part| Path::new(OsStr::from_bytes(part)));
    let directories: Vec<&Path> = directories.filter(|path| path.is_absolute()).collect();
    let mut others = environment.images.iter().filter(|one| one.mount_point != image.mount_point);
    let of_image = || image.meta.needs.search_paths.iter().map(Path::new);
    if others.any(|one| {
        let mut all = directories.iter().copied().chain(of_image());
        all.any(|path| path.starts_with(one.mount_point.as_path()))
    }) {
        // Another image may bring them, and is not mounted yet.
        return None;
    }
    let needs = &image.meta.needs;
    let further = || needs.search_paths.iter().map(Path::new).chain(directories.iter().copied());
    let host = HostLibraries::default();
    let lacking = |need: &LibraryNeed| {
        Some(match host.lack(&need.name, &need.versions, further())? {
            LibraryLack::Library => need.name.clone(),
            LibraryLack::Versions(versions) => {
                format!("{} with {}", need.name, versions.join(" and "))
            }
        })
    };
    let missing: Vec<String> = needs.libraries.iter().filter_map(lacking).collect();
    (!missing.is_empty()).then(|| RunWarning::NoLibrary { image: name_of(image), missing })
}

/// The label is asked only where nothing is known of the programs: it was typed by a person.
fn other_architecture(image: &ConcreteImage) -> Option<RunWarning> {
    let label = image.label.as_ref().filter(|_| image.meta.needs.architectures.is_empty())?;
    let architecture = cabane_compat::named_architecture(label.uarch.as_str())?.to_owned();
    Some(RunWarning::OtherArchitecture { image: name_of(image), architecture })
}

fn other_processor(image: &ConcreteImage, need: &ProcessorNeed) -> Option<RunWarning> {
    let features = need.features.iter().map(String::as_str);
    let missing = cabane_compat::missing_features(features);
    (!missing.is_empty()).then(|| RunWarning::OtherProcessor {
        image: name_of(image),
        targets: need.targets.clone(),
        missing: missing.into_iter().map(str::to_owned).collect(),
    })
}

/// Checks all interpreters but those that an image of the plan may bring.
///
/// # Errors
///
/// As [`check_interpreter`].
pub(crate) fn check_before(needs: &[(String, InterpreterNeed)], plan: &MountPlan) -> Result<()> {
    let is_outside = |path: &Path| {
        let mut targets = plan.operations.iter().map(cabane_mount::Operation::target);
        !targets.any(|target| path.starts_with(target))
    };
    needs
        .iter()
        .filter(|(_, need)| is_outside(&need.path))
        .try_for_each(|(image, need)| check_interpreter(image, need))
}

/// Checks that an interpreter of the same minor version is where it was when the
/// image was built.
///
/// # Errors
///
/// One that says what is there instead.
pub(crate) fn check_interpreter(image: &str, need: &InterpreterNeed) -> Result<()> {
    let wanted = minor(&need.version);
    // The usual name carries the version; only others must be started to learn it.
    let named = need.path.file_name().is_some_and(|name| *name == *format!("python{wanted}"));
    let missing = |found: String| {
        let path = need.path.display();
        let message = format!("the image {image} needs Python {wanted} at {path}, and {found}");
        Report::new(Kind::NotStarted, message).hinted(format!(
            "install Python {wanted} there, or build the image again on this system with \
             `cabane build`"
        ))
    };
    if !need.path.is_file() {
        return Err(missing("there is none on this system".to_owned()));
    }
    if named {
        return Ok(());
    }
    match version_of(&need.path) {
        Some(version) if minor(&version) == wanted => Ok(()),
        Some(version) => Err(missing(format!("this system has {version} there"))),
        None => Err(missing("what is there does not tell its version".to_owned())),
    }
}

fn version_of(interpreter: &Path) -> Option<String> {
    let output = Command::new(interpreter).arg("-V").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().strip_prefix("Python ")?.to_owned())
}

/// `3.11.2` and `3.11` have the minor version `3.11`: extension modules fit every
/// release of one minor version and no other.
fn minor(version: &str) -> &str {
    let end = version.match_indices('.').nth(1).map_or(version.len(), |(position, _)| position);
    version.get(..end).unwrap_or(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minor_version_leaves_out_the_release() {
        assert_eq!([minor("3.11.2"), minor("3.11"), minor("3")], ["3.11", "3.11", "3"]);
    }

    #[test]
    fn an_interpreter_that_is_missing_is_named_with_its_place() {
        let need = InterpreterNeed {
            path: "/nonexistent/python3.11".into(),
            version: "3.11.2".to_owned(),
        };
        let error = check_interpreter("tools/1:v1", &need).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the image tools/1:v1 needs Python 3.11 at /nonexistent/python3.11, and there is none \
             on this system"
        );
    }

    #[test]
    fn a_program_that_is_no_interpreter_is_refused() {
        let need = InterpreterNeed { path: "/bin/true".into(), version: "3.11.2".to_owned() };
        let error = check_interpreter("tools/1:v1", &need).unwrap_err();
        assert!(error.to_string().ends_with("what is there does not tell its version"), "{error}");
    }
}
