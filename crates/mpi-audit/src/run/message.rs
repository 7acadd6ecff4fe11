// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The line that says what went wrong. Pure.

/// What a line says that names a cause.
const TELLING: [&str; 22] = [
    "error while loading shared libraries",
    "' not found (required by",
    "symbol lookup error",
    "undefined symbol",
    "fatal error:",
    "undefined reference",
    "cannot find -l",
    "command not found",
    "No such file or directory",
    "Permission denied",
    "not enough slots",
    "is not available",
    "no usable",
    "unable to",
    "could not find",
    "cannot",
    "PMI server not found",
    "failed",
    "Segmentation fault",
    "SIGSEGV",
    "Error",
    "error",
];

/// What a line says that names none, even though it looks so.
const EMPTY: [&str; 12] = [
    "YOUR APPLICATION TERMINATED",
    "BAD TERMINATION",
    "EXIT CODE:",
    "RUNNING AT",
    "CLEANING UP",
    "Primary job  terminated normally",
    "mpirun detected that one or more",
    "prterun detected that one or more",
    "mpiexec detected that one or more",
    "compilation terminated",
    "ld returned 1 exit status",
    "Intel MPI",
];

/// How long a line is shown.
const LONGEST: usize = 200;

/// Returns the line of a program's output that tells most about why it failed.
///
/// The loader and the compiler name the cause in one line, MPI libraries in the middle of a
/// frame or of a stack of calls. The first line with a known text is taken, the texts in the
/// order of how sure they are; without any, the first line that is more than decoration.
pub fn first_meaningful(text: &str) -> Option<String> {
    let lines = || {
        let lines = text.lines().map(str::trim);
        lines.filter(|line| is_meaningful(line))
    };
    let telling = TELLING
        .iter()
        .find_map(|text| lines().find(|line| line.to_lowercase().contains(&text.to_lowercase())));
    let line = telling.or_else(|| lines().next())?;
    let short: String = line.chars().take(LONGEST).collect();
    Some(short)
}

fn is_meaningful(line: &str) -> bool {
    let is_decoration = !line.chars().any(char::is_alphanumeric);
    let is_frame = line.starts_with("===") || line.starts_with('=');
    !is_decoration && !is_frame && !EMPTY.iter().any(|text| line.contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        first_meaningful(text).unwrap_or_default()
    }

    #[test]
    fn the_loader_is_heard_among_the_noise_of_a_launcher() {
        let text = "
--------------------------------------------------------------------------
mpirun detected that one or more processes exited with non-zero status
--------------------------------------------------------------------------
./p: /lib/libfabric.so.1: version `FABRIC_1.9' not found (required by /opt/libmpi.so.12)
./p: /lib/libfabric.so.1: version `FABRIC_1.9' not found (required by /opt/libmpi.so.12)
===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   EXIT CODE: 127
";
        assert!(message(text).contains("version `FABRIC_1.9' not found"));
    }

    #[test]
    fn a_cause_is_found_behind_other_lines() {
        let text = "program.c:1: note: something\nprogram.c:16:10: fatal error: mpi.h: No such \
                    file or directory\ncompilation terminated.\n";
        let output = message(text);
        assert!(output.starts_with("program.c:16:10: fatal error: mpi.h"), "{output}");
    }

    #[test]
    fn without_a_known_text_the_first_line_with_letters_is_taken() {
        assert_eq!(message("\n-----\n  it is Tuesday  \nmore\n"), "it is Tuesday");
    }

    #[test]
    fn silence_gives_no_message() {
        assert_eq!(first_meaningful("\n---\n====\n"), None);
    }
}
