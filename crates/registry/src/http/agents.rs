// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Who connects: with or without a proxy, with or without TLS.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use cabane_report::Result;
use ureq::http::Uri;
use ureq::tls::TlsConfig;
use ureq::{Agent, Proxy, ProxyProtocol};

use crate::options::Options;
use crate::retry_policy::RetryPolicy;

/// The agents for a registry, and for where it leads.
#[derive(Debug)]
pub(super) struct Agents {
    is_plain: bool,
    own: Pair,
    /// For encrypted places to which a plain registry leads. Certificates are read when they
    /// are needed.
    encrypted: OnceLock<Pair>,
    options: Options,
}

#[derive(Debug)]
struct Pair {
    /// For hosts that are reached without a proxy.
    direct: Agent,
    proxied: Option<Agent>,
}

impl Agents {
    pub(super) fn new(is_plain: bool, options: &Options) -> Result<Self> {
        let own = Pair::new(is_plain, options)?;
        Ok(Self { is_plain, own, encrypted: OnceLock::new(), options: options.clone() })
    }

    pub(super) fn agent_for(&self, uri: &Uri) -> Result<&Agent> {
        let scheme = uri.scheme_str().unwrap_or_default();
        let pair = if self.is_plain && scheme == "https" { self.encrypted()? } else { &self.own };
        let (Some(proxied), Some(host)) = (&pair.proxied, uri.authority()) else {
            return Ok(&pair.direct);
        };
        let proxy = self.options.proxy.for_host(scheme, host.as_str());
        Ok(if proxy?.is_some() { proxied } else { &pair.direct })
    }

    fn encrypted(&self) -> Result<&Pair> {
        if let Some(pair) = self.encrypted.get() {
            return Ok(pair);
        }
        let pair = Pair::new(false, &self.options)?;
        Ok(self.encrypted.get_or_init(|| pair))
    }
}

impl Pair {
    fn new(is_plain: bool, options: &Options) -> Result<Self> {
        let scheme = if is_plain { "http" } else { "https" };
        let proxy = options.proxy.for_scheme(scheme)?;
        // The way to the proxy may be encrypted where the registry is not.
        let proxy_has_tls =
            proxy.as_ref().is_some_and(|proxy| proxy.protocol() == ProxyProtocol::Https);
        let is_never_encrypted = cfg!(feature = "fuzzing") || is_plain && !proxy_has_tls;
        let authorities = options.authorities.as_deref();
        let tls = if is_never_encrypted { None } else { Some(tls(authorities)?) };
        let agent = |proxy| agent(proxy, tls.clone(), &options.retry_policy);
        Ok(Self { direct: agent(None), proxied: proxy.map(|proxy| agent(Some(proxy))) })
    }
}

pub(super) fn tls(authorities: Option<&Path>) -> Result<TlsConfig> {
    let roots = crate::trust::roots(authorities)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(TlsConfig::builder().root_certs(roots).unversioned_rustls_crypto_provider(provider).build())
}

pub(super) fn agent(
    proxy: Option<Proxy>,
    tls: Option<TlsConfig>,
    retry_policy: &RetryPolicy,
) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(proxy)
        .user_agent(concat!("cabane/", env!("CARGO_PKG_VERSION")))
        // A blob comes as it is: its digest is that of these bytes.
        .accept_encoding("identity")
        .timeout_connect(Some(retry_policy.connect))
        .timeout_per_read(Some(retry_policy.silence))
        .timeout_per_write(Some(retry_policy.silence))
        .max_idle_connections_per_host(16)
        .tls_config(tls.unwrap_or_default())
        .build();
    #[cfg(feature = "fuzzing")]
    return super::fuzzed::agent(config);
    #[cfg(not(feature = "fuzzing"))]
    config.new_agent()
}
