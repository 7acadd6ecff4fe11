// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The index: all refs in one file, so that a list costs one read.
//!
//! It is a cache and never the truth. Each line stands for one ref and begins with the name of
//! its file; a reader uses the lines whose file exists, and reads the files that have no line.
//! So an index may be old. It may not be damaged: its first line holds a sum of the others, and
//! an index that does not fit it is ignored. The first line also holds the number and the sum
//! of the names in the directories of the refs and of the images; where they fit the
//! directories, the index is up to date and nothing need be compared name by name.
//!
//! ```text
//! cabane-index 2 <sum> <number and sum of the files of refs> <those of the images>
//! <file> TAB <label> TAB <digest> TAB <size> TAB <format> TAB <mount> TAB <default view> TAB
//!        <views, separated by spaces> TAB <description>
//! ```
//!
//! The lines are sorted by label, and of one label the valid ref comes last. The label stands
//! there only if the name of the file does not hold it. An absent mount point or view is `-`; the
//! description is in JSON.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::str::Lines;

use cabane_label::Label;

use crate::layout::NameParts;
use crate::sum::{Tally, sum};
use crate::{ImageFormat, Record};

const MAGIC: &str = "cabane-index 2";
const FIELDS: usize = 9;

/// Writes the index of these records, which are in order.
pub(crate) fn render(records: &[Record]) -> String {
    let mut body = String::new();
    for record in records {
        push_line(&mut body, record);
    }
    let refs: Tally = body.lines().map(|line| Line(line).file()).collect();
    let images: BTreeSet<&str> = records.iter().map(|one| one.digest.as_str()).collect();
    let images: Tally = images.into_iter().collect();
    let tally = |tally: Tally| format!("{} {:016x}", tally.count, tally.sum);
    let sum = sum(body.as_bytes());
    format!("{MAGIC} {sum:016x} {} {}\n{body}", tally(refs), tally(images))
}

/// An index that is not damaged.
#[derive(Clone, Copy, Default)]
pub(crate) struct Index<'a> {
    /// The names of the files for which it has lines.
    pub(crate) refs: Tally,
    /// The names of the directories of the images that these refs name.
    pub(crate) images: Tally,
    body: &'a str,
}

impl<'a> Index<'a> {
    /// Reads the first line; `None` when the index is damaged or of another version.
    pub(crate) fn open(bytes: &'a [u8]) -> Option<Self> {
        let (head, body) = std::str::from_utf8(bytes).ok()?.split_once('\n')?;
        let mut fields = head.strip_prefix(MAGIC)?.strip_prefix(' ')?.split(' ');
        let mut number = |radix| u64::from_str_radix(fields.next()?, radix).ok();
        let expected = number(16)?;
        let refs = Tally { count: number(10)?, sum: number(16)? };
        let images = Tally { count: number(10)?, sum: number(16)? };
        let is_whole = fields.next().is_none() && expected == sum(body.as_bytes());
        is_whole.then_some(Self { refs, images, body })
    }

    pub(crate) fn lines(self) -> impl Iterator<Item = Line<'a>> {
        let lines: Lines<'a> = self.body.lines();
        lines.map(Line)
    }
}

/// One line, not yet read.
#[derive(Clone, Copy)]
pub(crate) struct Line<'a>(&'a str);

impl<'a> Line<'a> {
    /// Returns the name of the file for which the line stands.
    pub(crate) fn file(self) -> &'a str {
        self.0.split_once('\t').map_or(self.0, |(file, _)| file)
    }

    /// Takes the line apart; `None` when it is not understood.
    pub(crate) fn fields(self) -> Option<Fields<'a>> {
        let mut fields = self.0.splitn(FIELDS, '\t');
        let mut next = || fields.next();
        Some(Fields {
            name: NameParts::split(next()?)?,
            label: next()?,
            digest: next()?,
            rest: [next()?, next()?, next()?, next()?, next()?, next()?],
        })
    }

    /// Returns the record, or `None` when the line is not understood.
    pub(crate) fn record(self) -> Option<Record> {
        let fields = self.fields()?;
        fields.record(fields.label()?)
    }
}

/// The parts of a line.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    pub(crate) name: NameParts<'a>,
    label: &'a str,
    pub(crate) digest: &'a str,
    rest: [&'a str; FIELDS - 3],
}

