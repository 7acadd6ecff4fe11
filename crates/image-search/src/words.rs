// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The words of a search, and how well they fit.

use std::str::FromStr;

use cabane_label::Label;
use cabane_report::{Kind, Report};
use cabane_view::{PackageLine, PackagePattern};

use crate::details::ImageDetails;

/// A word of a search.
#[derive(Clone, Debug)]
pub(crate) enum Word {
    /// A part of any text, in lower case.
    Text(String),
    /// A package with a version, variants, or a compiler.
    Package(PackagePattern),
}

/// How well a word fits, from the best to the least.
const IS_NAME: u32 = 0;
const BEGINS_NAME: u32 = 1;
const IN_NAME: u32 = 2;
const IN_TEXT: u32 = 3;

impl FromStr for Word {
    type Err = Report;

    fn from_str(word: &str) -> Result<Self, Report> {
        if word.trim().is_empty() {
            return Err(Report::new(Kind::Usage, "a word to search for is empty"));
        }
        if word.contains(['@', '%', '+', '~', '=']) && !word.ends_with('+') {
            return Ok(Self::Package(word.parse()?));
        }
        Ok(Self::Text(word.trim().to_lowercase()))
    }
}

impl Word {
    /// Returns how well it fits the label, the description, and the views of an image.
    pub(crate) fn rank_of_image(&self, label: &Label, details: &ImageDetails) -> Option<u32> {
        let Self::Text(word) = self else { return None };
        let name = rank_in(word, label.name.as_str());
        let is_version = has_version(word, label.version.as_str());
        let views = details.views.iter().flat_map(|(name, text)| [Some(name), text.as_ref()]);
        let mut texts = details.description.iter().chain(views.flatten());
        let in_text = || texts.any(|text| text.to_lowercase().contains(word)).then_some(IN_TEXT);
        name.or(is_version.then_some(BEGINS_NAME)).or_else(in_text)
    }

    /// Whether it is a version: of an image, or of a package that another word names.
    pub(crate) fn is_version(&self) -> bool {
        matches!(self, Self::Text(word) if word.starts_with(|letter: char| letter.is_ascii_digit()))
    }

    /// Returns how well it fits a package.
    pub(crate) fn rank_of_package(&self, package: &PackageLine<'_>) -> Option<u32> {
        match self {
            Self::Text(word) if self.is_version() => {
                has_version(word, package.version).then_some(IN_TEXT)
            }
            Self::Text(word) => rank_in(word, package.name),
            Self::Package(pattern) => pattern.matches(package).then_some(IS_NAME),
        }
    }
}

/// Whether a version is the typed one, or one of its releases: `1.14` is `1.14.3`, and not `1.142`.
fn has_version(word: &str, version: &str) -> bool {
    version.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn rank_in(word: &str, name: &str) -> Option<u32> {
    let name = name.to_lowercase();
    let place = name.find(word)?;
    Some(match place {
        0 if name.len() == word.len() => IS_NAME,
        0 => BEGINS_NAME,
        _ => IN_NAME,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(word: &str) -> Option<u32> {
        let label = "prgenv-gnu/24.11:v2@todi%gh200".parse().unwrap();
        let details = ImageDetails {
            description: Some("Compilers and MPI".to_owned()),
            views: vec![("modules".to_owned(), Some("for Lmod".to_owned()))],
            ..ImageDetails::default()
        };
        word.parse::<Word>().unwrap().rank_of_image(&label, &details)
    }

    #[test]
    fn names_are_better_than_parts_of_names_and_these_are_better_than_texts() {
        let words = [
            "prgenv-gnu",
            "PRGENV",
            "24",
            "24.11",
            "gnu",
            "mpi",
            "lmod",
            "modules",
            "4.11",
            "hdf5",
        ];
        let expected =
            [Some(0), Some(1), Some(1), Some(1), Some(2), Some(3), Some(3), Some(3), None, None];
        assert_eq!(words.map(rank), expected);
    }

    #[test]
    fn a_word_with_a_version_or_a_variant_is_a_package() {
        let package = "HDF5\t1.14.3\t\t+mpi\tgcc@13\t\t\tspack\t";
        let package = PackageLine::read(package).unwrap();
        let rank = |word: &str| word.parse::<Word>().unwrap().rank_of_package(&package);
        let words = ["hdf5", "df", "HDF5@1.14", "HDF5+mpi", "HDF5~mpi", "HDF5%gcc@12", "1.14.3"];
        let expected = [Some(0), Some(2), Some(0), Some(0), None, None, Some(3)];
        assert_eq!(words.map(rank), expected);
        // A name, and no variant without one.
        assert!(matches!("c++".parse::<Word>().unwrap(), Word::Text(_)));
        assert!(" ".parse::<Word>().is_err());
    }
}
