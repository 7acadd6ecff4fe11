// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Compiler wrappers that are programs, as those of Open MPI and what is made from it.
//!
//! One program, `opal_wrapper`, has many names. By the name under which it runs it chooses a file
//! such as `share/openmpi/mpicc-wrapper-data.txt`, which says what is called; where that is, it
//! knows from variables. So in `bin` there is a script that sets these, and runs the program by a
//! link with the right name:
//!
//! ```text
//! bin/mpicc                                  a script
//! libexec/vendor-mpi/opal_wrapper            the program
//! libexec/vendor-mpi/mpicc                   a link to it
//! share/openmpi/mpicc-wrapper-data.txt       what it reads
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use cabane_recipe::{Diagnostic, VendorCompiler, VendorManifest, VendorWrapper};
use cabane_report::Result;

use crate::contents::FileId;
use crate::failed;
use crate::tree::{Content, Node, Tree};
use crate::wrapper;

/// Where the programs are in a tarball.
const DIRECTORY: &str = "libexec/vendor-mpi";
/// What the name of the file ends with that a program reads.
const SUFFIX: &str = "-wrapper-data.txt";

/// Tells whether a file is a program.
pub(crate) fn is_program(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
}

/// Returns the file that a program reads, by its path in the tarball.
pub(crate) fn data_of(wrapper: &VendorWrapper) -> String {
    match &wrapper.data {
        Some(data) => data.value.clone(),
        None => format!("share/openmpi/{}{SUFFIX}", wrapper.name.value),
    }
}

/// Puts the wrappers of a compiler that are programs into a tarball.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    /// Where the bytes of each are.
    placed: BTreeMap<FileId, String>,
}

impl Programs {
    /// Adds a wrapper. Its file of data is there already, and is changed; `content` is the program
    /// itself.
    pub(crate) fn add(
        &mut self,
        (manifest, compiler): (&VendorManifest, &VendorCompiler),
        wrapper: &VendorWrapper,
        (file, content): (&FileId, Content),
        tree: &mut Tree,
    ) -> Result<Result<(), Diagnostic>> {
        if let Some(problem) = refuse(manifest, wrapper) {
            return Ok(Err(problem));
        }
        let path = data_of(wrapper);
        let name = path.rsplit('/').next().and_then(|name| name.strip_suffix(SUFFIX));
        let (Some(name), Some(Node::File { content: data, .. })) = (name, tree.0.get_mut(&path))
        else {
            return Ok(Err(no_data(manifest, wrapper, &path)));
        };
        let text = data.read().map_err(failed("read", Path::new(&path)))?;
        let data_of_program = Data::new(&String::from_utf8_lossy(&text));
        let Some(variable) = data_of_program.variable() else {
            return Ok(Err(no_data(manifest, wrapper, &path)));
        };
        let language = wrapper.language;
        let script = wrapper::of_program(
            manifest,
            compiler,
            language,
            &variable,
            &format!("{DIRECTORY}/{name}"),
        );
        *data = Content::Bytes(data_of_program.for_any_place(wrapper::program(compiler, language)));
        self.place(wrapper, (file, content), name, tree);
        let content = Content::Bytes(script.into_bytes());
        let node = Node::File { content, is_executable: true };
        tree.0.insert(format!("bin/{}", wrapper.name.value), node);
        Ok(Ok(()))
    }

    /// Puts the program and its link into the tarball.
    fn place(
        &mut self,
        wrapper: &VendorWrapper,
        (file, content): (&FileId, Content),
        name: &str,
        tree: &mut Tree,
    ) {
        let own = wrapper.from.value.rsplit('/').next().unwrap_or_default();
        let own = self.placed.entry(file.clone()).or_insert_with(|| own.to_owned());
        let node = Node::File { content, is_executable: true };
        tree.0.insert(format!("{DIRECTORY}/{own}"), node);
        if own != name {
            tree.0.insert(format!("{DIRECTORY}/{name}"), Node::Link(own.clone()));
        }
    }
}

