// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The parts of an image that are got, and what is known without getting it.

use std::ops::Range;

use crate::chunks::Known;
use crate::document::OciDigest;

/// What is marked as there.
const PART: u64 = 8 * 1024 * 1024;
/// How many parts one request asks for: each costs a journey, and perhaps a redirect.
pub(super) const RUN: usize = 8;
/// What is here and shorter than this is got with what is around it.
const WORTH: u64 = 32 * 1024;

/// What is to be got.
#[derive(Clone)]
pub(crate) struct Blob<'a> {
    pub(super) repository: &'a str,
    pub(super) digest: OciDigest,
    pub(super) size: u64,
    /// Where each part begins, and how long it is.
    pub(super) parts: Vec<(u64, u64)>,
    /// What is in no part, since it is here.
    pub(super) known: Vec<Known>,
}

impl<'a> Blob<'a> {
    pub(crate) fn new(repository: &'a str, digest: OciDigest, size: u64) -> Self {
        Self { repository, digest, size, parts: cut(0, size), known: Vec::new() }
    }

    /// Leaves out what is known; a gap that is hardly worth a request is got.
    pub(super) fn without(&self, known: Vec<Known>) -> Self {
        let known: Vec<Known> = known.into_iter().filter(|piece| piece.length >= WORTH).collect();
        let mut parts = Vec::new();
        let mut place = 0;
        for piece in &known {
            parts.extend(cut(place, piece.to));
            place = piece.to + piece.length;
        }
        parts.extend(cut(place, self.size));
        Self { parts, known, ..self.clone() }
    }

    /// Returns where a part begins and how long it is.
    pub(super) fn part(&self, index: usize) -> (u64, u64) {
        self.parts.get(index).copied().unwrap_or((self.size, 0))
    }

    pub(super) fn end_of(&self, index: usize) -> u64 {
        let (start, length) = self.part(index);
        start + length
    }

    /// Returns the first line of the file of marks: what they are about.
    pub(super) fn head(&self) -> String {
        let layout = format!("{:?}", self.parts);
        let layout = crate::sum::bytes(layout.as_bytes());
        format!("cabane-parts 2 {} {} {}\n", self.digest, self.size, layout.id())
    }
}

/// Cuts a range into parts.
fn cut(start: u64, end: u64) -> Vec<(u64, u64)> {
    let count = end.saturating_sub(start).div_ceil(PART);
    let part = |index: u64| {
        let first = start + index * PART;
        (first, PART.min(end - first))
    };
    (0..count).map(part).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Missing,
    /// Another process downloads it.
    Taken,
    There,
}

/// The parts, how many are there, and how many bytes of the image that makes.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) all: Vec<Part>,
    pub(super) there: usize,
    pub(super) bytes: u64,
}

impl Parts {
    pub(super) fn missing(&self) -> usize {
        self.all.len() - self.there
    }

    /// Takes the next parts that are missing, as many in a row as one request asks for.
    ///
    /// Near the end these are fewer: the sum goes in order, and shall not have to wait for
    /// one stream that is far behind the others.
    pub(super) fn take(&mut self, blob: &Blob<'_>, streams: usize) -> Option<Range<usize>> {
        let is_left = |part: &&Part| **part == Part::Missing;
        let left = self.all.iter().filter(is_left).count();
        let most = RUN.min(left.div_ceil(2 * streams)).max(1);
        let first = self.all.iter().position(|part| *part == Part::Missing)?;
        let follows = |index: &usize| {
            *index == first
                || self.all.get(*index) == Some(&Part::Missing)
                    && blob.end_of(index - 1) == blob.part(*index).0
        };
        let run = first..first + (first..first + most).take_while(follows).count();
        for part in self.all.iter_mut().take(run.end).skip(run.start) {
            *part = Part::Taken;
        }
        Some(run)
    }
}
