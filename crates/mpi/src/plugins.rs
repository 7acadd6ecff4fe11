// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Plug-ins that a site adds to a substitute: providers of libfabric, modules of UCX, and networks
//! for NCCL and RCCL.
//!
//! Each kind is known by its name, and is found through a variable of its own or through the search
//! path. What it needs is carried like what the parts of the substitute need.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::candidate::Side;
use crate::plan::{Carried, Places, each_once};
use crate::verdict::Warning;
use crate::{Loader, Tree};

/// The plug-ins of a substitute.
#[derive(Debug, Default)]
pub(crate) struct Plugins {
    /// Each file.
    pub(crate) files: Vec<PathBuf>,
    /// What was named and is not there.
    missing: Vec<PathBuf>,
}

/// What finds a plug-in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// libfabric, in directories.
    Provider,
    /// UCX, in one directory.
    Module,
    /// NCCL or RCCL, by a name that is looked for in the search path.
    Network,
    /// The search path.
    Other,
}

impl Kind {
    fn of(name: &str) -> Self {
        if name.ends_with("-fi.so") {
            Self::Provider
        } else if ["libuct_", "libucm_", "libucs_"].iter().any(|start| name.starts_with(start)) {
            Self::Module
        } else if network(name).is_some() {
            Self::Network
        } else {
            Self::Other
        }
    }
}

/// Returns what NCCL puts between its beginning and the end of a name: `-ofi` of
/// `libnccl-net-ofi.so`.
fn network(name: &str) -> Option<&str> {
    let rest = name.strip_prefix("libnccl-net").or_else(|| name.strip_prefix("librccl-net"))?;
    let rest = rest.split_once(".so")?.0;
    (rest.is_empty() || rest.starts_with('-')).then_some(rest)
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

impl Plugins {
    /// Finds the files: those of a directory are all that end in `.so`.
    pub(crate) fn find(tree: &Tree, paths: &[PathBuf]) -> Self {
        let mut found = Self::default();
        for path in paths {
            let mut files: Vec<PathBuf> = if tree.is_file(path) {
                vec![path.clone()]
            } else {
                let paths = tree.names(path).into_iter().map(|name| path.join(name));
                paths.filter(|path| path.extension().is_some_and(|end| end == "so")).collect()
            };
            if files.is_empty() {
                found.missing.push(path.clone());
            }
            found.files.append(&mut files);
        }
        found
    }

    fn of_kind(&self, wanted: Kind) -> impl Iterator<Item = &Path> {
        let files = self.files.iter().map(PathBuf::as_path);
        files.filter(move |path| Kind::of(name_of(path)) == wanted)
    }

    /// Adds the variables through which they are found.
    pub(crate) fn add_variables(&self, variables: &mut BTreeMap<String, String>, places: &Places) {
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        let providers = places.directories(self.of_kind(Kind::Provider));
        if !providers.is_empty() {
            let own = variables.get("FI_PROVIDER_PATH").cloned();
            let all: Vec<String> = providers.iter().map(text).chain(own).collect();
            variables.insert("FI_PROVIDER_PATH".to_owned(), all.join(":"));
        }
        if let Some(directory) = places.directories(self.of_kind(Kind::Module)).first() {
            variables.insert("UCX_MODULE_DIR".to_owned(), text(directory));
        }
        let mut networks = self.of_kind(Kind::Network).filter_map(|path| network(name_of(path)));
        if let Some(name) = networks.find_map(|name| name.strip_prefix('-')) {
            variables.insert("NCCL_NET_PLUGIN".to_owned(), name.to_owned());
        }
    }

    /// Returns the directories in which the loader must find them.
    pub(crate) fn directories(&self, places: &Places) -> Vec<PathBuf> {
        let all = self.of_kind(Kind::Network).chain(self.of_kind(Kind::Other));
        each_once(places.directories(all).into_iter())
    }

    /// Returns what must be put into the private directory.
    pub(crate) fn carry(&self, tree: &Tree, places: &Places) -> Vec<Carried> {
        let one = |path: &PathBuf| {
            let source = tree.find(path)?.outside;
            Some(Carried { source, target: places.of(path) })
        };
        self.files.iter().filter(|_| places.private.is_some()).filter_map(one).collect()
    }

    /// Returns what is not there, and what they need and is nowhere.
    pub(crate) fn warnings(&self, side: Side<'_>, has: impl Fn(&str) -> bool) -> Vec<Warning> {
        let absent = self.missing.iter().map(|path| Warning::NoPlugin { path: path.clone() });
        let loader = Loader::new(side.tree).library_path(side.library_path);
        let incomplete = self.files.iter().filter_map(|path| {
            let missing = loader.follow(path)?.missing.into_iter().map(|one| one.name);
            let names: Vec<String> = missing.filter(|name| !has(name)).collect();
            (!names.is_empty()).then(|| Warning::PluginLacks { path: path.clone(), names })
        });
        absent.chain(incomplete).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_known_by_their_names() {
        assert_eq!(network("libnccl-net-ofi.so"), Some("-ofi"));
        assert_eq!(network("librccl-net.so"), Some(""));
        assert_eq!(network("libnccl-network.so"), None);
        assert!(Kind::of("libcxi-fi.so") == Kind::Provider);
        assert!(Kind::of("libuct_cuda.so") == Kind::Module);
    }
}
