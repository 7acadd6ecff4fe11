// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The packages of many images, in a form in which they are looked through at once.

use cabane_label::Digest;

use crate::{LineIndex, LineKind, Lines, PackageLine, PackagePattern};

/// Lines of packages.
#[derive(Clone, Copy, Debug)]
pub enum PackageLines {}

impl LineKind for PackageLines {
    const MAGIC: &'static str = "cabane-packages 1";

    fn is_line(line: &str) -> bool {
        PackageLine::read(line).is_some()
    }
}

/// The packages of many images.
pub type PackageIndex = LineIndex<PackageLines>;

/// What an image has of what was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// Nothing is known about the image.
    Unknown,
    /// It does not say which packages it has.
    Silent,
    /// It lacks something.
    Lacks,
    /// It has everything; these packages are what was looked for.
    Has(Vec<PackageLine<'a>>),
}

/// What was found when all packages were looked through.
#[derive(Debug)]
pub struct Found<'a> {
    index: &'a PackageIndex,
    lines: Vec<&'a str>,
    /// For each pattern, which lines it fits.
    fits: Vec<Vec<bool>>,
    /// Which lines any pattern fits.
    any: Vec<bool>,
}

impl PackageIndex {
    /// Looks for packages in all images.
    #[must_use]
    pub fn look_for<'a>(&'a self, patterns: &[PackagePattern]) -> Found<'a> {
        let lines = self.lines();
        let mut fits = vec![vec![false; lines.len()]; patterns.len()];
        let mut any = vec![false; lines.len()];
        for (number, line) in lines.iter().enumerate() {
            let Some(package) = PackageLine::read(line) else {
                continue;
            };
            for (pattern, fits) in patterns.iter().zip(&mut fits) {
                if pattern.matches(&package) {
                    fits[number] = true;
                    any[number] = true;
                }
            }
        }
        Found { index: self, lines, fits, any }
    }
}

impl<'a> Found<'a> {
    /// Returns what an image has.
    #[must_use]
    pub fn in_image(&self, image: &Digest) -> Answer<'a> {
        let numbers = match self.index.in_image(image) {
            Lines::Unknown => return Answer::Unknown,
            Lines::Silent => return Answer::Silent,
            Lines::Numbers(numbers) => numbers,
        };
        let is_wanted = |number: &usize| self.any.get(*number).copied().unwrap_or_default();
        let has: Vec<usize> = numbers.filter(is_wanted).collect();
        let is_there = |fits: &Vec<bool>| has.iter().any(|number| fits[*number]);
        if !self.fits.iter().all(is_there) {
            return Answer::Lacks;
        }
        let lines = has.into_iter().filter_map(|number| self.lines.get(number));
        Answer::Has(lines.filter_map(|line| PackageLine::read(line)).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn digest(letter: char) -> Digest {
        letter.to_string().repeat(64).parse().unwrap()
    }

    fn lines(packages: &[&str]) -> String {
        let line = |title: &&str| {
            let (name, version) = title.split_once('@').unwrap();
            format!("{name}\t{version}\t\t\t\t\t\tspack\t\n")
        };
        packages.iter().map(line).collect()
    }

    fn index() -> PackageIndex {
        let mut index = PackageIndex::default();
        index.add([
            (digest('a'), Some(lines(&["hdf5@1.14", "zlib@1.3"]).as_str())),
            (digest('b'), Some(lines(&["hdf5@1.12", "zlib@1.3"]).as_str())),
            (digest('c'), None),
            (digest('d'), Some("")),
        ]);
        index
    }

    /// What is reported about the images `a` to `e`.
    fn answers(index: &PackageIndex, patterns: &[&str]) -> [String; 5] {
        let patterns: Vec<PackagePattern> =
            patterns.iter().map(|one| one.parse().unwrap()).collect();
        let found = index.look_for(&patterns);
        ['a', 'b', 'c', 'd', 'e'].map(|letter| match found.in_image(&digest(letter)) {
            Answer::Has(packages) => {
                let titles: Vec<_> = packages.iter().map(PackageLine::title).collect();
                titles.join(" ")
            }
            other => format!("{other:?}"),
        })
    }

    #[test]
    fn an_image_is_found_that_has_all_that_is_looked_for() {
        let index = index();
        assert_eq!(
            answers(&index, &["hdf5@1.13:", "zlib"]),
            ["hdf5@1.14 zlib@1.3", "Lacks", "Silent", "Lacks", "Unknown"]
        );
        assert_eq!(
            answers(&index, &["zlib"]),
            ["zlib@1.3", "zlib@1.3", "Silent", "Lacks", "Unknown"]
        );
    }

    #[test]
    fn what_is_written_can_be_read_again() {
        let read = PackageIndex::from_bytes(index().to_bytes()).unwrap();
        assert_eq!(answers(&read, &["hdf5"]), answers(&index(), &["hdf5"]));
        assert_eq!(read.to_bytes(), index().to_bytes());
    }

    #[test]
    fn a_package_that_many_images_have_stands_there_once() {
        let text = String::from_utf8_lossy(&index().to_bytes()).into_owned();
        assert_eq!(text.matches("zlib").count(), 1);
    }

    #[test]
    fn two_that_know_different_images_are_put_together() {
        let mut one = index();
        let mut other = PackageIndex::default();
        other.add([(digest('e'), Some(lines(&["zlib@1.3", "lz4@1.10"]).as_str()))]);
        one.merge(&other);
        assert_eq!(
            answers(&one, &["zlib"]),
            ["zlib@1.3", "zlib@1.3", "Silent", "Lacks", "zlib@1.3"]
        );
    }

    #[test]
    fn what_is_not_wanted_any_more_is_left_out() {
        let (one, other) = (digest('a'), digest('e'));
        let kept = index().only(&BTreeSet::from([&one, &other]), 1000);
        assert_eq!(
            answers(&kept, &["hdf5"]),
            ["hdf5@1.14", "Unknown", "Unknown", "Unknown", "Unknown"]
        );
        assert_eq!(index().only(&BTreeSet::from([&one]), 10).size(), 0);
    }

    proptest! {
        #[test]
        fn what_is_damaged_is_ignored(place: prop::sample::Index, byte in 1..=255_u8) {
            let mut bytes = index().to_bytes();
            let place = place.index(bytes.len());
            bytes[place] ^= byte;
            let read = PackageIndex::from_bytes(bytes);
            // Leading zeros and the case of digits in the first line do not matter.
            prop_assert!(read.is_none_or(|read| read.to_bytes() == index().to_bytes()));
        }

        #[test]
        fn what_is_cut_off_is_ignored(place: prop::sample::Index) {
            let bytes = index().to_bytes();
            prop_assert!(PackageIndex::from_bytes(bytes[..place.index(bytes.len())].to_vec()).is_none());
        }
    }
}
