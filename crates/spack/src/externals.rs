// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Packages that are built although the system has them, and why.
//!
//! Spack decides which packages are used. Afterwards its lock file is compared with the
//! externals of the system, and with what the recipe and the system ask of them. What a
//! package asks of another one is written in Python; of that only the result is seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use cabane_recipe::{Yaml, YamlMap};
use serde_json::Value;

use crate::database::Spec;
use crate::simple_spec::SimpleSpec;

/// How many differences are named.
const MOST: usize = 3;

/// An installed package that is not used, although the same package is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusedExternal {
    /// The package that is built, such as `openmpi@5.0.10`.
    pub built: String,
    /// The installed one, such as `openmpi@4.1.4`.
    pub installed: String,
    /// Where it is.
    pub prefix: String,
    /// The packages that use what is built, those that the recipe names first.
    pub needed_by: Vec<String>,
    /// Why it is not used; there is at least one reason.
    pub reasons: Vec<Reason>,
}

/// Why an installed package is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// What asks for something; nothing if it is only known how the package is built.
    pub by: Option<Asking>,
    /// What the external does not have, such as `+internal-pmix`.
    pub what: String,
    /// What it has instead, if its entry says so.
    pub installed: Option<String>,
}

/// What asks something of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asking {
    /// A spec of the recipe.
    Recipe,
    /// `require` in the settings of packages.
    Require,
    /// `prefer` in the settings of packages.
    Prefer,
}

impl UnusedExternal {
    /// Returns the name of the package.
    #[must_use]
    pub fn package(&self) -> &str {
        self.built.split('@').next().unwrap_or_default()
    }

    /// Tells whether the recipe itself asks for another one.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.reasons.iter().any(|reason| reason.by == Some(Asking::Recipe))
    }
}

impl fmt::Display for UnusedExternal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { built, installed, prefix, needed_by, reasons } = self;
        write!(f, "{built} will be built although {prefix} has {installed}: ")?;
        for (number, reason) in reasons.iter().take(MOST).enumerate() {
            write!(f, "{}{reason}", if number > 0 { "; " } else { "" })?;
        }
        if reasons.len() > MOST {
            write!(f, "; and {} more", reasons.len() - MOST)?;
        }
        let is_known = reasons.iter().any(|reason| reason.by.is_some());
        if !needed_by.is_empty() && !is_known {
            let shown: Vec<&str> = needed_by.iter().take(MOST).map(String::as_str).collect();
            let more = if needed_by.len() > MOST { ", …" } else { "" };
            write!(f, " (needed by {}{more})", shown.join(", "))?;
        }
        Ok(())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = &self.what;
        match self.by {
            Some(Asking::Recipe) => write!(f, "the recipe asks for {what}")?,
            Some(Asking::Require) => write!(f, "the system requires {what}")?,
            Some(Asking::Prefer) => write!(f, "the system prefers {what}")?,
            None => write!(f, "it is built with {what}")?,
        }
        match &self.installed {
            Some(installed) => write!(f, ", but the external has {installed}"),
            None => write!(f, ", but the spec of the external does not name it"),
        }
    }
}

/// Compares what is built with what the system has.
///
/// `packages` are the settings of packages, `specs` the specs of the recipe, and `built`
/// the packages of a lock file by their hashes. A package of which the lock file has only
/// the installed one is left out, and so is one that is in no entry of `externals`.
#[must_use]
pub fn unused_externals(
    packages: &YamlMap,
    specs: &[String],
    built: &BTreeMap<String, Spec>,
) -> Vec<UnusedExternal> {
    let mut all = Vec::new();
    let mut seen = BTreeSet::new();
    let named: BTreeSet<String> = specs.iter().map(|spec| SimpleSpec::read(spec).name).collect();
    for (hash, spec) in built.iter().filter(|(_, spec)| spec.external.is_none()) {
        let settings = packages.get(&spec.name);
        let externals = settings.and_then(|settings| settings.at(&["externals"])?.as_list());
        // The one that is written first is the one to use.
        let Some(external) = externals.and_then(<[Yaml]>::first) else {
            continue;
        };
        let text = |key: &str| external.at(&[key]).and_then(Yaml::as_text);
        let (Some(described), true) = (text("spec"), seen.insert(spec.id())) else {
            continue;
        };
        let installed = SimpleSpec::read(described);
        let mut reasons = asked(&spec.name, &installed, settings, specs);
        if reasons.is_empty() {
            reasons = differences(spec, &installed);
        }
        if reasons.is_empty() {
            continue;
        }
        let users =
            built.values().filter(|user| user.dependencies.iter().any(|one| one.hash == *hash));
        let needed_by: BTreeSet<String> = users.map(|user| user.name.clone()).collect();
        let mut needed_by: Vec<String> = needed_by.into_iter().collect();
        // Spack takes the newest version of these, whatever it needs.
        needed_by.sort_by_key(|user| !named.contains(user));
        all.push(UnusedExternal {
            built: spec.id(),
            installed: format!("{}@{}", spec.name, installed.version),
            prefix: text("prefix").unwrap_or_default().to_owned(),
            needed_by,
            reasons,
        });
    }
    all
}

