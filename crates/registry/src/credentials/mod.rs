// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where the passwords of registries are found: token files, the files of Docker and Podman
//! and the helpers that those name, netrc.
//!
//! A password is never shown, put on a command line, or given to a host it is not meant for.
//! Errors name files, lines and programs, and never what is written in them. Which files
//! there are is the caller's knowledge.

mod credential;
mod helper;
mod login_file;
mod netrc;
mod read;
mod sources;
mod token_file;

pub use credential::{Credential, Secret};
pub use sources::CredentialSources;
