// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Variables in the paths of `mirrors.yaml`: `$SCRATCH/cache`, `${SCRATCH}/cache`.
//!
//! Spack sees none of the variables of the user, so they are replaced before.

use super::mirrors::{Connection, Mirrors};

/// A variable that a path of `mirrors.yaml` names and that is not set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` in mirrors.yaml names the variable {name}, which is not set")]
pub struct UnknownVariable {
    /// The path or the address.
    pub text: String,
    /// The name of the variable.
    pub name: String,
}

impl Mirrors {
    /// Replaces the variables in paths and addresses.
    ///
    /// # Errors
    ///
    /// A variable for which `value` has none.
    pub fn expanded(
        mut self,
        value: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, UnknownVariable> {
        let paths = [&mut self.bootstrap, &mut self.source_cache, &mut self.concretizer_cache];
        for path in paths.into_iter().flatten() {
            expand(path, value)?;
        }
        if let Some(cache) = &mut self.build_cache {
            let keys = [&mut cache.private_key, &mut cache.public_key];
            for key in keys.into_iter().flatten() {
                expand(key, value)?;
            }
            expand_all([&mut cache.fetch, &mut cache.push], value)?;
        }
        for mirror in &mut self.source_mirrors {
            expand_all([&mut mirror.fetch, &mut mirror.push], value)?;
        }
        Ok(self)
    }
}

fn expand_all(
    connections: [&mut Option<Connection>; 2],
    value: &dyn Fn(&str) -> Option<String>,
) -> Result<(), UnknownVariable> {
    let mut connections = connections.into_iter().flatten();
    connections.try_for_each(|connection| expand(&mut connection.url, value))
}

fn expand(
    text: &mut String,
    value: &dyn Fn(&str) -> Option<String>,
) -> Result<(), UnknownVariable> {
    let mut result = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once('$') {
        result.push_str(before);
        let braced = after.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let (name, behind) = braced.unwrap_or_else(|| {
            let is_inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
            after.split_at(after.find(|c| !is_inner(c)).unwrap_or(after.len()))
        });
        if name.is_empty() {
            result.push('$');
        } else {
            let found = value(name)
                .ok_or_else(|| UnknownVariable { text: text.clone(), name: name.to_owned() })?;
            result.push_str(&found);
        }
        rest = behind;
    }
    result.push_str(rest);
    *text = result;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<String, UnknownVariable> {
        let mirrors = Mirrors { source_cache: Some(text.to_owned()), ..Mirrors::default() };
        let value = |name: &str| (name == "SCRATCH").then(|| "/scratch".to_owned());
        mirrors.expanded(&value).map(|mirrors| mirrors.source_cache.unwrap())
    }

    #[test]
    fn variables_are_replaced_with_and_without_braces() {
        let texts = ["$SCRATCH/a", "${SCRATCH}a", "/a$/b", "file://$SCRATCH"].map(expanded);
        let expected = ["/scratch/a", "/scratcha", "/a$/b", "file:///scratch"];
        assert_eq!(texts, expected.map(|text| Ok(text.to_owned())));
    }

    #[test]
    fn a_variable_that_is_not_set_is_reported() {
        assert_eq!(
            expanded("$STORE/a").unwrap_err().to_string(),
            "`$STORE/a` in mirrors.yaml names the variable STORE, which is not set"
        );
    }
}
