// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What an image says about the name under which its container image was requested.

/// With what the name of a file begins.
const FILES: [&str; 5] = ["oci:", "oci-archive:", "docker-archive:", "sif:", "dir:"];
/// What the names of files end in.
const ENDINGS: [&str; 5] = [".gz", ".zst", ".bz2", ".tar", ".sif"];
/// The name of an image whose reference has none.
const NO_NAME: &str = "container";

/// Returns what an image records of a reference: of a file its name without its directory. The same file
/// elsewhere, or for another user, then gives the same image.
pub(crate) fn recorded(reference: &str) -> String {
    match in_file(reference) {
        Some((scheme, path, name)) => {
            let name = name.map_or_else(String::new, |name| format!(":{name}"));
            format!("{scheme}{}{name}", end_of(path))
        }
        None => reference.to_owned(),
    }
}

/// Returns the name of an image by its reference: `tool` for `ghcr.io/my-lab/tool:2.1` and for
/// `sif:/scratch/tool.sif`. So the label that a user chooses for an image does not change the image.
pub(crate) fn name_of(reference: &str) -> String {
    let name = if let Some((_, path, _)) = in_file(reference) {
        ENDINGS.iter().fold(end_of(path), |name, ending| name.strip_suffix(ending).unwrap_or(name))
    } else {
        let name = reference.split_once('@').map_or(reference, |(name, _)| name);
        let end = end_of(name);
        end.split_once(':').map_or(end, |(end, _)| end)
    };
    let is_fit = |one: char| one.is_ascii_alphanumeric() || matches!(one, '_' | '-' | '.');
    let name: String = name.chars().map(|one| if is_fit(one) { one } else { '-' }).collect();
    let name = name.trim_start_matches(['-', '.']);
    if name.is_empty() { NO_NAME.to_owned() } else { name.to_owned() }
}

/// Cuts the name of a file into its kind, its path, and the name of an image in it.
fn in_file(reference: &str) -> Option<(&'static str, &str, Option<&str>)> {
    let (scheme, rest) =
        FILES.iter().find_map(|scheme| Some((*scheme, reference.strip_prefix(scheme)?)))?;
    let (path, name) = rest.split_once(':').map_or((rest, None), |(path, name)| (path, Some(name)));
    Some((scheme, path, name))
}

fn end_of(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_a_file_is_not_recorded() {
        let seen = [
            "oci:/home/alice/layout:site/tool:1.0",
            "sif:/scratch/tool.sif",
            "ghcr.io/my-lab/tool:2.1",
        ]
        .map(recorded);
        assert_eq!(seen, ["oci:layout:site/tool:1.0", "sif:tool.sif", "ghcr.io/my-lab/tool:2.1"]);
        assert_eq!(seen.each_ref().map(|one| recorded(one)), seen);
    }

    #[test]
    fn the_name_is_that_of_the_repository_or_file() {
        let seen = [
            "ghcr.io/my-lab/tool:2.1",
            "http://localhost:5000/tool@sha256:ab",
            "docker-archive:/a/b.tar.gz:x",
            "sif:/scratch/tool.sif",
            "dir:/",
        ]
        .map(name_of);
        assert_eq!(seen, ["tool", "tool", "b", "tool", "container"]);
    }
}
