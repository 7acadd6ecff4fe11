// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where everything is in a repository, and what the files of the refs are called.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cabane_label::{ChannelName, Digest, ImageId, Label, System};
use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::parts::PartList;
use crate::{access, disk, uenv};

/// The first version of the format, and so far the only one.
pub(crate) const FORMAT: u32 = 1;

/// The paths of a repository; the tree is drawn at [`crate::Repository`].
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) root: PathBuf,
    /// How long an image stays from which a label was taken for another one.
    pub(crate) grace: Duration,
    pub(crate) kind: Kind,
    /// Where images are assembled if this process may not write beside them.
    pub(crate) assembly: Option<PathBuf>,
}

/// Which tool has made a repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// It is one of Cabane.
    #[default]
    Cabane,
    /// It is one of uenv, with a database in place of refs.
    Uenv,
}

impl Layout {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root, grace: Duration::ZERO, kind: Kind::Cabane, assembly: None }
    }

    pub(crate) fn is_uenv(&self) -> bool {
        self.kind == Kind::Uenv
    }

    /// The directory of what only Cabane knows.
    pub(crate) fn private(&self) -> PathBuf {
        match self.kind {
            Kind::Cabane => self.root.clone(),
            Kind::Uenv => self.root.join(uenv::PRIVATE),
        }
    }

    /// The name of the file of an image in its directory.
    pub(crate) fn image_name(&self) -> &'static str {
        match self.kind {
            Kind::Cabane => "image",
            Kind::Uenv => uenv::IMAGE,
        }
    }

    /// The name of the hash tree beside it, by which `cabane run` finds it beside any image file.
    pub(crate) fn tree_name(&self) -> String {
        format!("{}.verity", self.image_name())
    }

    /// The name of the signature of the root hash of this tree.
    pub(crate) fn root_signature_name(&self) -> String {
        format!("{}.p7s", self.tree_name())
    }

    pub(crate) fn marker(&self) -> PathBuf {
        self.root.join("cabane-repository")
    }

    pub(crate) fn images(&self) -> PathBuf {
        self.root.join("images")
    }

    pub(crate) fn image_directory(&self, digest: &Digest) -> PathBuf {
        self.images().join(digest.as_str())
    }

    pub(crate) fn image(&self, digest: &Digest) -> PathBuf {
        self.image_directory(digest).join(self.image_name())
    }

    pub(crate) fn tree(&self, digest: &Digest) -> PathBuf {
        self.image_directory(digest).join(self.tree_name())
    }

    /// The list of parts of an image that was deduplicated.
    pub(crate) fn parts(&self, digest: &Digest) -> PathBuf {
        self.image_directory(digest).join("parts")
    }

    /// The directory of the packs, which hold what images share.
    pub(crate) fn packs(&self) -> PathBuf {
        self.private().join("packs")
    }

    pub(crate) fn pack_directory(&self, pack: &Digest) -> PathBuf {
        self.packs().join(pack.as_str())
    }

    pub(crate) fn pack(&self, pack: &Digest) -> PathBuf {
        self.pack_directory(pack).join("pack")
    }

    /// Returns whether there is an image, be it closed to this process or deduplicated.
    pub(crate) fn has_image(&self, digest: &Digest) -> bool {
        access::is_there(&fs::metadata(self.image(digest))) || self.is_deduplicated(digest)
    }

    /// Returns whether an image has only a list of its parts.
    pub(crate) fn is_deduplicated(&self, digest: &Digest) -> bool {
        let image = fs::symlink_metadata(self.image(digest));
        let is_missing = image.is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        is_missing && !self.is_uenv() && self.parts(digest).is_file()
    }

    /// Returns the list of parts of a deduplicated image, if all its packs are there and large enough.
    fn whole_parts(&self, digest: &Digest) -> Option<PartList> {
        let list = PartList::read(&self.parts(digest)).ok()?;
        let is_there = |(pack, end): (&Digest, u64)| {
            fs::symlink_metadata(self.pack(pack))
                .is_ok_and(|pack| pack.is_file() && pack.len() >= end)
        };
        let is_whole = list.ends().all(is_there);
        is_whole.then_some(list)
    }

    /// Returns whether an image is there and whole, as far as is known without reading it.
    pub(crate) fn has_whole_image(&self, digest: &Digest, size: u64) -> bool {
        match fs::symlink_metadata(self.image(digest)) {
            Ok(image) => {
                // uenv makes no directory for an image without metadata.
                let has_meta = self.is_uenv() || self.meta(digest).is_dir();
                image.is_file() && image.len() == size && has_meta
            }
            Err(_) if self.is_deduplicated(digest) => {
                let list = self.whole_parts(digest);
                list.is_some_and(|list| list.size == size) && self.meta(digest).is_dir()
            }
            // What only a group of others may read cannot be judged, and is not theirs to repair.
            closed => access::is_there(&closed),
        }
    }

    /// Returns whether fewer users may look at an image than at the refs.
    pub(crate) fn is_closed(&self, digest: &Digest) -> bool {
        let image = fs::metadata(self.image_directory(digest));
        let refs = fs::metadata(self.refs());
        matches!((image, refs), (Ok(image), Ok(refs)) if access::is_closer(&image, &refs))
    }

    pub(crate) fn meta(&self, digest: &Digest) -> PathBuf {
        self.image_directory(digest).join("meta")
    }

    /// The directory of the refs; for a repository of uenv that of the database.
    pub(crate) fn refs(&self) -> PathBuf {
        match self.kind {
            Kind::Cabane => self.root.join("refs"),
            Kind::Uenv => self.root.clone(),
        }
    }

    pub(crate) fn pins(&self) -> PathBuf {
        self.private().join("pins")
    }

    pub(crate) fn pin(&self, label: &Label) -> PathBuf {
        self.pins().join(RefName::file_of_pin(label))
    }

    pub(crate) fn channels(&self) -> PathBuf {
        self.private().join("channels")
    }

    /// The names that follow a channel; neither channels nor systems have a comma.
    pub(crate) fn channel(&self, channel: &ChannelName, system: &System) -> PathBuf {
        self.channels().join(format!("{channel},{system}.json"))
    }

    pub(crate) fn index(&self) -> PathBuf {
        self.private().join("index")
    }

    pub(crate) fn tmp(&self) -> PathBuf {
        self.private().join("tmp")
    }

    /// Creates one of the directories unless it is there.
    pub(crate) fn make(&self, directory: &Path) -> io::Result<()> {
        if !self.is_uenv() || !directory.starts_with(self.private()) {
            return disk::create_directory(directory);
        }
        for place in [self.private(), directory.to_owned()] {
            match fs::create_dir(&place) {
                // Everyone who may add images to the repository needs it.
                Ok(()) => {
                    let mode = fs::metadata(&self.root)?.mode() & 0o7777;
                    fs::set_permissions(&place, Permissions::from_mode(mode))?;
                }
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                // What a link leads to is not ours to write in.
                Err(_) if !fs::symlink_metadata(&place)?.is_dir() => {
                    return Err(io::ErrorKind::NotADirectory.into());
                }
                Err(_) => {}
            }
        }
        Ok(())
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.tmp().join(".lock")
    }
}

