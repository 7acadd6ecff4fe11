// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The index: all refs in one file, so that a list costs one read.
//!
//! It is a cache and never the truth. Each line stands for one ref and begins with the name of
//! its file; a reader uses the lines whose file exists, and reads the files that have no line.
//! So an index may be old. It may not be damaged: its first line counts the others and holds a
//! sum of their bytes, and an index that does not fit them is ignored.
//!
//! ```text
//! cabane-index 1 <number of lines> <sum>
//! <file> TAB <label> TAB <digest> TAB <size> TAB <date> TAB <format> TAB <mount> TAB
//!        <default view> TAB <views, separated by spaces> TAB <description>
//! ```
//!
//! An absent mount point, view or description is `-`; a description begins with `=`.

use std::fmt::Write as _;

use crate::Record;
use crate::sum::sum;

const MAGIC: &str = "cabane-index 1";
const FIELDS: usize = 10;

/// Writes the index of these records.
pub(crate) fn render<'a>(records: impl IntoIterator<Item = &'a Record>) -> String {
    let mut lines = String::new();
    let mut count = 0;
    for record in records {
        push_line(&mut lines, record);
        count += 1;
    }
    format!("{MAGIC} {count} {:016x}\n{lines}", sum(lines.as_bytes()))
}

/// Returns the lines of an index; `None` when it is damaged or of another version.
pub(crate) fn lines(text: &str) -> Option<Vec<Line<'_>>> {
    let (head, body) = text.split_once('\n')?;
    let (count, expected) = head
        .strip_prefix(MAGIC)?
        .strip_prefix(' ')?
        .split_once(' ')?;
    if u64::from_str_radix(expected, 16).ok()? != sum(body.as_bytes()) {
        return None;
    }
    let lines: Vec<_> = body.lines().map(Line).collect();
    (lines.len() == count.parse::<usize>().ok()?).then_some(lines)
}

/// One line, not yet read.
#[derive(Clone, Copy)]
pub(crate) struct Line<'a>(&'a str);

impl<'a> Line<'a> {
    /// Returns the name of the file for which the line stands.
    pub(crate) fn file(self) -> &'a str {
        self.0.split_once('\t').map_or(self.0, |(file, _)| file)
    }

    /// Returns the record, or `None` when the line is not understood.
    pub(crate) fn record(self) -> Option<Record> {
        let mut fields = self.0.splitn(FIELDS, '\t').skip(1);
        let mut next = || fields.next();
        Some(Record {
            label: next()?.parse().ok()?,
            digest: next()?.parse().ok()?,
            size: next()?.parse().ok()?,
            date: next()?.parse().ok()?,
            format: next()?.parse().ok()?,
            mount: optional(next()?)?,
            default_view: optional(next()?)?,
            views: next()?
                .split_terminator(' ')
                .map(str::parse)
                .collect::<Result<_, _>>()
                .ok()?,
            description: next()?.strip_prefix('=').map(unescaped),
        })
    }
}

fn push_line(lines: &mut String, record: &Record) {
    let Record {
        label,
        digest,
        size,
        date,
        format,
        mount,
        description,
        views,
        default_view,
    } = record;
    let mount = mount.as_ref().map_or("-", |mount| mount.as_str());
    let default_view = default_view.as_ref().map_or("-", |view| view.as_str());
    let name = record.ref_name();
    let name = name.as_str();
    // Writing to a string does not fail.
    let _ = write!(
        lines,
        "{name}\t{label}\t{digest}\t{size}\t{date}\t{format}\t{mount}\t{default_view}\t"
    );
    for view in views {
        let _ = write!(lines, "{view} ");
    }
    lines.push('\t');
    match description {
        Some(description) => push_escaped(lines, description),
        None => lines.push('-'),
    }
    lines.push('\n');
}

fn push_escaped(lines: &mut String, description: &str) {
    lines.push('=');
    for character in description.chars() {
        match character {
            '\\' => lines.push_str("\\\\"),
            '\n' => lines.push_str("\\n"),
            '\r' => lines.push_str("\\r"),
            other => lines.push(other),
        }
    }
}

fn unescaped(text: &str) -> String {
    if !text.contains('\\') {
        return text.to_owned();
    }
    let mut description = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => description.push(match characters.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                _ => '\\',
            }),
            other => description.push(other),
        }
    }
    description
}

#[expect(
    clippy::option_option,
    reason = "absent and not understood are two things"
)]
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
        lines(text).map(|lines| lines.into_iter().map(Line::record).collect())
    }

    #[test]
    fn what_is_written_into_the_index_can_be_read_again() {
        let records = vec![
            Some(record("a/1:v1@s%u", 'a')),
            Some(record("b/1:v1@s%u", 'b')),
        ];
        assert_eq!(read(&index()), Some(records));
    }

    #[test]
    fn an_index_of_nothing_has_no_lines() {
        assert_eq!(read(&render([])), Some(Vec::new()));
    }

    #[test]
    fn a_record_without_any_optional_part_can_be_read_again() {
        let mut record = record("a/1:v1@s%u", 'a');
        (record.mount, record.description, record.default_view) = (None, None, None);
        record.views.clear();
        let text = render([&record]);
        assert_eq!(read(&text), Some(vec![Some(record)]));
    }

    #[test]
    fn an_index_of_another_version_is_ignored() {
        assert_eq!(read(&index().replacen("index 1", "index 2", 1)), None);
    }

    proptest! {
        #[test]
        fn any_description_can_be_read_again(description in "(?s).{0,40}") {
            let mut record = record("a/1:v1@s%u", 'a');
            record.description = Some(description);
            let text = render([&record]);
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
