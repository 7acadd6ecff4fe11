// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the administrator allows the set-uid helper to do.

use std::fmt::Write as _;
use std::path::Path;

use cabane_mount::{ImageOwners, Policy};

use super::{Target, Verdict, compare};

pub(super) const TARGET: Target = Target {
    name: "policy",
    run,
    dictionary: &[
        "mount-point ",
        "image-owners ",
        "images-per-user ",
        "idle-seconds ",
        "root-images ",
        "yes",
        "any",
        "root",
        "0",
        "4294967295",
        "4294967296",
        "-1",
        "+1",
        "/a",
        "/a/b",
        "/.",
        "/..",
        "//",
        "/",
        "/proc",
        "/run/x",
        "#",
        "\n",
        "\r\n",
        "\t",
        " ",
        "\u{1b}",
        "\u{a0}",
        "é",
    ],
};

fn run(bytes: &[u8]) -> Verdict {
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
            // What stands in the file is not for those who may not read it.
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
        && text[1..]
            .split('/')
            .all(|name| !["", ".", ".."].contains(&name));
    let closed = ["/dev", "/proc", "/run", "/sys"];
    is_plain && !closed.iter().any(|closed| path.starts_with(closed))
}

fn print(policy: &Policy) -> String {
    let mut text = String::new();
    for path in &policy.mount_points {
        let _ = writeln!(text, "mount-point {}", path.display());
    }
    let owners = match &policy.image_owners {
        ImageOwners::Any => "any".to_owned(),
        ImageOwners::Listed(owners) => {
            let owners: Vec<String> = owners.iter().map(ToString::to_string).collect();
            owners.join(" ")
        }
    };
    let _ = writeln!(text, "image-owners {owners}");
    let _ = writeln!(text, "images-per-user {}", policy.images_per_user);
    let roots = if policy.root_images { "yes" } else { "no" };
    let _ = writeln!(text, "root-images {roots}");
    let _ = writeln!(text, "idle-seconds {}", policy.idle.as_secs());
    text
}
