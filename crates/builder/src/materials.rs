// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From what an image was made, for those who sign that.

use std::collections::BTreeMap;
use std::path::Path;

use cabane_label::Digest;

use crate::git_commit::GitCommit;
use crate::job::Job;
use crate::marker::Marker;
use crate::metadata::{RecipeFiles, digest_of};
use crate::{BuildError, Plan, Result, StepName, fingerprint, program};

/// The files of the metadata that describe the result.
const RESULTS: [&str; 4] = ["configure.json", "needs.json", "packages.json", "sbom.spdx.json"];
const LOCKS: &str = "lock";

/// From what an image was made.
#[derive(Clone, Debug)]
pub struct Materials {
    /// The recipe.
    pub recipe: Material,
    /// Its path in its Git repository.
    pub recipe_path: Option<String>,
    /// Everything else, as far as it is known.
    pub others: Vec<Material>,
    /// The programs that made it: `uv` → `0.13.8`.
    pub versions: BTreeMap<String, String>,
    /// Files in its metadata that describe it.
    pub results: Vec<Material>,
    /// Changes when the build would give another result.
    pub fingerprint: Digest,
}

/// Something from which an image was made, or a file that came out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Material {
    /// Its name.
    pub name: String,
    /// Where others get it.
    pub uri: Option<String>,
    /// Its digests, by algorithm: `sha256`, `gitCommit`, and `dirHash1` for a directory.
    pub digests: BTreeMap<String, String>,
    /// Whether its files differ from those of the commit.
    pub is_modified: Option<bool>,
}

impl Material {
    pub(crate) fn new(name: impl Into<String>, algorithm: &str, digest: impl Into<String>) -> Self {
        let digests = [(algorithm.to_owned(), digest.into())].into();
        Self { name: name.into(), digests, ..Self::default() }
    }

    pub(crate) fn at(mut self, uri: Option<String>) -> Self {
        self.uri = uri;
        self
    }

    fn of_file(name: impl Into<String>, path: &Path) -> Result<Self> {
        let digest = fingerprint::of_file(path).map_err(BuildError::file("read", path))?;
        Ok(Self::new(name, "sha256", digest.as_str()))
    }

    /// A directory of which Git may know the commit. Returns also its path in the repository.
    fn of_directory(
        job: &Job,
        name: &str,
        directory: &Path,
        files: &RecipeFiles,
    ) -> Result<(Self, Option<String>)> {
        let mut material = Self::new(name, "dirHash1", directory_hash(files)?);
        let git = program::find("git", job.request.programs.git.as_deref()).ok();
        let known = files.iter().collect();
        let commit = git.and_then(|git| GitCommit::of(&git, directory, &known));
        let Some(commit) = commit else {
            return Ok((material, None));
        };
        material.digests.insert("gitCommit".to_owned(), commit.commit);
        material.is_modified = Some(commit.is_modified);
        Ok((material.at(commit.address), Some(commit.path)))
    }
}

/// Finds out from what an image was made. The build is over.
///
/// # Errors
///
/// The recipe has changed since; a file cannot be read.
pub fn materials(plan: &Plan) -> Result<Materials> {
    let job = &plan.job;
    let files = RecipeFiles::find(job)?;
    // A recipe that had another engine may have left a mark of a step that this one does not have.
    if plan.steps.iter().any(|step| step.name == StepName::Metadata)
        && let Some(built) = Marker::read(&job.layout, StepName::Metadata)
        && let Some(of_recipe) = built.inputs.get("recipe")
        && *of_recipe != digest_of(&files)?
    {
        return Err(BuildError::refused(
            "the recipe changed during the build",
            "run the same command again",
        ));
    }
    let directory = &job.recipe_dir.path;
    let (recipe, recipe_path) = Material::of_directory(job, "recipe", directory, &files)?;
    let mut others = job.engine.materials()?;
    if let Some(directory) = job.engine.system_directory() {
        let files = RecipeFiles::of_directory(directory)?;
        others.push(Material::of_directory(job, "system", directory, &files)?.0);
        if let Some(mirrors) = &job.request.mirrors {
            others.push(Material::of_file("mirrors", mirrors)?);
        }
    }
    let mut versions = job.engine.tools();
    versions.insert("cabane".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    Ok(Materials {
        recipe,
        recipe_path,
        others,
        versions,
        results: results(&job.layout.meta())?,
        fingerprint: plan
            .steps
            .last()
            .map_or_else(|| fingerprint::of_bytes(b""), |step| step.fingerprint.clone()),
    })
}

fn results(meta: &Path) -> Result<Vec<Material>> {
    let mut results = Vec::new();
    for name in RESULTS {
        let path = meta.join(name);
        if path.is_file() {
            results.push(Material::of_file(format!("meta/{name}"), &path)?);
        }
    }
    let locks = meta.join(LOCKS);
    if locks.is_dir() {
        for (relative, path) in RecipeFiles::of_directory(&locks)?.iter() {
            let name = format!("meta/{LOCKS}/{}", relative.display());
            results.push(Material::of_file(name, path)?);
        }
    }
    Ok(results)
}

/// The digest `dirHash1` of in-toto: the sha256 of a list with the sha256 and the path of each file,
/// sorted by path, as `sha256sum` prints it.
fn directory_hash(files: &RecipeFiles) -> Result<String> {
    let mut lines: Vec<(String, String)> = Vec::new();
    for (relative, path) in files.iter() {
        let digest = fingerprint::of_file(path).map_err(BuildError::file("read", path))?;
        lines.push((relative.to_string_lossy().into_owned(), digest.as_str().to_owned()));
    }
    // Bytes of whole paths, not their parts.
    lines.sort();
    let line = |(path, digest): &(String, String)| format!("{digest}  {path}\n");
    let list: Vec<String> = lines.iter().map(line).collect();
    Ok(fingerprint::of_bytes(list.concat().as_bytes()).as_str().to_owned())
}

/// Splits `sha256:…` into the algorithm and the digest.
pub(crate) fn split_digest(digest: &str) -> (&str, &str) {
    digest.split_once(':').unwrap_or(("sha256", digest))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_directory_has_the_digest_that_other_tools_compute() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir(root.join("a")).unwrap();
        for (name, text) in [("a/b", "1"), ("a-b", "2"), ("config.yaml", "3"), (".git", "4")] {
            fs::write(root.join(name), text).unwrap();
        }
        let found = directory_hash(&RecipeFiles::of_directory(root).unwrap()).unwrap();
        let script = "find . -type f ! -name '.*' -printf '%P\\n' | LC_ALL=C sort \
                      | xargs sha256sum | sha256sum";
        let output = std::process::Command::new("sh")
            .args(["-c", script])
            .current_dir(root)
            .output()
            .unwrap();
        let expected = String::from_utf8(output.stdout).unwrap();
        assert_eq!(Some(found.as_str()), expected.split(' ').next());
    }
}
