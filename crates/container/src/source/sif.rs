// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images of Singularity and Apptainer: one file with a header, descriptors, and a squashfs
//! among what they describe.
//!
//! ```text
//! header         32  "SIF_MAGIC\0", the version
//!                88  how many descriptors there may be
//!                96  where they begin, and how long all of them are
//! descriptor      0  what it describes, 585 bytes each
//!                 4  whether it is used
//!                17  where that is, and how long it is
//!               201  of a partition: its file system, its purpose, its architecture
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use cabane_label::shown;

use super::directory;
use crate::budget::{Budget, Limited};
use crate::document::Run;
use crate::metadata::PATH;
use crate::{ContainerImage, Error, LayerProblem, Platform, Progress};

const MAGIC: &[u8] = b"SIF_MAGIC\0";
const DESCRIPTOR: usize = 585;
const MOST_DESCRIPTORS: u64 = 4096;
const PARTITION: i32 = 0x4004;
const SQUASHFS: i32 = 1;
const PRIMARY: i32 = 2;
/// The architectures, by the two digits that stand for them.
const ARCHITECTURES: &[(&[u8], &str)] = &[
    (b"01", "386"),
    (b"02", "amd64"),
    (b"03", "arm"),
    (b"04", "arm64"),
    (b"06", "ppc64le"),
    (b"11", "s390x"),
    (b"12", "riscv64"),
];
/// What runs a container, as its author wrote it.
const RUNSCRIPT: &str = ".singularity.d/runscript";
/// Files of these names are about the runtime, and not about the image.
const NOT_OF_THE_IMAGE: &[&str] = &["01-base.sh", "95-apps.sh", "99-base.sh", "99-runtimevars.sh"];
const LARGEST: u64 = 1024 * 1024;

/// An image of Singularity or Apptainer.
#[derive(Debug)]
pub struct Sif {
    path: PathBuf,
    start: u64,
    platform: Platform,
}

impl Sif {
    /// Whether a file begins as these images do.
    #[must_use]
    pub fn is_one(start: &[u8]) -> bool {
        start.get(32..32 + MAGIC.len()) == Some(MAGIC)
    }

    /// Finds the root file system in an image.
    ///
    /// # Errors
    ///
    /// Something else, or a root file system that is no squashfs.
    pub fn open(path: &Path, platform: &Platform) -> Result<Self, Error> {
        let file = File::open(path).map_err(Error::io("read", path))?;
        let not_one = |reason| Error::not_an_image(path, reason);
        let mut header = [0; 128];
        let read = file.read_exact_at(&mut header, 0);
        read.map_err(|_| not_one("it is shorter than a header"))?;
        if !Self::is_one(&header) {
            return Err(not_one("it does not begin as SIF does"));
        }
        let (count, start) = (number(&header, 88), number(&header, 96));
        if count > MOST_DESCRIPTORS {
            return Err(not_one("it has too many descriptors"));
        }
        let size = file.metadata().map_err(Error::io("read", path))?.len();
        let mut there = Vec::new();
        for index in 0..count {
            let mut descriptor = [0; DESCRIPTOR];
            let place = start.saturating_add(index * DESCRIPTOR as u64);
            let read = file.read_exact_at(&mut descriptor, place);
            read.map_err(|_| not_one("it is cut off"))?;
            let Some(found) = Partition::of(&descriptor) else {
                continue;
            };
            if found.start.saturating_add(found.length) > size {
                return Err(not_one("it is cut off"));
            }
            if !platform.takes(&found.platform) {
                there.push(found.platform.to_string());
                continue;
            }
            if found.file_system != SQUASHFS {
                return Err(not_one(
                    "its root file system is encrypted or no squashfs, which cannot be read here",
                ));
            }
            return Ok(Self {
                path: path.to_owned(),
                start: found.start,
                platform: found.platform,
            });
        }
        if there.is_empty() {
            return Err(not_one("it has no root file system"));
        }
        Err(Error::no_platform(platform, &there))
    }

