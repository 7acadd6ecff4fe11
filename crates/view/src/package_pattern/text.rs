// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Reading `hdf5@1.14: +mpi`, and the variants of a package that was built.

use std::str::FromStr;

use cabane_label::{Expected, MAX_TEXT_LENGTH, ParseError, ParseErrorKind, escape};

use crate::PackagePattern;
use crate::package_pattern::{WantedCompiler, WantedValue};
use crate::package_version::{PackageVersion, VersionRange};

impl FromStr for PackagePattern {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (bytes, limit) = (text.len(), MAX_TEXT_LENGTH);
        let mut reader = Reader { text, at: 0 };
        if bytes > limit {
            return Err(reader.error(0, ParseErrorKind::TextTooLong { bytes, limit }));
        }
        let mut pattern = Self { text: text.trim().to_owned(), ..Self::default() };
        reader.skip_blanks();
        if reader.next().is_none() {
            return Err(reader.error(0, ParseErrorKind::Empty));
        }
        while let Some(first) = reader.next() {
            reader.one(first, &mut pattern)?;
            reader.skip_blanks();
        }
        Ok(pattern)
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

fn can_begin(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn next(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn error(&self, at: usize, kind: ParseErrorKind) -> ParseError {
        ParseError::new(Expected::Package, self.text, at, kind)
    }

    fn missing_after(&self, at: usize, part: Expected, separator: char) -> ParseError {
        self.error(at, ParseErrorKind::MissingAfter { part, separator })
    }

    /// Refuses the character that comes next, after `part`.
    fn unexpected(&self, part: Expected, character: char, hint: Option<String>) -> ParseError {
        self.error(self.at, ParseErrorKind::Character { part, character }).with_hint(hint)
    }

    fn take_if(&mut self, wanted: char) -> bool {
        let is_there = self.next() == Some(wanted);
        if is_there {
            self.at += wanted.len_utf8();
        }
        is_there
    }

    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    fn skip_blanks(&mut self) {
        self.take_while(char::is_whitespace);
    }

    /// Reads what comes next.
    fn one(&mut self, first: char, pattern: &mut PackagePattern) -> Result<(), ParseError> {
        let begin = self.at;
        match first {
            '@' => {
                if !pattern.versions.is_empty() {
                    let kind = ParseErrorKind::Twice { part: Expected::Version };
                    let hint = "several versions are separated by commas: `@1.12,1.14:`";
                    return Err(self.error(begin, kind).with_hint(Some(hint.to_owned())));
                }
                pattern.versions = self.versions()?;
            }
            '+' => pattern.variants.push((self.switch()?, WantedValue::On)),
            '~' | '-' => pattern.variants.push((self.switch()?, WantedValue::Off)),
            '%' => pattern.compilers.push(self.compiler()?),
            '/' => pattern.hash = Some(self.hash()?),
            '^' => {
                let hint = "ask for both: `--package hdf5 --package mpich`";
                let problem = "which package needs which is not known here".to_owned();
                let error = self.error(begin, ParseErrorKind::Other(problem));
                return Err(error.with_hint(Some(hint.to_owned())));
            }
            _ => self.name_or_value(pattern)?,
        }
        Ok(())
    }

    /// Reads a word of the grammar of names.
    fn word(&mut self, part: Expected, after: Option<char>) -> Result<&'a str, ParseError> {
        let begin = self.at;
        match (self.next(), after) {
            (Some(first), _) if can_begin(first) => Ok(self.take_while(is_word)),
            (next, Some(separator)) if next.is_none_or(char::is_whitespace) => {
                Err(self.missing_after(begin, part, separator))
            }
            (Some(character), _) => {
                let kind = ParseErrorKind::Start { part, character };
                Err(self.error(begin, kind).with_hint(advice(character)))
            }
            (None, _) => Err(self.error(begin, ParseErrorKind::Empty)),
        }
    }

    fn switch(&mut self) -> Result<String, ParseError> {
        let sign = self.next().unwrap_or('+');
        // Twice means, in Spack, that dependencies have it, too.
        self.take_if(sign);
        self.take_if(sign);
        let name = self.word(Expected::Variant, Some(sign))?.to_owned();
        match self.next() {
            Some(character @ ('=' | ':')) => {
                let hint = format!("write `{name}=…`, without `{sign}`");
                Err(self.unexpected(Expected::Variant, character, Some(hint)))
            }
            _ => Ok(name),
        }
    }

    fn hash(&mut self) -> Result<String, ParseError> {
        self.take_if('/');
        let hash = self.word(Expected::Hash, Some('/'))?;
        let at = self.at - hash.len();
        match hash.char_indices().find(|(_, c)| !c.is_ascii_lowercase() && !c.is_ascii_digit()) {
            None => Ok(hash.to_owned()),
            Some((offset, character)) => {
                let part = Expected::Hash;
                Err(self.error(at + offset, ParseErrorKind::Character { part, character }))
            }
        }
    }

    fn compiler(&mut self) -> Result<WantedCompiler, ParseError> {
        self.take_if('%');
        let begin = self.at;
        self.skip_blanks();
        if self.next().is_none() {
            self.at = begin;
        }
        let name = self.word(Expected::Compiler, Some('%'))?.to_owned();
        let versions = match self.next() {
            Some('@') => self.versions()?,
            _ => Vec::new(),
        };
        Ok(WantedCompiler { name, versions })
    }

    /// Reads `@1.12:1.14,=2.0`.
    fn versions(&mut self) -> Result<Vec<VersionRange>, ParseError> {
        self.take_if('@');
        let mut separator = '@';
        let mut ranges = Vec::new();
        loop {
            ranges.push(self.range(separator)?);
            if !self.take_if(',') {
                break;
            }
            separator = ',';
        }
        match self.next() {
            Some(character) if matches!(character, '=' | ':' | '<' | '>' | '!' | '*') => {
                Err(self.unexpected(Expected::Version, character, advice(character)))
            }
            _ => Ok(ranges),
        }
    }

    fn range(&mut self, separator: char) -> Result<VersionRange, ParseError> {
        let begin = self.at;
        if self.take_if('=') {
            let version = self.word(Expected::Version, Some('='))?;
            return Ok(VersionRange::Exact(PackageVersion::read(version)));
        }
        let low = match self.next() {
            Some(':') => None,
            _ => Some(self.word(Expected::Version, Some(separator))?),
        };
        let high = if self.take_if(':') {
            // Behind a colon anything else may follow.
            let has_end = self.next().is_some_and(can_begin) && !self.is_value();
            has_end.then(|| self.take_while(is_word))
        } else {
            low
        };
        let range = VersionRange::Between {
            low: low.map(PackageVersion::read),
            high: high.map(PackageVersion::read),
        };
        if range.is_empty() {
            let turned = format!("{}:{}", high.unwrap_or_default(), low.unwrap_or_default());
            let hint = format!("write `{}`", escape(&turned));
            let kind = ParseErrorKind::Other("the range ends before it begins".to_owned());
            let error = self.error(begin, kind);
            return Err(error.with_hint(Some(hint)));
        }
        Ok(range)
    }

    /// Whether a word with a value comes next: `target=zen3`.
    fn is_value(&self) -> bool {
        self.rest().trim_start_matches(is_word).starts_with('=')
    }

    fn name_or_value(&mut self, pattern: &mut PackagePattern) -> Result<(), ParseError> {
        let begin = self.at;
        let word = self.word(Expected::Name, None)?;
        let is_first = pattern.name.is_none() && self.text.trim_start().starts_with(word);
        match self.next() {
            Some('=') if is_first && self.rest().starts_with("==") => {
                let hint = format!("write `{word}@…`, or `{word}@=…` for one very version");
                return Err(self.unexpected(Expected::Name, '=', Some(hint)));
            }
            Some('=') => {
                let value = self.value()?;
                pattern.variants.push((word.to_owned(), wanted(value)));
                return Ok(());
            }
            Some(character) if !character.is_whitespace() && !"@+~%/^".contains(character) => {
                return Err(self.unexpected(Expected::Name, character, advice(character)));
            }
            _ => {}
        }
        if pattern.name.is_some() {
            let part = Expected::Name;
            let hint = "give `--package` once for each package".to_owned();
            let error = self.error(begin, ParseErrorKind::Twice { part });
            return Err(error.with_hint(Some(hint)));
        }
        pattern.name = Some(word.to_owned());
        Ok(())
    }

    /// Reads `=a,b` or `='a b'`.
    fn value(&mut self) -> Result<&'a str, ParseError> {
        self.take_if('=');
        self.take_if('=');
        let begin = self.at;
        let Some(quote @ ('\'' | '"')) = self.next() else {
            let value = self.take_while(|c| !c.is_whitespace());
            if value.is_empty() {
                return Err(self.missing_after(begin, Expected::Value, '='));
            }
            return Ok(value);
        };
        self.take_if(quote);
        let value = self.take_while(|c| c != quote);
        if self.take_if(quote) {
            Ok(value)
        } else {
            Err(self.error(begin, ParseErrorKind::Other("the quote is not closed".to_owned())))
        }
    }
}

