// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the names of bases mean now.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use cabane_builder::{Base, Containers};
use cabane_container::digest;
use cabane_label::{Digest, escape};
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_site::settings::find_program;
use cabane_site::{Context, env_vars};

use crate::containers::OwnContainers;

/// Returns what a base means now: the digest `sha256:…` of an image, of the list of images of all platforms
/// where there is one, or the commit of a Git repository.
///
/// # Errors
///
/// There is none of this name, or its registry or server does not answer.
pub fn look_up(context: &Context, base: &Base) -> Result<String> {
    let containers = OwnContainers { context: context.clone() };
    match base {
        Base::Container { name, platform } => {
            // The name of an image in a registry is no path.
            let found = containers.find(name, Path::new("/"), platform.as_deref())?;
            Ok(found.index.unwrap_or(found.digest))
        }
        Base::Image(label) => {
            let found = containers.images(std::slice::from_ref(label));
            let of_label = found.map(|found| found.images.into_iter().map(|one| one.digest).next());
            let digest = match of_label {
                Ok(Some(digest)) => digest,
                // Root images are looked up in another way.
                _ => containers.find(&base.to_string(), Path::new("/"), None)?.digest,
            };
            let digest = digest.parse::<Digest>().map_or(digest, |one| digest::written(&one));
            Ok(digest)
        }
        Base::Git { repo, reference } => commit_of(context, repo, reference.as_deref()),
    }
}

/// Asks a Git repository for the commit of a branch or tag, without getting it.
fn commit_of(context: &Context, repo: &str, reference: Option<&str>) -> Result<String> {
    let path = context.calling.get(OsStr::new(env_vars::PATH)).map(AsRef::as_ref);
    let git = find_program("git", path).ok_or_else(|| {
        Report::new(Kind::NotFound, "`git` is not installed")
            .hinted("install `git`: recipes for Spack need it".to_owned())
    })?;
    // In the order in which Git itself looks: a tag before a branch. `^{}` is the commit of a signed tag.
    let names = match reference {
        None => vec!["HEAD".to_owned()],
        Some(name) => vec![
            format!("refs/tags/{name}^{{}}"),
            format!("refs/tags/{name}"),
            format!("refs/heads/{name}"),
            format!("refs/remotes/origin/{name}"),
        ],
    };
    let mut command = Command::new(git);
    command.args(["ls-remote", "--quiet", "--", repo]).args(&names);
    // There is no terminal to ask for a password.
    command.env("GIT_TERMINAL_PROMPT", "0");
    let output = command.output().or_failed(|| "run git".to_owned())?;
    if !output.status.success() {
        let message = format!("cannot list the branches of {}", escape(repo));
        let detail = escape(&String::from_utf8_lossy(&output.stderr)).into_owned();
        return Err(Report::new(Kind::Failure, message).detailed(detail));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once('\t')).collect();
    let of_name = |name: &String| lines.iter().find(|(_, found)| found == name);
    names.iter().find_map(of_name).map(|(commit, _)| (*commit).to_owned()).ok_or_else(|| {
        let name = escape(reference.unwrap_or("HEAD"));
        let message = format!("{} has no branch or tag `{name}`", escape(repo));
        Report::new(Kind::NotFound, message)
    })
}
