// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Options about the registry that several commands have.

use std::path::PathBuf;

use cabane_registry::Pushed;
use cabane_report::{Result, size};
use cabane_transfer::{Connection, RegistryRequest};
use clap::Args;

use crate::setup::Setup;

/// A registry, and the user who logs in.
#[derive(Debug, Args)]
pub(crate) struct RegistryArgs {
    /// The address of the registry: host and prefix, with http:// if it does not use HTTPS
    #[arg(long, value_name = "URL")]
    registry: Option<String>,
    /// A file with a token for the registry, or a directory with a file TOKEN
    #[arg(long, value_name = "PATH")]
    token: Option<PathBuf>,
    /// The user name for the token; default: your user name
    #[arg(long, value_name = "NAME")]
    username: Option<String>,
}

impl RegistryArgs {
    /// Returns what was typed.
    pub(crate) fn request(&self) -> RegistryRequest {
        RegistryRequest {
            registry: self.registry.clone(),
            token: self.token.clone(),
            username: self.username.clone(),
        }
    }

    /// As [`RegistryRequest::connect`].
    pub(crate) fn connect(&self, setup: &Setup) -> Result<Connection> {
        self.request().connect(setup)
    }
}

/// Says what was pushed.
pub(crate) fn print_pushed(setup: &Setup, pushed: &Pushed) {
    let image = &pushed.image;
    let (place, id) = (&image.place, image.digest.id());
    if pushed.unchanged {
        setup.note(format_args!("{place} already names the image {id}"));
        return;
    }
    let sent = if pushed.sent { "" } else { ", which the registry had already" };
    setup.note(format_args!("pushed {place} ({id}, {}{sent})", size(image.size)));
    if let Some(replaced) = &pushed.replaced {
        setup.note(format_args!("the label was taken from the image {}", replaced.id()));
    }
}
