// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The report of a step by the plugin of Slurm: texts `NAME=VALUE`, each ended by a zero byte.

use std::collections::BTreeMap;

/// An image, and where it was to be mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReportedImage {
    pub(crate) path: String,
    pub(crate) mount_point: String,
    /// Empty if there is none.
    pub(crate) label: String,
    /// Who reads it; empty if it is not mounted.
    pub(crate) way: String,
}

/// What a node reported about a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepReport {
    texts: BTreeMap<String, String>,
    pub(crate) images: Vec<ReportedImage>,
}

impl StepReport {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let mut report = Self::default();
        for text in bytes.split(|byte| *byte == 0) {
            let text = String::from_utf8_lossy(text);
            let Some((name, value)) = text.split_once('=') else {
                continue;
            };
            let value = value.to_owned();
            match (name, report.images.last_mut()) {
                ("image", _) => {
                    report.images.push(ReportedImage { path: value, ..ReportedImage::default() });
                }
                ("mount-point", Some(image)) => image.mount_point = value,
                ("label", Some(image)) => image.label = value,
                ("way", Some(image)) => image.way = value,
                _ => {
                    report.texts.insert(name.to_owned(), value);
                }
            }
        }
        report
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(String::as_str)
    }

    /// Returns a number. Slurm writes the highest ones where there is none.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        let number = self.text(name)?.parse().ok()?;
        (number < u32::MAX - 1).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_stay_with_their_mount_points() {
        let report = StepReport::parse(
            b"job=7\0image=/a=b\0mount-point=/m\0label=l\0way=fuse\0image=/c\0mount-point=/n\0",
        );
        let image = |path: &str, mount_point: &str, label: &str, way: &str| ReportedImage {
            path: path.to_owned(),
            mount_point: mount_point.to_owned(),
            label: label.to_owned(),
            way: way.to_owned(),
        };
        assert_eq!(report.images, [image("/a=b", "/m", "l", "fuse"), image("/c", "/n", "", "")]);
        assert_eq!(report.number("job"), Some(7));
    }
}