    /// Unpacks the image into a new directory, of which it can be read then. Its files may have
    /// so many bytes together.
    ///
    /// # Errors
    ///
    /// [`Error::Layer`] if it is too large, before anything is written; and a program that is
    /// missing or fails: nothing may be left out but devices, which are wanted nowhere.
    pub fn unpack(
        &self,
        unsquashfs: &Path,
        place: &Path,
        max_unpacked: u64,
        interrupt: &AtomicBool,
    ) -> Result<ContainerImage<'static>, Error> {
        self.check_size(unsquashfs, &Budget::new(max_unpacked, &Unless(interrupt)))?;
        let mut command = self.program(unsquashfs);
        command.args(["-no-xattrs", "-dest"]).arg(place);
        command.arg(&self.path);
        let output = command.output().map_err(|_| Error::no_program())?;
        let message = [output.stdout, output.stderr].concat();
        let message = String::from_utf8_lossy(&message).into_owned();
        let mut lines = message.lines().map(str::trim).filter(|line| !line.is_empty());
        if let Some(line) = lines.find(|line| !is_about_devices(line)) {
            if line.contains("No space left on device") {
                return Err(Error::no_space(place));
            }
            return Err(Error::program("unsquashfs", line));
        }
        if !place.is_dir() {
            return Err(Error::program("unsquashfs", &output.status.to_string()));
        }
        let mut image = directory(place, &self.platform, true);
        image.config.run = Some(settings(place));
        Ok(image)
    }

    /// Prepares the program, but for what it shall do.
    fn program(&self, unsquashfs: &Path) -> Command {
        let mut command = Command::new(unsquashfs);
        command.args(["-no-progress", "-quiet", "-offset"]);
        command.arg(OsString::from(self.start.to_string()));
        command.env_clear().stdin(Stdio::null());
        command
    }

    /// Adds up the sizes that the image has for its files, which is all that is written later.
    fn check_size(&self, unsquashfs: &Path, budget: &Budget<'_>) -> Result<(), Error> {
        let mut command = self.program(unsquashfs);
        command.arg("-lln").arg(&self.path);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut listing = command.spawn().map_err(|_| Error::no_program())?;
        let counted = match listing.stdout.take() {
            Some(lines) => count(BufReader::new(Limited { inner: lines, budget }), budget),
            None => Ok(()),
        };
        // One that is not read to its end would wait. What is wrong with an image is reported when
        // it is unpacked.
        let _ = listing.kill();
        let _ = listing.wait();
        counted.map_err(|source| Error::Layer { layer: shown(&self.path), source })
    }
}

/// Continues until it is interrupted.
struct Unless<'i>(&'i AtomicBool);

impl Progress for Unless<'_> {
    fn read(&self, _: u64, _: Option<u64>) {}

    fn go_on(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

/// Counts the entries of a listing: mode, owner, size, date, time, name.
fn count(mut lines: impl BufRead, budget: &Budget<'_>) -> Result<(), LayerProblem> {
    let mut line = Vec::new();
    loop {
        line.clear();
        lines.by_ref().take(LARGEST).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(());
        }
        let mut fields = line.split(|byte| *byte == b' ').filter(|field| !field.is_empty());
        let is_file = fields.next().is_some_and(|mode| mode.starts_with(b"-"));
        let size = fields.nth(1).filter(|_| is_file);
        let size = size.and_then(|size| std::str::from_utf8(size).ok()?.parse().ok());
        budget.entry(size.unwrap_or_default())?;
    }
}

/// Users cannot make devices, and the program goes on.
fn is_about_devices(line: &str) -> bool {
    line.contains("could not create character device")
        || line.contains("could not create block device")
        || line.contains("because you're not superuser")
}

struct Partition {
    start: u64,
    length: u64,
    file_system: i32,
    platform: Platform,
}

impl Partition {
    /// Reads a descriptor; `None` if it is not that of a root file system.
    fn of(descriptor: &[u8]) -> Option<Self> {
        let is_used = descriptor.get(4) == Some(&1);
        let is_root = small(descriptor, 0) == PARTITION && small(descriptor, 205) == PRIMARY;
        let digits = descriptor.get(209..211)?;
        let known = ARCHITECTURES.iter().find(|(known, _)| *known == digits);
        (is_used && is_root).then(|| Self {
            start: number(descriptor, 17),
            length: number(descriptor, 25),
            file_system: small(descriptor, 201),
            platform: Platform {
                os: "linux".to_owned(),
                architecture: known.map_or("unknown", |(_, name)| name).to_owned(),
                variant: None,
            },
        })
    }
}

fn number(bytes: &[u8], place: usize) -> u64 {
    let field = bytes.get(place..place + 8).and_then(|field| field.try_into().ok());
    field.map_or(0, u64::from_le_bytes)
}

fn small(bytes: &[u8], place: usize) -> i32 {
    let field = bytes.get(place..place + 4).and_then(|field| field.try_into().ok());
    field.map_or(0, i32::from_le_bytes)
}

/// Reads what an image sets and starts, as far as that can be read without running anything.
fn settings(root: &Path) -> Run {
    let mut variables = Assigned::default();
    // An image of which no script sets it has this one, and scripts add to it.
    variables.known.insert("PATH".to_owned(), PATH.to_owned());
    let directory = root.join(".singularity.d/env");
    let mut files: Vec<PathBuf> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.ends_with(".sh") && !NOT_OF_THE_IMAGE.contains(&&*name)
        })
        .collect();
    files.sort();
    for file in files {
        variables.read(&text_of(&file).unwrap_or_default());
    }
    let labels = text_of(&root.join(".singularity.d/labels.json"));
    let labels = labels.and_then(|text| serde_json::from_str(&text).ok());
    let has_script = root.join(RUNSCRIPT).symlink_metadata().is_ok_and(|found| found.is_file());
    Run {
        env: Some(variables.texts()),
        computed: variables.computed(),
        entrypoint: has_script.then(|| vec![format!("/{RUNSCRIPT}")]),
        labels,
        ..Run::default()
    }
}

