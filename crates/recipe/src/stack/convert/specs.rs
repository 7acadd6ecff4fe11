// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Specs of Spack before 1.0.

/// Returns a spec with the compiler of each package behind everything else that is asked of it.
///
/// In Spack before 1.0, `hdf5 %gcc +mpi` asks for a variant of hdf5; since 1.0, for one of gcc. A spec
/// with `%` inside quotes stays as it is.
pub(super) fn with_compilers_last(spec: &str) -> String {
    if spec.contains(['"', '\'']) {
        return spec.to_owned();
    }
    spec.split_inclusive('^').map(with_compiler_last).collect()
}

/// Does this for one package. The text may end with the `^` of the next one.
fn with_compiler_last(package: &str) -> String {
    let (package, next) = match package.strip_suffix('^') {
        Some(package) => (package, " ^"),
        None => (package, ""),
    };
    let Some((before, rest)) = package.split_once('%') else {
        return package.to_owned() + next.trim();
    };
    let end = rest.find(|one: char| !is_of_compiler(one)).unwrap_or(rest.len());
    let (compiler, after) = rest.split_at(end);
    if after.trim().is_empty() || after.contains('%') {
        return package.to_owned() + next.trim();
    }
    let before = before.trim_end();
    // Without a name, as in `%gcc +mpi`, nothing comes first.
    let space = if before.is_empty() { "" } else { " " };
    format!("{before}{space}{} %{compiler}{next}", after.trim())
}

/// Whether a character can be of `gcc@12.2:` behind `%`.
fn is_of_compiler(one: char) -> bool {
    one.is_ascii_alphanumeric() || "-_.@:=,".contains(one)
}

#[cfg(test)]
mod tests {
    use super::with_compilers_last;

    #[test]
    fn what_is_asked_of_a_package_is_before_its_compiler() {
        let cases = [
            ("hdf5 %nvhpc +mpi~cxx api=v18", "hdf5 +mpi~cxx api=v18 %nvhpc"),
            ("libxc%nvhpc~cuda", "libxc ~cuda %nvhpc"),
            ("a@2%gcc@12.3: +x ^b%gcc+y ^c", "a@2 +x %gcc@12.3: ^b +y %gcc ^c"),
            ("%gcc +mpi", "+mpi %gcc"),
            // Nothing is asked behind it.
            ("fftw%nvhpc", "fftw%nvhpc"),
            ("hdf5 +mpi %gcc ^zlib", "hdf5 +mpi %gcc ^zlib"),
            ("zlib", "zlib"),
            ("a %gcc cflags='-O2 %x'", "a %gcc cflags='-O2 %x'"),
            ("a %gcc +x %clang", "a %gcc +x %clang"),
        ];
        for (old, new) in cases {
            assert_eq!(with_compilers_last(old), new);
        }
    }
}
