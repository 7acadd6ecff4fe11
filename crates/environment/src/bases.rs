// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The images on which an image is built. They are found by their digests: whatever their labels mean by
//! now, the image works with these.

use std::collections::BTreeSet;

use cabane_label::{ImageDescription, UenvDescription, escape};
use cabane_report::{Kind, Report, Result};
use cabane_resolve::{LocatedBase, LocatedImage, Resolver};
use cabane_site::Context;
use cabane_view::ImageBase;

use crate::images::make_ready;

/// Finds the images on which an image is built, the nearest first.
///
/// # Errors
///
/// One is in no repository, or is not trusted.
pub(crate) fn of(
    context: &Context,
    typed: &ImageDescription,
    located: &LocatedImage,
) -> Result<Vec<LocatedBase>> {
    let records = located.meta.as_ref().map_or(&[][..], |meta| &meta.bases);
    if records.is_empty() {
        return Ok(Vec::new());
    }
    let resolver = Resolver::new(context.repositories()?, context.system());
    let find = |record: &ImageBase| {
        let image = ImageDescription::Digest(record.digest.clone());
        let mut located = resolver.locate_base(&record.digest).map_err(|error| {
            if error.kind() == Kind::NotFound { missing(&resolver, typed, record) } else { error }
        })?;
        make_ready(context, &image, &mut located)?;
        Ok(LocatedBase { record: record.clone(), located })
    };
    records.iter().map(find).collect()
}

/// Returns whether all builds of an image need the same images at the same mount points.
pub(crate) fn are_same(builds: &[Vec<LocatedBase>]) -> bool {
    let places = |bases: &Vec<LocatedBase>| -> BTreeSet<_> {
        bases.iter().map(|base| (base.record.mount.clone(), base.record.digest.clone())).collect()
    };
    builds.windows(2).all(|two| places(&two[0]) == places(&two[1]))
}

/// Says which image is missing, and what is there instead of it.
fn missing(resolver: &Resolver, typed: &ImageDescription, record: &ImageBase) -> Report {
    let ImageBase { label, digest, .. } = record;
    let (top, name) = (escape(&typed.to_string()).into_owned(), escape(label));
    let mut message =
        format!("`{top}` is built on `{name}`, and this image is in no repository: {digest}");
    let now = label.parse().ok().and_then(|image| {
        resolver.locate(&UenvDescription { image, mount_point: None }).ok()?.digest
    });
    if let Some(now) = now.filter(|now| now != digest) {
        message.push_str(&format!("\n`{name}` is another image by now: {now}"));
    }
    let report = Report::new(Kind::NotFound, message);
    report.hinted(format!(
        "`cabane image pull {digest}` gets it from the registry; to use another base, build `{top}` again"
    ))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use cabane_repository::ImageFormat;

    use super::*;

    fn base(digit: char, mount: &str) -> LocatedBase {
        let digest = digit.to_string().repeat(64).parse().unwrap();
        LocatedBase {
            record: ImageBase {
                label: "base/1.0".to_owned(),
                digest,
                mount: mount.parse().unwrap(),
            },
            located: LocatedImage {
                path: PathBuf::new(),
                digest: None,
                label: None,
                repository: None,
                format: ImageFormat::Squashfs,
                meta: None,
            },
        }
    }

    #[test]
    fn builds_on_one_image_at_two_mount_points_are_not_the_same() {
        assert!(!are_same(&[vec![base('a', "/one")], vec![base('a', "/two")]]));
    }

    #[test]
    fn builds_on_the_same_images_in_another_order_are_the_same() {
        let (one, two) = (base('a', "/one"), base('b', "/two"));
        assert!(are_same(&[vec![one.clone(), two.clone()], vec![two, one]]));
    }

    #[test]
    fn builds_of_which_one_has_no_base_are_not_the_same() {
        assert!(!are_same(&[vec![base('a', "/one")], Vec::new()]));
    }
}
