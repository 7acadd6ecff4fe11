// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a package is called, from the label of the image or as it was typed.

use std::path::{Path, PathBuf};

use cabane_label::escape;
use cabane_report::{Kind, Report, Result};
use cabane_resolve::ConcreteImage;

use crate::{Format, PackageRequest};

const MAINTAINER: &str = "Site administrators <root@localhost>";
const PREFIX: &str = "cabane-image-";
const LONGEST: usize = 100;

/// What a package is called, and what it says about itself.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its name, as both formats allow it.
    pub name: String,
    /// Its version, without the release.
    pub version: String,
    /// Which package of this version it is.
    pub release: String,
    /// Its architecture, as the format calls it; `all` or `noarch` without programs.
    pub architecture: String,
    /// Its maintainer.
    pub maintainer: String,
    /// What it is for, in one line.
    pub summary: String,
    /// The license; nothing if none is known.
    pub license: String,
    format: Format,
}

impl Identity {
    pub(crate) fn new(request: &PackageRequest, image: &ConcreteImage) -> Result<Self> {
        let label = image.label.as_ref();
        let (version, release) = match (&request.version, label) {
            (Some(typed), _) => match typed.split_once('-') {
                Some((version, release)) => (version.to_owned(), release.to_owned()),
                None => (typed.clone(), "1".to_owned()),
            },
            (None, Some(label)) => (numbered(label.version.as_str()), numbered(label.tag.as_str())),
            (None, None) => return Err(unlabeled("--package-version")),
        };
        let name = match (&request.name, label) {
            (Some(typed), _) => typed.clone(),
            (None, Some(label)) => named_after(label.name.as_str()),
            (None, None) => return Err(unlabeled("--name")),
        };
        check(
            "name",
            &name,
            is_name(&name),
            "--name",
            "lower-case letters, digits, and `+-.`, at least two",
        )?;
        let whole = format!("{version}-{release}");
        let starts = version.starts_with(|one: char| one.is_ascii_digit());
        check(
            "version",
            &whole,
            starts && is_version(&version) && is_version(&release),
            "--package-version",
            "a digit, then letters, digits, and `.+~`, and a release behind `-`",
        )?;
        let summary = request.description.as_ref().or(image.meta.description.as_ref());
        let summary = summary.map(|text| one_line(text)).filter(|text| !text.is_empty());
        let maintainer = request.maintainer.as_deref().unwrap_or(MAINTAINER);
        let is_line = !maintainer.trim().is_empty() && one_line(maintainer) == maintainer;
        check("maintainer", maintainer, is_line, "--maintainer", "`NAME <ADDRESS>`, in one line")?;
        Ok(Self {
            summary: summary.unwrap_or_else(|| format!("software of the image {name}")),
            name,
            version,
            release,
            architecture: String::new(),
            maintainer: maintainer.to_owned(),
            license: String::new(),
            format: request.format,
        })
    }

    /// Takes the architecture of the programs and libraries, as the kernel calls it.
    pub(crate) fn set_architecture(&mut self, found: &[String]) -> Result<()> {
        let known = match (self.format, found) {
            (Format::Deb, []) => "all",
            (Format::Rpm, []) => "noarch",
            (Format::Deb, [one]) => match one.as_str() {
                "x86_64" => "amd64",
                "aarch64" => "arm64",
                "ppc64le" => "ppc64el",
                "riscv64" => "riscv64",
                _ => "",
            },
            (Format::Rpm, [one]) => one.as_str(),
            _ => "",
        };
        if known.is_empty() {
            let found = found.join(" and ");
            let message = format!("no package is for programs and libraries of {}", escape(&found));
            return Err(Report::new(Kind::BadInput, message));
        }
        known.clone_into(&mut self.architecture);
        Ok(())
    }

    /// Takes the license that was typed, or those of the packages.
    pub(crate) fn set_license(&mut self, request: &PackageRequest, found: &[String]) -> Result<()> {
        self.license = match &request.license {
            Some(typed) => typed.clone(),
            None => one_line(&found.join(" AND ")),
        };
        let is_line = one_line(&self.license) == self.license;
        check(
            "license",
            &self.license,
            is_line,
            "--license",
            "one line, such as `Apache-2.0 OR MIT`",
        )
    }

    /// Version and release.
    pub fn full_version(&self) -> String {
        format!("{}-{}", self.version, self.release)
    }

