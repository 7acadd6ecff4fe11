// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the user of a job can do about a mount that failed on a node: less, and other things,
//! than who started `cabane` himself.

use cabane_mount::PrivilegedError as Error;

/// Returns what helps, if anything is known.
fn hint(error: &Error) -> Option<String> {
    let text = match error {
        Error::MountPointNotAllowed { .. }
        | Error::Refused { .. }
        | Error::RootRefused { .. }
        | Error::RootNotAllowed => {
            "an administrator can allow more in /etc/cabane/mount.policy of the node; `srun cabane \
             run IMAGES -- COMMAND` mounts without privilege"
        }
        Error::LoopDevice { .. } => {
            "the node needs the loop module: an administrator can try `modprobe loop` there"
        }
        Error::TooManyImages { .. } => {
            "an administrator can give up images that are not in use with `cabane clean --mounts` on \
             the node"
        }
        Error::StageNotAllowed { .. } | Error::NoSpaceForCopy { .. } => {
            "`--uenv-stage=no` mounts the image from where it is; an administrator can allow more \
             in /etc/cabane/mount.policy of the node"
        }
        Error::Untrusted { .. } | Error::Policy { .. } => {
            "an administrator can fix it: run `cabane slurm check` on the node"
        }
        Error::Namespace { .. } => return None,
        _ => return error.hint(),
    };
    Some(text.to_owned())
}

/// Returns an error with its causes and what helps, as lines for the user of a job.
pub(crate) fn lines(error: &Error) -> Vec<String> {
    let mut lines = vec![error.to_string()];
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        lines.push(format!("cause: {cause}"));
        source = cause.source();
    }
    lines.extend(hint(error).map(|hint| format!("hint: {hint}")));
    lines
}
