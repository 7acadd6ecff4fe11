// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The page about a package, and the list of packages. Pure.

use std::fmt::Write as _;
use std::hash::{Hash, Hasher};

use cabane_label::escape_html;
use cabane_web_page::{counted, line};

use crate::html::{Frame, LONGEST_NAME, LONGEST_TEXT, label};
use crate::model::{Model, Package, Spec};

/// How many images of each way to build a package its page names: the newest. The search has all.
const MOST_IMAGES: usize = 10;

/// All that a page about a package shows.
#[derive(Hash)]
pub(crate) struct PackageView<'a> {
    name: &'a str,
    file: &'a str,
    count: usize,
    specs: Vec<SpecView<'a>>,
}

struct SpecView<'a> {
    spec: &'a Spec<'a>,
    /// The newest images with their pages.
    images: Vec<(String, &'a str)>,
}

impl Hash for SpecView<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let package = &self.spec.package;
        (package.version, package.variants, package.compilers, package.external).hash(state);
        (self.spec.rows.len(), &self.images).hash(state);
    }
}

impl<'a> PackageView<'a> {
    pub(crate) fn of(model: &'a Model<'_>, package: &'a Package<'_>) -> Self {
        let specs = package.specs.iter().map(|spec| {
            let newest = spec.rows.iter().rev().take(MOST_IMAGES);
            let images = newest.map(|row| (model.label(*row), model.page_name(*row)));
            SpecView { spec, images: images.collect() }
        });
        Self {
            name: package.name,
            file: &package.file,
            count: package.count,
            specs: specs.collect(),
        }
    }

    /// Writes the page.
    pub(crate) fn page(&self, frame: &Frame) -> Vec<u8> {
        let mut body = format!("<h1>{}</h1>\n", line(self.name, LONGEST_TEXT));
        let search = escape_html(&format!("../index.html#q={}", encoded(self.name)));
        let _ = writeln!(
            body,
            "<p>{} it. <a href=\"{search}\">Search for all of them</a>, or see the \
             <a href=\"../api/v1/packages/{}.json\">list as JSON</a>.</p>",
            if self.count == 1 {
                "1 image has".to_owned()
            } else {
                format!("{} images have", self.count)
            },
            self.file
        );
        for spec in &self.specs {
            spec.add(&mut body);
        }
        frame.page(1, self.name, &body)
    }
}

impl SpecView<'_> {
    fn add(&self, body: &mut String) {
        let package = &self.spec.package;
        let version = match package.version {
            "" => "unknown version".to_owned(),
            version => line(version, LONGEST_NAME),
        };
        let of_system = if package.external { " of the system" } else { "" };
        let _ = writeln!(body, "<h2>{version}{of_system}</h2>");
        let compilers = package.compilers.split_terminator(',').map(|one| format!("%{one}"));
        let made: Vec<String> = [package.variants.to_owned()]
            .into_iter()
            .chain(compilers)
            .filter(|one| !one.is_empty())
            .collect();
        if !made.is_empty() {
            let _ = writeln!(body, "<p><code>{}</code></p>", line(&made.join(" "), LONGEST_TEXT));
        }
        let all = self.spec.rows.len();
        let newest = if all > self.images.len() {
            format!("{}; the newest are", counted(all, "image"))
        } else {
            counted(all, "image")
        };
        let _ = writeln!(body, "<p class=\"faint\">{newest}:</p>\n<ul>");
        for (name, page) in &self.images {
            let _ = writeln!(body, "<li><a href=\"../i/{page}.html\">{}</a></li>", label(name));
        }
        body.push_str("</ul>\n");
    }
}

/// Writes the list of all packages.
pub(crate) fn list(frame: &Frame, model: &Model<'_>) -> Vec<u8> {
    let mut body =
        format!("<h1>Packages</h1>\n<p>{}.</p>\n", counted(model.packages.len(), "package"));
    body.push_str("<ul class=\"columns\">\n");
    for package in &model.packages {
        let _ = writeln!(
            body,
            "<li><a href=\"p/{}.html\">{}</a> <span class=\"faint\">{}</span></li>",
            package.file,
            line(package.name, LONGEST_NAME),
            counted(package.count, "image")
        );
    }
    body.push_str("</ul>\n");
    frame.page(0, "Packages", &body)
}

/// Returns a text as it is in the address of a page.
fn encoded(text: &str) -> String {
    let mut safe = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                safe.push(byte.into());
            }
            other => {
                let _ = write!(safe, "%{other:02X}");
            }
        }
    }
    safe
}
