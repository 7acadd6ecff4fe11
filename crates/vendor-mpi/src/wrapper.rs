// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Compiler wrappers: scripts of the vendor that know where they are and what they call.
//!
//! A head is put behind their first line. It finds the place of the script when it runs,
//! and names what they call in lines that can be changed one by one, which the package
//! for Spack does. What the manifest replaces makes the rest of the script use it.

use cabane_recipe::Diagnostic;
use cabane_recipe::{Replacement, VendorCompiler, VendorLanguage, VendorManifest, VendorWrapper};
use memchr::memmem;

/// The directories of libraries, as far as there are any.
pub(crate) const LIBRARY_DIRECTORIES: [&str; 2] = ["lib", "lib64"];

/// Returns the wrapper with its head, or says what it lacks.
pub(crate) fn parametrise(
    manifest: &VendorManifest,
    compiler: &VendorCompiler,
    wrapper: &VendorWrapper,
    script: &[u8],
    libraries: &[&str],
) -> Result<Vec<u8>, Vec<Diagnostic>> {
    let (first, rest) = match script.iter().position(|&byte| byte == b'\n') {
        Some(end) => script.split_at(end + 1),
        None => (script, &[][..]),
    };
    if !is_shell(first) {
        let message = format!("`{}` is neither a shell script nor a program", wrapper.from.value);
        let hint = "take it with `files`, and replace in the files that it reads with `edit`";
        return Err(vec![manifest.diagnostic(&wrapper.from, &message).with_hint(hint)]);
    }
    let rest = replace(manifest, &wrapper.replace, rest)?;
    let mut problems = Vec::new();
    let mut need = |variable: &str, why: &str, example: &str| {
        if memmem::find(&rest, variable.as_bytes()).is_none() {
            let message =
                format!("the wrapper `{}` does not use ${variable}, so {why}", wrapper.name.value);
            let hint = format!("replace something, such as\nreplace:\n  - find: {example}");
            problems.push(manifest.diagnostic(&wrapper.name, &message).with_hint(&hint));
        }
    };
    need("mpi_prefix", "it cannot be moved", "prefix=/usr\n    with: prefix=$mpi_prefix");
    need(
        "mpi_compiler",
        "it cannot call another compiler",
        "CC=\"gcc\"\n    with: CC=\"$mpi_compiler\"",
    );
    need("mpi_link", "programs do not find the libraries", "-L/usr/lib\n    with: $mpi_link");
    if manifest.gpu.iter().any(|gpu| !gpu.link.is_empty()) {
        need(
            "mpi_gpu_libs",
            "there are no libraries for GPUs",
            "-lmpi_gtl\n    with: $mpi_gpu_libs",
        );
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut text = first.to_vec();
    text.extend(place_and_compiler(compiler, wrapper.language).into_bytes());
    text.extend(link(libraries).into_bytes());
    text.extend(exports(manifest).into_bytes());
    text.extend(rest);
    Ok(text)
}

/// Tells whether the first line of a file names a shell.
fn is_shell(line: &[u8]) -> bool {
    let Some(line) = line.strip_prefix(b"#!").and_then(|line| str::from_utf8(line).ok()) else {
        return false;
    };
    let shells = ["sh", "bash", "dash", "ksh"];
    let mut names = line.split_whitespace().map(|path| path.rsplit('/').next().unwrap_or(path));
    names.any(|name| shells.contains(&name))
}

/// Returns the script that runs a program with what it needs to know. `variable` names another
/// compiler to it, and `target` is where it is in the tarball.
pub(crate) fn of_program(
    manifest: &VendorManifest,
    compiler: &VendorCompiler,
    language: VendorLanguage,
    variable: &str,
    target: &str,
) -> String {
    format!(
        "#!/bin/sh\n{}\n{}export {variable}=\"${{{variable}:-$mpi_compiler}}\"\n\
         exec \"$mpi_prefix/{target}\" \"$@\"\n",
        place_and_compiler(compiler, language),
        exports(manifest),
    )
}

/// Returns the program of a compiler for a language.
pub(crate) fn program(compiler: &VendorCompiler, language: VendorLanguage) -> &str {
    match language {
        VendorLanguage::C => &compiler.c,
        VendorLanguage::Cxx => &compiler.cxx,
        VendorLanguage::Fortran => &compiler.fortran,
    }
}

/// The lines that say where the MPI is, and which compiler is called.
fn place_and_compiler(compiler: &VendorCompiler, language: VendorLanguage) -> String {
    let program = program(compiler, language);
    let variable = match language {
        VendorLanguage::C => "VENDOR_MPI_CC",
        VendorLanguage::Cxx => "VENDOR_MPI_CXX",
        VendorLanguage::Fortran => "VENDOR_MPI_FC",
    };
    format!(
        "\n# Not the vendor's: where this MPI lies, and what its wrapper calls.\n\
         mpi_prefix=$(dirname \"$(dirname \"$(readlink -f \"$0\")\")\")\n\
         mpi_compiler=\"${{{variable}:-{program}}}\"\n"
    )
}

/// The lines for what programs are linked with.
fn link(libraries: &[&str]) -> String {
    // The old kind of tag is also read for the libraries that libraries need.
    let link: Vec<String> = libraries
        .iter()
        .map(|name| format!("-L$mpi_prefix/{name} -Wl,-rpath,$mpi_prefix/{name}"))
        .chain([NO_RUNPATH.to_owned()])
        .collect();
    format!("mpi_link=\"{}\"\nmpi_gpu_libs=\"\"\n\n", link.join(" "))
}

/// The lines for the variables that programs of the MPI need.
fn exports(manifest: &VendorManifest) -> String {
    let variables = manifest.environment.iter();
    let lines = variables.flat_map(|(name, value)| ["export ", name, "=\"", value, "\"\n"]);
    lines.collect()
}

/// Says that libraries are also looked for by what a program names for itself.
pub(crate) const NO_RUNPATH: &str = "-Wl,--disable-new-dtags";

/// Replaces texts one after the other; each must be there.
pub(crate) fn replace(
    manifest: &VendorManifest,
    replacements: &[Replacement],
    text: &[u8],
) -> Result<Vec<u8>, Vec<Diagnostic>> {
    let mut text = text.to_vec();
    let mut problems = Vec::new();
    for Replacement { find, with } in replacements {
        if let Some(new) = replaced(&text, find.value.as_bytes(), with.as_bytes()) {
            text = new;
        } else {
            let message = "this text is not in the file";
            let hint = "texts are compared as they are, after the replacements above";
            problems.push(manifest.diagnostic(find, message).with_hint(hint));
        }
    }
    if problems.is_empty() { Ok(text) } else { Err(problems) }
}

fn replaced(text: &[u8], find: &[u8], with: &[u8]) -> Option<Vec<u8>> {
    let mut new = Vec::with_capacity(text.len());
    let mut end = 0;
    for at in memmem::find_iter(text, find) {
        new.extend_from_slice(&text[end..at]);
        new.extend_from_slice(with);
        end = at + find.len();
    }
    new.extend_from_slice(&text[end..]);
    (end > 0).then_some(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_says_whether_a_file_is_a_script_of_a_shell() {
        let lines = ["#! /bin/bash\n", "#!/usr/bin/env sh\n", "#!/usr/bin/python3\n", "\x7fELF"];
        assert_eq!(lines.map(|line| is_shell(line.as_bytes())), [true, true, false, false]);
    }

    #[test]
    fn what_stands_there_afterwards_is_not_replaced_again() {
        assert_eq!(replaced(b"a-a", b"a", b"aa").as_deref(), Some(&b"aa-aa"[..]));
    }
}