impl Fields<'_> {
    pub(crate) fn label(&self) -> Option<Label> {
        if self.label.is_empty() { self.name.label() } else { self.label.parse().ok() }
    }

    /// Reads everything but the label.
    pub(crate) fn record(&self, label: Label) -> Option<Record> {
        let [size, format, mount, default_view, views, description] = self.rest;
        let views = views.split_terminator(' ').map(str::parse);
        Some(Record {
            label,
            digest: self.digest.parse().ok()?,
            size: size.parse().ok()?,
            date: self.name.date()?,
            format: ImageFormat::from_name(format)?,
            mount: optional(mount)?,
            default_view: optional(default_view)?,
            views: views.collect::<Result<_, _>>().ok()?,
            description: serde_json::from_str(description).ok()?,
        })
    }
}

fn push_line(lines: &mut String, record: &Record) {
    let Record { label, digest, size, format, mount, description, views, default_view, .. } =
        record;
    let mount = mount.as_ref().map_or("-", |mount| mount.as_str());
    let default_view = default_view.as_ref().map_or("-", |view| view.as_str());
    let name = record.ref_name();
    let label = if name.label().is_some() { String::new() } else { label.to_string() };
    let name = name.as_str();
    // Writing to a string does not fail.
    let _ = write!(lines, "{name}\t{label}\t{digest}\t{size}\t{format}\t{mount}\t{default_view}\t");
    for view in views {
        let _ = write!(lines, "{view} ");
    }
    let _ = writeln!(lines, "\t{}", serde_json::json!(description));
}

#[expect(clippy::option_option, reason = "absent and not understood are two things")]
fn optional<T: std::str::FromStr>(text: &str) -> Option<Option<T>> {
    match text {
        "-" => Some(None),
        text => text.parse().ok().map(Some),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::tests::record;

    fn index() -> String {
        let records = [record("a/1:v1@s%u", 'a'), record("b/1:v1@s%u", 'b')];
        render(&records)
    }

    fn read(text: &str) -> Option<Vec<Option<Record>>> {
        Index::open(text.as_bytes()).map(|index| index.lines().map(Line::record).collect())
    }

    #[test]
    fn what_is_written_into_the_index_can_be_read_again() {
        let records = vec![Some(record("a/1:v1@s%u", 'a')), Some(record("b/1:v1@s%u", 'b'))];
        assert_eq!(read(&index()), Some(records));
    }

    #[test]
    fn an_index_of_nothing_has_no_lines() {
        assert_eq!(read(&render(&[])), Some(Vec::new()));
    }

    #[test]
    fn a_record_without_any_optional_part_can_be_read_again() {
        let mut record = record("a/1:v1@s%u", 'a');
        (record.mount, record.description, record.default_view) = (None, None, None);
        record.views.clear();
        let text = render(std::slice::from_ref(&record));
        assert_eq!(read(&text), Some(vec![Some(record)]));
    }

    #[test]
    fn an_index_of_another_version_is_ignored() {
        assert_eq!(read(&index().replacen("index 2", "index 1", 1)), None);
    }

    proptest! {
        #[test]
        fn any_description_can_be_read_again(description in "(?s).{0,40}") {
            let mut record = record("a/1:v1@s%u", 'a');
            record.description = Some(description);
            let text = render(std::slice::from_ref(&record));
            prop_assert_eq!(read(&text), Some(vec![Some(record)]));
        }

        #[test]
        fn an_index_cut_anywhere_is_ignored(keep in 0.0..1.0_f64) {
            let index = index();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share")]
            #[expect(clippy::cast_precision_loss, reason = "a short text")]
            let end = (index.len() as f64 * keep) as usize;
            prop_assert_eq!(read(&index[..end]), None);
        }

        #[test]
        fn an_index_with_one_wrong_byte_is_ignored(place: prop::sample::Index, byte in 1..128_u8) {
            let mut bytes = index().into_bytes();
            let place = place.index(bytes.len());
            bytes[place] = (bytes[place] ^ byte) & 0x7f;
            prop_assume!(bytes != index().as_bytes());
            // Leading zeros of a number may be lost without harm.
            let text = String::from_utf8(bytes).unwrap();
            prop_assert!(read(&text).is_none_or(|records| Some(records) == read(&index())));
        }
    }
}