/// What the recipe and the system ask of a package that the installed one does not have.
fn asked(
    name: &str,
    installed: &SimpleSpec,
    settings: Option<&Yaml>,
    specs: &[String],
) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let parts = specs.iter().flat_map(|spec| spec.split('^')).map(SimpleSpec::read);
    for part in parts.filter(|part| part.name == name) {
        reasons.extend(part.not_in(installed).map(|(what, has)| reason(Asking::Recipe, what, has)));
    }
    for (key, asking) in [("require", Asking::Require), ("prefer", Asking::Prefer)] {
        for rule in rules(settings.and_then(|settings| settings.at(&[key]))) {
            if !rule.holds_for(installed) {
                continue;
            }
            let mut lacking =
                rule.any_of.iter().map(|one| one.not_in(installed).collect::<Vec<_>>());
            // One of the alternatives is enough.
            let first = lacking.next().unwrap_or_default();
            if first.is_empty() || lacking.any(|other| other.is_empty()) {
                continue;
            }
            reasons.extend(first.into_iter().map(|(what, has)| reason(asking, what, has)));
        }
    }
    reasons
}

fn reason(by: Asking, what: String, installed: Option<String>) -> Reason {
    Reason { by: Some(by), what, installed }
}

/// A rule of `require` or `prefer`.
struct Rule {
    any_of: Vec<SimpleSpec>,
    when: Option<SimpleSpec>,
}

impl Rule {
    fn holds_for(&self, installed: &SimpleSpec) -> bool {
        self.when.as_ref().is_none_or(|when| when.not_in(installed).next().is_none())
    }
}

/// Reads rules: a spec, or a list of specs and of maps with alternatives.
fn rules(value: Option<&Yaml>) -> Vec<Rule> {
    let texts = |value: &Yaml| -> Vec<SimpleSpec> {
        let list = value.as_list().unwrap_or_default().iter().filter_map(Yaml::as_text);
        value.as_text().into_iter().chain(list).map(SimpleSpec::read).collect()
    };
    let one = |value: &Yaml| {
        let mut alternatives = ["spec", "any_of", "one_of"].into_iter();
        let any_of = match value.as_map() {
            None => texts(value),
            Some(map) => alternatives.find_map(|key| map.get(key)).map(texts).unwrap_or_default(),
        };
        let when = value.at(&["when"]).and_then(Yaml::as_text).map(SimpleSpec::read);
        Rule { any_of, when }
    };
    match value {
        Some(Yaml::List(list)) => list.iter().map(one).collect(),
        Some(value) => vec![one(value)],
        None => Vec::new(),
    }
}

/// In what a built package differs from the installed one, as far as that says something.
fn differences(built: &Spec, installed: &SimpleSpec) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let mut add = |what: String, has: String| {
        reasons.push(Reason { by: None, what, installed: Some(has) });
    };
    for (name, is_on) in &installed.switches {
        let sign = |is_on: bool| format!("{}{name}", if is_on { '+' } else { '~' });
        if let Some(Value::Bool(other)) =
            built.parameters.get(name).filter(|value| **value != *is_on)
        {
            add(sign(*other), sign(*is_on));
        }
    }
    if built.version != installed.version {
        add(format!("version {}", built.version), installed.version.clone());
    }
    reasons
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const PACKAGES: &str = "
openmpi:
  externals:
  - {spec: openmpi@4.1.4~internal-pmix fabrics=cma schedulers=slurm, prefix: /usr}
  require: ['schedulers=slurm']
