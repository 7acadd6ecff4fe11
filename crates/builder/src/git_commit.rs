// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The commit to which a directory belongs, and whether its files are those of the commit.
//!
//! A recipe may come from anywhere, with a configuration of Git that names programs. So Git is asked only
//! questions for which it runs nothing and gets nothing: `git status`, for example, would run filters.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A commit, and what is known of the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GitCommit {
    /// The commit.
    pub(crate) commit: String,
    /// Where others get it: `git+https://…`; a directory of this machine is no such address.
    pub(crate) address: Option<String>,
    /// The path of the directory in the repository; empty for the whole of it.
    pub(crate) path: String,
    /// Whether files differ from those of the commit.
    pub(crate) is_modified: bool,
}

impl GitCommit {
    /// Asks Git about a directory, of which `files` are the files, by their path in it. `None` if it does
    /// not belong to a commit.
    pub(crate) fn of(git: &Path, directory: &Path, files: &BTreeMap<&Path, &Path>) -> Option<Self> {
        let ask = |arguments: &[&str]| ask(git, directory, arguments, &[]);
        let line = |arguments: &[&str]| {
            let answer = String::from_utf8(ask(arguments)?).ok()?;
            Some(answer.trim_end_matches('\n').to_owned())
        };
        let commit = line(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])?;
        let prefix = line(&["rev-parse", "--show-prefix"])?;
        let committed = entries(&ask(&["ls-tree", "-r", "-z", "HEAD"])?);
        if committed.is_empty() {
            // A directory that Git does not know, below one that it does.
            return None;
        }
        let origin = line(&["config", "--get", "remote.origin.url"]);
        Some(Self {
            commit,
            address: origin.as_deref().and_then(public_address),
            path: prefix.trim_end_matches('/').to_owned(),
            is_modified: is_modified(git, directory, files, &committed),
        })
    }
}

/// Asks Git something in a directory. It answers, or `None`.
fn ask(git: &Path, directory: &Path, arguments: &[&str], input: &[u8]) -> Option<Vec<u8>> {
    let mut command = Command::new(git);
    // Git must fetch nothing, not even objects that a partial clone lacks.
    command.args(["-c", "protocol.allow=never", "-c", "core.fsmonitor=false"]).args(arguments);
    command.current_dir(directory).env("GIT_OPTIONAL_LOCKS", "0").env("GIT_NO_LAZY_FETCH", "1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut stdin = child.stdin.take()?;
    let input = input.to_vec();
    // It may answer before it has read everything.
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().ok()?;
    let is_written = writer.join().is_ok_and(|written| written.is_ok());
    (output.status.success() && is_written).then_some(output.stdout)
}

/// The files of a commit, by their path: `MODE TYPE OBJECT<tab>PATH`.
fn entries(list: &[u8]) -> BTreeMap<PathBuf, String> {
    let entry = |entry: &[u8]| {
        let tab = entry.iter().position(|byte| *byte == b'\t')?;
        let (head, path) = entry.split_at(tab);
        let head = str::from_utf8(head).ok()?;
        let mut fields = head.split(' ');
        // What a link leads to is not in the commit, at least not there.
        let is_link = fields.next()? == "120000";
        let object = if is_link { "" } else { fields.nth(1)? };
        Some((PathBuf::from(OsStr::from_bytes(path.get(1..)?)), object.to_owned()))
    };
    list.split(|byte| *byte == 0).filter_map(entry).collect()
}

fn is_modified(
    git: &Path,
    directory: &Path,
    files: &BTreeMap<&Path, &Path>,
    committed: &BTreeMap<PathBuf, String>,
) -> bool {
    if committed.keys().any(|path| directory.join(path).symlink_metadata().is_err()) {
        return true;
    }
    let mut paths = Vec::new();
    for path in files.values() {
        let bytes = path.as_os_str().as_bytes();
        if bytes.contains(&b'\n') {
            return true;
        }
        paths.extend_from_slice(bytes);
        paths.push(b'\n');
    }
    let hash = ["hash-object", "--no-filters", "--stdin-paths"];
    let Some(objects) = ask(git, directory, &hash, &paths) else {
        return true;
    };
    let objects = String::from_utf8_lossy(&objects);
    let objects: Vec<&str> = objects.lines().collect();
    let is_committed = |(relative, object): (&&Path, &&str)| {
        committed.get(*relative).is_some_and(|known| known == object)
    };
    objects.len() != files.len() || !files.keys().zip(&objects).all(is_committed)
}

/// The address by which others find a repository, without user and password: `git+https://host/path`.
pub(crate) fn public_address(address: &str) -> Option<String> {
    let (scheme, rest) = match address.split_once("://") {
        Some((scheme @ ("https" | "http" | "ssh" | "git"), rest)) => (scheme, rest.to_owned()),
        Some(_) => return None,
        // `git@host:path`, as `scp` writes it.
        None => {
            let (host, path) = address.split_once(':')?;
            if host.is_empty() || host.contains('/') {
                return None;
            }
            ("ssh", format!("{host}/{}", path.trim_start_matches('/')))
        }
    };
    let (authority, path) = rest.split_once('/')?;
    let host = authority.rsplit('@').next().filter(|host| !host.is_empty())?;
    // A token may be there as well.
    let path = path.split(['?', '#']).next().filter(|path| !path.is_empty())?;
    let is_usual = |c: char| c.is_ascii_graphic();
    let is_address = host.chars().chain(path.chars()).all(is_usual);
    // Homes of users are named after them.
    let is_public = !path.starts_with('~') && !path.starts_with("home/");
    (is_address && is_public).then(|| format!("git+{scheme}://{host}/{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_neither_users_nor_passwords() {
        for (address, expected) in [
            (
                "https://github.com/eth-cscs/alps-uenv.git",
                Some("git+https://github.com/eth-cscs/alps-uenv.git"),
            ),
            ("https://alice:secret@example.org/r?token=x", Some("git+https://example.org/r")),
            (
                "git@github.com:eth-cscs/alps-uenv.git",
                Some("git+ssh://github.com/eth-cscs/alps-uenv.git"),
            ),
            ("alice@login1:~/recipes", None),
            ("ssh://login1/home/alice/recipes", None),
            ("/home/alice/recipes", None),
            ("../recipes", None),
            ("file:///home/alice/recipes", None),
            ("ext::sh -c true", None),
        ] {
            assert_eq!(public_address(address).as_deref(), expected, "{address}");
        }
    }

    #[test]
    fn the_list_of_a_commit_is_read() {
        let list =
            b"100644 blob aa\tconfig.yaml\x00120000 blob bb\tlink\x00100755 blob cc\tbin/a b\x00";
        let entries = entries(list);
        let expected = [("bin/a b", "cc"), ("config.yaml", "aa"), ("link", "")];
        let expected = expected.map(|(path, object)| (path.into(), object.to_owned()));
        assert_eq!(entries, BTreeMap::from(expected));
    }
}
