// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How the running program was installed, and what installs the parts that it lacks.
//!
//! `install.sh` and all packages put a file below their prefix that says what they are. So nothing is
//! guessed, and no package manager is asked.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What installed the program, below its prefix: a word, and for some words a directory.
const RECORD: &str = "share/cabane/installed-by";
/// Where `install.sh` installs for root.
const USUAL_PREFIX: &str = "/usr/local";
const GUIDE: &str = "docs/guides/site-installation.md";
const SLURM_GUIDE: &str = "docs/guides/slurm-administration.md";

/// How the running program was installed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installation {
    prefix: PathBuf,
    /// Whether root installed it.
    is_of_root: bool,
    origin: Option<Origin>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    /// `install.sh` of an archive that was unpacked here.
    Archive(PathBuf),
    /// A clone: `make install`, or the program that was built there.
    Clone(PathBuf),
    /// A package of the distribution.
    Package(Manager),
    /// What installs the command alone: a wheel, Spack, or EasyBuild; and how it installs a newer one.
    CommandAlone(&'static str, &'static str),
}

/// A package manager: the commands that install a package, install it again, and upgrade it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Manager(&'static str, &'static str, &'static str);

const APT: Manager = Manager(
    "sudo apt-get install",
    "sudo apt-get install --reinstall",
    "sudo apt-get install --only-upgrade",
);
/// Those that install rpm packages, and where they are.
const OF_RPM: [(&str, Manager); 3] = [
    ("/usr/bin/dnf", Manager("sudo dnf install", "sudo dnf reinstall", "sudo dnf upgrade")),
    (
        "/usr/bin/zypper",
        Manager("sudo zypper install", "sudo zypper install --force", "sudo zypper update"),
    ),
    ("/usr/bin/yum", Manager("sudo yum install", "sudo yum reinstall", "sudo yum update")),
];

/// What replaces the program by a newer one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdatedBy {
    /// The program itself, which `install.sh` installed below this prefix from an archive.
    Itself(PathBuf),
    /// Something else: what, and how.
    Another(String, Remedy),
}

/// How something that is missing can be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// What to type, if it is certain.
    pub command: Option<String>,
    /// What else to know, or which guide explains it where no command is certain. A part of a sentence.
    pub remark: Option<String>,
}

impl Remedy {
    fn typed(command: String) -> Self {
        Self { command: Some(command), remark: None }
    }

    fn guide(text: String) -> Self {
        Self { command: None, remark: Some(text) }
    }

    /// Returns both as the text of a hint.
    #[must_use]
    pub fn hint(&self) -> String {
        let command = self.command.iter().map(|command| format!("`{command}`"));
        command.chain(self.remark.clone()).collect::<Vec<_>>().join("; ")
    }
}

impl Installation {
    /// Finds out how a program was installed, from files beside it. Takes its path, with links resolved.
    #[must_use]
    pub fn of(program: Option<&Path>) -> Self {
        Self::find(program, |manager| Path::new(manager).exists())
    }

    fn find(program: Option<&Path>, is_there: impl Fn(&str) -> bool) -> Self {
        let Some((program, prefix)) =
            program.and_then(|path| Some((path, path.parent()?.parent()?)))
        else {
            return Self::default();
        };
        let origin = match fs::read_to_string(prefix.join(RECORD)) {
            Ok(record) => from_record(&record, is_there),
            Err(_) => not_installed(prefix),
        };
        let is_of_root = fs::metadata(program).is_ok_and(|found| found.uid() == 0);
        Self { prefix: prefix.to_owned(), is_of_root, origin }
    }

    /// Returns what replaces the program by a newer one.
    #[must_use]
    pub fn updated_by(&self) -> UpdatedBy {
        let is_installed = self.prefix.join(RECORD).is_file();
        let (what, remedy) = match &self.origin {
            Some(Origin::Archive(_)) if is_installed => {
                return UpdatedBy::Itself(self.prefix.clone());
            }
            Some(Origin::Archive(place)) => {
                let typed = quoted(&place.join("install.sh"));
                ("unpacking another archive, since it is not installed", Remedy::typed(typed))
            }
            Some(Origin::Clone(place)) => {
                let sudo = if is_installed && self.is_of_root { "sudo " } else { "" };
                let make = if is_installed { "install" } else { "build" };
                let (place, prefix) = (quoted(place), self.make_prefix());
                let typed = format!("git -C {place} pull && {sudo}make -C {place} {make}{prefix}");
                ("its clone", Remedy::typed(typed))
            }
            Some(Origin::Package(manager)) => {
                let remark = "without a package repository, install the file of the package";
                let typed = format!("{} cabane", manager.2);
                let remedy = Remedy { command: Some(typed), remark: Some(remark.to_owned()) };
                ("the package manager", remedy)
            }
            Some(Origin::CommandAlone(kind, typed)) => (*kind, Remedy::typed((*typed).to_owned())),
            None => {
                let guide = format!("{} says how it is installed", self.page(GUIDE));
                ("what installed it, which is not known", Remedy::guide(guide))
            }
        };
        UpdatedBy::Another(what.to_owned(), remedy)
    }

