// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What an image was made of, and what was changed on the way.

use cabane_view::{Meta, PackageList};
use serde::{Deserialize, Serialize};

/// The version of the way in which images are made. Another one gives other images.
pub const CONVERTER: u32 = 5;

/// An image that was made.
#[derive(Clone, Debug)]
pub struct Converted {
    /// What it says about itself.
    pub meta: Meta,
    /// What was done.
    pub report: ImportRecord,
    /// The packages in it, if they are known.
    pub packages: Option<PackageList>,
}

impl Converted {
    /// Returns the documents of the metadata: their names in `meta`, and what is in them.
    #[must_use]
    pub fn documents(&self) -> Vec<(&'static str, Vec<u8>)> {
        // Strings, numbers and lists are always JSON.
        let report = serde_json::to_vec_pretty(&self.report).unwrap_or_default();
        let packages = self.packages.as_ref().map(PackageList::to_json);
        let packages = packages.map(|text| (PackageList::FILE, text.into_bytes()));
        [("env.json", self.meta.to_json().into_bytes()), (ImportRecord::FILE, report)]
            .into_iter()
            .chain(packages)
            .collect()
    }
}

/// What was done; it is in the image as `meta/import.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct ImportRecord {
    /// The version of this document.
    pub version: u32,
    /// The version of the way in which images are made.
    pub converter: u32,
    /// What was requested first; of a file its name without its directory.
    pub reference: String,
    /// For which platform the image is.
    pub platform: String,
    /// The digest of the manifest, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    /// The digest of the index in which it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// The digests of what was in the layers, the lowest first.
    pub layers: Vec<String>,
    /// How many files the image has.
    pub files: u64,
    /// How many directories.
    pub directories: u64,
    /// How many symbolic links.
    pub symlinks: u64,
    /// How many further names of files.
    pub hard_links: u64,
    /// How many bytes its files have.
    pub bytes: u64,
    /// The commands of a recipe that were run in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<RecordedCommand>,
    /// Whether a recipe has put something on the container image, or says something else
    /// about it: then it is not what an import makes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub altered: bool,
    /// What was changed.
    pub changed: Changed,
}

/// A command that was run in an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct RecordedCommand {
    /// The command, as it can be typed.
    pub command: String,
    /// Whether it could use the network.
    pub network: bool,
}

/// What was changed, and how often.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Changed {
    /// Files and directories that belonged to others than root.
    pub owners: u64,
    /// Set-user-id and set-group-id bits that were taken away.
    pub set_id: u64,
    /// Files and directories that not everyone could read.
    pub closed: u64,
    /// Devices that were left out.
    pub devices: u64,
    /// Named pipes and sockets that were left out.
    pub pipes: u64,
    /// Extended attributes that were left out.
    pub attributes: u64,
    /// Mount points that were made, and the working directory if it was.
    pub mount_points: Vec<String>,
    /// What stood where metadata and mount points go.
    pub replaced: Vec<String>,
    /// Variables of the image that were left to the user.
    pub variables: Vec<String>,
    /// Variables of an image of Apptainer that a script computes, and that are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub computed: Vec<String>,
}

impl ImportRecord {
    /// Its name in the metadata of an image.
    pub const FILE: &str = "import.json";
}

impl Changed {
    /// Adds what was changed in an image on which this one is made.
    pub fn add(&mut self, base: &Self) {
        let counts = [
            (&mut self.owners, base.owners),
            (&mut self.set_id, base.set_id),
            (&mut self.closed, base.closed),
            (&mut self.devices, base.devices),
            (&mut self.pipes, base.pipes),
            (&mut self.attributes, base.attributes),
        ];
        for (count, more) in counts {
            *count += more;
        }
        let lists = [
            (&mut self.mount_points, &base.mount_points),
            (&mut self.replaced, &base.replaced),
            (&mut self.variables, &base.variables),
            (&mut self.computed, &base.computed),
        ];
        for (list, more) in lists {
            list.extend_from_slice(more);
            list.sort();
            list.dedup();
        }
    }

    /// Says what was changed, a line each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        // The text for one, and for several.
        let counted = [
            (self.owners, "file now belongs to root", "files now belong to root"),
            (
                self.closed,
                "file can now be read by everybody",
                "files can now be read by everybody",
            ),
            (
                self.set_id,
                "file lost its set-user-id or set-group-id bit",
                "files lost their set-user-id or set-group-id bit",
            ),
            (
                self.devices,
                "file was a device and is left out",
                "files were devices and are left out",
            ),
            (
                self.pipes,
                "file was a named pipe or socket and is left out",
                "files were named pipes or sockets and are left out",
            ),
            (self.attributes, "extended attribute is left out", "extended attributes are left out"),
        ];
        let mut lines: Vec<String> = counted
            .iter()
            .filter(|(count, ..)| *count > 0)
            .map(|(count, one, many)| format!("{count} {}", if *count == 1 { one } else { many }))
            .collect();
        let listed = [(&self.replaced, "replaced"), (&self.variables, "variables that stay yours")];
        for (list, what) in listed {
            if !list.is_empty() {
                lines.push(format!("{what}: {}", list.join(", ")));
            }
        }
        lines.extend(self.computed_line());
        lines
    }

    /// Names the variables that are left out because a script would have to compute them.
    #[must_use]
    pub fn computed_line(&self) -> Option<String> {
        (!self.computed.is_empty()).then(|| {
            let names = self.computed.join(", ");
            format!(
                "variables left out, because a script in /.singularity.d/env computes them: {names} \
                 (`--env NAME=VALUE` sets one)"
            )
        })
    }
}