fn wanted(value: &str) -> WantedValue {
    if value == "*" {
        return WantedValue::Any;
    }
    let values = value.split([',', ' ']).filter(|one| !one.is_empty());
    WantedValue::All(values.map(str::to_owned).collect())
}

/// Returns what may have been meant.
fn advice(character: char) -> Option<String> {
    match character {
        '<' | '>' | '=' | '!' => {
            Some("at least is `@1.14:`, at most `@:1.14`, one very version `@=1.14.3`".to_owned())
        }
        '*' => Some("`@1.14` stands for all that begin with it".to_owned()),
        ',' | ';' => Some("give `--package` once for each package".to_owned()),
        _ => None,
    }
}

/// One variant of a package that was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant<'a> {
    On(&'a str),
    Off(&'a str),
    Value(&'a str, &'a str),
}

/// Takes the variants of a package apart. What is not understood is passed over.
pub(crate) fn variants(text: &str) -> impl Iterator<Item = Variant<'_>> {
    let mut reader = Reader { text, at: 0 };
    std::iter::from_fn(move || {
        loop {
            match reader.next()? {
                sign @ ('+' | '~') => {
                    reader.take_if(sign);
                    let name = reader.take_while(is_word);
                    let variant = if sign == '+' { Variant::On } else { Variant::Off };
                    return Some(variant(name));
                }
                first if can_begin(first) => {
                    let name = reader.take_while(is_word);
                    reader.take_if(':');
                    if let Ok(value) = reader.value() {
                        return Some(Variant::Value(name, value));
                    }
                }
                other => {
                    reader.take_if(other);
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is shown of a text that is refused: the error, the text, the place, the advice.
    fn refused(text: &str) -> String {
        let error = text.parse::<PackagePattern>().unwrap_err();
        let hint = error.hint().unwrap_or_default();
        format!("{error}\n{}\n{hint}", error.pointer())
    }

    #[test]
    fn the_variants_of_a_package_are_taken_apart() {
        let text = "~debug+pic build_system=makefile cflags='-O2 -g' libs:=shared,static";
        let expected = [
            Variant::Off("debug"),
            Variant::On("pic"),
            Variant::Value("build_system", "makefile"),
            Variant::Value("cflags", "-O2 -g"),
            Variant::Value("libs", "shared,static"),
        ];
        assert_eq!(variants(text).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_missing_version_is_pointed_at() {
        assert_eq!(
            refused("hdf5@ +mpi"),
            "`hdf5@ +mpi` is not a package: the version is missing after `@`\n\
             hdf5@ +mpi\n     ^\n"
        );
    }

    #[test]
    fn the_syntax_of_another_tool_is_answered_with_ours() {
        assert!(
            refused("numpy==2.1").ends_with("write `numpy@…`, or `numpy@=…` for one very version")
        );
        assert!(
            refused("numpy>=2")
                .ends_with("at least is `@1.14:`, at most `@:1.14`, one very version `@=1.14.3`")
        );
        assert!(refused("hdf5@1.14.*").ends_with("`@1.14` stands for all that begin with it"));
    }

    #[test]
    fn what_one_package_needs_is_requested_beside_it() {
        assert_eq!(
            refused("hdf5 ^mpich"),
            "`hdf5 ^mpich` is not a package: which package needs which is not known here\n\
             hdf5 ^mpich\n     ^\nask for both: `--package hdf5 --package mpich`"
        );
        assert!(refused("hdf5 mpich").ends_with("give `--package` once for each package"));
    }

    #[test]
    fn other_mistakes_are_pointed_at() {
        let mistakes = [
            ("", "a package is expected, but nothing is there"),
            ("hdf5@1.14:1.12", "the range ends before it begins"),
            ("hdf5@1.14,", "the version is missing after `,`"),
            ("hdf5@1@2", "the version is given twice"),
            ("hdf5+", "the variant is missing after `+`"),
            ("hdf5 cflags='-O2", "the quote is not closed"),
            ("hdf5 target=", "the value is missing after `=`"),
            ("hdf5/ABC", "a hash cannot contain `A`"),
            ("hdf5%", "the compiler is missing after `%`"),
            ("hdf5 +api=v1", "a variant cannot contain `=`"),
            ("hdf\u{1b}5", "a name cannot contain `\\u{1b}`"),
        ];
        for (text, expected) in mistakes {
            let message = refused(text);
            let line = message.lines().next().unwrap();
            assert!(line.ends_with(expected), "{text}: {message}");
        }
    }

    proptest! {
        #[test]
        fn no_text_brings_the_reader_down(text in "[a-z0-9@:=,+~%/^ '*.-]{0,30}") {
            let _ = text.parse::<PackagePattern>();
            prop_assert!(variants(&text).count() <= text.len());
        }
    }
}
