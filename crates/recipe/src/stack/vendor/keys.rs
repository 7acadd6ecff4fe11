// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The keys of the manifest of a vendor's MPI, as those of recipes.

use crate::stack::keys::{Key, Shape, key, needed};

/// The manifest.
pub(crate) const MANIFEST: &[Key] = &[
    needed("name", Shape::Text, "the name of the package in Spack"),
    needed("version", Shape::Text, "the version of the MPI"),
    needed(
        "arch",
        Shape::Choice(&["x86_64", "aarch64"]),
        "the processors for which the vendor has built it",
    ),
    key(
        "description",
        Shape::Text,
        "none",
        "a sentence for those who look at the package",
    ),
    key(
        "homepage",
        Shape::Text,
        "none",
        "where the vendor tells about it",
    ),
    key(
        "url",
        Shape::Text,
        "the tarballs are in a source mirror only",
        "where the tarballs will be, below which each has its name",
    ),
    needed(
        "packages",
        Shape::Items(PACKAGE),
        "the RPM or Debian packages, each with `file`, `sha256` and maybe `url`",
    ),
    key(
        "files",
        Shape::Items(FILES),
        "none",
        "what is taken from the packages for all compilers, each with `from`, `to` and maybe `except`",
    ),
    key(
        "edit",
        Shape::NamedItems(REPLACEMENT),
        "nothing",
        "texts to replace in files of the tarball, by their path there",
    ),
    key(
        "links",
        Shape::NamedText,
        "none",
        "further names: a path in the tarball, and the file beside it that is meant",
    ),
    needed(
        "compilers",
        Shape::Named(COMPILER),
        "the compilers for which there is a tarball, as Spack names them",
    ),
    key(
        "depends",
        Shape::Texts,
        "nothing",
        "specs of packages whose libraries the MPI needs",
    ),
    key(
        "conflicts",
        Shape::NamedText,
        "nothing",
        "specs with which the package does not work, and why",
    ),
    key(
        "gpu",
        Shape::Named(GPU),
        "no variants",
        "variants of the package for GPUs",
    ),
];

/// A compiler.
pub(crate) const COMPILER: &[Key] = &[
    key(
        "versions",
        Shape::Text,
        "all",
        "the versions of the compiler that fit, as in a spec: `12:`",
    ),
    key("c", Shape::Text, "that of the compiler", "the C compiler"),
    key(
        "cxx",
        Shape::Text,
        "that of the compiler",
        "the C++ compiler",
    ),
    key(
        "fortran",
        Shape::Text,
        "that of the compiler",
        "the Fortran compiler",
    ),
    key(
        "files",
        Shape::Items(FILES),
        "none",
        "what is taken from the packages for this compiler, beside what is taken for all",
    ),
    needed(
        "wrappers",
        Shape::Named(WRAPPER),
        "the scripts that call the compilers, by their name in `bin`",
    ),
    key(
        "edit",
        Shape::NamedItems(REPLACEMENT),
        "nothing",
        "as for all compilers, for this one",
    ),
    key(
        "links",
        Shape::NamedText,
        "none",
        "as for all compilers, for this one",
    ),
];

/// A compiler wrapper.
pub(crate) const WRAPPER: &[Key] = &[
    needed("from", Shape::Text, "its path in the packages"),
    needed(
        "language",
        Shape::Choice(&["c", "cxx", "fortran"]),
        "the language of its compiler",
    ),
    needed(
        "replace",
        Shape::Items(REPLACEMENT),
        "a list of texts to replace, each with `find` and `with`",
    ),
];

/// Something for GPUs.
pub(crate) const GPU: &[Key] = &[
    key(
        "depends",
        Shape::Texts,
        "nothing",
        "specs of packages that are needed with the variant",
    ),
    key(
        "files",
        Shape::Texts,
        "none",
        "what of the tarball is installed with the variant only",
    ),
    key(
        "link",
        Shape::Texts,
        "nothing",
        "the libraries that programs are linked with, without `lib`",
    ),
];

/// A package of the vendor.
pub(crate) const PACKAGE: &[Key] = &[
    needed("file", Shape::Text, "its name in the directory of packages"),
    needed("sha256", Shape::Text, "its checksum"),
    key(
        "url",
        Shape::Text,
        "nobody knows",
        "where it comes from, for people; nothing is fetched",
    ),
];

/// What is taken from packages.
pub(crate) const FILES: &[Key] = &[
    needed(
        "from",
        Shape::TextOrTexts,
        "paths in the packages: `*` and `?` stand for all but `/`, `**` for directories too",
    ),
    needed(
        "to",
        Shape::Text,
        "where in the tarball: a directory if it ends with `/`, else the new name",
    ),
    key(
        "except",
        Shape::Texts,
        "none",
        "paths in the packages that are not taken",
    ),
];

/// A text to replace.
pub(crate) const REPLACEMENT: &[Key] = &[
    needed("find", Shape::Text, "the text, which must be there"),
    needed("with", Shape::Text, "what stands there afterwards"),
];

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../../../docs/concepts/vendor-mpi.md");

    #[test]
    fn the_documentation_names_every_key() {
        let tables = [
            MANIFEST,
            COMPILER,
            WRAPPER,
            GPU,
            PACKAGE,
            FILES,
            REPLACEMENT,
        ];
        let keys = tables.iter().copied().flatten();
        let missing: Vec<&str> = keys
            .map(|key| key.name)
            .filter(|name| !PAGE.contains(&format!("`{name}`")))
            .collect();
        assert_eq!(missing, Vec::<&str>::new());
    }
}
