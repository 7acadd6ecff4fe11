// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the commands have in common that talk to a registry.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use cabane_environment::complete_label;
use cabane_label::{LabelPattern, Namespace};
use cabane_registry::{Address, Credential, CredentialSources, Options, Place, Registry};
use cabane_report::{Kind, Report, Result};
use cabane_site::settings::{ChannelSetting, Origin, bad_address};
use cabane_site::{Context, env_vars};

use crate::bundle::open_bundle;

/// Which registry is meant, and who asks, as it was typed.
#[derive(Clone, Debug, Default)]
pub struct RegistryRequest {
    /// The address: host and prefix.
    pub registry: Option<String>,
    /// A file with a token.
    pub token: Option<PathBuf>,
    /// The user name for the token.
    pub username: Option<String>,
}

/// A registry, and the part of it that is meant when none is named.
pub struct Connection {
    /// The registry.
    pub registry: Registry,
    /// The part that is meant when none is named.
    namespace: Namespace,
}

impl RegistryRequest {
    /// Prepares for asking the registry that is meant. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// No registry, an address that is none, a token that cannot be read.
    pub fn connect(&self, context: &Context) -> Result<Connection> {
        if let Some(path) = self.registry.as_deref().and_then(bundle_path) {
            return Ok(open_bundle(context, path)?.into_connection());
        }
        let address = self.address(context)?;
        let (token, username) = (self.token.as_deref(), self.username.as_deref());
        let given = given(context, &address, token, username)?;
        let cache = context.settings.cache_directory.value.as_ref();
        let setting = &context.settings.registry;
        let is_configured = setting.address.value.as_ref() == Some(&address);
        let listing_url = setting.listing_url.value.clone().filter(|_| is_configured);
        let cache = cache.map(|cache| cache.join("registry"));
        let options = Options { cache, listing_url, ..options(context, given) };
        let registry = Registry::new(address, &options)?;
        Ok(Connection { registry, namespace: context.settings.registry.namespace.value.clone() })
    }

    fn address(&self, context: &Context) -> Result<Address> {
        if let Some(text) = &self.registry {
            let origin = Origin::Option("--registry");
            return text.parse().map_err(|error| bad_address(&origin, text, &error));
        }
        let configured = context.settings.registry.address.value.clone();
        configured.ok_or_else(|| {
            Report::new(Kind::Usage, "no registry is configured").hinted(
                "`--registry URL` names one, or `url = \"https://…\"` below `[registry]` in the \
                 configuration"
                    .to_owned(),
            )
        })
    }
}

/// Returns the file, where a bundle was typed in the place of an address.
fn bundle_path(typed: &str) -> Option<&Path> {
    let is_path = typed.starts_with(['/', '.']) || Path::new(typed).is_file();
    is_path.then(|| Path::new(typed))
}

/// Returns who asks, where a token says so. That of the configuration is for its own registry
/// only: another one has no business with it.
fn given(
    context: &Context,
    address: &Address,
    token: Option<&Path>,
    username: Option<&str>,
) -> Result<Option<Credential>> {
    let setting = &context.settings.registry;
    let configured = setting.address.value.as_ref();
    let is_meant = configured.is_none_or(|one| one.host() == address.host());
    let of_configuration = setting.token.value.as_deref().filter(|_| is_meant);
    let Some(token) = token.or(of_configuration) else {
        return Ok(None);
    };
    let username = username.or(setting.username.value.as_deref());
    let (credential, kept_badly) = Credential::from_token_file(token, username)?;
    if let Some(kept_badly) = kept_badly {
        context.warning(kept_badly.warning);
        context.hint(kept_badly.hint);
    }
    Ok(Some(credential))
}

/// Prepares for asking a registry of container images, which may be any.
///
/// # Errors
///
/// A token that cannot be read, certificates or a proxy that cannot be used.
pub fn of_containers(
    context: &Context,
    address: &Address,
    token: Option<&Path>,
    username: Option<&str>,
) -> Result<Registry> {
    // Without a registry of its own a token of the configuration is meant for images of ours.
    let given = match token {
        None if context.settings.registry.address.value.is_none() => None,
        _ => self::given(context, address, token, username)?,
    };
    Ok(Registry::new(address.clone(), &options(context, given))?)
}

fn options(context: &Context, given: Option<Credential>) -> Options {
    let setting = &context.settings.registry;
    let user = context.calling.get(OsStr::new(env_vars::USER));
    let number = || format!("uid {}", rustix::process::getuid().as_raw());
    let actor = user.map_or_else(number, |user| user.to_string_lossy().into_owned());
    Options {
        actor: Some(actor),
        token_services: setting.token_services.clone(),
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
    /// Makes a connection to a registry that no server keeps.
    pub(crate) fn new(context: &Context, registry: Registry) -> Self {
        Self { registry, namespace: context.settings.registry.namespace.value.clone() }
    }

    /// Returns the part of the registry that a pattern names.
    pub fn namespace_of(&self, pattern: Option<&LabelPattern>) -> Namespace {
        let named = pattern.and_then(|pattern| pattern.namespace.clone());
        named.unwrap_or_else(|| self.namespace.clone())
    }

    /// Fails if the tag of a label is a channel: which image that is, is decided by its document.
    ///
    /// # Errors
    ///
    /// It is.
    pub fn refuse_channel(&self, context: &Context, pattern: &LabelPattern) -> Result<()> {
        let namespace = self.namespace_of(Some(pattern));
        let is_channel = |one: &&ChannelSetting| {
            one.namespace == namespace
                && pattern.tag.as_ref().is_some_and(|tag| one.name.is_tag(tag))
        };
        let Some(setting) = context.settings.channels.iter().find(is_channel) else {
            return Ok(());
        };
        let (name, file) = (&setting.name, setting.file.display());
        let message = format!("`{name}` is a channel, and not a tag (in {file})");
        Err(Report::new(Kind::Usage, message).hinted(format!(
            "use the tag of the image, such as `v1`; `cabane channel promote {name} LABEL` releases it"
        )))
    }

    /// Returns the place of a new image; parts of the label that were left out are filled in.
    ///
    /// # Errors
    ///
    /// A name or version that is missing.
    pub fn new_place(&self, context: &Context, pattern: &LabelPattern) -> Result<Place> {
        self.refuse_channel(context, pattern)?;
        let without = LabelPattern { namespace: None, ..pattern.clone() };
        Ok(Place {
            namespace: self.namespace_of(Some(pattern)),
            label: complete_label(context, &without)?,
        })
    }
}
