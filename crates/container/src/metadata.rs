// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the image says about itself: the metadata of ours, out of a configuration of theirs.

use std::collections::BTreeMap;

use cabane_label::MountPoint;
use cabane_view::{
    Change, Container, ContainerSource, EnvPatch, Meta, ProcessorNeed, View, ViewName,
    is_variable_name,
};

use crate::document::{Config, Run};
use crate::reference::{name_of, recorded};
use crate::{ContainerImage, digest};

/// The view that an imported image has.
const VIEW: &str = "default";
/// Where programs are if an image does not say it, as container runtimes have it.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Who runs a command is the user, at home and on this machine, whatever the image says.
const OF_THE_USER: &[&str] =
    &["HOME", "USER", "LOGNAME", "PWD", "OLDPWD", "SHLVL", "HOSTNAME", "XDG_RUNTIME_DIR", "TMPDIR"];

/// Variables as an image sets them, and those that are left to the user.
pub(crate) struct Variables {
    pub(crate) patch: EnvPatch,
    pub(crate) left_out: Vec<String>,
}

pub(crate) fn variables(config: &Config) -> Variables {
    let mut patch = EnvPatch::new();
    let mut left_out = Vec::new();
    let mut has_path = false;
    let run = config.run.as_ref();
    let texts = run.and_then(|run| run.env.as_deref()).unwrap_or_default();
    for text in texts {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        // A value that looks like a reference to what was there before is not meant so.
        let is_taken = is_variable_name(name)
            && !OF_THE_USER.contains(&name)
            && !value.contains('\0')
            && !value.contains("${@");
        if is_taken {
            has_path |= name == "PATH";
            patch.push(name, Change::Set(value.to_owned()));
        } else {
            left_out.push(cabane_label::escape(name).to_string());
        }
    }
    if !has_path {
        patch.push("PATH", Change::Set(PATH.to_owned()));
    }
    Variables { patch, left_out }
}

/// Makes the metadata of an image.
pub(crate) fn of(
    image: &ContainerImage<'_>,
    reference: &str,
    patch: &EnvPatch,
    glibc: Option<String>,
) -> Meta {
    let none = Run::default();
    let run = image.config.run.as_ref().unwrap_or(&none);
    let labels = run.labels.clone().unwrap_or_default();
    let description =
        labels.get("org.opencontainers.image.description").filter(|text| !text.is_empty()).cloned();
    let view: Option<ViewName> = VIEW.parse().ok();
    let content = View {
        description: Some("as the container image sets it".to_owned()),
        patch: patch.clone(),
        ..View::default()
    };
    let mut meta = Meta {
        name: name_of(reference),
        description,
        mount: "/".parse::<MountPoint>().ok(),
        views: view.clone().map(|view| (view, content)).into_iter().collect(),
        default_view: view,
        engine: Some("container".to_owned()),
        container: Some(container(image, run, labels, reference, glibc)),
        ..Meta::default()
    };
    meta.needs.processor = processor(image);
    meta
}

fn container(
    image: &ContainerImage<'_>,
    run: &Run,
    labels: BTreeMap<String, String>,
    reference: &str,
    glibc: Option<String>,
) -> Container {
    let texts = |list: &Option<Vec<String>>| {
        let list = list.iter().flatten().filter(|text| !text.contains('\0'));
        list.cloned().collect::<Vec<_>>()
    };
    let text = |text: &Option<String>| {
        let text = text.as_deref().unwrap_or_default();
        (!text.is_empty() && !text.contains('\0')).then(|| text.to_owned())
    };
    Container {
        working_directory: working_directory(image),
        entrypoint: texts(&run.entrypoint),
        command: texts(&run.cmd),
        user: text(&run.user),
        labels,
        glibc,
        source: Some(ContainerSource {
            reference: recorded(reference),
            platform: image.platform.to_string(),
            manifest: image.manifest.as_ref().map(digest::written),
            index: image.index.as_ref().map(digest::written),
            configuration: image.configuration.as_ref().map(digest::written),
        }),
    }
}

/// Where a container image starts, if it says so.
pub(crate) fn working_directory(image: &ContainerImage<'_>) -> Option<String> {
    let path = image.config.run.as_ref()?.working_dir.as_deref()?;
    let is_one = !path.is_empty() && !path.contains('\0');
    is_one.then(|| absolute(path)).flatten()
}

/// Relative directories are below the root, as runtimes have it.
fn absolute(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let leads_up = parts.contains(&"..");
    (!leads_up).then(|| format!("/{}", parts.join("/")))
}

/// What a processor must have, where the image is for more than the first of its family.
fn processor(image: &ContainerImage<'_>) -> Option<ProcessorNeed> {
    let level = match (image.platform.architecture.as_str(), image.platform.variant.as_deref()) {
        ("amd64", Some("v2")) => 2,
        ("amd64", Some("v3")) => 3,
        ("amd64", Some("v4")) => 4,
        _ => return None,
    };
    let features: Vec<String> = LEVELS
        .iter()
        .take(level - 1)
        .flat_map(|features| features.iter().map(|name| (*name).to_owned()))
        .collect();
    Some(ProcessorNeed { targets: vec![format!("x86_64_v{level}")], features })
}

/// What each level of x86-64 adds, by the names of the kernel.
const LEVELS: &[&[&str]] = &[
    &["cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"],
    &["abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"],
    &["avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"],
];
