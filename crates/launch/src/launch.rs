// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The last step: this process becomes the command.

use cabane_mount::Backend;
use cabane_report::{Kind, Report, Result};
use cabane_run::{Prepared, RunRequest, check_architectures, prepare};
use cabane_site::Context;
use cabane_site::settings::BackendChoice;

/// An environment and a command, ready to start.
#[derive(Debug)]
pub struct Launch {
    /// What is mounted and set.
    pub prepared: Prepared,
    /// Whether the user only wants to see it.
    pub is_dry_run: bool,
}

impl Launch {
    /// Chooses how to mount. With `is_nested`, another environment is around this one.
    pub(crate) fn prepare(
        context: &Context,
        request: RunRequest,
        is_dry_run: bool,
        is_nested: bool,
    ) -> Result<Self> {
        check_architectures(&request.environment)?;
        let mut prepared = prepare(request)?;
        // Where the helper has mounted, it does not do so again.
        if !is_nested {
            choose_helper(context, &mut prepared)
                .map_err(|error| error.with_kind(Kind::NotStarted))?;
        }
        for image in prepared.plan().unpacked() {
            let path = image.path.display();
            context.detail(format_args!("this node has {path} unpacked"));
        }
        for warning in prepared.warnings() {
            context.warning(warning);
            if let Some(hint) = warning.hint() {
                context.hint(hint);
            }
        }
        Ok(Self { prepared, is_dry_run })
    }
}

/// Mounts through the helper if the user wants that, or if it is better and possible.
fn choose_helper(context: &Context, prepared: &mut Prepared) -> Result<()> {
    let wanted = context.settings.backend.value;
    let is_better = wanted == BackendChoice::Auto && context.backend == Backend::UserNamespace;
    if wanted != BackendChoice::Helper && !is_better {
        return Ok(());
    }
    match context.helper().and_then(|helper| prepared.use_helper(helper)) {
        Ok(reasons) => {
            for reason in reasons {
                context.detail(format_args!("mounting through FUSE: {reason}"));
            }
            for image in prepared.plan().verified() {
                context.detail(format_args!("the kernel checks {}", image.path.display()));
            }
            Ok(())
        }
        Err(reason) if wanted == BackendChoice::Helper => {
            Err(Report::new(Kind::NotStarted, reason)
                .hinted("use `cabane doctor` to diagnose the helper".to_owned()))
        }
        Err(reason) => {
            context.detail(format_args!("mounting in a user namespace: {reason}"));
            Ok(())
        }
    }
}