/// The name of a ref's file: `<name>,<version>,<tag>,<system>,<uarch>,<id>,<date>.json`.
///
/// A comma cannot be in a label, so the name can be read back. A label that would make the
/// name longer than file systems allow is replaced by `~` and a part of its sha256. The date is
/// in nanoseconds since 1970, with 16 hexadecimal digits: no two refs have the same name, so who
/// removes one by its name cannot hit another that was written in the meantime.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RefName(String);

const SUFFIX: &str = ".json";
const DIGITS: usize = 16;
/// What follows the label: the id, a comma, the date and the suffix.
const TAIL: usize = DIGITS + 1 + DIGITS + SUFFIX.len();
/// With what the names of labels begin that are too long.
const LONG: char = '~';
/// Every file system in use allows 255 bytes.
const LONGEST: usize = 255;

impl RefName {
    pub(crate) fn new(label: &Label, digest: &Digest, date: Timestamp) -> Self {
        let (prefix, id) = (Self::prefix(label), digest.id());
        let date = i64::try_from(date.as_nanosecond()).unwrap_or(i64::MAX);
        Self(format!("{prefix}{},{date:016x}{SUFFIX}", id.as_str()))
    }

    /// Takes a file name for that of a ref; `None` when it is none.
    pub(crate) fn from_file_name(name: &str) -> Option<Self> {
        NameParts::split(name).map(|_| Self(name.to_owned()))
    }

    /// Returns what the names of all refs of a label start with, and of no other label.
    fn prefix(label: &Label) -> String {
        let Label { name, version, tag, system, uarch } = label;
        let prefix = format!("{name},{version},{tag},{system},{uarch},");
        if prefix.len() + TAIL <= LONGEST {
            return prefix;
        }
        let sum: [u8; 32] = Sha256::digest(prefix.as_bytes()).into();
        format!("{LONG}{},", &Digest::from_bytes(sum).as_str()[..32])
    }

    /// Whether the ref with this file name may have a label that begins so.
    pub(crate) fn may_begin(file: &str, label: &str) -> bool {
        file.starts_with(label) || file.starts_with(LONG)
    }

    /// Whether the ref with this file name is of an image with this short form of the digest.
    pub(crate) fn has_id(file: &str, id: &ImageId) -> bool {
        let tail = file.len().checked_sub(TAIL).and_then(|start| file.get(start..));
        tail.is_some_and(|tail| tail.starts_with(id.as_str()))
    }

