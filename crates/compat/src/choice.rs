// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which of several builds of one image a machine takes.
//!
//! Commands and nodes of a job ask the same function, so that one machine always takes the
//! same build. Names of microarchitectures mean nothing here, but where the administrator
//! has put them into an order: what decides is what a build needs. The reasons are in
//! `docs/design/0009-slurm.md`.

use std::collections::BTreeSet;
use std::env::consts::ARCH;
use std::fmt;
use std::path::Path;

use crate::{GlibcVersion, missing_features, older_glibc, other_architectures};

/// Names that stand for any processor of an architecture, and begin those of its levels.
const ARCHITECTURES: [&str; 4] = ["x86_64", "aarch64", "ppc64le", "riscv64"];

/// One build, and what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build<'a> {
    /// The microarchitecture in its label.
    pub uarch: &'a str,
    /// Which image it is: two labels may belong to one.
    pub image: &'a Path,
    /// The architectures of its programs, by the names of the kernel; none if they are not known.
    pub architectures: &'a [String],
    /// The features that it needs, by the names of the kernel; none if that is not known,
    /// or if every processor has them.
    pub features: &'a [String],
    /// The C library that it needs, if that is known.
    pub glibc: Option<&'a str>,
}

/// What a machine lacks for a build.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lack {
    /// The architecture of its programs, which is another one.
    pub architecture: Option<String>,
    /// The features that its processor does not have.
    pub features: Vec<String>,
    /// The C library that is needed, and the older one that is there.
    pub glibc: Option<(GlibcVersion, GlibcVersion)>,
}

/// Why a build was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The machine can run no other.
    Only,
    /// It comes first in the order of the machine.
    Order,
    /// It needs the most features, and all are there.
    Features,
    /// It is the one for any processor of the architecture.
    Generic,
}

/// The build that a machine takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its place among the builds.
    pub place: usize,
    /// Why it and no other.
    pub reason: Reason,
}

/// Why no build was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoChoice {
    /// The machine can run none of them.
    NoneFits,
    /// Nothing says which of several is better.
    Undecided,
}

impl Build<'_> {
    /// Finds out what this machine lacks.
    #[must_use]
    pub fn lack(&self) -> Lack {
        let features = self.features.iter().map(String::as_str);
        let glibc = self.glibc.and_then(|needed| needed.parse().ok());
        Lack {
            architecture: self.other_architecture(),
            features: missing_features(features).into_iter().map(str::to_owned).collect(),
            glibc: glibc.and_then(|needed| Some((needed, older_glibc(needed)?))),
        }
    }

    /// What was seen in its files counts, or else its label.
    fn other_architecture(&self) -> Option<String> {
        if self.architectures.is_empty() {
            return named_architecture(self.uarch).map(str::to_owned);
        }
        other_architectures(self.architectures)
    }
}

/// Returns the architecture that a microarchitecture has in its name, if it is not this one.
#[must_use]
pub fn named_architecture(uarch: &str) -> Option<&str> {
    let of_name = |family: &&str| {
        let rest = uarch.strip_prefix(*family);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    };
    let mut families = ARCHITECTURES.into_iter();
    families.find(of_name).filter(|family| *family != ARCH)
}

impl Lack {
    /// Tells whether everything is there.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Lack {
    /// Writes what a sentence says about a machine: `its processor lacks avx512f`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        if let Some(architecture) = &self.architecture {
            write!(f, "it was built for {architecture}, and this is {ARCH}")?;
            separator = "; ";
        }
        if !self.features.is_empty() {
            let features = self.features.join(", ");
            write!(f, "{separator}its processor lacks {features}")?;
            separator = "; ";
        }
        if let Some((needed, found)) = self.glibc {
            write!(f, "{separator}it has glibc {found}, and {needed} is needed")?;
        }
        Ok(())
    }
}

