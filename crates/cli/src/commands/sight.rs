// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a command in a root image will see, for those who look into the image before.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use cabane_mount::Operation;
use cabane_resolve::ConcreteEnvironment;
use cabane_run::loaded::Additions;
use cabane_run::{RootRequest, seen_in_root, variables_in};

/// What a command in a root image sees beside the image.
pub(crate) struct Sight {
    /// What of this machine is seen in it: targets and sources.
    pub(crate) seen: Vec<(PathBuf, PathBuf)>,
    /// Where programs are looked for.
    pub(crate) path: OsString,
    /// Where the loader looks for libraries before all others.
    pub(crate) library_path: String,
}

impl Sight {
    pub(crate) fn of(
        calling: &BTreeMap<OsString, OsString>,
        environment: &ConcreteEnvironment,
        additions: &Additions,
        root: &RootRequest,
    ) -> Self {
        let here = std::env::current_dir().ok();
        let operations = seen_in_root(root, additions, calling, here.as_deref());
        let named = additions.binds.iter();
        let named = named.map(|bind| (bind.target.as_path().to_owned(), bind.source.clone()));
        let of_operation = |operation: &Operation| match operation {
            Operation::Bind { source, target, .. } => Some((target.clone(), source.clone())),
            _ => None,
        };
        let inside = variables_in(environment, additions, root, calling);
        let value = |name: &str| inside.get(OsStr::new(name)).cloned().unwrap_or_default();
        Self {
            seen: operations
                .iter()
                .filter_map(of_operation)
                .chain(named)
                .collect(),
            path: value("PATH"),
            library_path: value("LD_LIBRARY_PATH").to_string_lossy().into_owned(),
        }
    }
}
