// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Proxies, in the form in which a user's variables name them.
//!
//! The caller reads the variables. What they mean is that of curl: a name in the list of
//! exceptions stands for itself and everything below it. An address may have a password in
//! it, so none is ever shown, not even one that makes no sense.

use std::fmt;
use std::net::IpAddr;

use cabane_report::{Kind, Report, Result};
use percent_encoding::percent_decode_str;
use ureq::{Proxy, ProxyBuilder, ProxyProtocol};

/// Which proxies there are, and for whom there are none. Empty texts are as good as none.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ProxySettings {
    /// The proxy for `http://`, such as `http://name:password@proxy.example:3128`.
    pub http: Option<String>,
    /// The proxy for `https://`.
    pub https: Option<String>,
    /// Names, addresses and networks that are reached without a proxy, separated by commas.
    pub no_proxy: Option<String>,
}

impl fmt::Debug for ProxySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = |address: &Option<String>| address.as_ref().map(|_| "…");
        f.debug_struct("ProxySettings")
            .field("http", &hidden(&self.http))
            .field("https", &hidden(&self.https))
            .field("no_proxy", &self.no_proxy)
            .finish()
    }
}

impl ProxySettings {
    /// Returns the proxy for a host, if there is to be one. The host may have a port.
    pub(crate) fn for_host(&self, scheme: &str, host: &str) -> Result<Option<Proxy>> {
        let target = Target::new(scheme, host);
        if self.exceptions().any(|exception| target.is_in(exception)) {
            return Ok(None);
        }
        self.for_scheme(scheme)
    }

    /// Returns the proxy for all hosts to which it may lead, also those that a registry
    /// redirects to. It knows the exceptions that are names or addresses, but neither ports
    /// nor networks: only [`Self::for_host`] does.
    pub(crate) fn for_scheme(&self, scheme: &str) -> Result<Option<Proxy>> {
        let (scheme, address) = match scheme {
            "https" => ("https", &self.https),
            _ => ("http", &self.http),
        };
        let Some(text) = address.as_deref().map(str::trim).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let proxy = self.without_exceptions(read_address(scheme, text)?).build();
        proxy.map(Some).map_err(|_| no_address(scheme))
    }

    fn exceptions(&self) -> impl Iterator<Item = &str> {
        let list = self.no_proxy.as_deref().unwrap_or_default();
        let entries = list.split(|c: char| c == ',' || c.is_whitespace());
        entries.filter(|entry| !entry.is_empty())
    }

    /// Takes no proxy for the exceptions.
    fn without_exceptions(&self, mut proxy: ProxyBuilder) -> ProxyBuilder {
        for exception in self.exceptions() {
            proxy = match (exception, bare(exception)) {
                ("*", _) => proxy.no_proxy("*"),
                // In its list, these mean something of their own.
                (_, name) if name.contains(['*', '/']) || name.ends_with('.') => proxy,
                (_, name) => proxy.no_proxy(name).no_proxy(&format!(".{name}")),
            };
        }
        proxy
    }
}

fn no_address(scheme: &str) -> Report {
    refused(scheme, "is not an address such as `http://proxy.example:3128`")
}

fn refused(scheme: &str, what: &str) -> Report {
    Report::new(Kind::Failure, format!("the proxy for {scheme} {what}")).hinted(format!(
        "`env | grep -i _proxy` shows what is set; `export {scheme}_proxy=http://HOST:PORT` \
         names one"
    ))
}

/// Reads the address of a proxy.
fn read_address(scheme: &str, text: &str) -> Result<ProxyBuilder> {
    let wrong = || no_address(scheme);
    let (protocol, rest) = text.split_once("://").unwrap_or(("http", text));
    let protocol = match protocol.to_ascii_lowercase().as_str() {
        "http" => ProxyProtocol::Http,
        "https" => ProxyProtocol::Https,
        other if other.starts_with("socks") => {
            return Err(refused(
                scheme,
                "speaks SOCKS, and only those that speak HTTP can be used",
            ));
        }
        _ => return Err(wrong()),
    };
    // A password may have an @ in it, a host may not.
    let (user, place) =
        rest.rsplit_once('@').map_or((None, rest), |(user, place)| (Some(user), place));
    let (host, port) = split_port(place.split('/').next().unwrap_or_default());
    let is_strange = |c: char| c.is_whitespace() || c.is_control() || "?#\\\"%".contains(c);
    let is_bare_address = host.contains(':') && !host.starts_with('[');
    if host.is_empty() || host.contains(is_strange) || is_bare_address {
        return Err(wrong());
    }
    let mut proxy = Proxy::builder(protocol).host(host);
    if let Some(port) = port {
        proxy = proxy.port(port.parse().map_err(|_| wrong())?);
    }
    // A `%` that begins no code is itself, as for curl.
    let decode = |text| percent_decode_str(text).decode_utf8().map_err(|_| wrong());
    if let Some(user) = user {
        let (name, password) =
            user.split_once(':').map_or((user, None), |(name, password)| (name, Some(password)));
        proxy = proxy.username(&decode(name)?);
        if let Some(password) = password {
            proxy = proxy.password(&decode(password)?);
        }
    }
    Ok(proxy)
}