";

    fn spec(name: &str, version: &str, more: &str) -> Spec {
        let text = format!(
            r#"{{"name":"{name}","version":"{version}","arch":{{"target":"zen4"}}{more}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    /// What is said where the rules are those, the recipe asks for `specs`, and Spack has
    /// decided on `built`.
    fn said(packages: &str, specs: &[&str], built: &[Spec]) -> Vec<String> {
        let packages = Yaml::parse(Path::new("packages.yaml"), packages.as_bytes()).unwrap();
        let specs: Vec<String> = specs.iter().map(|&spec| spec.to_owned()).collect();
        let named = built.iter().map(|one| (one.name.clone() + &one.version, one.clone()));
        let unused = unused_externals(packages.as_map().unwrap(), &specs, &named.collect());
        unused.iter().map(ToString::to_string).collect()
    }

    fn newer() -> Spec {
        spec("openmpi", "5.0.10", r#","parameters":{"internal-pmix":true}"#)
    }

    #[test]
    fn a_preference_that_an_external_does_not_meet_is_the_reason() {
        let packages = format!("{PACKAGES}  prefer: ['+internal-pmix']\n");
        let expected = "openmpi@5.0.10 will be built although /usr has openmpi@4.1.4: the system \
                        prefers +internal-pmix, but the external has ~internal-pmix";
        assert_eq!(said(&packages, &["hdf5 +mpi"], &[newer()]), [expected]);
    }

    #[test]
    fn a_rule_for_other_versions_is_no_reason() {
        let packages =
            format!("{PACKAGES}  prefer: [{{spec: +internal-pmix, when: '@:4.1.3,4.1.5:'}}]\n");
        let expected = "openmpi@5.0.10 will be built although /usr has openmpi@4.1.4: it is built \
                        with +internal-pmix, but the external has ~internal-pmix; it is built with \
                        version 5.0.10, but the external has 4.1.4";
        assert_eq!(said(&packages, &[], &[newer()]), [expected]);
    }

    #[test]
    fn what_the_recipe_asks_for_is_the_reason_also_below_another_package() {
        for asked in ["openmpi@5:", "hdf5 +mpi ^[virtuals=mpi] openmpi@5: +cxx %gcc"] {
            let said = said(PACKAGES, &[asked], &[newer()]);
            assert!(
                said[0].contains("the recipe asks for @5:, but the external has @4.1.4"),
                "{said:?}"
            );
        }
    }

    #[test]
    fn a_target_that_an_external_does_not_name_is_no_reason() {
        let packages = format!("{PACKAGES}  prefer: ['target=zen4', '+internal-pmix']\n");
        let expected = "openmpi@5.0.10 will be built although /usr has openmpi@4.1.4: the system \
                        prefers +internal-pmix, but the external has ~internal-pmix";
        assert_eq!(said(&packages, &[], &[newer()]), [expected]);
    }

    #[test]
    fn one_of_the_alternatives_is_enough() {
        let packages = format!("{PACKAGES}  require: [{{any_of: [fabrics=ucx, fabrics=cma]}}]\n")
            .replace("  require: ['schedulers=slurm']\n", "");
        let said = said(&packages, &[], &[newer()]);
        assert!(said[0].contains("it is built with +internal-pmix"), "{said:?}");
    }

    #[test]
    fn a_package_is_named_that_needs_what_is_built() {
        let packages = "python: {externals: [{spec: python@3.11.2~pythoncmd, prefix: /usr}]}";
        let python = spec("python", "3.11.2", r#","parameters":{"pythoncmd":true}"#);
        let user = r#","dependencies":[{"name":"python","hash":"python3.11.2"}]"#;
        let expected = "python@3.11.2 will be built although /usr has python@3.11.2: it is built \
                        with +pythoncmd, but the external has ~pythoncmd (needed by htop)";
        let built = [python, spec("htop", "3.4", user)];
        assert_eq!(said(packages, &[], &built), [expected]);
        // The one that the recipe names comes first.
        let built = [built.as_slice(), &[spec("py-numpy", "2.5.0", user)]].concat();
        let last = |specs: &[&str]| {
            said(packages, specs, &built)[0].rsplit(" (").next().map(str::to_owned)
        };
        assert_eq!(last(&["py-numpy@2"]).unwrap(), "needed by py-numpy, htop)");
        assert_eq!(last(&[]).unwrap(), "needed by htop, py-numpy)");
    }

    #[test]
    fn an_external_that_is_used_is_not_named() {
        let used = spec("openmpi", "4.1.4", r#","external":{"path":"/usr"}"#);
        assert_eq!(said(PACKAGES, &["openmpi"], &[used]), Vec::<String>::new());
    }
}
