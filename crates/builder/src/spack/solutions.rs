// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Solutions: what the solver answered to a problem, for all builds.
//!
//! Spack writes all that decides about a concretization as facts, has the solver answer
//! them, and computes patches and hashes of packages from the answer. Its cache keeps
//! answers under the facts, one for each group of specs. So after an edit of a package
//! only the groups whose facts changed are solved again, and hashes are always those of
//! the packages as they are.
//!
//! Before Spack 1.2 the cache kept hashes of packages as well, and did not notice an edit:
//! there it is off.

use std::path::Path;

use cabane_recipe::Yaml;

use super::ask::About;
use super::{SpackEngine, inputs};
use crate::fingerprint::digest_of;
use crate::layout::Inside;
use crate::{Result, cache, disk};

/// Solutions, below the cache.
const SOLUTIONS: &str = "spack/solutions";
/// The file of the system scope.
const FILE: &str = "concretizer.yaml";

/// Says in the configuration which solutions Spack may use.
pub(super) fn write(engine: &SpackEngine, about: &About) -> Result<()> {
    let is_used = about.solutions && !super::install::is_decided_again(engine);
    let mut settings = vec![("enable", is_used.into())];
    if is_used {
        // The facts name neither Spack nor the solver, and their code decides as well.
        let commit = engine.commits().remove("spack").unwrap_or_default();
        // Packages of bases are facts, too; what they were built from is not.
        let bases = engine.bases.inputs();
        let texts = [&*commit, &engine.solver.input].into_iter();
        let id = digest_of(texts.chain(bases.values().map(String::as_str))).id().to_string();
        let ours = || super::text_of(&Path::new(Inside::CACHE).join(SOLUTIONS));
        let place = engine.system.mirrors.concretizer_cache.clone().unwrap_or_else(ours);
        cache::note_use(&engine.request.cache_dir.join(SOLUTIONS).join(id.as_str()));
        settings.push(("url", format!("{place}/{id}").into()));
    }
    let mut concretizer = engine.system.settings.concretizer.clone();
    concretizer.insert("concretization_cache", Yaml::map(settings));
    let text = Yaml::map([("concretizer", concretizer.into())]).to_string();
    disk::put(&inputs::directory(&engine.layout).join("config").join(FILE), text)
}
