// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Giving a line of JSON to a collector: one request, no password, no second try.

use std::io;
use std::time::Duration;

use ureq::http::Uri;

use super::agents::{agent, tls};
use super::url::Origin;
use crate::{Error, RetryPolicy};

/// Tells whether a text is the address of a collector: `http://…` or `https://…`, without a
/// password.
pub fn is_address_of_collector(text: &str) -> bool {
    let is_web = text.starts_with("http://") || text.starts_with("https://");
    let uri: Option<Uri> = text.parse().ok();
    let authority = uri.as_ref().and_then(Uri::authority);
    is_web
        && authority.is_some_and(|place| !place.as_str().contains('@'))
        && uri.as_ref().and_then(Origin::of).is_some()
}

/// Gives it to a collector, which has this long for everything. The certificates that are
/// trusted are those of the system; there is no proxy.
///
/// # Errors
///
/// That it was not taken.
pub fn give_to_collector(address: &str, line: &str, time_limit: Duration) -> io::Result<()> {
    let each = RetryPolicy { connect: time_limit, silence: time_limit, ..RetryPolicy::default() };
    let tls = address.starts_with("https:").then(|| tls(None)).transpose();
    let tls = tls.map_err(|report| io::Error::other(Error::from(report)))?;
    let request = agent(None, tls, &each)
        .post(address)
        .header("content-type", "application/json")
        .config()
        .timeout_global(Some(time_limit))
        .build();
    let answer = request.send(line).map_err(io::Error::other)?;
    if answer.status().is_success() {
        return Ok(());
    }
    Err(io::Error::other(format!("the collector answered {}", answer.status())))
}
