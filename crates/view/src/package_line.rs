// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A package on one line, for lists in which thousands are looked through.
//!
//! ```text
//! <name> TAB <version> TAB <hash> TAB <variants> TAB <compilers, separated by commas> TAB
//!        <operating system> TAB <target> TAB <manager> TAB <`external` or nothing>
//! ```
//!
//! What is not known is empty. Where a package lies and how large it is stands only in
//! `packages.json`.

use crate::{PackageList, PackageRecord};

const FIELDS: usize = 9;
const EXTERNAL: &str = "external";

/// A package of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackageLine<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its version.
    pub version: &'a str,
    /// The hash that tells it from other builds of the same version.
    pub hash: &'a str,
    /// Its variants and flags, as Spack writes them.
    pub variants: &'a str,
    /// The compilers that made it: `gcc@12.2.0,gcc-runtime@12.2.0`.
    pub compilers: &'a str,
    /// The operating system it was built on.
    pub os: &'a str,
    /// The processors it was built for.
    pub target: &'a str,
    /// What installed it.
    pub manager: &'a str,
    /// Whether it is a part of the system, and not of the image.
    pub external: bool,
}

impl<'a> PackageLine<'a> {
    /// Takes a line apart; `None` if it is none.
    #[must_use]
    pub fn read(line: &'a str) -> Option<Self> {
        let mut fields = line.splitn(FIELDS, '\t');
        let mut next = || fields.next();
        Some(Self {
            name: next().filter(|name| !name.is_empty())?,
            version: next()?,
            hash: next()?,
            variants: next()?,
            compilers: next()?,
            os: next()?,
            target: next()?,
            manager: next()?,
            external: match next()? {
                "" => false,
                EXTERNAL => true,
                _ => return None,
            },
        })
    }

    /// Returns its name and its version: `hdf5@1.14.3`.
    #[must_use]
    pub fn title(&self) -> String {
        match self.version {
            "" => self.name.to_owned(),
            version => format!("{}@{version}", self.name),
        }
    }
}

impl PackageList {
    /// Writes all packages, one on a line, in their order.
    #[must_use]
    pub fn to_lines(&self) -> String {
        self.packages.iter().map(line_of).collect()
    }
}

fn line_of(package: &PackageRecord) -> String {
    let fields: [&str; FIELDS] = [
        &package.name,
        &package.version,
        package.hash.as_deref().unwrap_or_default(),
        &package.variants,
        &package.compilers.join(","),
        package.os.as_deref().unwrap_or_default(),
        package.target.as_deref().unwrap_or_default(),
        &package.manager,
        if package.external { EXTERNAL } else { "" },
    ];
    fields.map(plain).join("\t") + "\n"
}

/// Tabs and ends of lines have a meaning here, and none in a name or a version.
fn plain(text: &str) -> String {
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_can_be_read_from_its_line() {
        let list = PackageList::new(vec![PackageRecord {
            name: "hdf5".to_owned(),
            version: "1.14.3".to_owned(),
            manager: "spack".to_owned(),
            variants: "+mpi\tapi=\n".to_owned(),
            compilers: vec!["gcc@12.2.0".to_owned(), "llvm@18".to_owned()],
            target: Some("zen3".to_owned()),
            external: true,
            ..PackageRecord::default()
        }]);
        let lines = list.to_lines();
        let read = PackageLine::read(lines.trim_end_matches('\n')).unwrap();
        let expected = PackageLine {
            name: "hdf5",
            version: "1.14.3",
            hash: "",
            variants: "+mpi api= ",
            compilers: "gcc@12.2.0,llvm@18",
            os: "",
            target: "zen3",
            manager: "spack",
            external: true,
        };
        assert_eq!(read, expected);
    }

    #[test]
    fn other_lines_are_none() {
        for line in ["", "hdf5", "hdf5\t1\t\t\t\t\t\tspack", "\t1\t\t\t\t\t\tspack\t"] {
            assert_eq!(PackageLine::read(line), None, "{line}");
        }
    }
}
