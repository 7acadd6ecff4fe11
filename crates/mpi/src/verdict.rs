// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whether and how a program can have another MPI, and why not.
//!
//! First comes what can be read from the files alone (`candidate.rs`), then a way is looked for
//! (`choose.rs`).

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::candidate::{Candidate, Side};
use crate::inspect::inspect_file;
use crate::plugins::Plugins;
use crate::{Family, Language, Library, Loader, Missing, Places, Plan, Unmet};

/// How many names of functions are shown.
const MOST_NAMES: usize = 5;

/// Judges whether a program can have a substitute.
#[must_use]
pub fn judge(program: Side<'_>, substitute: Side<'_>, places: &Places) -> Verdict {
    judge_with_plugins(program, substitute, places, &[])
}

/// The same with plug-ins that the substitute gets: files, and directories of files.
#[must_use]
pub fn judge_with_plugins(
    program: Side<'_>,
    substitute: Side<'_>,
    places: &Places,
    plugins: &[PathBuf],
) -> Verdict {
    let loader = Loader::new(program.tree).library_path(program.library_path);
    let outcome = Outcome::Refused(Refusal::NoProgram { path: program.path.to_owned() });
    let mut verdict = Verdict { from: None, to: None, outcome, warnings: Vec::new() };
    let Some(inspection) = inspect_file(program.tree, &loader, program.path) else {
        return verdict;
    };
    verdict.from.clone_from(&inspection.library);
    let judged = Candidate::find(&inspection, substitute).and_then(|mut candidate| {
        candidate.plugins = Plugins::find(substitute.tree, plugins);
        verdict.to = Some(candidate.core.clone());
        candidate.check(&inspection)?;
        candidate.choose(program, &inspection, places)
    });
    match judged {
        Ok((plan, warnings)) => {
            verdict.outcome = Outcome::Possible(plan);
            verdict.warnings = warnings;
        }
        Err(refusal) => verdict.outcome = Outcome::Refused(refusal),
    }
    verdict
}

/// What was found out about a program and a substitute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The library that the program gets without help, if it finds one.
    pub from: Option<Library>,
    /// The substitute, if there is one of its family.
    pub to: Option<Library>,
    /// How, or why not.
    pub outcome: Outcome,
    /// What is to be known of a substitution that works.
    pub warnings: Vec<Warning>,
}

/// How a program can have a substitute, or why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// In this way.
    Possible(Plan),
    /// Not at all.
    Refused(Refusal),
}

/// Something to be known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Warning {
    /// The program insists on its own library; it is loaded, and not used.
    #[error("{} is loaded as well, and not used", path.display())]
    AlsoLoaded {
        /// The library.
        path: PathBuf,
    },
    /// What the substitute needs comes from where the program runs.
    #[error("{name} comes from {}: the substitute does not bring it", path.display())]
    Borrowed {
        /// The library that is needed.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// The container's own C library is too old.
    #[error(
        "the C library {to} of this machine replaces the {from} of the container, for each program \
         in it"
    )]
    NewerCLibrary {
        /// The version of the container.
        from: String,
        /// The version of the machine.
        to: String,
    },
    /// A plug-in is not there.
    #[error("there is no plug-in {}", path.display())]
    NoPlugin {
        /// Where it should be.
        path: PathBuf,
    },
    /// A plug-in needs more than there is.
    #[error("the plug-in {} needs {}, which is missing", path.display(), names.join(" and "))]
    PluginLacks {
        /// The plug-in.
        path: PathBuf,
        /// What it needs.
        names: Vec<String>,
    },
    /// What the substitute loads while it runs cannot have the libraries that it needs.
    #[error("parts of the substitute may not be loaded, such as those for a fabric: {reason}")]
    WithoutParts {
        /// Why they cannot be carried.
        reason: String,
    },
}

