// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What many images have or need, in a form in which it is looked through at once.
//!
//! Images of a site have most lines in common. So each line is there once, and an image is the
//! list of the numbers of its lines:
//!
//! ```text
//! <kind> 1 <sum> <bytes of the lines> <number of images> LF
//! <line> LF …                          see [`PackageLine`](crate::PackageLine), [`NeedLine`](crate::NeedLine)
//! <64 digits> <number of lines + 1, or 0> <first number> <distance to the next> …
//! ```
//!
//! Numbers are bytes of seven bits, the lowest first, of which all but the last have the
//! eighth. An image with 0 does not say which lines it has. The sum is that of all that
//! follows the first line; what does not fit it is ignored as a whole.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::marker::PhantomData;

use cabane_label::Digest;

/// The numbers of an image that does not say which lines it has.
const SILENT: [u8; 1] = [0];

/// What the lines of an index are.
pub trait LineKind: Clone {
    /// How its files begin, with their version.
    const MAGIC: &'static str;

    /// Returns whether a text is such a line.
    fn is_line(line: &str) -> bool;
}

/// The lines of many images.
#[derive(Clone, Debug)]
pub struct LineIndex<K> {
    /// Each ends with a newline.
    lines: String,
    /// How many lines there are.
    count: u32,
    images: BTreeMap<Digest, Box<[u8]>>,
    kind: PhantomData<K>,
}

impl<K> Default for LineIndex<K> {
    fn default() -> Self {
        Self { lines: String::new(), count: 0, images: BTreeMap::new(), kind: PhantomData }
    }
}

/// The lines of one image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lines<I> {
    /// Nothing is known about the image.
    Unknown,
    /// It does not say which lines it has.
    Silent,
    /// Their numbers.
    Numbers(I),
}

impl<K: LineKind> LineIndex<K> {
    /// Reads what was written; `None` if it is damaged or of another version. The lines stay in the
    /// memory in which they come.
    #[must_use]
    pub fn from_bytes(mut bytes: Vec<u8>) -> Option<Self> {
        let start = bytes.iter().position(|byte| *byte == b'\n')? + 1;
        let (mut index, length) = Self::without_lines(&bytes, start)?;
        bytes.truncate(start + length);
        bytes.drain(..start);
        index.lines = String::from_utf8(bytes).ok()?;
        Some(index)
    }

    /// Reads all but the lines, and how many bytes they take.
    fn without_lines(bytes: &[u8], start: usize) -> Option<(Self, usize)> {
        let head = std::str::from_utf8(bytes.get(..start - 1)?).ok()?;
        let body = bytes.get(start..)?;
        let fields = head.strip_prefix(K::MAGIC)?.strip_prefix(' ')?.split(' ');
        let [sum, length, count]: [&str; 3] = fields.collect::<Vec<_>>().try_into().ok()?;
        if u64::from_str_radix(sum, 16) != Ok(cabane_label::corrupt_sum(body)) {
            return None;
        }
        let length = length.parse().ok()?;
        let (lines, mut rest) = body.split_at_checked(length)?;
        let number: usize = count.parse().ok()?;
        if lines.last().is_some_and(|last| *last != b'\n') {
            return None;
        }
        let count = lines.iter().map(|byte| usize::from(*byte == b'\n')).sum::<usize>();
        let count = u32::try_from(count).ok()?;
        let mut images = BTreeMap::new();
        for _ in 0..number {
            let (digest, after) = rest.split_at_checked(Digest::LENGTH)?;
            let digest = std::str::from_utf8(digest).ok()?.parse().ok()?;
            let end = length_of(after, count)?;
            let (numbers, after) = after.split_at_checked(end)?;
            images.insert(digest, numbers.into());
            rest = after;
        }
        let index = Self { lines: String::new(), count, images, kind: PhantomData };
        rest.is_empty().then_some((index, length))
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
            format!("{} {:016x} {length} {images}\n", K::MAGIC, cabane_label::corrupt_sum(&body))
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

    /// Returns whether it is known that an image does not say which lines it has.
    #[must_use]
    pub fn is_silent(&self, image: &Digest) -> bool {
        let numbers = self.images.get(image);
        numbers.is_some_and(|numbers| **numbers == SILENT)
    }

    /// Adds images with their lines; `None` for one that does not say. What is no line is left
    /// out.
    pub fn add<'l>(&mut self, images: impl IntoIterator<Item = (Digest, Option<&'l str>)>) {
        let mut known: HashMap<Box<str>, u32> =
            (0..).zip(self.lines.lines()).map(|(number, line)| (line.into(), number)).collect();
        for (digest, lines) in images {
            let numbers = lines.map(|lines| {
                let lines = lines.lines();
                let lines = lines.filter(|line| K::is_line(line));
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

    /// Returns all lines; the numbers of an image are places in them.
    #[must_use]
    pub fn lines(&self) -> Vec<&str> {
        self.lines.lines().collect()
    }

    /// Returns which lines an image has.
    #[must_use]
    pub fn in_image(&self, image: &Digest) -> Lines<impl Iterator<Item = usize>> {
        match self.images.get(image).map(|numbers| decode(numbers)) {
            None => Lines::Unknown,
            Some(None) => Lines::Silent,
            Some(Some(numbers)) => Lines::Numbers(numbers),
        }
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

/// Returns the numbers of an image; `None` if it does not say which lines it has.
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
    use super::*;

    #[test]
    fn large_numbers_can_be_read_again() {
        let numbers = BTreeSet::from([0, 127, 128, 16_383, 16_384, u32::MAX]);
        let bytes = encode(Some(&numbers));
        let read: BTreeSet<u32> =
            decode(&bytes).unwrap().map(|one| one.try_into().unwrap()).collect();
        assert_eq!(read, numbers);
    }
}