/// Reads a file of the image, if it is one: no link is followed.
fn text_of(path: &Path) -> Option<String> {
    let found = path.symlink_metadata().ok()?;
    if !found.is_file() || found.len() > LARGEST {
        return None;
    }
    let mut text = String::new();
    File::open(path).ok()?.take(LARGEST).read_to_string(&mut text).ok()?;
    Some(text)
}

/// What scripts assign.
#[derive(Default)]
struct Assigned {
    known: BTreeMap<String, String>,
    /// Those of which the last value is not known.
    unknown: BTreeSet<String>,
    exported: BTreeSet<String>,
}

impl Assigned {
    /// Reads `export NAME=VALUE` and `NAME=VALUE` where the value is there. What a shell would have to
    /// find out is left to the shell.
    fn read(&mut self, text: &str) {
        for line in text.lines().map(str::trim) {
            let exported = line.strip_prefix("export ").map(str::trim_start);
            let Some((name, value)) = exported.unwrap_or(line).split_once('=') else {
                let names = exported.unwrap_or_default().split_whitespace();
                self.exported.extend(names.filter(|name| is_name(name)).map(str::to_owned));
                continue;
            };
            if !is_name(name) {
                continue;
            }
            if exported.is_some() {
                self.exported.insert(name.to_owned());
            }
            match value_of(name, value, &self.known) {
                Some(value) => {
                    self.unknown.remove(name);
                    self.known.insert(name.to_owned(), value);
                }
                None => {
                    self.unknown.insert(name.to_owned());
                }
            }
        }
    }

    /// Returns `NAME=VALUE` for those whose value is known.
    fn texts(&self) -> Vec<String> {
        self.known.iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    /// Returns the names of those that programs would see, and whose value is not known.
    fn computed(&self) -> Vec<String> {
        self.unknown.intersection(&self.exported).cloned().collect()
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn value_of(name: &str, value: &str, known: &BTreeMap<String, String>) -> Option<String> {
    // So the variables of a container image are written: what is set already stays.
    let default = format!("${{{name}:-");
    let value = value.trim_end_matches(';').trim();
    let inner = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let default =
        inner.unwrap_or(value).strip_prefix(&default).and_then(|rest| rest.strip_suffix('}'));
    literal(default.unwrap_or(value), known)
}

/// Takes the quotes off a value, and puts in the variables that are known.
fn literal(value: &str, known: &BTreeMap<String, String>) -> Option<String> {
    if let Some(rest) = value.strip_prefix('\'') {
        let rest = rest.strip_suffix('\'')?;
        return (!rest.contains('\'')).then(|| rest.to_owned());
    }
    let inner = value.strip_prefix('"').map(|rest| rest.strip_suffix('"'));
    let is_quoted = inner.is_some();
    let text = inner.unwrap_or(Some(value))?;
    let is_special = |c: char| match c {
        '`' | '\\' | '"' => true,
        '\'' | ' ' | '\t' | ';' | '&' | '|' | '<' | '>' | '(' | ')' | '*' | '?' => !is_quoted,
        _ => false,
    };
    if text.contains(is_special) {
        return None;
    }
    let mut whole = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        whole.push_str(before);
        let (name, next) = if let Some(braced) = after.strip_prefix('{') {
            braced.split_once('}')?
        } else {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let end = after.find(|c| !is_part(c)).unwrap_or(after.len());
            after.split_at(end)
        };
        whole.push_str(known.get(name)?);
        rest = next;
    }
    whole.push_str(rest);
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Vec<String> {
        let mut assigned = Assigned::default();
        assigned.read(&lines.join("\n"));
        assigned.texts()
    }

    #[test]
    fn what_stands_there_is_read() {
        let seen = read(&[
            "#!/bin/sh",
            "export PATH=\"/opt/bin:/bin\"",
            "export A='x y'",
            "B=plain",
            "export C=\"${C:-\"from docker\"}\"",
        ]);
        assert_eq!(seen, ["A=x y", "B=plain", "C=from docker", "PATH=/opt/bin:/bin"]);
    }

    #[test]
    fn what_is_known_is_put_in() {
        let seen = read(&["export PATH=/bin", "export PATH=/opt/bin:$PATH", "R=${PATH}:x"]);
        assert_eq!(seen, ["PATH=/opt/bin:/bin", "R=/opt/bin:/bin:x"]);
    }

    #[test]
    fn what_a_shell_would_have_to_find_out_is_left_to_it() {
        let seen = read(&["A=$(date)", "B=`date`", "C=$UNKNOWN", "if x; then", "D=a b", "1=x"]);
        assert!(seen.is_empty(), "{seen:?}");
    }

    #[test]
    fn what_programs_would_see_and_cannot_be_read_is_named() {
        let mut assigned = Assigned::default();
        let lines =
            ["export A=$(date)", "i=$(ls)", "B=`id`", "export B C", "export D=$X", "D=plain"];
        assigned.read(&lines.join("\n"));
        assert_eq!(assigned.computed(), ["A", "B"]);
    }
}
