// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a user types to say which image is meant, and where it goes.
//!
//! A description is only read here. Which image it is, and whether there is
//! one, is found out by resolving it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::digest::{is_digits, upper_case};
use crate::escape::escape;
use crate::mount_point::path_problem;
use crate::segment::namespace_length;
use crate::text::check_length;
use crate::{
    Digest, Expected, ImageId, LabelPattern, MountPoint, ParseError, ParseErrorKind, parse_list,
};

/// Which image is meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ImageDescription {
    /// The image whose label matches.
    Pattern(LabelPattern),
    /// The image with this short digest: exactly 16 lower-case digits.
    Id(ImageId),
    /// The image with this digest: exactly 64 lower-case digits.
    Digest(Digest),
    /// The image in this file; begins with `.` or `/`.
    Path(PathBuf),
    /// A container image, which is imported when it is first used: see [`is_container`].
    Container(String),
}

/// With what the text of a container image begins, unless it has `://`.
const CONTAINER_SCHEMES: [&str; 4] = ["docker-archive:", "oci-archive:", "oci:", "sif:"];
/// What the file of an image of Apptainer or Singularity ends in.
const SIF: &str = ".sif";
/// What the files of images, and those that name images, end in.
const FILES: [&str; 5] = ["squashfs", "sqfs", "erofs", "img", "toml"];

/// Returns whether a text names a container image outside of all repositories:
/// `docker://ghcr.io/my-lab/tool:2.1`, `ghcr.io#my-lab/tool:2.1`, `sif:FILE`, `FILE.sif`,
/// `oci:DIR`, `oci-archive:FILE`, or `docker-archive:FILE`. `docker-daemon:NAME` is one, too, which cannot be
/// read.
#[must_use]
pub fn is_container(text: &str) -> bool {
    let is_one = text.contains("://")
        || text.contains('#')
        || text.ends_with(SIF)
        || text.starts_with("docker-daemon:")
        || CONTAINER_SCHEMES.iter().any(|scheme| text.starts_with(scheme));
    is_one && !text.contains(char::is_control)
}

/// Returns the command that imports a container image, with a label made of its name:
/// `cabane import docker://ghcr.io/my-lab/tool:2.1 tool/2.1`.
#[must_use]
pub fn import_command(text: &str) -> String {
    let end = text.trim_end_matches('/').rsplit(['/', '#']).next().unwrap_or_default();
    let end = end.split_once('@').map_or(end, |(end, _)| end);
    let end = CONTAINER_SCHEMES.iter().find_map(|scheme| end.strip_prefix(scheme)).unwrap_or(end);
    let end = end.strip_suffix(SIF).unwrap_or(end);
    let (name, version) = end.split_once(':').unwrap_or((end, "1.0"));
    let part = |text: &str, other: &str| {
        let is_fit = |one: char| one.is_ascii_alphanumeric() || matches!(one, '_' | '-' | '.');
        let fit: String = text.chars().map(|one| if is_fit(one) { one } else { '-' }).collect();
        let fit = fit.trim_start_matches(['-', '.']);
        if fit.is_empty() { other.to_owned() } else { fit.to_owned() }
    };
    format!("cabane import {} {}/{}", escape(text), part(name, "NAME"), part(version, "1.0"))
}

/// Returns what to type if a text looks like a container image of a registry without its scheme:
/// `ghcr.io/my-lab/tool:2.1`, `localhost:5000/tool`.
pub(crate) fn hint_about_scheme(text: &str) -> Option<String> {
    let (host, image) = text.split_once('/')?;
    let (name, port) = host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_host = match port {
        Some(port) => !name.is_empty() && is_port(port),
        None => name == "localhost" || name.trim_start_matches('.').contains('.'),
    };
    let is_file = FILES.iter().any(|ending| text.rsplit('.').next() == Some(ending));
    let is_plain = !text.contains(|c: char| c.is_control() || c.is_whitespace() || c == '`');
    (is_host && !image.is_empty() && !text.starts_with(['.', '/']) && !is_file && is_plain)
        .then(|| format!("write `docker://{}` for a container image", escape(text)))
}

/// Makes the path in the text of a container image absolute, if it has one. Relative paths are
/// relative to `directory`.
#[must_use]
pub fn container_in(text: &str, directory: &Path) -> String {
    let scheme = CONTAINER_SCHEMES.iter().find(|scheme| text.starts_with(**scheme));
    let is_file = scheme.is_some() || (text.ends_with(SIF) && !text.contains("://"));
    if !is_file {
        return text.to_owned();
    }
    let scheme = scheme.copied().unwrap_or_default();
    let path = text.get(scheme.len()..).unwrap_or_default();
    // So Apptainer writes it.
    let path = directory.join(path.strip_prefix("//").unwrap_or(path));
    // A path that is no text was none before.
    path.to_str().map_or_else(|| text.to_owned(), |path| format!("{scheme}{path}"))
}

