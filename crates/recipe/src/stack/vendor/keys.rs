// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The keys of the manifest of a vendor's MPI, as those of recipes.

use crate::stack::keys::keys;

keys! {
    /// The manifest.
    pub(crate) const MANIFEST = {
        /// the name of the package in Spack
        "name": Text, required;
        /// the version of the MPI
        "version": Text, required;
        /// the processors for which the vendor has built it
        "arch": Choice(&["x86_64", "aarch64"]), required;
        /// a sentence about the package
        "description": Text, "none";
        /// the web page of the vendor about it
        "homepage": Text, "none";
        /// the address of the directory with the tarballs
        "url": Text, "the tarballs are in a source mirror only";
        /// the RPM or Debian packages, each with `file`, `sha256` and maybe `url`
        "packages": Items(PACKAGE), required;
        /// what is taken from the packages for all compilers, each with `from`, `to` and maybe
        /// `except`
        "files": Items(FILES), "none";
        /// texts to replace in files of the tarball, by their path there
        "edit": NamedItems(REPLACEMENT), "nothing";
        /// further names: a path in the tarball, and the file beside it that is meant
        "links": NamedText, "none";
        /// the compilers for which there is a tarball, as Spack names them
        "compilers": Named(COMPILER), required;
        /// variables that programs of the MPI need, to be built and to run; `$mpi_prefix` in a value is
        /// where the MPI is
        "environment": NamedText, "none";
        /// specs of packages whose libraries the MPI needs
        "depends": Texts, "nothing";
        /// specs with which the package does not work, and why
        "conflicts": NamedText, "nothing";
        /// variants of the package for GPUs
        "gpu": Named(GPU), "no variants";
    };

    /// A compiler.
    pub(crate) const COMPILER = {
        /// the versions of the compiler that fit, as in a spec: `12:`
        "versions": Text, "all";
        /// the C compiler
        "c": Text, "that of the compiler";
        /// the C++ compiler
        "cxx": Text, "that of the compiler";
        /// the Fortran compiler
        "fortran": Text, "that of the compiler";
        /// what is taken from the packages for this compiler, beside what is taken for all
        "files": Items(FILES), "none";
        /// the scripts and programs that call the compilers, by their name in `bin`
        "wrappers": Named(WRAPPER), "required, unless `runtime_only` is true";
        /// whether the MPI is only for running programs, without wrappers to compile them
        "runtime_only": Truth, "false";
        /// as for all compilers, for this one
        "edit": NamedItems(REPLACEMENT), "nothing";
        /// as for all compilers, for this one
        "links": NamedText, "none";
    };

    /// A compiler wrapper.
    pub(crate) const WRAPPER = {
        /// its path in the packages
        "from": Text, required;
        /// the language of its compiler
        "language": Choice(&["c", "cxx", "fortran"]), required;
        /// a list of texts to replace in a script, each with `find` and `with`
        "replace": Items(REPLACEMENT), "nothing";
        /// the file in the tarball that a program reads, such as `share/openmpi/mpicc-wrapper-data.txt`
        "data": Text, "`share/openmpi/NAME-wrapper-data.txt`";
    };

    /// Something for GPUs.
    pub(crate) const GPU = {
        /// specs of packages that are needed with the variant
        "depends": Texts, "nothing";
        /// the files of the tarball that are installed only with the variant
        "files": Texts, "none";
        /// the libraries that programs are linked with, without `lib`
        "link": Texts, "nothing";
    };

    /// A package of the vendor.
    pub(crate) const PACKAGE = {
        /// its name in the directory of packages
        "file": Text, required;
        /// its checksum
        "sha256": Text, required;
        /// its address, for information only
        "url": Text, "unknown";
    };

    /// What is taken from packages.
    pub(crate) const FILES = {
        /// paths in the packages: `*` and `?` stand for all but `/`, `**` for directories too
        "from": TextOrTexts, required;
        /// where in the tarball: a directory if it ends with `/`, else the new name
        "to": Text, required;
        /// paths in the packages that are not taken
        "except": Texts, "none";
    };

    /// A text to replace.
    pub(crate) const REPLACEMENT = {
        /// the text, which must be there
        "find": Text, required;
        /// the new text
        "with": Text, required;
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../../../docs/concepts/vendor-mpi.md");

    #[test]
    fn the_documentation_names_every_key() {
        let tables = [MANIFEST, COMPILER, WRAPPER, GPU, PACKAGE, FILES, REPLACEMENT];
        let keys = tables.iter().copied().flatten();
        let missing: Vec<&str> =
            keys.map(|key| key.name).filter(|name| !PAGE.contains(&format!("`{name}`"))).collect();
        assert_eq!(missing, Vec::<&str>::new());
    }
}
