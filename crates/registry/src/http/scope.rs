// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a token must allow.

/// What a request needs to be allowed, as the token specification of registries writes it:
/// `repository:uenv/deploy/…:pull,push`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Scope(Vec<String>);

impl Scope {
    pub(crate) fn pull(repository: &str) -> Self {
        Self(vec![format!("repository:{repository}:pull")])
    }

    pub(crate) fn push(repository: &str) -> Self {
        Self(vec![format!("repository:{repository}:pull,push")])
    }

    pub(crate) fn delete(repository: &str) -> Self {
        Self(vec![format!("repository:{repository}:delete,pull,push")])
    }

    pub(crate) fn catalog() -> Self {
        Self(vec!["registry:catalog:*".to_owned()])
    }

    #[must_use]
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    pub(crate) fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns the repository whose passwords are looked for.
    pub(crate) fn repository(&self) -> &str {
        let first = self.0.first().map_or("", String::as_str);
        let inside = first.strip_prefix("repository:").unwrap_or_default();
        inside.rsplit_once(':').map_or("", |(name, _)| name)
    }
}
