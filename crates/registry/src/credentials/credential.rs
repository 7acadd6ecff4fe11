// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is found, in a form that does not show itself.

use std::fmt;

/// A secret: it has no `Display`, and `Debug` shows dots.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a text for a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text, for sending it to whom it is meant for.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// What proves to a registry who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A name and a password, or a token that is used like one.
    Password {
        /// The name.
        username: String,
        /// The password.
        password: Secret,
    },
    /// A token with which others are got (`identitytoken` in Docker's file).
    Identity(Secret),
    /// A token that is sent as it is (`registrytoken` in Docker's file).
    Bearer(Secret),
}

impl Credential {
    /// Takes a name and a password.
    pub(super) fn password(username: impl Into<String>, password: impl Into<String>) -> Self {
        Self::Password { username: username.into(), password: Secret::new(password) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_for_debugging_has_no_secret_in_it() {
        let all = [
            Credential::password("someone", "hunter2"),
            Credential::Identity(Secret::new("hunter2")),
            Credential::Bearer(Secret::new("hunter2")),
        ];
        assert!(!format!("{all:#?}").contains("hunter2"));
    }
}
