// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Addresses in answers: where they lead, and whether that is still the same registry.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use ureq::http::Uri;
use ureq::http::uri::Scheme;

const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Where a request goes: a password is sent only to the origin that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) is_plain: bool,
    pub(crate) host: String,
    port: u16,
}

impl Origin {
    /// Whether the port is the one of the scheme: others may belong to other users of a host.
    pub(super) fn has_usual_port(&self) -> bool {
        self.port == if self.is_plain { 80 } else { 443 }
    }

    pub(crate) fn of(uri: &Uri) -> Option<Self> {
        let is_plain = match uri.scheme()? {
            scheme if *scheme == Scheme::HTTP => true,
            scheme if *scheme == Scheme::HTTPS => false,
            _ => return None,
        };
        Some(Self {
            is_plain,
            host: uri.host()?.to_ascii_lowercase(),
            port: uri.port_u16().unwrap_or(if is_plain { 80 } else { 443 }),
        })
    }
}

/// Returns where an answer leads that was got from `base`; `None` for what is no address.
///
/// An encrypted registry behind a proxy may not know that it is one, and name its own addresses with
/// `http`: those stay encrypted. One port cannot be both.
pub(crate) fn follow(base: &Uri, location: &str) -> Option<Uri> {
    // A fragment is for the client alone, and nothing for the server.
    let location = location.split('#').next().unwrap_or_default();
    let target: Uri = if location.contains("://") {
        location.parse().ok()?
    } else {
        let scheme = base.scheme_str()?;
        let host = base.authority()?;
        let path = match location.strip_prefix('/') {
            Some(_) => location.to_owned(),
            None if location.starts_with('?') => format!("{}{location}", base.path()),
            None => {
                let directory = base.path().rsplit_once('/').map_or("", |(before, _)| before);
                format!("{directory}/{location}")
            }
        };
        match path.strip_prefix("//") {
            // The host may be another, with the same scheme.
            Some(rest) => format!("{scheme}://{rest}").parse().ok()?,
            None => format!("{scheme}://{host}{path}").parse().ok()?,
        }
    };
    let (from, to) = (Origin::of(base)?, Origin::of(&target)?);
    if to.is_plain
        && !from.is_plain
        && from.host == to.host
        && (to.port == 80 || to.port == from.port)
    {
        let path = target.path_and_query()?;
        return format!("https://{}{path}", base.authority()?).parse().ok();
    }
    Some(target)
}

/// Adds a parameter to an address.
pub(crate) fn with_parameter(uri: &Uri, name: &str, value: &str) -> Option<Uri> {
    let separator = if uri.query().is_some() { '&' } else { '?' };
    format!("{uri}{separator}{name}={}", encoded(value)).parse().ok()
}

/// Writes a text as the value of a parameter.
pub(crate) fn encoded(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, RESERVED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn followed(base: &str, location: &str) -> String {
        follow(&base.parse().unwrap(), location).unwrap().to_string()
    }

    #[test]
    fn locations_of_every_form_are_followed() {
        let base = "https://r.example:5000/v2/a/blobs/uploads/";
        for (location, target) in [
            ("/v2/x?_state=1", "https://r.example:5000/v2/x?_state=1"),
            ("https://s3.example/b?sig=%2F", "https://s3.example/b?sig=%2F"),
            ("//cdn.example/b", "https://cdn.example/b"),
            ("uuid", "https://r.example:5000/v2/a/blobs/uploads/uuid"),
            ("?n=2", "https://r.example:5000/v2/a/blobs/uploads/?n=2"),
            ("/x#fragment", "https://r.example:5000/x"),
        ] {
            assert_eq!(followed(base, location), target);
        }
    }

    #[test]
    fn a_proxy_that_forgets_to_encrypt_is_corrected() {
        for (base, location, target) in [
            ("https://r.example/v2/", "http://r.example/v2/a", "https://r.example/v2/a"),
            ("https://r.example:8443/v2/", "http://r.example/a", "https://r.example:8443/a"),
            ("https://r.example:8443/v2/", "http://r.example:8443/a", "https://r.example:8443/a"),
            ("https://r.example/v2/", "http://r.example:8080/a", "http://r.example:8080/a"),
            ("https://r.example:8443/", "http://s.example:8443/a", "http://s.example:8443/a"),
        ] {
            assert_eq!(followed(base, location), target);
        }
    }

    #[test]
    fn another_port_is_another_origin() {
        let of = |text: &str| Origin::of(&text.parse().unwrap()).unwrap();
        assert_ne!(of("https://a.example"), of("https://a.example:8443"));
        assert_eq!(of("https://a.example"), of("https://A.example:443"));
    }

    #[test]
    fn what_is_no_address_leads_nowhere() {
        let base: Uri = "https://a.example/".parse().unwrap();
        assert_eq!(follow(&base, "file:///etc/passwd"), None);
    }

    #[test]
    fn parameters_are_encoded() {
        let uri: Uri = "https://a.example/u?x=1".parse().unwrap();
        assert_eq!(
            with_parameter(&uri, "digest", "sha256:ab").unwrap().to_string(),
            "https://a.example/u?x=1&digest=sha256%3Aab"
        );
    }
}
