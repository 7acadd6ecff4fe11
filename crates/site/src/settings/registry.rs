// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which registry is meant, and how it is reached.

use std::path::PathBuf;

use cabane_label::Namespace;
use cabane_recipe::{ListingChoice, RegistrySettings};
use cabane_registry::{Address, Listing, ProxySettings};

use super::{Layers, Origin, Value, Variables, bad};
use crate::env_vars;
use cabane_report::{Report, Result};

/// Which registry is meant, and how it is reached.
#[derive(Clone, Debug)]
pub struct RegistrySetting {
    /// Where it is; nowhere if nobody has said so.
    pub address: Value<Option<Address>>,
    /// The part of it that is meant when none is named.
    pub namespace: Value<Namespace>,
    /// Certificates that are trusted beside those of the system.
    pub authorities: Value<Option<PathBuf>>,
    /// Who asks, where a token says so.
    pub username: Value<Option<String>>,
    /// A file with a token.
    pub token: Value<Option<PathBuf>>,
    /// Who is asked which images there are.
    pub listing: Value<Listing>,
    /// Through whom it is reached.
    pub proxy: ProxySettings,
    /// Files as `docker login` and `podman login` write them, the first one first.
    pub login_files: Vec<PathBuf>,
    /// A netrc file.
    pub netrc: Option<PathBuf>,
    /// Where programs are found that know passwords.
    pub program_directories: Vec<PathBuf>,
}

const DEFAULT_NAMESPACE: &str = "deploy";

impl Layers<'_> {
    pub(super) fn registry(&self) -> Result<RegistrySetting> {
        let variables = self.variables;
        Ok(RegistrySetting {
            address: self.registry_address()?,
            namespace: self.registry_namespace()?,
            authorities: self.registry_path(None, |registry| registry.ca.clone())?,
            username: self.registry_username(),
            token: self.registry_path(Some(env_vars::CABANE_REGISTRY_TOKEN), |registry| {
                registry.token.clone()
            })?,
            listing: self
                .file_value(|settings| settings.registry.listing.map(listing))
                .unwrap_or(Value::new(Listing::Auto, Origin::Default)),
            proxy: proxy(variables),
            login_files: login_files(variables),
            netrc: variables.directory(env_vars::NETRC).or_else(|| {
                let home = variables.directory(env_vars::HOME);
                home.map(|home| home.join(".netrc"))
            }),
            program_directories: variables.get(env_vars::PATH).map_or_else(Vec::new, |path| {
                let directories = std::env::split_paths(path);
                directories
                    .filter(|directory| directory.is_absolute())
                    .collect()
            }),
        })
    }

    fn registry_address(&self) -> Result<Value<Option<Address>>> {
        let typed = self.variables.text(env_vars::CABANE_REGISTRY);
        let found = typed.or_else(|| {
            let found = self.file_value(|settings| settings.registry.url.clone())?;
            Some((found.value, found.origin))
        });
        let Some((text, origin)) = found else {
            return Ok(Value::new(None, Origin::Default));
        };
        match text.parse() {
            Ok(address) => Ok(Value::new(Some(address), origin)),
            Err(error) => Err(bad_address(&origin, &text, &error)),
        }
    }

    fn registry_namespace(&self) -> Result<Value<Namespace>> {
        if let Some(found) = self.file_value(|settings| settings.registry.namespace.clone()) {
            return Ok(found);
        }
        let origin = Origin::Default;
        match DEFAULT_NAMESPACE.parse() {
            Ok(namespace) => Ok(Value::new(namespace, origin)),
            Err(error) => Err(bad(&origin, DEFAULT_NAMESPACE, error)),
        }
    }

    fn registry_username(&self) -> Value<Option<String>> {
        if let Some((name, origin)) = self.variables.text(env_vars::CABANE_REGISTRY_USERNAME) {
            return Value::new(Some(name), origin);
        }
        if let Some(found) = self.file_value(|settings| settings.registry.username.clone()) {
            return found.some();
        }
        match self.variables.text(env_vars::USER) {
            Some((name, origin)) => Value::new(Some(name), origin),
            None => Value::new(None, Origin::Default),
        }
    }

    fn registry_path(
        &self,
        variable: Option<&'static str>,
        choose: impl Fn(&RegistrySettings) -> Option<cabane_recipe::PathTemplate>,
    ) -> Result<Value<Option<PathBuf>>> {
        let named = variable.and_then(|name| Some((name, self.variables.directory(name)?)));
        if let Some((name, path)) = named {
            return Ok(Value::new(Some(path), Origin::Variable(name)));
        }
        let found = self.file_path(|settings| choose(&settings.registry))?;
        Ok(found.map_or_else(|| Value::new(None, Origin::Default), Value::some))
    }
}

/// An address that is none, with what to write instead.
pub fn bad_address(origin: &Origin, text: &str, error: &cabane_registry::AddressError) -> Report {
    let shown = if matches!(error, cabane_registry::AddressError::User) {
        "…"
    } else {
        text
    };
    bad(origin, shown, error).hinted(error.hint())
}

fn listing(choice: ListingChoice) -> Listing {
    match choice {
        ListingChoice::Auto => Listing::Auto,
        ListingChoice::Catalog => Listing::Catalog,
        ListingChoice::Index => Listing::Index,
    }
}

/// Programs read these variables in both spellings, the one in small letters first.
fn proxy(variables: &Variables<'_>) -> ProxySettings {
    let value = |name: &str| {
        let small = name.to_ascii_lowercase();
        let found = variables.get(&small).or_else(|| variables.get(name));
        found.map(|value| value.to_string_lossy().into_owned())
    };
    ProxySettings {
        http: value(env_vars::HTTP_PROXY).or_else(|| value(env_vars::ALL_PROXY)),
        https: value(env_vars::HTTPS_PROXY).or_else(|| value(env_vars::ALL_PROXY)),
        no_proxy: value(env_vars::NO_PROXY),
    }
}

/// Where Podman and Docker keep what their `login` was told.
fn login_files(variables: &Variables<'_>) -> Vec<PathBuf> {
    if let Some(named) = variables.directory(env_vars::REGISTRY_AUTH_FILE) {
        return vec![named];
    }
    let runtime = variables.directory(env_vars::XDG_RUNTIME_DIR);
    let configuration = variables.below_home(env_vars::XDG_CONFIG_HOME, ".config");
    let docker = variables.below_home(env_vars::DOCKER_CONFIG, ".docker");
    let files = [
        runtime.map(|directory| directory.join("containers/auth.json")),
        configuration.map(|directory| directory.join("containers/auth.json")),
        docker.map(|directory| directory.join("config.json")),
    ];
    files.into_iter().flatten().collect()
}
