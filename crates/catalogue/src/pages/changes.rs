// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What happened to the images, as a page and as an Atom feed. Pure.
//!
//! Format: RFC 4287.

use std::fmt::Write as _;

use cabane_label::escape_html;
use cabane_web_page::line;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::events::Event;
use crate::html::{Frame, LONGEST_TEXT, time};

/// How many events the feed has.
const MOST_IN_FEED: usize = 50;

/// Writes the page.
pub(crate) fn page(frame: &Frame, events: &[Event]) -> Vec<u8> {
    let mut body = "<h1>Changes</h1>\n".to_owned();
    if events.is_empty() {
        body.push_str("<p>There are no changes.</p>\n");
        return frame.page(0, "Changes", &body);
    }
    body.push_str("<ul>\n");
    for event in events {
        let title = line(&event.title, LONGEST_TEXT);
        let title = match &event.page {
            Some(page) => format!("<a href=\"i/{page}.html\">{title}</a>"),
            None => title,
        };
        let _ = write!(body, "<li>{}: {title}", time(event.time));
        if let Some(reason) = &event.reason {
            let _ = write!(body, ": {}", line(reason, LONGEST_TEXT));
        }
        body.push_str("</li>\n");
    }
    body.push_str("</ul>\n");
    frame.page(0, "Changes", &body)
}

/// Writes the feed. Without an address of the site, links are relative.
pub(crate) fn feed(frame: &Frame, base: Option<&str>, events: &[Event]) -> Vec<u8> {
    let base = base.map(escape_html).unwrap_or_default();
    let newest = events.first().map_or(Timestamp::UNIX_EPOCH, |event| event.time);
    let title = escape_html(&frame.title);
    let mut feed = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<feed xmlns=\"http://www.w3.org/2005/Atom\">\n\
         <title>{title}</title>\n<id>{}</id>\n<updated>{newest:.0}</updated>\n\
         <author><name>{title}</name></author>\n\
         <link rel=\"self\" href=\"{base}changes.atom\"/>\n<link href=\"{base}changes.html\"/>\n",
        id_of(&[&frame.title, frame.registry()])
    );
    for event in events.iter().take(MOST_IN_FEED) {
        let page = event.page.as_deref().map(|page| format!("i/{page}.html"));
        let _ = write!(
            feed,
            "<entry>\n<title>{}</title>\n<id>{}</id>\n<updated>{:.0}</updated>\n\
             <link href=\"{base}{}\"/>\n<summary>{}</summary>\n</entry>\n",
            escape_html(&event.title),
            id_of(&[frame.registry(), &event.time.to_string(), &event.title]),
            event.time,
            page.as_deref().unwrap_or("changes.html"),
            escape_html(event.reason.as_deref().unwrap_or(&event.title))
        );
    }
    feed.push_str("</feed>\n");
    feed.into_bytes()
}

/// Returns a unique address for these texts: a UUID of version 8.
fn id_of(texts: &[&str]) -> String {
    let sum = Sha256::digest(texts.join("\n"));
    let mut digits: Vec<char> = sum
        .iter()
        .take(16)
        .flat_map(|byte| format!("{byte:02x}").chars().collect::<Vec<_>>())
        .collect();
    digits[12] = '8';
    digits[16] = '8';
    let text: String = digits.into_iter().collect();
    let parts = [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]];
    format!("urn:uuid:{}", parts.join("-"))
}