/// Where a request goes.
struct Target {
    name: String,
    address: Option<IpAddr>,
    port: String,
}

impl Target {
    fn new(scheme: &str, host: &str) -> Self {
        let (name, port) = split_port(host);
        let name = bare(name).trim_end_matches('.').to_ascii_lowercase();
        let default = if scheme == "https" { "443" } else { "80" };
        Self { address: name.parse().ok(), name, port: port.unwrap_or(default).to_owned() }
    }

    fn is_in(&self, exception: &str) -> bool {
        if exception == "*" {
            return true;
        }
        let (place, port) = split_port(exception);
        if port.is_some_and(|port| port != self.port) {
            return false;
        }
        let place = bare(place).trim_end_matches('.').to_ascii_lowercase();
        if let Some(address) = self.address {
            return is_in_network(address, &place);
        }
        let above = self.name.strip_suffix(place.as_str());
        !place.is_empty() && above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
    }
}

/// Splits `host:port`. The colons of an address are its own, whether in brackets or not.
fn split_port(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((host, port)) if host.ends_with(']') || !host.contains(':') => (host, Some(port)),
        _ => (text, None),
    }
}

/// A name or an address without what may stand around it: `*.`, a dot, brackets.
fn bare(place: &str) -> &str {
    let place = place.strip_prefix('*').unwrap_or(place);
    let place = place.strip_prefix('.').unwrap_or(place);
    let inside = place.strip_prefix('[').and_then(|place| place.strip_suffix(']'));
    inside.unwrap_or(place)
}

