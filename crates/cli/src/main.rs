// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The `cabane` command.

#![deny(unsafe_code)]

#[cfg(all(target_arch = "x86_64", any(target_env = "musl", test)))]
#[allow(unsafe_code, reason = "the names of the C library are defined")]
mod memcpy;

use std::process::ExitCode;

// musl's allocator maps and unmaps pages for each size of allocation: 80 system calls in one start.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    cabane_cli::main(std::env::args_os())
}
