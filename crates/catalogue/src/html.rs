// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What all pages have: head, links to the other pages, and foot. Pure.

use std::fmt::Write as _;

use cabane_label::escape_html;
use cabane_web_page::{chip, date, line};
use jiff::Timestamp;

use crate::input::{CatalogueInput, Source};
use crate::model::{Model, State};

/// The most characters of a name in a table. The title of a page has all of it.
pub(crate) const LONGEST_NAME: usize = 120;
/// The most characters of a description or a reason.
pub(crate) const LONGEST_TEXT: usize = 2000;

/// Own files and nothing else. From a file, `'self'` means nothing to some browsers.
const POLICY: &str = "default-src 'none'; style-src 'self' file:; img-src data:; base-uri 'none'; \
                      form-action 'none'";
const POLICY_WITH_SCRIPTS: &str = "default-src 'none'; script-src 'self' file:; style-src 'self' file:; \
                                   img-src data:; base-uri 'none'; form-action 'none'";

/// What all pages share.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Frame {
    pub(crate) title: String,
    pub(crate) source: Source,
    pub(crate) has_upgrades: bool,
}

impl Frame {
    pub(crate) fn of(input: &CatalogueInput) -> Self {
        Self {
            title: input.title.clone(),
            source: input.source.clone(),
            has_upgrades: !input.upgrades.is_empty(),
        }
    }

    /// Writes a page. `depth` is how many directories it is below the first one; `body` begins
    /// with the heading.
    pub(crate) fn page(&self, depth: usize, title: &str, body: &str) -> Vec<u8> {
        self.write(depth, title, body, "")
    }

    /// Writes the page of the search, which runs scripts.
    pub(crate) fn page_with_scripts(&self, title: &str, body: &str, scripts: &[&str]) -> Vec<u8> {
        let mut tags = String::new();
        for name in scripts {
            let _ = writeln!(tags, "<script src=\"{name}\" defer></script>");
        }
        self.write(0, title, body, &tags)
    }

    fn write(&self, depth: usize, title: &str, body: &str, scripts: &str) -> Vec<u8> {
        let up = "../".repeat(depth);
        let policy = if scripts.is_empty() { POLICY } else { POLICY_WITH_SCRIPTS };
        let site = line(&self.title, LONGEST_NAME);
        let title = match line(title, LONGEST_NAME) {
            title if title == site => site.clone(),
            title => format!("{title} – {site}"),
        };
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n\
             <link rel=\"icon\" href=\"data:,\">\n<link rel=\"stylesheet\" href=\"{up}style.css\">\n\
             <link rel=\"alternate\" type=\"application/atom+xml\" title=\"Changes\" href=\"{up}changes.atom\">\n\
             <title>{title}</title>\n{scripts}</head>\n<body>\n\
             <a class=\"skip\" href=\"#main\">Skip to the content</a>\n\
             <header>\n<p class=\"site\">{site}</p>\n<nav aria-label=\"Catalog\"><ul>"
        );
        for (path, name) in self.places() {
            let _ = write!(page, "<li><a href=\"{up}{path}\">{name}</a></li>");
        }
        let _ = write!(
            page,
            "</ul></nav>\n</header>\n<main id=\"main\" tabindex=\"-1\">\n{body}</main>\n"
        );
        let _ = write!(
            page,
            "<footer><p class=\"faint\">Images of {}. The same content as \
             <a href=\"{up}api/v1/index.json\">JSON</a>; changes as an \
             <a href=\"{up}changes.atom\">Atom feed</a>.</p></footer>\n</body>\n</html>\n",
            self.source()
        );
        page.into_bytes()
    }

    /// Returns the address of the registry, if there is one.
    pub(crate) fn registry(&self) -> &str {
        match &self.source {
            Source::Registry(address) => address,
            Source::Repositories => "",
        }
    }

    fn source(&self) -> String {
        match &self.source {
            Source::Registry(address) => {
                format!("the registry <code>{}</code>", line(address, LONGEST_NAME))
            }
            Source::Repositories => "local repositories".to_owned(),
        }
    }

    fn places(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let upgrades = self.has_upgrades.then_some(("upgrades/index.html", "Upgrades"));
        [
            ("index.html", "Search"),
            ("images.html", "Images"),
            ("packages.html", "Packages"),
            ("systems/index.html", "Systems"),
            ("changes.html", "Changes"),
        ]
        .into_iter()
        .chain(upgrades)
    }
}

/// Returns a state in its box.
pub(crate) fn state_chip(state: State) -> String {
    let class = match state {
        State::Unreleased => "o n",
        State::Released => "o p",
        State::Deprecated | State::Retired => "o e",
        State::Revoked => "o f",
    };
    format!("<span class=\"{class}\">{}</span>", state.words())
}

/// Returns the day of a point in time.
pub(crate) fn day(time: Option<Timestamp>) -> String {
    time.map(|time| time.strftime("%F").to_string()).unwrap_or_default()
}

/// Returns a point in time for programs and people.
pub(crate) fn time(time: Timestamp) -> String {
    format!("<time datetime=\"{time:.0}\">{}</time>", date(time))
}

/// Returns a label with places where a narrow screen breaks it.
pub(crate) fn label(text: &str) -> String {
    let safe = escape_html(text);
    let signs = ["::", "/", "@", "%"];
    signs.iter().fold(safe, |safe, sign| safe.replace(sign, &format!("<wbr>{sign}")))
}

/// Begins a table. A narrow screen scrolls it by itself.
pub(crate) fn begin_table(page: &mut String, name: &str, columns: &[&str]) {
    let _ = write!(
        page,
        "<div class=\"s\" role=\"group\" aria-label=\"{name}\" tabindex=\"0\"><table>\n<tr>"
    );
    for column in columns {
        let _ = write!(page, "<th scope=\"col\">{column}</th>");
    }
    page.push_str("</tr>\n");
}

/// Ends a table.
pub(crate) fn end_table(page: &mut String) {
    page.push_str("</table></div>\n");
}

/// The columns of [`row`].
pub(crate) const COLUMNS: [&str; 7] =
    ["image", "system", "microarchitecture", "state", "tested", "size", "date"];

/// Writes an image as a row of a table; `up` leads to the first directory.
pub(crate) fn row(page: &mut String, model: &Model<'_>, number: usize, up: &str) {
    let Some(row) = model.rows.get(number) else { return };
    let image = row.image;
    let title = format!(
        "{}::{}/{}:{}",
        image.namespace, image.label.name, image.label.version, image.label.tag
    );
    let tested = row.outcome.map(|outcome| chip(Some(outcome))).unwrap_or_default();
    let _ = writeln!(
        page,
        "<tr><th scope=\"row\"><a href=\"{up}i/{}.html\">{}</a></th><td>{}</td><td>{}</td><td>{}</td>\
         <td>{tested}</td><td>{}</td><td>{}</td></tr>",
        model.page_name(number),
        escape_html(&title),
        escape_html(image.label.system.as_str()),
        escape_html(image.label.uarch.as_str()),
        state_chip(row.state),
        cabane_report::size(image.size),
        day(image.date)
    );
}
