// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The problems of one file, collected while it is read.
//!
//! Reading goes on after a problem wherever the rest can still be understood,
//! so that the author of a file gets all problems at once.

use std::cell::RefCell;

use crate::diagnostic::{Diagnostic, Source};
use crate::language::Language;
use crate::node::Place;
use crate::stack::WrittenSpec;

/// How many problems of one file are reported. Who has more has something else.
const MAX_PROBLEMS: usize = 40;

/// What is wrong with some bytes of a text, before it is noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) place: Place,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Problem {
    pub(crate) fn new(place: impl Into<Place>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into(), hint: None }
    }

    /// Adds what to type instead.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// A file that is being read, and what is wrong with it.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    pub(crate) source: &'a Source<'a>,
    pub(crate) language: Language,
    problems: RefCell<Vec<Diagnostic>>,
    remarks: RefCell<Vec<Diagnostic>>,
    specs: RefCell<Vec<WrittenSpec>>,
}

impl<'a> Report<'a> {
    pub(crate) fn new(source: &'a Source<'a>, language: Language) -> Self {
        Self {
            source,
            language,
            problems: RefCell::default(),
            remarks: RefCell::default(),
            specs: RefCell::default(),
        }
    }

    /// Notes a problem without further details.
    pub(crate) fn problem(&self, place: Place, message: &str) {
        self.note(Some(place), message, None);
    }

    /// Notes a problem, and what to type instead.
    pub(crate) fn problem_with_hint(&self, place: Place, message: &str, hint: &str) {
        self.note(Some(place), message, Some(hint));
    }

    /// Notes a problem, and what to type instead where that is known, in the place of a value.
    pub(crate) fn refuse<'h, T>(
        &self,
        place: impl Into<Option<Place>>,
        message: &str,
        hint: impl Into<Option<&'h str>>,
    ) -> Option<T> {
        self.note(place.into(), message, hint.into());
        None
    }

    /// Notes a problem, and what to type instead where that is known.
    ///
    /// Without a place it is one of the whole file.
    pub(crate) fn note(&self, place: Option<Place>, message: &str, hint: Option<&str>) {
        // What is not kept is not made either: in a hostile file every one of
        // them would cost the length of a line.
        let mut problems = self.problems.borrow_mut();
        if problems.len() > MAX_PROBLEMS {
            return;
        }
        let message = match problems.len() {
            MAX_PROBLEMS => "there are more problems; fix those above first",
            _ => message,
        };
        let diagnostic = match place {
            Some(place) => self.source.diagnostic(place.into(), message),
            None => Diagnostic::about_file(self.source.file, message),
        };
        let hint = hint.filter(|_| problems.len() < MAX_PROBLEMS);
        problems.push(match hint {
            Some(hint) => diagnostic.with_hint(hint),
            None => diagnostic,
        });
    }

    /// Notes what the author should know, though nothing is wrong.
    pub(crate) fn remark(&self, place: Place, message: &str, hint: &str) {
        let mut remarks = self.remarks.borrow_mut();
        if remarks.len() < MAX_PROBLEMS {
            let diagnostic = self.source.diagnostic(place.into(), message);
            remarks.push(diagnostic.with_hint(hint));
        }
    }

    /// Returns what the author should know.
    pub(crate) fn take_remarks(&self) -> Vec<Diagnostic> {
        self.remarks.take()
    }

    /// Keeps a spec of this file.
    pub(crate) fn note_spec(&self, spec: WrittenSpec) {
        let file = self.source.file.to_owned();
        self.specs.borrow_mut().push(WrittenSpec { file, ..spec });
    }

    /// Returns the specs of the file.
    pub(crate) fn take_specs(&self) -> Vec<WrittenSpec> {
        self.specs.take()
    }

    /// Returns what was read if nothing is wrong, and else the problems in the
    /// order of the file.
    pub(crate) fn finish<T>(self, value: Option<T>) -> Result<T, Vec<Diagnostic>> {
        let mut problems = self.problems.into_inner();
        match value {
            Some(value) if problems.is_empty() => Ok(value),
            _ => {
                debug_assert!(!problems.is_empty(), "a refusal without a reason");
                let shown = problems.len().min(MAX_PROBLEMS);
                problems[..shown].sort_by_key(|problem| (problem.line, problem.column));
                Err(problems)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn problems(count: usize) -> Vec<String> {
        let source = Source::new(Path::new("f"), "a\nb\n");
        let report = Report::new(&source, Language::Yaml);
        for number in 0..count {
            let place = Place { start: 2 * (1 - number % 2), end: 2 };
            report.problem_with_hint(place, &format!("problem {number}"), "hint");
        }
        report.finish(Some(())).unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn problems_come_in_the_order_of_the_file() {
        let lines: Vec<_> = problems(3).iter().map(|p| p[..3].to_owned()).collect();
        assert_eq!(lines, ["f:1", "f:2", "f:2"]);
    }

    #[test]
    fn after_forty_problems_one_says_that_there_are_more() {
        let problems = problems(100);
        let last = problems.last().unwrap().as_str();
        assert_eq!(
            (problems.len(), last),
            (41, "f:2:1: there are more problems; fix those above first\n  | b\n  | ^")
        );
    }
}
