// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Devices of a machine, as their vendors describe them: files of the Container Device
//! Interface, versions 0.3 to 1.x, in YAML or JSON.
//!
//! A file is read into a [`DeviceSpecification`], in which every entry keeps its line. Whether
//! what it names exists, and what becomes of it in a container, is for others.

mod name;
mod read;

use std::path::PathBuf;

pub use name::{DeviceKind, DeviceName, DeviceNameError, DeviceRequest};
pub use read::parse_device_specification;

/// What one file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSpecification {
    /// The version of the format, as it is written.
    pub version: String,
    /// Whose devices these are, and of what class.
    pub kind: DeviceKind,
    /// The devices, at least one; no two have the same name.
    pub devices: Vec<SpecifiedDevice>,
    /// What a container gets with whichever of them.
    pub edits: ContainerEdits,
}

/// One device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecifiedDevice {
    /// The last part of its name.
    pub name: String,
    /// What a container gets with it.
    pub edits: ContainerEdits,
    /// The line where it is named, from 1.
    pub line: u32,
}

/// What a container gets with a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerEdits {
    /// Variables and their values.
    pub env: Vec<(String, String)>,
    /// Device nodes.
    pub nodes: Vec<DeviceNode>,
    /// Files and directories.
    pub mounts: Vec<DeviceMount>,
    /// Programs that a container engine would run.
    pub hooks: Vec<DeviceHook>,
    /// Groups of which the processes are members; 0 is none.
    pub groups: Vec<u32>,
    /// Keys about which nothing can be done without the rights of root, and their lines.
    pub unsupported: Vec<(&'static str, u32)>,
}

/// A device node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceNode {
    /// Where it is in the container, an absolute path.
    pub path: PathBuf,
    /// Where it is on the host.
    pub host_path: PathBuf,
    /// The number of the driver and the number of the device, if they are given.
    pub numbers: Option<(u32, u32)>,
    /// Whether it is read.
    pub is_read: bool,
    /// Whether it is written to.
    pub is_written: bool,
    /// The line, from 1.
    pub line: u32,
}

/// A file or directory of the host, and where it is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceMount {
    /// Where it is, an absolute path.
    pub source: PathBuf,
    /// Where it is seen, an absolute path without `.` and `..`.
    pub target: PathBuf,
    /// The type of file system, if it is something else than a place of the host.
    pub file_system: Option<String>,
    /// Whether writing is refused there.
    pub read_only: bool,
    /// The line, from 1.
    pub line: u32,
}

/// A program that a container engine would run with the rights of root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceHook {
    /// At which moment.
    pub moment: String,
    /// The program.
    pub program: PathBuf,
    /// Its arguments, its own name first.
    pub arguments: Vec<String>,
    /// The line, from 1.
    pub line: u32,
}
