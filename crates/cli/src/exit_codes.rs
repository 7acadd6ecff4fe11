// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The exit codes: part of the interface, documented in `docs/reference/exit-codes.md`.

use cabane_evidence::Outcome;
use cabane_report::Kind;

/// An exit code and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExitCode {
    /// The number.
    pub(crate) code: u8,
    /// The name used in the documentation.
    pub(crate) name: &'static str,
    /// What has happened, a sentence.
    pub(crate) meaning: &'static str,
}

/// Defines a constant for each code, and which kinds of failures have it.
macro_rules! exit_codes {
    ($($(#[doc = $meaning:literal])+ $name:ident = $code:literal $(, $kind:ident)?;)+) => {
        $(
            $(#[doc = $meaning])+
            pub(crate) const $name: ExitCode = ExitCode {
                code: $code,
                name: stringify!($name),
                meaning: concat!($($meaning),+),
            };
        )+
        /// All exit codes, in ascending order.
        pub(crate) const ALL: &[ExitCode] = &[$($name),+];

        impl From<Kind> for ExitCode {
            fn from(kind: Kind) -> Self {
                match kind {
                    $($(Kind::$kind => $name,)?)+
                }
            }
        }
    };
}

exit_codes! {
    /// The command succeeded.
    SUCCESS = 0;
    /// A failure without a code of its own, such as a file that cannot be read or written, or a full disk.
    FAILURE = 1, Failure;
    /// The command line could not be understood.
    USAGE = 2, Usage;
    /// A label, view, recipe, configuration file, or image is malformed.
    BAD_INPUT = 3, BadInput;
    /// No image, view, or repository matches.
    NOT_FOUND = 4, NotFound;
    /// Several images match, but the command needs exactly one.
    AMBIGUOUS = 5, Ambiguous;
    /// A repository is missing or corrupt, or the user may not open it.
    REPOSITORY = 6, Repository;
    /// A build failed.
    BUILD = 7, Build;
    /// `cabane status`, with `--error-if-unset` or `--save`, found no loaded environment.
    NOT_LOADED = 8, NotLoaded;
    /// `cabane diff --exit-code` found a difference, `cabane import --check` a tag that had moved, `cabane lock --check` a lock file that does not match, or `cabane impact --exit-code` an image that breaks.
    DIFFERENT = 9;
    /// `cabane doctor` found that nothing can be mounted, that something is broken, or that the named image breaks on this host.
    UNHEALTHY = 10;
    /// A registry could not be reached, denied the request, or sent an invalid answer.
    REGISTRY = 11, Registry;
    /// An image lacks a required signature, or differs from what was signed.
    UNTRUSTED = 12, Untrusted;
    /// The gate of a channel rejected an image: `cabane channel promote`.
    REJECTED = 13, Rejected;
    /// The requested MPI cannot work for this program, so it was refused: by `cabane mpi swap`, `cabane run --mpi`, or in a step of a job with `--uenv-mpi`.
    NOT_SWAPPED = 14, NotSwapped;
    /// `cabane mpi swap --probe` could not prove that the other MPI works, or the ranks of a step with `--uenv-mpi` would not find each other. The command did not run.
    NOT_PROVEN = 15, NotProven;
    /// `cabane check`: a check of an image failed. `cabane pipeline`: the build or a check of a cell failed.
    CHECK_FAILED = 16;
    /// `cabane check` and `cabane pipeline`: nothing failed, but some checks could not run, so the image may or may not work.
    CHECK_ERROR = 17;
    /// `cabane check` and `cabane pipeline`: there was nothing to test.
    NOT_TESTED = 18;
    /// `cabane mpi audit`: the node was too busy or had too few processors to judge an installation. Repeat the audit on an idle node.
    INCONCLUSIVE = 19;
    /// `cabane run` or `cabane start` could not start the command. The exit code of the command itself is passed through.
    NOT_STARTED = 125, NotStarted;
    /// The command exists but cannot be started.
    NOT_EXECUTABLE = 126, NotExecutable;
    /// The command does not exist.
    COMMAND_NOT_FOUND = 127, CommandNotFound;
    /// The command was interrupted by Ctrl-C or another signal.
    INTERRUPTED = 130, Interrupted;
}

/// Returns the code for a failure where the program is called by the name of uenv, which has one for
/// all. A command that cannot be started has the code that shells know.
pub(crate) fn of_uenv(kind: Kind) -> ExitCode {
    match kind {
        Kind::NotExecutable => NOT_EXECUTABLE,
        Kind::CommandNotFound => COMMAND_NOT_FOUND,
        _ => FAILURE,
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Passed => SUCCESS,
            Outcome::Failed => CHECK_FAILED,
            Outcome::Error => CHECK_ERROR,
            Outcome::NotTested => NOT_TESTED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn every_code_has_one_meaning() {
        assert!(ALL.windows(2).all(|pair| pair[0].code < pair[1].code));
    }
}
