// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The packages of many images, in a form in which they are looked through at once.
//!
//! Images of a site have most packages in common. So each package is there once, and an
//! image is the list of the numbers of its packages:
//!
//! ```text
//! cabane-packages 1 <sum> <bytes of the lines> <number of images> LF
//! <line> LF …                          see [`PackageLine`]
//! <64 digits> <number of packages + 1, or 0> <first number> <distance to the next> …
//! ```
//!
//! Numbers are bytes of seven bits, the lowest first, of which all but the last have the
//! eighth. An image with 0 does not say which packages it has. The sum is that of all that
//! follows the first line; what does not fit it is ignored as a whole.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use cabane_label::Digest;

use crate::{PackageLine, PackagePattern};

const MAGIC: &str = "cabane-packages 1";
/// The numbers of an image that does not say which packages it has.
const SILENT: [u8; 1] = [0];

/// The packages of many images.
#[derive(Clone, Debug, Default)]
pub struct PackageIndex {
    /// Each ends with a newline.
    lines: String,
    /// How many lines there are.
    count: u32,
    images: BTreeMap<Digest, Box<[u8]>>,
}

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
    /// Reads what was written; `None` if it is damaged or of another version.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let head = std::str::from_utf8(bytes.get(..end)?).ok()?;
        let body = bytes.get(end + 1..)?;
        let fields = head.strip_prefix(MAGIC)?.strip_prefix(' ')?.split(' ');
        let [sum, length, count]: [&str; 3] = fields.collect::<Vec<_>>().try_into().ok()?;
        if u64::from_str_radix(sum, 16) != Ok(cabane_label::corrupt_sum(body)) {
            return None;
        }
        let (lines, mut rest) = body.split_at_checked(length.parse().ok()?)?;
        let number: usize = count.parse().ok()?;
        let lines = std::str::from_utf8(lines).ok()?.to_owned();
        let count = u32::try_from(lines.lines().count()).ok()?;
        let mut images = BTreeMap::new();
        for _ in 0..number {
            let (digest, after) = rest.split_at_checked(Digest::LENGTH)?;
            let digest = std::str::from_utf8(digest).ok()?.parse().ok()?;
            let end = length_of(after, count)?;
            let (numbers, after) = after.split_at_checked(end)?;
            images.insert(digest, numbers.into());
            rest = after;
        }
        rest.is_empty().then_some(Self { lines, count, images })
    }

    /// Writes everything; the same content gives the same bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.size());
        body.extend_from_slice(self.lines.as_bytes());
        for (digest, numbers) in &self.images {
            body.extend_from_slice(digest.as_str().as_bytes());
            body.extend_from_slice(numbers);
        }
        let (length, images) = (self.lines.len(), self.images.len());
        let mut bytes =
            format!("{MAGIC} {:016x} {length} {images}\n", cabane_label::corrupt_sum(&body))
                .into_bytes();
        bytes.append(&mut body);
        bytes
    }

    /// Returns how many bytes it takes, but for the first line.
    #[must_use]
    pub fn size(&self) -> usize {
        let images = self.images.values();
        let images: usize = images.map(|numbers| Digest::LENGTH + numbers.len()).sum();
        self.lines.len() + images
    }

    /// Returns whether anything is known about an image, if only that it says nothing.
    #[must_use]
    pub fn knows(&self, image: &Digest) -> bool {
        self.images.contains_key(image)
    }

    /// Returns whether it is known that an image does not say which packages it has.
    #[must_use]
    pub fn is_silent(&self, image: &Digest) -> bool {
        let numbers = self.images.get(image);
        numbers.is_some_and(|numbers| **numbers == SILENT)
    }

    /// Adds images with the lines of their packages; `None` for one that does not say.
    /// What is no line of a package is left out.
    pub fn add<'l>(&mut self, images: impl IntoIterator<Item = (Digest, Option<&'l str>)>) {
        let mut known: HashMap<Box<str>, u32> =
            (0..).zip(self.lines.lines()).map(|(number, line)| (line.into(), number)).collect();
        for (digest, lines) in images {
            let numbers = lines.map(|lines| {
                let lines = lines.lines();
                let lines = lines.filter(|line| PackageLine::read(line).is_some());
                let number = |line: &str| {
                    if let Some(number) = known.get(line) {
                        return *number;
                    }
                    let number = self.count;
                    self.lines.push_str(line);
                    self.lines.push('\n');
                    self.count += 1;
                    known.insert(line.into(), number);
                    number
                };
                lines.map(number).collect::<BTreeSet<u32>>()
            });
            self.images.insert(digest, encode(numbers.as_ref()));
        }
    }

    /// Takes over what another one knows.
    pub fn merge(&mut self, other: &Self) {
        let lines: Vec<&str> = other.lines.lines().collect();
        let new = other.images.iter().filter(|(one, _)| !self.knows(one));
        let new: Vec<_> = new.map(|(one, numbers)| (one, text_of(numbers, &lines))).collect();
        let new = new.iter().map(|(one, text)| ((*one).clone(), text.as_deref()));
        self.add(new);
    }

    /// Returns what remains of it with these images only, and with no more bytes than a limit.
    #[must_use]
    pub fn only(&self, wanted: &BTreeSet<&Digest>, limit: usize) -> Self {
        let lines: Vec<&str> = self.lines.lines().collect();
        let mut kept = Self::default();
        let images = self.images.iter().filter(|(one, _)| wanted.contains(one));
        let texts: Vec<_> = images.map(|(one, numbers)| (one, text_of(numbers, &lines))).collect();
        // Many at a time: each time the lines are looked through.
        for some in texts.chunks(256) {
            let before = kept.clone();
            kept.add(some.iter().map(|(one, text)| ((*one).clone(), text.as_deref())));
            if kept.size() > limit {
                return before;
            }
        }
        kept
    }

    /// Looks for packages in all images.
    #[must_use]
    pub fn look_for<'a>(&'a self, patterns: &[PackagePattern]) -> Found<'a> {
        let lines: Vec<&str> = self.lines.lines().collect();
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
        let Some(numbers) = self.index.images.get(image) else {
            return Answer::Unknown;
        };
        let Some(numbers) = decode(numbers) else {
            return Answer::Silent;
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

fn text_of(numbers: &[u8], lines: &[&str]) -> Option<String> {
    let mut text = String::new();
    for number in decode(numbers)? {
        text.push_str(lines.get(number).copied().unwrap_or_default());
        text.push('\n');
    }
    Some(text)
}

fn encode(numbers: Option<&BTreeSet<u32>>) -> Box<[u8]> {
    let mut bytes = Vec::new();
    let Some(numbers) = numbers else {
        return Box::new(SILENT);
    };
    push_number(&mut bytes, numbers.len() as u64 + 1);
    let mut before = 0;
    for number in numbers {
        push_number(&mut bytes, u64::from(number - before));
        before = *number;
    }
    bytes.into()
}

/// Returns the numbers of an image; `None` if it does not say which packages it has.
fn decode(bytes: &[u8]) -> Option<impl Iterator<Item = usize>> {
    let (count, mut rest) = take_number(bytes)?;
    let mut left = count.checked_sub(1)?;
    let mut number = 0;
    Some(std::iter::from_fn(move || {
        left = left.checked_sub(1)?;
        let (distance, after) = take_number(rest)?;
        rest = after;
        number += distance;
        usize::try_from(number).ok()
    }))
}

/// Returns how many bytes the numbers of an image take; `None` if they are none, or not those
/// of lines.
fn length_of(bytes: &[u8], lines: u32) -> Option<usize> {
    let (count, mut rest) = take_number(bytes)?;
    let mut number = 0_u64;
    for _ in 1..count {
        let (distance, after) = take_number(rest)?;
        number = number.checked_add(distance)?;
        rest = after;
    }
    (count <= 1 || number < u64::from(lines)).then(|| bytes.len() - rest.len())
}

fn push_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

fn take_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (place, byte) in bytes.iter().take(9).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some((number, bytes.get(place + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
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
        let read = PackageIndex::from_bytes(&index().to_bytes()).unwrap();
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

    #[test]
    fn large_numbers_can_be_read_again() {
        let numbers = BTreeSet::from([0, 127, 128, 16_383, 16_384, u32::MAX]);
        let bytes = encode(Some(&numbers));
        let read: BTreeSet<u32> =
            decode(&bytes).unwrap().map(|one| one.try_into().unwrap()).collect();
        assert_eq!(read, numbers);
    }

    proptest! {
        #[test]
        fn what_is_damaged_is_ignored(place: prop::sample::Index, byte in 1..=255_u8) {
            let mut bytes = index().to_bytes();
            let place = place.index(bytes.len());
            bytes[place] ^= byte;
            let read = PackageIndex::from_bytes(&bytes);
            // Leading zeros and the case of digits in the first line do not matter.
            prop_assert!(read.is_none_or(|read| read.to_bytes() == index().to_bytes()));
        }

        #[test]
        fn what_is_cut_off_is_ignored(place: prop::sample::Index) {
            let bytes = index().to_bytes();
            prop_assert!(PackageIndex::from_bytes(&bytes[..place.index(bytes.len())]).is_none());
        }
    }
}
