// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane status`: what is loaded.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use cabane_label::escape;
use cabane_report::{Kind, Report, Result};
use cabane_run::loaded::{Bind, Loaded, LoadedImage, file_system_at, is_unpacked_at};
use clap::{Args, ValueEnum};

use crate::printer::style;
use crate::setup::Setup;

pub(crate) mod save;

/// Show the loaded images and views
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Exit with code 8 if no image is loaded
    #[arg(long)]
    error_if_unset: bool,
    /// How much to show
    #[arg(long, value_enum, default_value_t = Format::Full, value_name = "FORMAT")]
    format: Format,
    /// Print JSON
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write an environment file that restores this state; `-` prints it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "json"])]
    save: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "save")]
    force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Everything.
    Full,
    /// One line for each image: its label, or its path.
    #[value(alias = "name")]
    Short,
    /// The views in use, one line.
    Views,
    /// The beginning of a prompt: `(NAME/VERSION,…) `, or nothing.
    Prompt,
}

pub(crate) fn status(setup: &Setup, args: &StatusArgs) -> Result<()> {
    let loaded = Loaded::of_variables(&setup.calling);
    if loaded.is_empty() && (args.error_if_unset || args.save.is_some()) {
        return Err(Report::new(Kind::NotLoaded, "no image is loaded"));
    }
    if let Some(path) = &args.save {
        return save::save(setup, &loaded, path, args.force);
    }
    if args.json {
        setup.printer.json(&loaded);
        return Ok(());
    }
    if loaded.is_empty() && args.format == Format::Prompt {
        return Ok(());
    }
    if loaded.is_empty() {
        setup.note("no image is loaded");
        return Ok(());
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    match args.format {
        Format::Full => {
            let images = loaded.images.iter().map(|image| full(image, &mounts));
            let additions = &loaded.additions;
            let binds = section("mounts", &additions.binds, bind_line);
            let devices = section("devices", &additions.devices, |one| escape(one).into_owned());
            let texts: Vec<String> = images.chain(binds).chain(devices).collect();
            setup.printer.data(texts.join("\n"));
        }
        Format::Short => {
            for image in &loaded.images {
                setup.printer.data(format_args!("{}\n", title(image)));
            }
        }
        Format::Views => setup.printer.data(format_args!("{}\n", views(&loaded))),
        Format::Prompt => setup.printer.data(prompt(&loaded, &mounts)),
    }
    Ok(())
}

fn title(image: &LoadedImage) -> String {
    image.label.clone().unwrap_or_else(|| image.path.display().to_string())
}

/// The images that are mounted, as a prompt names them.
fn prompt(loaded: &Loaded, mounts: &str) -> String {
    let images = loaded.images.iter();
    let here = images.filter(|image| file_system_at(mounts, &image.mount_point).is_some());
    let names: Vec<&str> = here
        .map(|image| match &image.label {
            Some(label) => label.split([':', '@', '%']).next().unwrap_or(label),
            None => image.name.as_str(),
        })
        .collect();
    // Shells expand what is in a prompt, and the name of an image can be any text.
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "_./,-".contains(one);
    let shown = names.join(",").replace(|one| !is_plain(one), "_");
    if names.is_empty() { String::new() } else { format!("({shown}) ") }
}

fn views(loaded: &Loaded) -> String {
    let names = loaded
        .images
        .iter()
        .flat_map(|image| image.views.iter().map(move |view| format!("{}:{view}", image.name)));
    names.collect::<Vec<_>>().join(",")
}

fn full(image: &LoadedImage, mounts: &str) -> String {
    let mut text = format!("{}{}{:#}\n", style::ACCENT, title(image), style::ACCENT);
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<11} {value}");
    };
    line("mount point", &image.mount_point.display().to_string());
    let found = file_system_at(mounts, &image.mount_point);
    let (in_namespace, by_helper) = (is_in_user_namespace(), is_through_helper());
    line(
        "mounted",
        if is_unpacked_at(mounts, &image.mount_point) {
            unpacked_way(in_namespace, by_helper)
        } else {
            way(found, in_namespace, by_helper)
        },
    );
    line("views", &if image.views.is_empty() { "none".to_owned() } else { image.views.join(", ") });
    if let Some(digest) = &image.digest {
        line("digest", digest);
    }
    line("file", &image.path.display().to_string());
    if let Some(repository) = &image.repository {
        line("repository", repository);
    }
    text
}

