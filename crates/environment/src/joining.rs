// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whether a command shares its namespaces with others, and with whom.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use cabane_report::{Kind, Report, Result};
use cabane_run::{Company, Joining};
use cabane_site::Context;
use cabane_site::env_vars;
use serde::{Deserialize, Serialize};

/// With whom to share namespaces.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct JoinOptions {
    /// With processes in the same environment, or those that give the same name; nothing for
    /// what the variable says.
    pub join: Option<String>,
    /// With no process.
    pub no_join: bool,
}

impl JoinOptions {
    /// Returns what was typed, or else what the variable says.
    ///
    /// # Errors
    ///
    /// A variable that is no text.
    pub fn joining(&self, context: &Context) -> Result<Joining> {
        let variable = context.calling.get(OsStr::new(env_vars::CABANE_JOIN));
        let company = if self.no_join {
            Company::None
        } else if let Some(name) = &self.join {
            named(name)
        } else if let Some(value) = variable {
            let error =
                || Report::new(Kind::Usage, format!("{} is not a text", env_vars::CABANE_JOIN));
            of_variable(value.to_str().ok_or_else(error)?)
        } else {
            Company::Ranks
        };
        Ok(Joining {
            company,
            rank_variables: env_vars::RANKS.to_vec(),
            local_rank_variables: env_vars::LOCAL_RANKS.to_vec(),
            directories: directories(&context.calling),
        })
    }
}

fn named(name: &str) -> Company {
    match name {
        "" => Company::Everybody,
        _ => Company::Named(name.to_owned()),
    }
}

fn of_variable(value: &str) -> Company {
    match value {
        "" | "auto" => Company::Ranks,
        "no" => Company::None,
        "yes" => Company::Everybody,
        name => named(name),
    }
}

/// Returns the places in which processes of a user on one node may find each other.
pub fn directories(calling: &BTreeMap<OsString, OsString>) -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let runtime = calling.get(OsStr::new(env_vars::XDG_RUNTIME_DIR));
    let own = runtime
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .map(|path| path.join("cabane"));
    // Both are memory or a disk of the node; anyone may make a directory there, so
    // one that someone else has made is passed over.
    let shared = ["/tmp", "/dev/shm"].map(|path| format!("{path}/cabane-{user}").into());
    own.into_iter().chain(shared).collect()
}
