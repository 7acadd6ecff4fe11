// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From YAML or JSON to a [`DeviceSpecification`].

use std::path::{Component, Path, PathBuf};

use super::name::{DeviceNameError, DeviceRequest, is_device};
use super::{
    ContainerEdits, DeviceHook, DeviceKind, DeviceMount, DeviceNode, DeviceSpecification,
    SpecifiedDevice,
};
use crate::ask::{Field, Section};
use crate::diagnostic::{Mistakes, quote};
use crate::file;
use crate::language::Language;
use crate::node::{Node, Value};
use crate::report::Report;

const FILE: &[&str] = &["cdiVersion", "kind", "annotations", "devices", "containerEdits"];
const DEVICE: &[&str] = &["name", "annotations", "containerEdits"];
const EDITS: &[&str] = &[
    "env",
    "deviceNodes",
    "mounts",
    "hooks",
    "additionalGids",
    "additionalGIDs",
    "intelRdt",
    "netDevices",
];
/// Those for which a container engine needs the rights of root.
const UNSUPPORTED: [&str; 2] = ["intelRdt", "netDevices"];
const NODE: &[&str] =
    &["path", "hostPath", "type", "major", "minor", "fileMode", "permissions", "uid", "gid"];
const MOUNT: &[&str] = &["hostPath", "containerPath", "type", "options"];
const HOOK: &[&str] = &["hookName", "path", "args", "env", "timeout"];
const EXAMPLE: &str = "it begins with its version, `cdiVersion: 0.6.0`";

/// Reads a file that describes devices. JSON is read as the YAML that it is.
///
/// # Errors
///
/// Everything that is wrong with it.
pub fn parse_device_specification(
    path: &Path,
    text: &[u8],
) -> Result<DeviceSpecification, Mistakes> {
    file::read(path, text, Language::Yaml, file)
        .map_err(Mistakes::in_the("the description of devices"))
}

fn file(report: &Report<'_>, root: &Node) -> Option<DeviceSpecification> {
    let file = report.file_with(root, EXAMPLE, FILE)?;
    let version = version(&file);
    let kind = file.needed("kind", "add whose devices these are", kind);
    let edits = edits_of(&file);
    let devices = file.needed("devices", "add a list of devices", devices);
    Some(DeviceSpecification { version: version?, kind: kind?, devices: devices?, edits })
}

/// Later versions of the first one add keys, which are read where they occur.
fn version(file: &Section<'_>) -> Option<String> {
    let field = file.require("cdiVersion", EXAMPLE)?;
    let text = field.text()?;
    let plain = text.strip_prefix('v').unwrap_or(text);
    let mut parts = plain.split(['.', '-', '+']).map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(1)), Some(Ok(_))) | (Some(Ok(0)), Some(Ok(3..))) => Some(text.to_owned()),
        _ => {
            let message = format!("the version {} is not known", quote(text));
            let hint = "those from 0.3.0 to 1.x are read";
            field.refuse(&message, hint)
        }
    }
}

fn kind(field: &Field<'_>) -> Option<DeviceKind> {
    let text = field.text()?;
    text.parse().ok().or_else(|| {
        let message = format!("{} is not a vendor and a class", quote(text));
        field.refuse(&message, "write it as in `nvidia.com/gpu`")
    })
}

fn line(field: &Field<'_>) -> u32 {
    field.report.source.position(field.key_place.start).0
}

fn devices(field: &Field<'_>) -> Option<Vec<SpecifiedDevice>> {
    let items = field.items("a device")?;
    if items.is_empty() {
        let hint = "a file is there for at least one";
        field.report.problem_with_hint(field.place(), "there is no device", hint);
    }
    let mut devices: Vec<SpecifiedDevice> = Vec::with_capacity(items.len());
    for item in items {
        let Some(section) = item.section_with(DEVICE) else {
            continue;
        };
        let edits = edits_of(&section);
        let hint = "add its name, `name: \"0\"`";
        let Some(field) = section.require("name", hint) else {
            continue;
        };
        let Some(name) = scalar(&field) else {
            continue;
        };
        if !is_device(&name) {
            let message = format!("{} cannot be the name of a device", quote(&name));
            field.report.problem(field.place(), &message);
        } else if devices.iter().any(|device| device.name == name) {
            let message = format!("there are two devices {}", quote(&name));
            field.report.problem(field.place(), &message);
        }
        let line = line(&field);
        devices.push(SpecifiedDevice { name, edits, line });
    }
    Some(devices)
}

/// Returns a text; a number without quotes is one, too.
fn scalar(field: &Field<'_>) -> Option<String> {
    match &field.node.value {
        Value::Scalar(scalar) => Some(scalar.text.clone()),
        _ => field.string(),
    }
}

fn edits_of(section: &Section<'_>) -> ContainerEdits {
    let mut edits = ContainerEdits::default();
    let field = section.given("containerEdits");
    let Some(section) = field.and_then(|field| field.section_with(EDITS)) else {
        return edits;
    };
    for item in section.items("env", "a variable") {
        edits.env.extend(variable(&item));
    }
    for item in section.items("deviceNodes", "a device node") {
        edits.nodes.extend(node(&item));
    }
    for item in section.items("mounts", "a mount") {
        edits.mounts.extend(mount(&item));
    }
    for item in section.items("hooks", "a hook") {
        edits.hooks.extend(hook(&item));
    }
    for key in ["additionalGids", "additionalGIDs"] {
        for item in section.items(key, "a group") {
            edits.groups.extend(number(&item));
        }
    }
    for key in UNSUPPORTED {
        if let Some(field) = section.given(key) {
            edits.unsupported.push((key, line(&field)));
        }
    }
    edits
}

