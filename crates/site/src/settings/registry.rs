// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which registry is meant, and how it is reached.

use std::path::PathBuf;

use cabane_label::Namespace;
use cabane_recipe::Settings;
use cabane_recipe::settings::table;
use cabane_registry::{Address, Listing, ProxySettings};
use cabane_report::{Report, Result};

use super::{Layers, Origin, Value, Variables, bad};
use crate::env_vars;

/// Which registry is meant, and how it is reached.
#[derive(Clone, Debug)]
pub struct RegistrySetting {
    /// Where it is; none if it is not configured.
    pub address: Value<Option<Address>>,
    /// The part of it that is meant when none is named.
    pub namespace: Value<Namespace>,
    /// Certificates that are trusted beside those of the system.
    pub authorities: Value<Option<PathBuf>>,
    /// Who asks, where a token says so.
    pub username: Value<Option<String>>,
    /// A file with a token.
    pub token: Value<Option<PathBuf>>,
    /// Where a service lists them.
    pub listing_url: Value<Option<String>>,
    /// How the images are listed.
    pub listing: Value<Listing>,
    /// Hosts that may get the password for a registry.
    pub token_services: Vec<String>,
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
        let address = self.registry_address()?;
        let layers = self.about_registry(address.value.as_ref());
        let username = layers.text(&table::REGISTRY_USERNAME);
        Ok(RegistrySetting {
            address,
            namespace: layers.parsed_or(&table::NAMESPACE, DEFAULT_NAMESPACE)?,
            authorities: layers.path_or(&table::REGISTRY_CA, None)?,
            username: match username.or_else(|| variables.text(env_vars::USER)) {
                Some((name, origin)) => Value::new(Some(name), origin),
                None => Value::new(None, Origin::Default),
            },
            token: layers.path_or(&table::REGISTRY_TOKEN, None)?,
            listing_url: match layers.text(&table::LISTING_URL) {
                Some((text, origin)) => Value::new(Some(text), origin),
                None => Value::new(None, Origin::Default),
            },
            listing: match layers.text(&table::LISTING) {
                Some((text, origin)) => Value::new(listing(&text), origin),
                None => Value::new(Listing::Auto, Origin::Default),
            },
            token_services: {
                let files = self.files.iter();
                files.flat_map(|(_, settings)| settings.token_services.clone()).collect()
            },
            proxy: proxy(variables),
            login_files: login_files(variables),
            netrc: variables.below_home(env_vars::NETRC, ".netrc"),
            program_directories: variables.get(env_vars::PATH).map_or_else(Vec::new, |path| {
                let directories = std::env::split_paths(path);
                directories.filter(|directory| directory.is_absolute()).collect()
            }),
        })
    }

    fn registry_address(&self) -> Result<Value<Option<Address>>> {
        let Some((text, origin)) = self.text(&table::REGISTRY_URL) else {
            return Ok(Value::new(None, Origin::Default));
        };
        match text.parse() {
            Ok(address) => Ok(Value::new(Some(address), origin)),
            Err(error) => Err(bad_address(&origin, &text, &error)),
        }
    }

    /// Leaves out files about the registry of another host: a token is sent only to the host that
    /// it is for, and certificates are trusted only for theirs.
    fn about_registry(&self, address: Option<&Address>) -> Self {
        let is_other = |settings: &Settings| {
            let url = settings.get(&table::REGISTRY_URL);
            let configured = url.and_then(|url| url.parse::<Address>().ok());
            let hosts = configured.as_ref().zip(address);
            hosts.is_some_and(|(one, meant)| one.host() != meant.host())
        };
        let mut files = self.files.clone();
        files.retain(|(_, settings)| !is_other(settings));
        Self { files, ..*self }
    }
}

/// An address that is none, with what to write instead.
pub fn bad_address(origin: &Origin, text: &str, error: &Report) -> Report {
    // Before an `@` there may be a password, whatever else is wrong.
    let shown = if text.contains('@') { "…" } else { text };
    bad(origin, shown, error).hinted(error.hints().first().cloned())
}

/// A file has been checked to name one of these.
fn listing(text: &str) -> Listing {
    match text {
        "catalog" => Listing::Catalog,
        "index" => Listing::Index,
        _ => Listing::Auto,
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

/// Where Podman and Docker keep the credentials of their `login`.
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
