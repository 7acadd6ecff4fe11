// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What holds for packages on a system.

use serde::Serialize;

/// What holds for a package on this system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PackageRules {
    /// The name of Spack's package.
    pub package: &'static str,
    /// What it must have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub require: Vec<Rule>,
    /// What it has unless a recipe says otherwise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prefer: Vec<Rule>,
}

/// A rule, and why it is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// A spec, such as `netmod=ofi`.
    pub spec: String,
    /// The reason.
    pub because: String,
    /// For which versions it holds, such as `@:4.1.3,4.1.5:`; for all if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
}

impl PackageRules {
    pub(crate) fn new(package: &'static str) -> Self {
        Self { package, require: Vec::new(), prefer: Vec::new() }
    }

    pub(crate) fn must(&mut self, spec: impl Into<String>, because: impl Into<String>) {
        let (spec, because) = (spec.into(), because.into());
        self.require.push(Rule { spec, because, when: None });
    }

    pub(crate) fn may(&mut self, spec: impl Into<String>, because: impl Into<String>) {
        self.may_when(spec, because, None);
    }

    /// Adds a preference for some versions.
    ///
    /// Spack keeps to preferences before it considers what is installed: one that holds
    /// for an installed version keeps Spack from it.
    pub(crate) fn may_when(
        &mut self,
        spec: impl Into<String>,
        because: impl Into<String>,
        when: Option<String>,
    ) {
        let (spec, because) = (spec.into(), because.into());
        self.prefer.push(Rule { spec, because, when });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.require.is_empty() && self.prefer.is_empty()
    }
}