fn variable(field: &Field<'_>) -> Option<(String, String)> {
    let text = field.text()?;
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Some((name.to_owned(), value.to_owned())),
        _ => {
            let message = format!("{} sets no variable", quote(text));
            field.refuse(&message, "write `NAME=VALUE`")
        }
    }
}

/// Returns an absolute path of the host.
fn host_path(field: &Field<'_>) -> Option<PathBuf> {
    let text = field.text()?;
    if text.starts_with('/') {
        return Some(PathBuf::from(text));
    }
    let message = format!("{} is not an absolute path", quote(text));
    field.refuse(&message, None)
}

/// Returns a place in a container. Names of devices have colons, which mount points lack.
fn container_path(field: &Field<'_>) -> Option<PathBuf> {
    let text = field.text()?;
    let path: PathBuf = Path::new(text).components().collect();
    let mut components = path.components();
    let is_absolute = components.next() == Some(Component::RootDir);
    let mut rest = components.peekable();
    let has_rest = rest.peek().is_some();
    if is_absolute && has_rest && rest.all(|part| matches!(part, Component::Normal(_))) {
        return Some(path);
    }
    let message = format!("{} is no place in a container", quote(text));
    let hint = "a place begins with `/`, has no `..` and is not all of it";
    field.refuse(&message, hint)
}

fn node(field: &Field<'_>) -> Option<DeviceNode> {
    let section = field.section_with(NODE)?;
    let field = section.require("path", "add where the node is")?;
    let line = line(&field);
    let path = container_path(&field)?;
    let host_path =
        section.given("hostPath").map_or(Some(path.clone()), |field| host_path(&field))?;
    let number = |key| number(&section.given(key)?);
    // 0 and 0 stand for numbers that are not given.
    let numbers = match (number("major"), number("minor")) {
        (Some(0) | None, Some(0) | None) => None,
        (major, minor) => Some((major.unwrap_or(0), minor.unwrap_or(0))),
    };
    let permissions = match section.given("permissions") {
        Some(field) => permissions(&field)?,
        None => String::new(),
    };
    let has = |letter| permissions.is_empty() || permissions.contains(letter);
    Some(DeviceNode { path, host_path, numbers, is_read: has('r'), is_written: has('w'), line })
}

fn permissions(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    if text.is_empty() || text.chars().all(|c| "rwm".contains(c)) {
        return Some(text.to_owned());
    }
    // None at all, which is not the same as no value being given.
    if text == "none" {
        return Some("-".to_owned());
    }
    let message = format!("{} are no permissions of a device", quote(text));
    field.refuse(&message, "they are letters of `rwm`")
}

fn number(field: &Field<'_>) -> Option<u32> {
    let text = match &field.node.value {
        Value::Scalar(scalar) => scalar.text.as_str(),
        _ => "",
    };
    text.parse().ok().or_else(|| field.wrong_type("a number from 0", None))
}

fn mount(field: &Field<'_>) -> Option<DeviceMount> {
    let section = field.section_with(MOUNT)?;
    let source = section.require("hostPath", "add what is mounted")?;
    let hint = "add where it is mounted";
    let target = section.require("containerPath", hint)?;
    let target = container_path(&target);
    let mut options = Vec::new();
    for item in section.items("options", "an option") {
        options.extend(item.text());
    }
    let has = |wanted: &str| options.contains(&wanted);
    let file_system = section.given("type").and_then(|field| field.text());
    let is_bind = has("bind") || has("rbind");
    let is_named = |name: &&str| !is_bind && !matches!(*name, "" | "none" | "bind");
    let line = line(&source);
    // What is no place of the host has a word in its place, such as `tmpfs`.
    let file_system = file_system.filter(is_named).map(str::to_owned);
    let source = match &file_system {
        Some(_) => PathBuf::from(source.text()?),
        None => host_path(&source)?,
    };
    Some(DeviceMount { source, target: target?, file_system, read_only: has("ro"), line })
}

fn hook(field: &Field<'_>) -> Option<DeviceHook> {
    let section = field.section_with(HOOK)?;
    let hint = "add when it runs, `hookName: createContainer`";
    let moment = section.require("hookName", hint)?;
    let program = section.require("path", "add the program")?;
    let line = line(&moment);
    let moment = moment.text()?.to_owned();
    let program = host_path(&program)?;
    let mut arguments = Vec::new();
    for item in section.items("args", "an argument") {
        arguments.push(scalar(&item)?);
    }
    Some(DeviceHook { moment, program, arguments, line })
}

impl Field<'_> {
    /// Returns which devices are wanted.
    pub(crate) fn device(&self) -> Option<DeviceRequest> {
        let noted = |error: DeviceNameError| {
            self.report.note(Some(self.place()), &error.to_string(), Some(&error.hint()));
        };
        self.text()?.parse().map_err(noted).ok()
    }
}