/// Chooses a build: of those for which nothing is lacking the one that comes first in
/// `order`, or else needs the most features, or else is for any processor.
///
/// A build of which nothing is known is taken only if the order names it, or no other can
/// be: another may be known to run.
///
/// # Errors
///
/// That none fits, or that nothing decides.
pub fn choose(builds: &[(Build<'_>, Lack)], order: &[String]) -> Result<Choice, NoChoice> {
    let all = builds.iter().enumerate();
    let usable: Vec<(usize, &Build<'_>)> = all
        .filter(|(_, (_, lack))| lack.is_nothing())
        .map(|(place, (build, _))| (place, build))
        .collect();
    let found = |place, reason| Ok(Choice { place, reason });
    if usable.is_empty() {
        return Err(NoChoice::NoneFits);
    }
    if let Some(place) = only(&usable) {
        return found(place, Reason::Only);
    }
    let named = |name: &String| usable.iter().find(|(_, build)| build.uarch == *name);
    if let Some((place, _)) = order.iter().find_map(named) {
        return found(*place, Reason::Order);
    }
    let counted = usable.iter().map(|one| (count(one.1), *one));
    let most = counted.clone().map(|(count, _)| count).max().unwrap_or(0);
    let best = counted.filter(|(count, _)| *count == most);
    let best: Vec<_> = best.map(|(_, one)| one).collect();
    if let (true, Some(place)) = (most > 0, only(&best)) {
        return found(place, Reason::Features);
    }
    match usable.iter().find(|(_, build)| build.uarch == ARCH) {
        Some((place, _)) => found(*place, Reason::Generic),
        None => Err(NoChoice::Undecided),
    }
}

fn count(build: &Build<'_>) -> usize {
    build.features.iter().collect::<BTreeSet<_>>().len()
}

/// Returns the first one, if all are one image.
fn only(builds: &[(usize, &Build<'_>)]) -> Option<usize> {
    let (first, rest) = builds.split_first()?;
    let is_same = |(_, other): &(usize, &Build<'_>)| other.image == first.1.image;
    rest.iter().all(is_same).then_some(first.0)
}

/// Reads an order: names of microarchitectures, the best first, with blanks or new lines
/// between them; `#` begins a comment.
#[must_use]
pub fn parse_order(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or(""));
    let names = lines.flat_map(|line| line.split([' ', '\t', ',']));
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: &[&str] = &[];
    const V3: &[&str] = &["avx2", "fma"];
    const V4: &[&str] = &["avx2", "fma", "avx512f"];

    /// Chooses among builds (uarch, features) of which the processor lacks some features.
    fn chosen(
        builds: &[(&str, &[&str])],
        lacking: &[&str],
        order: &[&str],
    ) -> Result<(String, Reason), NoChoice> {
        let owned: Vec<(String, Vec<String>)> = builds
            .iter()
            .map(|(uarch, features)| {
                let features = features.iter().map(ToString::to_string);
                ((*uarch).to_owned(), features.collect())
            })
            .collect();
        let builds: Vec<(Build<'_>, Lack)> = owned
            .iter()
            .map(|(uarch, features)| {
                let build = Build {
                    uarch,
                    image: Path::new(uarch),
                    architectures: &[],
                    features,
                    glibc: None,
                };
                let lacks = features.iter().filter(|one| lacking.contains(&one.as_str()));
                let lack = Lack { features: lacks.cloned().collect(), ..Lack::default() };
                (build, lack)
            })
            .collect();
        let order: Vec<String> = order.iter().map(ToString::to_string).collect();
        let choice = choose(&builds, &order)?;
        Ok((builds[choice.place].0.uarch.to_owned(), choice.reason))
    }

    fn is(uarch: &str, reason: Reason) -> Result<(String, Reason), NoChoice> {
        Ok((uarch.to_owned(), reason))
    }

    #[test]
    fn the_build_that_uses_most_of_the_processor_is_taken() {
        let builds = [(ARCH, NOTHING), ("v3", V3), ("v4", V4)];
        let found = [&[][..], &["avx512f"], &["avx512f", "fma"]]
            .map(|lacking| chosen(&builds, lacking, &[]));
        let expected =
            [is("v4", Reason::Features), is("v3", Reason::Features), is(ARCH, Reason::Only)];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_order_of_the_site_comes_before_features() {
        let builds = [("v3", V3), ("v4", V4)];
        assert_eq!(chosen(&builds, &[], &["a100", "v3", "v4"]), is("v3", Reason::Order));
    }

    #[test]
    fn an_order_does_not_make_a_build_fit() {
        let builds = [(ARCH, NOTHING), ("v3", V3), ("v4", V4)];
        assert_eq!(chosen(&builds, &["avx512f"], &["v4"]), is("v3", Reason::Features));
    }

    #[test]
    fn equal_builds_are_decided_by_the_order_or_the_generic_one_is_taken() {
        let with = [(ARCH, NOTHING), ("a100", V3), ("zen3", V3)];
        let without = &with[1..];
        let found =
            [chosen(without, &[], &["a100"]), chosen(&with, &[], &[]), chosen(without, &[], &[])];
        let expected =
            [is("a100", Reason::Order), is(ARCH, Reason::Generic), Err(NoChoice::Undecided)];
        assert_eq!(found, expected);
    }

    #[test]
    fn builds_of_which_nothing_is_known_are_not_guessed_at() {
        let builds = [("zen2", NOTHING), ("zen3", NOTHING)];
        assert_eq!(chosen(&builds, &[], &[]), Err(NoChoice::Undecided));
    }

    #[test]
    fn if_none_fits_none_is_taken() {
        assert_eq!(chosen(&[("v3", V3), ("v4", V4)], &["fma"], &["v3"]), Err(NoChoice::NoneFits));
    }

    #[test]
    fn one_image_with_two_labels_is_no_choice() {
        let features = ["avx2".to_owned()];
        let build = |uarch| Build {
            uarch,
            image: Path::new("same"),
            architectures: &[],
            features: &features,
            glibc: None,
        };
        let builds = ["zen2", "zen3"].map(|uarch| (build(uarch), Lack::default()));
        assert_eq!(choose(&builds, &[]).map(|choice| choice.place), Ok(0));
    }

    #[test]
    fn what_is_lacking_is_named() {
        let other = if ARCH == "x86_64" { "aarch64" } else { "x86_64" };
        let build = Build {
            uarch: other,
            image: Path::new("image"),
            architectures: &[],
            features: &["amx_of_next_year".to_owned()],
            glibc: Some("99.1"),
        };
        let found = crate::glibc().unwrap();
        assert_eq!(
            build.lack().to_string(),
            format!(
                "it was built for {other}, and this is {ARCH}; it has glibc {found}, and 99.1 is \
                 needed"
            )
        );
        let seen = [ARCH.to_owned()];
        let build = Build { architectures: &seen, glibc: None, ..build };
        assert!(build.lack().is_nothing(), "what was seen in the files counts more than a label");
    }

    #[test]
    fn an_order_is_words_in_lines() {
        assert_eq!(
            parse_order("# GPU nodes\na100 zen3\n\nx86_64 # any\n"),
            ["a100", "zen3", "x86_64"]
        );
    }
}