/// What the devices are called on which the kernel checks the content of images.
const VERIFIED_DEVICE: &str = "/dev/dm-";
const FUSE_IN_USER_NAMESPACE: &str = "through FUSE, in a user namespace";

/// Returns what serves an image, by the type of the file system at its mount point and what it is
/// mounted from. A root image may
/// are below what was put over it; in a user namespace the kernel serves none.
fn way(
    found: Option<[&str; 2]>,
    is_in_user_namespace: bool,
    is_through_helper: bool,
) -> &'static str {
    match found {
        None => "not here",
        Some(["tmpfs" | "overlay", _]) if is_in_user_namespace => FUSE_IN_USER_NAMESPACE,
        Some([kind, _]) if kind.starts_with("fuse") && is_in_user_namespace => {
            FUSE_IN_USER_NAMESPACE
        }
        Some([kind, _]) if kind.starts_with("fuse") => "through FUSE",
        Some([_, source]) if source.starts_with(VERIFIED_DEVICE) && is_through_helper => {
            "by the kernel, verified, through the helper"
        }
        Some([_, source]) if source.starts_with(VERIFIED_DEVICE) => "by the kernel, verified",
        Some(_) if is_through_helper => "by the kernel, through the helper",
        Some(_) => "by the kernel",
    }
}

/// Says how an image that root has unpacked on the node was bound.
fn unpacked_way(is_in_user_namespace: bool, is_through_helper: bool) -> &'static str {
    if is_in_user_namespace {
        "unpacked on this node, in a user namespace"
    } else if is_through_helper {
        "unpacked on this node, through the helper"
    } else {
        "unpacked on this node"
    }
}

/// The set-uid helper leaves a process that can have no capability, ever; no one else
/// does. In a user namespace that was entered later all may be had again.
fn is_through_helper() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bounds = status.lines().find_map(|line| line.strip_prefix("CapBnd:")).map(str::trim);
    bounds.is_some_and(|bounds| bounds.bytes().all(|digit| digit == b'0'))
}

fn is_in_user_namespace() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    !map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// What an environment has beside the images; nothing where there is nothing of it.
fn section<T>(title: &str, all: &[T], line: impl Fn(&T) -> String) -> Option<String> {
    let head = format!("{}{title}{:#}\n", style::ACCENT, style::ACCENT);
    let lines = all.iter().map(|one| format!("  {}\n", line(one)));
    (!all.is_empty()).then(|| head + &lines.collect::<String>())
}

fn bind_line(bind: &Bind) -> String {
    let source = bind.source.to_string_lossy();
    let read_only = if bind.read_only { " (read-only)" } else { "" };
    format!("{} at {}{read_only}", escape(&source), bind.target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_that_is_covered_is_served_as_where_it_is_not() {
        assert_eq!(way(Some(["tmpfs", "x"]), true, false), FUSE_IN_USER_NAMESPACE);
        assert_eq!(way(Some(["overlay", "x"]), true, false), FUSE_IN_USER_NAMESPACE);
        assert_eq!(way(Some(["tmpfs", "x"]), false, false), "by the kernel");
        assert_eq!(way(Some(["tmpfs", "x"]), false, true), "by the kernel, through the helper");
    }

    #[test]
    fn a_device_of_the_device_mapper_is_one_with_checks() {
        assert_eq!(way(Some(["squashfs", "/dev/dm-3"]), false, false), "by the kernel, verified");
        assert_eq!(way(Some(["squashfs", "/dev/loop3"]), false, false), "by the kernel");
    }
}
