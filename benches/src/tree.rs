// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A large tree of files that is the same wherever it is made.
//!
//! Half of the bytes are like sources: words of which few are frequent. The other half
//! are like libraries: short sequences that come again, tables of numbers close to each
//! other, and stretches that no one can compress. Most files are small, and one in forty
//! is a copy.

use std::fs;
use std::io;
use std::path::Path;

/// What was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) files: usize,
    pub(crate) bytes: u64,
}

const FILES_IN_DIRECTORY: usize = 25;
const LARGE: usize = 1024 * 1024;

/// Makes a tree with so many files.
pub(crate) fn make(root: &Path, files: usize) -> io::Result<Made> {
    let content = Content::new();
    let mut bytes = 0;
    for number in 0..files {
        let directory = number / FILES_IN_DIRECTORY;
        let path = root.join(format!("part-{:02}/directory-{directory:04}", directory / 40));
        if number % FILES_IN_DIRECTORY == 0 {
            fs::create_dir_all(&path)?;
        }
        // One in forty has what another one has.
        let seed = if number % 40 == 39 { number / 2 } else { number };
        let text = content.of_file(seed);
        let ending = if seed.is_multiple_of(3) { "so" } else { "py" };
        fs::write(path.join(format!("file-{number:05}.{ending}")), &text)?;
        bytes += text.len() as u64;
    }
    Ok(Made { files, bytes })
}

/// Counts the files of a tree and their bytes.
pub(crate) fn count(root: &Path) -> io::Result<Made> {
    let mut made = Made { files: 0, bytes: 0 };
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let found = entry.metadata()?;
        let inside = if found.is_dir() {
            count(&entry.path())?
        } else {
            Made { files: 1, bytes: found.len() }
        };
        made.files += inside.files;
        made.bytes += inside.bytes;
    }
    Ok(made)
}

/// The words, phrases and sequences that files are made of.
pub(crate) struct Content {
    arguments: Vec<String>,
    phrases: Vec<String>,
    operations: Vec<[u8; 3]>,
}

impl Content {
    pub(crate) fn new() -> Self {
        let mut random = Random::new(1);
        let arguments: Vec<String> = (0..4000).map(|_| word(&mut random)).collect();
        let phrases = (0..1500).map(|_| phrase(&arguments, &mut random)).collect();
        let operations = (0..400).map(|_| operation(&mut random)).collect();
        Self { arguments, phrases, operations }
    }

    pub(crate) fn of_file(&self, seed: usize) -> Vec<u8> {
        let mut random = Random::new(seed as u64 + 100);
        // Twice as many bytes in a library as in a source.
        let is_library = seed.is_multiple_of(3);
        let shift = random.below(7);
        let size = match seed % 1000 {
            999 => LARGE,
            _ => (256 << shift) + random.below(256 << shift),
        };
        if is_library {
            self.library(size * 2, &mut random)
        } else {
            self.source(size, &mut random)
        }
    }

    fn source(&self, size: usize, random: &mut Random) -> Vec<u8> {
        let mut text = Vec::with_capacity(size + 16);
        while text.len() < size {
            let indent = random.below(4) * 4;
            text.extend(std::iter::repeat_n(b' ', indent));
            for _ in 0..=random.below(4) {
                let list = if random.below(3) == 0 { &self.arguments } else { &self.phrases };
                text.extend_from_slice(list[random.skewed(list.len())].as_bytes());
                text.push(b" .,(=)_:"[random.skewed(8)]);
            }
            text.push(b'\n');
        }
        text.truncate(size);
        text
    }

    fn library(&self, size: usize, random: &mut Random) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(size + 4096);
        while bytes.len() < size {
            match random.below(32) {
                0 => bytes.extend((0..32).flat_map(|_| random.next().to_le_bytes())),
                1..=2 => bytes.resize(bytes.len() + 64 + random.below(512), 0),
                3..=11 => table(&mut bytes, random),
                _ => self.code(&mut bytes, random),
            }
        }
        bytes.truncate(size);
        bytes
    }

    /// Appends instructions: few operations, operands of which few are frequent.
    fn code(&self, bytes: &mut Vec<u8>, random: &mut Random) {
        for _ in 0..80 {
            bytes.extend_from_slice(&self.operations[random.skewed(self.operations.len())]);
            bytes.push(
                b"\x00\x08\x10\x24\x18\x20\x44\x28\x5c\x30\x83\x38\xc0\x40\xff\x48"
                    [random.skewed(16)],
            );
        }
    }
}

/// Appends numbers close to each other, as tables of symbols and relocations hold.
fn table(bytes: &mut Vec<u8>, random: &mut Random) {
    let mut address = (random.next() & 0xff_ffff) as u32;
    for _ in 0..48 {
        address = address.wrapping_add(8 << random.skewed(6));
        bytes.extend_from_slice(&address.to_le_bytes());
        bytes.extend_from_slice(&[0, 0, 0, 0, 8, 0, 0, 0]);
    }
}

fn word(random: &mut Random) -> String {
    let letters = b"etaoinsrhldcumfpgwybvkxjqz";
    let letter = |random: &mut Random| char::from(letters[random.skewed(letters.len())]);
    (0..2 + random.below(9)).map(|_| letter(random)).collect()
}

/// Some words that often stand together, as idioms of a language do.
fn phrase(arguments: &[String], random: &mut Random) -> String {
    let count = 2 + random.below(6);
    let arguments: Vec<&str> =
        (0..count).map(|_| arguments[random.skewed(arguments.len())].as_str()).collect();
    arguments.join(" ")
}

fn operation(random: &mut Random) -> [u8; 3] {
    let [one, two, three, ..] = random.next().to_le_bytes();
    [one, two, three]
}

/// Numbers that look random and are always the same (the generator is `SplitMix64`).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below the limit, each as often.
    fn below(&mut self, limit: usize) -> usize {
        let limit = limit.max(1) as u64;
        usize::try_from(self.next() % limit).unwrap_or_default()
    }

    /// Returns a number below the limit, small ones far more often.
    fn skewed(&mut self, limit: usize) -> usize {
        let bound = 1 + self.below(limit);
        let bound = 1 + self.below(bound);
        self.below(bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_the_same_every_time_it_is_made() {
        assert_eq!(Content::new().of_file(41), Content::new().of_file(41));
    }

    #[test]
    fn another_file_is_another_file() {
        assert_ne!(Content::new().of_file(41), Content::new().of_file(42));
    }

    #[test]
    fn what_was_made_is_what_is_there() {
        let root = tempfile::tempdir().unwrap();
        let made = make(root.path(), 60).unwrap();
        assert_eq!(count(root.path()).unwrap(), made);
    }
}
