// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What an environment file mounts beside its images: texts and tables.

use std::path::Path;

use cabane_label::{ImageDescription, MountPoint, UenvDescription};

use super::read::Reader;
use super::{EnvironmentFile, MountEntry, Part, template};
use crate::ask::Field;
use crate::diagnostic::quote;
use crate::node::Value;

const MOUNT_KEYS: &[&str] = &["source", "target", "read-only"];

/// The endings of image files. What is mounted from such a file is what is in it.
const IMAGE_ENDINGS: [&str; 4] = ["squashfs", "sqsh", "sqfs", "erofs"];

impl Reader<'_, '_> {
    pub(super) fn mount(&self, field: &Field<'_>, file: &mut EnvironmentFile) {
        if matches!(field.node.value, Value::Section(_)) {
            if let Some(mount) = self.mount_table(field) {
                file.places.note(Part::Mount(mount.target.clone()), field);
                file.mounts.push(mount);
            }
        } else if let Some(text) = field.text() {
            self.mount_text(field, text, file);
        }
    }

    fn mount_table(&self, field: &Field<'_>) -> Option<MountEntry> {
        let section = field.section()?;
        section.refuse_unknown(MOUNT_KEYS, |key| {
            matches!(key, "ro" | "readonly").then(|| (None, "write `read-only = true`".to_owned()))
        });
        let source = section.require("source", "add what is mounted");
        let target = section.require("target", "add where it is mounted");
        let read_only = section.given_or("read-only", false, Field::truth);
        let source = source.and_then(|field| self.path(&field));
        let target = target.and_then(|field| {
            let written = field.text()?;
            let text = self.filled(&field)?;
            Self::word_by(&field, written, &text, MountPoint::below_root)
        });
        Some(MountEntry { source: source?, target: target?, read_only: read_only? })
    }

    /// Reads `SOURCE:TARGET` or `SOURCE:TARGET:FLAGS`.
    fn mount_text(&self, field: &Field<'_>, text: &str, file: &mut EnvironmentFile) {
        let parts = template::parts(text);
        let ((_, source), target, flags) = match parts.as_slice() {
            // Container engines mount it at the same place then.
            [source] if self.is_edf => (*source, *source, ""),
            [source, target] => (*source, *target, ""),
            [source, target, (_, flags)] => (*source, *target, *flags),
            _ => {
                let message = format!("{} does not say what is mounted where", quote(text));
                let hint = "write `SOURCE:TARGET`, or `SOURCE:TARGET:ro` for reading only";
                self.report.problem_with_hint(field.place(), &message, hint);
                return;
            }
        };
        let flags = Self::flags(field, flags);
        let source = self.filled_part(field, 0, source);
        let source = source.and_then(|source| self.finished_path(field, source));
        let (offset, target) = target;
        let target_text = self.filled_part(field, offset, target);
        let target = target_text
            .and_then(|target| Self::word_by(field, "", &target, MountPoint::below_root));
        let (Some(source), Some(target), Some(flags)) = (source, target, flags) else {
            return;
        };
        if flags.is_image || is_image(&source) {
            // The same words as under `images`, so the same is refused.
            let image = source.to_string_lossy().into_owned();
            if let Some(image) = Self::word::<ImageDescription>(field, "", &image) {
                let image = UenvDescription { image, mount_point: Some(target) };
                file.places.note(Part::Image(image.clone()), field);
                file.images.push(image);
            }
        } else {
            file.places.note(Part::Mount(target.clone()), field);
            file.mounts.push(MountEntry { source, target, read_only: flags.read_only });
        }
    }

    fn flags(field: &Field<'_>, text: &str) -> Option<Flags> {
        let mut flags = Flags::default();
        for flag in text.split(['+', ',']).filter(|flag| !flag.is_empty()) {
            match flag {
                "ro" => flags.read_only = true,
                "rw" => flags.read_only = false,
                "sqsh" => flags.is_image = true,
                _ if is_idle_mount_flag(flag) => {}
                _ => {
                    let message = format!("there is no flag {} of a mount", quote(flag));
                    let hint = "the flags are `ro` and `rw`";
                    return field.refuse(&message, hint);
                }
            }
        }
        Some(flags)
    }
}

/// Tells whether a flag is one by which container engines say how something is mounted, and that
/// means nothing here, where it is so anyhow.
#[must_use]
pub fn is_idle_mount_flag(flag: &str) -> bool {
    const IDLE: [&str; 11] = [
        "bind",
        "rbind",
        "private",
        "rprivate",
        "slave",
        "rslave",
        "nosuid",
        "nodev",
        "x-create=auto",
        "x-create=dir",
        "x-create=file",
    ];
    IDLE.contains(&flag)
}

#[derive(Default)]
struct Flags {
    read_only: bool,
    is_image: bool,
}

fn is_image(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| IMAGE_ENDINGS.contains(&ending))
}