    /// Returns how the set-uid helper is installed. Takes a helper that is there but does not work.
    #[must_use]
    pub fn helper(&self, broken: Option<&Path>) -> Remedy {
        match &self.origin {
            Some(Origin::Archive(place)) => self.install_script(place),
            Some(Origin::Clone(place)) if place.join("Makefile").is_file() => {
                let place = quoted(place);
                Remedy::typed(format!("sudo make -C {place} install{}", self.make_prefix()))
            }
            Some(Origin::Package(manager)) => {
                let is_of_package = broken.is_some_and(|path| path.starts_with(&self.prefix));
                let typed = if is_of_package { manager.1 } else { manager.0 };
                Remedy {
                    command: Some(format!("{typed} cabane-helper")),
                    remark: Some(
                        "without a package repository, name the file of the package".to_owned(),
                    ),
                }
            }
            Some(Origin::CommandAlone(kind, _)) => Remedy::guide(format!(
                "{kind} has the command alone; {} says how root installs the helper",
                self.page(GUIDE)
            )),
            Some(Origin::Clone(_)) | None => {
                Remedy::guide(format!("{} says how root installs it", self.page(GUIDE)))
            }
        }
    }

    /// Returns how the plugin for a release of Slurm is installed: `24.11`.
    #[must_use]
    pub fn plugin(&self, release: &str) -> Remedy {
        let file = format!("lib/cabane/slurm/{release}/cabane-slurm.so");
        let build = || format!("{} says how one for {release} is built", self.page(SLURM_GUIDE));
        match &self.origin {
            Some(Origin::Archive(place)) if !place.join("install.sh").is_file() => {
                let remark =
                    format!("the archive may have no plugin for {release}: then {}", build());
                Remedy { remark: Some(remark), ..self.install_script(place) }
            }
            Some(Origin::Archive(place)) if place.join(file).is_file() => {
                self.install_script(place)
            }
            Some(Origin::Archive(_)) => {
                Remedy::guide(format!("the archive has no plugin for {release}; {}", build()))
            }
            Some(Origin::Clone(place)) if place.join("Makefile").is_file() => {
                Remedy::typed(format!(
                    "cd {} && scripts/build-slurm {release} && sudo make install{}",
                    quoted(place),
                    self.make_prefix()
                ))
            }
            Some(Origin::Package(_)) if self.prefix.join("lib/cabane/slurm").is_dir() => {
                let text =
                    format!("the package cabane-slurm has no plugin for {release}; {}", build());
                Remedy::guide(text)
            }
            Some(Origin::Package(manager)) => Remedy {
                command: Some(format!("{} cabane-slurm", manager.0)),
                remark: Some(
                    "without a package repository, name the file of the package".to_owned(),
                ),
            },
            Some(Origin::CommandAlone(kind, _)) => Remedy::guide(format!(
                "{kind} has the command alone; {} says how the plugin is installed",
                self.page(SLURM_GUIDE)
            )),
            Some(Origin::Clone(_)) | None => {
                Remedy::guide(format!("{} says how it is installed", self.page(SLURM_GUIDE)))
            }
        }
    }

    /// The script of the archive, also where the archive was removed since.
    fn install_script(&self, place: &Path) -> Remedy {
        let prefix = if self.is_elsewhere() {
            format!(" --prefix {}", quoted(&self.prefix))
        } else {
            String::new()
        };
        let script = place.join("install.sh");
        if script.is_file() {
            return Remedy::typed(format!("sudo {}{prefix}", quoted(&script)));
        }
        let name = place.file_name().unwrap_or_default();
        let script = Path::new(name).join("install.sh");
        Remedy {
            command: Some(format!("sudo {}{prefix}", quoted(&script))),
            remark: Some(format!("first unpack the archive again; {} is gone", place.display())),
        }
    }

    fn make_prefix(&self) -> String {
        if self.is_elsewhere() {
            format!(" PREFIX={}", quoted(&self.prefix))
        } else {
            String::new()
        }
    }