/// Whether an address is another one, or in a network such as `10.0.0.0/8`.
fn is_in_network(address: IpAddr, network: &str) -> bool {
    let (start, length) = match network.split_once('/') {
        Some((start, length)) => (start, length.parse().ok()),
        None => (network, Some(128)),
    };
    let (Ok(start), Some(length)) = (start.parse(), length) else {
        return false;
    };
    let (differs, bits) = match (start, address) {
        (IpAddr::V4(start), IpAddr::V4(address)) => {
            (u128::from(start.to_bits() ^ address.to_bits()), 32_u32)
        }
        (IpAddr::V6(start), IpAddr::V6(address)) => (start.to_bits() ^ address.to_bits(), 128),
        _ => return false,
    };
    differs.checked_shr(bits.saturating_sub(length)).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn settings(proxy: &str, no_proxy: &str) -> ProxySettings {
        ProxySettings {
            http: None,
            https: Some(proxy.to_owned()),
            no_proxy: Some(no_proxy.to_owned()),
        }
    }

    /// Name, password, host and port of a proxy.
    fn describe(proxy: &Proxy) -> String {
        let or_none = |text: Option<&str>| text.unwrap_or("-").to_owned();
        let (username, password) = (or_none(proxy.username()), or_none(proxy.password()));
        let protocol = proxy.protocol();
        format!("{protocol} {username} {password} {} {}", proxy.host(), proxy.port())
    }

    #[test]
    fn a_proxy_may_be_written_in_several_ways() {
        let table = [
            ("http://proxy.example:3128", "HTTP - - proxy.example 3128"),
            ("proxy.example:3128", "HTTP - - proxy.example 3128"),
            (" HTTP://proxy.example:3128/ ", "HTTP - - proxy.example 3128"),
            ("http://proxy.example", "HTTP - - proxy.example 80"),
            ("https://proxy.example", "HTTPS - - proxy.example 443"),
            ("http://me:pw@proxy.example:1", "HTTP me pw proxy.example 1"),
            ("http://me@proxy.example:1", "HTTP me - proxy.example 1"),
            ("me:p%40w%2f@proxy.example:1", "HTTP me p@w/ proxy.example 1"),
            ("http://me:p@w:/100%@proxy.example:1", "HTTP me p@w:/100% proxy.example 1"),
            ("http://[::1]:3128", "HTTP - - [::1] 3128"),
        ];
        for (text, expected) in table {
            let proxy = settings(text, "").for_scheme("https").unwrap().unwrap();
            assert_eq!(describe(&proxy), expected, "{text}");
        }
    }

    #[test]
    fn no_proxy_is_needed() {
        let none = ProxySettings::default().for_scheme("https");
        let empty = settings(" ", "").for_scheme("https");
        let other = settings("http://proxy.example", "").for_scheme("http");
        assert!([none, empty, other].iter().all(|proxy| matches!(proxy, Ok(None))));
    }

    #[test]
    fn a_proxy_that_speaks_socks_is_refused() {
        for kind in ["socks", "socks4", "socks4a", "socks5", "SOCKS5h"] {
            let settings = settings(&format!("{kind}://me:hunter2@proxy.example:1080"), "");
            let error = settings.for_scheme("https").unwrap_err().to_string();
            let expected = "the proxy for https speaks SOCKS, and only those that speak HTTP can \
                            be used";
            assert_eq!(error, expected, "{kind}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "http://",
            "ftp://proxy.example",
            "http://me:hunter2",
            "http://me:hunter2@",
            "http://proxy.example:70000",
            "http://proxy.example:-1",
            "http://proxy example:1",
            "http://me:%ff@proxy.example:1",
            "http://a:b:c",
        ] {
            let error = settings(text, "").for_scheme("https").unwrap_err().to_string();
            let expected = "the proxy for https is not an address such as \
                            `http://proxy.example:3128`";
            assert_eq!(error, expected, "{text}");
        }
    }

    #[test]
    fn what_is_printed_for_debugging_has_no_password_in_it() {
        let settings = settings("http://me:hunter2@proxy.example", "a.example");
        assert_eq!(
            format!("{settings:?}"),
            "ProxySettings { http: None, https: Some(\"…\"), no_proxy: Some(\"a.example\") }"
        );
    }

    #[test]
    fn exceptions_are_names_and_what_is_below_them_addresses_and_networks() {
        let table = [
            ("", "a.example", false),
            ("*", "a.example", true),
            ("a.example", "a.example", true),
            ("A.Example", "a.example.:5000", true),
            ("a.example", "b.a.example", true),
            (".a.example", "a.example", true),
            ("*.a.example", "b.a.example", true),
            ("a.example", "ba.example", false),
            ("b.a.example", "a.example", false),
            ("x, a.example", "a.example", true),
            ("x a.example", "a.example", true),
            ("a.example:5000", "a.example:5000", true),
            ("a.example:5000", "a.example", false),
            ("a.example:443", "a.example", true),
            ("10.0.0.1", "10.0.0.1:5000", true),
            ("10.0.0.1", "10.0.0.11", false),
            ("0.1", "10.0.0.1", false),
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("0.0.0.0/0", "11.1.2.3", true),
            ("10.0.0.0/x", "10.0.0.0", false),
            ("::1", "[::1]:5000", true),
            ("[::1]:5000", "[::1]:5000", true),
            ("fe80::/10", "[fe80::1]", true),
            ("fe80::/10", "[fd80::1]", false),
            ("::/0", "10.0.0.1", false),
            (",.,*.,:", "a.example", false),
        ];
        for (no_proxy, host, is_direct) in table {
            let settings = settings("http://proxy.example", no_proxy);
            let proxy = settings.for_host("https", host).unwrap();
            assert_eq!(proxy.is_none(), is_direct, "{no_proxy:?} {host}");
        }
    }

    #[test]
    fn a_proxy_knows_the_exceptions_that_are_names() {
        let settings = settings("http://proxy.example", "a.example,.b.example,c.*,10.0.0.0/8");
        let proxy = settings.for_scheme("https").unwrap().unwrap();
        let is_direct =
            |host: &str| proxy.is_no_proxy(&format!("https://{host}/").parse().unwrap());
        assert_eq!(
            ["a.example", "x.a.example", "b.example", "x.b.example", "c.example", "10.0.0.1"]
                .map(is_direct),
            [true, true, true, true, false, false]
        );
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange_for_a_proxy(
            text in prop_oneof!["((https?|socks)://)?[a:@/%.\\[\\]1]{0,16}", ".{0,30}"],
            no_proxy in prop_oneof!["[a:/.*,1\\[\\]]{0,16}", ".{0,30}"],
            host in prop_oneof!["[a:.1\\[\\]]{0,8}", ".{0,10}"],
        ) {
            let _ = settings(&text, &no_proxy).for_host("https", &host);
        }
    }
}
