// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Options about changes of the host that several commands have.

use std::path::PathBuf;

use cabane_impact::{Change, HostFacts};
use cabane_report::Result;
use clap::Args;

/// Changes of the host, or of what is known about a package.
#[derive(Debug, Args)]
pub(crate) struct HostChangeArgs {
    /// Software of the host gets another version: glibc, python, nvidia-driver, or a package of the host; repeatable
    #[arg(long, value_name = "NAME=VERSION")]
    change: Vec<String>,
    /// A library of the host disappears; repeatable
    #[arg(long, value_name = "SONAME")]
    remove: Vec<String>,
    /// The host becomes the one that `cabane system probe --facts FILE` described
    #[arg(long, value_name = "FILE")]
    host: Option<PathBuf>,
    /// With --host: ignore what is missing on this host, too
    #[arg(long, value_name = "FILE", requires = "host")]
    from: Option<PathBuf>,
    /// A container image that others are built on is replaced: `debian:13`, a digest, or
    /// `debian:13@sha256:…` with the new digest; repeatable
    #[arg(long, value_name = "IMAGE")]
    base: Vec<String>,
    /// A package must not be used any more: `zlib@:1.3.0`; repeatable
    #[arg(long, value_name = "SPEC")]
    package: Vec<String>,
}

impl HostChangeArgs {
    /// Whether packages are named, so that those of the images have to be known.
    pub(crate) fn names_packages(&self) -> bool {
        !self.package.is_empty()
    }

    /// Reads the changes, in the order of the options.
    ///
    /// # Errors
    ///
    /// A text that is no change, a file that cannot be read.
    pub(crate) fn changes(&self) -> Result<Vec<Change>> {
        let mut changes = Vec::new();
        for text in &self.change {
            changes.push(Change::version(text)?);
        }
        for text in &self.remove {
            changes.push(Change::removed(text)?);
        }
        if let Some(path) = &self.host {
            let from = self.from.as_deref().map(HostFacts::read).transpose()?;
            let facts = Box::new(HostFacts::read(path)?);
            changes.push(Change::Host { facts, from: from.map(Box::new) });
        }
        for text in &self.base {
            changes.push(Change::base(text)?);
        }
        for text in &self.package {
            changes.push(Change::Package { pattern: text.parse()? });
        }
        Ok(changes)
    }
}