    /// Root installed it below another prefix, where the parts belong together. What users install for
    /// themselves cannot have the parts of root, which are installed below `/usr/local`.
    fn is_elsewhere(&self) -> bool {
        let is_installed = self.prefix.join(RECORD).is_file();
        is_installed && self.is_of_root && self.prefix != Path::new(USUAL_PREFIX)
    }

    /// A page of the documentation, with its place if it is installed.
    fn page(&self, page: &str) -> String {
        let installed = self.prefix.join("share/doc/cabane").join(page);
        if installed.is_file() { installed.display().to_string() } else { page.to_owned() }
    }
}

fn from_record(record: &str, is_there: impl Fn(&str) -> bool) -> Option<Origin> {
    let line = record.lines().next()?;
    let (word, place) = line.split_once(' ').unwrap_or((line, ""));
    let place = Path::new(place);
    match word {
        "archive" if place.is_absolute() => Some(Origin::Archive(place.to_owned())),
        "clone" if place.is_absolute() => Some(Origin::Clone(place.to_owned())),
        "deb" => Some(Origin::Package(APT)),
        "rpm" => {
            let (_, manager) = OF_RPM.iter().find(|(path, _)| is_there(path))?;
            Some(Origin::Package(*manager))
        }
        "wheel" => Some(Origin::CommandAlone("the wheel", "pip install --upgrade cabane")),
        "spack" => Some(Origin::CommandAlone("the Spack package", "spack install --fresh cabane")),
        "easybuild" => Some(Origin::CommandAlone("the EasyBuild recipe", "eb cabane-VERSION.eb")),
        _ => None,
    }
}

/// A program in an unpacked archive, or in the `target` of a clone.
fn not_installed(prefix: &Path) -> Option<Origin> {
    if prefix.join("install.sh").is_file() && prefix.join("SHA256SUMS").is_file() {
        return Some(Origin::Archive(prefix.to_owned()));
    }
    let clone = prefix.parent()?;
    let is_clone = prefix.file_name()? == "target" && clone.join("packaging/install.sh").is_file();
    is_clone.then(|| Origin::Clone(clone.to_owned()))
}

