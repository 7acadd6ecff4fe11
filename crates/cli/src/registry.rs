// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the commands have in common that talk to a registry.

use std::path::{Path, PathBuf};

use cabane_label::{LabelPattern, Namespace};
use cabane_registry::{Address, Credential, CredentialSources, Options, Place, Registry};
use clap::Args;

use crate::report::{CommandResult, Kind, Report};
use crate::setup::Setup;
use cabane_environment::complete_label;
use cabane_site::settings::{Origin, bad_address};

/// Which registry is meant, and who asks.
#[derive(Debug, Args)]
pub(crate) struct RegistryArgs {
    /// The address of the registry: host and prefix, with http:// if it is not encrypted
    #[arg(long, value_name = "URL")]
    registry: Option<String>,
    /// A file with a token for the registry, or a directory with a file TOKEN
    #[arg(long, value_name = "PATH")]
    token: Option<PathBuf>,
    /// The user name for the token; default: your user name
    #[arg(long, value_name = "NAME")]
    username: Option<String>,
}

#[derive(Debug, thiserror::Error)]
enum RegistryError {
    #[error("no registry is configured")]
    None,
}

/// A registry, and the part of it that is meant when none is named.
pub(crate) struct Connection {
    /// The registry.
    pub(crate) registry: Registry,
    /// The part that is meant when none is named.
    namespace: Namespace,
}

impl RegistryArgs {
    /// Prepares for asking the registry that is meant. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// No registry, an address that is none, a token that cannot be read.
    pub(crate) fn connect(&self, setup: &Setup) -> CommandResult<Connection> {
        let setting = &setup.settings.registry;
        let address = self.address(setup)?;
        let options = Options {
            cache: setup
                .settings
                .cache_directory
                .value
                .as_ref()
                .map(|cache| cache.join("registry")),
            ..options(setup, self.given(setup, &address)?)
        };
        let registry = Registry::new(address, &options)?;
        Ok(Connection {
            registry,
            namespace: setting.namespace.value.clone(),
        })
    }

    fn address(&self, setup: &Setup) -> CommandResult<Address> {
        if let Some(text) = &self.registry {
            let origin = Origin::Option("--registry");
            return text
                .parse()
                .map_err(|error| bad_address(&origin, text, &error));
        }
        let configured = setup.settings.registry.address.value.clone();
        configured.ok_or_else(|| {
            Report::new(Kind::Usage, RegistryError::None).hinted(
                "`--registry URL` names one, or `url = \"https://…\"` below `[registry]` in the \
                 configuration"
                    .to_owned(),
            )
        })
    }

    /// Returns who asks, where a token says so. That of the configuration is for its own
    /// registry only: another one has no business with it.
    fn given(&self, setup: &Setup, address: &Address) -> CommandResult<Option<Credential>> {
        let setting = &setup.settings.registry;
        let configured = setting.address.value.as_ref();
        let is_meant = configured.is_none_or(|one| one.host() == address.host());
        let of_configuration = setting.token.value.as_deref().filter(|_| is_meant);
        let token = self.token.as_deref().or(of_configuration);
        let Some(token) = token else {
            return Ok(None);
        };
        let username = self
            .username
            .as_deref()
            .or(setting.username.value.as_deref());
        let read = Credential::from_token_file(token, username);
        let read = read.map_err(|error| Report::from(cabane_registry::Error::from(error)))?;
        if let Some(warning) = &read.warning {
            setup.printer.warning(&warning.to_string());
            setup.printer.hint(&warning.hint());
        }
        Ok(Some(read.credential))
    }
}

/// Prepares for asking a registry of container images, which may be any.
///
/// # Errors
///
/// A token that cannot be read, certificates or a proxy that cannot be used.
pub(crate) fn of_containers(
    setup: &Setup,
    address: &Address,
    token: Option<&Path>,
    username: Option<&str>,
) -> CommandResult<Registry> {
    let args = RegistryArgs {
        registry: Some(address.to_string()),
        token: token.map(Path::to_owned),
        username: username.map(str::to_owned),
    };
    // Without a registry of its own a token of the configuration is meant for images of ours.
    let given = match token {
        None if setup.settings.registry.address.value.is_none() => None,
        _ => args.given(setup, address)?,
    };
    let options = options(setup, given);
    Registry::new(address.clone(), &options).map_err(Report::from)
}

fn options(setup: &Setup, given: Option<Credential>) -> Options {
    let setting = &setup.settings.registry;
    Options {
        credentials: CredentialSources {
            given,
            login_files: setting.login_files.clone(),
            netrc: setting.netrc.clone(),
            program_directories: setting.program_directories.clone(),
        },
        authorities: setting.authorities.value.clone(),
        proxy: setting.proxy.clone(),
        ..Options::default()
    }
}

impl Connection {
    /// Returns the part of the registry that a pattern names.
    pub(crate) fn namespace_of(&self, pattern: Option<&LabelPattern>) -> Namespace {
        let named = pattern.and_then(|pattern| pattern.namespace.clone());
        named.unwrap_or_else(|| self.namespace.clone())
    }

    /// Returns the place of a new image; parts of the label that were left out are filled in.
    ///
    /// # Errors
    ///
    /// A name or version that is missing.
    pub(crate) fn new_place(&self, setup: &Setup, pattern: &LabelPattern) -> CommandResult<Place> {
        let without = LabelPattern {
            namespace: None,
            ..pattern.clone()
        };
        Ok(Place {
            namespace: self.namespace_of(Some(pattern)),
            label: complete_label(setup, &without)?,
        })
    }
}
