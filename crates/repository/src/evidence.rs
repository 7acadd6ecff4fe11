// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Signed statements about an image, in a file beside it: a line of JSON for each, the newest last. What
//! is in a line is nothing to a repository. The file goes when the image goes.

use cabane_label::Digest;

use crate::tree::put;
use crate::writer::Writer;
use crate::{Error, Repository, disk};

/// The name of the file.
pub(crate) const EVIDENCE: &str = "evidence.jsonl";
/// The largest file that is read, in bytes: 256 lines of 1 MiB.
const MAX_SIZE: u64 = 256 * 1024 * 1024;
/// How many lines are kept.
const MOST: usize = 256;
/// The longest line that is kept or read, in bytes.
const MAX_LINE: usize = 512 * 1024;

impl Repository {
    /// Returns the statements that are kept of an image, the newest last.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, or that is too large.
    pub fn evidence(&self, digest: &Digest) -> Result<Vec<Vec<u8>>, Error> {
        let path = self.layout().image_directory(digest).join(EVIDENCE);
        let bytes =
            disk::if_there(disk::read(&path, MAX_SIZE)).map_err(Error::io("read", &path))?;
        let bytes = bytes.unwrap_or_default();
        let lines = bytes.split(|byte| *byte == b'\n');
        let lines = lines.filter(|line| (1..=MAX_LINE).contains(&line.len()));
        // Another user may have written the file.
        let mut lines: Vec<Vec<u8>> = lines.rev().take(MOST).map(<[u8]>::to_vec).collect();
        lines.reverse();
        Ok(lines)
    }

    /// Adds statements to those that are kept of an image, and returns how many are new. Of too many, the
    /// first ones go: those that came from outside, with `is_own` false, before those that were made
    /// here.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchImage`], or that nothing can be written there.
    pub fn add_evidence(
        &self,
        digest: &Digest,
        statements: &[Vec<u8>],
        is_own: bool,
    ) -> Result<usize, Error> {
        let mut added = 0;
        self.change_evidence(digest, &mut |lines| {
            let is_line = |one: &&Vec<u8>| one.len() <= MAX_LINE && !one.contains(&b'\n');
            let new = statements.iter().filter(is_line).filter(|one| !lines.contains(one));
            let mut new: Vec<Vec<u8>> = new.cloned().collect();
            added = new.len();
            if is_own {
                lines.append(&mut new);
            } else {
                new.append(lines);
                *lines = new;
            }
            added > 0
        })?;
        Ok(added)
    }

    /// Keeps of the statements about an image those that are wanted.
    ///
    /// # Errors
    ///
    /// As [`Self::add_evidence`].
    pub fn retain_evidence(
        &self,
        digest: &Digest,
        is_wanted: &dyn Fn(&[u8]) -> bool,
    ) -> Result<usize, Error> {
        let mut removed = 0;
        self.change_evidence(digest, &mut |lines| {
            let before = lines.len();
            lines.retain(|line| is_wanted(line));
            removed = before - lines.len();
            removed > 0
        })?;
        Ok(removed)
    }

    fn change_evidence(
        &self,
        digest: &Digest,
        change: &mut dyn FnMut(&mut Vec<Vec<u8>>) -> bool,
    ) -> Result<(), Error> {
        let mut writer = Writer::open(self.layout())?;
        writer.lock();
        let mut lines = self.evidence(digest)?;
        if !change(&mut lines) {
            return Ok(());
        }
        lines.drain(..lines.len().saturating_sub(MOST));
        let mut bytes = lines.join(&b'\n');
        bytes.push(b'\n');
        let new = writer.staging.free_name(EVIDENCE);
        disk::write_new(&new, &bytes).map_err(Error::io("write", &new))?;
        put(&writer, digest, &new, EVIDENCE)
    }
}