/// Quotes a path so that a shell reads it as one argument.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program below a prefix, and what its record says.
    fn installed(directory: &Path, record: Option<&str>) -> PathBuf {
        let prefix = directory.join("prefix");
        fs::create_dir_all(prefix.join("bin")).unwrap();
        fs::create_dir_all(prefix.join("share/cabane")).unwrap();
        fs::write(prefix.join("bin/cabane"), "").unwrap();
        if let Some(record) = record {
            fs::write(prefix.join(RECORD), format!("{record}\n")).unwrap();
        }
        prefix.join("bin/cabane")
    }

    fn file(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    /// What is typed here for a program that root installs below another prefix, if tests are root.
    fn elsewhere(directory: &Path, option: &str) -> String {
        if fs::metadata(directory).unwrap().uid() == 0 {
            format!(" {option}{}", directory.join("prefix").display())
        } else {
            String::new()
        }
    }

    fn found(program: &Path, manager: &str) -> Installation {
        Installation::find(Some(program), |path| path == manager)
    }

    fn hints(installation: &Installation) -> [String; 2] {
        [installation.helper(None).hint(), installation.plugin("24.11").hint()]
    }

    #[test]
    fn an_archive_that_is_there_is_named_and_one_that_is_gone_is_unpacked_again() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let archive = directory.join("cabane 1");
        let program = installed(directory, Some(&format!("archive {}", archive.display())));
        let gone = hints(&found(&program, ""));
        file(&archive.join("install.sh"));
        let without_plugin = hints(&found(&program, ""));
        file(&archive.join("lib/cabane/slurm/24.11/cabane-slurm.so"));
        let complete = hints(&found(&program, ""));
        let prefix = elsewhere(directory, "--prefix ");
        let typed = format!("`sudo '{}/install.sh'{prefix}`", archive.display());
        assert_eq!(complete, [typed.clone(), typed.clone()]);
        assert_eq!(
            without_plugin,
            [
                typed,
                "the archive has no plugin for 24.11; docs/guides/slurm-administration.md says how \
                 one for 24.11 is built"
                    .to_owned()
            ]
        );
        let again = format!(
            "`sudo 'cabane 1/install.sh'{prefix}`; first unpack the archive again; {} is gone",
            archive.display()
        );
        assert_eq!(gone[0], again);
        assert!(gone[1].starts_with("`sudo 'cabane 1/install.sh'"), "{gone:?}");
    }

    #[test]
    fn a_clone_is_named_while_it_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let clone = directory.join("clone");
        let program = installed(directory, Some(&format!("clone {}", clone.display())));
        let gone = hints(&found(&program, ""));
        file(&clone.join("Makefile"));
        let there = hints(&found(&program, ""));
        let (clone, prefix) = (clone.display(), elsewhere(directory, "PREFIX="));
        assert_eq!(
            there,
            [
                format!("`sudo make -C {clone} install{prefix}`"),
                format!("`cd {clone} && scripts/build-slurm 24.11 && sudo make install{prefix}`"),
            ]
        );
        assert!(gone.iter().all(|hint| hint.starts_with("docs/guides/")), "{gone:?}");
    }

    #[test]
    fn what_was_not_installed_runs_from_a_clone_or_an_archive() {
        let directory = tempfile::tempdir().unwrap();
        let clone = directory.path().join("clone");
        for path in ["packaging/install.sh", "Makefile", "target/release/cabane"] {
            file(&clone.join(path));
        }
        let hint = found(&clone.join("target/release/cabane"), "").helper(None).hint();
        assert_eq!(hint, format!("`sudo make -C {} install`", clone.display()));
        let archive = directory.path().join("archive");
        for path in ["install.sh", "SHA256SUMS", "bin/cabane"] {
            file(&archive.join(path));
        }
        let hint = found(&archive.join("bin/cabane"), "").helper(None).hint();
        assert_eq!(hint, format!("`sudo {}/install.sh`", archive.display()));
    }

    #[test]
    fn packages_are_installed_by_the_package_manager_of_the_system() {
        let directory = tempfile::tempdir().unwrap();
        for (record, manager, expected) in [
            ("deb", "", "sudo apt-get install"),
            ("rpm", "/usr/bin/dnf", "sudo dnf install"),
            ("rpm", "/usr/bin/yum", "sudo yum install"),
            ("rpm", "/usr/bin/zypper", "sudo zypper install"),
        ] {
            let program = installed(directory.path(), Some(record));
            let installation = found(&program, manager);
            let typed = [installation.helper(None), installation.plugin("24.11")];
            let expected = ["helper", "slurm"].map(|part| format!("{expected} cabane-{part}"));
            assert_eq!(typed.map(|remedy| remedy.command.unwrap()), expected);
        }
        let program = installed(directory.path(), Some("rpm"));
        assert_eq!(found(&program, "").helper(None).command, None);
    }

    #[test]
    fn a_package_is_installed_again_only_where_the_broken_helper_is_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let program = installed(directory.path(), Some("rpm"));
        let installation = found(&program, "/usr/bin/dnf");
        let own = directory.path().join("prefix/libexec/cabane/cabane-mount");
        let other = Path::new("/elsewhere/libexec/cabane/cabane-mount");
        let typed = [own.as_path(), other].map(|path| installation.helper(Some(path)).command);
        assert_eq!(
            typed.map(Option::unwrap),
            ["sudo dnf reinstall cabane-helper", "sudo dnf install cabane-helper"]
        );
    }

    #[test]
    fn a_package_that_lacks_a_plugin_is_not_installed_again() {
        let directory = tempfile::tempdir().unwrap();
        let program = installed(directory.path(), Some("deb"));
        file(&directory.path().join("prefix/lib/cabane/slurm/23.11/cabane-slurm.so"));
        let remedy = found(&program, "").plugin("24.11");
        assert_eq!(remedy.command, None, "{remedy:?}");
    }

    #[test]
    fn where_only_a_guide_can_help_its_installed_page_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let texts = [Some("wheel"), Some("spack"), Some("easybuild"), Some("?"), None];
        for (record, has) in texts.into_iter().zip(["the wheel", "the Spack", "the EasyB", "", ""])
        {
            let own = directory.path().join(record.unwrap_or("none"));
            let program = installed(&own, record);
            let [helper, plugin] = hints(&found(&program, ""));
            assert!(helper.starts_with(has) && plugin.starts_with(has), "{helper} {plugin}");
            assert!(helper.contains("docs/guides/site-installation.md"), "{helper}");
            assert!(plugin.contains("docs/guides/slurm-administration.md"), "{plugin}");
            let page = own.join("prefix/share/doc/cabane/docs/guides/site-installation.md");
            file(&page);
            let [helper, _] = hints(&found(&program, ""));
            assert!(helper.contains(&page.display().to_string()), "{helper}");
        }
        assert_eq!(Installation::of(None), Installation::default());
    }
}
