// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the administrator allows the set-uid helper to do.

use std::fmt::Write as _;
use std::path::Path;

use cabane_privileged::{ImageOwners, LocalStage, Policy};

use super::{Verdict, compare};

/// Reads a policy; what is printed is read as the same.
pub fn run(bytes: &[u8]) -> Verdict {
    // The file is read as text, or not at all.
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Verdict::Refused;
    };
    match Policy::parse(text) {
        Ok(policy) => check(&policy),
        Err(error) => {
            let message = error.to_string();
            if error.line == 0 || error.line > text.lines().count() {
                return Verdict::Wrong(format!("there is no such line: {message}"));
            }
            // Not everybody may read what is in the file.
            if message.chars().any(char::is_control) || !message.is_ascii() {
                return Verdict::Wrong(format!("this cannot be shown: {message:?}"));
            }
            Verdict::Refused
        }
    }
}

fn check(policy: &Policy) -> Verdict {
    if let Some(path) = policy.mount_points.iter().find(|path| !is_harmless(path)) {
        return Verdict::Wrong(format!("{} may be covered", path.display()));
    }
    let printed = print(policy);
    compare(policy, &printed, Policy::parse(&printed))
}

fn is_harmless(path: &Path) -> bool {
    let text = path.to_string_lossy();
    let is_plain = text.len() > 1
        && text.starts_with('/')
        && text[1..].split('/').all(|name| !["", ".", ".."].contains(&name));
    let closed = ["/dev", "/proc", "/run", "/sys"];
    is_plain && !closed.iter().any(|closed| path.starts_with(closed))
}

fn print(policy: &Policy) -> String {
    // Every field, so that a new one is not left out.
    let Policy {
        mount_points,
        image_owners,
        image_filesystems,
        fuse_images,
        verified_images,
        verified_signatures,
        images_per_user,
        idle,
        root_images,
        root_binds,
        stage_memory,
        stage_local,
        unpacked_images,
    } = policy;
    let mut text = String::new();
    for path in mount_points {
        let _ = writeln!(text, "mount-point {}", path.display());
    }
    let owners = match image_owners {
        ImageOwners::Any => "any".to_owned(),
        ImageOwners::Listed(owners) => {
            let owners: Vec<String> = owners.iter().map(ToString::to_string).collect();
            owners.join(" ")
        }
    };
    let _ = writeln!(text, "image-owners {owners}");
    let _ = writeln!(text, "images-per-user {images_per_user}");
    let switches = [
        ("fuse-images", *fuse_images),
        ("verified-signatures", *verified_signatures),
        ("root-images", *root_images),
    ];
    for (name, is_on) in switches {
        let _ = writeln!(text, "{name} {}", if is_on { "yes" } else { "no" });
    }
    let _ = writeln!(text, "verified-images {}", verified_images.display());
    let _ = writeln!(text, "unpacked-images {}", unpacked_images.display());
    let _ = writeln!(text, "idle-seconds {}", idle.as_secs());
    if let Some(kinds) = image_filesystems {
        let _ = writeln!(text, "image-filesystems {}", kinds.join(" "));
    }
    for path in root_binds {
        let _ = writeln!(text, "root-bind {}", path.display());
    }
    if let Some(bytes) = stage_memory {
        let _ = writeln!(text, "stage-memory {}", bytes >> 20);
    }
    if let Some(LocalStage { directory, limit }) = stage_local {
        let _ = writeln!(text, "stage-local {} {}", limit >> 20, directory.display());
    }
    text
}
