// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A Python virtual environment of the user's wins over the images.
//!
//! Who has activated one and then loads an image expects `python` and `pip` to be
//! those of the virtual environment, with the packages in it. Views put their own
//! directories first, so afterwards this is repaired: the `bin` directory is first in
//! `PATH`, `VIRTUAL_ENV` means the user's again, the packages come first where a view
//! sets `PYTHONPATH`, and a `PYTHONHOME` set by a view is left out.
//!
//! `VIRTUAL_ENV` inside the mount point of an image that is loaded already is not the
//! user's: the image set it, and the next image may set it anew.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::RunWarning;

type Environment = BTreeMap<OsString, OsString>;

const PATH: &str = "PATH";
const VIRTUAL_ENV: &str = "VIRTUAL_ENV";
const VIRTUAL_ENV_PROMPT: &str = "VIRTUAL_ENV_PROMPT";
const PYTHONPATH: &str = "PYTHONPATH";
const PYTHONHOME: &str = "PYTHONHOME";

/// A virtual environment that the user has activated.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Venv {
    root: PathBuf,
}

impl Venv {
    /// Returns the one that is active: `VIRTUAL_ENV` names it, its programs are in
    /// `PATH`, and it does not belong to one of the images mounted at `mount_points`.
    pub(crate) fn active(calling: &Environment, mount_points: &[PathBuf]) -> Option<Self> {
        let root = PathBuf::from(calling.get(OsStr::new(VIRTUAL_ENV))?);
        let is_image = mount_points.iter().any(|place| root.starts_with(place));
        let venv = Self { root };
        let path = calling.get(OsStr::new(PATH))?;
        let is_in_path = elements(path).any(|element| venv.is_bin(element));
        (venv.root.is_absolute() && !is_image && is_in_path).then_some(venv)
    }

    /// Mends the variables that views have changed.
    pub(crate) fn win(
        &self,
        calling: &Environment,
        variables: &mut Environment,
    ) -> Vec<RunWarning> {
        let before = |name: &str| calling.get(OsStr::new(name));
        for name in [VIRTUAL_ENV, VIRTUAL_ENV_PROMPT] {
            restore(variables, name, before(name));
        }
        if let Some(path) = changed(variables, PATH, calling) {
            let others = elements(path).filter(|element| !self.is_bin(element));
            let path = joined(&[self.root.join("bin")], others);
            variables.insert(PATH.into(), path);
        }
        let packages = self.packages();
        if let Some(path) = changed(variables, PYTHONPATH, calling) {
            let is_own =
                |element: &[u8]| packages.iter().any(|own| own.as_os_str().as_bytes() == element);
            let others = elements(path).filter(|element| !is_own(element));
            let path = joined(&packages, others);
            variables.insert(PYTHONPATH.into(), path);
        }
        if changed(variables, PYTHONHOME, calling).is_none() {
            return Vec::new();
        }
        restore(variables, PYTHONHOME, before(PYTHONHOME));
        vec![RunWarning::PythonHome { venv: self.root.clone() }]
    }

    fn is_bin(&self, element: &[u8]) -> bool {
        Path::new(OsStr::from_bytes(element)) == self.root.join("bin")
    }

    /// Returns the directories that hold packages: the name has the version of Python.
    fn packages(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.root.join("lib")).into_iter().flatten().flatten();
        let mut found: Vec<PathBuf> = entries
            .filter(|entry| entry.file_name().as_bytes().starts_with(b"python"))
            .map(|entry| entry.path().join("site-packages"))
            .filter(|path| path.is_dir())
            .collect();
        found.sort();
        found
    }
}

/// Returns the value of a variable that is set and is not as it was.
fn changed<'a>(
    variables: &'a Environment,
    name: &str,
    calling: &Environment,
) -> Option<&'a OsString> {
    let name = OsStr::new(name);
    variables.get(name).filter(|value| calling.get(name) != Some(*value))
}

fn restore(variables: &mut Environment, name: &str, value: Option<&OsString>) {
    match value {
        Some(value) => variables.insert(name.into(), value.clone()),
        None => variables.remove(OsStr::new(name)),
    };
}

fn elements(list: &OsStr) -> impl Iterator<Item = &[u8]> {
    list.as_bytes().split(|&byte| byte == b':')
}

fn joined<'a>(first: &'a [PathBuf], others: impl Iterator<Item = &'a [u8]>) -> OsString {
    let first = first.iter().map(|path| path.as_os_str().as_bytes());
    let all: Vec<&[u8]> = first.chain(others).collect();
    OsString::from_vec(all.join(&b':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        let owned = |(name, value): &(&str, &str)| (OsString::from(name), OsString::from(value));
        pairs.iter().map(owned).collect()
    }

    const ACTIVE: [(&str, &str); 2] = [("VIRTUAL_ENV", "/v"), ("PATH", "/v/bin:/usr/bin")];

    #[test]
    fn its_programs_come_first_again() {
        let calling = environment(&ACTIVE);
        let mut inside =
            environment(&[("VIRTUAL_ENV", "/image"), ("PATH", "/image/bin:/v/bin:/usr/bin")]);
        Venv::active(&calling, &[]).unwrap().win(&calling, &mut inside);
        assert_eq!(
            inside,
            environment(&[("VIRTUAL_ENV", "/v"), ("PATH", "/v/bin:/image/bin:/usr/bin")])
        );
    }

    #[test]
    fn a_python_home_of_a_view_is_left_out_with_a_warning() {
        let calling = environment(&ACTIVE);
        let mut inside = environment(&[ACTIVE[0], ACTIVE[1], ("PYTHONHOME", "/image")]);
        let warnings = Venv::active(&calling, &[]).unwrap().win(&calling, &mut inside);
        assert_eq!((inside, warnings.len()), (calling, 1));
    }

    #[test]
    fn one_that_an_image_brought_is_not_the_users() {
        let calling = environment(&ACTIVE);
        assert_eq!(Venv::active(&calling, &["/v".into()]), None);
    }

    #[test]
    fn one_that_is_not_in_path_is_not_active() {
        let calling = environment(&[("VIRTUAL_ENV", "/v"), ("PATH", "/usr/bin")]);
        assert_eq!(Venv::active(&calling, &[]), None);
    }
}
