// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The specs of a recipe with their places, for looking up what they name.

use std::ops::Range;
use std::path::PathBuf;

use super::spec::SpecNode;
use super::spec_fields::{SpecItem, place_of};

/// A spec as it is written in a file of a recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenSpec {
    /// The file, as the caller named it.
    pub file: PathBuf,
    /// What it is there for.
    pub purpose: SpecPurpose,
    /// The package, and those that it asks for behind `^` and `%`.
    pub packages: Vec<WrittenPackage>,
}

/// What a spec is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecPurpose {
    /// It is installed: Spack refuses what does not exist.
    Install,
    /// It chooses among what is installed: what does not exist chooses nothing.
    Choose,
    /// It describes what is on the system: any version may be.
    External,
}

/// A package of a spec, and what is asked of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenPackage {
    /// The name.
    pub name: WrittenWord,
    /// Whether it follows `%`, where compilers have other names as well.
    pub is_direct: bool,
    /// What follows `@`.
    pub version: Option<WrittenWord>,
    /// The variants, and the other keys before `=`.
    pub variants: Vec<WrittenVariant>,
}

/// A variant of a spec, or another key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenVariant {
    /// The name.
    pub name: WrittenWord,
    /// What follows `=`, without quotes.
    pub value: Option<WrittenWord>,
}

/// A word and the bytes of the file that hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenWord {
    /// The word.
    pub text: String,
    /// Its place in the file; that of the whole spec where escapes are in the file.
    pub place: Range<usize>,
}

impl WrittenSpec {
    /// A package about which something is said, if it is there: some of its versions, if one is
    /// given.
    pub(super) fn naming(name: WrittenWord, version: Option<WrittenWord>) -> Self {
        let package = WrittenPackage { name, is_direct: false, version, variants: Vec::new() };
        let (file, purpose) = (PathBuf::new(), SpecPurpose::Choose);
        Self { file, purpose, packages: vec![package] }
    }
}

impl SpecItem<'_> {
    /// Keeps the spec with the places of its words.
    pub(super) fn note(&self, purpose: SpecPurpose) {
        let packages = self.parts.nodes.iter().filter_map(|node| self.package(node));
        self.field.report.note_spec(WrittenSpec {
            file: PathBuf::new(),
            purpose,
            packages: packages.collect(),
        });
    }

    /// Keeps a spec in the settings of a package, which it belongs to if it names none.
    pub(super) fn note_for(&self, package: &WrittenWord) {
        let mut packages = Vec::new();
        for node in &self.parts.nodes {
            let own = || (package.text != "all").then(|| package.clone());
            let name = node.name.as_ref().map(|name| self.word(name));
            let name = name.or_else(|| own().filter(|_| packages.is_empty() && !node.is_direct));
            packages.extend(name.map(|name| self.named(node, name)));
        }
        let (file, purpose) = (PathBuf::new(), SpecPurpose::Choose);
        self.field.report.note_spec(WrittenSpec { file, purpose, packages });
    }

    fn package(&self, node: &SpecNode) -> Option<WrittenPackage> {
        Some(self.named(node, self.word(node.name.as_ref()?)))
    }

    fn named(&self, node: &SpecNode, name: WrittenWord) -> WrittenPackage {
        WrittenPackage {
            name,
            is_direct: node.is_direct,
            version: node.version.as_ref().map(|place| self.word(place)),
            variants: self.variants_of(node),
        }
    }

    /// The variants of a spec without a package.
    pub(super) fn variants(&self) -> Vec<WrittenVariant> {
        self.parts.nodes.first().map(|node| self.variants_of(node)).unwrap_or_default()
    }

    fn variants_of(&self, node: &SpecNode) -> Vec<WrittenVariant> {
        let variants = node.variants.iter().map(|variant| WrittenVariant {
            name: self.word(&variant.name),
            value: variant.value.as_ref().map(|place| self.word(place)),
        });
        variants.collect()
    }

    fn word(&self, bytes: &Range<usize>) -> WrittenWord {
        WrittenWord {
            text: self.text[bytes.clone()].to_owned(),
            place: place_of(&self.field, bytes.clone()).into(),
        }
    }
}