    /// Returns the file to write.
    pub(crate) fn file(&self, request: &PackageRequest) -> PathBuf {
        let (name, version, architecture) = (&self.name, self.full_version(), &self.architecture);
        let usual = match self.format {
            Format::Deb => format!("{name}_{version}_{architecture}.deb"),
            Format::Rpm => format!("{name}-{version}.{architecture}.rpm"),
        };
        match request.output.as_deref() {
            None => PathBuf::from(usual),
            Some(path) if path.is_dir() => path.join(usual),
            Some(path) => path.to_owned(),
        }
    }

    /// Where the package has its own files.
    pub(crate) fn directory(&self) -> PathBuf {
        Path::new("/usr/share").join(&self.name)
    }

    /// Where the package has its license.
    pub(crate) fn documentation(&self) -> PathBuf {
        Path::new("/usr/share/doc").join(&self.name)
    }
}

fn unlabeled(option: &str) -> Report {
    let message = "the image has no label to name the package after";
    Report::new(Kind::Usage, message).hinted(format!("name it: `{option}`"))
}

fn check(what: &str, text: &str, is_good: bool, option: &str, allowed: &str) -> Result<()> {
    if is_good && text.len() <= 4096 {
        return Ok(());
    }
    let message = format!("`{}` cannot be the {what} of a package", escape(text));
    let hint = format!("give another one with `{option}`: {allowed}");
    Err(Report::new(Kind::Usage, message).hinted(hint))
}

/// Leaves out the `v` of `v1`, and writes what no version of a package has in another way: `1.0-rc1` comes before
/// `1.0`, and is `1.0~rc1`.
fn numbered(text: &str) -> String {
    const BEFORE: [&str; 5] = ["rc", "alpha", "beta", "pre", "dev"];
    let is_number = |rest: &&str| rest.starts_with(|one: char| one.is_ascii_digit());
    let number = text.strip_prefix('v').filter(is_number).unwrap_or(text);
    let mut pieces = number.split(['-', '_']);
    let mut version = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let is_before = BEFORE.iter().any(|word| piece.starts_with(word));
        version.push(if is_before { '~' } else { '.' });
        version.push_str(piece);
    }
    version
}

/// Packages of the distribution may have the name of an image, and would be replaced.
fn named_after(name: &str) -> String {
    format!("{PREFIX}{}", name.replace('_', "-").to_ascii_lowercase())
}

/// Tells whether both formats allow the name of a package.
pub(crate) fn is_name(name: &str) -> bool {
    let is_inner =
        |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || "+-.".contains(one);
    let starts = name.starts_with(|one: char| one.is_ascii_lowercase() || one.is_ascii_digit());
    starts && (2..=LONGEST).contains(&name.len()) && name.chars().all(is_inner)
}

fn is_version(text: &str) -> bool {
    let is_inner = |one: char| one.is_ascii_alphanumeric() || ".+~".contains(one);
    (1..=LONGEST).contains(&text.len()) && text.chars().all(is_inner)
}

/// Returns a text as one line that a terminal can show.
pub(crate) fn one_line(text: &str) -> String {
    let words = text.split(|one: char| one.is_whitespace() || one.is_control());
    let line = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    escape(&line).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_labels_become_versions_of_packages() {
        let seen = ["24.11", "v1", "1.0-rc1", "2024_05", "latest"].map(numbered);
        assert_eq!(seen, ["24.11", "1", "1.0~rc1", "2024.05", "latest"]);
    }

    #[test]
    fn names_that_a_package_manager_reads_otherwise_are_refused() {
        for name in ["", "a", "-a", "a b", "A1", "a/../b", "a\nb", "a%{b}", "a_b", &"a".repeat(101)]
        {
            assert!(!is_name(name), "{name}");
        }
        for version in ["", "1:2", "1-2", "1 2", "1\n2", "%{x}"] {
            assert!(!is_version(version), "{version}");
        }
        assert!(is_name("site-tools") && is_name("g++12.1") && is_version("24.11~rc1+b2"));
    }

    #[test]
    fn a_text_of_an_image_becomes_one_harmless_line() {
        let text = "\nDepends:\tbash\n\n\u{1b}[31mred\u{202e}";
        assert_eq!(one_line(text), "Depends: bash [31mred\\u{202e}");
    }
}
