// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Files that are written while a chain is built.

use cabane_recipe::CompilerName;
use cabane_spack::{InstalledCompiler, compiler_externals};

#[test]
fn compilers_that_were_built_are_described_to_the_next_environment() {
    let programs = [("c", "/u/gcc-14/bin/gcc"), ("cxx", "/u/gcc-14/bin/g++")];
    let file = compiler_externals(&[InstalledCompiler {
        compiler: CompilerName::GCC,
        spec: "gcc@14.2.0 languages='c,c++'".to_owned(),
        prefix: "/u/gcc-14".into(),
        programs: programs.map(|(language, path)| (language.to_owned(), path.into())).into(),
    }]);
    assert_eq!(
        file,
        "packages:\n  gcc:\n    externals:\n    - spec: 'gcc@14.2.0 languages=''c,c++'''\n      \
         prefix: /u/gcc-14\n      extra_attributes:\n        compilers:\n          \
         c: /u/gcc-14/bin/gcc\n          cxx: /u/gcc-14/bin/g++\n    buildable: false\n"
    );
}

#[test]
fn without_compilers_the_file_has_no_packages() {
    assert_eq!(compiler_externals(&[]), "packages: {}\n");
}
