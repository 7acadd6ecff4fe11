// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane catalogue serve`: a catalog in the browser of this machine.

use std::path::PathBuf;

use cabane_report::Result;
use clap::Args;

use crate::setup::Setup;

/// Show a catalog in the browser of this machine
#[derive(Debug, Args)]
#[command(after_help = "\
Other machines cannot reach it, and other users of this machine do not know the
random path in the address. Press Ctrl-C to stop it. To publish the site, copy
the directory to a web server.

Examples:
  cabane catalogue serve site
  cabane catalogue serve site --port 8000")]
pub(crate) struct ServeArgs {
    /// The directory of the catalog
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The port; default: a free one
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
}

pub(crate) fn serve(setup: &Setup, args: &ServeArgs) -> Result<()> {
    cabane_catalogue::serve(&args.directory, args.port, |address| {
        setup.printer.data(format_args!("{address}\n"));
    })
}