    /// Returns the name of the file that pins a label.
    pub(crate) fn file_of_pin(label: &Label) -> String {
        let prefix = Self::prefix(label);
        prefix.strip_suffix(',').unwrap_or(&prefix).to_owned()
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn is_of(&self, label: &Label) -> bool {
        self.label_part() == Self::prefix(label)
    }

    pub(crate) fn names(&self, digest: &Digest) -> bool {
        self.id_part() == digest.id().as_str()
    }

    /// Returns the label, unless it was too long to be in the name.
    pub(crate) fn label(&self) -> Option<Label> {
        self.parts()?.label()
    }

    /// Returns when the label was given, as the name tells.
    pub(crate) fn date(&self) -> Option<Timestamp> {
        self.parts()?.date()
    }

    fn parts(&self) -> Option<NameParts<'_>> {
        NameParts::split(&self.0)
    }

    /// Returns the part that all refs of a label have in common.
    pub(crate) fn label_part(&self) -> &str {
        &self.0[..self.0.len() - TAIL]
    }

    /// Returns the short form of the digest.
    pub(crate) fn id_part(&self) -> &str {
        let start = self.label_part().len();
        &self.0[start..start + DIGITS]
    }
}

/// The name of a ref's file, taken apart.
#[derive(Clone, Copy)]
pub(crate) struct NameParts<'a> {
    /// What all refs of a label have in common.
    pub(crate) label_part: &'a str,
    date: &'a str,
}

impl<'a> NameParts<'a> {
    /// Takes a file name apart; `None` when it is not that of a ref.
    pub(crate) fn split(name: &'a str) -> Option<Self> {
        let start = name.len().checked_sub(TAIL).filter(|start| *start > 0)?;
        let (label_part, tail) = name.split_at_checked(start)?;
        let (id, date) = tail.strip_suffix(SUFFIX)?.split_once(',')?;
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let are_digits = |text: &str| text.len() == DIGITS && text.bytes().all(is_digit);
        let is_ref = label_part.ends_with(',') && are_digits(id) && are_digits(date);
        is_ref.then_some(Self { label_part, date })
    }

    /// Returns the label, unless it was too long to be in the name.
    pub(crate) fn label(self) -> Option<Label> {
        let mut parts = self.label_part.split(',');
        let label = Label {
            name: parts.next()?.parse().ok()?,
            version: parts.next()?.parse().ok()?,
            tag: parts.next()?.parse().ok()?,
            system: parts.next()?.parse().ok()?,
            uarch: parts.next()?.parse().ok()?,
        };
        (parts.next() == Some("")).then_some(label)
    }

    pub(crate) fn date(self) -> Option<Timestamp> {
        let date = i64::from_str_radix(self.date, 16).ok()?;
        Timestamp::from_nanosecond(i128::from(date)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(digit: char) -> Digest {
        digit.to_string().repeat(64).parse().unwrap()
    }

    fn label(text: &str) -> Label {
        text.parse().unwrap()
    }

    fn ref_name(label: &Label) -> RefName {
        RefName::new(label, &digest('a'), "2026-11-21T10:00:00.5Z".parse().unwrap())
    }

    fn long_label() -> Label {
        let part = "p".repeat(64);
        label(&format!("{part}/{part}:{part}@{part}%{part}"))
    }

    #[test]
    fn the_file_name_of_a_ref_shows_label_and_id() {
        let name = ref_name(&label("cp2k/2024.1:v2@daint%gh200"));
        assert_eq!(
            name.as_str(),
            "cp2k,2024.1,v2,daint,gh200,aaaaaaaaaaaaaaaa,18ea0717daf9a500.json"
        );
    }

    #[test]
    fn the_label_can_be_read_back_from_the_file_name() {
        let label = label("cp2k/2024.1:v2@daint%gh200");
        assert_eq!(ref_name(&label).label(), Some(label));
    }

    #[test]
    fn the_date_can_be_read_back_from_the_file_name() {
        let date: Timestamp = "2026-11-21T10:00:00.123456789Z".parse().unwrap();
        let name = RefName::new(&long_label(), &digest('a'), date);
        assert_eq!(name.date(), Some(date));
    }

    #[test]
    fn a_file_name_of_other_characters_is_not_a_ref() {
        let name = format!("é{}", "é".repeat(TAIL));
        assert_eq!(RefName::from_file_name(&name), None);
    }

    #[test]
    fn the_longest_label_still_gives_a_file_name() {
        let name = ref_name(&long_label());
        assert!(name.as_str().len() <= LONGEST, "{}", name.as_str());
    }

    #[test]
    fn a_long_label_is_found_by_its_file_name() {
        assert!(ref_name(&long_label()).is_of(&long_label()));
    }

    #[test]
    fn a_label_that_starts_like_another_is_not_mixed_up_with_it() {
        let name = ref_name(&label("a/1:v1@s%u2"));
        assert!(!name.is_of(&label("a/1:v1@s%u")));
    }

    #[test]
    fn a_file_without_an_id_is_not_a_ref() {
        assert_eq!(RefName::from_file_name("cp2k,2024.1,v2,daint,gh200.json"), None);
    }
}