/// Why a substitution cannot work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// The file cannot be judged.
    #[error("{} is no program or library", path.display())]
    NoProgram {
        /// The file.
        path: PathBuf,
    },
    /// It has nothing to do with MPI, as far as can be seen.
    #[error("{} needs no MPI", path.display())]
    NoMpi {
        /// The program.
        path: PathBuf,
        /// Names of libraries that it may load while it runs.
        mentions: Vec<String>,
    },
    /// Nothing can be loaded into it.
    #[error(
        "{} is a static program{}",
        path.display(),
        if *has_mpi { ": its MPI is part of it, and cannot be replaced" } else { " without MPI" }
    )]
    Static {
        /// The program.
        path: PathBuf,
        /// Whether it has an MPI in itself.
        has_mpi: bool,
    },
    /// The MPI is part of the program.
    #[error("{} contains its MPI, as linked from an archive, which cannot be replaced", path.display())]
    Inside {
        /// The program.
        path: PathBuf,
    },
    /// The loader ignores variables.
    #[error("{} runs with the rights of its owner or group, and the loader ignores variables then", path.display())]
    SetId {
        /// The program.
        path: PathBuf,
    },
    /// There is nothing to be taken.
    #[error("there is no library of MPI in {}", path.display())]
    NoSubstitute {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// Handles of one family mean something else in another.
    #[error("the program is for {program}, and {} has only {}", path.display(), families(found))]
    OtherFamily {
        /// That of the program.
        program: Family,
        /// Those that were found.
        found: Vec<Family>,
        /// Where.
        path: PathBuf,
    },
    /// Same family, but the makers say that they do not fit.
    #[error("the program needs {wanted}, and the substitute is {found}: another ABI of {family}")]
    OtherNumber {
        /// The family.
        family: Family,
        /// The name that is needed.
        wanted: String,
        /// The name of the substitute.
        found: String,
    },
    /// For other processors.
    #[error("the program is for {program}, and the substitute for {substitute}")]
    OtherArchitecture {
        /// That of the program.
        program: String,
        /// That of the substitute.
        substitute: String,
    },
    /// Another C library.
    #[error("the program has the C library musl, and the substitute needs that of GNU")]
    OtherLibc,
    /// The substitute is for other languages.
    #[error("the program uses MPI from {language}, and {}", lack(*language, *family))]
    NoLanguage {
        /// The language.
        language: Language,
        /// The family.
        family: Family,
        /// What the program asks for.
        names: Vec<String>,
    },
    /// Functions are missing.
    #[error("the substitute lacks {}", some(names))]
    MissingSymbols {
        /// Their names.
        names: Vec<String>,
    },
    /// Too new for the system.
    #[error(
        "the substitute needs the C library {needed} for {}, and {} is there",
        needed_by.display(),
        found.as_deref().unwrap_or("none")
    )]
    OldGlibc {
        /// The version that is needed.
        needed: String,
        /// The file that needs it.
        needed_by: PathBuf,
        /// The version that is there.
        found: Option<String>,
    },
    /// The machine lacks a part of the C library that the container has.
    #[error(
        "the substitute needs the newer C library of this machine, which has nothing in place of {}",
        path.display()
    )]
    MixedCLibrary {
        /// The file of the container.
        path: PathBuf,
    },
    /// Libraries are missing.
    #[error("{}", missing_text(missing))]
    Incomplete {
        /// Which ones.
        missing: Vec<Missing>,
    },
    /// A library is there, and too old.
    #[error("{}", unmet_text(unmet))]
    OldLibraries {
        /// What is lacking.
        unmet: Vec<Unmet>,
    },
    /// Something else is loaded.
    #[error("the program would still get {}", taken.display())]
    NotTaken {
        /// What would be loaded.
        taken: PathBuf,
    },
}

impl Refusal {
    /// Returns what can be done about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::NoMpi { mentions, .. } if !mentions.is_empty() => format!(
                "it may load {} while it runs: name the extension that does with `--mpi-program`",
                mentions.join(" or ")
            ),
            Self::NoMpi { .. } => {
                "name the program, or the extension of Python, with `--mpi-program`: \
                                   a script needs none itself"
                    .to_owned()
            }
            Self::OtherFamily { program, .. } => {
                format!("only a library with {program} can replace another one")
            }
            Self::Static { has_mpi: true, .. } => {
                "link the program again without `-static`".to_owned()
            }
            Self::Inside { .. } => {
                "link the program again with a shared library of MPI".to_owned()
            }
            Self::NoLanguage { language: Language::Fortran, family, names } => {
                fortran_hint(*family, names)?
            }
            Self::MissingSymbols { names } if names.iter().any(|name| is_of_compiler(name)) => {
                "names of modules are those of a compiler for Fortran: take one that was built with \
                 the compiler of the program"
                    .to_owned()
            }
            Self::OldGlibc { .. } => {
                "take one that was built on an older system, or run in a newer container".to_owned()
            }
            _ => return None,
        };
        Some(text)
    }
}

impl Verdict {
    /// Returns the plan, if there is one.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        match &self.outcome {
            Outcome::Possible(plan) => Some(plan),
            Outcome::Refused(_) => None,
        }
    }

    /// Returns why it is refused, if it is.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match &self.outcome {
            Outcome::Possible(_) => None,
            Outcome::Refused(refusal) => Some(refusal),
        }
    }
}

/// Returns which libraries a substitute must have for a program in Fortran.
fn fortran_hint(family: Family, names: &[String]) -> Option<String> {
    match family {
        Family::Mpich => Some(
            "take one with its library for Fortran beside it: `libmpifort.so.12` or \
             `libmpichfort.so.12`"
                .to_owned(),
        ),
        Family::OpenMpi => Some(format!("take one that has {} beside it", names.join(" and "))),
        Family::Mpi5Abi => None,
    }
}

/// Whether a compiler for Fortran gave a function of a module its name.
fn is_of_compiler(name: &str) -> bool {
    name.contains("_MOD_") || name.contains("_mp_")
}

fn families(found: &[Family]) -> String {
    let names: Vec<String> = found.iter().map(ToString::to_string).collect();
    names.join(" and ")
}

fn lack(language: Language, family: Family) -> String {
    if family == Family::Mpi5Abi {
        format!("{family} has nothing for {language}")
    } else {
        format!("the substitute has nothing for {language}")
    }
}

fn some(names: &[String]) -> String {
    let shown = names.get(..MOST_NAMES).unwrap_or(names).join(", ");
    match names.len().saturating_sub(MOST_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more functions"),
    }
}

fn missing_text(missing: &[Missing]) -> String {
    let each = missing
        .iter()
        .map(|one| format!("{} is missing for {}", one.name, one.needed_by.display()));
    each.collect::<Vec<_>>().join(", ")
}

fn unmet_text(unmet: &[Unmet]) -> String {
    let each = unmet.iter().take(MOST_NAMES).map(|one| {
        let (library, by) = (one.library.display(), one.needed_by.display());
        format!("{library} has no version {}, which {by} needs", one.version)
    });
    each.collect::<Vec<_>>().join(", ")
}