/// Which image is meant, and where it shall be mounted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UenvDescription {
    /// The image.
    pub image: ImageDescription,
    /// Where to mount it, if not where it was built for.
    pub mount_point: Option<MountPoint>,
}

/// Reads a list as `start` and `run` take it: `prgenv-gnu/24.11:v1,./tools.squashfs:/user-tools`.
pub fn parse_uenv_list(text: &str) -> Result<Vec<UenvDescription>, ParseError> {
    parse_list(text, Expected::UenvList, Expected::Uenv)
}

impl ImageDescription {
    /// Returns what the user may have meant instead, for when no such image is
    /// found.
    ///
    /// Some texts are correct patterns but look like something else: a digest
    /// with a digit missing, an id in upper case, the name of a file.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let Self::Pattern(pattern) = self else {
            return None;
        };
        let text = pattern.to_string();
        let is_hexadecimal = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let ending = text.rsplit('.').next().unwrap_or_default();
        if is_hexadecimal && text.len() == ImageId::LENGTH {
            return Some(format!(
                "an image id is written in lower case: `{}`",
                text.to_lowercase()
            ));
        }
        if is_hexadecimal && text.len() > 2 * ImageId::LENGTH {
            return Some(format!("a digest has 64 digits, and this has {}", text.len()));
        }
        if FILES.contains(&ending) {
            return Some(format!("write `./{text}` for the file of this name"));
        }
        hint_about_scheme(&text)
    }
}

impl FromStr for ImageDescription {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        check_length(text, Expected::Image)?;
        if text.is_empty() {
            return Err(ParseError::new(Expected::Image, text, 0, ParseErrorKind::Empty));
        }
        if is_container(text) {
            return Ok(Self::Container(text.to_owned()));
        }
        if text.starts_with(['.', '/']) {
            return parse_path(text).map(Self::Path);
        }
        if is_digits(text, ImageId::LENGTH) {
            return text.parse().map(Self::Id);
        }
        if is_digits(text, Digest::LENGTH) {
            return text.parse().map(Self::Digest);
        }
        if is_digits(&text.to_ascii_lowercase(), Digest::LENGTH) {
            return Err(upper_case(text, Expected::Digest));
        }
        text.parse().map(Self::Pattern)
    }
}

/// Reads the path of an image, which may hold everything but separators and
/// control characters.
fn parse_path(text: &str) -> Result<PathBuf, ParseError> {
    let Some((offset, kind)) = path_problem(text, Expected::Path) else {
        return Ok(PathBuf::from(text));
    };
    let is_colon = matches!(kind, ParseErrorKind::Character { character: ':', .. });
    let hint = is_colon.then(|| {
        // A hint is for reading; a path that does not fit on a line is not repeated.
        let path = if offset <= 80 { escape(&text[..offset]) } else { "./image.squashfs".into() };
        format!("what follows `:` is the mount point, an absolute path: `{path}:/user-environment`")
    });
    Err(ParseError::new(Expected::Path, text, offset, kind).with_hint(hint))
}

impl FromStr for UenvDescription {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        check_length(text, Expected::Uenv)?;
        // A container image is mounted at `/`, and has colons and slashes of its own.
        if is_container(text) {
            return Ok(Self { image: text.parse()?, mount_point: None });
        }
        let Some(colon) = mount_point_colon(text) else {
            return Ok(Self { image: text.parse()?, mount_point: None });
        };
        if colon == 0 {
            return Err(ParseError::new(
                Expected::Uenv,
                text,
                0,
                ParseErrorKind::MissingBefore { part: Expected::Image, separator: ":" },
            ));
        }
        let mount_point =
            text[colon + 1..].parse().map_err(|e: ParseError| e.within(text, colon + 1))?;
        let image = text[..colon].parse().map_err(|e: ParseError| e.within(text, 0))?;
        Ok(Self { image, mount_point: Some(mount_point) })
    }
}

/// Returns the place of the last colon, if a mount point follows it.
fn mount_point_colon(text: &str) -> Option<usize> {
    // In `build::/24.11` the version follows a namespace.
    let label = namespace_length(text).map_or(0, |length| length + 2);
    let colon = label + text[label..].rfind(':')?;
    text[colon + 1..].starts_with('/').then_some(colon)
}

impl fmt::Display for ImageDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern(pattern) => pattern.fmt(f),
            Self::Id(id) => id.fmt(f),
            Self::Digest(digest) => digest.fmt(f),
            Self::Path(path) => path.display().fmt(f),
            Self::Container(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for UenvDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.image.fmt(f)?;
        match &self.mount_point {
            None => Ok(()),
            Some(mount_point) => write!(f, ":{mount_point}"),
        }
    }
}
