// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The list of images that the kernel may read, whichever user owns them.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cabane_label::escape;
use cabane_mount::{Policy, RootHash};
use cabane_report::{IoContext, Result};
use cabane_site::Context;
use jiff::Timestamp;

use crate::{in_one_step, name_of, root_hash_of};

/// What becomes of images in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// They are added.
    Add,
    /// They are removed.
    Remove,
}

/// An image of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its root hash.
    pub root_hash: RootHash,
    /// Its label or path.
    pub name: String,
    /// The line, which may be another one than that in the list if the image was there.
    pub line: String,
    /// Whether the list was changed for it.
    pub is_new: bool,
}

/// Returns where this system has its list: where the policy says, or the usual place.
#[must_use]
pub fn policy_list() -> PathBuf {
    let policy = Policy::read().map(|policy| policy.verified_images);
    policy.unwrap_or_else(|_| Policy::VERIFIED_IMAGES.into())
}

/// Adds images to a list, or removes them, and returns what became of each. Without a list only the
/// lines are returned.
///
/// The list is written anew, and appears by one rename. Others who change it at the same time wait.
///
/// # Errors
///
/// Those of [`root_hash_of`], and of writing the list.
pub fn change(
    context: &Context,
    images: &[String],
    change: Change,
    list: Option<&Path>,
) -> Result<Vec<Listed>> {
    // Before the lock: this reads the whole images.
    let found = images.iter().map(|image| root_hash_of(context, image));
    let found = found.collect::<Result<Vec<_>>>()?;
    let _lock = list.map(lock).transpose()?;
    let before = list.map(read).transpose()?.unwrap_or_default();
    let mut lines: Vec<String> = before.lines().map(str::to_owned).collect();
    let mut listed = Vec::new();
    for (located, root_hash) in found {
        let is_of = |line: &String| line.split_whitespace().next() == Some(root_hash.as_str());
        let was_there = lines.iter().any(is_of);
        let name = name_of(&located);
        let date = Timestamp::now().strftime("%Y-%m-%d");
        let line = format!("{root_hash} {date} {}", escape(&name));
        match change {
            Change::Add if !was_there => lines.push(line.clone()),
            Change::Add => {}
            Change::Remove => lines.retain(|line| !is_of(line)),
        }
        let is_new = was_there == (change == Change::Remove);
        listed.push(Listed { root_hash, name, line, is_new });
    }
    if let Some(list) = list.filter(|_| listed.iter().any(|one| one.is_new)) {
        let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        write(list, &text)?;
    }
    Ok(listed)
}

/// Locks the directory of a list, which is made if there is none.
fn lock(list: &Path) -> Result<File> {
    let failed = || format!("lock the directory of {}", list.display());
    let directory = list.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory).or_failed(failed)?;
    let lock = File::open(directory).or_failed(failed)?;
    lock.lock().or_failed(failed)?;
    Ok(lock)
}

fn read(list: &Path) -> Result<String> {
    match fs::read_to_string(list) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        read => read.or_failed(|| format!("read {}", list.display())),
    }
}

fn write(list: &Path, text: &str) -> Result<()> {
    let failed = || format!("write {}", list.display());
    in_one_step(list, |new| {
        let mut file = File::create_new(new).or_failed(failed)?;
        file.set_permissions(fs::Permissions::from_mode(0o644)).or_failed(failed)?;
        file.write_all(text.as_bytes()).or_failed(failed)?;
        file.sync_all().or_failed(failed)
    })
}
