// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How container engines of Slurm clusters name an image: `[USER@][REGISTRY#]IMAGE[:TAG]`, or the
//! path of a squashfs file.

use cabane_label::{
    Expected, ImageDescription, MountPoint, ParseError, ParseErrorKind, UenvDescription,
};

/// The registry of names that name none, and what its own images are below.
const HUB: (&str, &str) = ("docker.io", "library");

const SCHEMES: [&str; 4] = ["oci:", "oci-archive:", "docker-archive:", "sif:"];

/// Reads the name of a container image, or the path of one, as a root file system.
///
/// A name becomes one with its registry, `docker://docker.io/library/debian:12` for `debian:12`. The
/// user in it is left out: credentials are those that are stored for the registry.
///
/// # Errors
///
/// A character that no such name has.
pub fn container_image(text: &str) -> Result<UenvDescription, ParseError> {
    let refuse = |offset, character| {
        let kind = ParseErrorKind::Character { part: Expected::Image, character };
        Err(ParseError::new(Expected::Image, text, offset, kind))
    };
    // It becomes one of a list, separated by commas and spaces around them.
    let inner = text.trim();
    let start = text.len() - text.trim_start().len();
    let is_wrong = |offset: usize, one: char| {
        one == ',' || one.is_control() || !(start..start + inner.len()).contains(&offset)
    };
    if let Some((offset, character)) = text.char_indices().find(|(at, one)| is_wrong(*at, *one)) {
        return refuse(offset, character);
    }
    if text.starts_with(['/', '.']) {
        let mut image: UenvDescription = text.parse()?;
        if matches!(image.image, ImageDescription::Path(_)) && image.mount_point.is_none() {
            image.mount_point = Some(MountPoint::root());
        }
        return Ok(image);
    }
    let name = text.strip_prefix("docker://").unwrap_or(text);
    // Archives of containers, and names in the words of other tools.
    if SCHEMES.iter().any(|scheme| text.starts_with(scheme)) || name.contains("://") {
        return text.parse();
    }
    let is_right = |one: char| one.is_ascii_alphanumeric() || "._-/:@#".contains(one);
    let start = text.len() - name.len();
    if let Some((offset, character)) = name.char_indices().find(|(_, one)| !is_right(*one)) {
        return refuse(start + offset, character);
    }
    let (registry, name) = parts(name);
    if name.is_empty() || registry.is_empty() {
        return Err(ParseError::new(Expected::Image, text, start, ParseErrorKind::Empty));
    }
    let is_of_hub = registry == HUB.0 && !name.contains('/');
    let name = if is_of_hub { format!("{}/{name}", HUB.1) } else { name.to_owned() };
    // Without a dot, a host would be read as a part of the name.
    let is_clear = is_host(registry);
    format!("docker://{registry}{}{name}", if is_clear { '/' } else { '#' }).parse()
}

/// Whether the first part of a name is a host by its form.
fn is_host(text: &str) -> bool {
    text == "localhost" || text.contains(['.', ':'])
}

/// Returns the registry and the name there.
fn parts(name: &str) -> (&str, &str) {
    let (registry, name) = match name.split_once('#') {
        Some((registry, name)) => (Some(registry), name),
        None => (None, name),
    };
    let without_user = |text| match str::split_once(text, '@') {
        Some((_, rest)) if !rest.starts_with("sha256:") => rest,
        _ => text,
    };
    let Some(registry) = registry else {
        let name = without_user(name);
        return match name.split_once('/') {
            Some((host, rest)) if is_host(host) => (host, rest),
            _ => (HUB.0, name),
        };
    };
    match without_user(registry) {
        // The address of the same registry.
        "registry-1.docker.io" | "index.docker.io" => (HUB.0, name),
        registry => (registry, name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        container_image(text).unwrap().to_string()
    }

    #[test]
    fn names_get_their_registry() {
        let digest = "66da5000bf8b540e".repeat(4);
        for (text, expected) in [
            ("debian:12", "docker://docker.io/library/debian:12"),
            ("library/ubuntu:24.04", "docker://docker.io/library/ubuntu:24.04"),
            ("docker.io#ubuntu", "docker://docker.io/library/ubuntu"),
            ("nvcr.io#nvidia/pytorch:22.12-py3", "docker://nvcr.io/nvidia/pytorch:22.12-py3"),
            ("nvcr.io/nvidia/pytorch:25.11-py3", "docker://nvcr.io/nvidia/pytorch:25.11-py3"),
            ("docker://nvcr.io#nvidia/pytorch", "docker://nvcr.io/nvidia/pytorch"),
            ("$oauth", ""),
            ("me@ghcr.io#lab/tool:1", "docker://ghcr.io/lab/tool:1"),
            ("me@registry#lab/tool:1", "docker://registry#lab/tool:1"),
            ("docker://registry#lab/tool:1", "docker://registry#lab/tool:1"),
            ("me@lab/tool:1", "docker://docker.io/lab/tool:1"),
            ("localhost:5000/tool", "docker://localhost:5000/tool"),
            ("http://127.0.0.1:5000/tool:1", "http://127.0.0.1:5000/tool:1"),
            ("oras://ghcr.io/lab/tool.sif:1", "oras://ghcr.io/lab/tool.sif:1"),
            ("/shared/tool.sqsh", "/shared/tool.sqsh:/"),
            ("./tool.sqsh", "./tool.sqsh:/"),
            ("/shared/tool.sif", "/shared/tool.sif"),
        ] {
            let found = container_image(text).map_or(String::new(), |image| image.to_string());
            assert_eq!(found, expected, "{text}");
        }
        let pinned = format!("lab/tool@sha256:{digest}");
        assert_eq!(read(&pinned), format!("docker://docker.io/{pinned}"));
    }

    #[test]
    fn other_characters_are_refused_at_their_place() {
        let problem = |text: &str| container_image(text).map_err(|error| error.position());
        assert_eq!(problem("a b"), Err(1));
        assert_eq!(problem("docker://a,b"), Err(10));
        assert_eq!(problem("./tool.sif "), Err(10));
        assert_eq!(problem(" ./tool.sif"), Err(0));
        assert_eq!(problem("ghcr.io#"), Err(0));
        assert_eq!(problem("#tool"), Err(0));
        assert_eq!(problem(""), Err(0));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_list_of_one_image_or_refused(text in "[a-z0-9@#:/., \\n-]{0,24}") {
            if let Ok(image) = container_image(&text) {
                let list = cabane_label::parse_uenv_list(&image.to_string());
                proptest::prop_assert_eq!(list.unwrap_or_default(), vec![image]);
            }
        }
    }
}