/// Says what a manifest lacks for a program.
fn refuse(manifest: &VendorManifest, wrapper: &VendorWrapper) -> Option<Diagnostic> {
    if !wrapper.replace.is_empty() {
        let message =
            format!("`{}` is a program, so Cabane cannot replace text in it", wrapper.from.value);
        let hint =
            format!("replace text in the file that it reads:\nedit:\n  {}: []", data_of(wrapper));
        return Some(manifest.diagnostic(&wrapper.from, &message).with_hint(&hint));
    }
    let knows_its_place =
        manifest.environment.iter().any(|(_, value)| value.contains("$mpi_prefix"));
    if knows_its_place {
        return None;
    }
    let message = format!(
        "`{}` is a program, and no variable names the directory of the MPI for it",
        wrapper.from.value
    );
    let hint = "add the variable:\nenvironment:\n  OPAL_PREFIX: $mpi_prefix";
    Some(manifest.diagnostic(&wrapper.from, &message).with_hint(hint))
}

fn no_data(manifest: &VendorManifest, wrapper: &VendorWrapper, path: &str) -> Diagnostic {
    let message = format!(
        "`{}` is a program, and the tarball does not have `{path}`, which names its compiler",
        wrapper.from.value
    );
    let hint = "add the file to `files`, and name it: `data: share/openmpi/mpicc-wrapper-data.txt`";
    manifest.diagnostic(wrapper.data.as_ref().unwrap_or(&wrapper.from), &message).with_hint(hint)
}

/// The file that says what a program calls: lines `key=value`.
struct Data {
    lines: Vec<String>,
}

impl Data {
    fn new(text: &str) -> Self {
        Self { lines: text.lines().map(str::to_owned).collect() }
    }

    fn value(&self, key: &str) -> Option<&str> {
        self.lines.iter().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
    }

    /// The variable that names another compiler, such as `OMPI_CC`.
    fn variable(&self) -> Option<String> {
        let parts = [self.value("project_short")?.trim(), self.value("compiler_env")?.trim()];
        let is_word = |text: &&str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        parts.iter().all(is_word).then(|| parts.join("_"))
    }

    /// Returns the text with a compiler that is found anywhere, and so that programs find the
    /// libraries beside the wrapper.
    fn for_any_place(self, compiler: &str) -> Vec<u8> {
        let mut text = String::new();
        for line in self.lines {
            text.push_str(&match line.split_once('=') {
                Some(("compiler", _)) => format!("compiler={compiler}"),
                Some(("linker_flags", flags)) => format!(
                    "linker_flags={} -Wl,-rpath,${{libdir}} {}",
                    flags.trim_end(),
                    wrapper::NO_RUNPATH
                ),
                _ => line,
            });
            text.push('\n');
        }
        text.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: &str = "# comment\nproject_short=OMPI\ncompiler_env=CC\ncompiler=/opt/vendor/cc\n\
                        linker_flags= -lvendor  \nlibdir=${libdir}\n";

    #[test]
    fn a_file_of_data_names_the_variable_for_another_compiler() {
        let variables = [DATA, "compiler_env=CC\n", "project_short=a b\ncompiler_env=CC\n"]
            .map(|text| Data::new(text).variable());
        assert_eq!(variables, [Some("OMPI_CC".to_owned()), None, None]);
    }

    #[test]
    fn a_file_of_data_is_changed_in_its_compiler_and_its_linker_flags_only() {
        let changed = String::from_utf8(Data::new(DATA).for_any_place("gcc")).unwrap();
        let expected = "# comment\nproject_short=OMPI\ncompiler_env=CC\ncompiler=gcc\n\
                        linker_flags= -lvendor -Wl,-rpath,${libdir} -Wl,--disable-new-dtags\n\
                        libdir=${libdir}\n";
        assert_eq!(changed, expected);
    }
}
